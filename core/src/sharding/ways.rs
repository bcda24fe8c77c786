//! The ways to run a row's loops distributed over ranks.
//!
//! Variables that index one whole axis of some tensors, and occur nowhere else, shard all of these alike: the result
//! along the axis of that variable, or, if the variable is reduced, into partial results. Each result has variables of
//! its own. An expression that is linear in tensors that are partial sums is a partial sum itself.

use super::fold::{Degree, degree, mentions, over, picks};
use super::{Fold, Place};
use crate::Dim;
use crate::loop_nest::{LoopExpr, Nest, SOp, SOutside, SRange, VarId};

/// A way to run a call distributed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Way {
    /// The required placement of each tensor, in the order of the nest's loads.
    pub ins: Vec<Place>,
    /// The placement of each result.
    pub outs: Vec<Place>,
    /// The sharded variables or axis; `None` if nothing is sharded.
    pub cut: Option<Cut>,
}

/// The part of the loops that is sharded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cut {
    /// Index variables of one extent.
    Vars(Vec<VarId>),
    /// An axis of pointwise loops, counted from the last.
    Axis(usize),
}

impl Way {
    /// The loops in which the sharded extent has `to` elements. A call on shards of that size must have these loops,
    /// else it has another meaning.
    pub fn resized(&self, nest: &Nest, to: i64) -> Nest {
        let mut resized = nest.clone();
        let vars: &[VarId] = if let Some(Cut::Vars(vars)) = &self.cut { vars } else { &[] };
        vars.iter().for_each(|var| resized.vars[*var] = Dim::from(to));
        for (out, place) in resized.outs.iter_mut().zip(&self.outs) {
            if let Place::Shard(axis) = place {
                out.shape[*axis] = Dim::from(to);
            }
            out.expr = ranged(&out.expr, vars, to);
        }
        resized
    }

    /// The extent of the sharded variables or axis.
    pub fn extent(&self, nest: &Nest) -> Option<i64> {
        match self.cut.as_ref()? {
            Cut::Vars(vars) => vars.first().map(|var| nest.vars[*var].value()),
            Cut::Axis(back) => nest.outs[0].shape.iter().rev().nth(*back).map(|d| d.value()),
        }
    }
}

/// The expression with the ranges of the sharded reduced variables shortened.
fn ranged(e: &LoopExpr, cut: &[VarId], to: i64) -> LoopExpr {
    e.rebuilt(&|op| match op {
        SOp::Reduce { red, vars, filter, body, otherwise } if vars.iter().any(|r| cut.contains(&r.var)) => {
            let range = |r: &SRange| {
                if cut.contains(&r.var) { SRange { hi: LoopExpr::int(to), ..r.clone() } } else { r.clone() }
            };
            Some(SOp::Reduce {
                red: *red,
                vars: vars.iter().map(range).collect(),
                filter: filter.clone(),
                body: ranged(body, cut, to),
                otherwise: otherwise.clone(),
            })
        }
        _ => None,
    })
}

/// The ways for tensors of these shapes with these placements (`None`: not distributed, and cannot be). The last one
/// always exists: every tensor replicated.
pub fn ways(nest: &Nest, shapes: &[Vec<i64>], have: &[Option<Place>]) -> Vec<Way> {
    let cuts: Vec<Way> = match nest.pointwise {
        true => (0..nest.outs.first().map_or(0, |o| o.shape.len())).filter_map(|i| aligned(nest, shapes, i)).collect(),
        false => {
            let mut found: Vec<Way> = Vec::new();
            for way in (0..nest.vars.len()).filter_map(|v| along(nest, shapes, v)) {
                if !found.contains(&way) {
                    found.push(way);
                }
            }
            found
        }
    };
    // A cut that no tensor has yet is no better than whole tensors; and a tensor that cannot be distributed must stay
    // whole.
    let fits =
        |way: &Way| (0..have.len()).all(|t| have[t].is_some() || way.ins[t] == Place::Replicate || !loaded(nest, t));
    let met = |way: &Way| way.ins.iter().zip(have).any(|(p, h)| *p != Place::Replicate && Some(*p) == *h);
    let mut found: Vec<Way> = cuts.into_iter().filter(|w| fits(w) && met(w)).collect();
    found.extend(partial(nest, shapes.len(), have));
    let whole = |n: usize| vec![Place::Replicate; n];
    found.push(Way { ins: whole(shapes.len()), outs: whole(nest.outs.len()), cut: None });
    found
}

