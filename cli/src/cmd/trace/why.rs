//! Explains a line of a trace: its part in the gradient, its recomputation, and its step in the program.

use super::life;
use crate::fault::Fault;
use crate::ui::format;
use fulgurite::executors::Description;
use fulgurite::trace::{BoundSymbol, BoundSymbolId, Trace};
use fulgurite::viewer::Steps;
use fulgurite::viewer::notes::{LineNotes, separate};
use serde_json::{Value, json};

/// The explanation of a line of `trace`, given by its number or the name of a result.
///
/// # Errors
/// E921 for a line that the trace does not have; the errors of compiling.
pub fn line(trace: &Trace, which: &str) -> Result<(Vec<String>, Value), Fault> {
    let at = find(trace, which)?;
    let line = &trace.lines()[at];
    let notes = LineNotes::of(trace)?;
    let (gradient, again) = (notes.gradient(line), notes.again(line, format::bytes));
    let (step, apart) = program(trace, at)?;
    let mut out = vec![call(trace, line)];
    out.push(format!("gradient  {gradient}"));
    out.push(format!("again     {again}"));
    out.push(format!("runs in   {step}"));
    for (i, text) in apart.iter().enumerate() {
        out.push(format!("{}{text}", if i == 0 { "apart     " } else { "          " }));
    }
    let object = json!({"v": 1, "line": at + 1, "op": line.symbol.name(), "gradient": gradient, "again": again,
        "step": step, "apart": apart});
    Ok((out, object))
}

fn find(trace: &Trace, which: &str) -> Result<usize, Fault> {
    if let Ok(number) = which.parse::<usize>() {
        let count = trace.lines().len();
        let found = number.checked_sub(1).filter(|at| *at < count);
        return found.ok_or_else(|| Fault::usage("E921", format!("this stage has lines 1 to {count}")));
    }
    let p = life::named(trace, which)?;
    let made = trace.lines().iter().position(|l| life::makes(l, p));
    made.ok_or_else(|| Fault::usage("E921", format!("`{which}` is an input: no line makes it")))
}

fn call(trace: &Trace, line: &BoundSymbol) -> String {
    let made: Vec<String> = line.outs.iter().map(|p| trace.arena.name(*p).to_string()).collect();
    format!("{} = {}(…)  {}", made.join(", "), line.symbol.name(), line.place.loc)
}

/// The step that runs the line, and the neighbouring lines that are not fused with it.
fn program(trace: &Trace, at: usize) -> Result<(String, Vec<String>), Fault> {
    let Steps { described, owner } = Steps::of(trace, &[])?;
    let mut texts = Vec::new();
    for (line, other, why) in &described.apart {
        let (Some(line), Some(other)) = (owner.get(line), owner.get(other)) else { continue };
        if *line == at && *other != at {
            let text = format!("from {}: {}", call(trace, &trace.lines()[*other]), separate(*why));
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
    }
    Ok((steps(&described, at, &|id| owner.get(id).copied()), texts))
}

fn steps(described: &Description, at: usize, line_of: &dyn Fn(&BoundSymbolId) -> Option<usize>) -> String {
    let has = |lines: &[BoundSymbolId]| lines.iter().any(|l| line_of(l) == Some(at));
    let steps = described.steps.iter().enumerate().filter(|(_, s)| has(&s.lines));
    let texts: Vec<String> =
        steps.map(|(i, s)| format!("step {i}, {} {}  [{}]", s.executor, s.what, s.rows.join(" "))).collect();
    match texts.is_empty() {
        true => "no step: it is a window of what it reads, made where it is read, or needed by nothing".to_owned(),
        false => texts.join("; "),
    }
}
