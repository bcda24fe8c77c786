//! Prepares lines of control flow for a gradient: a scan keeps its carries, and a loop with a bound becomes a scan.

use super::super::activity::{Activity, LineRole};
use super::arguments;
use crate::bind::{Builder, Context, copied};
use crate::error::Error;
use crate::trace::*;
use fulgurite_core::{DType, Dim, TensorTy};
use std::borrow::Cow;
use std::time::Instant;

/// The trace whose active scans keep their carries, and whose active loops with a bound are scans.
///
/// # Errors
/// Reports errors of binding.
pub(in crate::transforms) fn prepared<'t>(trace: &'t Trace, wrt: &[ProxyId]) -> Result<Cow<'t, Trace>, Error> {
    if trace.lines.iter().all(|line| !line.symbol.is_control()) {
        return Ok(Cow::Borrowed(trace));
    }
    let started = Instant::now();
    let arena = &trace.arena;
    let activity = Activity::sweep(arena, trace.root, &trace.lines, wrt, &trace.outputs);
    let mut b = Builder::continuing(trace);
    for line in &trace.lines {
        let active = matches!(activity.vjp_role(line), LineRole::Active { out_mask, .. } if out_mask.contains(&true));
        let Some(control) = arena.control(line).filter(|_| active) else {
            b.push(line.clone());
            continue;
        };
        b.context = Context { region: line.region, place: line.place, tags: line.own_tags, origin: line.origin };
        let reuse: Vec<Option<ProxyId>> = line.outs.iter().map(|p| Some(*p)).collect();
        match control.kind {
            ControlKind::Scan { carries, slices, length, reverse, keeps: false } if carries > 0 => {
                let mut body = control.programs[0].clone();
                body.outputs.extend_from_slice(&body.inputs[..carries]);
                let kind = ControlKind::Scan { carries, slices, length, reverse, keeps: true };
                let control = Control { kind, programs: vec![body], simplified: false };
                b.control(control, &arguments(line), &reuse)?;
            }
            ControlKind::While { carries, bound: Some(bound) } => {
                let [condition, body] = &control.programs[..] else { continue };
                masked(&mut b, (condition, body), carries, bound, &arguments(line), &reuse)?;
            }
            _ => b.push(line.clone()),
        }
    }
    let mut made = b.finish(&trace.outputs);
    made.epilogue = trace.epilogue.clone();
    made.adopt(trace, "control", started);
    Ok(Cow::Owned(made))
}

/// Records a loop as a scan over its bound. Each step is a choice: while the condition holds, the body runs; after
/// that the carries stay. The last carry says whether the condition holds.
fn masked(
    b: &mut Builder,
    (condition, body): (&LineProgram, &LineProgram),
    carries: usize,
    bound: usize,
    args: &[ProxyId],
    reuse: &[Option<ProxyId>],
) -> Result<(), Error> {
    let arena = b.arena().clone();
    let test = Trace::of_program(&arena, "condition", &copied(&arena, condition));
    let first = b.splice(&test, args)?;
    let truth = ProxyTy::tensor(TensorTy::new::<usize>(DType::Bool, &[]));
    // the inputs of a program: the carries, whether the loop goes on, and what all steps read
    let begin = |name: &str| {
        let mut inner = Builder::on(&arena, name).rooted(body.root);
        inner.context.region = body.root;
        let mut inputs: Vec<ProxyId> = body.inputs.iter().map(|p| inner.input(&arena.name(*p), arena.ty(*p))).collect();
        let goes_on = inner.input("goes_on", truth.clone());
        let added = inner.inputs_mut().pop();
        inner.inputs_mut().splice(carries..carries, added);
        inputs.insert(carries, goes_on);
        (inner, inputs)
    };
    let without = |inputs: &[ProxyId]| [&inputs[..carries], &inputs[carries + 1..]].concat();

    let (mut inner, inputs) = begin("then");
    let read = without(&inputs);
    let mut next = inner.splice(&Trace::of_program(&arena, "body", &copied(&arena, body)), &read)?;
    let test = Trace::of_program(&arena, "condition", &copied(&arena, condition));
    let again = inner.splice(&test, &[&next[..], &read[carries..]].concat())?;
    next.extend(again);
    let then = inner.finish(&next).to_program(body.loc);

    let (inner, inputs) = begin("otherwise");
    let otherwise = inner.finish(&inputs[..=carries]).to_program(body.loc);

    let (mut inner, inputs) = begin("step");
    inner.context.place = b.context.place;
    let choose = Control { kind: ControlKind::Cond, programs: vec![then, otherwise], simplified: false };
    let mut outputs = inner.control(choose, &[&[inputs[carries]], &inputs[..]].concat(), &[])?;
    outputs.extend_from_slice(&inputs[..=carries]);
    let step = inner.finish(&outputs).to_program(body.loc);

    let kind =
        ControlKind::Scan { carries: carries + 1, slices: 0, length: Dim::from(bound), reverse: false, keeps: true };
    let mut all = args.to_vec();
    all.splice(carries..carries, first);
    b.control(Control { kind, programs: vec![step], simplified: false }, &all, reuse)?;
    Ok(())
}
