//! E009: conditions that hold for every call, and conditions that repeat another.

use fulgurite_core::Name;
use fulgurite_core::lang::{BinOp, Expr, Node, UnOp};

use crate::diag::Diag;
use crate::schema::RowSource;

/// Faults of the conditions of `require` that refuse nothing.
pub fn check(source: &RowSource) -> Vec<Diag> {
    let mut faults = Vec::new();
    for (at, (cond, _)) in source.require.iter().enumerate() {
        if let Some((part, why)) = always(&cond.tree, source) {
            let claim = format!("a condition in `require` of `{}` holds for every call", source.op.as_str());
            let diag = Diag::error("E009", cond.text.at(part.span), claim).here(why);
            faults.push(diag.help("say what must hold of an argument, a size or an option, or delete it"));
        } else if let Some((first, _)) = source.require[..at].iter().find(|(first, _)| same(&first.tree, &cond.tree)) {
            let claim = format!("`require` of `{}` says the same twice", source.op.as_str());
            let diag = Diag::error("E009", cond.text.place, claim).here("here again");
            faults.push(diag.label(first.text.place, "first here").help("delete one"));
        }
    }
    faults
}

/// Whether two conditions are equal, perhaps with exchanged sides: `N > 0`, `0 < N`.
fn same(a: &Expr, b: &Expr) -> bool {
    use BinOp::{Eq, Ge, Gt, Le, Lt, Ne};
    let turned = |op: BinOp| match op {
        Lt => Some(Gt),
        Gt => Some(Lt),
        Le => Some(Ge),
        Ge => Some(Le),
        Eq | Ne => Some(op),
        _ => None,
    };
    a == b
        || match (&*a.node, &*b.node) {
            (Node::Binary(one, l, r), Node::Binary(other, x, y)) => turned(*one) == Some(*other) && l == y && r == x,
            _ => false,
        }
}

/// The part of a condition that always holds, and why.
fn always<'e>(e: &'e Expr, source: &RowSource) -> Option<(&'e Expr, String)> {
    use BinOp::{And, Ge, Gt, Le, Lt, Ne, Or};
    let never_below = |e: &Expr| format!("`{e}` is never below 0");
    match &*e.node {
        Node::Binary(And | Or, a, b) => always(a, source).or_else(|| always(b, source)),
        Node::Binary(Ge, a, b) if is_count(a) && is(b, 0) => Some((e, never_below(a))),
        Node::Binary(Gt | Ne, a, b) if is_count(a) && is(b, -1) => Some((e, never_below(a))),
        Node::Binary(Le, a, b) if is(a, 0) && is_count(b) => Some((e, never_below(b))),
        Node::Binary(Lt | Ne, a, b) if is(a, -1) && is_count(b) => Some((e, never_below(b))),
        Node::Call(some, args) if some.name == "some" => {
            let [arg] = args.as_slice() else { return None };
            let Node::Name(name) = &*arg.value.node else { return None };
            is_given(*name, source).then(|| (e, format!("`{name}` is never absent")))
        }
        _ => None,
    }
}

/// Whether every call has a value for this argument or option.
fn is_given(name: Name, source: &RowSource) -> bool {
    let sig = &source.sig.tree;
    let param = sig.params.iter().find(|param| param.name.name == name).map(|param| !param.optional);
    let option = || sig.opts.iter().find(|opt| opt.name.name == name).map(|opt| !opt.optional);
    param.or_else(option).unwrap_or(false)
}

/// Whether `e` counts something: a size, a rank, a length.
fn is_count(e: &Expr) -> bool {
    match &*e.node {
        Node::Name(name) => name.is_size(),
        Node::Call(of, _) => matches!(of.name.as_str(), "rank" | "size" | "len"),
        _ => false,
    }
}

fn is(e: &Expr, n: i64) -> bool {
    match &*e.node {
        Node::Int(m) => *m == n,
        Node::Unary(UnOp::Neg, inner) => is(inner, -n),
        _ => false,
    }
}
