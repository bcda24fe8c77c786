//! Linearise: a body as a sum of reads of one argument, each with its variables, conditions and cofactor.
//!
//! The body is a term over *atoms*: reads, reductions, `let`s. Its derivative is the sum over the atoms that depend on
//! the argument of (partial derivative) × (derivative of the atom); the derivative of a reduction is found inside it.

use super::subst::{self, Sub};
use super::var::{Kind, Var};
use crate::Name;
use crate::derive::linear::Along;
use crate::derive::term::{Op, Scope, T, Terms};
use crate::derive::{NotDerivable, make, walk};
use crate::lang::ast::*;
use crate::row::Ties;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// One read, with its cofactor and conditions.
#[derive(Clone, Debug)]
pub struct Term {
    /// Variables of the enclosing reductions, outermost first.
    pub vars: Vec<Var>,
    /// Conditions under which the read contributes.
    pub conds: Vec<Expr>,
    /// The value that is read.
    pub leaf: Leaf,
    /// The cofactor.
    pub cof: T,
}

/// A value that depends on the argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Leaf {
    /// The argument.
    Read(TensorAccess),
    /// A `let` that depends on the argument.
    Let(Name),
}

/// Reads terms of one row and argument.
pub struct Reader<'t, 'r> {
    /// The arena.
    pub terms: &'t mut Terms<'r>,
    /// The argument.
    pub arg: Name,
    /// The tie rule of maxima: the elements that share their gradient.
    pub ties: Ties,
    /// `let`s that hold reductions.
    pub lets: Vec<(Name, Expr)>,
    /// Sizes that are lists although their pattern looks like one axis (`K@idx`).
    pub lists: Vec<Name>,
    /// Whether a name is a size of the row; an index whose size is not one counts the items of a list.
    pub is_size: &'t dyn Fn(Name) -> bool,
    /// Whether an option of this name is one axis.
    pub is_axis: &'t dyn Fn(Name) -> bool,
    /// Number of names made up to now.
    pub made: usize,
}

type Res<X> = Result<X, NotDerivable>;

impl Reader<'_, '_> {
    /// Whether `e` depends on the argument.
    pub fn depends(&self, e: &Expr) -> bool {
        let names = walk::names(e);
        names.contains(&self.arg) || self.lets.iter().any(|(n, d)| names.contains(n) && self.depends_let(*n, d))
    }

    fn depends_let(&self, name: Name, def: &Expr) -> bool {
        let names = walk::names(def);
        names.contains(&self.arg)
            || self
                .lets
                .iter()
                .take_while(|(n, _)| *n != name)
                .any(|(n, d)| names.contains(n) && self.depends_let(*n, d))
    }

    /// A fresh name; final names are chosen at the end.
    pub fn placeholder(&mut self, like: Name) -> Name {
        self.made += 1;
        Name::new(&format!("{like}#{}", self.made))
    }

    /// The derivative of `e`; `scope` holds the variables that are bound around it.
    pub fn linear(&mut self, e: &Expr, scope: &[Var]) -> Res<Vec<Term>> {
        let t = self.terms.one(e, &Scope::default())?;
        let atoms = self.atoms(t);
        let (zero, one) = (self.terms.num(0.0), self.terms.num(1.0));
        let mut out = Vec::new();
        for &atom in &atoms {
            let mut known: FxHashMap<T, T> = atoms.iter().map(|a| (*a, zero)).collect();
            known.insert(atom, one);
            let c = Along { terms: self.terms, known }.of(t)?;
            for (conds, cof) in self.cases(c) {
                for mut term in self.atom(atom, scope)? {
                    term.conds.splice(0..0, conds.iter().cloned());
                    term.cof = self.terms.product(&[cof, term.cof], &[]);
                    if !self.terms.is_zero(term.cof) {
                        out.push(term);
                    }
                }
            }
        }
        Ok(out)
    }

