//! The rows that a row calls when it runs.

use fulgurite_codegen::check::{closure, is_word, walk};
use fulgurite_core::Name;
use fulgurite_core::lang::helpers::{self, HelperFact};
use fulgurite_core::lang::{Block, Expr, Node, Pattern, Stmt};
use fulgurite_core::row::{Meaning, Row};
use rustc_hash::FxHashSet;

/// The rows that a program calls when it runs. An operator between sizes, options and numbers is evaluated while
/// tracing.
pub fn run_calls(row: &Row) -> Vec<Name> {
    let Meaning::Decomp(body) = &row.meaning else {
        return closure::calls(row).into_iter().map(|call| call.op).collect();
    };
    let mut values: FxHashSet<Name> = row.sig.params.iter().map(|param| param.name.name).collect();
    bound_values(body, &mut values);
    let mut calls = Vec::new();
    closure::named_calls(body, &mut calls);
    let mut run: Vec<Name> = calls.into_iter().map(|call| call.op).collect();
    walk::block(body, &mut |e| {
        let mut operators = Vec::new();
        closure::own_operator(e, &mut operators);
        if !is_static(e, &values) {
            run.extend(operators.into_iter().map(|call| call.op));
        }
    });
    run
}

/// Adds the names that `let` binds to values which are not known while tracing.
fn bound_values(block: &Block, values: &mut FxHashSet<Name>) {
    for stmt in &block.stmts {
        match stmt {
            Stmt::Let(Pattern::Name(id), e) if is_static(e, values) => {
                values.remove(&id.name);
            }
            Stmt::Let(Pattern::Name(id), _) => _ = values.insert(id.name),
            Stmt::Let(Pattern::Tuple(ids), _) => values.extend(ids.iter().map(|id| id.name)),
            Stmt::Let(Pattern::Axes(..), _) | Stmt::Write(..) => {}
        }
    }
    walk::block(block, &mut |e| {
        let inner: Vec<&Block> = match &*e.node {
            Node::If(_, yes, no) => vec![yes, no],
            _ => Vec::new(),
        };
        inner.into_iter().for_each(|block| bound_values(block, values));
    });
}

/// Whether an expression is known while tracing: sizes, options, presence, and expressions of these.
fn is_static(e: &Expr, values: &FxHashSet<Name>) -> bool {
    match &*e.node {
        Node::Int(_) | Node::Float(_) | Node::Str(_) => true,
        Node::Name(name) => !values.contains(name),
        Node::Unary(_, a) | Node::Cast(a, _) => is_static(a, values),
        Node::Binary(_, a, b) => is_static(a, values) && is_static(b, values),
        Node::If(c, yes, no) => {
            is_static(c, values) && [yes, no].into_iter().all(|b| b.stmts.is_empty() && is_static(&b.value, values))
        }
        Node::Call(f, args) => {
            helpers::is(f.name, HelperFact::OfType)
                || is_word(f.name) && args.iter().all(|arg| is_static(&arg.value, values))
        }
        Node::Access(access) => access.base.name.is_size(),
        Node::Reduce(_) => true,
        _ => false,
    }
}
