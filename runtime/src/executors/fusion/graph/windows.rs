//! The adjoint of windows that move by more than one place, such as the gradient of a convolution with a stride:
//!
//! `sum[c, k if (i + p - k) % s == 0](a[c, (i + p - k) / s] w[c, k])` is a sum of products with a condition, which is no
//! matrix product. With a variable `o` for the place of `a` it is `sum[k, o if o s + k - p == i](sum[c](a[c, o] w[c, k]))`:
//! a matrix product, whose elements are then added up where windows meet.
//!
//! Without a sum over `c`, as in a convolution of each channel apart, there is no matrix. Then `a` is spread, with
//! zeros between its elements, `u[c, o s] = a[c, o]`, and `sum[k](u[c, i + p - k] w[c, k])` is a product over windows.

use super::convert::{Converter, Why, index_dim};
use super::piece::{Fragment, Out, Piece, Place};
use super::reduce::{Adjoint, Reduction};
use super::vars::{conjuncts, linear, mentions};
use super::{Affine, Dim, Graph, Index, Load, Op, ValueId};
use fulgurite_core::builtins::Builtin;
use fulgurite_core::kernel::Combine;
use fulgurite_core::lang::ast::Red;
use fulgurite_core::loop_nest::{LoopExpr, SOp, SOutside, SRange};
use fulgurite_core::{DType, Scalar};
use smallvec::{SmallVec, smallvec};

/// The products are kept in memory, at most this many.
const MOST: usize = 1 << 28;
/// A factor that is spread may have this many places more along an axis than twice those of the result.
const SLACK: i64 = 64;
/// Shorter sums of products are no work for a matrix product.
const LEAST: usize = 4;

/// The reduction with a variable of its own for each place of a factor.
struct Placed {
    factors: Vec<LoopExpr>,
    vars: Vec<SRange>,
    conds: Vec<LoopExpr>,
}

