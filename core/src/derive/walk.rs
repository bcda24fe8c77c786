//! Walks over trees: every subexpression, in blocks, places and bounds too.

use crate::Name;
use crate::lang::ast::*;
use crate::lang::walk::children;
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// Rebuilds `e`; a result of `f` replaces the expression and is not visited further.
pub fn map(e: &Expr, f: &mut dyn FnMut(&Expr) -> Option<Expr>) -> Expr {
    match f(e) {
        Some(new) => new,
        None => rebuilt(e, &mut |part| map(part, f)),
    }
}

/// `e` with its direct subexpressions replaced by `f`; returns `e` itself, shared, if none changed.
pub fn rebuilt(e: &Expr, f: &mut dyn FnMut(&Expr) -> Expr) -> Expr {
    let mut same = true;
    let mut f = |part: &Expr| {
        let new = f(part);
        same &= Arc::ptr_eq(&new.node, &part.node) && new.span == part.span;
        new
    };
    let f: &mut dyn FnMut(&Expr) -> Expr = &mut f;
    let node = match &*e.node {
        Node::Int(_) | Node::Float(_) | Node::Str(_) | Node::Name(_) => return e.clone(),
        Node::Tuple(items) => Node::Tuple(items.iter().map(f).collect()),
        Node::Unary(op, a) => Node::Unary(*op, f(a)),
        Node::Binary(op, a, b) => Node::Binary(*op, f(a), f(b)),
        Node::Cast(a, elem) => Node::Cast(f(a), elem.clone()),
        Node::If(c, a, b) => Node::If(f(c), rebuilt_block(a, f), rebuilt_block(b, f)),
        Node::Match(on, arms) => Node::Match(*on, arms.iter().map(|(w, e)| (*w, f(e))).collect()),
        Node::Call(name, args) => {
            Node::Call(*name, args.iter().map(|a| Arg { name: a.name, value: f(&a.value) }).collect())
        }
        Node::Access(a) => Node::Access(TensorAccess {
            base: a.base,
            places: a.places.iter().map(|p| rebuilt_place(p, f)).collect(),
            outside: match &a.outside {
                Outside::Value(v) => Outside::Value(f(v)),
                other => other.clone(),
            },
            item: a.item.as_ref().map(&mut *f),
        }),
        Node::Reduce(r) => Node::Reduce(Reduce {
            red: r.red,
            binds: r.binds.as_ref().map(|binds| binds.iter().map(|b| rebuilt_bind(b, f)).collect()),
            filter: r.filter.as_ref().map(&mut *f),
            body: f(&r.body),
            otherwise: r.otherwise.as_ref().map(&mut *f),
            span: r.span,
        }),
        Node::Zip(a) => Node::Zip(f(a)),
        Node::Spread(a) => Node::Spread(f(a)),
        Node::List(items) => Node::List(
            items
                .iter()
                .map(|i| match i {
                    ListItem::One(e) => ListItem::One(f(e)),
                    ListItem::Spread(e) => ListItem::Spread(f(e)),
                })
                .collect(),
        ),
    };
    if same { e.clone() } else { Expr::new(node, e.span) }
}

/// [`map`] over a block.
pub fn map_block(b: &Block, f: &mut dyn FnMut(&Expr) -> Option<Expr>) -> Block {
    rebuilt_block(b, &mut |part| map(part, f))
}

fn rebuilt_block(b: &Block, f: &mut dyn FnMut(&Expr) -> Expr) -> Block {
    let stmts = b
        .stmts
        .iter()
        .map(|s| match s {
            Stmt::Let(p, e) => Stmt::Let(p.clone(), f(e)),
            Stmt::Write(n, e) => Stmt::Write(*n, f(e)),
        })
        .collect();
    Block { stmts, value: f(&b.value) }
}

fn rebuilt_bind(b: &Bind, f: &mut dyn FnMut(&Expr) -> Expr) -> Bind {
    Bind { range: b.range.as_ref().map(|(lo, hi)| (f(lo), f(hi))), ..b.clone() }
}

fn rebuilt_place(p: &Place, f: &mut dyn FnMut(&Expr) -> Expr) -> Place {
    match p {
        Place::One(e) => Place::One(f(e)),
        Place::Zip(e) => Place::Zip(f(e)),
        Place::Unravel(e) => Place::Unravel(f(e)),
        Place::BroadcastZip(e) => Place::BroadcastZip(f(e)),
        Place::BroadcastGroup(inner) => Place::BroadcastGroup(inner.iter().map(|p| rebuilt_place(p, f)).collect()),
        Place::List(..) | Place::Broadcast(_) => p.clone(),
    }
}

/// Calls `f` on `e` and all its subexpressions, outermost first; `f` says whether to descend.
pub fn visit(e: &Expr, f: &mut dyn FnMut(&Expr) -> bool) {
    if f(e) {
        children(e, &mut |child| visit(child, f));
    }
}

/// Whether `e` reads an element of a tensor.
pub fn reads(e: &Expr) -> bool {
    any(e, &mut |e| matches!(&*e.node, Node::Access(_)))
}

/// Whether `test` holds for `e` or a subexpression; a shared subexpression is tested once.
pub fn any(e: &Expr, test: &mut dyn FnMut(&Expr) -> bool) -> bool {
    any_inside(e, test, &mut FxHashSet::default())
}

