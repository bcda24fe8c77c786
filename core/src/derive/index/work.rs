//! The gradient through one result: choices by options are kept, every read of the argument is transposed.

use super::equate::Target;
use super::lets::Opened;
use super::parts::Hoist;
use super::read::{Leaf, Reader, Term};
use super::solve::{Known, Sum};
use super::subst::{self, Sub};
use super::var::{Kind, Pattern, Var};
use crate::Name;
use crate::derive::term::{Scope, T};
use crate::derive::{NotDerivable, make, walk};
use crate::lang::ast::*;
use crate::lang::helpers::{self, HelperFact};
use crate::row::Row;

type Res<X> = Result<X, NotDerivable>;

/// The choices that a body makes by options alone, with a gradient at each leaf (`None`: zero).
#[derive(Clone, Debug)]
pub enum Piece {
    /// `if c { … } else { … }`
    If(Expr, Box<Piece>, Box<Piece>),
    /// `match on { … }`
    Match(Ident, Vec<(Ident, Piece)>),
    Value(Option<Expr>),
}

impl Piece {
    /// Whether every leaf is zero.
    pub fn is_zero(&self) -> bool {
        match self {
            Piece::If(_, a, b) => a.is_zero() && b.is_zero(),
            Piece::Match(_, arms) => arms.iter().all(|(_, p)| p.is_zero()),
            Piece::Value(e) => e.is_none(),
        }
    }

    /// The choices as one expression.
    pub fn expr(&self) -> Expr {
        match self {
            Piece::If(c, a, b) => make::branch(c.clone(), a.expr(), b.expr()),
            Piece::Match(on, arms) => {
                let arms: Vec<(Ident, Expr)> = arms.iter().map(|(w, p)| (*w, p.expr())).collect();
                match arms.first() {
                    Some((_, first)) if arms.iter().all(|(_, e)| e == first) => first.clone(),
                    _ => Expr::bare(Node::Match(*on, arms)),
                }
            }
            Piece::Value(e) => e.clone().unwrap_or_else(|| make::int(0)),
        }
    }

    /// Applies `f` to every leaf.
    pub fn map(self, f: &mut dyn FnMut(Expr) -> Expr) -> Piece {
        match self {
            Piece::If(c, a, b) => Piece::If(c, Box::new(a.map(f)), Box::new(b.map(f))),
            Piece::Match(on, arms) => Piece::Match(on, arms.into_iter().map(|(w, p)| (w, p.map(f))).collect()),
            Piece::Value(e) => Piece::Value(e.map(f)),
        }
    }
}

/// The state of one derivation, for one result.
pub struct Work<'a, 't, 'r> {
    pub row: &'a Row,
    /// The reader, which holds the terms of the derivative.
    pub reader: Reader<'t, 'r>,
    /// The gradient's axes.
    pub target: Target,
    /// Hoists values that are needed once per result.
    pub hoist: Hoist<'a>,
    /// Facts that solving uses.
    pub known: Known<'a>,
    /// The body's `let`s.
    pub opened: &'a Opened,
    /// The result's axes.
    pub pattern: &'a Pattern,
    /// The cotangent at the result's indices.
    pub seed: T,
}

