//! Rules of pointwise rows.

use super::emit::Emit;
use super::linear::Along;
use super::term::{Op, Scope, T, Terms};
use super::{Derived, NotDerivable, Note, cotangent, differentiable, make};
use crate::builtins::Builtin;
use crate::lang::ast::*;
use crate::lower::Rows;
use crate::row::{Meaning, Row};
use crate::{Name, lang};
use rustc_hash::{FxHashMap, FxHashSet};

/// Rules for every argument that a gradient can flow to.
pub fn derive(row: &Row, body: &Block, rows: &dyn Rows) -> Derived {
    let mut out = Derived::default();
    for p in &row.sig.params {
        let arg = p.name.name;
        if !differentiable(&p.ty) {
            continue;
        }
        match (Pointwise { row, body, rows, arg }).rule(&mut out) {
            Ok(Some(rule)) => out.rules.push((arg, make::block(rule))),
            Ok(None) => out.notes.push(Note::Zero(arg, "the derivative is zero wherever it exists")),
            Err(why) => out.failed.push((arg, why)),
        }
    }
    out
}

struct Pointwise<'a> {
    row: &'a Row,
    body: &'a Block,
    rows: &'a dyn Rows,
    arg: Name,
}

impl Pointwise<'_> {
    /// The rule, or `None` if every derivative is zero.
    fn rule(&self, derived: &mut Derived) -> Result<Option<Expr>, NotDerivable> {
        let mut sum: Option<Expr> = None;
        let floats = self.row.sig.outs.iter().filter(|o| differentiable(&o.ty)).count();
        for (n, o) in self.row.sig.outs.iter().enumerate() {
            if !differentiable(&o.ty) {
                continue;
            }
            let Some(term) = self.term(n, floats, derived)? else { continue };
            let g = cotangent(self.row, o.name.name);
            // Of several results, an unused one has no cotangent.
            let term =
                if floats > 1 { make::branch(make::call("some", [make::name(g)]), term, make::name(g)) } else { term };
            sum = Some(match sum {
                None => term,
                Some(s) => make::binary(BinOp::Add, s, term),
            });
        }
        Ok(sum)
    }

    /// The contribution of result `n` to the argument's gradient.
    fn term(&self, n: usize, floats: usize, derived: &mut Derived) -> Result<Option<Expr>, NotDerivable> {
        let row = self.row;
        let tensors: Vec<Name> = row.sig.params.iter().map(|p| p.name.name).collect();
        let mut names = Fresh::of(row);
        let out_name = row.sig.outs[n].name.name;
        let seed_name = names.fresh(&[&format!("d_{out_name}")]);
        let result_name = if out_name == "out" { names.fresh(&["y", "result"]) } else { out_name };

        let mut terms = Terms::new(self.rows, tensors, Some(self.arg));
        let values = terms.block(self.body, &Scope::default())?;
        let Some(&value) = values.get(n) else { return Err(NotDerivable::new("fewer values than results")) };
        let (seed, wrt) = (terms.name(seed_name), terms.name(self.arg));
        let zero = terms.num(0.0);
        let mut along = Along { terms: &mut terms, known: FxHashMap::from_iter([(wrt, seed)]) };
        // For one builtin on the arguments themselves, the partial may use the result.
        if is_call_of_names(along.terms, value) {
            along.known.insert(value, zero);
            let result = along.terms.name(result_name);
            let d = one_step(&mut along, value, result)?;
            along.known.insert(value, d);
        }
        let mut d = along.of(value)?;
        for (cond, partials) in &row.at {
            let Some((_, partial)) = partials.iter().find(|(a, _)| *a == self.arg) else { continue };
            let scope = Scope::default().with(out_name, value);
            let (mut c, p) = (terms.one(cond, &scope)?, terms.one(partial, &scope)?);
            // The tensors that the condition compares must be present.
            let names = terms.names(c);
            for o in self.row.sig.params.iter().filter(|p| p.optional && names.contains(p.name.name.as_str())) {
                let o = terms.name(o.name.name);
                let given = terms.add_op(Op::Call(Name::new("some"), vec![o]));
                c = terms.logic(BinOp::And, given, c);
            }
            let chosen = terms.product(&[seed, p], &[]);
            d = terms.branch(c, chosen, d);
        }
        if terms.is_zero(d) {
            return Ok(None);
        }
        derived.notes.extend(terms.fired.iter().map(|r| Note::Rule(self.arg, r)));
        let g = cotangent(row, out_name);
        let like = make::name(self.arg);
        let own = Spelling { terms: &terms, rows: self.rows, seed, g, result: (result_name, out_name) };
        let e = match own.spell(d) {
            Some(e) => e,
            None => {
                let suffix = if floats > 1 { format!(".{out_name}") } else { String::new() };
                let name = Name::new(&format!("{}.vjp.{}{suffix}", row.op, self.arg));
                let (made, call) = self.derived_row(name, &terms, d, &row.sig.outs[n], seed_name, result_name, g);
                derived.rows.push(made);
                call
            }
        };
        let e = self.cast(e, &row.sig.outs[n]);
        Ok(Some(make::call("unbroadcast", [e, like])))
    }

    /// `e` cast to the dtype of the argument, where that has a variable of its own.
    fn cast(&self, e: Expr, out: &Out) -> Expr {
        let param = self.row.sig.params.iter().find(|p| p.name.name == self.arg);
        match param.map(|p| p.ty.elem.as_slice()) {
            Some([Elem::Var(v)]) if !out.ty.elem.contains(&Elem::Var(*v)) => Expr::bare(Node::Cast(e, Elem::Var(*v))),
            _ => e,
        }
    }

    /// A pointwise row with value `d`, and the call of it.
    #[allow(clippy::too_many_arguments)]
    fn derived_row(
        &self,
        op: Name,
        terms: &Terms<'_>,
        d: T,
        out: &Out,
        seed: Name,
        result: Name,
        g: Name,
    ) -> (Row, Expr) {
        let sig = &self.row.sig;
        let used = terms.names(d);
        let mut params: Vec<Param> = Vec::new();
        let mut args: Vec<Arg> = Vec::new();
        let arg = |value: Name| Arg { name: None, value: make::name(value) };
        for p in sig.params.iter().filter(|p| used.contains(p.name.name.as_str())) {
            let optional = p.optional && p.name.name != self.arg;
            params.push(Param { access: Access::Read, optional, ..p.clone() });
            args.push(arg(p.name.name));
        }
        let typed = |name: Name, ty: &Type| Param {
            access: Access::Read,
            name: make::ident(name),
            ty: Type { span: Span::default(), ..ty.clone() },
            optional: false,
        };
        if used.contains(result.as_str()) {
            params.push(typed(result, &out.ty));
            args.push(arg(out.name.name));
        }
        params.push(typed(seed, &out.ty));
        args.push(arg(g));
        let mut opts = Vec::new();
        for o in sig.opts.iter().filter(|o| used.contains(o.name.name.as_str())) {
            opts.push(o.clone());
            args.push(Arg { name: Some(make::ident(o.name.name)), value: make::name(o.name.name) });
        }
        let elem = sig.params.iter().find(|p| p.name.name == self.arg).map(|p| p.ty.elem.clone()).unwrap_or_default();
        let ty = Type { elem: elem.into_iter().take(1).collect(), dims: None, list: None, span: Span::default() };
        let taken: FxHashSet<Name> =
            params.iter().map(|p| p.name.name).chain(opts.iter().map(|o| o.name.name)).collect();
        let optional = params.iter().filter(|p| p.optional).map(|p| p.name.name);
        let optional = optional.chain(opts.iter().filter(|o| o.optional).map(|o| o.name.name)).collect();
        let body = Emit { terms, taken: taken.clone(), optional }.block(d);
        let outs = vec![Out { name: make::ident(Name::new("out")), ty }];
        let row = Row {
            promote: Some(Expr::name("default")),
            dtypes: Some(Expr::name("float")),
            // A requirement on absent arguments is dropped.
            require: self
                .row
                .require
                .iter()
                .filter(|r| super::walk::names(&r.cond).is_subset(&taken))
                .cloned()
                .collect(),
            ..Row::new(op, Sig { params, opts, outs, aux: Vec::new(), named_outs: false }, Meaning::Expr(body))
        };
        (row, Expr::bare(Node::Call(make::ident(op), args)))
    }
}

