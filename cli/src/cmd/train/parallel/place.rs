//! The role of this process in a run.

#[cfg(unix)]
use super::super::stop;
use crate::args::Processes;
use crate::fault::Fault;
use fulgurite::comm::{Communicator, Local, Ranks};
use std::time::Duration;

/// Role of a process in a run.
pub enum Place {
    /// The only process.
    Alone,
    /// One of several ranks, or a single one that works in this way because options ask for it.
    Rank(Ranks),
    /// The launcher of this many ranks on this machine.
    Launcher(usize),
}

/// Variable that [`super::launch`] sets for its ranks: the rank's number, the number of ranks, the folder where they
/// meet.
pub const RANK: &str = "FULGURITE_RANK";
/// Variables in which MPI tells a process how many processes there are.
const MPI: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"];
/// Seconds that a rank waits for another one, unless `--timeout` is given.
const LIMIT: f64 = 60.0;
/// The longest time limit in seconds: a day.
const LONGEST: f64 = 86400.0;
/// At most this many ranks on one machine, because a larger number is a typing error.
const MOST: usize = 64;

/// The role of this process, from its environment and options.
///
/// # Errors
/// E923: options and processes do not fit each other. E771, E773: the other ranks are not there.
pub fn place(args: &Processes) -> Result<Place, Fault> {
    let seconds = args.timeout.unwrap_or(LIMIT);
    if !(seconds > 0.0 && seconds <= LONGEST) {
        let claim = format!("`--timeout` is {seconds}, it must be above 0 and at most {LONGEST} seconds");
        return Err(Fault::usage("E923", claim));
    }
    let limit = Duration::from_secs_f64(seconds);
    let rank = |link: Box<dyn Communicator>| Place::Rank(Ranks::new(link, limit));
    if let Ok(told) = std::env::var(RANK) {
        return started(&told, limit).map(rank);
    }
    let several = args.pipeline.is_some() || args.data_parallel.is_some() || args.micro_batches.is_some();
    let started = MPI.iter().find_map(|name| std::env::var(name).ok()?.parse::<usize>().ok());
    if let Some(n) = started.filter(|n| *n > 1) {
        if let Some(ranks) = args.ranks {
            return Err(Fault::usage("E923", format!("`--ranks {ranks}` in one of {n} processes that MPI started"))
                .help("leave --ranks out: mpirun says how many there are"));
        }
        if !several {
            return Err(Fault::usage("E923", format!("{n} processes that MPI started would all train the same run"))
                .help("say how they share it: --data-parallel, or --pipeline zb1p"));
        }
        return joined(n).map(rank);
    }
    match args.ranks {
        Some(n) if !(1..=MOST).contains(&n) => {
            Err(Fault::usage("E923", format!("`--ranks` is {n}, it must be 1 to {MOST}")))
        }
        Some(n) if n > 1 => Ok(Place::Launcher(n)),
        None if !several => Ok(Place::Alone),
        _ => Ok(rank(Box::new(Local::ranks(1).remove(0)))),
    }
}

/// Number of the run's processes that share this machine's cores.
pub fn neighbours(args: &Processes) -> usize {
    let told = std::env::var("OMPI_COMM_WORLD_LOCAL_SIZE").or_else(|_| std::env::var("MPI_LOCALNRANKS"));
    args.ranks.or_else(|| told.ok()?.parse().ok()).unwrap_or(1)
}

#[cfg(feature = "mpi")]
fn joined(_: usize) -> Result<Box<dyn Communicator>, Fault> {
    Ok(Box::new(super::mpi::Mpi::start()?))
}

#[cfg(not(feature = "mpi"))]
fn joined(n: usize) -> Result<Box<dyn Communicator>, Fault> {
    Err(Fault::usage(
        "E923",
        format!("this is one of {n} processes that MPI started, and fulgurite was built without MPI"),
    )
    .help("build it with MPI: cargo build --release --package fulgurite-cli --features mpi")
    .help("or start processes on this machine without mpirun: --ranks"))
}

/// The rank that [`super::launch`] started with these words.
#[cfg(unix)]
fn started(told: &str, limit: Duration) -> Result<Box<dyn Communicator>, Fault> {
    use fulgurite::comm::Socket;
    let mut words = told.splitn(3, ' ');
    let mut next = || words.next();
    let (rank, size, folder) = (next(), next(), next());
    let number = |word: Option<&str>| word.and_then(|w| w.parse::<usize>().ok());
    match (number(rank), number(size), folder) {
        (Some(rank), Some(size), Some(folder)) if rank < size && size <= MOST => {
            heed();
            Ok(Box::new(Socket::meet(folder.as_ref(), rank, size, limit)?))
        }
        _ => Err(Fault::usage("E923", format!("the environment has {RANK}=`{told}`, which is no rank"))
            .help("unset it: `--ranks` sets it for the processes that it starts")),
    }
}

#[cfg(not(unix))]
fn started(_: &str, _: Duration) -> Result<Box<dyn Communicator>, Fault> {
    Err(Fault::usage("E923", "ranks of one machine meet by Unix sockets, which this system does not have"))
}

/// Listens to the launcher that started this process. A line asks to stop, and the end of the input ends the process.
#[cfg(unix)]
fn heed() {
    std::thread::spawn(|| {
        for line in std::io::stdin().lines() {
            if line.is_err() {
                break;
            }
            stop::press();
        }
        std::process::exit(i32::from(crate::fault::FAILED));
    });
}
