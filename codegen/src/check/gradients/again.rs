//! E410: a written gradient that takes a value for a constant has no right second derivative.

use std::sync::Arc;

use fulgurite_core::lang::{Block, Node, Span};
use fulgurite_core::row::Row;

use crate::check::report::Rule;
use crate::check::walk;
use crate::diag::Diag;
use crate::schema::RowSource;

/// A `detach` of a value of the call in a rule of a row that neither says why its gradient deviates nor that it is taken
/// once.
pub fn check(source: &RowSource, row: &Arc<Row>) -> Vec<Diag> {
    if source.deviates.is_some() || source.once.is_some() {
        return Vec::new();
    }
    let keys = [("grad", &source.grad), ("jvp", &source.jvp)];
    let rules = keys.iter().flat_map(|(key, rules)| rules.iter().map(move |(arg, rule)| (*key, arg, rule)));
    let faults = rules.filter_map(|(key, arg, rule)| {
        let (span, name) = detached(&rule.tree, row)?;
        let what = format!("`{key}` in `{}`", arg.as_str());
        let named = Rule { source, what: &what, text: &rule.text };
        let message = format!("{} can't be differentiated again: it takes `{name}` for a constant", named.name());
        let diag = Diag::error("E410", rule.text.at(span), message);
        Some(diag.help("drop `detach`: the second derivative is that of the rule; or say in `once` why there is none"))
    });
    faults.collect()
}

/// The first detached value in which an argument, a result or a cotangent takes part.
fn detached(rule: &Block, row: &Row) -> Option<(Span, fulgurite_core::Name)> {
    let mut found = None;
    walk::block(rule, &mut |e| {
        let Node::Call(f, args) = &*e.node else { return };
        if f.name != "detach" || found.is_some() {
            return;
        }
        for arg in args {
            walk::expr_names(&arg.value, &mut |name| {
                let option = row.sig.opts.iter().any(|opt| opt.name.name == name);
                if !option && !name.is_size() && found.is_none() {
                    found = Some((e.span, name));
                }
            });
        }
    });
    found
}
