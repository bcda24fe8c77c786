//! Index variables and the conditions on them: which variables split into digits, where a filter's equations can be
//! solved, how far an index expression reaches.

use super::convert::{Converter, Range, Scope, Why};
use super::{Affine, Axis, Dim, NodeId};
use fulgurite_core::Scalar;
use fulgurite_core::builtins::Builtin;
use fulgurite_core::nest::{Nest, SExpr, SNode, SOp, SOutside};
use rustc_hash::FxHashSet;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Calls `f` on every distinct node below `e`, users before their arguments.
pub(super) fn walk(e: &SExpr, seen: &mut FxHashSet<*const SNode>, f: &mut dyn FnMut(&SExpr)) {
    if !seen.insert(Arc::as_ptr(&e.0)) {
        return;
    }
    f(e);
    match e.op() {
        SOp::Const(_) | SOp::Num(_) | SOp::Var(_) | SOp::Elem(_) => {}
        SOp::Load { idx, outside, .. } => {
            idx.iter().for_each(|i| walk(i, seen, f));
            if let SOutside::Value(v) = outside {
                walk(v, seen, f);
            }
        }
        SOp::Call(_, args) => args.iter().for_each(|a| walk(a, seen, f)),
        SOp::Cast(a) | SOp::Detach(a) => walk(a, seen, f),
        SOp::Select(a, b, c) => [a, b, c].into_iter().for_each(|a| walk(a, seen, f)),
        SOp::Reduce { vars, filter, body, otherwise, .. } => {
            for r in vars {
                walk(&r.lo, seen, f);
                walk(&r.hi, seen, f);
            }
            filter.iter().chain(otherwise).for_each(|a| walk(a, seen, f));
            walk(body, seen, f);
        }
        SOp::Uniform { position, .. } => walk(position, seen, f),
    }
}

/// Whether variable `v` occurs in `e`.
pub(super) fn mentions(e: &SExpr, v: usize) -> bool {
    let mut found = false;
    walk(e, &mut FxHashSet::default(), &mut |e| found |= matches!(e.op(), SOp::Var(w) if *w == v));
    found
}

/// `base + Σ coefficient · variable`, without the base.
fn linear(e: &SExpr) -> Option<SmallVec<[(usize, i64); 4]>> {
    let mut terms: SmallVec<[(usize, i64); 4]> = SmallVec::new();
    fn add(e: &SExpr, k: i64, terms: &mut SmallVec<[(usize, i64); 4]>) -> Option<()> {
        match e.op() {
            SOp::Const(_) => Some(()),
            SOp::Var(v) => {
                match terms.iter_mut().find(|t| t.0 == *v) {
                    Some(t) => t.1 = t.1.checked_add(k)?,
                    None => terms.push((*v, k)),
                }
                Some(())
            }
            SOp::Call(Builtin::Add, xs) => {
                add(&xs[0], k, terms)?;
                add(&xs[1], k, terms)
            }
            SOp::Call(Builtin::Sub, xs) => {
                add(&xs[0], k, terms)?;
                add(&xs[1], k.checked_neg()?, terms)
            }
            SOp::Call(Builtin::Mul, xs) => match (xs[0].as_int(), xs[1].as_int()) {
                (_, Some(c)) => add(&xs[0], k.checked_mul(c)?, terms),
                (Some(c), _) => add(&xs[1], k.checked_mul(c)?, terms),
                _ => None,
            },
            _ => None,
        }
    }
    add(e, 1, &mut terms)?;
    Some(terms)
}

/// Extents of the digits of every variable, slowest first, so that the divisions in the nest's indices (merged axes,
/// reshapes) become a choice of digits.
pub(super) fn split_vars(nest: &Nest) -> Vec<SmallVec<[usize; 2]>> {
    let mut cuts: Vec<SmallVec<[i64; 2]>> = vec![SmallVec::new(); nest.vars.len()];
    let mut seen = FxHashSet::default();
    for out in &nest.outs {
        walk(&out.expr, &mut seen, &mut |e| {
            let SOp::Call(b @ (Builtin::DivFloor | Builtin::RemFloor), xs) = e.op() else { return };
            let Some(mut k) = xs[1].as_int().filter(|k| *k > 1) else { return };
            // (x / a) % b cuts x at a · b.
            let mut x = &xs[0];
            if let (Builtin::RemFloor, SOp::Call(Builtin::DivFloor, inner)) = (b, x.op())
                && let Some(a) = inner[1].as_int().filter(|a| *a > 0)
            {
                x = &inner[0];
                k = k.saturating_mul(a);
            }
            for (v, c) in linear(x).unwrap_or_default() {
                if c > 0 && k % c == 0 && k / c > 1 {
                    cuts[v].push(k / c);
                }
            }
        });
    }
    (cuts.into_iter().zip(&nest.vars))
        .map(|(mut cuts, extent)| {
            let n = extent.len();
            cuts.sort_unstable();
            cuts.dedup();
            let mut digits: SmallVec<[usize; 2]> = smallvec![];
            let mut done = 1usize;
            for cut in cuts {
                let cut = cut as usize;
                if cut < n && n % cut == 0 && cut % done == 0 && cut > done {
                    digits.push(cut / done);
                    done = cut;
                }
            }
            digits.push(n / done);
            digits.reverse();
            digits
        })
        .collect()
}

