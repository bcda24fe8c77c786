//! Transforms: functions from trace to trace. Each keeps the lines that it does not change, and the verifier checks its
//! result.
//!
//! | transform | does |
//! |---|---|
//! | [`vjp::joint`], [`vjp::value_and_grad`] | one trace with the values and the cotangents |
//! | [`jvp::jvp`] | one trace with the values and the tangents |
//! | [`vmap::vmap`] | a trace that runs on every slice of a batch |
//! | [`autocast::autocast`] | arguments cast according to autocast regions |
//! | [`split::split`] | a joint trace as forward and backward, with the fewest residuals |
//! | [`remat::rematerialise`] | lines of the forward run again in the backward, so that fewer values are kept |
//! | [`dce::dce`], [`cse::cse`], [`fold::fold`] | dead lines, equal lines, algebra with literal numbers |
//! | [`decompose::decompose`] | bodies in place of lines |
//! | [`unroll::unroll`] | lines on tensors of subclasses as lines on their fields |
//! | [`custom_vjp::settle`] | functions with a custom backward become their forward alone |

pub mod activity;
pub mod autocast;
mod batched_rules;
mod composite;
mod control;
mod cost;
pub mod cse;
pub mod custom_vjp;
pub mod dce;
pub mod decompose;
pub mod fold;
mod inline;
pub mod jvp;
mod list_arguments;
pub mod mutation;
mod once;
pub mod pipeline;
mod pullback;
mod regions;
pub mod remat;
mod rules;
pub mod split;
mod subclass;
pub mod unroll;
pub mod vjp;
pub mod vmap;

pub use activity::{Activity, LineRole, Reason};
pub use autocast::autocast;
pub use cost::{bytes as bytes_of, lines as line_costs};
pub use cse::cse;
pub use dce::dce;
pub use decompose::decompose;
pub use fold::fold;
pub use jvp::{Jvp, jvp};
pub use mutation::MutationPlan;
pub use pipeline::{At, Pipeline};
pub use pullback::Seed;
pub use remat::{Remat, RematReport, rematerialise};
pub use split::{Split, split};
pub use unroll::unroll;
pub use vjp::{Cotangent, Joint, joint, value_and_grad};
pub use vmap::vmap;

use crate::error::Error;
use crate::trace::verify;
use crate::trace::*;
use std::rc::Rc;
use std::time::Instant;

/// A trace with the inputs and writes of `source` and these lines and outputs.
fn finish(
    source: &Trace,
    by: &'static str,
    started: Instant,
    lines: Vec<Rc<BoundSymbol>>,
    outputs: &[ProxyId],
) -> Result<Trace, Error> {
    let mut trace = source.clone();
    trace.lines = lines;
    trace.outputs = outputs.to_vec();
    trace.epoch = trace.arena.close_epoch();
    trace.adopt(source, by, started);
    verify::step(source, &trace)?;
    Ok(trace)
}

/// Removes dead lines, folds algebra, merges equal lines, and removes dead lines again, as is usual after
/// differentiation.
///
/// # Errors
/// E730 in debug builds, and errors of binding folded lines.
pub fn simplify(trace: &Trace, side: crate::trace::SplitSide) -> Result<Trace, Error> {
    let trace = control::simplified(trace, side)?;
    let trace = dce(&trace)?;
    let trace = fold(&trace, side)?;
    let trace = cse(&trace, side)?;
    dce(&trace)
}
