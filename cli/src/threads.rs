//! How many threads compute.

use crate::fault::Fault;

/// More threads than this is a slip of the keyboard.
const MOST: usize = 1024;

/// Sets the number of threads for the whole process; without one, its share of all cores where `processes` of this kind
/// run. Gives the number.
///
/// # Errors
/// E914: none, or too many.
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
