//! Records, compiles and runs a program of many lines, and its gradient, within a stated time and memory.
//!
//! `cargo run --release -p fulgurite-programs --bin long -- 60000` takes 60,000 lines, which is also the number if none
//! is given. It prints the time of each stage and the most memory of the process.
//!
//! The exit status is 1 if a stage takes longer than [`SECONDS`] for each 10,000 lines, if the process needs more than
//! [`MIB`] for each 10,000 lines, or if a result is wrong.

use fulgurite::prelude::*;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The longest time of a stage for each 10,000 lines. A stage that looked at every pair of lines would take far longer
/// for 60,000 of them.
const SECONDS: f64 = 20.0;
/// The most memory for each 10,000 lines, in MiB.
const MIB: f64 = 512.0;

/// A function of `lines` operators, of which none is like its neighbours, so that neither equal lines nor constants
/// shorten the program. Its values stay below 1.
fn body(x: &Tensor, w: &Tensor, lines: usize) -> Tensor {
    let mut y = x.clone();
    let mut made = 0;
    let mut turn = 0;
    while made < lines {
        // two lines each
        y = match turn % 5 {
            0 => (&y * w).sin(),
            1 => (&y + x).tanh(),
            2 => (&y - w).cos(),
            3 => y.matmul(w).tanh(),
            _ => (y.abs() + (turn as f64 * 1e-6)).sigmoid(),
        };
        made += if turn % 5 == 4 { 3 } else { 2 };
        turn += 1;
    }
    y
}

fn main() -> ExitCode {
    let lines = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(60_000);
    match run(lines, SECONDS * lines as f64 / 10_000.0, MIB * lines as f64 / 10_000.0 + 200.0) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

/// Runs all stages for a number of lines, each within some seconds, and all within some MiB.
fn run(lines: usize, seconds: f64, mib: f64) -> Result<(), String> {
    let said = |e: Error| e.to_string();
    let x = ops::randn(Key::new(1), (8, 8)) * 0.1;
    let w = ops::randn(Key::new(2), (8, 8)) * 0.1;
    let timed = |what: &str, stage: &mut dyn FnMut() -> Result<Vec<f32>, Error>| {
        let start = Instant::now();
        let made = stage().map_err(said)?;
        within(what, start.elapsed(), seconds)?;
        Ok::<_, String>(made)
    };
    let forward = jit(move |(x, w): (Tensor, Tensor)| body(&x, &w, lines));
    let first = timed("recorded, compiled and run", &mut || forward.call((x.clone(), w.clone()))?.to_vec())?;
    let again = timed("run again", &mut || forward.call((x.clone(), w.clone()))?.to_vec())?;
    let gradient = jit(move |(x, w): (Tensor, Tensor)| value_and_grad(&x, |x| body(x, &w, lines).sum()));
    let mut slope = || gradient.call((x.clone(), w.clone()))?.1.to_vec();
    let slopes = timed("with its gradient: recorded, compiled and run", &mut slope)?;
    let slopes_again = timed("with its gradient: run again", &mut slope)?;
    if first != again || slopes != slopes_again {
        return Err("a second run gives other bits".to_owned());
    }
    if !first.iter().chain(&slopes).all(|y| y.is_finite()) {
        return Err("a value is not finite".to_owned());
    }
    let Some(most) = most_memory() else { return Ok(()) };
    println!("{most:8.0} MiB at most");
    match most <= mib {
        true => Ok(()),
        false => Err(format!("{lines} lines take {most:.0} MiB, and {mib:.0} at most are allowed")),
    }
}

fn within(what: &str, took: Duration, seconds: f64) -> Result<(), String> {
    let took = took.as_secs_f64();
    println!("{took:8.2} s {what}");
    match took <= seconds {
        true => Ok(()),
        false => Err(format!("{what} takes {took:.1} s, and {seconds:.1} at most are allowed")),
    }
}

/// The most resident memory of the process so far, in MiB; none where the system does not say.
fn most_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0)
}

/// A debug build is slower, so that it gets more time for fewer lines.
#[test]
fn a_thousand_lines_are_compiled_and_differentiated() {
    assert_eq!(run(1000, 60.0, 1024.0), Ok(()));
}
