//! A walk over expressions of the rule languages, for tests that read rows.

use fulgurite_core::lang::ast::*;

/// Rebuilds `e`; where `f` gives something, that stands instead and is not looked into.
pub fn map(e: &Expr, f: &mut dyn FnMut(&Expr) -> Option<Expr>) -> Expr {
    if let Some(new) = f(e) {
        return new;
    }
    let node = match &*e.node {
        Node::Tuple(items) => Node::Tuple(items.iter().map(|i| map(i, f)).collect()),
        Node::Unary(op, a) => Node::Unary(*op, map(a, f)),
        Node::Binary(op, a, b) => Node::Binary(*op, map(a, f), map(b, f)),
        Node::Cast(a, elem) => Node::Cast(map(a, f), elem.clone()),
        Node::If(c, a, b) => Node::If(map(c, f), map_block(a, f), map_block(b, f)),
        Node::Match(on, arms) => Node::Match(*on, arms.iter().map(|(w, e)| (*w, map(e, f))).collect()),
        Node::Call(name, args) => {
            Node::Call(*name, args.iter().map(|a| Arg { name: a.name, value: map(&a.value, f) }).collect())
        }
        Node::Reduce(r) => Node::Reduce(Reduce {
            filter: r.filter.as_ref().map(|c| map(c, f)),
            body: map(&r.body, f),
            otherwise: r.otherwise.as_ref().map(|e| map(e, f)),
            ..r.clone()
        }),
        Node::Zip(a) => Node::Zip(map(a, f)),
        other => other.clone(),
    };
    Expr::new(node, e.span)
}

/// [`map`] over a block.
pub fn map_block(b: &Block, f: &mut dyn FnMut(&Expr) -> Option<Expr>) -> Block {
    let stmts = b.stmts.iter().map(|s| match s {
        Stmt::Let(p, e) => Stmt::Let(p.clone(), map(e, f)),
        Stmt::Write(n, e) => Stmt::Write(*n, map(e, f)),
    });
    Block { stmts: stmts.collect(), value: map(&b.value, f) }
}

/// Calls `f` on every expression of a block, outermost first.
pub fn visit(b: &Block, f: &mut dyn FnMut(&Expr)) {
    map_block(b, &mut |e| {
        f(e);
        None
    });
}
