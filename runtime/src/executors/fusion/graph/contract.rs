//! Contractions: sums of products of two operands, as matrix products.

use super::convert::{Converter, Scope, Why};
use super::piece::{Chunk, Contract, Exact, Fragment, Out, Piece, Place, Unused};
use super::reduce::Reduction;
use super::vars::conjuncts;
use super::{Affine, Dim, DimSet, Graph, Index, Load, NodeId, Op, ValueId};
use fulgurite_core::DType;
use fulgurite_core::builtins::Builtin;
use fulgurite_core::lang::ast::Red;
use fulgurite_core::loop_nest::SOp;
use smallvec::{SmallVec, smallvec};
use std::rc::Rc;

impl Converter<'_> {
    /// Converts a sum of products of two loads. `exactly` is a sum that leaves out terms which `r` has as zeros of this
    /// value; then the product must be one of windows.
    pub(super) fn contraction(
        &mut self,
        r: &Reduction,
        exactly: Option<(&Reduction, ValueId)>,
    ) -> Result<Option<ValueId>, Why> {
        if r.red != Red::Sum || r.otherwise.is_some() || !r.ty.is_float() {
            return Ok(None);
        }
        let SOp::Call(Builtin::Mul, factors) = r.body.op() else { return Ok(None) };
        if r.body.ty() != r.ty || r.vars.iter().any(|v| v.lo.as_int().is_none() || v.hi.as_int().is_none()) {
            return Ok(None);
        }
        let (mut sub, axes) = self.inner(&r.free)?;
        let mut tests = self.bind_ranges(&mut sub, r.vars)?;
        let mut conds = conjuncts(r.filter);
        if tests.is_empty() {
            let bound: Vec<usize> = r.vars.iter().map(|v| v.var).collect();
            tests = self.solve(&mut sub, &mut conds, &bound, &r.free);
        }
        let a = self.expr(&mut sub, &factors[0])?;
        let b = self.expr(&mut sub, &factors[1])?;
        let (Some(la), Some(lb)) = (operand(&sub, a), operand(&sub, b)) else { return Ok(None) };
        // A skipped element contributes a product with zero, as long as the other factor is finite.
        tests.append(&mut sub.skips);
        let mut finite: SmallVec<[ValueId; 2]> = SmallVec::new();
        for t in tests {
            if sub.graph.as_const(t).is_some_and(|t| t.as_bool()) {
                continue;
            }
            finite.push(match (self.implies(&sub, &la, t), self.implies(&sub, &lb, t)) {
                (true, _) => lb.value,
                (_, true) => la.value,
                _ => return Ok(None),
            });
        }
        if let Some((_, zeros)) = exactly {
            finite.push(if la.value == zeros { lb.value } else { la.value });
        }
        finite.sort_unstable();
        finite.dedup();
        if !conds.is_empty() {
            return Ok(None);
        }
        let (da, db) = (sub.graph.node(a).dims, sub.graph.node(b).dims);
        let free: DimSet = axes.iter().flatten().copied().collect();
        let reduced = da.union(db).minus(free);
        let rows = da.minus(db).meet(free);
        let cols = db.minus(da).meet(free);
        // Sums over one operand alone, and dot products, stay reductions of a map.
        if reduced.is_empty() || !reduced.within(da.meet(db)) || (rows.is_empty() && cols.is_empty()) {
            return Ok(None);
        }
        // Dims that neither operand has broadcast the result, which is left to a map.
        if !free.within(da.union(db)) {
            return Ok(None);
        }
        let bound: DimSet =
            r.vars.iter().filter_map(|v| sub.vars[v.var].as_ref()).flat_map(|b| b.digits.iter().copied()).collect();
        if !bound.within(reduced) {
            return Ok(None);
        }
        if exactly.is_some() && !self.one_slides([&la, &lb], [da, db], reduced, &sub.graph.sizes) {
            return Ok(None);
        }
        let out = self.temporary(&r.free, r.ty);
        let exact = match finite.is_empty() {
            true => None,
            false => match self.literally(exactly.map_or(r, |e| e.0), out)? {
                Some(sum) => Some(Exact { finite, sum: Rc::new(sum) }),
                None => return Ok(None),
            },
        };
        let sizes = sub.graph.sizes.clone();
        let ([a, b], chunk) = self.laid_out(&sizes, r.ty, [la, lb], [da, db], free, reduced)?;
        self.pieces.push(Piece::Contract(Box::new(Contract {
            sizes,
            a,
            b,
            axes,
            reduced: reduced.iter().collect(),
            out,
            chunk,
            exact,
            unused: Unused::default(),
        })));
        Ok(Some(out))
    }

    /// The operands in a form that a product takes: they are copied if their layout does not fit, one of them perhaps
    /// one part at a time.
    fn laid_out(
        &mut self,
        sizes: &[usize],
        ty: DType,
        loads: [Load; 2],
        dims: [DimSet; 2],
        free: DimSet,
        reduced: DimSet,
    ) -> Result<([Load; 2], Option<Chunk>), Why> {
        let ([mut a, mut b], mut chunk) = (loads, None);
        let kinds = [&a, &b].map(|l| self.values.ty(l.value).dtype);
        if self.line.slides && ty == DType::F32 && kinds == [ty; 2] && self.one_slides([&a, &b], dims, reduced, sizes) {
            return Ok(([a, b], None));
        }
        let halves = self.line.halves
            && ty == DType::F32
            && matches!(kinds, [DType::F16, DType::F16] | [DType::BF16, DType::BF16]);
        let halves = halves && a.lies(sizes) && b.lies(sizes);
        let ready = |c: &Self, l: &Load| halves || l.lies(sizes) && c.values.ty(l.value).dtype == ty;
        let (straight_a, straight_b) = (ready(self, &a), ready(self, &b));
        let mut copied = [!straight_a, !straight_b];
        // One operand may be copied one part at a time.
        let mut apart = [None, None];
        if let Some(which) = [&a, &b].iter().position(|l| !l.lies(sizes)) {
            apart[which] = chunk_dim([&a, &b][which], (dims[which], dims[1 - which]), reduced, sizes);
        }
        // If one operand is copied, its sums are contiguous. The other operand is then copied too if its sums are not
        // contiguous and it is used often, which gives one product instead of many.
        if copied[0] != copied[1] {
            let other = copied[0] as usize;
            let uses: usize = free.minus(dims[other]).iter().map(|d| sizes[d as usize]).fold(1, usize::saturating_mul);
            let sums = reduced.minus(apart[1 - other].map_or(DimSet::EMPTY, DimSet::one));
            copied[other] = uses >= OFTEN && !self.sums_merge([&a, &b][other], sums, sizes);
        }
        for which in [0, 1].into_iter().filter(|w| copied[*w]) {
            let load = if which == 0 { &mut a } else { &mut b };
            let (packed, copy) = self.copy(sizes, load, ty, dims[which], reduced, apart[which])?;
            match apart[which] {
                Some(dim) => {
                    let steps =
                        load.idx.iter().map(|i| if let Index::Affine(a) = i { a.coef(dim) } else { 0 }).collect();
                    let (right, source, packed) = (which == 1, load.value, packed.value);
                    chunk = Some(Chunk { right, dim, source, copy: Rc::new(copy), packed, steps });
                }
                None if self.values.ty(load.value).dtype == ty => self.pieces.push(Piece::Copy(copy)),
                None => self.pieces.push(Piece::Map(copy)),
            }
            *load = packed;
        }
        Ok(([a, b], chunk))
    }

    /// Whether one operand slides, and the other is strided memory.
    fn one_slides(&self, loads: [&Load; 2], dims: [DimSet; 2], reduced: DimSet, sizes: &[usize]) -> bool {
        [0, 1].into_iter().any(|which| {
            let (load, other) = (loads[which], loads[1 - which]);
            let own = dims[which].minus(dims[1 - which]);
            let shape = &self.values.ty(load.value).shape;
            let slides = || load.slides(own, reduced, shape, sizes).is_some();
            let places = || load.sums_windows(own, reduced, shape, sizes).is_some();
            other.lies(sizes) && (slides() || places())
        })
    }

    /// The sum as loops, for `out`.
    fn literally(&mut self, r: &Reduction, out: ValueId) -> Result<Option<Fragment>, Why> {
        let before = self.pieces.len();
        self.over_map(r)?;
        let mut pieces = self.pieces.split_off(before);
        let Some(Piece::Map(mut sum)) = pieces.pop().filter(|_| pieces.is_empty()) else { return Ok(None) };
        let [only] = sum.outs.as_mut_slice() else { return Ok(None) };
        only.value = out;
        Ok(matches!(only.place, Place::Axes(_)).then_some(sum))
    }

    /// Whether a failing condition implies that the load reads zero, because the index is out of range.
    fn implies(&self, s: &Scope, load: &Load, condition: NodeId) -> bool {
        let (affine, equal) = match &s.graph.node(condition).op {
            Op::Test { affine, equal } => (affine, *equal),
            Op::Call(Builtin::And, both) => return both.iter().all(|c| self.implies(s, load, *c)),
            _ => return false,
        };
        let zero = load.outside.is_some_and(|z| z.scalar().as_f64() == 0.0);
        let shape = &self.values.ty(load.value).shape;
        let within = |(i, n): (&Index, &usize)| match i {
            Index::Affine(a) => a == affine || Affine::constant(*n as i64 - 1).plus(a, -1).as_ref() == Some(affine),
            Index::Node(_) => false,
        };
        zero && !equal && load.idx.iter().zip(shape).any(within)
    }

    /// Whether the summed dims are contiguous in an operand, in their order.
    fn sums_merge(&self, load: &Load, reduced: DimSet, sizes: &[usize]) -> bool {
        let steps = self.steps(load, sizes.len());
        let sums: Vec<Dim> = reduced.iter().filter(|d| sizes[*d as usize] > 1).collect();
        sums.windows(2).all(|w| steps[w[0] as usize] == steps[w[1] as usize] * sizes[w[1] as usize] as i64)
    }

    /// The stride of each dim in elements, if the value is dense.
    fn steps(&self, load: &Load, dims: usize) -> Vec<i64> {
        let mut steps = vec![0i64; dims];
        for (i, stride) in load.idx.iter().zip(self.values.ty(load.value).strides()) {
            if let Index::Affine(a) = i {
                a.terms.iter().for_each(|&(d, c)| {
                    steps[d as usize] = steps[d as usize].saturating_add(c.saturating_mul(stride));
                });
            }
        }
        steps
    }

    /// A copy of an operand with one axis per dim, at index 0 of `apart` if the caller iterates over that dim. The
    /// summed dims are contiguous, before or after the others as in the source.
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
        let steps = self.steps(load, sizes.len());
        let fastest = here
            .iter()
            .filter(|d| steps[*d as usize] != 0 && sizes[*d as usize] > 1)
            .min_by_key(|d| (steps[*d as usize].unsigned_abs(), std::cmp::Reverse(sizes[*d as usize])));
        let (sums, others) = (here.meet(reduced), here.minus(reduced));
        let order: Vec<Dim> = match fastest.is_some_and(|d| others.has(d)) {
            true => sums.iter().chain(others.iter()).collect(),
            false => others.iter().chain(sums.iter()).collect(),
        };
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
        let node =
            graph.add(Op::Load(Load { value: load.value, idx, outside: load.outside, no_minus_zero: false }), stored);
        let node = graph.add(Op::Cast(node), ty);
        let value = self.values.add(ty, &shape);
        let fragment = Fragment { graph, outs: vec![Out { value, node, place: Place::Axes(axes) }], view: false };
        let packed = Load {
            value,
            idx: order.iter().map(|d| Index::Affine(Affine::dim(*d))).collect(),
            outside: None,
            no_minus_zero: false,
        };
        Ok((packed, fragment))
    }
}

