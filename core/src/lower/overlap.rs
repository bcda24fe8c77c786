//! Restricts windows that are far larger than their tensors to the part that can overlap them. A pool with a kernel of
//! a thousand million elements over eight elements is a valid call, and each of its windows sees eight.
//!
//! An element takes no part in a reduction if an access skips it, if the filter excludes it, or if its value is the
//! neutral one because its access lies outside of the tensor.

use super::Lowering;
use super::build::int_op;
use super::vacant::{self, Guard};
use crate::builtins::Builtin;
use crate::lang::ast::Red;
use crate::loop_nest::*;
use crate::{DType, Dim, Scalar};

/// At most this many elements of a range stay unrestricted: windows of models are shorter, and the recognisers of
/// windows expect ranges that start at 0.
const LONG: i64 = 4096;

/// `coefficient · var + rest`, with the bounds of the rest.
struct Line {
    coefficient: i64,
    rest: (i64, i64),
}

/// The values of a variable that may matter, both ends included; empty if the second is smaller.
type Span = (i128, i128);

impl Line {
    /// Narrows the values of the variable to those at which the line can be at least `least`.
    fn at_least(&self, least: i128, span: &mut Span) {
        let (c, most) = (i128::from(self.coefficient), i128::from(self.rest.1));
        match c {
            0 => {}
            1.. => span.0 = span.0.max(ceil(least - most, c)),
            _ => span.1 = span.1.min((most - least).div_euclid(-c)),
        }
    }

    /// Narrows the values of the variable to those at which the line can be at most `most`.
    fn at_most(&self, most: i128, span: &mut Span) {
        let (c, least) = (i128::from(self.coefficient), i128::from(self.rest.0));
        match c {
            0 => {}
            1.. => span.1 = span.1.min((most - least).div_euclid(c)),
            _ => span.0 = span.0.max(ceil(least - most, -c)),
        }
    }
}

/// The part of a range that is walked.
pub(super) struct Part {
    /// The number of values before it.
    skipped: i64,
    walked: i64,
    whole: i64,
}

/// The flat position in the whole ranges, for one in their parts.
pub(super) fn in_whole(mut flat: LoopExpr, parts: &[Part]) -> LoopExpr {
    let (mut sum, mut stride) = (LoopExpr::int(0), 1i64);
    for part in parts.iter().rev() {
        let digit = int_op(Builtin::RemFloor, flat.clone(), LoopExpr::int(part.walked));
        let place = int_op(Builtin::Add, digit, LoopExpr::int(part.skipped));
        sum = int_op(Builtin::Add, int_op(Builtin::Mul, place, LoopExpr::int(stride)), sum);
        flat = int_op(Builtin::DivFloor, flat, LoopExpr::int(part.walked));
        stride = stride.saturating_mul(part.whole);
    }
    sum
}