    /// The atoms of `t` that depend on the argument.
    fn atoms(&self, t: T) -> BTreeSet<T> {
        let (mut seen, mut open, mut out) = (BTreeSet::new(), vec![t], BTreeSet::new());
        while let Some(t) = open.pop() {
            if !seen.insert(t) {
                continue;
            }
            let found = match self.terms.op(t) {
                Op::Atom(text) => self.depends(&self.terms.atom_expr(*text)),
                Op::Name(n) => *n == self.arg || self.lets.iter().any(|(l, d)| l == n && self.depends_let(*n, d)),
                _ => false,
            };
            if found {
                out.insert(t);
            }
            open.extend(self.terms.children(t));
        }
        out
    }

    /// The nonzero branches of a coefficient, with the conditions under which they hold.
    fn cases(&mut self, c: T) -> Vec<(Vec<Expr>, T)> {
        match self.terms.op(c).clone() {
            _ if self.terms.is_zero(c) => Vec::new(),
            Op::If(cond, a, b) if self.terms.is_zero(a) || self.terms.is_zero(b) => {
                let (side, holds) = if self.terms.is_zero(b) { (a, true) } else { (b, false) };
                let cond = self.terms.written(cond);
                let cond = if holds { cond } else { make::not(cond) };
                self.guarded(cond, side)
            }
            Op::Match(on, arms) if arms.iter().any(|(_, side)| self.terms.is_zero(*side)) => arms
                .into_iter()
                .flat_map(|(word, side)| {
                    let cond = make::binary(BinOp::Eq, make::name(on), make::name(word));
                    self.guarded(cond, side)
                })
                .collect(),
            _ => vec![(Vec::new(), c)],
        }
    }

    fn guarded(&mut self, cond: Expr, side: T) -> Vec<(Vec<Expr>, T)> {
        let mut cases = self.cases(side);
        cases.iter_mut().for_each(|(conds, _)| conds.insert(0, cond.clone()));
        cases
    }

    fn atom(&mut self, atom: T, scope: &[Var]) -> Res<Vec<Term>> {
        let one = self.terms.num(1.0);
        let read = |leaf| vec![Term { vars: Vec::new(), conds: Vec::new(), leaf, cof: one }];
        match self.terms.op(atom).clone() {
            Op::Name(n) if n == self.arg => Ok(read(Leaf::Read(TensorAccess {
                base: make::ident(n),
                places: Vec::new(),
                outside: Outside::Refuse,
                item: None,
            }))),
            Op::Name(n) => Ok(read(Leaf::Let(n))),
            Op::Atom(text) => {
                let e = self.terms.atom_expr(text);
                match &*e.node {
                    Node::Access(a) if a.base.name == self.arg => {
                        if matches!(&a.outside, Outside::Value(v) if self.depends(v)) {
                            return Err(NotDerivable::new("what stands for elements outside depends on the argument")
                                .at(e.span));
                        }
                        Ok(read(Leaf::Read(a.clone())))
                    }
                    Node::Access(a) if matches!(&a.outside, Outside::Value(v) if self.depends(v)) => {
                        let why = format!("what stands for elements outside `{}` depends on the argument", a.base.name);
                        Err(NotDerivable::new(why).at(e.span))
                    }
                    Node::Reduce(r) => self.reduce(&e, r, scope),
                    // An index or a random number has no derivative.
                    _ => Ok(Vec::new()),
                }
            }
            _ => Ok(Vec::new()),
        }
    }

