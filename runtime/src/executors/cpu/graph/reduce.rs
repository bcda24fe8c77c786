//! Reductions of a nest: contraction, scan, scatter, or a reduction of a map.

use super::super::kern::gather::Combine;
use super::convert::{Bound, Converter, Scope, Why};
use super::filter::Placement;
use super::piece::{Chunk, Contract, Fragment, Out, Piece, Place, Scan};
use super::vars::{conjuncts, mentions, walk};
use super::{Affine, Axis, Dim, DimSet, Graph, Index, Load, NodeId, Op, ValueId};
use fulgurite_core::builtins::Builtin;
use fulgurite_core::eval::nest::neutral;
use fulgurite_core::lang::ast::Red;
use fulgurite_core::nest::{SExpr, SOp, SRange};
use fulgurite_core::{DType, Scalar};
use rustc_hash::FxHashSet;
use smallvec::{SmallVec, smallvec};
use std::rc::Rc;

/// The parts of a reduction.
struct Reduction<'e> {
    red: Red,
    vars: &'e [SRange],
    filter: Option<&'e SExpr>,
    body: &'e SExpr,
    otherwise: Option<&'e SExpr>,
    ty: DType,
    /// Variables of the expression that are bound outside.
    free: Vec<usize>,
}

impl Converter<'_> {
    /// Computes the reduction `e` as a value of its own and loads it.
    pub(super) fn reduction(&mut self, s: &mut Scope, e: &SExpr) -> Result<NodeId, Why> {
        let SOp::Reduce { red, vars, filter, body, otherwise } = e.op() else { return Err("no reduction") };
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
            None => match self.contraction(&r)? {
                Some(v) => v,
                None => self.over_map(&r)?,
            },
        };
        let mut idx = SmallVec::new();
        for v in &r.free {
            let lo = self.ranges[*v].map_or(0, |r| r.lo);
            let at = s.vars[*v].as_ref().and_then(|b| b.total.plus(&Affine::constant(lo), -1));
            idx.push(Index::Affine(at.ok_or("an index leaves i64")?));
        }
        let node = s.graph.add(Op::Load(Load { value, idx, outside: None }), r.ty);
        Ok(node)
    }

    /// A scope with the free variables bound, and the axes that they make.
    fn inner(&mut self, free: &[usize]) -> Result<(Scope, Vec<Axis>), Why> {
        let mut sub = Scope::new(self.line.nest.vars.len());
        let mut axes = Vec::new();
        for &v in free {
            let range = self.ranges[v].ok_or("a variable without a range")?;
            axes.push(self.bind(&mut sub, v, range)?.digits);
        }
        Ok((sub, axes))
    }

    fn temporary(&mut self, free: &[usize], dtype: DType) -> ValueId {
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

    /// `red[j in 0..n + c](x[…, j])` and its mirror image.
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
        // What is scanned: the body over the other free variables, then j.
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
        // The axes in the order of the free variables.
        let (mut sub, axes) = self.inner(&r.free)?;
        let idx = others.iter().chain([&along]).map(|v| {
            let lo = self.ranges[*v].map_or(0, |r| r.lo);
            sub.vars[*v].as_ref().and_then(|b: &Bound| b.total.plus(&Affine::constant(lo), -1)).map(Index::Affine)
        });
        let idx = idx.collect::<Option<_>>().ok_or("an index leaves i64")?;
        let node = sub.graph.add(Op::Load(Load { value: scanned, idx, outside: None }), r.ty);
        let value = self.temporary(&r.free, r.ty);
        self.emit(sub, value, node, Place::Axes(axes));
        Ok(Some(value))
    }

    /// A sum of products of two loads.
    fn contraction(&mut self, r: &Reduction) -> Result<Option<ValueId>, Why> {
        if r.red != Red::Sum || r.filter.is_some() || r.otherwise.is_some() || !r.ty.is_float() {
            return Ok(None);
        }
        let SOp::Call(Builtin::Mul, factors) = r.body.op() else { return Ok(None) };
        if r.body.ty() != r.ty || r.vars.iter().any(|v| v.lo.as_int().is_none() || v.hi.as_int().is_none()) {
            return Ok(None);
        }
        let (mut sub, axes) = self.inner(&r.free)?;
        let tests = self.bind_ranges(&mut sub, r.vars)?;
        let a = self.expr(&mut sub, &factors[0])?;
        let b = self.expr(&mut sub, &factors[1])?;
        let (Some(la), Some(lb)) = (operand(&sub, a), operand(&sub, b)) else { return Ok(None) };
        if !tests.is_empty() || !sub.skips.is_empty() {
            return Ok(None);
        }
        let (da, db) = (sub.graph.node(a).dims, sub.graph.node(b).dims);
        let free: DimSet = axes.iter().flatten().copied().collect();
        let reduced = da.union(db).minus(free);
        let rows = da.minus(db).meet(free);
        let cols = db.minus(da).meet(free);
        // Sums over one operand alone, and dot products, are reductions of a map.
        if reduced.is_empty() || !reduced.within(da.meet(db)) || (rows.is_empty() && cols.is_empty()) {
            return Ok(None);
        }
        // Dims that run over neither operand broadcast the result; leave those to a map.
        if !free.within(da.union(db)) {
            return Ok(None);
        }
        let bound: DimSet =
            r.vars.iter().filter_map(|v| sub.vars[v.var].as_ref()).flat_map(|b| b.digits.iter().copied()).collect();
        if !bound.within(reduced) {
            return Ok(None);
        }
        let sizes = sub.graph.sizes.clone();
        let (mut a, mut b, mut chunk) = (la, lb, None);
        for (right, other) in [(false, db), (true, da)] {
            let (load, dims) = if right { (&mut b, db) } else { (&mut a, da) };
            let lies = self.lies(load, &sizes);
            if lies && self.values.ty(load.value).dtype == r.ty {
                continue;
            }
            let apart = if lies || chunk.is_some() {
                None
            } else {
                chunk_dim(load, dims.minus(other), dims.meet(reduced), &sizes)
            };
            let (packed, copy) = self.copy(&sizes, load, r.ty, dims, reduced, apart)?;
            match apart {
                Some(dim) => {
                    let steps =
                        load.idx.iter().map(|i| if let Index::Affine(a) = i { a.coef(dim) } else { 0 }).collect();
                    let (source, packed_value) = (load.value, packed.value);
                    chunk = Some(Chunk { right, dim, source, copy: Rc::new(copy), packed: packed_value, steps });
                }
                None => self.pieces.push(Piece::Map(copy)),
            }
            *load = packed;
        }
        let out = self.temporary(&r.free, r.ty);
        self.pieces.push(Piece::Contract(Box::new(Contract {
            sizes,
            a,
            b,
            axes,
            reduced: reduced.iter().collect(),
            out,
            chunk,
        })));
        Ok(Some(out))
    }

    /// Whether an operand is strided memory in which every element stands once.
    fn lies(&self, load: &Load, sizes: &[usize]) -> bool {
        let window = load.idx.iter().any(|i| match i {
            Index::Affine(a) => overlaps(&a.terms, sizes),
            Index::Node(_) => true,
        });
        !window && load.outside.is_none()
    }

    /// A copy of an operand with one axis per dim, those that are summed last; at index 0 of `apart`, if that is run
    /// through outside.
    fn copy(
        &mut self,
        sizes: &[usize],
        load: &Load,
        ty: DType,
        dims: DimSet,
        reduced: DimSet,
        apart: Option<Dim>,
    ) -> Result<(Load, Fragment), Why> {
        let here = dims.minus(apart.map_or(DimSet::EMPTY, DimSet::one));
        let order: Vec<Dim> = here.minus(reduced).iter().chain(here.meet(reduced).iter()).collect();
        let mut graph = Graph::default();
        let mut map = vec![Affine::default(); sizes.len()];
        let mut axes = Vec::new();
        let mut shape = Vec::new();
        for &d in &order {
            let n = sizes[d as usize];
            let fresh = graph.dim(n);
            map[d as usize] = Affine::dim(fresh);
            axes.push(smallvec![fresh]);
            shape.push(n);
        }
        let idx = load.idx.iter().map(|i| match i {
            Index::Affine(a) => a.substitute(&mut |d| &map[d as usize]).map(Index::Affine),
            Index::Node(_) => None,
        });
        let idx = idx.collect::<Option<_>>().ok_or("an index leaves i64")?;
        let stored = self.values.ty(load.value).dtype.opmath();
        let node = graph.add(Op::Load(Load { value: load.value, idx, outside: load.outside }), stored);
        let node = graph.add(Op::Cast(node), ty);
        let value = self.values.add(ty, &shape);
        let fragment = Fragment { graph, outs: vec![Out { value, node, place: Place::Axes(axes) }], view: false };
        let packed = Load { value, idx: order.iter().map(|d| Index::Affine(Affine::dim(*d))).collect(), outside: None };
        Ok((packed, fragment))
    }

    /// A reduction of a map over loops, perhaps one that places its elements.
    fn over_map(&mut self, r: &Reduction) -> Result<ValueId, Why> {
        let (mut sub, axes) = self.inner(&r.free)?;
        let mut tests = self.bind_ranges(&mut sub, r.vars)?;
        let mut conds = conjuncts(r.filter);
        let bound: Vec<usize> = r.vars.iter().map(|v| v.var).collect();
        let ordered = matches!(r.red, Red::Last | Red::First | Red::Only | Red::ArgMax | Red::ArgMin);
        // A range that was tested may stand on the loop that solving takes away.
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
            let elsewhere: Vec<&SExpr> = ends.chain([r.body]).collect();
            let placements = self.placements(&mut conds, &r.free, &elsewhere);
            if !placements.is_empty() {
                let out = self.scatter(r, sub, tests, &conds, placements, how)?;
                return match r.otherwise {
                    Some(other) if how != Combine::Replace => self.alternative(r, other, out),
                    _ => Ok(out),
                };
            }
        }
        let mut mask: Option<NodeId> = None;
        for t in tests {
            mask = Some(sub.and(mask, t));
        }
        for c in &conds {
            // The rest is evaluated only where the conditions before hold.
            sub.cond = mask;
            let c = self.expr(&mut sub, c)?;
            mask = Some(sub.and(mask, c));
        }
        sub.cond = mask;
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
        let node =
            sub.graph.add(Op::Reduce { red, arg: value, mask: mask.filter(|_| extremum), order: order.clone() }, ty);
        Ok(sub.graph.add(Op::Cast(node), r.ty))
    }

    /// `value` where any element took part, elsewhere `other`.
    fn alternative(&mut self, r: &Reduction, other: &SExpr, value: ValueId) -> Result<ValueId, Why> {
        let (red, ty) = (Red::Any, DType::Bool);
        let yes = SExpr::new(SOp::Const(Scalar::Bool(true)), ty);
        let (vars, filter, free) = (r.vars, r.filter, r.free.clone());
        let hits = self.over_map(&Reduction { red, vars, filter, body: &yes, otherwise: None, ty, free })?;
        let (mut sub, axes) = self.inner(&r.free)?;
        let idx = self.positions(&sub, &r.free)?;
        let mut load = |value, ty| sub.graph.add(Op::Load(Load { value, idx: idx.clone(), outside: None }), ty);
        let (hit, here) = (load(hits, DType::Bool), load(value, r.ty));
        let other = self.expr(&mut sub, other)?;
        let other = sub.graph.add(Op::Cast(other), r.ty);
        let node = sub.graph.add(Op::Select(hit, here, other), r.ty);
        let out = self.temporary(&r.free, r.ty);
        self.emit(sub, out, node, Place::Axes(axes));
        Ok(out)
    }

    /// Where an element of a temporary over `free` lies.
    fn positions(&self, sub: &Scope, free: &[usize]) -> Result<SmallVec<[Index; 4]>, Why> {
        let at = |v: &usize| {
            let lo = self.ranges[*v].map_or(0, |r| r.lo);
            sub.vars[*v].as_ref().and_then(|b| b.total.plus(&Affine::constant(lo), -1)).map(Index::Affine)
        };
        free.iter().map(at).collect::<Option<_>>().ok_or("an index leaves i64")
    }

    /// The sum `sums` divided by how many elements took part.
    fn masked_mean(&mut self, r: &Reduction, sums: ValueId) -> Result<ValueId, Why> {
        let one = SExpr::new(SOp::Const(Scalar::Float(1.0)), r.ty);
        // Elements that the body leaves out count as little as those that the filter does: keep its accesses.
        let kept = SExpr::new(
            SOp::Select(
                SExpr::new(SOp::Call(Builtin::Eq, vec![r.body.clone(), r.body.clone()]), DType::Bool),
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
        let mut load = |value| sub.graph.add(Op::Load(Load { value, idx: idx.clone(), outside: None }), r.ty);
        let (sum, count) = (load(sums), load(counts));
        let mean = sub.graph.add(Op::Call(Builtin::Div, smallvec![sum, count]), r.ty);
        let out = self.temporary(&r.free, r.ty);
        self.emit(sub, out, mean, Place::Axes(axes));
        Ok(out)
    }

    fn scatter(
        &mut self,
        r: &Reduction,
        mut sub: Scope,
        tests: Vec<NodeId>,
        conds: &[SExpr],
        placements: Vec<Placement>,
        how: Combine,
    ) -> Result<ValueId, Why> {
        let start = SExpr::new(SOp::Const(neutral(r.red, r.ty)), r.ty);
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
        let mut mask: Option<NodeId> = None;
        for t in tests {
            mask = Some(sub.and(mask, t));
        }
        for c in conds {
            sub.cond = mask;
            let c = self.expr(&mut sub, c)?;
            mask = Some(sub.and(mask, c));
        }
        sub.cond = mask;
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
        self.emit(sub, value, node, Place::Scatter { idx, mask, how, base, order });
        Ok(value)
    }
}

/// The load that a factor is.
fn operand(s: &Scope, node: NodeId) -> Option<Load> {
    match &s.graph.node(node).op {
        Op::Load(l) if l.idx.iter().all(|i| matches!(i, Index::Affine(_))) => Some(l.clone()),
        _ => None,
    }
}

/// Copies above this many elements are made part by part.
const CHUNK: usize = 64 * 1024;

/// The dim to run through outside while an operand is copied: one that only this operand has and that is no window's,
/// so that its copies differ by an offset alone.
fn chunk_dim(load: &Load, own: DimSet, reduced: DimSet, sizes: &[usize]) -> Option<Dim> {
    let total: usize = load
        .idx
        .iter()
        .flat_map(|i| if let Index::Affine(a) = i { a.dims().iter().collect::<Vec<_>>() } else { Vec::new() })
        .collect::<DimSet>()
        .iter()
        .map(|d| sizes[d as usize])
        .product();
    if total <= CHUNK {
        return None;
    }
    let alone = |d: Dim| {
        let mut uses = load.idx.iter().filter(|i| matches!(i, Index::Affine(a) if a.coef(d) != 0));
        matches!((uses.next(), uses.next()), (Some(Index::Affine(a)), None) if a.terms.len() == 1 && a.base == 0)
    };
    // A dim that is summed is in both operands: then the other one is run through with it.
    own.union(reduced).iter().filter(|d| alone(*d)).find(|d| {
        let left = total / sizes[*d as usize];
        (1024..=16 * CHUNK).contains(&left)
    })
}

/// Whether two positions of the dims give the same index: a window, not a mixed-radix number.
fn overlaps(terms: &[(Dim, i64)], sizes: &[usize]) -> bool {
    let mut terms: SmallVec<[(i64, i64); 4]> =
        terms.iter().map(|&(d, c)| (c.abs(), sizes[d as usize] as i64)).collect();
    terms.sort_unstable();
    terms.windows(2).any(|w| w[1].0 < w[0].0 * w[0].1)
}
