//! Walks over trees: every sub-expression, in blocks, places and bounds too.

use crate::Name;
use crate::lang::ast::*;
use crate::lang::walk::children;
use rustc_hash::FxHashSet;

/// Rebuilds `e`; where `f` gives something, that stands instead and is not looked into.
pub fn map(e: &Expr, f: &mut dyn FnMut(&Expr) -> Option<Expr>) -> Expr {
    if let Some(new) = f(e) {
        return new;
    }
    let node = match &*e.node {
        Node::Int(_) | Node::Float(_) | Node::Str(_) | Node::Name(_) => return e.clone(),
        Node::Tuple(items) => Node::Tuple(items.iter().map(|i| map(i, f)).collect()),
        Node::Unary(op, a) => Node::Unary(*op, map(a, f)),
        Node::Binary(op, a, b) => Node::Binary(*op, map(a, f), map(b, f)),
        Node::Cast(a, elem) => Node::Cast(map(a, f), elem.clone()),
        Node::If(c, a, b) => Node::If(map(c, f), map_block(a, f), map_block(b, f)),
        Node::Match(on, arms) => Node::Match(*on, arms.iter().map(|(w, e)| (*w, map(e, f))).collect()),
        Node::Call(name, args) => {
            Node::Call(*name, args.iter().map(|a| Arg { name: a.name, value: map(&a.value, f) }).collect())
        }
        Node::Access(a) => Node::Access(TensorAccess {
            base: a.base,
            places: a.places.iter().map(|p| map_place(p, f)).collect(),
            outside: match &a.outside {
                Outside::Value(v) => Outside::Value(map(v, f)),
                other => other.clone(),
            },
            item: a.item.as_ref().map(|i| map(i, f)),
        }),
        Node::Reduce(r) => Node::Reduce(Reduce {
            red: r.red,
            binds: r.binds.as_ref().map(|binds| binds.iter().map(|b| map_bind(b, f)).collect()),
            filter: r.filter.as_ref().map(|c| map(c, f)),
            body: map(&r.body, f),
            otherwise: r.otherwise.as_ref().map(|e| map(e, f)),
            span: r.span,
        }),
        Node::Zip(a) => Node::Zip(map(a, f)),
        Node::Spread(a) => Node::Spread(map(a, f)),
        Node::List(items) => Node::List(
            items
                .iter()
                .map(|i| match i {
                    ListItem::One(e) => ListItem::One(map(e, f)),
                    other => other.clone(),
                })
                .collect(),
        ),
    };
    Expr::new(node, e.span)
}

/// [`map`] over a block.
pub fn map_block(b: &Block, f: &mut dyn FnMut(&Expr) -> Option<Expr>) -> Block {
    let stmts = b
        .stmts
        .iter()
        .map(|s| match s {
            Stmt::Let(p, e) => Stmt::Let(p.clone(), map(e, f)),
            Stmt::Write(n, e) => Stmt::Write(*n, map(e, f)),
        })
        .collect();
    Block { stmts, value: map(&b.value, f) }
}

fn map_bind(b: &Bind, f: &mut dyn FnMut(&Expr) -> Option<Expr>) -> Bind {
    Bind { range: b.range.as_ref().map(|(lo, hi)| (map(lo, f), map(hi, f))), ..b.clone() }
}

fn map_place(p: &Place, f: &mut dyn FnMut(&Expr) -> Option<Expr>) -> Place {
    match p {
        Place::One(e) => Place::One(map(e, f)),
        Place::Zip(e) => Place::Zip(map(e, f)),
        Place::Unravel(e) => Place::Unravel(map(e, f)),
        Place::BroadcastZip(e) => Place::BroadcastZip(map(e, f)),
        Place::BroadcastGroup(inner) => Place::BroadcastGroup(inner.iter().map(|p| map_place(p, f)).collect()),
        Place::List(..) | Place::Broadcast(_) => p.clone(),
    }
}

/// Calls `f` on `e` and everything in it, outermost first; `f` says whether to look inside.
pub fn visit(e: &Expr, f: &mut dyn FnMut(&Expr) -> bool) {
    if f(e) {
        children(e, &mut |child| visit(child, f));
    }
}

/// Whether `test` holds for `e` or something in it.
pub fn any(e: &Expr, test: &mut dyn FnMut(&Expr) -> bool) -> bool {
    let mut found = false;
    visit(e, &mut |e| {
        found |= test(e);
        !found
    });
    found
}

/// Every name that `e` mentions: values, tensors, lists in places, bound indices, options that choose axes.
pub fn names(e: &Expr) -> FxHashSet<Name> {
    let mut out = FxHashSet::default();
    visit(e, &mut |e| {
        match &*e.node {
            Node::Name(n) => {
                out.insert(*n);
            }
            Node::Match(on, _) => {
                out.insert(on.name);
            }
            Node::Cast(_, Elem::Var(t) | Elem::Acc(t) | Elem::Real(t)) => {
                out.insert(*t);
            }
            Node::Access(a) => {
                out.insert(a.base.name);
                a.places.iter().for_each(|p| place_names(p, &mut out));
            }
            Node::Reduce(r) => {
                for b in r.binds.iter().flatten() {
                    out.insert(b.name.name);
                    if let Some(a) = &b.axes {
                        axes_names(a, &mut out);
                    }
                }
            }
            Node::If(_, a, b) => {
                for s in a.stmts.iter().chain(&b.stmts) {
                    if let Stmt::Let(Pattern::Name(id), _) = s {
                        out.insert(id.name);
                    }
                }
            }
            _ => {}
        }
        true
    });
    out
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

fn place_names(p: &Place, out: &mut FxHashSet<Name>) {
    match p {
        Place::List(n, axes) => {
            out.insert(n.name);
            if let Some(a) = axes {
                axes_names(a, out);
            }
        }
        Place::Broadcast(n) => {
            out.insert(n.name);
        }
        Place::BroadcastGroup(inner) => inner.iter().for_each(|p| place_names(p, out)),
        _ => {}
    }
}

/// The options (and arguments of `of`) that a choice of axes mentions.
pub fn axes_names(a: &Axes, out: &mut FxHashSet<Name>) {
    match &a.kind {
        AxesKind::Name(n) | AxesKind::Before(n) | AxesKind::From(n) => {
            out.insert(n.name);
        }
        AxesKind::Names(ns) | AxesKind::Fn(_, ns) => out.extend(ns.iter().map(|n| n.name)),
        AxesKind::Not(inner) => axes_names(inner, out),
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
