//! Scalar terms, hash-consed: equal terms are one node, so a derivative shares subterms with its function.
//!
//! Terms read from a row's text keep its operations ([`Op::Bin`]), because a condition must decide as the row's own
//! does, to the last bit. Terms that a derivation builds are sums and products with coefficients ([`Op::Sum`],
//! [`Op::Prod`]), to which the named rules of `super::rules` apply during construction.

use super::NotDerivable;
use super::make;
use crate::Name;
use crate::builtins::Builtin;
use crate::lang::ast::*;
use crate::lang::helpers::{self, HelperFact};
use crate::lower::Rows;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// A term: an index into its [`Terms`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct T(u32);

/// A number, stored as bits so that terms can be hashed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Num(u64);

impl Num {
    /// The number.
    pub fn value(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl From<f64> for Num {
    fn from(x: f64) -> Num {
        Num(x.to_bits())
    }
}

/// The operation of a term.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// A literal, and whether it was written as a float.
    Const(Num, bool),
    /// An argument, option, size or constant.
    Name(Name),
    /// `-a`
    Neg(T),
    /// `!a`
    Not(T),
    /// `a op b`, as in the row's text.
    Bin(BinOp, T, T),
    /// `a as cls`
    Cast(T, Name),
    /// `if c { a } else { b }`
    If(T, T, T),
    /// `match on { … }`
    Match(Name, Vec<(Name, T)>),
    /// A builtin, `detach`, or a test such as `some(x)`.
    Call(Name, Vec<T>),
    /// An access, a reduction, or index arithmetic, treated as opaque.
    Atom(Name),
    /// Coefficients times terms, added.
    Sum(Vec<(Num, T)>),
    /// Coefficient times numerators over denominators.
    Prod(Num, Vec<T>, Vec<T>),
}

/// An arena of terms.
pub struct Terms<'r> {
    ops: Vec<Op>,
    index: FxHashMap<Op, T>,
    atoms: FxHashMap<Name, Expr>,
    elems: FxHashMap<Name, Elem>,
    pub(super) hints: FxHashMap<T, Name>,
    pub(super) fired: BTreeSet<&'static str>,
    rows: &'r dyn Rows,
    /// Tensor arguments; a call may pass numbers for them.
    pub(super) params: Vec<Name>,
    /// The argument of differentiation: it is present, and a tensor.
    pub(super) wrt: Option<Name>,
}

/// Names bound by `let`s and by inlined rows.
#[derive(Clone, Default)]
pub struct Scope {
    lets: Vec<(Name, T)>,
    words: Vec<(Name, Name)>,
    /// Parameters of an inlined row that the call gives; `absent` holds the others.
    given: Vec<Name>,
    absent: Vec<Name>,
    depth: usize,
    /// Whether the text is that of a derivative, so that sums and products are built.
    derivative: bool,
}

impl Scope {
    /// This scope with a further name.
    pub fn with(mut self, name: Name, t: T) -> Scope {
        self.lets.push((name, t));
        self
    }

    /// This scope with the option `name` equal to this word.
    pub fn with_word(mut self, name: Name, word: Name) -> Scope {
        self.words.push((name, word));
        self
    }
}

/// The nesting limit of inlined rows.
const MAX_INLINE: usize = 32;

type Res<X> = Result<X, NotDerivable>;