/// Whether elements of a tensor are read.
fn loaded(nest: &Nest, tensor: usize) -> bool {
    nest.outs.iter().any(|o| mentions(&o.expr, &[], &|t| t == tensor))
}

/// Pointwise loops cut along an axis, counted from the last.
fn aligned(nest: &Nest, shapes: &[Vec<i64>], back: usize) -> Option<Way> {
    let size = |shape: &[i64]| shape.len().checked_sub(back + 1).map(|axis| (axis, shape[axis]));
    let out: Vec<i64> = nest.outs[0].shape.iter().map(|d| d.value()).collect();
    let (axis, n) = size(&out)?;
    if nest.outs.iter().any(|o| draws(&o.expr)) {
        return None;
    }
    let place = |shape: &Vec<i64>| match size(shape) {
        Some((axis, m)) if m == n => Place::Shard(axis),
        _ => Place::Replicate,
    };
    let outs = vec![Place::Shard(axis); nest.outs.len()];
    Some(Way { ins: shapes.iter().map(place).collect(), outs, cut: Some(Cut::Axis(back)) })
}

/// Whether random numbers are drawn: they depend on the position in the whole result.
fn draws(e: &LoopExpr) -> bool {
    let mut found = matches!(e.op(), SOp::Uniform { .. });
    e.op().parts(&mut |part| found |= draws(part));
    found
}

/// Shards the loops along an index variable, and the loops of other results along the axes that correspond.
fn along(nest: &Nest, shapes: &[Vec<i64>], var: VarId) -> Option<Way> {
    let extent = nest.vars[var].value();
    let mut along = Along { vars: vec![var], extent, shapes, axes: vec![None; shapes.len()] };
    loop {
        let known = along.vars.len();
        along.axes = vec![None; shapes.len()];
        nest.outs.iter().try_for_each(|out| along.walk(&out.expr))?;
        nest.outs.iter().try_for_each(|out| along.join(nest, &out.expr))?;
        if along.vars.len() == known {
            break;
        }
    }
    along.vars.sort_unstable();
    let mut outs = Vec::new();
    for out in &nest.outs {
        let cut = |axis: &Option<VarId>| axis.is_some_and(|v| along.vars.contains(&v));
        let axes: Vec<usize> = (0..out.axes.len()).filter(|&e| cut(&out.axes[e])).collect();
        outs.push(match axes.as_slice() {
            [axis] => Place::Shard(*axis),
            [] if !mentions(&out.expr, &along.vars, &|_| false) => Place::Replicate,
            [] => Place::Partial(over(&out.expr, &along.vars)?),
            // Two variables would read the diagonal of a sharded tensor.
            _ => return None,
        });
    }
    // A tensor that is not loaded gives only its shape, which is that of a result.
    let shape =
        |t: usize| nest.outs.iter().position(|o| o.shape.iter().map(|d| d.value()).eq(shapes[t].iter().copied()));
    let place = |t: usize| match along.axes[t] {
        Some(axis) => axis.map_or(Place::Replicate, Place::Shard),
        None => shape(t).map_or(Place::Replicate, |out| outs[out]),
    };
    let ins =
        (0..shapes.len()).map(place).map(|p| if let Place::Shard(_) = p { p } else { Place::Replicate }).collect();
    Some(Way { ins, outs, cut: Some(Cut::Vars(along.vars)) })
}

/// The occurrences of the sharded variables.
struct Along<'a> {
    vars: Vec<VarId>,
    extent: i64,
    shapes: &'a [Vec<i64>],
    /// For each tensor: `None` until it is loaded, then the axis that the variables index, if any.
    axes: Vec<Option<Option<usize>>>,
}

