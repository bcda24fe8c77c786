//! Walks over the expressions of a rule's text.

use super::ast::{Block, Expr, ListItem, Node, Outside, Place, Stmt};

/// Calls `f` on every expression of a block, outer ones before inner ones, in the order of the text.
pub fn block<'a>(block: &'a Block, f: &mut dyn FnMut(&'a Expr)) {
    for stmt in &block.stmts {
        match stmt {
            Stmt::Let(_, value) | Stmt::Write(_, value) => expr(value, f),
        }
    }
    expr(&block.value, f);
}

/// Calls `f` on `e` and every expression inside, in the order of [`block`].
pub fn expr<'a>(e: &'a Expr, f: &mut dyn FnMut(&'a Expr)) {
    f(e);
    children(e, &mut |child| expr(child, f));
}

/// The first finding of `f` among the expressions of a block.
pub fn first<'a, T>(block: &'a Block, f: &mut dyn FnMut(&'a Expr) -> Option<T>) -> Option<T> {
    let mut found = None;
    self::block(block, &mut |e| {
        if found.is_none() {
            found = f(e);
        }
    });
    found
}

/// Whether `test` holds for an expression of a block.
pub fn any<'a>(block: &'a Block, test: &mut dyn FnMut(&'a Expr) -> bool) -> bool {
    first(block, &mut |e| test(e).then_some(())).is_some()
}

/// Whether `test` holds for `e` or an expression inside.
pub fn any_expr<'a>(e: &'a Expr, test: &mut dyn FnMut(&'a Expr) -> bool) -> bool {
    let mut found = false;
    expr(e, &mut |part| found = found || test(part));
    found
}

/// Calls `f` on the expressions directly inside `e`, in the order of the text.
pub fn children<'a>(e: &'a Expr, f: &mut dyn FnMut(&'a Expr)) {
    let branch = |block: &'a Block, f: &mut dyn FnMut(&'a Expr)| {
        for stmt in &block.stmts {
            match stmt {
                Stmt::Let(_, value) | Stmt::Write(_, value) => f(value),
            }
        }
        f(&block.value);
    };
    match &*e.node {
        Node::Int(_) | Node::Float(_) | Node::Str(_) | Node::Name(_) => {}
        Node::Tuple(items) => items.iter().for_each(f),
        Node::Unary(_, inner) | Node::Cast(inner, _) | Node::Zip(inner) | Node::Spread(inner) => f(inner),
        Node::Binary(_, left, right) => {
            f(left);
            f(right);
        }
        Node::If(cond, yes, no) => {
            f(cond);
            branch(yes, f);
            branch(no, f);
        }
        Node::Match(_, arms) => arms.iter().for_each(|(_, value)| f(value)),
        Node::Call(_, args) => args.iter().for_each(|arg| f(&arg.value)),
        Node::Access(access) => {
            access.item.iter().for_each(&mut *f);
            access.places.iter().for_each(|place| self::place(place, f));
            if let Outside::Value(value) = &access.outside {
                f(value);
            }
        }
        Node::Reduce(reduce) => {
            for (low, high) in reduce.binds.iter().flatten().filter_map(|bind| bind.range.as_ref()) {
                f(low);
                f(high);
            }
            reduce.filter.iter().for_each(&mut *f);
            f(&reduce.body);
            reduce.otherwise.iter().for_each(f);
        }
        Node::List(items) => items.iter().for_each(|item| match item {
            ListItem::One(item) | ListItem::Spread(item) => f(item),
        }),
    }
}

fn place<'a>(place: &'a Place, f: &mut dyn FnMut(&'a Expr)) {
    match place {
        Place::One(e) | Place::Zip(e) | Place::Unravel(e) | Place::BroadcastZip(e) => f(e),
        Place::BroadcastGroup(inner) => inner.iter().for_each(|p| self::place(p, f)),
        Place::List(..) | Place::Broadcast(_) => {}
    }
}