impl<'r> Terms<'r> {
    /// An empty arena.
    pub fn new(rows: &'r dyn Rows, params: Vec<Name>, wrt: Option<Name>) -> Terms<'r> {
        Terms {
            ops: Vec::new(),
            index: FxHashMap::default(),
            atoms: FxHashMap::default(),
            elems: FxHashMap::default(),
            hints: FxHashMap::default(),
            fired: BTreeSet::new(),
            rows,
            params,
            wrt,
        }
    }

    /// The node of this operation, made once.
    pub fn add_op(&mut self, op: Op) -> T {
        if let Some(&t) = self.index.get(&op) {
            return t;
        }
        let t = T(self.ops.len() as u32);
        self.ops.push(op.clone());
        self.index.insert(op, t);
        t
    }

    /// The operation of `t`.
    pub fn op(&self, t: T) -> &Op {
        &self.ops[t.0 as usize]
    }

    /// A number.
    pub fn num(&mut self, x: f64) -> T {
        let float = x.fract() != 0.0 || x.abs() >= 1e15 || !x.is_finite() || (x == 0.0 && x.is_sign_negative());
        self.add_op(Op::Const(x.into(), float))
    }

    /// A name.
    pub fn name(&mut self, n: Name) -> T {
        self.add_op(Op::Name(n))
    }

    /// An opaque expression.
    pub fn atom(&mut self, e: &Expr) -> T {
        let text = Name::new(&e.to_string());
        self.atoms.entry(text).or_insert_with(|| e.clone());
        self.add_op(Op::Atom(text))
    }

    /// The expression of an atom.
    pub fn atom_expr(&self, text: Name) -> Expr {
        self.atoms.get(&text).cloned().unwrap_or_else(|| make::name(text))
    }

    /// The element class of a cast.
    pub fn elem(&self, text: Name) -> Elem {
        self.elems.get(&text).cloned().unwrap_or(Elem::Class(text))
    }

    /// The number, if `t` is a literal, possibly negated.
    pub fn value(&self, t: T) -> Option<f64> {
        match self.op(t) {
            Op::Const(x, _) => Some(x.value()),
            Op::Neg(a) => self.value(*a).map(|x| -x),
            _ => None,
        }
    }

    /// Whether `t` is zero (and not minus zero).
    pub fn is_zero(&self, t: T) -> bool {
        self.value(t).is_some_and(|x| x.to_bits() == 0)
    }

    /// The truth value, if `t` is a literal one.
    pub fn truth(&self, t: T) -> Option<bool> {
        match self.op(t) {
            Op::Name(n) if *n == "true" => Some(true),
            Op::Name(n) if *n == "false" => Some(false),
            _ => None,
        }
    }

    pub(super) fn bool(&mut self, b: bool) -> T {
        self.name(Name::new(if b { "true" } else { "false" }))
    }

    /// The direct subterms of `t`.
    pub fn children(&self, t: T) -> Vec<T> {
        match self.op(t) {
            Op::Const(..) | Op::Name(_) | Op::Atom(_) => Vec::new(),
            Op::Neg(a) | Op::Not(a) | Op::Cast(a, _) => vec![*a],
            Op::Bin(_, a, b) => vec![*a, *b],
            Op::If(c, a, b) => vec![*c, *a, *b],
            Op::Match(_, arms) => arms.iter().map(|(_, t)| *t).collect(),
            Op::Call(_, args) => args.clone(),
            Op::Sum(items) => items.iter().map(|(_, t)| *t).collect(),
            Op::Prod(_, n, d) => n.iter().chain(d).copied().collect(),
        }
    }

    /// Whether `test` holds for a node of `t`.
    pub fn any(&self, t: T, test: &dyn Fn(&Op) -> bool) -> bool {
        let mut seen = vec![false; self.ops.len()];
        let mut open = vec![t];
        while let Some(t) = open.pop() {
            if std::mem::replace(&mut seen[t.0 as usize], true) {
                continue;
            }
            if test(self.op(t)) {
                return true;
            }
            open.extend(self.children(t));
        }
        false
    }

    /// Every name in `t`, atoms included.
    pub fn names(&self, t: T) -> BTreeSet<&'static str> {
        let mut seen = vec![false; self.ops.len()];
        let (mut open, mut out) = (vec![t], BTreeSet::new());
        while let Some(t) = open.pop() {
            if std::mem::replace(&mut seen[t.0 as usize], true) {
                continue;
            }
            match self.op(t) {
                Op::Name(n) | Op::Match(n, _) => {
                    out.insert(n.as_str());
                }
                Op::Atom(text) => out.extend(super::walk::names(&self.atom_expr(*text)).into_iter().map(Name::as_str)),
                _ => {}
            }
            open.extend(self.children(t));
        }
        out
    }