impl Work<'_, '_, '_> {
    /// The gradient through result `n` of the body's value `e`.
    pub fn piece(&mut self, e: &Expr, n: usize) -> Res<Piece> {
        Ok(match &*e.node {
            Node::Match(on, arms) => {
                Piece::Match(*on, arms.iter().map(|(w, e)| Ok((*w, self.piece(e, n)?))).collect::<Res<_>>()?)
            }
            Node::If(c, a, b) if self.is_static(c) => {
                // The argument is present here, so conditions on its presence are decided.
                let t = self.reader.terms.one(c, &Scope::default())?;
                let c = self.reader.terms.written(t);
                let (a, b) = (self.piece(&a.value, n)?, self.piece(&b.value, n)?);
                match self.reader.terms.truth(t) {
                    Some(true) => a,
                    Some(false) => b,
                    None => Piece::If(c, Box::new(a), Box::new(b)),
                }
            }
            Node::Tuple(items) => match items.get(n) {
                Some(e) => self.piece(e, n)?,
                None => return Err(NotDerivable::new("fewer values than results")),
            },
            _ => Piece::Value(self.value(e)?),
        })
    }

    /// Whether options, sizes and presence decide `e`.
    fn is_static(&self, e: &Expr) -> bool {
        let sig = &self.row.sig;
        let mut tensors = Vec::new();
        let reads = walk::any(e, &mut |e| match &*e.node {
            Node::Access(a) => !a.base.name.is_size(),
            Node::Reduce(r) => r.binds.is_some(),
            Node::Name(n) => self.pattern.vars.iter().any(|v| v.name == *n),
            Node::Call(f, args) if helpers::is(f.name, HelperFact::Question) => {
                tensors.extend(args.iter().filter_map(|a| make::as_name(&a.value)));
                false
            }
            Node::Call(f, _) => f.name == "member" || f.name == "uniform",
            _ => false,
        });
        let words = |n: &Name| sig.opts.iter().any(|o| matches!(&o.ty, OptType::Enum(words) if words.contains(n)));
        !reads
            && walk::names(e).iter().all(|n| {
                n.is_size()
                    || tensors.contains(n)
                    || sig.opts.iter().any(|o| o.name.name == *n)
                    || words(n)
                    || crate::signature::const_eval::constant(*n).is_some()
            })
    }

    /// The gradient through one value: every read of the argument, transposed and added.
    fn value(&mut self, e: &Expr) -> Res<Option<Expr>> {
        let scope = self.pattern.vars.clone();
        let mut pending = self.reader.linear(e, &scope)?;
        for t in &mut pending {
            t.cof = self.reader.terms.product(&[self.seed, t.cof], &[]);
        }
        // The gradient of a `let` flows on to its definition, the last `let` first.
        for (name, def) in self.opened.lets.clone().into_iter().rev() {
            let (through, rest): (Vec<Term>, Vec<Term>) = pending.into_iter().partition(|t| t.leaf == Leaf::Let(name));
            pending = rest;
            if through.is_empty() {
                continue;
            }
            let parts: Vec<(f64, T)> = through
                .iter()
                .map(|t| {
                    let closed = self.close(t);
                    Ok((1.0, self.reader.terms.one(&closed, &Scope::default())?))
                })
                .collect::<Res<_>>()?;
            let flow = self.reader.terms.sum(&parts);
            for mut t in self.reader.linear(&def, &scope)? {
                t.cof = self.reader.terms.product(&[flow, t.cof], &[]);
                pending.push(t);
            }
        }
        let mut sum: Option<Expr> = None;
        for t in &pending {
            let Leaf::Read(read) = &t.leaf else { continue };
            let e = self.transpose(t, read)?;
            sum = Some(match sum {
                None => e,
                Some(s) => make::binary(BinOp::Add, s, e),
            });
        }
        Ok(sum)
    }

    /// A term summed over its own variables.
    fn close(&self, t: &Term) -> Expr {
        let body = self.reader.terms.written(t.cof);
        sum(&t.vars, make::all(t.conds.iter().cloned()), body, self.known.seed)
    }

    /// One read, as a sum over the variables that its places do not determine.
    fn transpose(&mut self, t: &Term, read: &TensorAccess) -> Res<Expr> {
        let body = self.whole(&self.reader.terms.written(t.cof))?;
        let body = self.hoist.take(&body, &t.vars);
        let conds = t.conds.iter().map(|c| self.whole(c)).collect::<Res<Vec<_>>>()?;
        let conds = conds.iter().map(|c| self.hoist.take(c, &t.vars)).collect();
        let mut vars: Vec<Var> = self.pattern.vars.iter().chain(&t.vars).cloned().collect();
        let eqs = self.target.equate(read, &mut vars, &self.opened.axes, self.row)?;
        let mut s = Sum { vars, eqs, conds, body };
        s.solve(&self.known)?;
        s.vars.extend(self.target.extra.iter().cloned());
        // A condition may read where another one says that there is an element, so those that read nothing come first.
        let (first, then): (Vec<Expr>, Vec<Expr>) = s.conds.into_iter().partition(|c| !walk::reads(c));
        let cond = make::all(first.into_iter().chain(then));
        let only = match (&s.vars[..], &cond) {
            // The pieces lie end to end, so exactly one of them holds the element.
            ([Var { kind: Kind::Item, .. }], None) => partition(&s.body, self.known.seed),
            _ => None,
        };
        Ok(match only {
            Some(only) => make::reduce(Red::Only, s.vars.iter().map(Var::bind).collect(), None, only),
            None => sum(&s.vars, cond, s.body, self.known.seed),
        })
    }

    /// `e` with `let`s inlined; hoisting later finds the parts that are needed once.
    fn whole(&self, e: &Expr) -> Res<Expr> {
        let mut e = e.clone();
        for (name, def) in self.opened.lets.iter().rev() {
            let var = Var { name: *name, kind: Kind::One(make::int(0), make::int(0)) };
            e = subst::expr(&e, &var, &Sub::One(def.clone()))?;
        }
        Ok(e)
    }
}

