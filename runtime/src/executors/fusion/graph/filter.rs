//! Conditions on index variables: solves equations in filters, and bounds index expressions.

use super::convert::{Bound, Converter, Range, Scope, Why};
use super::vars::mentions;
use super::{Affine, Axis, Dim, NodeId};
use fulgurite_core::Scalar;
use fulgurite_core::builtins::Builtin;
use fulgurite_core::loop_nest::{LoopExpr, SOp, SRange, range_of};

/// An equation `e == target` that places elements along a free variable.
pub(super) struct Placement {
    /// The free variable.
    pub target: usize,
    /// The position along the variable.
    pub index: LoopExpr,
}

impl Converter<'_> {
    /// Solves equations among `conds` for a bound variable if that removes loops; the range of the solved variable
    /// becomes a test. Returns the tests.
    pub(super) fn solve(
        &mut self,
        s: &mut Scope,
        conds: &mut Vec<LoopExpr>,
        bound: &[usize],
        free: &[usize],
    ) -> Vec<NodeId> {
        let mut tests = Vec::new();
        let mut solved: Vec<usize> = Vec::new();
        let mut at = 0;
        while at < conds.len() {
            match self.solution(s, &conds[at], bound, &solved, free) {
                Some((v, dim, total)) => {
                    // Earlier solutions may contain the dim that was removed.
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
                    s.vars[v] = Some(Bound { total, digits: Axis::new() });
                    solved.push(v);
                    conds.remove(at);
                }
                None => at += 1,
            }
        }
        tests
    }

    /// The condition `cond` as `variable == affine`, for the bound variable that saves the most.
    fn solution(
        &self,
        s: &Scope,
        cond: &LoopExpr,
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
            if c.unsigned_abs() != 1 {
                continue;
            }
            // Solving gives `dim = -(d - c · dim) / c`; the variable is the dim plus the start of its range.
            let rest = d.plus(&Affine::dim(*dim), -c)?;
            let total = rest.times(-c)?.plus(&Affine::constant(b.total.base), 1)?;
            let size = s.graph.sizes[*dim as usize];
            if best.as_ref().is_none_or(|(_, other, _)| s.graph.sizes[*other as usize] < size) {
                best = Some((v, *dim, total));
            }
        }
        let best = best?;
        // Scattering would run over the bound variables; solving runs over the free variable instead of the solved one.
        let placed =
            free.iter().filter(|f| s.vars[**f].as_ref().is_some_and(|b| b.digits.iter().any(|x| d.coef(*x) != 0)));
        let over: usize = placed.map(|f| self.ranges[*f].map_or(1, |r| r.size)).max().unwrap_or(1);
        (s.graph.sizes[best.1 as usize].saturating_mul(2) >= over).then_some(best)
    }

    /// Removes from `conds` the equations that place elements along free variables which occur nowhere else, and
    /// returns them.
    pub(super) fn placements(
        &self,
        conds: &mut Vec<LoopExpr>,
        free: &[usize],
        elsewhere: &[&LoopExpr],
    ) -> Vec<Placement> {
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

    /// The least and the greatest value of an index expression, if they are known.
    pub(super) fn reach(&self, s: &Scope, e: &LoopExpr) -> Option<(i64, i64)> {
        if let Some(a) = self.affine(s, e) {
            return Some(a.range(&s.graph.sizes));
        }
        match e.op() {
            SOp::Const(Scalar::Int(i)) => Some((*i, *i)),
            SOp::Call(b, xs) if xs.len() == 2 => range_of(*b, self.reach(s, &xs[0])?, self.reach(s, &xs[1])?),
            _ => None,
        }
    }

    /// Whether a range has no values, whatever those of the others are.
    pub(super) fn is_over_nothing(&self, s: &Scope, vars: &[SRange]) -> bool {
        vars.iter().any(|r| self.ends(s, r).is_some_and(|((lo, _), (_, hi))| hi <= lo))
    }

    /// The least and the largest value of each end of a range.
    fn ends(&self, s: &Scope, r: &SRange) -> Option<((i64, i64), (i64, i64))> {
        self.reach(s, &r.lo).zip(self.reach(s, &r.hi))
    }

    /// Binds a reduction's variables; returns tests for ranges that depend on other variables.
    pub(super) fn bind_ranges(&mut self, s: &mut Scope, vars: &[SRange]) -> Result<Vec<NodeId>, Why> {
        let mut tests = Vec::new();
        for r in vars {
            let ends = self.ends(s, r);
            let ((lo, lo_most), (hi_least, hi)) = ends.ok_or("a range without bounds")?;
            let size = usize::try_from(hi.saturating_sub(lo)).unwrap_or(0);
            self.bind(s, r.var, Range { lo, size })?;
            if lo == lo_most && hi == hi_least {
                continue;
            }
            let v = LoopExpr::new(SOp::Var(r.var), fulgurite_core::DType::I64);
            let from =
                LoopExpr::new(SOp::Call(Builtin::Ge, vec![v.clone(), r.lo.clone()]), fulgurite_core::DType::Bool);
            let to = LoopExpr::new(SOp::Call(Builtin::Lt, vec![v, r.hi.clone()]), fulgurite_core::DType::Bool);
            for test in [from, to] {
                tests.push(self.expr(s, &test)?);
            }
        }
        Ok(tests)
    }
}

/// The dim of a solved variable: the variable minus the start of its range.
fn total_of_dim(total: &Affine, range: Option<Range>) -> Affine {
    total.plus(&Affine::constant(range.map_or(0, |r| r.lo)), -1).unwrap_or_default()
}
