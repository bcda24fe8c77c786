//! The kernel variant that a call of a pointwise row needs: its static options and presence as text, and its run-time
//! numbers.
//!
//! Emission enumerates variants, and the executor names the one that it needs; both use this file.

use crate::lang::ast::*;
use crate::row::Row;
use crate::signature::{Env, Item};
use crate::{Name, Scalar};
use std::fmt::Write;

/// Number options that no static condition reads: kernels receive them at run time, in this order.
pub fn runtime_numbers(row: &Row) -> Vec<Name> {
    let statics = static_names(row);
    row.sig
        .opts
        .iter()
        .filter(|o| matches!(o.ty, OptType::Num | OptType::F64) && !statics.contains(&o.name.name))
        .map(|o| o.name.name)
        .collect()
}

/// The variant that `env` selects: `lo=absent,approximate=tanh`, without the numbers of [`runtime_numbers`].
pub fn variant(row: &Row, env: &Env) -> String {
    let runtime = runtime_numbers(row);
    let mut out = String::new();
    let mut put = |name: Name, value: &dyn std::fmt::Display| {
        let comma = if out.is_empty() { "" } else { "," };
        let _ = write!(out, "{comma}{name}={value}");
    };
    for p in row.sig.params.iter().filter(|p| p.optional) {
        if env.item(p.name.name) == Some(&Item::Absent) {
            put(p.name.name, &"absent");
        }
    }
    // Kernels expect tensors: a number takes another branch, where the row tests for one.
    for p in row.sig.params.iter().filter(|p| asks_kind(row, p.name.name)) {
        if !matches!(env.item(p.name.name), Some(Item::Absent | Item::Tensor(_) | Item::Tensors(..))) {
            put(p.name.name, &"number");
        }
    }
    for o in &row.sig.opts {
        let name = o.name.name;
        match env.item(name) {
            Some(Item::Absent) => put(name, &"absent"),
            Some(Item::Num(_) | Item::Runtime(..)) if runtime.contains(&name) => {}
            Some(Item::Num(s)) => put(name, s),
            Some(Item::Int(d)) => put(name, d),
            Some(Item::Word(w)) => put(name, w),
            Some(Item::DType(d)) => put(name, d),
            Some(Item::Str(s)) => put(name, s),
            Some(Item::Labels(l)) => put(name, &l.text),
            _ => {}
        }
    }
    out
}

/// Whether the body tests if this argument is a number.
fn asks_kind(row: &Row, name: Name) -> bool {
    let mut asks = false;
    if let Some(block) = row.index_body() {
        conditions(block, &mut |cond| asks |= questions(cond, name));
    }
    asks
}

fn questions(e: &Expr, name: Name) -> bool {
    match &*e.node {
        Node::Call(f, args) if matches!(f.name.as_str(), "is_number" | "is_tensor") => {
            args.iter().any(|a| matches!(&*a.value.node, Node::Name(n) if *n == name))
        }
        Node::Unary(_, a) => questions(a, name),
        Node::Binary(_, a, b) => questions(a, name) || questions(b, name),
        _ => false,
    }
}

/// The values of [`runtime_numbers`]; `None` for one that is known only when the program runs.
pub fn numbers(row: &Row, env: &Env) -> Vec<Option<Scalar>> {
    runtime_numbers(row)
        .into_iter()
        .map(|n| match env.item(n) {
            Some(Item::Num(s)) => Some(*s),
            Some(Item::Int(d)) => Some(Scalar::Int(d.value())),
            _ => None,
        })
        .collect()
}

/// Names in static positions: conditions over options alone, sizes of the signature, defaults of sizes.
fn static_names(row: &Row) -> Vec<Name> {
    let options: Vec<Name> = row.sig.opts.iter().map(|o| o.name.name).collect();
    let mut out = Vec::new();
    let mut note = |e: &Expr| {
        let mut names = Vec::new();
        let only_options = option_names(e, &options, &mut names);
        if only_options {
            out.extend(names);
        }
    };
    if let Some(b) = row.index_body() {
        conditions(b, &mut note);
    }
    for ty in row.sig.params.iter().map(|p| &p.ty).chain(row.sig.outs.iter().map(|o| &o.ty)) {
        for d in ty.dims.iter().flatten() {
            match &d.kind {
                DimKind::One { size, .. } | DimKind::Zip { size, .. } => note(size),
                _ => {}
            }
        }
    }
    out
}

/// Collects the option names of `e`; false if it mentions elements or indices.
fn option_names(e: &Expr, options: &[Name], out: &mut Vec<Name>) -> bool {
    match &*e.node {
        Node::Name(n) => {
            if options.contains(n) {
                out.push(*n);
                true
            } else {
                n.is_size() || crate::signature::const_eval::constant(*n).is_some()
            }
        }
        Node::Int(_) | Node::Float(_) | Node::Str(_) => true,
        Node::Unary(_, a) | Node::Cast(a, _) | Node::Zip(a) | Node::Spread(a) => option_names(a, options, out),
        Node::Binary(_, a, b) => option_names(a, options, out) & option_names(b, options, out),
        Node::Call(f, args) => {
            matches!(f.name.as_str(), "some" | "is_tensor" | "is_number" | "is_int" | "is_float" | "is_bool")
                || args.iter().fold(true, |ok, a| ok & option_names(&a.value, options, out))
        }
        _ => false,
    }
}

fn conditions(b: &Block, f: &mut impl FnMut(&Expr)) {
    for s in &b.stmts {
        match s {
            Stmt::Let(_, e) | Stmt::Write(_, e) => expr_conditions(e, f),
        }
    }
    expr_conditions(&b.value, f);
}

fn expr_conditions(e: &Expr, f: &mut impl FnMut(&Expr)) {
    match &*e.node {
        Node::If(c, a, b) => {
            f(c);
            conditions(a, f);
            conditions(b, f);
        }
        Node::Match(_, arms) => arms.iter().for_each(|(_, e)| expr_conditions(e, f)),
        Node::Unary(_, a) | Node::Cast(a, _) | Node::Zip(a) | Node::Spread(a) => expr_conditions(a, f),
        Node::Binary(_, a, b) => {
            expr_conditions(a, f);
            expr_conditions(b, f);
        }
        Node::Call(_, args) => args.iter().for_each(|a| expr_conditions(&a.value, f)),
        Node::Tuple(items) => items.iter().for_each(|e| expr_conditions(e, f)),
        Node::Reduce(r) => expr_conditions(&r.body, f),
        _ => {}
    }
}
