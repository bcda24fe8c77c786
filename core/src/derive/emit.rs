//! Prints terms as text, with a `let` for each value that is used more than once.
//!
//! A `let` stands where its value is computed in any case: nothing moves out of an `if`, because an absent argument or
//! a division by zero could be evaluated outside it. Arms of a `match` hold no statements, so their shared values stand
//! before the `match` (lowering computes only those of the chosen arm), unless they mention an argument that may be
//! absent.

use super::make;
use super::term::{Op, T, Terms};
use crate::Name;
use crate::lang::ast::*;
use crate::lang::helpers::{self, HelperFact};
use rustc_hash::{FxHashMap, FxHashSet};

/// Writes terms.
pub struct Emit<'t, 'r> {
    /// The arena.
    pub terms: &'t Terms<'r>,
    /// Names that `let`s must not use.
    pub taken: FxHashSet<Name>,
    /// Arguments and options that may be absent.
    pub optional: Vec<Name>,
}

impl Terms<'_> {
    /// `t` as one expression; shared parts are repeated.
    pub fn written(&self, t: T) -> Expr {
        Emit { terms: self, taken: FxHashSet::default(), optional: Vec::new() }.expr(t, &FxHashMap::default(), None)
    }
}

impl Emit<'_, '_> {
    pub fn block(&mut self, t: T) -> Block {
        self.block_in(t, &FxHashMap::default())
    }

    fn block_in(&mut self, t: T, outer: &FxHashMap<T, Name>) -> Block {
        let (mut uses, mut always) = (FxHashMap::default(), FxHashSet::default());
        self.uses(t, outer, &mut uses);
        self.always(t, outer, &mut always);
        let mut shared: Vec<T> =
            always.into_iter().filter(|s| *s != t && uses.get(s).is_some_and(|n| *n > 1) && !self.small(*s)).collect();
        // A term has a greater number than its parts.
        shared.sort();
        let mut bound = outer.clone();
        let mut stmts = Vec::new();
        for s in shared {
            let value = self.value(s, &bound);
            let name = self.name_for(s);
            stmts.push(Stmt::Let(Pattern::Name(make::ident(name)), value));
            bound.insert(s, name);
        }
        let value = self.value(t, &bound);
        Block { stmts, value }
    }

    /// How often each term is used in `t`.
    fn uses(&self, t: T, outer: &FxHashMap<T, Name>, uses: &mut FxHashMap<T, usize>) {
        if outer.contains_key(&t) {
            return;
        }
        let n = uses.entry(t).or_insert(0);
        *n += 1;
        if *n == 1 {
            self.terms.children(t).into_iter().for_each(|c| self.uses(c, outer, uses));
        }
    }

    /// The subterms of `t` that are computed whichever branch is taken.
    fn always(&self, t: T, outer: &FxHashMap<T, Name>, out: &mut FxHashSet<T>) {
        if outer.contains_key(&t) || !out.insert(t) {
            return;
        }
        match self.terms.op(t) {
            Op::If(c, ..) => self.always(*c, outer, out),
            // The left side may test whether the arguments of the right side are present.
            Op::Bin(BinOp::And | BinOp::Or, a, _) => self.always(*a, outer, out),
            Op::Match(_, arms) => {
                for (_, a) in arms {
                    let names = self.terms.names(*a);
                    if !self.optional.iter().any(|o| names.contains(o.as_str())) {
                        self.always(*a, outer, out);
                    }
                }
            }
            _ => self.terms.children(t).into_iter().for_each(|c| self.always(c, outer, out)),
        }
    }

    fn name_for(&mut self, t: T) -> Name {
        let hint = self.terms.hints.get(&t).copied().filter(|h| !self.taken.contains(h));
        let name = hint.unwrap_or_else(|| {
            (1..).map(|i| Name::new(&format!("t{i}"))).find(|n| !self.taken.contains(n)).unwrap_or(Name::new("t0"))
        });
        self.taken.insert(name);
        name
    }

    /// Terms that are as short as a name.
    fn small(&self, t: T) -> bool {
        match self.terms.op(t) {
            Op::Const(..) | Op::Name(_) => true,
            Op::Neg(a) | Op::Not(a) => self.small(*a),
            Op::Call(f, _) => helpers::is(*f, HelperFact::Question),
            Op::Atom(text) => text.as_str().len() <= 12,
            _ => false,
        }
    }

