//! `fulgurite conformance`: runs recorded calls of PyTorch operators, and writes the results.

use crate::args;
use crate::fault::{FAILED, Fault};
use crate::ui::live::Live;
use crate::ui::{Mode, Ui};
use fulgurite::files;
use fulgurite_conformance::Tensors;
use serde_json::json;
use std::path::Path;

/// Runs the command. Returns the exit status: 1 if a case could not be run.
///
/// # Errors
/// E910, E911: the cases. E913: the results.
pub fn run(args: &args::Conformance, ui: &Ui) -> Result<u8, Fault> {
    let (cases, results) = (args.cases.join("cases.jsonl"), args.out.join("results.jsonl"));
    let lines = std::fs::read_to_string(&cases).map_err(|e| Fault::unreadable(&cases, &e))?;
    let tensors = tensors(&args.cases.join("cases.safetensors"))?;
    let total = lines.lines().filter(|line| !line.trim().is_empty()).count();
    let live = Live::new(ui);
    let report = fulgurite_conformance::run(&lines, &tensors, args.only.as_deref(), |done| {
        if ui.mode() == Mode::Pretty && live.due() {
            live.draw(&[format!("{done} of {total} cases")]);
        }
    });
    let report = report
        .map_err(|(line, why)| Fault::usage("E911", format!("`{}:{line}` is no case: {why}", cases.display())))?;
    live.clear();
    write(&args.out, &report.results)?;
    let (ok, refused, unsupported) = (report.ran, report.refused, report.unsupported);
    if ui.mode() == Mode::Json {
        ui.object(&json!({"v": 1, "cases": report.read, "ok": ok, "refused": refused, "unsupported": unsupported,
            "missing": report.missing, "results": results}));
    } else {
        ui.status("Wrote", &format!("{}", results.display()));
        ui.result(&format!(
            "{} cases: {ok} ran, {refused} refused, {unsupported} unsupported",
            ok + refused + unsupported
        ));
        if ui.wishes().verbose {
            for (what, n) in &report.missing {
                ui.result(&format!("  {n:4} {what}"));
            }
        }
    }
    Ok(if unsupported == 0 { 0 } else { FAILED })
}

/// The tensors of a file; none if it does not exist.
fn tensors(path: &Path) -> Result<Tensors, Fault> {
    match std::fs::read(path) {
        Ok(data) => Tensors::read(data)
            .ok_or_else(|| Fault::usage("E911", format!("`{}` is no safetensors file", path.display()))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Tensors::default()),
        Err(e) => Err(Fault::unreadable(path, &e)),
    }
}

/// Writes the results completely or not at all.
fn write(folder: &Path, text: &str) -> Result<(), Fault> {
    let path = folder.join("results.jsonl");
    let fault = |e| Fault::unwritable(&path, &e);
    std::fs::create_dir_all(folder).and_then(|()| files::refresh(&path, text)).map_err(fault)
}
