//! E110 of numbers: a condition in `require` is a truth value.

use fulgurite_core::builtins::Builtin;
use fulgurite_core::lang::{BinOp, Elem, Expr, Node, OptType, Red, UnOp};
use fulgurite_core::signature::{Env, const_eval};
use fulgurite_core::{DType, Name};

use crate::diag::Diag;
use crate::schema::{RowSource, Rule};

/// The first part of a condition that is a number where a truth value belongs.
pub(super) fn check(source: &RowSource, cond: &Rule<Expr>) -> Option<Diag> {
    let number = number(&cond.tree, source)?;
    let message = format!("`require` of `{}` has a condition that is a number", source.op.as_str());
    let diag = Diag::error("E110", cond.text.at(number.span), message).here("neither true nor false");
    Some(diag.help(format!("compare it: `{number} > 0`, `{number} != 0`")))
}

/// The first part of `e` that is certainly a number, and whose truth would decide.
fn number<'e>(e: &'e Expr, source: &RowSource) -> Option<&'e Expr> {
    use BinOp::*;
    match &*e.node {
        Node::Binary(And | Or, a, b) => number(a, source).or_else(|| number(b, source)),
        Node::Unary(UnOp::Not, a) => number(a, source),
        Node::If(_, yes, no) => number(&yes.value, source).or_else(|| number(&no.value, source)),
        Node::Binary(Add | Sub | Mul | Div | Rem, ..) | Node::Unary(UnOp::Neg, _) | Node::Int(_) | Node::Float(_) => {
            Some(e)
        }
        Node::Name(name) => (name.is_size() || is_number(*name, source)).then_some(e),
        Node::Reduce(reduce) => match reduce.red {
            Red::Any | Red::All => number(&reduce.body, source),
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

/// Whether `name` is an option that is a number, or an argument whose elements are.
fn is_number(name: Name, source: &RowSource) -> bool {
    let sig = &source.sig.tree;
    let option = sig.opts.iter().find(|opt| opt.name.name == name);
    let param = sig.params.iter().find(|param| param.name.name == name);
    let set = || const_eval::dtype_set(&Env::default(), &source.dtypes.as_ref()?.tree).ok();
    option.is_some_and(|opt| matches!(opt.ty, OptType::Num | OptType::F64 | OptType::I64))
        || param.is_some_and(|param| matches!(param.ty.elem.as_slice(), [Elem::Var(_)]))
            && set().is_some_and(|set| !set.contains(DType::Bool))
}
