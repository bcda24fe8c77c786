//! The adjoint of windows that move by more than one place, such as the gradient of a convolution with a stride:
//!
//! `sum[c, k if (i + p - k) % s == 0](a[c, (i + p - k) / s] w[c, k])` is a sum of products with a condition, which is no
//! matrix product. With a variable `o` for the place of `a` it is `sum[k, o if o s + k - p == i](sum[c](a[c, o] w[c, k]))`:
//! a matrix product, whose elements are then added up where windows meet.

use super::convert::Converter;
use super::reduce::Reduction;
use super::vars::{conjuncts, mentions};
use fulgurite_core::builtins::Builtin;
use fulgurite_core::lang::ast::Red;
use fulgurite_core::loop_nest::{LoopExpr, SOp, SRange};
use fulgurite_core::{DType, Scalar};

/// The products are kept in memory, at most this many.
const MOST: usize = 1 << 28;
/// Shorter sums of products are no work for a matrix product.
const LEAST: usize = 4;

impl Converter<'_> {
    /// The reduction as sums of a matrix product, if it has that form.
    pub(super) fn adjoint_of_windows(&mut self, r: &Reduction) -> Option<LoopExpr> {
        let SOp::Call(Builtin::Mul, factors) = r.body.op() else { return None };
        let plain = r.red == Red::Sum && r.otherwise.is_none() && r.ty.is_float() && r.body.ty() == r.ty;
        if !plain || r.vars.iter().any(|v| v.lo.as_int() != Some(0) || v.hi.as_int().is_none()) {
            return None;
        }
        let mut conds = conjuncts(r.filter);
        let mut vars = r.vars.to_vec();
        let factors: Vec<LoopExpr> =
            factors.iter().map(|f| self.placed(f, r, &mut conds, &mut vars)).collect::<Option<_>>()?;
        let in_conds = |v: usize| conds.iter().any(|c| mentions(c, v));
        let (inner, outer): (Vec<SRange>, Vec<SRange>) =
            vars.into_iter().partition(|v| !in_conds(v.var) && factors.iter().all(|f| mentions(f, v.var)));
        let extent = |v: &SRange| v.hi.as_int().and_then(|n| usize::try_from(n).ok());
        let length = inner.iter().try_fold(1usize, |n, v| n.checked_mul(extent(v)?))?;
        if conds.is_empty() || inner.is_empty() || outer.is_empty() || length < LEAST {
            return None;
        }
        // the elements of the product: those of the variables that its factors have, and that it does not sum
        let free = r.free.iter().filter(|v| factors.iter().any(|f| mentions(f, **v)));
        let free = free.map(|v| self.ranges[*v].map(|range| range.size));
        let kept = outer.iter().map(&extent).chain(free);
        let elements = kept.into_iter().try_fold(1usize, |n, size| n.checked_mul(size?))?;
        if elements > MOST {
            return None;
        }
        let sum = |vars, filter, body| {
            LoopExpr::new(SOp::Reduce { red: Red::Sum, vars, filter, body, otherwise: None }, r.ty)
        };
        let both = |a, b| LoopExpr::new(SOp::Call(Builtin::And, vec![a, b]), DType::Bool);
        let product = LoopExpr::new(SOp::Call(Builtin::Mul, factors), r.ty);
        Some(sum(outer, conds.into_iter().reduce(both), sum(inner, None, product)))
    }

    /// The factor with a variable of its own for each index that a free and a summed variable make up together. The
    /// condition that the index is that variable joins `conds`, in place of the one that a division has no rest.
    fn placed(
        &mut self,
        factor: &LoopExpr,
        r: &Reduction,
        conds: &mut Vec<LoopExpr>,
        vars: &mut Vec<SRange>,
    ) -> Option<LoopExpr> {
        let SOp::Load { tensor, idx, outside } = factor.op() else { return None };
        let shape = self.values.ty(*self.line.tensors.get(*tensor)?).shape.clone();
        let mut places = idx.clone();
        for (place, &n) in places.iter_mut().zip(&shape) {
            let (index, stride) = match place.op() {
                SOp::Call(Builtin::DivFloor, xs) => (xs[0].clone(), xs[1].as_int()?),
                _ => (place.clone(), 1),
            };
            let mut free = r.free.iter().copied().filter(|v| mentions(&index, *v));
            let (Some(target), None) = (free.next(), free.next()) else { continue };
            if !r.vars.iter().any(|v| mentions(&index, v.var)) {
                continue;
            }
            if stride != 1 {
                let at = conds.iter().position(|c| is_whole(c, &index, stride))?;
                conds.remove(at);
            }
            let rest = without(&index, target, 1)?;
            let o = self.fresh_var(n)?;
            let int = |x: usize| LoopExpr::new(SOp::Const(Scalar::Int(x as i64)), DType::I64);
            let word = |b, x, y| LoopExpr::new(SOp::Call(b, vec![x, y]), DType::I64);
            let var = |v| LoopExpr::new(SOp::Var(v), DType::I64);
            vars.push(SRange { var: o, lo: int(0), hi: int(n) });
            let stride = LoopExpr::new(SOp::Const(Scalar::Int(stride)), DType::I64);
            let position = word(Builtin::Sub, word(Builtin::Mul, var(o), stride), rest);
            conds.push(LoopExpr::new(SOp::Call(Builtin::Eq, vec![position, var(target)]), DType::Bool));
            *place = var(o);
        }
        Some(LoopExpr::new(SOp::Load { tensor: *tensor, idx: places, outside: outside.clone() }, factor.ty()))
    }
}

/// Whether a condition says that `index` is a multiple of `stride`.
fn is_whole(condition: &LoopExpr, index: &LoopExpr, stride: i64) -> bool {
    let SOp::Call(Builtin::Eq, xs) = condition.op() else { return false };
    let SOp::Call(Builtin::RemFloor, of) = xs[0].op() else { return false };
    xs[1].as_int() == Some(0) && of[0] == *index && of[1].as_int() == Some(stride)
}

/// The expression with 0 for a variable, which it has `times` times, and otherwise only as a term.
fn without(e: &LoopExpr, v: usize, times: i64) -> Option<LoopExpr> {
    match e.op() {
        SOp::Var(w) if *w == v => (times == 1).then(|| LoopExpr::new(SOp::Const(Scalar::Int(0)), DType::I64)),
        _ if !mentions(e, v) => Some(e.clone()),
        SOp::Call(b @ (Builtin::Add | Builtin::Sub), xs) => {
            let sign = if *b == Builtin::Sub { -1 } else { 1 };
            let (x, y) = (without(&xs[0], v, times)?, without(&xs[1], v, sign * times)?);
            (mentions(&xs[0], v) != mentions(&xs[1], v)).then(|| LoopExpr::new(SOp::Call(*b, vec![x, y]), e.ty()))
        }
        _ => None,
    }
}