    fn reduce(&mut self, whole: &Expr, r: &Reduce, scope: &[Var]) -> Res<Vec<Term>> {
        if matches!(r.red, Red::Any | Red::All | Red::ArgMax | Red::ArgMin) {
            return Ok(Vec::new());
        }
        let Some(binds) = &r.binds else {
            return Err(NotDerivable::new(format!("`{}[..]` over the axes of an element", r.red.word())).at(whole.span));
        };
        let (vars, filter, body) = self.open(binds, r, scope)?;
        let inner: Vec<Var> = scope.iter().chain(&vars).cloned().collect();
        let mut out = match r.red {
            Red::Sum => self.linear(&body, &inner)?,
            Red::Only => self.linear(&body, &inner)?,
            Red::Mean => {
                if leaves_out(&body) {
                    let what = "how many elements a mean with `else skip` is over has no form: divide a sum by it";
                    return Err(NotDerivable::new(what).at(r.span));
                }
                let count = self.count(&vars, filter.as_ref())?;
                let count = self.terms.one(&count, &Scope::default())?;
                let mut terms = self.linear(&body, &inner)?;
                for t in &mut terms {
                    t.cof = self.terms.product(&[t.cof], &[count]);
                }
                terms
            }
            Red::Max | Red::Min => self.extremum(whole, r.red, &vars, filter.as_ref(), &body, &inner)?,
            Red::Prod => {
                let others = self.others(&vars, filter.as_ref(), &body)?;
                let others = self.terms.one(&others, &Scope::default())?;
                let mut terms = self.linear(&body, &inner)?;
                for t in &mut terms {
                    t.cof = self.terms.product(&[t.cof, others], &[]);
                }
                terms
            }
            Red::First | Red::Last => {
                let chosen = self.chosen(r.red, &vars, filter.as_ref())?;
                let mut terms = self.linear(&body, &inner)?;
                terms.iter_mut().for_each(|t| t.conds.insert(0, chosen.clone()));
                terms
            }
            Red::Any | Red::All | Red::ArgMax | Red::ArgMin => Vec::new(),
        };
        for t in &mut out {
            t.vars.splice(0..0, vars.iter().cloned());
            if let Some(c) = &filter {
                t.conds.insert(0, c.clone());
            }
        }
        if let Some(other) = r.otherwise.as_ref().filter(|o| self.depends(o)) {
            let binds = r.binds.clone().unwrap_or_default();
            let none = make::not(make::reduce(Red::Any, binds, r.filter.clone(), Expr::name("true")));
            for mut t in self.linear(other, scope)? {
                t.conds.insert(0, none.clone());
                out.push(t);
            }
        }
        Ok(out)
    }

    /// The variables of a reduction, its filter and body, renamed apart from all enclosing variables.
    fn open(&mut self, binds: &[Bind], r: &Reduce, scope: &[Var]) -> Res<(Vec<Var>, Option<Expr>, Expr)> {
        let taken = |n: Name| scope.iter().any(|v| v.name == n);
        let mut made = self.made;
        let mut fresh = |old: Name| {
            made += 1;
            Name::new(&format!("{old}#{made}"))
        };
        let renamed = subst::rename_binds(binds, &taken, &mut fresh);
        self.made = made;
        let (mut filter, mut body) = (r.filter.clone(), r.body.clone());
        let mut vars = Vec::new();
        for (mut var, old) in renamed {
            if self.counts_items(&var) {
                var.kind = Kind::Item;
            }
            if let Kind::Part(axes) = &var.kind {
                let clash = scope
                    .iter()
                    .any(|v| v.name == var.name && !matches!(&v.kind, Kind::Part(a) if make::complementary(a, axes)));
                if clash {
                    let what = format!("`{}` is bound inside and around this reduction", var.name);
                    return Err(NotDerivable::new(what).at(r.span));
                }
            }
            if let Some(old) = old {
                let before = Var { name: old, ..var.clone() };
                filter = filter.map(|c| subst::expr(&c, &before, &Sub::Rename(var.name))).transpose()?;
                body = subst::expr(&body, &before, &Sub::Rename(var.name))?;
            }
            vars.push(var);
        }
        Ok((vars, filter, body))
    }

    /// Whether a variable runs over the items of a list.
    fn counts_items(&self, v: &Var) -> bool {
        let size = v.name.size_of_index();
        matches!(&v.kind, Kind::One(_, hi) if make::as_name(hi) == Some(size)) && !(self.is_size)(size)
    }

