//! Which names a rule of the tensor language mentions.

use fulgurite_core::Name;
use fulgurite_core::lang::ast::{Block, Expr, Node, Pattern, Stmt};
use fulgurite_core::lang::walk;

/// Every name in `block` that may be a value, each once, in order; operators are none.
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

/// Whether a body is a chain of calls of views, the innermost on `arg`.
pub(super) fn is_view(block: &Block, arg: Name, view: &dyn Fn(Name) -> bool) -> bool {
    let mut views = vec![arg];
    let chain = |e: &Expr, views: &[Name]| {
        let mut at = e;
        loop {
            match &*at.node {
                Node::Name(name) => return views.contains(name),
                Node::Call(op, args) if view(op.name) => match args.first() {
                    Some(first) => at = &first.value,
                    None => return false,
                },
                _ => return false,
            }
        }
    };
    for stmt in &block.stmts {
        if let Stmt::Let(Pattern::Name(name), value) = stmt {
            match chain(value, &views) {
                true => views.push(name.name),
                false => views.retain(|v| *v != name.name),
            }
        }
    }
    !matches!(&*block.value.node, Node::Name(_)) && chain(&block.value, &views)
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
