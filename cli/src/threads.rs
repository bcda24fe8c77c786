//! The number of computing threads.

use crate::fault::Fault;

/// At most this many threads, because a larger number is a typing error.
const MOST: usize = 1024;

/// Sets the number of threads for the whole process; by default, an equal share of all cores among `processes`
/// processes. Returns the number.
///
/// # Errors
/// E914: zero or too many.
pub fn set(wanted: Option<usize>, processes: usize) -> Result<usize, Fault> {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let threads = wanted.unwrap_or((cores / processes.max(1)).max(1));
    if !(1..=MOST).contains(&threads) {
        return Err(Fault::usage("E914", format!("`--threads` is {threads}, it must be 1 to {MOST}"))
            .note(format!("this machine has {cores}"))
            .help("leave it out to use them all"));
    }
    fulgurite::executors::set_threads(threads);
    Ok(threads)
}