    /// The number of elements that a mean averages.
    fn count(&mut self, vars: &[Var], filter: Option<&Expr>) -> Res<Expr> {
        if let Some(c) = filter {
            let binds = vars.iter().map(Var::bind).collect();
            return Ok(make::reduce(Red::Sum, binds, Some(c.clone()), make::int(1)));
        }
        let mut count: Option<Expr> = None;
        for v in vars {
            let n = match &v.kind {
                Kind::One(lo, hi) => make::sub(hi.clone(), lo.clone()),
                Kind::List(lo, hi) if make::as_int(lo) == Some(0) && make::as_name(hi).is_some() => {
                    make::call("size", [hi.clone()])
                }
                Kind::List(lo, hi) => make::over_axes(Red::Prod, make::sub(hi.clone(), lo.clone())),
                Kind::Part(Axes { not: false, kind: AxesKind::Name(n), .. }) => {
                    let chosen = make::access(v.name.size_of_index(), vec![Place::One(make::name(n.name))]);
                    make::call("size", [chosen])
                }
                _ => return Err(NotDerivable::new("the number of elements of this mean has no form")),
            };
            count = Some(match count {
                None => n,
                Some(c) => make::binary(BinOp::Mul, c, n),
            });
        }
        Ok(count.unwrap_or_else(|| make::int(1)))
    }

    fn extremum(
        &mut self,
        whole: &Expr,
        red: Red,
        vars: &[Var],
        filter: Option<&Expr>,
        body: &Expr,
        inner: &[Var],
    ) -> Res<Vec<Term>> {
        let mut terms = self.linear(body, inner)?;
        if terms.is_empty() {
            return Ok(terms);
        }
        let binds: Vec<Bind> = vars.iter().map(Var::bind).collect();
        match self.ties {
            Ties::Even => {
                let hit = make::binary(BinOp::Eq, body.clone(), whole.clone());
                let one = make::branch(hit.clone(), make::int(1), make::int(0));
                let count = make::reduce(Red::Sum, binds, filter.cloned(), one);
                let (count, hit) =
                    (self.terms.one(&count, &Scope::default())?, self.terms.one(&hit, &Scope::default())?);
                let top = self.terms.one(whole, &Scope::default())?;
                let is_nan = self.terms.builtin(Name::new("isnan"), vec![top]);
                let (nan, zero) = (self.terms.num(f64::NAN), self.terms.num(0.0));
                let share = self.terms.product(&[], &[count]);
                // One NaN makes every share NaN.
                let lost = self.terms.branch(is_nan, nan, zero);
                let share = self.terms.branch(hit, share, lost);
                for t in &mut terms {
                    t.cof = self.terms.product(&[t.cof, share], &[]);
                }
            }
            Ties::First => {
                let arg = if red == Red::Max { Red::ArgMax } else { Red::ArgMin };
                let at = make::reduce(arg, binds, filter.cloned(), body.clone());
                let here = make::binary(BinOp::Eq, self.position(vars)?, make::call("ravel", [at]));
                terms.iter_mut().for_each(|t| t.conds.insert(0, here.clone()));
            }
            Ties::Last => {
                let hit = make::binary(BinOp::Eq, body.clone(), whole.clone());
                let hit = make::all(filter.cloned().into_iter().chain([hit]));
                let here = self.chosen(Red::Last, vars, hit.as_ref())?;
                terms.iter_mut().for_each(|t| t.conds.insert(0, here.clone()));
            }
        }
        Ok(terms)
    }

    /// The flat position of these variables among all that a reduction runs through.
    fn position(&self, vars: &[Var]) -> Res<Expr> {
        let mut flat: Option<Expr> = None;
        for v in vars {
            let (at, size) = match &v.kind {
                Kind::One(lo, hi) => (make::sub(make::name(v.name), lo.clone()), make::sub(hi.clone(), lo.clone())),
                Kind::List(lo, hi) if make::as_int(lo) == Some(0) => {
                    let size =
                        if make::as_name(hi).is_some() { make::call("size", [hi.clone()]) } else { make::int(0) };
                    (make::call("ravel", [make::name(v.name), hi.clone()]), size)
                }
                Kind::Part(Axes { not: false, kind: AxesKind::Name(n), .. }) if (self.is_axis)(n.name) => {
                    let place = vec![Place::One(make::name(n.name))];
                    (make::access(v.name, place.clone()), make::access(v.name.size_of_index(), place))
                }
                _ => {
                    return Err(NotDerivable::new(
                        "the position of an element among these axes has no form, so none is the first or last: say `ties: even`",
                    ));
                }
            };
            flat = Some(match flat {
                None => at,
                Some(f) => make::add(make::binary(BinOp::Mul, f, size), at),
            });
        }
        Ok(flat.unwrap_or_else(|| make::int(0)))
    }

