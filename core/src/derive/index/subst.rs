//! Substitution of index variables by their solutions.

use super::var::{Kind, Var};
use crate::Name;
use crate::derive::{NotDerivable, make, walk};
use crate::lang::ast::*;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The replacement of an index variable.
#[derive(Clone, Debug, PartialEq)]
pub enum Sub {
    /// One index.
    One(Expr),
    /// Another list of indices.
    Rename(Name),
    /// One index per axis.
    Zip(Expr),
    /// The indices of a flat position: a call of `unravel`.
    Unravel(Expr),
}

type Res<X> = Result<X, NotDerivable>;

/// `e` with `var` replaced.
pub fn expr(e: &Expr, var: &Var, sub: &Sub) -> Res<Expr> {
    let mut s = Subst { name: var.name, list: var.is_list(), sub, fault: None, done: FxHashMap::default() };
    let out = s.expr(e);
    match s.fault {
        Some(f) => Err(f),
        None => Ok(out),
    }
}

struct Subst<'a> {
    name: Name,
    list: bool,
    sub: &'a Sub,
    fault: Option<NotDerivable>,
    /// Results by the address of the part (the tree outlives this struct, and a result depends on nothing around the
    /// part). Inlined `let`s are shared by many places, so each is rewritten once.
    done: FxHashMap<*const Node, Expr>,
}

