//! Converts the reductions of a nest: to a contraction, a scan, a scatter, or a reduction of a map.

use super::convert::{Bound, Converter, Scope, Why};
use super::factor;
use super::filter::Placement;
use super::piece::{Fragment, Out, Piece, Place, Scan};
use super::unroll;
use super::vars::{conjuncts, mentions, walk};
use super::{Affine, Axis, Dim, Index, Load, NodeId, Op, ValueId};
use fulgurite_core::builtins::Builtin;
use fulgurite_core::eval::loop_nest::neutral;
use fulgurite_core::kernel::Combine;
use fulgurite_core::lang::ast::Red;
use fulgurite_core::loop_nest::{LoopExpr, SOp, SRange};
use fulgurite_core::{DType, Scalar};
use rustc_hash::FxHashSet;
use smallvec::{SmallVec, smallvec};

/// The parts of a reduction.
pub(super) struct Reduction<'e> {
    pub red: Red,
    pub vars: &'e [SRange],
    pub filter: Option<&'e LoopExpr>,
    pub body: &'e LoopExpr,
    pub otherwise: Option<&'e LoopExpr>,
    pub ty: DType,
    /// The variables of the expression that are bound outside.
    pub free: Vec<usize>,
}

/// The form of an adjoint of windows.
pub(super) enum Adjoint {
    /// Sums of a matrix product.
    Apart(LoopExpr),
    /// A value that is a product over windows.
    Whole(ValueId),
}

/// The value of a reduction over nothing.
fn of_nothing(red: Red, dtype: DType) -> Result<Scalar, Why> {
    match red {
        Red::ArgMax | Red::ArgMin | Red::First | Red::Last | Red::Only => Err("a choice among no elements"),
        Red::Mean => Ok(Scalar::Float(f64::NAN)),
        _ => Ok(neutral(red, dtype)),
    }
}