impl Converter<'_> {
    /// The reduction in a form that has a product, if there is one.
    pub(super) fn adjoint_of_windows(&mut self, r: &Reduction) -> Result<Option<Adjoint>, Why> {
        let Some(placed) = self.with_places(r) else { return Ok(None) };
        if let Some(apart) = self.apart(r, &placed) {
            return Ok(Some(Adjoint::Apart(apart)));
        }
        Ok(self.spread(r, &placed)?.map(Adjoint::Whole))
    }

    /// The reduction with a variable for each place, if it is a sum of products with conditions on places.
    fn with_places(&mut self, r: &Reduction) -> Option<Placed> {
        let SOp::Call(Builtin::Mul, factors) = r.body.op() else { return None };
        let plain = r.red == Red::Sum && r.otherwise.is_none() && r.ty.is_float() && r.body.ty() == r.ty;
        if !plain || r.vars.iter().any(|v| v.lo.as_int() != Some(0) || v.hi.as_int().is_none()) {
            return None;
        }
        let mut conds = conjuncts(r.filter);
        let mut vars = r.vars.to_vec();
        let factors: Vec<LoopExpr> =
            factors.iter().map(|f| self.placed(f, r, &mut conds, &mut vars)).collect::<Option<_>>()?;
        (!conds.is_empty()).then_some(Placed { factors, vars, conds })
    }

    /// The reduction as sums of a matrix product, if it has that form.
    fn apart(&self, r: &Reduction, Placed { factors, vars, conds }: &Placed) -> Option<LoopExpr> {
        let in_conds = |v: usize| conds.iter().any(|c| mentions(c, v));
        let (inner, outer): (Vec<SRange>, Vec<SRange>) =
            vars.iter().cloned().partition(|v| !in_conds(v.var) && factors.iter().all(|f| mentions(f, v.var)));
        let extent = |v: &SRange| v.hi.as_int().and_then(|n| usize::try_from(n).ok());
        let length = inner.iter().try_fold(1usize, |n, v| n.checked_mul(extent(v)?))?;
        if inner.is_empty() || outer.is_empty() || length < LEAST {
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
        let product = LoopExpr::new(SOp::Call(Builtin::Mul, factors.clone()), r.ty);
        Some(sum(outer, conds.iter().cloned().reduce(both), sum(inner, None, product)))
    }

    /// The reduction as a product over windows of a factor that is spread, if it has that form.
    fn spread(&mut self, r: &Reduction, placed: &Placed) -> Result<Option<ValueId>, Why> {
        let Some(Spread { factor, tensor, steps, idx, vars, targets }) = self.spreadable(r, placed) else {
            return Ok(None);
        };
        let before = self.pieces.len();
        let value = self.with_zeros_between(tensor, &steps)?;
        self.extra.push(value);
        let tensor = self.line.tensors.len() + self.extra.len() - 1;
        let mut factors = placed.factors.clone();
        factors[factor] = LoopExpr::new(SOp::Load { tensor, idx, outside: SOutside::Skip }, factors[factor].ty());
        let body = LoopExpr::new(SOp::Call(Builtin::Mul, factors), r.ty);
        let whole = Reduction { vars: &vars, filter: None, body: &body, free: r.free.clone(), otherwise: None, ..*r };
        // Windows slide along one dim of a result, so divisions in the sum that they replace do not split it.
        let digits = self.digits.clone();
        for v in targets {
            self.digits[v] = smallvec![self.digits[v].iter().product()];
        }
        let product = self.contraction(&whole, Some((r, value)));
        self.digits = digits;
        // A sum that is not a product over windows is left as it is.
        let product = product.unwrap_or(None);
        if product.is_none() {
            self.pieces.truncate(before);
        }
        Ok(product)
    }

    /// The factor that is spread, if the conditions place all its elements, and the sum without its places.
    fn spreadable(&self, r: &Reduction, placed: &Placed) -> Option<Spread> {
        if !self.line.slides || r.ty != DType::F32 {
            return None;
        }
        let mut vars = placed.vars.clone();
        let mut targets = Vec::new();
        let mut found: Option<(usize, usize, Vec<i64>, Vec<LoopExpr>)> = None;
        for (at, cond) in placed.conds.iter().enumerate() {
            let SOp::Call(Builtin::Eq, sides) = cond.op() else { return None };
            let (position, target, v) = [(&sides[0], &sides[1]), (&sides[1], &sides[0])].into_iter().find_map(
                |(position, target)| match target.op() {
                    SOp::Var(v) if r.free.contains(v) && !mentions(position, *v) => Some((position, target, *v)),
                    _ => None,
                },
            )?;
            let room = self.ranges[v].filter(|range| range.lo == 0)?.size;
            // the place is the one variable of the position that is an index of a factor by itself
            let (factor, axis, place) = placed.factors.iter().enumerate().find_map(|(factor, f)| {
                let SOp::Load { idx, .. } = f.op() else { return None };
                idx.iter().enumerate().find_map(|(axis, i)| match i.op() {
                    SOp::Var(o) if mentions(position, *o) && !r.free.contains(o) => Some((factor, axis, *o)),
                    _ => None,
                })
            })?;
            let SOp::Load { tensor, idx, outside } = placed.factors[factor].op() else { return None };
            // what lies outside of the spread factor is left out
            if matches!(outside, SOutside::Value(_)) {
                return None;
            }
            let shape = self.values.ty(self.tensor(*tensor)?).shape.clone();
            let range = vars.iter().position(|range| range.var == place)?;
            let whole = vars[range].lo.as_int() == Some(0) && vars[range].hi.as_int() == Some(shape[axis] as i64);
            let elsewhere = placed.conds.iter().enumerate().any(|(other, c)| other != at && mentions(c, place))
                || placed.factors.iter().enumerate().any(|(other, f)| other != factor && mentions(f, place))
                || idx.iter().enumerate().any(|(other, i)| other != axis && mentions(i, place));
            let step = linear(position)?.iter().find(|t| t.0 == place)?.1;
            let extent = step.checked_mul(shape[axis] as i64 - 1)?.checked_add(1)?;
            // the spread factor is about as large as the result
            if !whole || elsewhere || step < 1 || extent > 2 * room as i64 + SLACK {
                return None;
            }
            let (first, _, steps, indices) =
                found.get_or_insert_with(|| (factor, *tensor, vec![1; shape.len()], idx.clone()));
            if *first != factor {
                return None;
            }
            steps[axis] = step;
            let position = with_zero(position, place);
            indices[axis] = LoopExpr::new(SOp::Call(Builtin::Sub, vec![target.clone(), position]), DType::I64);
            vars.remove(range);
            targets.push(v);
        }
        let (factor, tensor, steps, idx) = found?;
        let ty = self.values.ty(self.tensor(tensor)?);
        let sizes = ty.shape.iter().zip(&steps).map(|(n, step)| (*n as i64 - 1) * step + 1);
        let elements = sizes.into_iter().try_fold(1i64, |all, n| all.checked_mul(n))?;
        (ty.dtype == DType::F32 && elements <= MOST as i64).then_some(Spread {
            factor,
            tensor,
            steps,
            idx,
            vars,
            targets,
        })
    }

    /// A value with the elements of a tensor this far apart along each axis, and zeros between them.
    fn with_zeros_between(&mut self, tensor: usize, steps: &[i64]) -> Result<ValueId, Why> {
        let source = self.tensor(tensor).ok_or("a tensor is missing")?;
        let ty = self.values.ty(source).clone();
        let shape: Vec<usize> = ty.shape.iter().zip(steps).map(|(n, step)| (n - 1) * *step as usize + 1).collect();
        let value = self.values.add(ty.dtype, &shape);
        let mut graph = Graph::default();
        let places: Vec<Affine> = ty.shape.iter().map(|n| index_dim(&mut graph, *n)).collect();
        let order: SmallVec<[Dim; 4]> = places.iter().flat_map(|a| a.terms.iter().map(|t| t.0)).collect();
        let idx = places.iter().cloned().map(Index::Affine).collect();
        let node = graph.add(Op::Load(Load { value: source, idx, outside: None, no_minus_zero: false }), ty.dtype);
        let apart = places.iter().zip(steps).map(|(a, step)| a.times(*step).map(Index::Affine));
        let idx = apart.collect::<Option<_>>().ok_or("an index leaves i64")?;
        let place = Place::Scatter { idx, mask: None, how: Combine::Replace, strict: false, base: None, order };
        self.pieces.push(Piece::Map(Fragment { graph, outs: vec![Out { value, node, place }], view: false }));
        Ok(value)
    }

    /// The factor with a variable of its own for each index that a free and a summed variable make
    /// up together. The condition that the index equals that variable joins `conds`. It replaces
    /// the condition that a division has no remainder.
    fn placed(
        &mut self,
        factor: &LoopExpr,
        r: &Reduction,
        conds: &mut Vec<LoopExpr>,
        vars: &mut Vec<SRange>,
    ) -> Option<LoopExpr> {
        let SOp::Load { tensor, idx, outside } = factor.op() else { return None };
        let shape = self.values.ty(self.tensor(*tensor)?).shape.clone();
        let mut places = idx.clone();
        for (place, &n) in places.iter_mut().zip(&shape) {
            let (index, stride) = match place.op() {
                SOp::Call(Builtin::DivFloor, xs) => (xs[0].clone(), xs[1].as_int()?),
                _ => (place.clone(), 1),
            };
            let mut free = r.free.iter().copied().filter(|v| mentions(&index, *v));
            let (Some(target), None) = (free.next(), free.next()) else { continue };
            if stride == 1 && !r.vars.iter().any(|v| mentions(&index, v.var)) {
                continue;
            }
            let rest = match without(&index, target, 1) {
                // several dims that make up one axis, such as groups and their channels, are no windows
                None if stride == 1 => continue,
                rest => rest?,
            };
            // A place outside of the axis is left out, like a place that no value of the variable
            // names.
            if matches!(outside, SOutside::Value(_)) {
                return None;
            }
            if stride != 1 {
                let at = conds.iter().position(|c| is_whole(c, &index, stride))?;
                conds.remove(at);
            }
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

/// A factor that is spread.
struct Spread {
    factor: usize,
    tensor: usize,
    /// The distance from element to element along each axis.
    steps: Vec<i64>,
    /// The indices of the spread factor.
    idx: Vec<LoopExpr>,
    /// The summed variables that remain.
    vars: Vec<SRange>,
    /// The free variables along which the factor slides.
    targets: Vec<usize>,
}

/// The expression with 0 for a variable.
fn with_zero(e: &LoopExpr, v: usize) -> LoopExpr {
    match e.op() {
        SOp::Var(w) if *w == v => LoopExpr::new(SOp::Const(Scalar::Int(0)), DType::I64),
        _ if !mentions(e, v) => e.clone(),
        op => LoopExpr::new(op.map(&|x| with_zero(x, v)), e.ty()),
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