    /// Whether `t` is certainly a float. Integers of sizes and options are not, and `/` would round them down.
    pub fn is_float(&self, t: T) -> bool {
        self.any(t, &|op| match op {
            Op::Const(_, float) => *float,
            Op::Name(n) => {
                self.params.contains(n) || matches!(n.as_str(), "PI" | "E" | "FRAC_1_SQRT_2" | "inf" | "nan")
            }
            Op::Atom(text) => self.atom_is_float(*text),
            Op::Cast(..) => true,
            Op::Call(f, _) => Builtin::from_name(f.as_str()).is_some_and(|b| {
                let domain = b.record().domain;
                domain == crate::builtins::Domain::Float
            }),
            _ => false,
        })
    }

    fn atom_is_float(&self, text: Name) -> bool {
        fn float(params: &[Name], e: &Expr) -> bool {
            match &*e.node {
                Node::Access(a) => params.contains(&a.base.name),
                Node::Reduce(r) => {
                    !matches!(r.red, Red::ArgMax | Red::ArgMin)
                        && super::walk::any(&r.body, &mut |e| match &*e.node {
                            Node::Access(a) => params.contains(&a.base.name),
                            Node::Float(_) => true,
                            _ => false,
                        })
                }
                Node::Call(f, _) => f.name == "uniform",
                _ => false,
            }
        }
        self.atoms.get(&text).is_some_and(|e| float(&self.params, e))
    }

    // ------------------------------------------------------------ reading

    /// A block as a term.
    pub fn block(&mut self, b: &Block, scope: &Scope) -> Res<Vec<T>> {
        let mut scope = scope.clone();
        for s in &b.stmts {
            match s {
                Stmt::Let(Pattern::Name(id), e) => {
                    let t = self.one(e, &scope)?;
                    self.hints.entry(t).or_insert(id.name);
                    scope.lets.push((id.name, t));
                }
                Stmt::Let(Pattern::Tuple(ids), e) => {
                    let ts = self.many(e, &scope)?;
                    scope.lets.extend(ids.iter().map(|i| i.name).zip(ts));
                }
                _ => return Err(NotDerivable::new("indices are bound in a pointwise body")),
            }
        }
        self.many(&b.value, &scope)
    }

    fn many(&mut self, e: &Expr, scope: &Scope) -> Res<Vec<T>> {
        match &*e.node {
            Node::Tuple(items) => items.iter().map(|i| self.one(i, scope)).collect(),
            Node::If(c, a, b) => {
                let c = self.one(c, scope)?;
                if let Some(holds) = self.truth(c) {
                    return self.block(if holds { a } else { b }, scope);
                }
                let (a, b) = (self.block(a, scope)?, self.block(b, scope)?);
                Ok(a.into_iter().zip(b).map(|(a, b)| self.branch(c, a, b)).collect())
            }
            _ => Ok(vec![self.one(e, scope)?]),
        }
    }

