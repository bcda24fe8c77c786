//! The cost of a meaning, derived from its loops and never declared.

use crate::loop_nest::{LoopExpr, Nest, SNode, SOp, SOutside, SRange};
use std::collections::HashSet;

impl Nest {
    /// Scalar work of all results, in additions (a builtin counts as its [`Record`](crate::builtins::Record) says, a
    /// step of a reduction as one). Index arithmetic, loads and casts are free.
    ///
    /// A bound that depends on elements counts as the whole extent of its variable.
    pub fn flops(&self) -> f64 {
        let mut seen = HashSet::new();
        self.outs
            .iter()
            .map(|out| out.shape.iter().map(|d| d.len() as f64).product::<f64>() * self.work(&out.expr, &mut seen))
            .sum()
    }

    /// The work of one element; a shared subterm counts once.
    fn work(&self, e: &LoopExpr, seen: &mut HashSet<*const SNode>) -> f64 {
        if !seen.insert(std::sync::Arc::as_ptr(&e.0)) {
            return 0.0;
        }
        match e.op() {
            SOp::Const(_) | SOp::Num(_) | SOp::Var(_) | SOp::Elem(_) => 0.0,
            SOp::Load { outside: SOutside::Value(v), .. } => self.work(v, seen),
            SOp::Load { .. } => 0.0,
            SOp::Call(builtin, args) => {
                f64::from(builtin.record().flops) + args.iter().map(|a| self.work(a, seen)).sum::<f64>()
            }
            SOp::Cast(x) | SOp::Detach(x) => self.work(x, seen),
            SOp::Select(c, a, b) => 1.0 + [c, a, b].into_iter().map(|x| self.work(x, seen)).sum::<f64>(),
            SOp::Reduce { vars, filter, body, otherwise, .. } => {
                let times: f64 = vars.iter().map(|r| self.extent(r)).product();
                let inner = 1.0 + self.work(body, seen) + filter.as_ref().map_or(0.0, |f| self.work(f, seen));
                times * inner + otherwise.as_ref().map_or(0.0, |o| self.work(o, seen))
            }
            // Philox takes ten rounds of two products each.
            SOp::Uniform { .. } => 60.0,
        }
    }

    fn extent(&self, range: &SRange) -> f64 {
        match (range.lo.as_int(), range.hi.as_int()) {
            (Some(lo), Some(hi)) => hi.saturating_sub(lo).max(0) as f64,
            _ => self.vars.get(range.var).map_or(1.0, |d| d.len() as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::ast::Red;
    use crate::loop_nest::{LoopExpr, Nest, NestOut, SOp, SOutside, SRange};
    use crate::{DType, Dim, builtins::Builtin};

    #[test]
    fn a_product_counts_two_per_step() {
        let load = |tensor, a, b| {
            let var = |v| LoopExpr::new(SOp::Var(v), DType::I64);
            LoopExpr::new(SOp::Load { tensor, idx: vec![var(a), var(b)], outside: SOutside::Refuse }, DType::F32)
        };
        let term = LoopExpr::new(SOp::Call(Builtin::Mul, vec![load(0, 0, 2), load(1, 2, 1)]), DType::F32);
        let range = SRange { var: 2, lo: LoopExpr::int(0), hi: LoopExpr::int(5) };
        let sum = SOp::Reduce { red: Red::Sum, vars: vec![range], filter: None, body: term, otherwise: None };
        let shape = vec![Dim::from(3i64), Dim::from(4i64)];
        let out =
            NestOut { axes: vec![Some(0), Some(1)], shape, dtype: DType::F32, expr: LoopExpr::new(sum, DType::F32) };
        let vars = [3i64, 4, 5].map(Dim::from).to_vec();
        let nest = Nest { outs: vec![out], vars, ranks: vec![2, 2], pointwise: false };
        assert_eq!(nest.flops(), 120.0);
    }
}