/// The flat position `f`, if `idx` are the indices of `f` in `shape` (as `unravel` makes them).
pub(super) fn flat_position<'e>(idx: &'e [SExpr], shape: &[usize]) -> Option<&'e SExpr> {
    let quotient = |e: &'e SExpr| match e.op() {
        SOp::Call(Builtin::DivFloor, xs) => (&xs[0], xs[1].as_int()),
        _ => (e, Some(1)),
    };
    let mut stride = 1i64;
    let mut position: Option<&SExpr> = None;
    for (axis, (e, &n)) in idx.iter().zip(shape).enumerate().rev() {
        if n == 1 {
            continue;
        }
        let (inner, modulus) = match e.op() {
            SOp::Call(Builtin::RemFloor, xs) => (&xs[0], xs[1].as_int()),
            _ => (e, None),
        };
        // The slowest index needs no remainder.
        let slowest = shape[..axis].iter().all(|n| *n == 1);
        if modulus != Some(n as i64) && !(slowest && modulus.is_none()) {
            return None;
        }
        let (f, by) = quotient(inner);
        if by != Some(stride) || position.is_some_and(|p| p != f) {
            return None;
        }
        position = Some(f);
        stride *= n as i64;
    }
    position
}

/// The conditions that `filter` demands together.
pub(super) fn conjuncts(filter: Option<&SExpr>) -> Vec<SExpr> {
    let mut out = Vec::new();
    fn flatten(e: &SExpr, out: &mut Vec<SExpr>) {
        match e.op() {
            SOp::Call(Builtin::And, xs) => xs.iter().for_each(|x| flatten(x, out)),
            SOp::Const(s) if s.as_bool() => {}
            _ => out.push(e.clone()),
        }
    }
    if let Some(f) = filter {
        flatten(f, &mut out);
    }
    out
}

/// An equation `e == target` that places elements along a free variable.
pub(super) struct Placement {
    /// The free variable.
    pub target: usize,
    /// Where along it.
    pub index: SExpr,
}

