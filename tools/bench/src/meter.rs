//! The cost of a repetition: wall-clock seconds, seconds of all threads, resident memory.

use std::time::Instant;

/// Seconds of one repetition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Wall-clock time.
    pub wall: f64,
    /// User and system time of all threads.
    pub cpu: f64,
}

/// Runs `run`; returns its cost and result.
pub fn measure<R>(run: impl FnOnce() -> R) -> (Cost, R) {
    let (cpu, start) = (process_seconds(), Instant::now());
    let result = run();
    let wall = start.elapsed().as_secs_f64();
    (Cost { wall, cpu: process_seconds() - cpu }, result)
}

/// User and system time of this process up to now; 0 if the system has no such clock.
#[cfg(target_os = "linux")]
fn process_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(not(target_os = "linux"))]
fn process_seconds() -> f64 {
    0.0
}

/// The current resident memory in kB; 0 if the system does not report it.
pub fn resident_kb() -> u64 {
    status("VmRSS:")
}

/// The peak of resident memory since [`forget_peak`], in kB.
pub fn peak_kb() -> u64 {
    status("VmHWM:")
}

/// Starts a new peak. Some sandboxes refuse this; the peak then counts from the start of the process.
pub fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

fn status(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_time() {
        let (cost, sum) = measure(|| (0..3_000_000u64).map(std::hint::black_box).sum::<u64>());
        assert!(sum > 0 && cost.wall > 0.0 && cost.cpu >= 0.0);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn memory_is_known() {
        assert!(resident_kb() > 0 && peak_kb() >= resident_kb() / 2);
    }
}
