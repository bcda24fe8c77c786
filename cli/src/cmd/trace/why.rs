//! Explains a line of a trace: its part in the gradient, its recomputation, and its step in the program.

use super::life;
use crate::fault::Fault;
use crate::ui::format;
use fulgurite::bind::body_of;
use fulgurite::executors::{self, CompileOptions, Description, ExecError, Separate};
use fulgurite::trace::{BoundSymbol, BoundSymbolId, ProxyId, Role, Tag, Trace};
use fulgurite::transforms::vjp::float_inputs;
use fulgurite::transforms::{Activity, LineRole};
use serde_json::{Value, json};
use std::collections::HashMap;

/// The explanation of a line of `trace`, given by its number or the name of a result.
///
/// # Errors
/// E921 for a line that the trace does not have; the errors of compiling.
pub fn line(trace: &Trace, which: &str) -> Result<(Vec<String>, Value), Fault> {
    let at = find(trace, which)?;
    let line = &trace.lines()[at];
    let gradient = gradient(trace, at)?;
    let again = again(trace, at);
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

/// The part of the line in the derivative with respect to the float inputs.
fn gradient(trace: &Trace, at: usize) -> Result<String, Fault> {
    let line = &trace.lines()[at];
    match line.place.role {
        Role::Backward => return Ok("it belongs to a gradient".to_owned()),
        Role::Accumulate => return Ok("it adds two cotangents".to_owned()),
        Role::Recompute => return Ok("it runs again for a gradient".to_owned()),
        Role::Forward => {}
    }
    let activity = Activity::of(trace, &float_inputs(trace))?;
    let text = match activity.vjp_role(line) {
        LineRole::Constant(reason) => format!("skipped: {reason}"),
        LineRole::Active { out_mask, .. } if !out_mask.contains(&true) => {
            "skipped: no result that has a gradient depends on it".to_owned()
        }
        LineRole::Active { in_mask, .. } => {
            let params = line.symbol.row().sig.params.iter().zip(&in_mask).filter(|(_, active)| **active);
            let names: Vec<String> = params.map(|(p, _)| format!("`{}`", p.name.name)).collect();
            format!("cotangents pass it, to {}", names.join(", "))
        }
    };
    Ok(text)
}

/// Whether the line is recomputed for the backward.
fn again(trace: &Trace, at: usize) -> String {
    let line = &trace.lines()[at];
    let tags = trace.arena.effective_tags(line, trace.root);
    let late = |l: &BoundSymbol| matches!(l.place.role, Role::Backward | Role::Accumulate);
    if line.place.role != Role::Forward {
        return "it is no line of the forward".to_owned();
    }
    // A text does not record which line a line was cloned from. Operator and place identify it, unless a loop made
    // several.
    let alike = |role: Role| {
        let same = |l: &&std::rc::Rc<BoundSymbol>| {
            l.place.role == role && l.symbol.name() == line.symbol.name() && l.place.loc == line.place.loc
        };
        trace.lines().iter().filter(same).count()
    };
    let (clones, of) = (alike(Role::Recompute), alike(Role::Forward));
    if clones > 0 {
        let why = if tags.contains(Tag::CHECKPOINT) {
            "it stands in a checkpoint"
        } else if tags.contains(Tag::RECOMPUTE) {
            "it is tagged `recompute`"
        } else {
            "that was cheaper than keeping its results"
        };
        return match of {
            1 => format!("it runs again for the backward: {why}"),
            _ => format!("{clones} of {of} such lines at this place run again for the backward"),
        };
    }
    let read = |p: &ProxyId| trace.lines().iter().filter(|l| late(l)).any(|l| life::reads(l, *p));
    let kept: Vec<ProxyId> = line.outs.iter().chain(&line.aux).copied().filter(read).collect();
    if kept.is_empty() {
        return "no: no gradient reads its results".to_owned();
    }
    let size = kept.iter().map(|p| life::bytes(trace, *p)).sum();
    let names: Vec<String> = kept.iter().map(|p| format!("`{}`", trace.arena.name(*p))).collect();
    let why = if tags.contains(Tag::CHECKPOINT) {
        "a gradient outside of its checkpoint reads it"
    } else if tags.contains(Tag::NO_AUTO_RECOMPUTE) {
        "it is tagged `no_auto_recompute`"
    } else {
        "nothing asks for it (a checkpoint, a tag, a budget by `rematerialise`)"
    };
    format!("no: {} kept for a gradient, {}; {why}", names.join(", "), format::bytes(size))
}

/// The step that runs the line, and the neighbouring lines that are not fused with it.
fn program(trace: &Trace, at: usize) -> Result<(String, Vec<String>), Fault> {
    let bodies = |line: &BoundSymbol| {
        body_of(&trace.arena, line).map_err(|e| ExecError::new(e.code(), e.to_string()).at(line.id))
    };
    let options = CompileOptions { explain: true, ..CompileOptions::new(&bodies) };
    let compiled = executors::compile(trace, &options).map_err(|e| fulgurite::Error::new(e.code, e.message))?;
    let described = compiled.describe();
    // Lines of bodies belong to the line of the trace.
    let mut owner: HashMap<BoundSymbolId, usize> = HashMap::new();
    for (i, line) in trace.lines().iter().enumerate() {
        own(line, i, &mut owner);
    }
    let mut texts = Vec::new();
    for (line, other, why) in &described.apart {
        let (Some(line), Some(other)) = (owner.get(line), owner.get(other)) else { continue };
        if *line == at && *other != at {
            let text = format!("from {}: {}", call(trace, &trace.lines()[*other]), reason(*why));
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
    }
    Ok((steps(&described, at, &owner), texts))
}

fn own(line: &BoundSymbol, at: usize, owner: &mut HashMap<BoundSymbolId, usize>) {
    owner.insert(line.id, at);
    if let Some(Some(body)) = line.body.get() {
        body.lines.iter().for_each(|inner| own(inner, at, owner));
    }
}

fn steps(described: &Description, at: usize, owner: &HashMap<BoundSymbolId, usize>) -> String {
    let has = |lines: &[BoundSymbolId]| lines.iter().any(|l| owner.get(l) == Some(&at));
    let steps = described.steps.iter().enumerate().filter(|(_, s)| has(&s.lines));
    let texts: Vec<String> =
        steps.map(|(i, s)| format!("step {i}, {} {}  [{}]", s.executor, s.what, s.rows.join(" "))).collect();
    match texts.is_empty() {
        true => "no step: it is a window of what it reads, made where it is read, or needed by nothing".to_owned(),
        false => texts.join("; "),
    }
}

fn reason(why: Separate) -> &'static str {
    match why {
        Separate::Kernel => "that is a product, a scan or a kernel of its own",
        Separate::Again => "what runs again for the backward does not meet the forward",
        Separate::Between => "another step has to run in between",
        Separate::Loops => "their loops do not agree, or are too large for one program",
    }
}
