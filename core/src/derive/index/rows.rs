//! The rows of a gradient, and the rule that calls them.
//!
//! Usually there is one row. Where options choose between forms and some forms need values computed once, each form is
//! a row of its own and the rule chooses, so that a form that is not taken computes nothing.

use super::assemble::{Candidate, Recipe};
use super::back;
use super::names::{self, Item};
use super::parts::Part;
use super::var::Pattern;
use super::work::Piece;
use crate::Name;
use crate::derive::pointwise::Fresh;
use crate::derive::{NotDerivable, make, walk};
use crate::lang::ast::*;
use crate::row::{Require, Row};
use crate::signature::const_eval::axis_number;
use rustc_hash::FxHashSet;

/// A gradient through one result, before its rows are built.
pub struct Gradient<'a> {
    pub row: &'a Row,
    /// The argument.
    pub arg: &'a Param,
    /// The result.
    pub out: &'a Out,
    /// The name of the derived row.
    pub name: String,
    /// The gradient's axes.
    pub items: &'a [Item],
    /// Values computed once.
    pub parts: &'a [Part],
    /// The name of the cotangent in rows, and in the rule.
    pub seed: (Name, Name),
    /// The result's axes.
    pub pattern: &'a Pattern,
    /// Results with their names in derived rows.
    pub names: &'a [(Name, &'a Out)],
    /// The meaning of the row.
    pub body: &'a Block,
}

