//! Runs recorded calls of PyTorch operators, and writes the results.
//!
//! The formats are those of docs/pytorch.md. No operator is named here: names become rows through the `aten` and `torch`
//! lists of the databases ([`fulgurite::foreign`]). Expected results are never read.

// links the database of PyTorch's calls
use fulgurite_pytorch as _;

mod answer;
mod case;
mod file;
mod run;
mod value;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use answer::Status;
use case::Case;
pub use file::Tensors;

/// The results of all cases.
#[derive(Default)]
pub struct Tally {
    /// A line of `results.jsonl` for each case that was run.
    pub results: String,
    /// The cases that were read.
    pub read: usize,
    /// The cases that ran.
    pub ran: usize,
    /// The cases whose call was refused.
    pub refused: usize,
    /// The cases that could not be run.
    pub unsupported: usize,
    /// The reasons why cases could not be run, with the number of cases for each.
    pub missing: BTreeMap<String, usize>,
}

/// Runs the cases of `lines` whose operator's name contains `only`. After each line, `done` gets the number of lines
/// read.
///
/// # Errors
/// A line that is not a case: its number, from 1, and its fault.
pub fn run(
    lines: &str,
    tensors: &Tensors,
    only: Option<&str>,
    mut done: impl FnMut(usize),
) -> Result<Tally, (usize, String)> {
    let mut report = Tally::default();
    for (number, line) in lines.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let case = Case::parse(line).map_err(|why| (number + 1, why))?;
        if only.is_none_or(|part| case.op.contains(part)) {
            let answer = run::run(&case, tensors);
            match &answer.status {
                Status::Ok => report.ran += 1,
                Status::Refused(_) => report.refused += 1,
                Status::Unsupported(why) => {
                    report.unsupported += 1;
                    *report.missing.entry(format!("{}: {why}", case.op)).or_default() += 1;
                }
            }
            let _ = writeln!(report.results, "{}", answer.json(&case.id));
        }
        report.read += 1;
        done(report.read);
    }
    Ok(report)
}