    fn value(&mut self, t: T, bound: &FxHashMap<T, Name>) -> Expr {
        if let (Op::If(c, a, b), false) = (self.terms.op(t).clone(), bound.contains_key(&t)) {
            let c = self.value(c, bound);
            let taken = self.taken.clone();
            let a = self.block_in(a, bound);
            // The names that one branch uses are free again in the other.
            self.taken = taken.clone();
            let b = self.block_in(b, bound);
            self.taken = taken;
            return Expr::bare(Node::If(c, a, b));
        }
        let this: &Self = self;
        this.expr(t, bound, Some(t))
    }

    /// The expression of `t`; the term `open` is written out even if a `let` names it.
    fn expr(&self, t: T, bound: &FxHashMap<T, Name>, open: Option<T>) -> Expr {
        if let Some(n) = bound.get(&t).filter(|_| open != Some(t)) {
            return make::name(*n);
        }
        let sub = |t: T| self.expr(t, bound, None);
        match self.terms.op(t) {
            Op::Const(x, float) => number(x.value(), *float),
            Op::Name(n) => make::name(*n),
            Op::Neg(a) => negative(sub(*a)),
            Op::Not(a) => make::not(sub(*a)),
            Op::Bin(op, a, b) => make::binary(*op, sub(*a), sub(*b)),
            Op::Cast(a, text) => Expr::bare(Node::Cast(sub(*a), self.terms.elem(*text))),
            Op::If(c, a, b) => Expr::bare(Node::If(sub(*c), make::block(sub(*a)), make::block(sub(*b)))),
            Op::Match(on, arms) => Expr::bare(Node::Match(
                make::ident(*on),
                arms.iter().map(|(w, a)| (make::ident(*w), sub(*a))).collect(),
            )),
            Op::Call(f, args) => make::call(f.as_str(), args.iter().map(|a| sub(*a))),
            Op::Atom(text) => self.terms.atom_expr(*text),
            Op::Sum(items) => {
                let mut items: Vec<(f64, T)> = items.iter().map(|(c, t)| (c.value(), *t)).collect();
                // A positive item comes first, so that the sum does not start with a minus sign.
                if let Some(at) = items.iter().position(|(c, _)| *c > 0.0) {
                    items[..=at].rotate_right(1);
                }
                let mut parts = items.into_iter().enumerate().map(|(i, (c, t))| {
                    let size = if i == 0 { c } else { c.abs() };
                    (c < 0.0 && i > 0, self.scaled(size, t, bound))
                });
                let (_, first) = parts.next().unwrap_or((false, make::int(0)));
                parts.fold(first, |sum, (minus, e)| make::binary(if minus { BinOp::Sub } else { BinOp::Add }, sum, e))
            }
            Op::Prod(c, nums, dens) => self.quotient(c.value(), nums, dens, bound),
        }
    }

    fn scaled(&self, c: f64, t: T, bound: &FxHashMap<T, Name>) -> Expr {
        match (bound.contains_key(&t), self.terms.op(t)) {
            (false, Op::Prod(k, nums, dens)) => self.quotient(c * k.value(), nums, dens, bound),
            (_, Op::Const(x, _)) => number(c * x.value(), false),
            _ => self.quotient(c, &[t], &[], bound),
        }
    }

    fn quotient(&self, coef: f64, nums: &[T], dens: &[T], bound: &FxHashMap<T, Name>) -> Expr {
        let size = coef.abs();
        let dens: Vec<Expr> = dens.iter().map(|t| self.expr(*t, bound, None)).collect();
        let mut factors = Vec::new();
        if size != 1.0 || nums.is_empty() {
            // A count is an integer, so its reciprocal needs a float.
            let counted = nums.is_empty() && dens.iter().any(|den| matches!(&*den.node, Node::Access(_)));
            factors.push(number(size, counted));
        }
        factors.extend(nums.iter().map(|t| self.expr(*t, bound, None)));
        let mut factors = factors.into_iter();
        let mut first = factors.next().unwrap_or_else(|| make::int(1));
        if coef.is_sign_negative() && !coef.is_nan() {
            first = negative(first);
        }
        let product = factors.fold(first, |p, e| make::binary(BinOp::Mul, p, e));
        dens.into_iter().fold(product, |p, den| make::binary(BinOp::Div, p, den))
    }
}

fn number(x: f64, float: bool) -> Expr {
    if x.is_sign_negative() && !x.is_nan() {
        return Expr::bare(Node::Unary(UnOp::Neg, make::number(-x, !float && x != 0.0)));
    }
    make::number(x, !float)
}

fn negative(e: Expr) -> Expr {
    Expr::bare(Node::Unary(UnOp::Neg, e))
}
