//! Index variables in a nest's expressions: their occurrences, their split into digits, and the conditions of filters.

use fulgurite_core::builtins::Builtin;
use fulgurite_core::loop_nest::{LoopExpr, Nest, SNode, SOp, SOutside};
use rustc_hash::FxHashSet;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Calls `f` on every distinct node below `e`, users before their arguments.
pub(super) fn walk(e: &LoopExpr, seen: &mut FxHashSet<*const SNode>, f: &mut dyn FnMut(&LoopExpr)) {
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
pub(super) fn mentions(e: &LoopExpr, v: usize) -> bool {
    let mut found = false;
    walk(e, &mut FxHashSet::default(), &mut |e| found |= matches!(e.op(), SOp::Var(w) if *w == v));
    found
}

/// The terms of an expression `base + Σ coefficient · variable`, without the base.
pub(super) fn linear(e: &LoopExpr) -> Option<SmallVec<[(usize, i64); 4]>> {
    let mut terms: SmallVec<[(usize, i64); 4]> = SmallVec::new();
    fn add(e: &LoopExpr, k: i64, terms: &mut SmallVec<[(usize, i64); 4]>) -> Option<()> {
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

/// For every variable, the extents of its digits, slowest first, so that divisions in the nest's indices (merged axes,
/// reshapes) become selections of digits.
pub(super) fn split_vars(nest: &Nest) -> Vec<SmallVec<[usize; 2]>> {
    let mut cuts: Vec<SmallVec<[i64; 2]>> = vec![SmallVec::new(); nest.vars.len()];
    let mut seen = FxHashSet::default();
    for out in &nest.outs {
        walk(&out.expr, &mut seen, &mut |e| {
            let SOp::Call(b @ (Builtin::DivFloor | Builtin::RemFloor), xs) = e.op() else { return };
            let Some(mut k) = xs[1].as_int().filter(|k| *k > 1) else { return };
            // `(x / a) % b` cuts x at `a · b`
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
                if cut < n && n % cut == 0 && cut.is_multiple_of(done) && cut > done {
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
pub(super) fn flat_position<'e>(idx: &'e [LoopExpr], shape: &[usize]) -> Option<&'e LoopExpr> {
    let quotient = |e: &'e LoopExpr| match e.op() {
        SOp::Call(Builtin::DivFloor, xs) => (&xs[0], xs[1].as_int()),
        _ => (e, Some(1)),
    };
    let mut stride = 1i64;
    let mut position: Option<&LoopExpr> = None;
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

/// The conditions whose conjunction is `filter`.
pub(super) fn conjuncts(filter: Option<&LoopExpr>) -> Vec<LoopExpr> {
    let mut out = Vec::new();
    fn flatten(e: &LoopExpr, out: &mut Vec<LoopExpr>) {
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
