//! Gradient rules of index rows: linearise ([`read`]), equate places with the gradient's axes ([`equate`]), solve
//! ([`solve`]), hoist values that are needed once per result ([`parts`]), and make rows of the outcome ([`rows`]).

mod assemble;
mod back;
mod equate;
mod lets;
mod names;
mod parts;
mod read;
mod rows;
mod solve;
mod subst;
mod var;
mod work;

use super::pointwise::Fresh;
use super::term::Terms;
use super::{Derived, NotDerivable, Note, cotangent, differentiable, make, walk};
use std::sync::Arc;

use crate::Name;
use crate::lang::ast::*;
use crate::lower::Rows;
use crate::row::Row;
use equate::Target;
use lets::Opened;
use parts::Hoist;
use read::Reader;
use rows::Gradient;
use rustc_hash::FxHashSet;
use solve::Known;
use var::{Kind, Pattern, Var};
use work::Work;

type Res<X> = Result<X, NotDerivable>;

/// Rules for every argument that a gradient can flow to.
pub fn derive(row: &Row, body: &Block, rows: &dyn Rows) -> Derived {
    let mut out = Derived::default();
    for p in row.sig.params.iter().filter(|p| differentiable(&p.ty)) {
        let arg = p.name.name;
        let one = Index { row, body, rows, arg: p };
        match one.rule(&mut out) {
            Ok(Some(rule)) => out.rules.push((arg, rule)),
            Ok(None) => out.notes.push(Note::Zero(arg, "no element of it reaches a result by a derivative")),
            Err(why) => out.failed.push((arg, why)),
        }
    }
    out
}

struct Index<'a> {
    row: &'a Row,
    body: &'a Block,
    rows: &'a dyn Rows,
    arg: &'a Param,
}

impl Index<'_> {
    fn rule(&self, derived: &mut Derived) -> Res<Option<Block>> {
        let outs = &self.row.sig.outs;
        let floats: Vec<usize> = (0..outs.len()).filter(|n| differentiable(&outs[*n].ty)).collect();
        let several = floats.len() > 1;
        let mut all: Option<Block> = None;
        for &n in &floats {
            let Some(one) = self.result(n, several, derived)? else { continue };
            // A result that is not used has no cotangent.
            let one = if several {
                let g = make::name(cotangent(self.row, outs[n].name.name));
                let asked = make::call("some", [g.clone()]);
                make::block(Expr::bare(Node::If(asked, one, make::block(g))))
            } else {
                one
            };
            all = Some(match all {
                None => one,
                Some(sum) => make::block(make::binary(BinOp::Add, sum.value, one.value)),
            });
        }
        Ok(all)
    }

    /// The contribution of result `n` to the argument's gradient.
    fn result(&self, n: usize, several: bool, derived: &mut Derived) -> Res<Option<Block>> {
        let (row, arg) = (self.row, self.arg.name.name);
        if let Some((cond, _)) = row.at.iter().find(|(_, partials)| partials.iter().any(|(of, _)| *of == arg)) {
            return Err(NotDerivable::new("`at` is for rows of elements alone: write `grad` here").at(cond.span));
        }
        let out = &row.sig.outs[n];
        let mut fresh = Fresh::of(row);
        let seed = fresh.fresh(&[&format!("d_{}", out.name.name)]);
        let mut pattern = Pattern::of(out.ty.dims.as_deref().unwrap_or_default())?;
        rows::anchor(&mut pattern.dims, row);
        let item = out.ty.list.as_ref().map(|_| Name::new("i"));
        pattern.vars.extend(item.map(|name| Var { name, kind: Kind::Item }));

        let params: Vec<Name> = row.sig.params.iter().filter(|p| differentiable(&p.ty)).map(|p| p.name.name).collect();
        let mut opened = Opened::default();
        let value = opened.block(self.body)?;
        let mut terms = Terms::new(self.rows, params.iter().copied().chain([seed]).collect(), Some(arg));
        let sizes = sizes(row);
        let mut reader = Reader {
            terms: &mut terms,
            arg,
            ties: row.ties,
            lets: opened.lets.clone(),
            lists: lists(row),
            is_size: &|n| sizes.contains(&n),
            is_axis: &|n| row.sig.opts.iter().any(|o| o.name.name == n && matches!(o.ty, OptType::Dim(_))),
            made: 0,
        };
        let list = self.arg.ty.list.is_some();
        let target = Target::of(self.arg.ty.dims.as_deref().unwrap_or_default(), list, &mut reader, arg)?;

        // Results and `let`s that the rule already has need not be computed again.
        let (mut results, mut names) = (Vec::new(), Vec::new());
        for (m, o) in row.sig.outs.iter().chain(&row.sig.aux).enumerate() {
            let name = if o.name.name == "out" { fresh.fresh(&["y", "result"]) } else { o.name.name };
            names.push((name, o));
            if let (Ok(p), Some(v)) = (Pattern::of(o.ty.dims.as_deref().unwrap_or_default()), component(&value, m)) {
                results.push((v, make::access(name, p.places)));
            }
        }
        let prefix = if several { format!("part_{}_", out.name.name) } else { "part".to_owned() };
        let is_float = |n: Name| params.contains(&n) || n == seed;
        let hoist = Hoist { out: &pattern, results, parts: Vec::new(), prefix, fresh: &mut fresh, is_float: &is_float };
        let is_index = |n: Name, size: &Expr, wrapped: bool| {
            let index = row.sig.params.iter().any(|p| p.name.name == n && p.ty.elem.contains(&Elem::Index));
            index && in_range(row, self.rows, n, size, wrapped)
        };
        let mut read = make::access(seed, pattern.places.clone());
        if let (Some(i), Node::Access(a)) = (item, Arc::make_mut(&mut read.node)) {
            a.item = Some(make::name(i));
        }
        let known = Known {
            result: target.indices.clone(),
            item: target.item.map(|i| (i, make::call("len", [make::name(arg)]))),
            aliases: aliases(row),
            seed,
            is_index: &is_index,
            positive: &|n| row.sig.opts.iter().any(|o| o.name.name == n).then(|| is_positive(row, self.rows, n)),
        };
        let seed_term = reader.terms.atom(&read);
        let opened = &opened;
        let mut work = Work { row, reader, target, hoist, known, opened, pattern: &pattern, seed: seed_term };
        let piece = work.piece(&value, n)?;
        if piece.is_zero() {
            return Ok(None);
        }
        let Work { target, hoist: Hoist { parts, .. }, reader, .. } = work;
        derived.notes.extend(reader.terms.fired.iter().map(|r| Note::Rule(arg, r)));

        let piece = piece.map(&mut |e| match target.item {
            // `i` is the position in a list of results, so an `i` of the cotangent is renamed first.
            Some(i) => names::rename(&names::rename(&e, Name::new("i"), Name::new("i#out")), i, Name::new("i")),
            None => e,
        });
        let suffix = if several { format!(".{}", out.name.name) } else { String::new() };
        let gradient = Gradient {
            row,
            arg: self.arg,
            out,
            name: format!("{}.vjp.{arg}{suffix}", row.op),
            items: &target.items,
            parts: &parts,
            seed: (seed, cotangent(row, out.name.name)),
            pattern: &pattern,
            names: &names,
            body: self.body,
        };
        let mut rule = gradient.rule(piece, &mut fresh, &mut derived.rows)?;
        if target.unbroadcast {
            rule.value = make::call("unbroadcast", [rule.value, make::name(arg)]);
        }
        Ok(Some(rule))
    }
}

