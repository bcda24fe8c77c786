//! Inlines the `let`s of a body, except those that hold reductions.

use super::subst::{self, Sub};
use super::var::{Kind, Var};
use crate::Name;
use crate::derive::{NotDerivable, make, walk};
use crate::lang::ast::*;

/// A body whose `let`s are inlined.
#[derive(Clone, Debug, Default)]
pub struct Opened {
    /// `let`s that hold reductions, in order.
    pub lets: Vec<(Name, Expr)>,
    /// `let s[dim] = e`: the index of one axis of a list.
    pub axes: Vec<(Name, Axes, Expr)>,
}

type Res<X> = Result<X, NotDerivable>;

impl Opened {
    /// The value of `b`.
    pub fn block(&mut self, b: &Block) -> Res<Expr> {
        let mut small: Vec<(Var, Sub)> = Vec::new();
        for s in &b.stmts {
            let Stmt::Let(pattern, e) = s else { return Err(NotDerivable::new("a write in an expression")) };
            let e = put(&self.expr(e)?, &small)?;
            match pattern {
                Pattern::Name(id) => {
                    let var = |kind| Var { name: id.name, kind };
                    let none = || (make::int(0), make::int(0));
                    small.retain(|(v, _)| v.name != id.name);
                    match &*e.node {
                        Node::Zip(inner) => {
                            let (lo, hi) = none();
                            small.push((var(Kind::List(lo, hi)), Sub::Zip(inner.clone())));
                        }
                        _ if walk::any(&e, &mut |e| matches!(&*e.node, Node::Reduce(r) if r.binds.is_some())) => {
                            // A second `let` of one name shadows the first.
                            let name = match self.lets.iter().any(|(n, _)| *n == id.name) {
                                true => Name::new(&format!("{}#{}", id.name, self.lets.len())),
                                false => id.name,
                            };
                            if name != id.name {
                                let (lo, hi) = none();
                                small.push((var(Kind::One(lo, hi)), Sub::One(make::name(name))));
                            }
                            self.lets.push((name, e));
                        }
                        _ => {
                            let (lo, hi) = none();
                            small.push((var(Kind::One(lo, hi)), Sub::One(e)));
                        }
                    }
                }
                Pattern::Axes(id, axes) => self.axes.push((id.name, axes.clone(), e)),
                Pattern::Tuple(_) => return Err(NotDerivable::new("`let (a, b)` in an index body")),
            }
        }
        put(&self.expr(&b.value)?, &small)
    }

    /// `e` with its inner blocks inlined.
    fn expr(&mut self, e: &Expr) -> Res<Expr> {
        let mut fault = None;
        let out = walk::map(e, &mut |e| match &*e.node {
            Node::If(c, a, b) if !(a.stmts.is_empty() && b.stmts.is_empty()) => {
                let parts = (|| Ok((self.expr(c)?, self.block(a)?, self.block(b)?)))();
                match parts {
                    Ok((c, a, b)) => Some(Expr::new(Node::If(c, make::block(a), make::block(b)), e.span)),
                    Err(f) => {
                        fault.get_or_insert(f);
                        Some(e.clone())
                    }
                }
            }
            _ => None,
        });
        match fault {
            Some(f) => Err(f),
            None => Ok(out),
        }
    }
}

fn put(e: &Expr, small: &[(Var, Sub)]) -> Res<Expr> {
    let mut e = e.clone();
    for (var, sub) in small.iter().rev() {
        let (Sub::One(value) | Sub::Zip(value)) = sub else { continue };
        let inner = walk::names(value);
        if subst::captures(&e, var.name, &|n| inner.contains(&n)) && binds_parts(&e, &inner) {
            return Err(NotDerivable::new(format!(
                "`{}` is used under a reduction that binds its index again",
                var.name
            )));
        }
        e = subst::expr(&e, var, sub)?;
    }
    Ok(e)
}

/// Whether a reduction in `e` binds one of `names` as a whole; a choice of axes leaves the other axes alone.
fn binds_parts(e: &Expr, names: &rustc_hash::FxHashSet<Name>) -> bool {
    walk::any(e, &mut |e| match &*e.node {
        Node::Reduce(r) => r.binds.iter().flatten().any(|b| names.contains(&b.name.name) && b.axes.is_none()),
        _ => false,
    })
}