    /// The condition that these variables are the first (or last) that pass the filter.
    fn chosen(&mut self, red: Red, vars: &[Var], filter: Option<&Expr>) -> Res<Expr> {
        if vars.iter().any(|v| matches!(v.kind, Kind::Part(_))) {
            return Err(NotDerivable::new("the first or last of some axes of a list has no form"));
        }
        let here = self.position(vars)?;
        let (copies, cond) = self.copy(vars, filter.cloned())?;
        let there = self.position(&copies)?;
        let binds = copies.iter().map(Var::bind).collect();
        Ok(make::binary(BinOp::Eq, here, make::reduce(red, binds, cond, there)))
    }

    /// The product of all other elements.
    fn others(&mut self, vars: &[Var], filter: Option<&Expr>, body: &Expr) -> Res<Expr> {
        let (copies, body_and_cond) = {
            let pair = Expr::bare(Node::Tuple(filter.cloned().into_iter().chain([body.clone()]).collect()));
            self.copy(vars, Some(pair))?
        };
        let Some(Node::Tuple(mut items)) = body_and_cond.map(Expr::into_node) else {
            return Err(NotDerivable::new("a product without body"));
        };
        let body = items.pop().unwrap_or_else(|| make::int(1));
        let mut conds = items;
        let mut differs: Option<Expr> = None;
        for (v, c) in vars.iter().zip(&copies) {
            let ne = make::binary(BinOp::Ne, make::name(c.name), make::name(v.name));
            let ne = if v.is_list() { make::over_axes(Red::Any, ne) } else { ne };
            if let Kind::Part(axes) = &v.kind {
                conds.push(agrees(axes, c.name, v.name)?);
            }
            differs = Some(match differs {
                None => ne,
                Some(d) => make::binary(BinOp::Or, d, ne),
            });
        }
        conds.extend(differs);
        let binds = copies.iter().map(Var::bind).collect();
        Ok(make::reduce(Red::Prod, binds, make::all(conds), body))
    }

    /// A renamed copy of the variables, and `e` in terms of it. Chosen axes become the whole list; the caller adds the
    /// condition that the other axes agree.
    fn copy(&mut self, vars: &[Var], mut e: Option<Expr>) -> Res<(Vec<Var>, Option<Expr>)> {
        let mut copies = Vec::new();
        for v in vars {
            let name = self.placeholder(v.name);
            let size = make::name(v.name.size_of_index());
            let (lo, hi) = match &v.kind {
                Kind::One(lo, hi) | Kind::List(lo, hi) => (lo.clone(), hi.clone()),
                _ => (make::int(0), size),
            };
            let kind = if v.kind == Kind::Item {
                Kind::Item
            } else if v.is_list() {
                Kind::List(lo, hi)
            } else {
                Kind::One(lo, hi)
            };
            let from = Var { name: v.name, kind: kind.clone() };
            e = e.map(|e| subst::expr(&e, &from, &Sub::Rename(name))).transpose()?;
            copies.push(Var { name, kind });
        }
        Ok((copies, e))
    }
}

/// The condition that a copy of a list agrees with the original on the axes that are not chosen.
fn agrees(axes: &Axes, copy: Name, original: Name) -> Res<Expr> {
    let Axes { not: false, kind: AxesKind::Name(n), .. } = axes else {
        return Err(NotDerivable::new("a product over axes that no option names"));
    };
    let same = make::binary(BinOp::Eq, make::name(copy), make::name(original));
    let member = make::call("member", [make::name(n.name)]);
    Ok(make::over_axes(Red::All, make::binary(BinOp::Or, member, same)))
}

/// Whether the reduction with this body can skip elements.
fn leaves_out(body: &Expr) -> bool {
    let mut found = false;
    walk::visit(body, &mut |e| {
        found |= matches!(&*e.node, Node::Access(a) if a.outside == Outside::Skip);
        // An inner reduction skips elements of its own.
        !found && !matches!(&*e.node, Node::Reduce(_))
    });
    found
}