    /// An expression as a term.
    pub fn one(&mut self, e: &Expr, scope: &Scope) -> Res<T> {
        Ok(match &*e.node {
            Node::Int(i) => self.add_op(Op::Const((*i as f64).into(), false)),
            Node::Float(x) => self.add_op(Op::Const((*x).into(), true)),
            Node::Name(n) => match scope.lets.iter().rev().find(|(l, _)| l == n) {
                Some((_, t)) => *t,
                None if scope.absent.contains(n) => {
                    return Err(NotDerivable::new(format!("`{n}` is not given")));
                }
                None => self.name(*n),
            },
            Node::Unary(UnOp::Neg, a) => {
                let a = self.one(a, scope)?;
                self.negate(a)
            }
            Node::Unary(UnOp::Not, a) => {
                let a = self.one(a, scope)?;
                self.not(a)
            }
            Node::Binary(op, a, b) => {
                let a = self.one(a, scope)?;
                // If the left side decides, the right side is not read: it may use an absent argument.
                if let (BinOp::And | BinOp::Or, Some(holds)) = (op, self.truth(a))
                    && holds == (*op == BinOp::Or)
                {
                    return Ok(a);
                }
                let b = self.one(b, scope)?;
                self.read_binary(*op, a, b, scope.derivative)
            }
            Node::Cast(a, elem) => {
                let a = self.one(a, scope)?;
                let text = Name::new(&elem.to_string());
                self.elems.insert(text, elem.clone());
                self.add_op(Op::Cast(a, text))
            }
            Node::If(c, a, b) => {
                let c = self.one(c, scope)?;
                if let Some(holds) = self.truth(c) {
                    return self.single(if holds { a } else { b }, scope);
                }
                let (a, b) = (self.single(a, scope)?, self.single(b, scope)?);
                self.branch(c, a, b)
            }
            Node::Match(on, arms) => match scope.words.iter().rev().find(|(n, _)| *n == on.name) {
                Some((_, word)) => {
                    let arm = arms.iter().find(|(w, _)| w.name == *word);
                    self.one(&arm.ok_or_else(|| NotDerivable::new(format!("no arm for `{word}`")))?.1, scope)?
                }
                None => {
                    let arms =
                        arms.iter().map(|(w, e)| Ok((w.name, self.one(e, scope)?))).collect::<Res<Vec<(Name, T)>>>()?;
                    self.choice(on.name, arms)
                }
            },
            Node::Call(f, _) if helpers::is(f.name, HelperFact::Atom) => self.atom(e),
            Node::Call(f, args) => self.call(f.name, args, scope)?,
            Node::Access(_) | Node::Reduce(_) => self.atom(e),
            Node::Str(_) => {
                let reason = format!("{e} is a text: let the option be an `enum`, whose words stand without quotes");
                return Err(NotDerivable::new(reason).at(e.span));
            }
            Node::Tuple(_) | Node::Zip(_) | Node::Spread(_) | Node::List(_) => {
                return Err(NotDerivable::new(format!("`{e}` is no scalar")).at(e.span));
            }
        })
    }

    fn single(&mut self, b: &Block, scope: &Scope) -> Res<T> {
        match self.block(b, scope)?.as_slice() {
            [t] => Ok(*t),
            _ => Err(NotDerivable::new("several values where one is needed")),
        }
    }

    /// Parses a text over these names, as that of a derivative.
    pub fn text(&mut self, text: &str, names: &[(&str, T)]) -> Res<T> {
        let e = crate::lang::parse_expr(text, crate::lang::Dialect::Index)
            .map_err(|e| NotDerivable::new(format!("a partial of the table does not parse: {e:?}")))?;
        let lets = names.iter().map(|(n, t)| (Name::new(n), *t)).collect();
        self.one(&e, &Scope { lets, derivative: true, ..Scope::default() })
    }

    fn read_binary(&mut self, op: BinOp, a: T, b: T, derivative: bool) -> T {
        if let Some(t) = self.fold_comparison(op, a, b) {
            return t;
        }
        match op {
            BinOp::And | BinOp::Or => self.logic(op, a, b),
            BinOp::Add if derivative => self.sum(&[(1.0, a), (1.0, b)]),
            BinOp::Sub if derivative => self.sum(&[(1.0, a), (-1.0, b)]),
            BinOp::Mul if derivative => self.product(&[a, b], &[]),
            BinOp::Div if derivative => self.product(&[a], &[b]),
            _ => self.add_op(Op::Bin(op, a, b)),
        }
    }

