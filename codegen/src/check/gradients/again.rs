//! E410: a written gradient that takes a value for a constant has no right second derivative.

use std::sync::Arc;

use fulgurite_core::Name;
use fulgurite_core::lang::{Block, Node, Pattern, Span, Stmt};
use fulgurite_core::row::Row;

use crate::check::report::Rule;
use crate::check::walk;
use crate::diag::Diag;
use crate::schema::RowSource;

/// A `detach` of a value of the call in a rule that neither says why the row's gradient deviates nor that it is taken
/// once; of a cotangent or tangent, in which every rule is linear, also where the gradient deviates.
pub fn check(source: &RowSource, row: &Arc<Row>) -> Vec<Diag> {
    if source.once.is_some() {
        return Vec::new();
    }
    let keys = [("grad", &source.grad), ("jvp", &source.jvp)];
    let rules = keys.iter().flat_map(|(key, rules)| rules.iter().map(move |(arg, rule)| (*key, arg, rule)));
    let faults = rules.filter_map(|(key, arg, rule)| {
        let names = if source.deviates.is_some() { seeds(key, row, &rule.tree) } else { values(row, &rule.tree) };
        let (span, name) = detached(&rule.tree, &names)?;
        let what = format!("`{key}` in `{}`", arg.as_str());
        let named = Rule { source, what: &what, text: &rule.text };
        let message = format!("{} can't be differentiated again: it takes `{name}` for a constant", named.name());
        let diag = Diag::error("E410", rule.text.at(span), message);
        Some(diag.help("drop `detach`: the second derivative is that of the rule; or say in `once` why there is none"))
    });
    faults.collect()
}

/// What a rule reads but options and sizes: arguments, results, cotangents, tangents and what is made of them.
fn values(row: &Row, rule: &Block) -> Vec<Name> {
    let mut all = Vec::new();
    walk::names(rule, &mut |name| all.push(name));
    all.retain(|name| !name.is_size() && row.sig.opts.iter().all(|opt| opt.name.name != *name));
    all
}

/// The names of cotangents or tangents, and of what is made of them.
fn seeds(key: &str, row: &Row, rule: &Block) -> Vec<Name> {
    let (letter, named): (_, Vec<Name>) = match key {
        "grad" => ("g", row.sig.outs.iter().map(|out| out.name.name).collect()),
        _ => ("t", row.sig.params.iter().map(|param| param.name.name).collect()),
    };
    let mut seeds = vec![Name::new(letter)];
    seeds.extend(named.iter().map(|name| Name::new(&format!("{letter}_{name}"))));
    for stmt in &rule.stmts {
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

/// The first detached value in which one of `names` takes part.
fn detached(rule: &Block, names: &[Name]) -> Option<(Span, Name)> {
    let mut found = None;
    walk::block(rule, &mut |e| {
        let Node::Call(f, args) = &*e.node else { return };
        if f.name != "detach" || found.is_some() {
            return;
        }
        for arg in args {
            walk::expr_names(&arg.value, &mut |name| {
                if found.is_none() && names.contains(&name) {
                    found = Some((e.span, name));
                }
            });
        }
    });
    found
}