impl Lowering<'_> {
    /// Narrows long ranges to the values whose elements take part in the reduction; returns the parts if any range
    /// changed.
    pub(super) fn overlap(
        &self,
        red: Red,
        ranges: &mut [SRange],
        filter: Option<&LoopExpr>,
        body: &LoopExpr,
    ) -> Option<Vec<Part>> {
        // These select an element by its position, so they keep their ranges.
        if matches!(red, Red::First | Red::Last | Red::Only) {
            return None;
        }
        let ends = |r: &SRange| Some((r.lo.as_int()?, r.hi.as_int()?));
        let whole = ranges.iter().map(ends).collect::<Option<Vec<_>>>()?;
        for range in ranges.iter_mut() {
            let (Some(lo), Some(hi)) = (range.lo.as_int(), range.hi.as_int()) else { continue };
            if hi.saturating_sub(lo) <= LONG {
                continue;
            }
            let mut span = (i128::from(lo), i128::from(hi) - 1);
            self.meet(body, range.var, &mut span);
            if let Some(filter) = filter {
                self.hold(filter, range.var, &mut span);
            }
            match vacant::guard(red, body) {
                Some(Guard::Access { tensor, idx }) => self.inside(tensor, idx, range.var, &mut span),
                Some(Guard::Condition(c)) => self.hold(c, range.var, &mut span),
                None => {}
            }
            // Where nothing overlaps, one element remains, which takes no part either.
            let first = span.0.min(i128::from(hi) - 1) as i64;
            let end = (span.1.max(i128::from(first)) + 1) as i64;
            (range.lo, range.hi) = (LoopExpr::int(first), LoopExpr::int(end));
        }
        let part = |(r, (lo, hi)): (&SRange, &(i64, i64))| {
            let (first, end) = ends(r)?;
            Some(Part {
                skipped: first.checked_sub(*lo)?,
                walked: end.checked_sub(first)?,
                whole: hi.checked_sub(*lo)?,
            })
        };
        let parts = ranges.iter().zip(&whole).map(part).collect::<Option<Vec<_>>>()?;
        parts.iter().any(|p| p.walked != p.whole).then_some(parts)
    }

    /// Narrows the values of `var` to those at which an access can lie in its tensor.
    fn inside(&self, tensor: usize, idx: &[LoopExpr], var: VarId, span: &mut Span) {
        let sizes = self.env.slots.get(tensor).cloned().flatten().map(|t| t.shape).unwrap_or_default();
        for (e, n) in idx.iter().zip(&sizes) {
            let Some(line) = self.line(e, var) else { continue };
            line.at_least(0, span);
            line.at_most(i128::from(n.value()) - 1, span);
        }
    }

    /// Narrows the values of `var` to those at which a condition can hold.
    fn hold(&self, condition: &LoopExpr, var: VarId, span: &mut Span) {
        let SOp::Call(b, xs) = condition.op() else { return };
        let [x, y] = xs.as_slice() else { return };
        if *b == Builtin::And {
            self.hold(x, var, span);
            // an access in the first operand may refuse, so it is evaluated as often as the row says
            if !vacant::reads(x) {
                self.hold(y, var, span);
            }
            return;
        }
        let comparison = matches!(b, Builtin::Le | Builtin::Lt | Builtin::Ge | Builtin::Gt | Builtin::Eq);
        if !comparison || x.ty() != DType::I64 || y.ty() != DType::I64 {
            return;
        }
        let Some(line) = self.line(&int_op(Builtin::Sub, x.clone(), y.clone()), var) else { return };
        match b {
            Builtin::Le => line.at_most(0, span),
            Builtin::Lt => line.at_most(-1, span),
            Builtin::Ge => line.at_least(0, span),
            Builtin::Gt => line.at_least(1, span),
            _ => {
                line.at_most(0, span);
                line.at_least(0, span);
            }
        }
    }

    /// Narrows the values of `var` to those at which every skipping access can lie in its tensor.
    fn meet(&self, e: &LoopExpr, var: VarId, span: &mut Span) {
        match e.op() {
            SOp::Load { tensor, idx, outside: SOutside::Skip } => self.inside(*tensor, idx, var, span),
            SOp::Cast(x) | SOp::Detach(x) => self.meet(x, var, span),
            // An operand that is not evaluated skips no element.
            SOp::Call(Builtin::And | Builtin::Or, xs) => xs.iter().take(1).for_each(|x| self.meet(x, var, span)),
            SOp::Call(_, xs) => xs.iter().for_each(|x| self.meet(x, var, span)),
            SOp::Select(c, _, _) => self.meet(c, var, span),
            _ => {}
        }
    }

    fn line(&self, e: &LoopExpr, var: VarId) -> Option<Line> {
        match e.op() {
            SOp::Var(v) if *v == var => Some(Line { coefficient: 1, rest: (0, 0) }),
            SOp::Call(b, xs) if xs.len() == 2 => {
                let (x, y) = (self.line(&xs[0], var)?, self.line(&xs[1], var)?);
                let rest = range_of(*b, x.rest, y.rest)?;
                let coefficient = match b {
                    Builtin::Add => x.coefficient.checked_add(y.coefficient)?,
                    Builtin::Sub => x.coefficient.checked_sub(y.coefficient)?,
                    Builtin::Mul if x.coefficient == 0 && x.rest.0 == x.rest.1 => {
                        x.rest.0.checked_mul(y.coefficient)?
                    }
                    Builtin::Mul if y.coefficient == 0 && y.rest.0 == y.rest.1 => {
                        y.rest.0.checked_mul(x.coefficient)?
                    }
                    _ if x.coefficient == 0 && y.coefficient == 0 => 0,
                    _ => return None,
                };
                Some(Line { coefficient, rest })
            }
            _ => bounds(e, &self.vars).map(|rest| Line { coefficient: 0, rest }),
        }
    }
}

/// The quotient rounded up, for a positive divisor.
fn ceil(x: i128, by: i128) -> i128 {
    -(-x).div_euclid(by)
}

/// The bounds of an index expression, where they are known.
pub(super) fn bounds(e: &LoopExpr, vars: &[Dim]) -> Option<(i64, i64)> {
    match e.op() {
        SOp::Const(Scalar::Int(i)) => Some((*i, *i)),
        SOp::Var(v) => {
            let n = vars.get(*v)?.value();
            (n != i64::MAX).then_some((0, (n - 1).max(0)))
        }
        SOp::Call(b, xs) if xs.len() == 2 => range_of(*b, bounds(&xs[0], vars)?, bounds(&xs[1], vars)?),
        _ => None,
    }
}