/// Whether a term is a builtin (or operator) on names and literals.
fn is_call_of_names(terms: &Terms<'_>, t: T) -> bool {
    let args = match terms.op(t) {
        Op::Bin(..) => terms.children(t),
        Op::Call(f, args) if Builtin::from_name(f.as_str()).is_some() => args.clone(),
        _ => return false,
    };
    args.into_iter().all(|a| matches!(terms.op(a), Op::Name(_) | Op::Const(..)))
}

/// The derivative of one builtin call, with `result` in place of its value.
fn one_step(along: &mut Along<'_, '_>, t: T, result: T) -> Result<T, NotDerivable> {
    let (b, args) = match along.terms.op(t).clone() {
        Op::Call(f, args) => (Builtin::from_name(f.as_str()), args),
        Op::Bin(op, a, b) => (Some(op.builtin()).filter(|_| op.is_arithmetic()), vec![a, b]),
        _ => (None, Vec::new()),
    };
    match b {
        Some(b) => along.chain(b, result, &args),
        None => Ok(along.terms.num(0.0)),
    }
}

/// Spells a derivative as calls of existing rows.
struct Spelling<'a, 'r> {
    terms: &'a Terms<'r>,
    rows: &'a dyn Rows,
    seed: T,
    g: Name,
    /// The result's name in a derived row, and in a rule.
    result: (Name, Name),
}