/// `sum[vars if cond](body)`; the items of a list are a sum of their own.
fn sum(vars: &[Var], cond: Option<Expr>, body: Expr, seed: Name) -> Expr {
    let (items, axes): (Vec<&Var>, Vec<&Var>) = vars.iter().partition(|v| v.kind == Kind::Item);
    let body = match &*body.node {
        Node::Binary(BinOp::Mul, ..) => outside_of_products(&body, seed, !axes.is_empty()),
        _ => body,
    };
    let inner = match (axes.is_empty(), cond) {
        (true, None) => body,
        (true, Some(c)) => make::branch(c, body, make::int(0)),
        (false, cond) => make::reduce(Red::Sum, axes.into_iter().map(Var::bind).collect(), cond, body),
    };
    items.into_iter().fold(inner, |e, i| make::reduce(Red::Sum, vec![i.bind()], None, e))
}

/// Guards the factors of a product in a sum against reads outside of their tensors. Where the cotangent lies outside,
/// the whole product is skipped, so that no factor is multiplied by 0. An argument that the row skips outside stays
/// skipped, or reads as 0 where there is no sum to skip in.
fn outside_of_products(body: &Expr, seed: Name, in_sum: bool) -> Expr {
    let zero = Outside::Value(make::int(0));
    match &*body.node {
        Node::Binary(BinOp::Mul, x, y) => {
            let factor = |e: &Expr| outside_of_products(e, seed, in_sum);
            make::binary(BinOp::Mul, factor(x), factor(y))
        }
        Node::Access(a) => {
            let outside = match (&a.outside, in_sum) {
                (o, true) if *o == zero && a.base.name == seed => Outside::Skip,
                (Outside::Skip, false) => zero,
                (o, _) => o.clone(),
            };
            Expr::new(Node::Access(TensorAccess { outside, ..a.clone() }), body.span)
        }
        _ => body.clone(),
    }
}

/// The access under `only`, if the pieces are known to lie end to end.
fn partition(body: &Expr, seed: Name) -> Option<Expr> {
    let Node::Access(a) = &*body.node else { return None };
    if a.base.name != seed || !matches!(a.outside, Outside::Value(_)) {
        return None;
    }
    let item = Some(Name::new("i"));
    let steps = |e: &Expr| match &*e.node {
        Node::Binary(BinOp::Sub, _, off) => match &*off.node {
            Node::Call(f, _) => f.name == "before",
            Node::Binary(BinOp::Mul, i, size) => {
                make::as_name(i) == item && make::as_name(size).is_some_and(Name::is_size)
            }
            _ => false,
        },
        _ => false,
    };
    let moved = a.places.iter().filter(|p| matches!(p, Place::One(e) if steps(e))).count();
    let access = TensorAccess { outside: Outside::Skip, ..a.clone() };
    (moved == 1).then(|| Expr::bare(Node::Access(access)))
}