fn any_inside(e: &Expr, test: &mut dyn FnMut(&Expr) -> bool, seen: &mut FxHashSet<*const Node>) -> bool {
    if Arc::strong_count(&e.node) > 1 && !seen.insert(Arc::as_ptr(&e.node)) {
        return false;
    }
    let mut found = test(e);
    if !found {
        children(e, &mut |child| found = found || any_inside(child, test, seen));
    }
    found
}

/// Every name that `e` mentions: values, tensors, lists in places, bound indices, options that choose axes.
pub fn names(e: &Expr) -> FxHashSet<Name> {
    let mut out = FxHashSet::default();
    any(e, &mut |e| {
        own_names(e, &mut |name| {
            out.insert(name);
        });
        false
    });
    out
}

/// Whether `name` is one of these.
pub fn mentions(e: &Expr, name: Name) -> bool {
    any(e, &mut |e| {
        let mut found = false;
        own_names(e, &mut |own| found |= own == name);
        found
    })
}

/// The names that `e` mentions itself, without its subexpressions.
fn own_names(e: &Expr, out: &mut dyn FnMut(Name)) {
    match &*e.node {
        Node::Name(n) => out(*n),
        Node::Match(on, _) => out(on.name),
        Node::Cast(_, Elem::Var(t) | Elem::Acc(t) | Elem::Real(t)) => out(*t),
        Node::Access(a) => {
            out(a.base.name);
            a.places.iter().for_each(|p| place_names(p, out));
        }
        Node::Reduce(r) => {
            for b in r.binds.iter().flatten() {
                out(b.name.name);
                b.axes.iter().for_each(|a| each_axes_name(a, out));
            }
        }
        Node::If(_, a, b) => {
            for s in a.stmts.iter().chain(&b.stmts) {
                if let Stmt::Let(Pattern::Name(id), _) = s {
                    out(id.name);
                }
            }
        }
        _ => {}
    }
}

/// Every name that a block mentions.
pub fn block_names(b: &Block) -> FxHashSet<Name> {
    let mut out = names(&b.value);
    for s in &b.stmts {
        match s {
            Stmt::Let(p, e) => {
                out.extend(names(e));
                match p {
                    Pattern::Name(n) => {
                        out.insert(n.name);
                    }
                    Pattern::Axes(n, a) => {
                        out.insert(n.name);
                        axes_names(a, &mut out);
                    }
                    Pattern::Tuple(ns) => out.extend(ns.iter().map(|n| n.name)),
                }
            }
            Stmt::Write(n, e) => {
                out.insert(n.name);
                out.extend(names(e));
            }
        }
    }
    out
}

fn place_names(p: &Place, out: &mut dyn FnMut(Name)) {
    match p {
        Place::List(n, axes) => {
            out(n.name);
            axes.iter().for_each(|a| each_axes_name(a, out));
        }
        Place::Broadcast(n) => out(n.name),
        Place::BroadcastGroup(inner) => inner.iter().for_each(|p| place_names(p, out)),
        _ => {}
    }
}

/// The options (and arguments of `of`) that a choice of axes mentions.
pub fn axes_names(a: &Axes, out: &mut FxHashSet<Name>) {
    each_axes_name(a, &mut |name| {
        out.insert(name);
    });
}

fn each_axes_name(a: &Axes, out: &mut dyn FnMut(Name)) {
    match &a.kind {
        AxesKind::Name(n) | AxesKind::Before(n) | AxesKind::From(n) => out(n.name),
        AxesKind::Names(ns) | AxesKind::Fn(_, ns) => ns.iter().for_each(|n| out(n.name)),
        AxesKind::Not(inner) => each_axes_name(inner, out),
    }
}

/// Every name in a shape pattern: sizes, options.
pub fn dim_names(dims: &[DimPat], out: &mut FxHashSet<Name>) {
    for d in dims {
        if let Some(c) = &d.cond {
            out.extend(names(c));
        }
        match &d.kind {
            DimKind::One { name, size, at } => {
                out.extend(names(size));
                out.extend(name.iter().chain(at).map(|n| n.name));
            }
            DimKind::Zip { name, size } => {
                out.extend(names(size));
                out.extend(name.iter().map(|n| n.name));
            }
            DimKind::Broadcast(n) | DimKind::Ones(n) => {
                out.insert(n.name);
            }
            DimKind::List { name, axes, keep, at } => {
                out.insert(name.name);
                out.extend(keep.iter().chain(at).map(|n| n.name));
                if let Some(a) = axes {
                    axes_names(a, out);
                }
            }
            DimKind::BroadcastList(inner) | DimKind::Group(inner) => dim_names(inner, out),
            DimKind::Body => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::{Dialect, parse_expr};

    /// Everything that the walk visits is rebuilt, including the items that a list spreads.
    #[test]
    fn whatever_stands_in_an_expression_is_rebuilt() {
        let texts = [
            (Dialect::Tensor, "cat([..xs, y, ..except(S, k)], if a { let z = b; z + c } else { d }, dim = -e)"),
            (Dialect::Tensor, "(x as f32, match w { one => p, two => q })"),
            (Dialect::Index, "sum[j in 0..n if j < m](x[..s, j + k else 0]) + max[i](y[i])"),
        ];
        for (dialect, text) in texts {
            let e = parse_expr(text, dialect).unwrap_or_else(|e| panic!("{text}: {e:?}"));
            any(&e, &mut |part| {
                let mut walked = 0;
                children(part, &mut |_| walked += 1);
                let mut visited = 0;
                rebuilt(part, &mut |child| {
                    visited += 1;
                    child.clone()
                });
                assert_eq!(visited, walked, "{part} in {text}");
                false
            });
        }
    }
}
