//! Factors sums of products of several loads: `sum[i, j](a[i] b[i, j] c[j])` is `sum[j](c[j] sum[i](a[i] b[i, j]))`.

use super::vars::walk;
use fulgurite_core::builtins::Builtin;
use fulgurite_core::lang::ast::Red;
use fulgurite_core::loop_nest::{LoopExpr, SOp, SOutside, SRange, VarId};
use rustc_hash::FxHashSet;

/// A factor with the variables over which it varies.
struct Factor {
    e: LoopExpr,
    vars: Vec<VarId>,
}

/// A step that sums a pair of factors (or one factor) over some variables first, with the number of products that it
/// takes and of elements that it leaves.
struct Step {
    cost: usize,
    left: usize,
    summed: Vec<VarId>,
    pair: (usize, usize),
}

/// The sum `e` with one or two of its factors summed first over the variables that no other factor has, if that saves
/// work. `extent` is the number of values of a variable.
pub(super) fn apart(e: &LoopExpr, extent: &dyn Fn(VarId) -> Option<usize>) -> Option<LoopExpr> {
    let SOp::Reduce { red: Red::Sum, vars, filter: None, body, otherwise: None } = e.op() else { return None };
    if !e.ty().is_float() || body.ty() != e.ty() || vars.iter().any(|r| r.lo.as_int() != Some(0)) {
        return None;
    }
    let size = |v: VarId| match vars.iter().find(|r| r.var == v) {
        Some(r) => usize::try_from(r.hi.as_int()?).ok(),
        None => extent(v),
    };
    let mut factors = Vec::new();
    if !collect(body, &mut factors) || factors.len() < 2 {
        return None;
    }
    let work = |over: &[VarId]| over.iter().try_fold(1usize, |n, v| n.checked_mul(size(*v)?));
    let whole = work(&union(factors.iter()))?;
    let mut best: Option<Step> = None;
    for i in 0..factors.len() {
        for j in i..factors.len() {
            let others = union(factors.iter().enumerate().filter(|(k, _)| *k != i && *k != j).map(|(_, f)| f));
            let own = union([&factors[i], &factors[j]].into_iter());
            let alone = |v: &VarId| vars.iter().any(|r| r.var == *v) && !others.contains(v);
            let (summed, kept): (Vec<VarId>, Vec<VarId>) = own.iter().partition(|v| alone(v));
            let (Some(cost), Some(left)) = (work(&own), work(&kept)) else { continue };
            let all = factors.len() == if i == j { 1 } else { 2 };
            if summed.is_empty() || all || cost >= whole {
                continue;
            }
            if best.as_ref().is_none_or(|b| (cost, left) < (b.cost, b.left)) {
                best = Some(Step { cost, left, summed, pair: (i, j) });
            }
        }
    }
    let Step { summed, pair: (i, j), .. } = best?;
    let (inner, rest): (Vec<SRange>, Vec<SRange>) = vars.iter().cloned().partition(|r| summed.contains(&r.var));
    let product = |a: LoopExpr, b: LoopExpr| LoopExpr::new(SOp::Call(Builtin::Mul, vec![a, b]), e.ty());
    let sum = |vars: Vec<SRange>, body: LoopExpr| {
        LoopExpr::new(SOp::Reduce { red: Red::Sum, vars, filter: None, body, otherwise: None }, e.ty())
    };
    let first = factors[i].e.clone();
    let pair = if i == j { first } else { product(first, factors[j].e.clone()) };
    let others = factors.iter().enumerate().filter(|(k, _)| *k != i && *k != j);
    let body = others.fold(sum(inner, pair), |all, (_, f)| product(all, f.e.clone()));
    Some(if rest.is_empty() { body } else { sum(rest, body) })
}

/// Collects the factors of a product of loads and sums; returns whether `e` is such a product.
fn collect(e: &LoopExpr, out: &mut Vec<Factor>) -> bool {
    match e.op() {
        SOp::Call(Builtin::Mul, sides) => sides.iter().all(|side| side.ty() == e.ty() && collect(side, out)),
        // a skipped element removes its whole product
        SOp::Load { outside: SOutside::Skip, .. } => false,
        SOp::Load { .. } | SOp::Reduce { red: Red::Sum, .. } => {
            let (mut vars, mut bound) = (Vec::new(), FxHashSet::default());
            walk(e, &mut FxHashSet::default(), &mut |e| match e.op() {
                SOp::Var(v) if !vars.contains(v) => vars.push(*v),
                SOp::Reduce { vars, .. } => bound.extend(vars.iter().map(|r| r.var)),
                _ => {}
            });
            vars.retain(|v| !bound.contains(v));
            out.push(Factor { e: e.clone(), vars });
            true
        }
        _ => false,
    }
}

fn union<'f>(factors: impl Iterator<Item = &'f Factor>) -> Vec<VarId> {
    let mut all = Vec::new();
    for v in factors.flat_map(|f| &f.vars) {
        if !all.contains(v) {
            all.push(*v);
        }
    }
    all
}