/// Whether the row, or its origin, checks the elements of an index tensor: an access without `else` reads at them, or
/// conditions bound them to `0..size` (from `-size` if `wrapped`). An access with `else` accepts any element.
fn in_range(row: &Row, rows: &dyn Rows, index: Name, size: &Expr, wrapped: bool) -> bool {
    let origin = super::origin(row.op).and_then(|name| rows.row(name));
    let asked = |row: &Row| {
        let bounds = row.require.iter().map(|r| bounds(&r.cond, index, size, wrapped));
        bounds.fold((false, false), |all, of| (all.0 || of.0, all.1 || of.1)) == (true, true)
    };
    let read = |row: &Row| {
        let Some(body) = row.index_body() else { return false };
        // Includes the names that `let`s give it.
        let mut names = vec![index];
        for stmt in &body.stmts {
            if let Stmt::Let(crate::lang::ast::Pattern::Name(id), e) = stmt
                && walk::names(e).iter().any(|n| names.contains(n))
            {
                names.push(id.name);
            }
        }
        let at = |p: &Place| match p {
            Place::One(e) | Place::Zip(e) | Place::Unravel(e) | Place::BroadcastZip(e) => {
                walk::names(e).iter().any(|n| names.contains(n))
            }
            _ => false,
        };
        crate::lang::walk::any(
            body,
            &mut |e| matches!(&*e.node, Node::Access(a) if a.outside == Outside::Refuse && a.places.iter().any(at)),
        )
    };
    std::iter::once(row).chain(origin.as_deref()).any(|row| asked(row) || read(row))
}

