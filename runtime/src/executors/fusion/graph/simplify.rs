//! Operations that are exactly equal to an argument, or to cheaper operations, for all elements: NaN, infinities and
//! signed zeros too.

use super::{Graph, NodeId, Op};
use fulgurite_core::DType;
use fulgurite_core::builtins::Builtin;
use fulgurite_core::lang::ast::Red;

impl Graph {
    /// The argument to which an operation is exactly equal, if there is one. The arguments that are dropped must not
    /// stop the program.
    pub(super) fn simplify(&self, op: &Op, ty: DType) -> Option<NodeId> {
        let same = self.simplified(op, ty)?;
        let mut lost = false;
        op.for_each_arg(&mut |a| lost |= a != same && self.node(a).stops);
        (!lost).then_some(same)
    }

    fn simplified(&self, op: &Op, ty: DType) -> Option<NodeId> {
        let is = |id: NodeId, x: f64| self.as_const(id).is_some_and(|s| s.as_f64() == x);
        match op {
            Op::Cast(a) if self.node(*a).ty == ty => Some(*a),
            Op::Call(Builtin::Mul, a) if ty != DType::Bool && is(a[1], 1.0) => Some(a[0]),
            Op::Call(Builtin::Mul, a) if ty != DType::Bool && is(a[0], 1.0) => Some(a[1]),
            Op::Call(Builtin::Div, a) if is(a[1], 1.0) => Some(a[0]),
            // `x - 0` is `x` for -0 too; `x + 0` is `x` for all others
            Op::Call(Builtin::Sub, a) if ty.is_float() && is(a[1], 0.0) && !self.is_negative_zero(a[1]) => Some(a[0]),
            Op::Call(Builtin::Add, a) if ty.is_float() && is(a[1], 0.0) && self.is_exact_sum(a[0], a[1]) => Some(a[0]),
            Op::Call(Builtin::Add, a) if ty.is_float() && is(a[0], 0.0) && self.is_exact_sum(a[1], a[0]) => Some(a[1]),
            Op::Call(Builtin::Add | Builtin::Sub, a) if ty.is_int() && is(a[1], 0.0) => Some(a[0]),
            Op::Select(c, a, b) => match self.as_const(*c) {
                Some(s) => Some(if s.as_bool() { *a } else { *b }),
                None if a == b => Some(*a),
                None => (ty == DType::Bool && is(*a, 1.0) && is(*b, 0.0)).then_some(*c),
            },
            Op::Call(Builtin::Ne, a) if is(a[1], 0.0) => self.condition(a[0]),
            Op::Call(Builtin::Not, a) => match &self.node(a[0]).op {
                Op::Call(Builtin::Not, inner) => Some(inner[0]),
                _ => None,
            },
            Op::Call(Builtin::And, a) => match (self.as_const(a[0]), self.as_const(a[1])) {
                (Some(s), _) => Some(if s.as_bool() { a[1] } else { a[0] }),
                (_, Some(s)) => Some(if s.as_bool() { a[0] } else { a[1] }),
                _ => (a[0] == a[1]).then_some(a[0]),
            },
            Op::Call(Builtin::Or, a) => match (self.as_const(a[0]), self.as_const(a[1])) {
                (Some(s), _) => Some(if s.as_bool() { a[0] } else { a[1] }),
                (_, Some(s)) => Some(if s.as_bool() { a[1] } else { a[0] }),
                _ => (a[0] == a[1]).then_some(a[0]),
            },
            // Rounding to a type once is enough.
            Op::Round(a, to) => match &self.node(*a).op {
                Op::Round(_, done) if done == to => Some(*a),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether the sum of `x` and a zero is `x`: only -0 + +0 has another sign.
    fn is_exact_sum(&self, x: NodeId, zero: NodeId) -> bool {
        let no_minus_zero = matches!(&self.node(x).op, Op::Load(load) if load.no_minus_zero);
        no_minus_zero || self.is_negative_zero(zero)
    }

    fn is_negative_zero(&self, id: NodeId) -> bool {
        self.as_const(id).is_some_and(|s| s.as_f64() == 0.0 && s.as_f64().is_sign_negative())
    }

    /// The condition of which a node is 1 or 0.
    fn condition(&self, node: NodeId) -> Option<NodeId> {
        match &self.node(node).op {
            _ if self.node(node).ty == DType::Bool => Some(node),
            Op::Cast(of) if self.node(*of).ty == DType::Bool => Some(*of),
            _ => None,
        }
    }

    /// A cheaper operation that is exactly equal.
    pub(super) fn rewritten(&mut self, op: &Op) -> Option<Op> {
        match op {
            Op::Call(Builtin::Eq, a) if self.as_const(a[1]).is_some_and(|s| s.as_f64() == 0.0) => {
                Some(Op::Call(Builtin::Not, [self.condition(a[0])?].into_iter().collect()))
            }
            // `<` is no negation of `>=`, because neither holds for NaN
            Op::Call(Builtin::Not, a) => match &self.node(a[0]).op {
                Op::Call(Builtin::Eq, a) => Some(Op::Call(Builtin::Ne, a.clone())),
                Op::Call(Builtin::Ne, a) => Some(Op::Call(Builtin::Eq, a.clone())),
                _ => None,
            },
            Op::Reduce { red: Red::Any, arg, mask: None, .. } => self.of_extremum(op, *arg, Builtin::Ne),
            Op::Reduce { red: Red::All, arg, mask: None, .. } => self.of_extremum(op, *arg, Builtin::Eq),
            _ => None,
        }
    }

    /// The reduction of a comparison with an infinity as a comparison of an extremum: all elements
    /// are -inf if their maximum is -inf. Programs often compute that maximum anyway. An extremum
    /// is NaN if an element is.
    fn of_extremum(&mut self, reduce: &Op, arg: NodeId, compares: Builtin) -> Option<Op> {
        let (Op::Reduce { order, .. }, Op::Call(builtin, of)) = (reduce, &self.node(arg).op) else { return None };
        // a builtin of one operand is no comparison
        let (true, [x, infinity]) = (*builtin == compares, &of[..]) else { return None };
        let (x, infinity) = (*x, *infinity);
        let ty = self.node(x).ty;
        if !ty.is_float() {
            return None;
        }
        let red = match self.as_const(infinity)?.as_f64() {
            f64::NEG_INFINITY => Red::Max,
            f64::INFINITY => Red::Min,
            _ => return None,
        };
        let extremum = self.add(Op::Reduce { red, arg: x, mask: None, order: order.clone() }, ty);
        Some(Op::Call(compares, [extremum, infinity].into_iter().collect()))
    }
}