    /// A test that an inlined row makes of its own arguments: they are values, even where the call passed a number.
    fn asked(&mut self, f: Name, args: &[Arg], scope: &Scope) -> Option<T> {
        let [Arg { value, .. }] = args else { return None };
        let Node::Name(n) = &*value.node else { return None };
        match f.as_str() {
            _ if scope.absent.contains(n) => Some(self.bool(false)),
            "some" | "is_tensor" if scope.given.contains(n) => Some(self.bool(true)),
            "is_number" if scope.given.contains(n) => Some(self.bool(false)),
            _ => None,
        }
    }

    fn call(&mut self, f: Name, args: &[Arg], scope: &Scope) -> Res<T> {
        if helpers::is(f, HelperFact::Question)
            && let Some(known) = self.asked(f, args, scope)
        {
            return Ok(known);
        }
        let ts = args.iter().map(|a| self.one(&a.value, scope)).collect::<Res<Vec<T>>>()?;
        if helpers::is(f, HelperFact::Question) {
            if let (Some(wrt), [t]) = (self.wrt, ts.as_slice())
                && *self.op(*t) == Op::Name(wrt)
            {
                match f.as_str() {
                    "some" | "is_tensor" | "is_float" => return Ok(self.bool(true)),
                    _ => return Ok(self.bool(false)),
                }
            }
            if ts.iter().any(|t| !matches!(self.op(*t), Op::Name(_))) {
                return Err(NotDerivable::new(format!("`{f}` is asked of an expression")));
            }
            return Ok(self.add_op(Op::Call(f, ts)));
        }
        if f == "detach" || Builtin::from_name(f.as_str()).is_some() {
            return Ok(self.builtin(f, ts));
        }
        self.inline(f, ts, scope)
    }

    /// A call of a pointwise row: its body on these arguments.
    fn inline(&mut self, f: Name, args: Vec<T>, scope: &Scope) -> Res<T> {
        let row = self.rows.row(f).ok_or_else(|| NotDerivable::new(format!("`{f}` is neither a builtin nor a row")))?;
        let body = row.index_body().filter(|_| row.is_pointwise() && scope.depth < MAX_INLINE);
        let body = body.ok_or_else(|| NotDerivable::new(format!("`{f}` is not pointwise")))?;
        let mut inner = Scope { depth: scope.depth + 1, derivative: scope.derivative, ..Scope::default() };
        let names = row.sig.params.iter().map(|p| p.name.name).chain(row.sig.opts.iter().map(|o| o.name.name));
        inner.lets = names.zip(args.iter().copied()).collect();
        inner.given = inner.lets.iter().map(|(n, _)| *n).collect();
        inner.absent = row.sig.params.iter().skip(args.len()).map(|p| p.name.name).collect();
        for o in row.sig.opts.iter().skip(args.len().saturating_sub(row.sig.params.len())) {
            match o.default.as_ref().map(|d| (&*d.node, &o.ty)) {
                Some((Node::Name(word), OptType::Enum(_))) => inner.words.push((o.name.name, *word)),
                Some(_) => {
                    let default = o.default.clone().unwrap_or_else(|| make::int(0));
                    let t = self.one(&default, &Scope::default())?;
                    inner.lets.push((o.name.name, t));
                }
                None if o.optional => inner.absent.push(o.name.name),
                None => return Err(NotDerivable::new(format!("`{f}` needs its option `{}`", o.name.name))),
            }
        }
        match self.block(body, &inner)?.as_slice() {
            [t] => {
                let t = *t;
                for (cond, _) in &row.at {
                    let out = row.sig.outs.first().map_or(Name::new("out"), |o| o.name.name);
                    let cond_here = self.one(cond, &inner.clone().with(out, t))?;
                    if self.truth(cond_here) != Some(false) {
                        let reason = format!(
                            "`{f}` says in `at` what its gradient is where {cond}, which its body does not: call it in a `decomp`"
                        );
                        return Err(NotDerivable::new(reason));
                    }
                }
                Ok(t)
            }
            _ => Err(NotDerivable::new(format!("`{f}` has several results"))),
        }
    }
}