/// Whether the row, or its origin, refuses calls in which an option is 0 or less.
fn is_positive(row: &Row, rows: &dyn Rows, option: Name) -> bool {
    fn says(cond: &Expr, option: Name) -> bool {
        let is = |e: &Expr| make::as_name(e) == Some(option);
        let number = |e: &Expr| make::as_number(e).map(|n| n.as_f64());
        match &*cond.node {
            Node::Binary(BinOp::And, a, b) => says(a, option) || says(b, option),
            Node::Binary(BinOp::Or, a, b) => says(a, option) && says(b, option),
            Node::Reduce(r) if r.red == Red::All => says(&r.body, option),
            Node::Binary(BinOp::Gt, a, b) | Node::Binary(BinOp::Lt, b, a) => {
                is(a) && number(b).is_some_and(|n| n >= 0.0)
            }
            Node::Binary(BinOp::Ge, a, b) | Node::Binary(BinOp::Le, b, a) | Node::Binary(BinOp::Eq, a, b) => {
                is(a) && number(b).is_some_and(|n| n >= 1.0)
            }
            _ => false,
        }
    }
    // `c || …` and `!c || …`, where both state it.
    fn says_either_way(row: &Row, option: Name) -> bool {
        let either = |e: &Expr| match &*e.node {
            Node::Binary(BinOp::Or, case, then) if says(then, option) => Some(case.clone()),
            _ => None,
        };
        let cases: Vec<Expr> = row.require.iter().filter_map(|require| either(&require.cond)).collect();
        let not = |e: &Expr| Expr::bare(Node::Unary(UnOp::Not, e.clone()));
        cases.iter().any(|case| cases.contains(&not(case)))
    }
    let origin = super::origin(row.op).and_then(|name| rows.row(name));
    let mut rows = std::iter::once(row).chain(origin.as_deref());
    rows.any(|row| row.require.iter().any(|require| says(&require.cond, option)) || says_either_way(row, option))
}

/// Whether a condition bounds an index from below (by 0, or by the negative size if `wrapped`) and from above (by the
/// size).
fn bounds(cond: &Expr, index: Name, size: &Expr, wrapped: bool) -> (bool, bool) {
    let is_index = |e: &Expr| make::as_name(e) == Some(index);
    let is_least = |e: &Expr| match &*e.node {
        Node::Unary(UnOp::Neg, of) => wrapped && of == size,
        _ => make::as_number(e).is_some_and(|n| n.as_f64() == 0.0),
    };
    match &*cond.node {
        Node::Binary(BinOp::And, a, b) => {
            let (a, b) = (bounds(a, index, size, wrapped), bounds(b, index, size, wrapped));
            (a.0 || b.0, a.1 || b.1)
        }
        Node::Reduce(r) if r.red == Red::All => bounds(&r.body, index, size, wrapped),
        Node::Binary(BinOp::Le, a, b) | Node::Binary(BinOp::Ge, b, a) => (is_least(a) && is_index(b), false),
        Node::Binary(BinOp::Lt, a, b) | Node::Binary(BinOp::Gt, b, a) => (false, is_index(a) && b == size),
        _ => (false, false),
    }
}

/// The component of a body's value for result `n`.
fn component(value: &Expr, n: usize) -> Option<Expr> {
    match &*value.node {
        Node::Tuple(items) => items.get(n).cloned(),
        _ if n == 0 => Some(value.clone()),
        _ => None,
    }
}

/// Every size that the signature names.
fn sizes(row: &Row) -> FxHashSet<Name> {
    let mut all = FxHashSet::default();
    for ty in row.sig.params.iter().map(|p| &p.ty).chain(row.sig.outs.iter().chain(&row.sig.aux).map(|o| &o.ty)) {
        walk::dim_names(ty.dims.as_deref().unwrap_or_default(), &mut all);
    }
    all.extend(row.sig.opts.iter().filter_map(|o| o.ty.binds()));
    all.retain(|n| n.is_size());
    all
}

/// Sizes that types name: `L = len(xs)`.
fn aliases(row: &Row) -> Vec<(Name, Expr)> {
    let types = row.sig.outs.iter().map(|o| &o.ty).chain(row.sig.params.iter().map(|p| &p.ty));
    types
        .flat_map(|ty| ty.dims.iter().flatten())
        .filter_map(|d| match &d.kind {
            DimKind::One { name: Some(n), size, .. } => Some((n.name, size.clone())),
            _ => None,
        })
        .collect()
}

/// Sizes that are lists because a list argument determines the number of their axes.
fn lists(row: &Row) -> Vec<Name> {
    let tensors: Vec<Name> = row.sig.params.iter().filter(|p| p.ty.list.is_some()).map(|p| p.name.name).collect();
    let dims = row.sig.params.iter().flat_map(|p| p.ty.dims.iter().flatten());
    dims.filter_map(|d| match &d.kind {
        DimKind::One { size, at: Some(at), .. } if tensors.contains(&at.name) => make::as_name(size),
        _ => None,
    })
    .collect()
}