impl Along<'_> {
    fn is(&self, e: &LoopExpr) -> bool {
        matches!(e.op(), SOp::Var(v) if self.vars.contains(v))
    }

    /// Adds the variables that index a sharded axis; `None` if another expression indexes it.
    fn join(&mut self, nest: &Nest, e: &LoopExpr) -> Option<()> {
        if let SOp::Load { tensor, idx, .. } = e.op()
            && let Some(Some(Some(axis))) = self.axes.get(*tensor)
        {
            let SOp::Var(v) = idx.get(*axis)?.op() else { return None };
            if nest.vars[*v].value() != self.extent {
                return None;
            }
            if !self.vars.contains(v) {
                self.vars.push(*v);
            }
        }
        let mut fine = true;
        e.op().parts(&mut |part| fine = fine && self.join(nest, part).is_some());
        fine.then_some(())
    }

    /// Records the axes that the variables index; `None` if a variable occurs where the loops cannot be sharded.
    fn walk(&mut self, e: &LoopExpr) -> Option<()> {
        match e.op() {
            SOp::Var(v) if self.vars.contains(v) => return None,
            SOp::Load { tensor, idx, outside } => {
                let bare: Vec<usize> = (0..idx.len()).filter(|&a| self.is(&idx[a])).collect();
                let axis = match bare.as_slice() {
                    [] => None,
                    [axis] => Some(*axis),
                    _ => return None,
                };
                if let Some(axis) = axis
                    && (*outside != SOutside::Refuse || *self.shapes.get(*tensor)?.get(axis)? != self.extent)
                {
                    return None;
                }
                let known = self.axes.get_mut(*tensor)?;
                match (*known, axis) {
                    // A variable that may join the others.
                    (Some(Some(_)), None) => {}
                    (Some(Some(a)), Some(b)) if a != b => return None,
                    _ => *known = Some(axis.or(known.flatten())),
                }
                idx.iter().enumerate().filter(|(a, _)| Some(*a) != axis).try_for_each(|(_, i)| self.walk(i))?;
                if let SOutside::Value(v) = outside {
                    self.walk(v)?;
                }
                return Some(());
            }
            SOp::Reduce { vars, .. } => {
                let whole = |lo: &LoopExpr, hi: &LoopExpr| lo.as_int() == Some(0) && hi.as_int() == Some(self.extent);
                if vars.iter().any(|r| self.vars.contains(&r.var) && !whole(&r.lo, &r.hi)) {
                    return None;
                }
            }
            SOp::Uniform { .. } => return None,
            _ => {}
        }
        let mut fine = true;
        e.op().parts(&mut |part| fine = fine && self.walk(part).is_some());
        fine.then_some(())
    }
}

/// At most this many tensors are considered together, because every subset of them is tried.
const MOST: usize = 8;

/// The ways on partial tensors: expressions that are linear in all of them.
fn partial(nest: &Nest, tensors: usize, have: &[Option<Place>]) -> Vec<Way> {
    let mut found = Vec::new();
    for fold in Fold::ALL {
        let parts = Place::Partial(fold);
        let may = |t: &usize| matches!(have[*t], Some(p) if p == parts || p == Place::Replicate);
        let open: Vec<usize> = (0..tensors).filter(may).take(MOST).collect();
        for chosen in 1u32..1 << open.len() {
            let of = |t: usize| open.iter().position(|o| *o == t).is_some_and(|i| chosen >> i & 1 == 1);
            if !(0..tensors).any(|t| of(t) && have[t] == Some(parts)) {
                continue;
            }
            let fits = |e: &LoopExpr| match fold {
                Fold::Sum | Fold::Avg => degree(e, &of) == Degree::Linear,
                Fold::Max | Fold::Min => picks(e, &of),
            };
            if nest.outs.iter().all(|o| fits(&o.expr)) {
                let ins = (0..tensors).map(|t| if of(t) { parts } else { Place::Replicate }).collect();
                found.push(Way { ins, outs: vec![parts; nest.outs.len()], cut: None });
            }
        }
    }
    found
}
