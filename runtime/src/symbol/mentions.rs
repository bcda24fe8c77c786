//! Which names a rule of the tensor language mentions.

use fulgurite_core::Name;
use fulgurite_core::lang::ast::{Block, Expr, ListItem, Node, Stmt};

/// Every name in `block` that may be a value, each once, in order; operators are none.
pub(super) fn names(block: &Block) -> Vec<Name> {
    let mut found = Vec::new();
    walk_block(block, &mut |n| {
        if !found.contains(&n) {
            found.push(n);
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

fn walk_block(block: &Block, f: &mut impl FnMut(Name)) {
    for stmt in &block.stmts {
        match stmt {
            Stmt::Let(_, value) | Stmt::Write(_, value) => walk(value, f),
        }
    }
    walk(&block.value, f);
}

/// Accesses and reductions belong to the index language, which rules are not written in.
fn walk(e: &Expr, f: &mut impl FnMut(Name)) {
    match &*e.node {
        Node::Int(_) | Node::Float(_) | Node::Str(_) | Node::Access(_) | Node::Reduce(_) => {}
        Node::Name(n) => f(*n),
        Node::Tuple(items) => items.iter().for_each(|i| walk(i, f)),
        Node::Unary(_, a) | Node::Cast(a, _) | Node::Zip(a) | Node::Spread(a) => walk(a, f),
        Node::Binary(_, a, b) => {
            walk(a, f);
            walk(b, f);
        }
        Node::If(c, yes, no) => {
            walk(c, f);
            walk_block(yes, f);
            walk_block(no, f);
        }
        Node::Match(on, arms) => {
            f(on.name);
            arms.iter().for_each(|(_, value)| walk(value, f));
        }
        Node::Call(_, args) => args.iter().for_each(|a| walk(&a.value, f)),
        Node::List(items) => items.iter().for_each(|i| match i {
            ListItem::One(e) | ListItem::Spread(e) => walk(e, f),
        }),
    }
}
