//! E004, E201: `promote` stands where it must, and fits the signature. E009: `ties` stands only where a maximum is
//! taken.

use fulgurite_core::Name;
use fulgurite_core::lang::{Elem, Expr, Node, OptType, Red};
use fulgurite_core::promote::Kind;

use super::walk;
use crate::diag::Diag;
use crate::schema::{Body, RowSource, Rule};

/// Faults of `promote` and `ties`.
pub fn check(source: &RowSource) -> Vec<Diag> {
    let promote = match &source.promote {
        None => missing(source),
        Some(rule) => misfit(source, rule),
    };
    promote.into_iter().chain(untied(source)).collect()
}

/// E009: `ties` of a row that takes no maximum or minimum over axes.
fn untied(source: &RowSource) -> Option<Diag> {
    let (_, says) = source.ties.as_ref()?;
    let extreme = |e: &Expr| matches!(&*e.node, Node::Reduce(reduce) if matches!(reduce.red, Red::Max | Red::Min));
    if let Body::Expr(body) | Body::View(body) = &source.body
        && walk::any(&body.tree, &mut |e| extreme(e))
    {
        return None;
    }
    let message = format!("`ties` of `{}` decides nothing: its meaning takes no maximum over axes", source.op.as_str());
    let help = match &source.body {
        Body::Decomp(_) => "delete it: the rows that the body calls say what holds at ties",
        _ => "delete it: it is for `max[..](…)` and `min[..](…)`",
    };
    Some(Diag::error("E009", says.place, message).help(help))
}

/// The first sum, product or mean of the body over elements of an argument.
fn computed(source: &RowSource) -> Option<Red> {
    let Body::Expr(body) = &source.body else { return None };
    let is_tensor = |name: Name| source.sig.tree.params.iter().any(|param| param.name.name == name);
    walk::first(&body.tree, &mut |e| {
        let Node::Reduce(reduce) = &*e.node else { return None };
        let sums = matches!(reduce.red, Red::Sum | Red::Prod | Red::Mean);
        let reads = matches!(&*reduce.body.node, Node::Access(access) if is_tensor(access.base.name));
        (sums && reads).then_some(reduce.red)
    })
}

/// E004: a row computes, but does not say in which dtype.
fn missing(source: &RowSource) -> Option<Diag> {
    let Body::Expr(body) = &source.body else { return None };
    if is_access(&body.tree.value) && body.tree.stmts.is_empty() || !yields_joined(source) {
        return None;
    }
    let (kind, what) = match comparison(&body.tree.value) {
        true => ("bool", "the result is bool"),
        false => ("default", "compute and give the join of the arguments"),
    };
    let message = format!("`{}` computes, but has no `promote`", source.op.as_str());
    let diag = Diag::error("E004", source.op.place, message).label(body.text.place, "more than an access");
    Some(diag.help(format!("add `promote: {kind}` ({what}), or another kind: float, keep, equal, long_if_int")))
}

/// Whether some result has the joined dtype of the arguments.
fn yields_joined(source: &RowSource) -> bool {
    let sig = &source.sig.tree;
    let chosen: Vec<_> = sig
        .opts
        .iter()
        .filter_map(|opt| match opt.ty {
            // while the option is absent, the dtype is the join
            OptType::Dtype(name) if !opt.optional => Some(name),
            _ => None,
        })
        .collect();
    sig.outs.iter().chain(&sig.aux).flat_map(|out| &out.ty.elem).any(|elem| match elem {
        Elem::Var(name) | Elem::Acc(name) | Elem::Real(name) => !chosen.contains(name),
        _ => false,
    })
}

/// Whether `e` is an access, or a choice of accesses, so that no element is computed with.
fn is_access(e: &Expr) -> bool {
    match &*e.node {
        Node::Access(_) => true,
        Node::Reduce(reduce) => reduce.red == Red::Only && is_access(&reduce.body),
        _ => false,
    }
}

fn comparison(e: &Expr) -> bool {
    use fulgurite_core::lang::BinOp::*;
    matches!(&*e.node, Node::Binary(Or | And | Eq | Ne | Lt | Le | Gt | Ge, ..))
}

/// E201: a kind of promotion that does not fit the row.
fn misfit(source: &RowSource, rule: &Rule<Expr>) -> Option<Diag> {
    let sig = &source.sig.tree;
    let mut kinds = Vec::new();
    walk::expr(&rule.tree, &mut |e| {
        if let Node::Name(name) = &*e.node
            && let Some(kind) = Kind::from_name(name.as_str())
        {
            kinds.push((kind, e.span));
        }
    });
    let joins = sig.params.iter().flat_map(|param| &param.ty.elem).any(|elem| matches!(elem, Elem::Var(_)));
    let error = |span, message: String| Diag::error("E201", rule.text.at(span), message);
    let op = source.op.as_str();
    if let (false, Some((kind, span))) = (joins, kinds.first()) {
        let diag =
            error(*span, format!("`promote: {kind}` of `{op}` has nothing to join: no argument is of dtype `T`"));
        return Some(diag.label(source.sig.text.place, "no `T` among the arguments").help("delete `promote`"));
    }
    for (kind, span) in kinds {
        let joined = sig.outs.iter().find(|out| matches!(out.ty.elem.first(), Some(Elem::Var(name)) if *name == "T"));
        if let (Kind::Bool, Some(out)) = (kind, joined) {
            let diag = error(span, format!("`promote: bool` of `{op}` gives bool, its `sig` says `{}`", out.ty));
            return Some(
                diag.label(source.sig.text.at(out.ty.span), "write `bool` here").help("or choose another kind"),
            );
        }
        if let (Kind::Keep, Some(red)) = (kind, computed(source)) {
            let message = format!("`promote: keep` of `{op}` computes nothing, its body takes a `{}`", red.word());
            let help = "say `default` (integers add up in their own dtype) or `long_if_int`";
            return Some(error(span, message).help(help));
        }
        let several = sig.params.len() > 1 || sig.params.iter().any(|param| param.ty.list.is_some());
        if kind == Kind::Join && !several {
            let diag =
                error(span, format!("`promote: join` of `{op}` joins arguments regardless of rank, but there is one"));
            return Some(diag.help("say `default` or `keep`"));
        }
    }
    None
}