/// The load, if a factor is one.
fn operand(s: &Scope, node: NodeId) -> Option<Load> {
    match &s.graph.node(node).op {
        Op::Load(l) if l.idx.iter().all(|i| matches!(i, Index::Affine(_))) => Some(l.clone()),
        _ => None,
    }
}

/// Copies of more elements than this are made one part at a time.
const CHUNK: usize = 64 * 1024;

/// An operand whose elements are used at least this often is copied, so that its sums are contiguous.
const OFTEN: usize = 64;

/// The dim to iterate over while an operand is copied: one that is not part of a window, so that its copies differ by
/// an offset alone; among those, the one that leaves the squarest products. `dims` are those of this operand and of the
/// other.
fn chunk_dim(load: &Load, dims: (DimSet, DimSet), reduced: DimSet, sizes: &[usize]) -> Option<Dim> {
    let count = |dims: DimSet| dims.iter().map(|d| sizes[d as usize]).fold(1, usize::saturating_mul);
    let total = count(dims.0);
    if total <= CHUNK {
        return None;
    }
    let alone = |d: Dim| {
        let mut uses = load.idx.iter().filter(|i| matches!(i, Index::Affine(a) if a.coef(d) != 0));
        matches!((uses.next(), uses.next()), (Some(Index::Affine(a)), None) if a.terms.len() == 1 && a.base == 0)
    };
    let (own, other) = (dims.0.minus(dims.1), dims.1.minus(dims.0));
    // Both operands have a summed dim, so the iteration moves the other one too.
    let candidates = own.union(reduced).iter().filter(|d| alone(*d)).filter(|d| {
        let left = total / sizes[*d as usize];
        (1024..=16 * CHUNK).contains(&left)
    });
    let least = |d: Dim| {
        let without = |set: DimSet| count(set.minus(DimSet::one(d)));
        without(own).min(without(other)).min(without(reduced))
    };
    candidates.max_by_key(|d| (least(*d), std::cmp::Reverse(*d)))
}