impl Gradient<'_> {
    /// The rule: statements, then the value; adds the rows to `rows`.
    pub fn rule(&self, piece: Piece, fresh: &mut Fresh, rows: &mut Vec<Row>) -> Result<Block, NotDerivable> {
        if self.parts.is_empty() || matches!(piece, Piece::Value(_)) {
            return self.one(piece.expr(), &self.name, fresh, rows);
        }
        self.choose(piece, fresh, rows, &mut 0)
    }

    /// One row per form.
    fn choose(
        &self,
        piece: Piece,
        fresh: &mut Fresh,
        rows: &mut Vec<Row>,
        made: &mut usize,
    ) -> Result<Block, NotDerivable> {
        Ok(match piece {
            Piece::Value(None) => make::block(make::call("zeros", [make::name(self.arg.name.name)])),
            Piece::Value(Some(e)) => {
                *made += 1;
                self.one(e, &format!("{}.case{made}", self.name), fresh, rows)?
            }
            Piece::If(c, a, b) => {
                let (a, b) = (self.choose(*a, fresh, rows, made)?, self.choose(*b, fresh, rows, made)?);
                make::block(Expr::bare(Node::If(c, a, b)))
            }
            Piece::Match(on, arms) => {
                // Arms hold no statements, so the forms become a chain of `if`s; the last form needs no condition.
                let mut chain: Option<Block> = None;
                let mut blocks = Vec::new();
                for (word, p) in arms {
                    blocks.push((word, self.choose(p, fresh, rows, made)?));
                }
                for (word, block) in blocks.into_iter().rev() {
                    chain = Some(match chain {
                        None => block,
                        Some(rest) => {
                            let c = make::binary(BinOp::Eq, make::name(on.name), make::name(word.name));
                            make::block(Expr::bare(Node::If(c, block, rest)))
                        }
                    });
                }
                chain.ok_or_else(|| NotDerivable::new("a `match` without arms"))?
            }
        })
    }

    /// A row with this value, the rows of the parts that it reads, and the call.
    fn one(&self, value: Expr, name: &str, fresh: &mut Fresh, rows: &mut Vec<Row>) -> Result<Block, NotDerivable> {
        let (value, dims) = names::finish(self.items, value, self.arg.name.name, fresh)?;
        if self.is_identity(&value) {
            return Ok(make::block(make::name(self.seed.1)));
        }
        let mut stmts = Vec::new();
        for (i, part) in self.parts.iter().enumerate() {
            if !self.needs(&value, part.name) {
                continue;
            }
            let op = Name::new(&format!("{}.{}", self.name, part.name));
            let ty = tensor(part.elem.clone(), self.out.ty.dims.as_deref().unwrap_or_default(), None);
            let body = names::reductions(part.value.clone(), fresh);
            let recipe = Recipe { row: self.row, op, body, ty, candidates: self.candidates(i, false) };
            let (row, call) = recipe.build();
            if rows.iter().all(|r| r.op != op) {
                rows.push(row);
            }
            stmts.push(Stmt::Let(crate::lang::ast::Pattern::Name(make::ident(part.name)), call));
        }
        let list =
            self.arg.ty.list.as_ref().map(|_| ListLen::Expr(make::call("len", [make::name(self.arg.name.name)])));
        let elem = self.arg.ty.elem.first().cloned().unwrap_or(Elem::Var(Name::new("T")));
        let ty = tensor(elem, &dims, list);
        let candidates = self.candidates(self.parts.len(), true);
        let (mut row, value) = Recipe { row: self.row, op: Name::new(name), body: value, ty, candidates }.build();
        row.require.extend(self.counted(&row));
        row.vjp.extend(back::rule(self.row, self.body, self.arg.name.name, &row, self.seed.0));
        rows.push(row);
        Ok(Block { stmts, value })
    }

    /// The requirement that a list of cotangents has one for each result: a call of the derived row may give a list of
    /// another length, and the result would have as many items as the body has arguments.
    fn counted(&self, derived: &Row) -> Option<Require> {
        let Some(ListLen::Expr(length)) = &self.out.ty.list else { return None };
        let params = &derived.sig.params;
        if !params.iter().any(|p| p.name.name == self.seed.0 && p.ty.list.is_some()) {
            return None;
        }
        let mut known: FxHashSet<Name> = params.iter().map(|p| p.name.name).collect();
        known.extend(derived.sig.opts.iter().map(|o| o.name.name));
        params.iter().for_each(|p| walk::dim_names(p.ty.dims.as_deref().unwrap_or_default(), &mut known));
        let given = make::call("len", [make::name(self.seed.0)]);
        let counted = make::binary(BinOp::Eq, given, length.clone());
        let all = walk::names(length).iter().all(|name| known.contains(name));
        all.then(|| Require::new(counted, "each result needs one cotangent".to_owned()))
    }

    /// Whether `e` reads this part, directly or through other parts.
    fn needs(&self, e: &Expr, part: Name) -> bool {
        let names = walk::names(e);
        names.contains(&part) || self.parts.iter().any(|p| names.contains(&p.name) && self.needs(&p.value, part))
    }

    /// Whether the gradient is the cotangent itself.
    fn is_identity(&self, value: &Expr) -> bool {
        let bare = |dims: &Option<Vec<DimPat>>| -> Vec<DimKind> {
            dims.iter()
                .flatten()
                .map(|d| match &d.kind {
                    DimKind::One { name, size, .. } => DimKind::One { name: *name, size: size.clone(), at: None },
                    DimKind::List { name, axes, keep, .. } => {
                        DimKind::List { name: *name, axes: axes.clone(), keep: *keep, at: None }
                    }
                    other => other.clone(),
                })
                .collect()
        };
        let same = bare(&self.arg.ty.dims) == bare(&self.out.ty.dims) && self.arg.ty.elem == self.out.ty.elem;
        let cast = self.row.sig.opts.iter().any(|o| matches!(o.ty, OptType::Dtype(_)));
        same && !cast && self.out.ty.list.is_none() && *value == make::access(self.seed.0, self.pattern.places.clone())
    }

    /// The candidates for arguments of a derived row: arguments, results, earlier parts, the cotangent.
    fn candidates(&self, parts: usize, must: bool) -> Vec<Candidate> {
        let typed = |name: Name, ty: Type, arg: Name| Candidate {
            param: Param { access: Access::Read, name: make::ident(name), ty, optional: false },
            arg,
            must: false,
        };
        let mut all: Vec<Candidate> = Vec::new();
        for p in &self.row.sig.params {
            let own = p.name.name == self.arg.name.name;
            let param = Param { optional: p.optional && !own, ..p.clone() };
            all.push(Candidate { param, arg: p.name.name, must: must && own });
        }
        for (name, o) in self.names {
            if let Ok(mut p) = Pattern::of(o.ty.dims.as_deref().unwrap_or_default()) {
                anchor(&mut p.dims, self.row);
                let ty = Type { dims: Some(p.dims), span: Span::default(), ..o.ty.clone() };
                all.push(typed(*name, ty, o.name.name));
            }
        }
        let dims = &self.pattern.dims;
        all.extend(self.parts[..parts].iter().map(|p| typed(p.name, tensor(p.elem.clone(), dims, None), p.name)));
        let list = self.out.ty.list.as_ref().map(|_| ListLen::Any);
        all.push(typed(self.seed.0, tensor(self.cotangent_elem(), dims, list), self.seed.1));
        all
    }

    /// The element class of the cotangent: its own variable where an option chooses the result's dtype.
    fn cotangent_elem(&self) -> Elem {
        let elem = self.out.ty.elem.first().cloned().unwrap_or(Elem::Var(Name::new("T")));
        let chosen = |v: Name| self.row.sig.opts.iter().any(|o| o.ty == OptType::Dtype(v));
        match elem {
            Elem::Var(v) if chosen(v) => {
                let used = |n: &str| {
                    let has = |ty: &Type| ty.elem.contains(&Elem::Var(Name::new(n)));
                    self.row.sig.params.iter().any(|p| has(&p.ty)) || self.row.sig.outs.iter().any(|o| has(&o.ty))
                };
                Elem::Var(Name::new(["U", "V", "T"].into_iter().find(|n| !used(n)).unwrap_or("U")))
            }
            other => other,
        }
    }
}

