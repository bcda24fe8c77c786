//! Whether an expression is an element of a tensor.

use super::ast::{Block, Expr, Node, Outside};
use super::walk;
use crate::Name;

/// Whether an expression is an element of a tensor, in every branch that options select.
pub(crate) fn is_element(e: &Expr, tensor: Name) -> bool {
    match &*e.node {
        Node::If(cond, yes, no) => {
            let branch = |block: &Block| block.stmts.is_empty() && is_element(&block.value, tensor);
            !mentions(cond, tensor) && branch(yes) && branch(no)
        }
        Node::Match(_, arms) => arms.iter().all(|(_, value)| is_element(value, tensor)),
        Node::Name(name) => *name == tensor,
        _ => accesses(e, tensor),
    }
}

/// Whether an expression is an access to a tensor, with no element of that tensor in an index and no place that may lie
/// outside.
fn accesses(e: &Expr, tensor: Name) -> bool {
    let Node::Access(a) = &*e.node else { return false };
    let within = |part: &Expr| matches!(&*part.node, Node::Access(inner) if inner.base.name == tensor);
    let elements = walk::any_expr(e, &mut |part| !std::ptr::eq(part, e) && within(part));
    a.base.name == tensor && a.item.is_none() && a.outside == Outside::Refuse && !elements
}

/// Whether an expression reads a name.
pub(crate) fn mentions(e: &Expr, name: Name) -> bool {
    walk::any_expr(e, &mut |e| matches!(&*e.node, Node::Name(n) if *n == name))
}