impl Converter<'_> {
    /// Solves equations among `conds` for a bound variable where that makes the loops fewer; the solved variable's
    /// range becomes a test. Returns the tests.
    pub(super) fn solve(
        &mut self,
        s: &mut Scope,
        conds: &mut Vec<SExpr>,
        bound: &[usize],
        free: &[usize],
    ) -> Vec<NodeId> {
        let mut tests = Vec::new();
        let mut solved: Vec<usize> = Vec::new();
        let mut at = 0;
        while at < conds.len() {
            match self.solution(s, &conds[at], bound, &solved, free) {
                Some((v, dim, total)) => {
                    // Earlier solutions may stand on the dim that has gone.
                    for w in &solved {
                        if let Some(b) = &mut s.vars[*w] {
                            let kept = b.total.substitute(&mut |d| {
                                if d == dim { total_of_dim(&total, self.ranges[v]) } else { Affine::dim(d) }
                            });
                            if let Some(kept) = kept {
                                b.total = kept;
                            }
                        }
                    }
                    let range = self.ranges[v].unwrap_or(Range { lo: 0, size: 1 });
                    let from = total.plus(&Affine::constant(range.lo), -1);
                    let to = Affine::constant(range.lo + range.size as i64 - 1).plus(&total, -1);
                    for test in [from, to].into_iter().flatten() {
                        tests.push(s.at_least_zero(test));
                    }
                    s.vars[v] = Some(super::convert::Bound { total, digits: Axis::new() });
                    solved.push(v);
                    conds.remove(at);
                }
                None => at += 1,
            }
        }
        tests
    }

    /// `cond` as `variable == affine`, for the bound variable that saves the most.
    fn solution(
        &self,
        s: &Scope,
        cond: &SExpr,
        bound: &[usize],
        solved: &[usize],
        free: &[usize],
    ) -> Option<(usize, Dim, Affine)> {
        let SOp::Call(Builtin::Eq, xs) = cond.op() else { return None };
        if xs[0].ty() != fulgurite_core::DType::I64 {
            return None;
        }
        let d = self.affine(s, &xs[0])?.plus(&self.affine(s, &xs[1])?, -1)?;
        let mut best: Option<(usize, Dim, Affine)> = None;
        for &v in bound.iter().filter(|v| !solved.contains(v)) {
            let Some(b) = &s.vars[v] else { continue };
            let [dim] = b.digits.as_slice() else { continue };
            let c = d.coef(*dim);
            if c.abs() != 1 {
                continue;
            }
            // dim = -(d - c · dim) / c; the variable is its range's start plus the dim.
            let rest = d.plus(&Affine::dim(*dim), -c)?;
            let total = rest.times(-c)?.plus(&Affine::constant(b.total.base), 1)?;
            let size = s.graph.sizes[*dim as usize];
            if best.as_ref().is_none_or(|(_, other, _)| s.graph.sizes[*other as usize] < size) {
                best = Some((v, *dim, total));
            }
        }
        let best = best?;
        // Scattering runs over the bound variables, solving over the free one instead of the solved one.
        let placed =
            free.iter().filter(|f| s.vars[**f].as_ref().is_some_and(|b| b.digits.iter().any(|x| d.coef(*x) != 0)));
        let over: usize = placed.map(|f| self.ranges[*f].map_or(1, |r| r.size)).max().unwrap_or(1);
        (s.graph.sizes[best.1 as usize].saturating_mul(2) >= over).then_some(best)
    }

    /// Takes the equations out of `conds` that place elements along free variables which nothing else mentions.
    pub(super) fn placements(&self, conds: &mut Vec<SExpr>, free: &[usize], elsewhere: &[&SExpr]) -> Vec<Placement> {
        let mut out: Vec<Placement> = Vec::new();
        let mut at = 0;
        while at < conds.len() {
            let found = match conds[at].op() {
                SOp::Call(Builtin::Eq, xs) => {
                    [(&xs[0], &xs[1]), (&xs[1], &xs[0])].into_iter().find_map(|(target, index)| {
                        let SOp::Var(v) = target.op() else { return None };
                        let only_here = free.contains(v)
                            && !mentions(index, *v)
                            && !elsewhere.iter().any(|e| mentions(e, *v))
                            && !conds.iter().enumerate().any(|(i, c)| i != at && mentions(c, *v))
                            && out.iter().all(|p| p.target != *v && !mentions(&p.index, *v));
                        only_here.then(|| Placement { target: *v, index: index.clone() })
                    })
                }
                _ => None,
            };
            match found {
                Some(p) => {
                    out.push(p);
                    conds.remove(at);
                }
                None => at += 1,
            }
        }
        out
    }

    /// The least and greatest value of an index expression, if it can be told.
    pub(super) fn reach(&self, s: &Scope, e: &SExpr) -> Option<(i64, i64)> {
        if let Some(a) = self.affine(s, e) {
            return Some(a.range(&s.graph.sizes));
        }
        match e.op() {
            SOp::Const(Scalar::Int(i)) => Some((*i, *i)),
            SOp::Call(b, xs) if xs.len() == 2 => {
                let (x, y) = (self.reach(s, &xs[0])?, self.reach(s, &xs[1])?);
                match b {
                    Builtin::Add => Some((x.0.checked_add(y.0)?, x.1.checked_add(y.1)?)),
                    Builtin::Sub => Some((x.0.checked_sub(y.1)?, x.1.checked_sub(y.0)?)),
                    Builtin::Mul => {
                        let all = [
                            x.0.checked_mul(y.0)?,
                            x.0.checked_mul(y.1)?,
                            x.1.checked_mul(y.0)?,
                            x.1.checked_mul(y.1)?,
                        ];
                        Some((all.into_iter().min()?, all.into_iter().max()?))
                    }
                    Builtin::Max => Some((x.0.max(y.0), x.1.max(y.1))),
                    Builtin::Min => Some((x.0.min(y.0), x.1.min(y.1))),
                    Builtin::DivFloor if y.0 == y.1 && y.0 > 0 => Some((x.0.div_euclid(y.0), x.1.div_euclid(y.0))),
                    Builtin::RemFloor if y.0 == y.1 && y.0 > 0 => Some((0, y.0 - 1)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Binds a reduction's variables; tests where a range depends on other variables.
    pub(super) fn bind_ranges(
        &mut self,
        s: &mut Scope,
        vars: &[fulgurite_core::nest::SRange],
    ) -> Result<Vec<NodeId>, Why> {
        let mut tests = Vec::new();
        for r in vars {
            let ends = self.reach(s, &r.lo).zip(self.reach(s, &r.hi));
            let ((lo, lo_most), (hi_least, hi)) = ends.ok_or("a range without bounds")?;
            let size = usize::try_from(hi.saturating_sub(lo)).unwrap_or(0);
            self.bind(s, r.var, Range { lo, size })?;
            if lo == lo_most && hi == hi_least {
                continue;
            }
            let v = SExpr::new(SOp::Var(r.var), fulgurite_core::DType::I64);
            let from = SExpr::new(SOp::Call(Builtin::Ge, vec![v.clone(), r.lo.clone()]), fulgurite_core::DType::Bool);
            let to = SExpr::new(SOp::Call(Builtin::Lt, vec![v, r.hi.clone()]), fulgurite_core::DType::Bool);
            for test in [from, to] {
                tests.push(self.expr(s, &test)?);
            }
        }
        Ok(tests)
    }
}

/// A solved variable's dim: the variable less where its range starts.
fn total_of_dim(total: &Affine, range: Option<Range>) -> Affine {
    total.plus(&Affine::constant(range.map_or(0, |r| r.lo)), -1).unwrap_or_default()
}
