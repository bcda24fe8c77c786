//! Finds the names that a rule of the tensor language mentions.

use fulgurite_core::Name;
use fulgurite_core::lang::ast::{Block, Expr, Node};
use fulgurite_core::lang::walk;

/// Every name in `block` that may be a value, each once, in order; operators are not included.
pub(super) fn names(block: &Block) -> Vec<Name> {
    let mut found = Vec::new();
    walk::block(block, &mut |e| {
        let name = match &*e.node {
            Node::Name(name) => *name,
            Node::Match(on, _) => on.name,
            _ => return,
        };
        if !found.contains(&name) {
            found.push(name);
        }
    });
    found
}

/// The rule `0`.
pub(super) fn zero() -> Block {
    Block { stmts: Vec::new(), value: Expr::bare(Node::Int(0)) }
}

/// Whether the rule is the literal 0.
pub(super) fn is_zero(block: &Block) -> bool {
    block.stmts.is_empty()
        && match &*block.value.node {
            Node::Int(i) => *i == 0,
            Node::Float(x) => *x == 0.0,
            _ => false,
        }
}