impl Converter<'_> {
    /// Computes the reduction `e` as a value of its own, and loads it.
    pub(super) fn reduction(&mut self, s: &mut Scope, e: &LoopExpr) -> Result<NodeId, Why> {
        let SOp::Reduce { red, vars, filter, body, otherwise } = e.op() else { return Err("no reduction") };
        let extent = |v: usize| self.line.nest.vars.get(v).and_then(|d| usize::try_from(d.value()).ok());
        if let Some(apart) = factor::apart(e, &extent) {
            return self.expr(s, &apart);
        }
        if self.is_over_nothing(s, vars) {
            let value = match otherwise {
                Some(other) => self.expr(s, other)?,
                None => s.graph.constant(of_nothing(*red, body.ty())?, body.ty()),
            };
            return Ok(s.graph.add(Op::Cast(value), e.ty()));
        }
        let mut free = Vec::new();
        walk(e, &mut FxHashSet::default(), &mut |e| {
            if let SOp::Var(v) = e.op()
                && s.vars[*v].is_some()
                && !free.contains(v)
            {
                free.push(*v);
            }
        });
        free.sort_unstable();
        let r = Reduction {
            red: *red,
            vars,
            filter: filter.as_ref(),
            body,
            otherwise: otherwise.as_ref(),
            ty: e.ty(),
            free,
        };
        let value = match self.scan(&r)? {
            Some(v) => v,
            None => match self.contraction(&r, None)? {
                Some(v) => v,
                None => match self.adjoint_of_windows(&r)? {
                    Some(Adjoint::Apart(apart)) => return self.expr(s, &apart),
                    Some(Adjoint::Whole(value)) => value,
                    None => self.over_map(&r)?,
                },
            },
        };
        let mut idx = SmallVec::new();
        for v in &r.free {
            let lo = self.ranges[*v].map_or(0, |r| r.lo);
            let at = s.vars[*v].as_ref().and_then(|b| b.total.plus(&Affine::constant(lo), -1));
            idx.push(Index::Affine(at.ok_or("an index leaves i64")?));
        }
        // where the variables have values outside of their ranges, the access is masked, and must not be made
        let shape = &self.values.ty(value).shape;
        let outside = idx.iter().zip(shape).any(|(index, n)| match index {
            Index::Affine(a) => {
                let (lo, hi) = a.range(&s.graph.sizes);
                lo < 0 || hi >= *n as i64
            }
            Index::Node(_) => false,
        });
        let nothing = fulgurite_core::builtins::cast_scalar(Scalar::Int(0), r.ty.opmath());
        let outside = outside.then(|| nothing.into());
        let no_minus_zero = self.sums_from_zero(value);
        Ok(s.graph.add(Op::Load(Load { value, idx, outside, no_minus_zero }), r.ty))
    }

    /// Whether the elements of the value that was made last are sums that start from +0. They are not -0 then, because
    /// +0 + -0 is +0, and a sum of other numbers is exact where it is that small.
    fn sums_from_zero(&self, value: ValueId) -> bool {
        let Some(Piece::Map(made)) = self.pieces.last() else { return false };
        let dtype = self.values.ty(value).dtype;
        dtype.is_float()
            && dtype.opmath() == dtype
            && made.outs.iter().any(|out| {
                out.value == value && matches!(out.place, Place::Scatter { how: Combine::Add, base: None, .. })
            })
    }

    /// A scope with the free variables bound, and the axes that they form.
    pub(super) fn inner(&mut self, free: &[usize]) -> Result<(Scope, Vec<Axis>), Why> {
        let mut sub = Scope::new(self.ranges.len());
        let mut axes = Vec::new();
        for &v in free {
            let range = self.ranges[v].ok_or("a variable without a range")?;
            axes.push(self.bind(&mut sub, v, range)?.digits);
        }
        Ok((sub, axes))
    }

    pub(super) fn temporary(&mut self, free: &[usize], dtype: DType) -> ValueId {
        let shape: Vec<usize> = free.iter().map(|v| self.ranges[*v].map_or(1, |r| r.size)).collect();
        self.values.add(dtype, &shape)
    }

    fn emit(&mut self, scope: Scope, value: ValueId, node: NodeId, place: Place) {
        self.pieces.push(Piece::Map(Fragment {
            graph: scope.graph,
            outs: vec![Out { value, node, place }],
            view: false,
        }));
    }

    /// Converts `red[j in 0..n + c](x[…, j])` and its mirror image.
    fn scan(&mut self, r: &Reduction) -> Result<Option<ValueId>, Why> {
        let ([range], None, None) = (r.vars, r.filter, r.otherwise) else { return Ok(None) };
        if !matches!(r.red, Red::Sum | Red::Prod | Red::Max | Red::Min) || r.body.ty() != r.ty {
            return Ok(None);
        }
        let (sub, _) = self.inner(&r.free)?;
        let (Some(lo), Some(hi)) = (self.affine(&sub, &range.lo), self.affine(&sub, &range.hi)) else {
            return Ok(None);
        };
        // One end is fixed, the other is a free variable.
        let moving = |a: &Affine| {
            r.free.iter().copied().find(|v| {
                let b = sub.vars[*v].as_ref();
                b.is_some_and(|b| {
                    !b.digits.is_empty() && b.total.plus(a, -1).is_some_and(|d| d.as_constant().is_some())
                })
            })
        };
        let (along, reverse) = match (lo.as_constant(), hi.as_constant(), moving(&lo), moving(&hi)) {
            (Some(0), None, _, Some(v)) => (v, false),
            (None, Some(_), Some(v), _) => (v, true),
            _ => return Ok(None),
        };
        let Some(n) = self.ranges[along].filter(|n| n.lo == 0) else { return Ok(None) };
        let total = match &sub.vars[along] {
            Some(b) => b.total.clone(),
            None => return Ok(None),
        };
        let end = if reverse { &lo } else { &hi };
        let offset = end.plus(&total, -1).and_then(|d| d.as_constant());
        let exclusive = match (reverse, offset) {
            (false, Some(1)) | (true, Some(0)) => false,
            (false, Some(0)) | (true, Some(1)) => true,
            _ => return Ok(None),
        };
        if (reverse && hi.as_constant() != Some(n.size as i64)) || mentions(r.body, along) {
            return Ok(None);
        }
        // The scanned value is the body over the other free variables, then over j.
        let others: Vec<usize> = r.free.iter().copied().filter(|v| *v != along).collect();
        let (mut sub, mut axes) = self.inner(&others)?;
        axes.push(self.bind(&mut sub, range.var, n)?.digits);
        let node = self.expr(&mut sub, r.body)?;
        if !sub.skips.is_empty() {
            return Ok(None);
        }
        let mut shape: Vec<usize> = others.iter().map(|v| self.ranges[*v].map_or(1, |r| r.size)).collect();
        shape.push(n.size);
        let input = self.values.add(r.ty, &shape);
        self.emit(sub, input, node, Place::Axes(axes));
        let scanned = self.values.add(r.ty, &shape);
        self.pieces.push(Piece::Scan(Scan { red: r.red, input, out: scanned, reverse, exclusive }));
        // The result has its axes in the order of the free variables.
        let (mut sub, axes) = self.inner(&r.free)?;
        let idx = others.iter().chain([&along]).map(|v| {
            let lo = self.ranges[*v].map_or(0, |r| r.lo);
            sub.vars[*v].as_ref().and_then(|b: &Bound| b.total.plus(&Affine::constant(lo), -1)).map(Index::Affine)
        });
        let idx = idx.collect::<Option<_>>().ok_or("an index leaves i64")?;
        let node = sub.graph.add(Op::Load(Load { value: scanned, idx, outside: None, no_minus_zero: false }), r.ty);
        let value = self.temporary(&r.free, r.ty);
        self.emit(sub, value, node, Place::Axes(axes));
        Ok(Some(value))
    }

    /// Converts a reduction of a map over loops, which may scatter its elements.
    pub(super) fn over_map(&mut self, r: &Reduction) -> Result<ValueId, Why> {
        let (mut sub, axes) = self.inner(&r.free)?;
        let mut tests = self.bind_ranges(&mut sub, r.vars)?;
        let mut conds = conjuncts(r.filter);
        let bound: Vec<usize> = r.vars.iter().map(|v| v.var).collect();
        let ordered = matches!(r.red, Red::Last | Red::First | Red::Only | Red::ArgMax | Red::ArgMin);
        // A range that was tested may depend on the loop that solving removes.
        if !ordered && tests.is_empty() {
            tests.extend(self.solve(&mut sub, &mut conds, &bound, &r.free));
        }
        let how = match r.red {
            Red::Sum => Some(Combine::Add),
            Red::Prod => Some(Combine::Times),
            Red::Max | Red::Any => Some(Combine::Larger),
            Red::Min | Red::All => Some(Combine::Smaller),
            Red::Last => Some(Combine::Replace),
            _ => None,
        };
        if let Some(how) = how {
            let ends = r.vars.iter().flat_map(|v| [&v.lo, &v.hi]);
            let elsewhere: Vec<&LoopExpr> = ends.chain([r.body]).collect();
            let placements = self.placements(&mut conds, &r.free, &elsewhere);
            if !placements.is_empty() {
                let out = self.scatter(r, sub, tests, &conds, placements, how)?;
                return match r.otherwise {
                    Some(other) if how != Combine::Replace => self.alternative(r, other, out),
                    _ => Ok(out),
                };
            }
        }
        if let (Red::First | Red::Last, [v]) = (r.red, r.vars) {
            return self.choice(r, v.var);
        }
        let mut mask = self.mask(&mut sub, tests, &conds)?;
        let value = self.expr(&mut sub, r.body)?;
        sub.cond = None;
        for skip in std::mem::take(&mut sub.skips) {
            mask = Some(sub.and(mask, skip));
        }
        let mask = mask.filter(|m| !sub.graph.as_const(*m).is_some_and(|s| s.as_bool()));
        let order: SmallVec<[Dim; 4]> =
            r.vars.iter().filter_map(|v| sub.vars[v.var].as_ref()).flat_map(|b| b.digits.iter().copied()).collect();
        let node = self.reduce_node(&mut sub, r, value, mask, &order)?;
        let out = self.temporary(&r.free, r.ty);
        self.emit(sub, out, node, Place::Axes(axes));
        match (r.otherwise, mask) {
            (Some(other), Some(_)) => self.alternative(r, other, out),
            (None, Some(_)) if r.red == Red::Mean => self.masked_mean(r, out),
            // The loops are not empty, so without a filter the alternative is never taken.
            _ => Ok(out),
        }
    }

    fn reduce_node(
        &mut self,
        sub: &mut Scope,
        r: &Reduction,
        value: NodeId,
        mask: Option<NodeId>,
        order: &SmallVec<[Dim; 4]>,
    ) -> Result<NodeId, Why> {
        let body = sub.graph.node(value).ty;
        let kept = match r.red {
            Red::Any | Red::All => DType::Bool,
            Red::ArgMax | Red::ArgMin => body,
            Red::First | Red::Last | Red::Only => return Err("a choice of one element"),
            _ => r.ty,
        };
        let mut value = sub.graph.add(Op::Cast(value), kept);
        let extremum = matches!(r.red, Red::ArgMax | Red::ArgMin);
        if let Some(m) = mask
            && !extremum
        {
            let none = sub.graph.constant(neutral(r.red, kept), kept);
            value = sub.graph.add(Op::Select(m, value, none), kept);
        }
        if order.is_empty() {
            return Ok(match extremum {
                true => sub.graph.constant(Scalar::Int(0), DType::I64),
                false => value,
            });
        }
        let mean_of_some = r.red == Red::Mean && mask.is_some();
        let red = if mean_of_some { Red::Sum } else { r.red };
        let ty = if extremum { DType::I64 } else { kept };
        let whole = unroll::Reduce { red, ty, arg: value, mask: mask.filter(|_| extremum), order };
        if let Some((graph, node)) = unroll::window(&sub.graph, &whole) {
            sub.graph = graph;
            return Ok(sub.graph.add(Op::Cast(node), r.ty));
        }
        let node =
            sub.graph.add(Op::Reduce { red, arg: value, mask: mask.filter(|_| extremum), order: order.clone() }, ty);
        Ok(sub.graph.add(Op::Cast(node), r.ty))
    }

    /// Converts the choice of the first or the last element along a variable: the least or the largest value of the
    /// variable is found, and the element there is read.
    fn choice(&mut self, r: &Reduction, var: usize) -> Result<ValueId, Why> {
        let red = if r.red == Red::First { Red::Min } else { Red::Max };
        let at = LoopExpr::new(SOp::Var(var), DType::I64);
        let (vars, filter, free) = (r.vars, r.filter, r.free.clone());
        let place = Reduction { red, vars, filter, body: &at, otherwise: None, ty: DType::I64, free };
        let places = self.over_map(&place)?;
        let (mut sub, axes) = self.inner(&r.free)?;
        let idx = self.positions(&sub, &r.free)?;
        let load = Load { value: places, idx, outside: None, no_minus_zero: false };
        let place = sub.graph.add(Op::Load(load), DType::I64);
        let nowhere = sub.graph.constant(neutral(red, DType::I64), DType::I64);
        let found = sub.graph.add(Op::Call(Builtin::Ne, smallvec![place, nowhere]), DType::Bool);
        (sub.chosen, sub.cond) = (Some((var, place)), Some(found));
        let here = self.expr(&mut sub, r.body)?;
        if !sub.skips.is_empty() {
            return Err("a choice of one element, of which some are outside");
        }
        sub.cond = Some(sub.graph.add(Op::Call(Builtin::Not, smallvec![found]), DType::Bool));
        let other = match r.otherwise {
            Some(other) => self.expr(&mut sub, other)?,
            None => sub.graph.constant(neutral(r.red, r.ty), r.ty),
        };
        let [here, other] = [here, other].map(|node| sub.graph.add(Op::Cast(node), r.ty));
        let node = sub.graph.add(Op::Select(found, here, other), r.ty);
        let out = self.temporary(&r.free, r.ty);
        self.emit(sub, out, node, Place::Axes(axes));
        Ok(out)
    }

    /// Selects `value` if any element took part, and `other` otherwise.
    fn alternative(&mut self, r: &Reduction, other: &LoopExpr, value: ValueId) -> Result<ValueId, Why> {
        let (red, ty) = (Red::Any, DType::Bool);
        let yes = LoopExpr::new(SOp::Const(Scalar::Bool(true)), ty);
        let (vars, filter, free) = (r.vars, r.filter, r.free.clone());
        let hits = self.over_map(&Reduction { red, vars, filter, body: &yes, otherwise: None, ty, free })?;
        let (mut sub, axes) = self.inner(&r.free)?;
        let idx = self.positions(&sub, &r.free)?;
        let mut load = |value, ty| {
            sub.graph.add(Op::Load(Load { value, idx: idx.clone(), outside: None, no_minus_zero: false }), ty)
        };
        let (hit, here) = (load(hits, DType::Bool), load(value, r.ty));
        let other = self.expr(&mut sub, other)?;
        let other = sub.graph.add(Op::Cast(other), r.ty);
        let node = sub.graph.add(Op::Select(hit, here, other), r.ty);
        let out = self.temporary(&r.free, r.ty);
        self.emit(sub, out, node, Place::Axes(axes));
        Ok(out)
    }

    /// The position of an element of a temporary over `free`.
    fn positions(&self, sub: &Scope, free: &[usize]) -> Result<SmallVec<[Index; 4]>, Why> {
        let at = |v: &usize| {
            let lo = self.ranges[*v].map_or(0, |r| r.lo);
            sub.vars[*v].as_ref().and_then(|b| b.total.plus(&Affine::constant(lo), -1)).map(Index::Affine)
        };
        free.iter().map(at).collect::<Option<_>>().ok_or("an index leaves i64")
    }

    /// Divides the sum `sums` by the number of elements that took part.
    fn masked_mean(&mut self, r: &Reduction, sums: ValueId) -> Result<ValueId, Why> {
        let one = LoopExpr::new(SOp::Const(Scalar::Float(1.0)), r.ty);
        // Elements that the body skips do not count, so its accesses are kept.
        let kept = LoopExpr::new(
            SOp::Select(
                LoopExpr::new(SOp::Call(Builtin::Eq, vec![r.body.clone(), r.body.clone()]), DType::Bool),
                one.clone(),
                one,
            ),
            r.ty,
        );
        let count = Reduction {
            red: Red::Sum,
            vars: r.vars,
            filter: r.filter,
            body: &kept,
            otherwise: None,
            ty: r.ty,
            free: r.free.clone(),
        };
        let counts = self.over_map(&count)?;
        let (mut sub, axes) = self.inner(&r.free)?;
        let idx = self.positions(&sub, &r.free)?;
        let mut load = |value| {
            sub.graph.add(Op::Load(Load { value, idx: idx.clone(), outside: None, no_minus_zero: false }), r.ty)
        };
        let (sum, count) = (load(sums), load(counts));
        let mean = sub.graph.add(Op::Call(Builtin::Div, smallvec![sum, count]), r.ty);
        let out = self.temporary(&r.free, r.ty);
        self.emit(sub, out, mean, Place::Axes(axes));
        Ok(out)
    }

    /// The elements that a reduction takes: those for which all tests and conditions hold. A condition is evaluated only
    /// if those before it hold.
    fn mask(&mut self, sub: &mut Scope, tests: Vec<NodeId>, conds: &[LoopExpr]) -> Result<Option<NodeId>, Why> {
        sub.cond = tests.into_iter().fold(None, |mask, test| Some(sub.and(mask, test)));
        for c in conds {
            let c = self.expr(sub, c)?;
            sub.cond = Some(sub.and(sub.cond, c));
        }
        Ok(sub.cond)
    }

    fn scatter(
        &mut self,
        r: &Reduction,
        mut sub: Scope,
        tests: Vec<NodeId>,
        conds: &[LoopExpr],
        placements: Vec<Placement>,
        how: Combine,
    ) -> Result<ValueId, Why> {
        let start = LoopExpr::new(SOp::Const(neutral(r.red, r.ty)), r.ty);
        let base = match (r.otherwise, how) {
            (Some(e), Combine::Replace) => Some(e),
            _ if neutral(r.red, r.ty).as_f64() == 0.0 => None,
            _ => Some(&start),
        };
        let base = match base {
            Some(e) => {
                let (mut scope, axes) = self.inner(&r.free)?;
                let node = self.expr(&mut scope, e)?;
                let node = scope.graph.add(Op::Cast(node), r.ty);
                let base = self.temporary(&r.free, r.ty);
                self.emit(scope, base, node, Place::Axes(axes));
                Some(base)
            }
            None => None,
        };
        let mut mask = self.mask(&mut sub, tests, conds)?;
        let mut idx: SmallVec<[Index; 4]> = SmallVec::new();
        for v in &r.free {
            let lo = self.ranges[*v].map_or(0, |r| r.lo);
            idx.push(match placements.iter().find(|p| p.target == *v) {
                None => {
                    let total = sub.vars[*v].as_ref().and_then(|b| b.total.plus(&Affine::constant(lo), -1));
                    Index::Affine(total.ok_or("an index leaves i64")?)
                }
                Some(p) => match self.affine(&sub, &p.index) {
                    Some(a) => Index::Affine(a.plus(&Affine::constant(lo), -1).ok_or("an index leaves i64")?),
                    None if lo == 0 => Index::Node(self.expr(&mut sub, &p.index)?),
                    None => return Err("elements placed along a range that does not start at 0"),
                },
            });
        }
        let node = self.expr(&mut sub, r.body)?;
        let node = sub.graph.add(Op::Cast(node), r.ty);
        sub.cond = None;
        for skip in std::mem::take(&mut sub.skips) {
            mask = Some(sub.and(mask, skip));
        }
        let mask = mask.filter(|m| !sub.graph.as_const(*m).is_some_and(|s| s.as_bool()));
        let value = self.temporary(&r.free, r.ty);
        let order =
            r.vars.iter().filter_map(|v| sub.vars[v.var].as_ref()).flat_map(|b| b.digits.iter().copied()).collect();
        self.emit(sub, value, node, Place::Scatter { idx, mask, how, strict: false, base, order });
        Ok(value)
    }
}