impl Subst<'_> {
    fn fail(&mut self, what: impl Into<String>) {
        self.fault.get_or_insert_with(|| NotDerivable::new(what));
    }

    fn expr(&mut self, e: &Expr) -> Expr {
        let at = Arc::as_ptr(&e.node);
        if let Some(done) = self.done.get(&at) {
            return done.clone();
        }
        // Inside a `ravel` a name means the list, elsewhere the index at the current axis.
        let new = self.node(e).unwrap_or_else(|| walk::rebuilt(e, &mut |part| self.expr(part)));
        self.done.insert(at, new.clone());
        new
    }

    fn node(&mut self, e: &Expr) -> Option<Expr> {
        match &*e.node {
            Node::Name(n) if *n == self.name => Some(match self.sub {
                Sub::One(x) | Sub::Zip(x) | Sub::Unravel(x) => x.clone(),
                Sub::Rename(r) => make::name(*r),
            }),
            Node::Call(f, args) if self.list && f.name == "ravel" => self.ravel(e, args),
            Node::Access(a) => Some(self.access(e, a)),
            Node::Reduce(r) => self.reduce(e, r),
            _ => None,
        }
    }

    fn ravel(&mut self, e: &Expr, args: &[Arg]) -> Option<Expr> {
        let first = args.first()?;
        if make::as_name(&first.value) != Some(self.name) {
            return None;
        }
        let sizes = args.get(1).map_or_else(|| make::name(self.name.size_of_index()), |a| a.value.clone());
        let list = match self.sub {
            Sub::Unravel(call) => match &*call.node {
                // Ravelling an unravelled position gives the position itself.
                Node::Call(_, inner) if inner.get(1).is_some_and(|s| s.value == sizes) => {
                    return Some(inner[0].value.clone());
                }
                _ => {
                    self.fail(format!("`{e}` ravels what was unravelled differently"));
                    return None;
                }
            },
            Sub::Rename(r) => make::name(*r),
            Sub::Zip(x) => make::zip(x.clone()),
            Sub::One(x) => x.clone(),
        };
        Some(make::call("ravel", [list, sizes]))
    }

    fn access(&mut self, e: &Expr, a: &TensorAccess) -> Expr {
        let base = match self.sub {
            // `s[dim]`: the index along one axis
            Sub::Rename(r) if a.base.name == self.name => make::ident(*r),
            _ if a.base.name == self.name => {
                self.fail(format!("`{e}` takes one index of a list that was solved"));
                a.base
            }
            _ => a.base,
        };
        let places = a.places.iter().map(|p| self.place(p)).collect();
        let outside = match &a.outside {
            Outside::Value(v) => Outside::Value(self.expr(v)),
            other => other.clone(),
        };
        let item = a.item.as_ref().map(|i| self.expr(i));
        Expr::new(Node::Access(TensorAccess { base, places, outside, item }), e.span)
    }

    fn place(&mut self, p: &Place) -> Place {
        match p {
            Place::One(e) => Place::One(self.expr(e)),
            Place::Zip(e) => Place::Zip(self.expr(e)),
            Place::Unravel(e) => Place::Unravel(self.expr(e)),
            Place::BroadcastZip(e) => Place::BroadcastZip(self.expr(e)),
            Place::BroadcastGroup(inner) => Place::BroadcastGroup(inner.iter().map(|p| self.place(p)).collect()),
            Place::List(n, Some(axes)) if n.name != self.name => Place::List(*n, Some(self.axes(axes))),
            Place::List(n, axes) if n.name == self.name => match (self.sub, axes) {
                (Sub::Rename(r), axes) => Place::List(make::ident(*r), axes.clone()),
                (Sub::Zip(x), None) => Place::Zip(x.clone()),
                (Sub::Unravel(x), None) => Place::Unravel(x.clone()),
                _ => {
                    self.fail(format!("`..{}` is used in part", n.name));
                    p.clone()
                }
            },
            Place::Broadcast(n) if n.name == self.name => match self.sub {
                Sub::Rename(r) => Place::Broadcast(make::ident(*r)),
                Sub::Zip(x) => Place::BroadcastZip(x.clone()),
                _ => {
                    self.fail(format!("`~{}` broadcasts a flat position", n.name));
                    p.clone()
                }
            },
            Place::List(..) | Place::Broadcast(_) => p.clone(),
        }
    }

    fn reduce(&mut self, e: &Expr, r: &Reduce) -> Option<Expr> {
        let binds = r.binds.as_ref()?;
        let chosen = |b: &Bind| {
            let mut names = rustc_hash::FxHashSet::default();
            b.axes.iter().for_each(|a| walk::axes_names(a, &mut names));
            names.contains(&self.name)
        };
        if binds.iter().any(chosen) {
            let binds =
                binds.iter().map(|b| Bind { axes: b.axes.as_ref().map(|a| self.axes(a)), ..b.clone() }).collect();
            let r = Reduce { binds: Some(binds), ..r.clone() };
            return Some(Expr::new(Node::Reduce(self.inside(&r)), e.span));
        }
        let same = binds.iter().find(|b| b.name.name == self.name)?;
        let Some(_) = &same.axes else {
            // The inner reduction binds the name anew; only ranges still refer to the outer variable.
            let binds = binds
                .iter()
                .map(|b| Bind { range: b.range.as_ref().map(|(lo, hi)| (self.expr(lo), self.expr(hi))), ..b.clone() })
                .collect();
            return Some(Expr::new(Node::Reduce(Reduce { binds: Some(binds), ..r.clone() }), e.span));
        };
        // Chosen axes are bound anew; the other axes refer to the outer list.
        let Sub::Rename(to) = self.sub else {
            self.fail(format!("`{e}` binds some axes of `{}`, which was solved", self.name));
            return None;
        };
        let binds = binds
            .iter()
            .map(|b| if b.name.name == self.name { Bind { name: make::ident(*to), ..b.clone() } } else { b.clone() })
            .collect();
        Some(Expr::new(Node::Reduce(self.inside(&Reduce { binds: Some(binds), ..r.clone() })), e.span))
    }

    /// A reduction with everything replaced except its variables.
    fn inside(&mut self, r: &Reduce) -> Reduce {
        Reduce {
            filter: r.filter.as_ref().map(|c| self.expr(c)),
            body: self.expr(&r.body),
            otherwise: r.otherwise.as_ref().map(|o| self.expr(o)),
            ..r.clone()
        }
    }

    /// Axes that depend on the position of an item.
    fn axes(&mut self, a: &Axes) -> Axes {
        let to = match self.sub {
            Sub::Rename(r) => Some(*r),
            Sub::One(e) => make::as_name(e),
            Sub::Zip(_) | Sub::Unravel(_) => None,
        };
        let mut names = rustc_hash::FxHashSet::default();
        walk::axes_names(a, &mut names);
        match to {
            Some(to) => make::rename_axes(a, self.name, to),
            None => {
                if names.contains(&self.name) {
                    self.fail(format!("`{}` chooses axes and was solved", self.name));
                }
                a.clone()
            }
        }
    }
}

/// Whether a reduction in `e` would capture a variable if free `name` were replaced by an expression with `others`.
pub fn captures(e: &Expr, name: Name, others: &dyn Fn(Name) -> bool) -> bool {
    walk::any(e, &mut |e| match &*e.node {
        Node::Reduce(r) => {
            let binds = r.binds.iter().flatten();
            let rebinds = binds.clone().any(|b| b.name.name == name && b.axes.is_none());
            !rebinds && binds.clone().any(|b| others(b.name.name)) && walk::mentions(e, name)
        }
        _ => false,
    })
}

/// The variables of `binds`, each with its new name if `taken` has the old one.
pub fn rename_binds(
    binds: &[Bind],
    taken: &dyn Fn(Name) -> bool,
    fresh: &mut dyn FnMut(Name) -> Name,
) -> Vec<(Var, Option<Name>)> {
    binds
        .iter()
        .map(|b| {
            let var = Var::of_bind(b);
            if !taken(var.name) || matches!(var.kind, Kind::Part(_)) {
                return (var, None);
            }
            let old = var.name;
            (Var { name: fresh(old), ..var }, Some(old))
        })
        .collect()
}
