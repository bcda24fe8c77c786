//! E405: a value that is taken for a constant (`detach`) does not change the results, or the row says that it deviates.

use fulgurite_core::lang::{Block, Node};

use super::values::Bench;
use crate::check::walk;
use crate::diag::Diag;
use crate::schema::{Body, RowSource};
use crate::source::Place;

/// The first `detach` of a row's meaning, unless the row says that its gradient deviates.
pub fn detached(source: &RowSource) -> Option<Place> {
    let (Body::Expr(rule) | Body::View(rule) | Body::Decomp(rule)) = &source.body else { return None };
    if source.deviates.is_some() {
        return None;
    }
    let span = first(&rule.tree)?;
    Some(rule.text.at(span))
}

fn first(block: &Block) -> Option<fulgurite_core::lang::Span> {
    let mut found = None;
    walk::block(block, &mut |e| {
        if let Node::Call(f, _) = &*e.node
            && f.name == "detach"
        {
            found.get_or_insert(e.span);
        }
    });
    found
}

/// Whether some result depends on what is detached.
pub fn check(bench: &Bench, at: Place) -> Option<Diag> {
    let leak = bench.instances().find(|instance| instance.leaks(bench.library).unwrap_or(false))?;
    let op = bench.source.op.as_str();
    let diag = Diag::error("E405", at, format!("`{op}` detaches a value on which its result depends"));
    let diag = diag.here("no gradient flows through this").note(format!("for {}", leak.case.show(bench.row)));
    Some(diag.help("drop `detach`, or say in `deviates` why the gradient is not the derivative"))
}
