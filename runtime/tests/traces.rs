//! What each transform prints for the traces in `tests/traces`. `UPDATE_EXPECT=1` rewrites them.

#![allow(missing_docs)]

mod common;

use common::files::{check, plain};
use fulgurite_runtime::trace::{PrintOptions, SplitSide, Trace};
use fulgurite_runtime::transforms::{
    Seed, cse, dce, decompose, fold, joint, jvp, simplify, split, value_and_grad, vjp::float_inputs,
};
use fulgurite_runtime::{Error, bind::body_of};

fn text(result: Result<Trace, Error>) -> Result<String, String> {
    result.map(|t| plain(&t)).map_err(|e| e.to_string())
}

/// With the places of the user's calls.
fn located(trace: &Trace) -> String {
    trace.print(&PrintOptions { provenance: false, ..PrintOptions::default() })
}

#[test]
fn vjp_traces() {
    check("vjp", |t| {
        let made = joint(t, &float_inputs(t), &vec![Seed::Input; t.outputs().len()]).map_err(|e| e.to_string())?;
        Ok(located(&made.trace))
    });
}

#[test]
fn value_and_grad_traces() {
    check("value_and_grad", |t| {
        text(value_and_grad(t, &float_inputs(t)).and_then(|t| simplify(&t, SplitSide::Before)))
    });
}

#[test]
fn jvp_traces() {
    check("jvp", |t| text(jvp(t, &float_inputs(t)).and_then(|j| dce(&j.trace))));
}

#[test]
fn split_traces() {
    check("split", |t| {
        let made = joint(t, &float_inputs(t), &vec![Seed::Input; t.outputs().len()])
            .and_then(|j| j.edit(|t| simplify(t, SplitSide::Before)))
            .and_then(|j| split(&j))
            .map_err(|e| e.to_string())?;
        Ok(located(&made.forward) + &located(&made.backward))
    });
}

#[test]
fn dce_traces() {
    check("dce", |t| text(dce(t)));
}

#[test]
fn cse_traces() {
    check("cse", |t| text(cse(t, SplitSide::Before)));
}

#[test]
fn fold_traces() {
    check("fold", |t| text(fold(t, SplitSide::Before).and_then(|t| dce(&t))));
}

#[test]
fn decompose_traces() {
    check("decompose", |t| text(decompose(t, &mut |_| false)));
}

#[test]
fn body_traces() {
    check("bodies", |t| {
        for line in t.lines() {
            body_of(&t.arena, line).map_err(|e| e.to_string())?;
        }
        Ok(t.print(&PrintOptions { depth: 2, ..PrintOptions::plain() }))
    });
}