fn tensor(elem: Elem, dims: &[DimPat], list: Option<ListLen>) -> Type {
    Type { elem: vec![elem], dims: Some(dims.to_vec()), list, span: Span::default() }
}

/// Carries options that name an axis of an argument over to the cotangent, where the lists around the axis match, so
/// that a call at rank 0 finds its imagined axis again.
pub fn anchor(dims: &mut [DimPat], row: &Row) {
    // `K@idx`, `..K@idx`: the argument determines how many axes a list has.
    for p in row.sig.params.iter().flat_map(|p| p.ty.dims.iter().flatten()) {
        let (anchored, at) = match &p.kind {
            DimKind::One { name: None, size, at: Some(at) } => (make::as_name(size), at),
            DimKind::List { name, axes: None, at: Some(at), .. } => (Some(name.name), at),
            _ => continue,
        };
        let is_list = row.sig.params.iter().any(|q| q.name.name == at.name && q.ty.list.is_some());
        for d in dims.iter_mut().filter(|_| is_list) {
            if matches!(&d.kind, DimKind::List { name, axes: None, .. } if anchored == Some(name.name)) {
                d.kind = p.kind.clone();
            }
        }
    }
    let list = |d: &DimPat| match &d.kind {
        DimKind::List { name, axes: None, .. } => Some(name.name),
        _ => None,
    };
    // A batch axis, which stands in front of both.
    let plain = |d: &DimPat| match &d.kind {
        DimKind::One { name: None, size, at: None } => make::as_name(size),
        _ => None,
    };
    for p in row.sig.params.iter().filter_map(|p| p.ty.dims.as_ref()) {
        let Some(at) = p.iter().position(|d| matches!(&d.kind, DimKind::One { at: Some(_), .. })) else { continue };
        let same = p.len() == dims.len()
            && p.iter().zip(dims.iter()).enumerate().all(|(i, (a, b))| {
                i == at || list(a).is_some() && list(a) == list(b) || plain(a).is_some() && plain(a) == plain(b)
            });
        let DimKind::One { at: Some(option), .. } = &p[at].kind else { continue };
        let is_dim = axis_number(option.name).is_some()
            || row.sig.opts.iter().any(|o| o.name.name == option.name && matches!(o.ty, OptType::Dim(_)));
        if same
            && is_dim
            && let DimKind::One { at: own @ None, .. } = &mut dims[at].kind
        {
            *own = Some(*option);
            return;
        }
    }
}
