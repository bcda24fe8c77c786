//! Derives how an expression combines partial results: those over parts of an index variable's range, and those over
//! partial tensors.

use super::Fold;
use crate::builtins::Builtin;
use crate::loop_nest::{LoopExpr, SOp, SOutside, VarId};
use crate::{DType, Scalar};

/// Whether one of these variables or tensors occurs in the expression.
pub(super) fn mentions(e: &LoopExpr, vars: &[VarId], tensors: &dyn Fn(usize) -> bool) -> bool {
    let mut found = match e.op() {
        SOp::Var(v) => vars.contains(v),
        SOp::Elem(t) | SOp::Load { tensor: t, .. } => tensors(*t),
        SOp::Uniform { key, .. } => tensors(*key),
        _ => false,
    };
    e.op().parts(&mut |part| found |= mentions(part, vars, tensors));
    found
}

/// The reduction over these variables that makes up the whole expression, up to factors outside of it: it combines the
/// values over parts of their range.
pub(super) fn over(e: &LoopExpr, cut: &[VarId]) -> Option<Fold> {
    let free = |e: &LoopExpr| !mentions(e, cut, &|_| false);
    let linear = |fold: Fold| matches!(fold, Fold::Sum | Fold::Avg).then_some(fold);
    match e.op() {
        SOp::Reduce { red, vars, filter, otherwise: None, .. } if vars.iter().any(|r| cut.contains(&r.var)) => {
            // A filter excludes a different number of elements in each part.
            Fold::of(*red).filter(|fold| filter.is_none() || *fold == Fold::Sum)
        }
        // A reduction of the same kind over other variables.
        SOp::Reduce { red, body, filter: None, otherwise: None, .. } => {
            over(body, cut).filter(|f| Fold::of(*red) == Some(*f))
        }
        SOp::Cast(x) if floats(e, x) => over(x, cut),
        SOp::Detach(x) => over(x, cut),
        SOp::Call(Builtin::Neg, args) => linear(over(&args[0], cut)?),
        SOp::Call(Builtin::Div, args) if free(&args[1]) => linear(over(&args[0], cut)?),
        SOp::Call(Builtin::Mul, args) if free(&args[1]) => linear(over(&args[0], cut)?),
        SOp::Call(Builtin::Mul, args) if free(&args[0]) => linear(over(&args[1], cut)?),
        SOp::Call(Builtin::Add | Builtin::Sub, args) => {
            let (a, b) = (over(&args[0], cut)?, over(&args[1], cut)?);
            if a == b { linear(a) } else { None }
        }
        _ => None,
    }
}

/// Whether a cast keeps sums: one between floats does, since rounding belongs to computing.
fn floats(to: &LoopExpr, from: &LoopExpr) -> bool {
    let real = |ty: DType| ty.is_float();
    to.ty() == from.ty() || real(to.ty()) && real(from.ty())
}

/// How an expression depends on some tensors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Degree {
    /// The expression is 0.
    Zero,
    /// The expression does not depend on them.
    Constant,
    /// The expression is linear in them: sums become sums.
    Linear,
    /// Any other dependency.
    Other,
}

/// How the expression depends on the tensors for which `of` holds.
pub(super) fn degree(e: &LoopExpr, of: &dyn Fn(usize) -> bool) -> Degree {
    use Degree::*;
    if !mentions(e, &[], of) {
        let zero = e.as_const().is_some_and(|c| matches!(c, Scalar::Int(0)) || c.as_f64() == 0.0);
        return if zero { Zero } else { Constant };
    }
    let constant = |e: &LoopExpr| !mentions(e, &[], of);
    let alike = |a: Degree, b: Degree| match (a, b) {
        (Zero, d) | (d, Zero) => d,
        (Linear, Linear) => Linear,
        _ => Other,
    };
    match e.op() {
        SOp::Elem(_) => Linear,
        SOp::Load { idx, outside, .. } => match outside {
            _ if !idx.iter().all(constant) => Other,
            SOutside::Refuse | SOutside::Skip => Linear,
            SOutside::Value(v) => alike(Linear, degree(v, of)),
        },
        SOp::Cast(x) if floats(e, x) => degree(x, of),
        SOp::Detach(x) => degree(x, of),
        SOp::Call(Builtin::Neg, args) => degree(&args[0], of),
        SOp::Call(Builtin::Add | Builtin::Sub, args) => alike(degree(&args[0], of), degree(&args[1], of)),
        SOp::Call(Builtin::Mul, args) if constant(&args[1]) => degree(&args[0], of),
        SOp::Call(Builtin::Mul, args) if constant(&args[0]) => degree(&args[1], of),
        SOp::Call(Builtin::Div, args) if constant(&args[1]) => degree(&args[0], of),
        SOp::Select(c, a, b) if constant(c) => alike(degree(a, of), degree(b, of)),
        SOp::Reduce { red, vars, filter, body, otherwise } if matches!(Fold::of(*red), Some(Fold::Sum | Fold::Avg)) => {
            let still = vars.iter().all(|r| constant(&r.lo) && constant(&r.hi)) && filter.iter().all(constant);
            let rest = otherwise.as_ref().map_or(Zero, |o| degree(o, of));
            if still { alike(degree(body, of), rest) } else { Other }
        }
        _ => Other,
    }
}

/// Whether the expression only selects elements of these tensors, so that it also selects the largest of their partial
/// values.
pub(super) fn picks(e: &LoopExpr, of: &dyn Fn(usize) -> bool) -> bool {
    let constant = |e: &LoopExpr| !mentions(e, &[], of);
    match e.op() {
        SOp::Elem(t) => of(*t),
        SOp::Load { tensor, idx, outside: SOutside::Refuse } => of(*tensor) && idx.iter().all(constant),
        SOp::Select(c, a, b) => constant(c) && picks(a, of) && picks(b, of),
        _ => false,
    }
}
