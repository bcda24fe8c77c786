//! E416: a result stands in the place of another.

use fulgurite_core::lang::{Block, Node};

use super::report;
use crate::diag::Diag;
use crate::schema::{Body, RowSource};

/// The first result of a body that has the name of another declared result: `(mean, var)` for `(var: …, mean: …)`.
pub fn check(source: &RowSource) -> Option<Diag> {
    let outs = &source.sig.tree.outs;
    let body: &Block = match &source.body {
        Body::Expr(rule) | Body::View(rule) | Body::Decomp(rule) => &rule.tree,
        Body::Host(_) => return None,
    };
    let Node::Tuple(items) = &*body.value.node else { return None };
    let (_, text) = report::body(source)?;
    items.iter().zip(outs).enumerate().find_map(|(at, (item, out))| {
        let name = match &*item.node {
            Node::Name(name) => *name,
            Node::Call(f, _) => f.name,
            _ => return None,
        };
        let other = outs.iter().position(|other| other.name.name == name)?;
        if other == at || outs[other].ty.to_string() != out.ty.to_string() {
            return None;
        }
        let message = format!("`{name}` stands where `{}` gives its result `{}`", source.op.as_str(), out.name.name);
        let diag = Diag::warning("E416", text.at(item.span), message);
        let diag = diag.label(source.sig.text.at(outs[other].name.span), format!("`{name}` is declared here"));
        Some(diag.help(
            "results are told by their places: exchange them here or in `sig`, or call what is computed otherwise",
        ))
    })
}
