//! E410: a declared rule that takes a value for a constant has a wrong second derivative.

use std::sync::Arc;

use fulgurite_core::Name;
use fulgurite_core::lang::{Block, Node, Pattern, Span, Stmt};
use fulgurite_core::row::Row;

use crate::check::gradient_rules::{self, Declared};
use crate::check::gradients::claims::deviates::DETACH;
use crate::check::walk;
use crate::diag::Diag;
use crate::schema::RowSource;

/// Finds `detach` in the rules of a row that does not state `once`. To detach a value of the call is a fault unless the
/// row states `deviates`. To detach a cotangent or tangent is one in any case, because every rule is linear in it.
pub fn check(source: &RowSource, row: &Arc<Row>) -> Vec<Diag> {
    if source.once.is_some() {
        return Vec::new();
    }
    let faults = gradient_rules::of(source).into_iter().filter_map(|declared| {
        let rule = declared.rule;
        let names = if source.deviates.is_some() { seeds(&declared, row) } else { values(row, &rule.tree) };
        let (span, name) = detached(&rule.tree, &names)?;
        let claim = format!("can't be differentiated again: it takes `{name}` for a constant");
        let diag = Diag::error("E410", rule.text.at(span), format!("{} {claim}", declared.named(source).name()));
        Some(diag.help("drop `detach`: the second derivative is that of the rule; or say in `once` why there is none"))
    });
    faults.collect()
}

/// The names that a rule reads, except options and sizes: arguments, results, cotangents, tangents, and values computed
/// from them.
fn values(row: &Row, rule: &Block) -> Vec<Name> {
    let mut all = Vec::new();
    walk::names(rule, &mut |name| all.push(name));
    all.retain(|name| !name.is_size() && row.sig.opts.iter().all(|opt| opt.name.name != *name));
    all
}

/// The names of cotangents or tangents, and of values computed from them.
fn seeds(declared: &Declared, row: &Row) -> Vec<Name> {
    let mut seeds = declared.seeds(row);
    for stmt in &declared.rule.tree.stmts {
        let Stmt::Let(pattern, value) = stmt else { continue };
        let mut made = false;
        walk::expr_names(value, &mut |name| made |= seeds.contains(&name));
        match pattern {
            _ if !made => {}
            Pattern::Name(ident) | Pattern::Axes(ident, _) => seeds.push(ident.name),
            Pattern::Tuple(idents) => seeds.extend(idents.iter().map(|ident| ident.name)),
        }
    }
    seeds
}

/// The first detached value that is computed from one of `names`, and that name.
fn detached(rule: &Block, names: &[Name]) -> Option<(Span, Name)> {
    walk::first(rule, &mut |e| {
        let Node::Call(f, args) = &*e.node else { return None };
        let mut read = Vec::new();
        args.iter().for_each(|arg| walk::expr_names(&arg.value, &mut |name| read.push(name)));
        let found = read.into_iter().find(|name| names.contains(name)).filter(|_| f.name == DETACH)?;
        Some((e.span, found))
    })
}