impl Spelling<'_, '_> {
    fn spell(&self, d: T) -> Option<Expr> {
        let g = make::name(self.g);
        match self.terms.op(d) {
            _ if d == self.seed => Some(g),
            Op::Neg(a) if *a == self.seed => Some(Expr::bare(Node::Unary(UnOp::Neg, g))),
            Op::Prod(c, nums, dens) => {
                let c = c.value();
                let seeds = nums.iter().filter(|t| **t == self.seed).count();
                let others: Vec<T> = nums.iter().copied().filter(|t| *t != self.seed).collect();
                let signed = if c < 0.0 { Expr::bare(Node::Unary(UnOp::Neg, g.clone())) } else { g };
                match (seeds, others.as_slice(), dens.as_slice()) {
                    (1, [], []) if c == -1.0 => Some(signed),
                    (1, [], []) => Some(make::binary(BinOp::Mul, make::name(self.g), signed_number(c))),
                    (1, [f], []) if c.abs() == 1.0 => Some(make::binary(BinOp::Mul, signed, self.factor(*f)?)),
                    (1, [], [f]) if c.abs() == 1.0 => Some(make::binary(BinOp::Div, signed, self.factor(*f)?)),
                    _ => None,
                }
            }
            Op::If(c, a, b) => {
                let Op::Name(cond) = self.terms.op(*c) else { return None };
                self.rows.row(Name::new("where")).filter(|r| r.sig.params.len() == 3)?;
                let side = |t: T| match t {
                    t if t == self.seed => Some(g.clone()),
                    t if self.terms.is_zero(t) => Some(make::int(0)),
                    _ => None,
                };
                Some(make::call("where", [make::name(*cond), side(*a)?, side(*b)?]))
            }
            _ => None,
        }
    }

    /// A factor: an argument, an option, or the result. A call of a row on arguments is not a factor, because two lines
    /// round twice in half precision, where a derived row rounds once.
    fn factor(&self, t: T) -> Option<Expr> {
        match self.terms.op(t) {
            Op::Name(n) if *n == self.result.0 => Some(make::name(self.result.1)),
            Op::Name(n) => Some(make::name(*n)),
            _ => None,
        }
    }
}

fn signed_number(c: f64) -> Expr {
    let size = make::number(c.abs(), true);
    if c < 0.0 { Expr::bare(Node::Unary(UnOp::Neg, size)) } else { size }
}

/// Names that a row does not use.
pub struct Fresh {
    taken: FxHashSet<Name>,
}

impl Fresh {
    /// Starts from all names that the row mentions.
    pub fn of(row: &Row) -> Fresh {
        let mut taken = FxHashSet::default();
        for p in &row.sig.params {
            taken.insert(p.name.name);
            super::walk::dim_names(p.ty.dims.as_deref().unwrap_or_default(), &mut taken);
        }
        for o in row.sig.outs.iter().chain(&row.sig.aux) {
            taken.insert(o.name.name);
            super::walk::dim_names(o.ty.dims.as_deref().unwrap_or_default(), &mut taken);
        }
        taken.extend(row.sig.opts.iter().map(|o| o.name.name));
        if let Some(b) = row.index_body() {
            taken.extend(super::walk::block_names(b));
        }
        let sizes: Vec<Name> = taken.iter().copied().filter(|n| n.is_size()).collect();
        taken.extend(sizes.into_iter().map(Name::index_of_size));
        Fresh { taken }
    }

    /// Whether the row mentions `name`.
    pub fn is_taken(&self, name: Name) -> bool {
        self.taken.contains(&name) || lang::ast::Red::from_word(name.as_str()).is_some()
    }

    /// The first of `wishes` that is free, or the first one with a number.
    pub fn fresh(&mut self, wishes: &[&str]) -> Name {
        let plain = wishes.iter().map(|w| Name::new(w));
        let numbered = (2..).map(|i| Name::new(&format!("{}{i}", wishes.first().copied().unwrap_or("t"))));
        let name = plain.chain(numbered).find(|n| !self.is_taken(*n)).unwrap_or(Name::new("t"));
        self.taken.insert(name);
        name
    }

    /// The first free name among `prefix1`, `prefix2` and so on.
    pub fn numbered(&mut self, prefix: &str) -> Name {
        let mut names = (1..).map(|i| Name::new(&format!("{prefix}{i}")));
        let name = names.find(|n| !self.is_taken(*n)).unwrap_or(Name::new(prefix));
        self.taken.insert(name);
        name
    }
}
