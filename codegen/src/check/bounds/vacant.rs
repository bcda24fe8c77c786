//! E105 of windows. A maximum has no value over a window whose elements are all skipped, or that a condition on
//! places leaves empty. The loops are run with a marker access in the place of the missing value.

use fulgurite_core::Scalar;
use fulgurite_core::eval::loop_nest::{self, Array, NestError};
use fulgurite_core::lang::{Block, Expr, Node, Outside, Red};
use fulgurite_core::loop_nest::{LoopExpr, Nest, NestOut, SOp, SOutside};
use fulgurite_core::signature::Refusal;

use crate::check::machine::Fault;
use crate::check::walk::{self, any_in, any_part, find};

/// The index of a marker access, which no loop computes.
const MARK: i64 = i64::MIN;

/// Whether a reduction has no value over no elements.
fn has_none(red: Red) -> bool {
    matches!(red, Red::Max | Red::Min | Red::ArgMax | Red::ArgMin | Red::Mean)
}

/// Whether some reduction of `nest` may be empty at places that do not depend on elements.
pub(super) fn may_be(nest: &Nest) -> bool {
    any_in(nest, &mut |part| mark(part.op()).is_some())
}

/// Whether a body has a reduction without a value for no elements that may skip some.
pub fn may_skip(body: &Block) -> bool {
    let skips = |e: &Expr| matches!(&*e.node, Node::Access(access) if access.outside == Outside::Skip);
    walk::any(body, &mut |e| match &*e.node {
        Node::Reduce(r) if has_none(r.red) && r.otherwise.is_none() => {
            r.filter.is_some() || walk::any_expr(&r.body, &mut |part| skips(part))
        }
        _ => false,
    })
}

/// The fault of a reduction that is empty when the loops of a call run on these data.
pub(super) fn check(
    body: &Block,
    nest: &Nest,
    (tensors, numbers): (&[Array<f64>], &[Scalar]),
    steps: u64,
) -> Option<Fault> {
    let marked = |out: &NestOut| NestOut { expr: marked(&out.expr), ..out.clone() };
    let nest = Nest { outs: nest.outs.iter().map(marked).collect(), ..nest.clone() };
    let Err(NestError::OutOfRange { index: MARK, .. }) =
        loop_nest::run_within(&nest, tensors, numbers, &mut steps.clone())
    else {
        return None;
    };
    let is_open = |e: &Expr| matches!(&*e.node, Node::Reduce(r) if has_none(r.red) && r.otherwise.is_none());
    let mut words = Vec::new();
    walk::block(body, &mut |e| {
        if let Node::Reduce(r) = &*e.node
            && is_open(e)
        {
            words.push(r.red.word());
        }
    });
    let message = format!("`{}` of a window of which no element is inside has no value", words.first()?);
    let refusal = Refusal::new("E705", message)
        .help("required: 2 * padding <= K, and dilation <= the size where there is padding");
    Some(Fault { at: find(body, &is_open), ..refusal.into() })
}

fn marked(e: &LoopExpr) -> LoopExpr {
    e.rebuilt(&mark_parts)
}

/// The operation with a marker and with marked parts. `None` if it needs no marker.
fn mark_parts(op: &SOp) -> Option<SOp> {
    mark(op).map(|op| op.map(&marked))
}

/// A reduction that may be empty, with a marker access as its value for no elements.
fn mark(op: &SOp) -> Option<SOp> {
    let SOp::Reduce { red, vars, filter, body, otherwise: None } = op else { return None };
    let by_place = filter.as_ref().is_some_and(|filter| !reads(filter));
    if !has_none(*red) || filter.is_some() && !by_place {
        return None;
    }
    let (mut skipped, mut of_elements, mut load) = (false, false, None);
    skips(body, &mut |tensor, idx: &[LoopExpr], skip| {
        load = load.or(Some((tensor, idx.len())).filter(|(_, rank)| *rank > 0));
        skipped |= skip;
        of_elements |= skip && idx.iter().any(reads);
    });
    let (tensor, rank) = load.filter(|_| (skipped || by_place) && !of_elements && !chosen(body))?;
    let idx = vec![LoopExpr::int(MARK); rank];
    let mark = LoopExpr::new(SOp::Load { tensor, idx, outside: SOutside::Refuse }, body.ty());
    Some(SOp::Reduce {
        red: *red,
        vars: vars.clone(),
        filter: filter.clone(),
        body: body.clone(),
        otherwise: Some(mark),
    })
}

/// Calls `f` with each access that decides whether an element counts, and with whether it skips. Accesses within an
/// inner reduction decide about elements of that reduction.
fn skips<'a>(e: &'a LoopExpr, f: &mut dyn FnMut(usize, &'a [LoopExpr], bool)) {
    match e.op() {
        SOp::Reduce { .. } => {}
        SOp::Load { tensor, idx, outside } => f(*tensor, idx, *outside == SOutside::Skip),
        op => op.parts(&mut |part| skips(part, f)),
    }
}

/// Whether elements decide which branch of a selection is taken.
fn chosen(e: &LoopExpr) -> bool {
    any_part(e, &mut |part| matches!(part.op(), SOp::Select(cond, ..) if reads(cond)))
}

/// Whether an expression reads elements or random numbers.
fn reads(e: &LoopExpr) -> bool {
    any_part(e, &mut |part| matches!(part.op(), SOp::Load { .. } | SOp::Elem(_) | SOp::Uniform { .. }))
}
