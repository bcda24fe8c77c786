//! E009: parts of a row that decide nothing. In `dtypes` these are terms that remove an absent dtype or add a present
//! one, and all of it where no argument has dtype `T`. Others are conditions that read nothing of a call, an
//! `autocast` that follows without being declared, and conventions at kinks from which nothing is derived. E302:
//! elements are read of an argument of which only the type is there.

mod conditions;

use fulgurite_core::derive::differentiable;
use fulgurite_core::lang::ast::Access as How;
use fulgurite_core::lang::{BinOp, Elem, Expr, Node, OptType};
use fulgurite_core::lower::Rows;
use fulgurite_core::row::Row;
use fulgurite_core::{DTypeSet, autocast};

use super::rows::RowSet;
use super::walk;
use crate::diag::Diag;
use crate::schema::{Body, RowSource};

/// All faults of this kind.
pub fn check(source: &RowSource, set: &RowSet) -> Vec<Diag> {
    let mut faults: Vec<Diag> = dtypes(source).into_iter().collect();
    faults.extend(constant_conditions(source));
    faults.extend(conditions::check(source));
    faults.extend(casts(source, set));
    faults.extend(types_only(source));
    faults.extend(conventions(source));
    faults
}

/// E009: `at` of a row without a formula, or whose results have no gradient.
fn conventions(source: &RowSource) -> Option<Diag> {
    let kink = source.at.first()?;
    let why = match &source.body {
        Body::Expr(_) if source.sig.tree.outs.iter().any(|out| differentiable(&out.ty)) => return None,
        Body::Expr(_) => "no result has a gradient",
        _ => "its gradient is that of the rows it calls",
    };
    let claim = format!("`at` of `{}` decides nothing: {why}", source.op.as_str());
    let diag = Diag::error("E009", kink.cond.text.place, claim);
    Some(diag.help("delete it; what holds at the kinks of a row that is called stands there"))
}

fn dtypes(source: &RowSource) -> Option<Diag> {
    let rule = source.dtypes.as_ref()?;
    let op = source.op.as_str();
    let sig = &source.sig.tree;
    let joined = |elem: &Elem| matches!(elem, Elem::Var(name) | Elem::Acc(name) | Elem::Real(name) if *name == "T");
    let types = sig.params.iter().map(|p| &p.ty).chain(sig.outs.iter().chain(&sig.aux).map(|out| &out.ty));
    let bound = sig.opts.iter().any(|opt| matches!(opt.ty, OptType::Dtype(name) if name == "T"));
    if !bound && !types.flat_map(|ty| &ty.elem).any(joined) {
        let diag = Diag::error(
            "E009",
            rule.text.place,
            format!("`dtypes` of `{op}` decides nothing: nothing is of dtype `T`"),
        );
        let diag = diag.label(source.sig.text.place, "no `T` here");
        return Some(diag.help("delete it, or let the arguments that it is about be of dtype `T`"));
    }
    let mut found = None;
    walk::expr(&rule.tree, &mut |e| {
        if let (None, Node::Binary(how @ (BinOp::Add | BinOp::Sub), left, right)) = (&found, &*e.node) {
            let (Some(known), Some(part)) = (set(left), set(right)) else { return };
            let idle = match how {
                BinOp::Add => part.minus(known).is_empty(),
                _ => part.minus(known) == part,
            };
            if idle && !part.is_empty() {
                let (does, why) = match how {
                    BinOp::Add => ("adds", "has already"),
                    _ => ("takes away", "does not have"),
                };
                let diag = Diag::error(
                    "E009",
                    rule.text.at(right.span),
                    format!("`dtypes` of `{op}` {does} `{right}`, which `{left}` {why}"),
                );
                found = Some(diag.help("delete it"));
            }
        }
    });
    found
}

fn set(e: &Expr) -> Option<DTypeSet> {
    match &*e.node {
        Node::Name(name) => DTypeSet::from_class(name.as_str()),
        Node::Binary(BinOp::Add, left, right) => Some(set(left)?.union(set(right)?)),
        Node::Binary(BinOp::Sub, left, right) => Some(set(left)?.minus(set(right)?)),
        _ => None,
    }
}

fn casts(source: &RowSource, set: &RowSet) -> Option<Diag> {
    let (said, text) = source.autocast.as_ref()?;
    let row = set.row(source.name())?;
    let row = Row { autocast: None, ..Row::clone(&row) };
    let (follows, why) = autocast::class(&row, set);
    (follows == *said).then(|| {
        let claim = format!("`autocast` of `{}` says what follows from its meaning", source.op.as_str());
        Diag::error("E009", text.place, claim).here(why).help("delete it: it is for exceptions")
    })
}

fn constant_conditions(source: &RowSource) -> Option<Diag> {
    let (cond, _) = source.require.iter().find(|(cond, _)| {
        let mut reads = false;
        walk::expr_names(&cond.tree, &mut |name| {
            reads |= fulgurite_core::signature::const_eval::constant(name).is_none()
        });
        !reads
    })?;
    let claim = format!("a condition in `require` of `{}` reads nothing of a call", source.op.as_str());
    let diag = Diag::error("E009", cond.text.at(cond.tree.span), claim).here("the same for every call");
    Some(diag.help("say what must hold of an argument, a size or an option, or delete it"))
}

/// E302: the body accesses an argument that is `like`.
fn types_only(source: &RowSource) -> Option<Diag> {
    let (Body::Expr(body) | Body::View(body)) = &source.body else { return None };
    let like = |name| source.sig.tree.params.iter().find(|p| p.access == How::Like && p.name.name == name);
    let (span, param) = walk::first(&body.tree, &mut |e| match &*e.node {
        Node::Access(access) => Some((e.span, like(access.base.name)?)),
        _ => None,
    })?;
    let claim =
        format!("`{}` reads elements of `{}`, of which only the type is there", source.op.as_str(), param.name.name);
    let diag = Diag::error("E302", body.text.at(span), claim);
    let diag = diag.label(source.sig.text.at(param.name.span), "`like`: nothing else holds on to it");
    Some(diag.help("delete `like`"))
}
