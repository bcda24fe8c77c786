//! The table of stages: number of lines, duration, and changes.

use crate::ui::format;
use fulgurite::jit::CompileStage;
use fulgurite::trace::Trace;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// At most this many operators are named in a change, because it is one line.
const NAMED: usize = 4;

/// The lines of the table, the head first.
pub fn lines(stages: &[CompileStage]) -> Vec<String> {
    let width = stages.iter().map(|s| s.name.len()).max().unwrap_or(0).max(5);
    let mut out = vec![format!("{:width$}  lines       ms   what changed", "stage")];
    for (i, stage) in stages.iter().enumerate() {
        let ms = stage.time.as_secs_f64() * 1e3;
        let changed = said(stages, i);
        out.push(format!("{:width$}  {:5}  {ms:7.1}   {changed}", stage.name, stage.lines));
    }
    out
}

/// The table as objects.
pub fn json(stages: &[CompileStage]) -> Vec<Value> {
    let one = |(i, s): (usize, &CompileStage)| {
        let ms = s.time.as_secs_f64() * 1e3;
        json!({"name": s.name, "lines": s.lines, "ms": ms, "changed": change(before(stages, i), s), "remark": s.remark})
    };
    stages.iter().enumerate().map(one).collect()
}

/// The remark of a stage, else its changes.
fn said(stages: &[CompileStage], i: usize) -> String {
    stages[i].remark.clone().unwrap_or_else(|| change(before(stages, i), &stages[i]))
}

/// The last stage before number `i` with a text.
fn before(stages: &[CompileStage], i: usize) -> Option<&CompileStage> {
    stages[..i].iter().rev().find(|s| s.text.is_some())
}

/// The difference between the operators of a stage and those of the previous one.
fn change(before: Option<&CompileStage>, stage: &CompileStage) -> String {
    let Some(new) = operators(stage) else { return program(stage) };
    let Some(old) = before.and_then(operators) else { return named(new) };
    let mut difference = new;
    for (name, n) in old {
        *difference.entry(name).or_insert(0) -= n;
    }
    difference.retain(|_, n| *n != 0);
    named(difference)
}

/// The first line of a stage that is not a trace, with units after sizes.
fn program(stage: &CompileStage) -> String {
    let head = stage.text.as_deref().and_then(|text| text.lines().next()).unwrap_or_default();
    let mut out = String::new();
    for piece in head.split_inclusive(|c: char| !c.is_ascii_digit()) {
        let digits = piece.trim_end_matches(|c: char| !c.is_ascii_digit());
        match digits.parse() {
            // Counts of steps are small, sizes are not.
            Ok(n) if digits.len() > 4 => out += &format!("{}{}", format::bytes(n), &piece[digits.len()..]),
            _ => out += piece,
        }
    }
    out.replace("B bytes", "B")
}

/// The number of calls of each operator in a stage's trace.
fn operators(stage: &CompileStage) -> Option<BTreeMap<&'static str, i64>> {
    let trace = Trace::parse(stage.text.as_deref()?).ok()?;
    let mut counts = BTreeMap::new();
    for line in trace.lines() {
        *counts.entry(line.symbol.name()).or_insert(0) += 1;
    }
    Some(counts)
}

/// The largest counts: `+33 mul, -4 add, …`.
fn named(counts: BTreeMap<&'static str, i64>) -> String {
    let mut sorted: Vec<(&str, i64)> = counts.into_iter().collect();
    sorted.sort_by_key(|(name, n)| (-n.abs(), *name));
    let mut parts: Vec<String> = sorted.iter().take(NAMED).map(|(name, n)| format!("{n:+} {name}")).collect();
    if sorted.len() > NAMED {
        parts.push("…".to_owned());
    }
    parts.join(", ")
}
