//! Index arithmetic over intervals. It proves that no access leaves its tensor, so that the loops need not be run, or
//! that an index computed from an element is bounded beyond its axis.

use fulgurite_core::builtins::Builtin;
use fulgurite_core::lang::Red;
use fulgurite_core::loop_nest::{LoopExpr, Nest, SOp, SOutside, SRange, range_of};
use fulgurite_core::{DType, Scalar};

use super::extremes::Left;
use crate::check::division;
use crate::check::walk::any_part;

/// Verdict of index arithmetic on the loops of a call.
pub(super) enum Reach {
    /// Running them can't fail.
    Stays,
    /// This access leaves its tensor for some elements, although the row bounds the index that it computes from them.
    Leaves(Left),
    /// Nothing is proved.
    Open,
}

/// The verdict on running `nest` on tensors of these shapes.
pub(super) fn look(nest: &Nest, shapes: &[&[usize]]) -> Reach {
    let whole = |n: i64| if n == i64::MAX { ANY } else { (0, (n - 1).max(0)) };
    let mut walk = Walk { shapes, vars: nest.vars.iter().map(|n| whole(n.value())).collect(), left: None };
    match nest.outs.iter().all(|out| walk.holds(&out.expr, false)) {
        true => Reach::Stays,
        false => walk.left.map_or(Reach::Open, Reach::Leaves),
    }
}

/// The bounds of an unknown integer, from which `min(max(i, 0), N - 1)` still gets bounds of its own.
const ANY: (i64, i64) = (i64::MIN, i64::MAX);

struct Walk<'a> {
    shapes: &'a [&'a [usize]],
    /// The least and greatest value of each variable.
    vars: Vec<(i64, i64)>,
    /// The first access whose index has bounds that exceed its axis.
    left: Option<Left>,
}

impl Walk<'_> {
    /// Whether `e` has a value wherever it is evaluated. Elements may be skipped `inside` a reduction only.
    fn holds(&mut self, e: &LoopExpr, inside: bool) -> bool {
        match e.op() {
            SOp::Const(_) | SOp::Num(_) | SOp::Var(_) | SOp::Elem(_) => true,
            SOp::Load { tensor, idx, outside } => {
                let otherwise = match outside {
                    SOutside::Refuse => self.is_within(*tensor, idx),
                    SOutside::Skip => inside,
                    SOutside::Value(value) => self.holds(value, inside),
                };
                otherwise && idx.iter().all(|i| !i.ty().is_float() && self.holds(i, inside))
            }
            // of the builtins, only the logical ones are sure to be defined on truth values
            SOp::Call(b, args) => {
                let logic = matches!(b, Builtin::And | Builtin::Or | Builtin::Not);
                !division::is_by_zero(e)
                    && (logic || args.first().is_none_or(|a| a.ty() != DType::Bool))
                    && args.iter().all(|a| self.holds(a, inside))
            }
            SOp::Cast(a) | SOp::Detach(a) | SOp::Uniform { position: a, .. } => self.holds(a, inside),
            SOp::Select(c, a, b) => [c, a, b].into_iter().all(|part| self.holds(part, inside)),
            SOp::Reduce { red, vars, filter, body, otherwise } => {
                let defined = matches!(red, Red::Any | Red::All) || e.ty() != DType::Bool && *red != Red::Only;
                defined
                    && vars.iter().all(|range| self.bind(range, inside))
                    && filter.iter().chain(otherwise).all(|part| self.holds(part, inside))
                    && self.holds(body, true)
            }
        }
    }

    fn bind(&mut self, range: &SRange, inside: bool) -> bool {
        let holds = self.holds(&range.lo, inside) && self.holds(&range.hi, inside);
        let ((lo, _), (_, hi)) = (self.bounds(&range.lo), self.bounds(&range.hi));
        self.vars[range.var] = (lo, hi.saturating_sub(1).max(lo));
        holds
    }

    fn is_within(&mut self, tensor: usize, idx: &[LoopExpr]) -> bool {
        let Some(shape) = self.shapes.get(tensor).filter(|shape| shape.len() == idx.len()) else { return false };
        idx.iter().zip(*shape).enumerate().all(|(axis, (i, size))| {
            let (least, greatest) = self.bounds(i);
            let within = least >= 0 && (greatest as u64) < *size as u64;
            // an index without bounds is checked at run time, when it is read; so is any index of an axis without
            // elements
            if !within && *size > 0 && least > i64::MIN / 2 && greatest < i64::MAX / 2 && reads(i) {
                let index = if least < 0 { least } else { greatest };
                self.left.get_or_insert(Left { tensor, axis, index, size: *size });
            }
            within
        })
    }

    fn bounds(&self, e: &LoopExpr) -> (i64, i64) {
        match e.op() {
            SOp::Const(Scalar::Int(i)) => (*i, *i),
            SOp::Var(v) => self.vars.get(*v).copied().unwrap_or(ANY),
            SOp::Call(b, xs) if xs.len() == 2 && e.ty() == DType::I64 => {
                range_of(*b, self.bounds(&xs[0]), self.bounds(&xs[1])).unwrap_or(ANY)
            }
            _ => ANY,
        }
    }
}

/// Whether an index is computed from an element.
fn reads(index: &LoopExpr) -> bool {
    any_part(index, &mut |part| matches!(part.op(), SOp::Load { .. } | SOp::Elem(_)))
}
