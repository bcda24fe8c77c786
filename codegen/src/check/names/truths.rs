//! E201 of conditions: what is required is true or false.

use fulgurite_core::DType;
use fulgurite_core::builtins::Builtin;
use fulgurite_core::lang::{BinOp, Expr, Node, Red, UnOp};

use crate::diag::Diag;
use crate::schema::{RowSource, Rule};

/// The first part of a condition that is a number where a truth value belongs.
pub(super) fn check(source: &RowSource, cond: &Rule<Expr>) -> Option<Diag> {
    let number = number(&cond.tree)?;
    let message = format!("`require` of `{}` has a condition that is a number", source.op.as_str());
    let diag = Diag::error("E201", cond.text.at(number.span), message).here("neither true nor false");
    Some(diag.help(format!("compare it: `{number} > 0`, `{number} != 0`")))
}

/// What of `e` is certainly a number, where its truth decides.
fn number(e: &Expr) -> Option<&Expr> {
    use BinOp::*;
    match &*e.node {
        Node::Binary(And | Or, a, b) => number(a).or_else(|| number(b)),
        Node::Unary(UnOp::Not, a) => number(a),
        Node::If(_, yes, no) => number(&yes.value).or_else(|| number(&no.value)),
        Node::Binary(Add | Sub | Mul | Div | Rem, ..) | Node::Unary(UnOp::Neg, _) | Node::Int(_) | Node::Float(_) => {
            Some(e)
        }
        Node::Reduce(reduce) => match reduce.red {
            Red::Any | Red::All => number(&reduce.body),
            Red::Sum | Red::Prod | Red::ArgMax | Red::ArgMin => Some(e),
            _ => None,
        },
        Node::Call(f, _) => {
            let given = Builtin::from_name(f.name.as_str())?.result_dtype(DType::F64, DType::F64)?;
            given.is_float().then_some(e)
        }
        _ => None,
    }
}
