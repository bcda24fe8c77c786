//! `fulgurite conformance`: runs calls of PyTorch operators that were recorded as cases, and writes what came out.
//!
//! The formats are those of docs/pytorch.md. Nothing here knows an operator: names become rows by the rows' own
//! `aten:` and `torch:` lists ([`fulgurite::foreign`]). Expectations are never read.

mod answer;
mod case;
mod file;
mod run;
mod value;

use crate::args;
use crate::fault::{FAILED, Fault};
use crate::ui::live::Live;
use crate::ui::{Mode, Ui};
use answer::{Answer, Status};
use case::Case;
use file::Tensors;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Runs the command. Gives the exit status: 1 if a case could not be run.
///
/// # Errors
/// E910, E911: the cases. E913: the results.
pub fn run(args: &args::Conformance, ui: &Ui) -> Result<u8, Fault> {
    let lines = read(&args.cases.join("cases.jsonl"))?;
    let tensors = Tensors::open(&args.cases.join("cases.safetensors"))?;
    let total = lines.lines().filter(|line| !line.trim().is_empty()).count();
    let mut results = String::new();
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut missing: BTreeMap<String, usize> = BTreeMap::new();
    let live = Live::new(ui);
    let mut done = 0;
    for (number, line) in lines.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let case = Case::parse(line).map_err(|why| {
            let place = format!("{}:{}", args.cases.join("cases.jsonl").display(), number + 1);
            Fault::usage("E911", format!("`{place}` is no case: {why}"))
        })?;
        if args.only.as_ref().is_none_or(|part| case.op.contains(part.as_str())) {
            let answer = run::run(&case, &tensors);
            *counts.entry(answer.status.word()).or_default() += 1;
            if let Status::Unsupported(why) = &answer.status {
                *missing.entry(format!("{}: {why}", case.op)).or_default() += 1;
            }
            let _ = writeln!(results, "{}", Answer::json(&answer, &case.id));
        }
        done += 1;
        if ui.mode() == Mode::Pretty && live.due() {
            live.draw(&[format!("{done} of {total} cases")]);
        }
    }
    live.clear();
    write(&args.out, &results)?;
    let count = |word| counts.get(word).copied().unwrap_or(0);
    let (ok, refused, unsupported) = (count("ok"), count("error"), count("unsupported"));
    if ui.mode() == Mode::Json {
        ui.object(&json!({"v": 1, "cases": done, "ok": ok, "refused": refused, "unsupported": unsupported,
            "missing": missing, "results": args.out.join("results.jsonl")}));
    } else {
        ui.status("Wrote", &format!("{}", args.out.join("results.jsonl").display()));
        ui.result(&format!(
            "{} cases: {ok} ran, {refused} refused, {unsupported} unsupported",
            ok + refused + unsupported
        ));
        if ui.wishes().verbose {
            for (what, n) in &missing {
                ui.result(&format!("  {n:4} {what}"));
            }
        }
    }
    Ok(if unsupported == 0 { 0 } else { FAILED })
}

fn read(path: &Path) -> Result<String, Fault> {
    std::fs::read_to_string(path).map_err(|e| Fault::unreadable(path, &e))
}

/// Writes the results as a whole or not at all.
fn write(folder: &Path, text: &str) -> Result<(), Fault> {
    let path = folder.join("results.jsonl");
    let fault = |e| Fault::unwritable(&path, &e);
    std::fs::create_dir_all(folder).map_err(fault)?;
    let part = folder.join("results.jsonl.part");
    std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, &path)).map_err(fault)
}
