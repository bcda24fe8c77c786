//! E405, E501: a value that is taken for a constant (`detach`, `skip_vjp`) must not affect the results.

use fulgurite_core::lang::{Block, Node, Span};

use crate::check::gradients::arrays::dense::Dense;
use crate::check::gradients::arrays::numbers::Numbers;
use crate::check::gradients::budget::DETACHED;
use crate::check::gradients::claims::deviates::DETACH;
use crate::check::gradients::search::Bench;
use crate::check::walk;
use crate::diag::Diag;
use crate::schema::{Body, RowSource, SkipVjp};
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

/// The first `detach` of a text.
pub fn first(block: &Block) -> Option<Span> {
    walk::find(block, &|e| matches!(&*e.node, Node::Call(f, _) if f.name == DETACH))
}

/// E405: some result depends on a detached value.
pub fn detach(bench: &Bench, at: Place) -> Option<Diag> {
    let leak = bench.everywhere(DETACHED).find(|instance| instance.leaks(bench.library).unwrap_or(false))?;
    let op = bench.source.op.as_str();
    let diag = Diag::error("E405", at, format!("`{op}` detaches a value on which its result depends"));
    let diag = diag.here("no gradient flows through this").note(format!("for {}", leak.case.show(bench.row)));
    Some(diag.help("drop `detach`, or say in `deviates` why the gradient is not the derivative"))
}

/// Returns the arguments that `skip_vjp` excludes from the gradient, and the place where it does.
pub fn skipped(source: &RowSource) -> Vec<(usize, Place)> {
    let params = source.sig.tree.params.iter().enumerate();
    match &source.skip_vjp {
        Some((SkipVjp::All(true), place)) => params.map(|(at, _)| (at, *place)).collect(),
        Some((SkipVjp::Arguments(names), _)) => {
            let place = |name: &str| names.iter().find(|text| **text == name).map(|text| text.place);
            params.filter_map(|(at, param)| Some((at, place(param.name.name.as_str())?))).collect()
        }
        _ => Vec::new(),
    }
}

/// E501: some result depends on argument `at`, which `skip_vjp` excludes.
pub fn skip(bench: &Bench, at: usize, place: Place) -> Option<Diag> {
    let (instance, slope) = bench.everywhere(bench.most).find_map(|instance| {
        let mut numbers = Numbers::new(3);
        let u: Vec<f64> = (0..instance.numel_of(at)).map(|_| numbers.weight()).collect();
        let moves = instance.moves(&mut Dense::new(bench.library), at, &|e| u[e]).ok()?;
        let most = moves.into_iter().filter(|x| x.is_finite()).max_by(|a, b| a.abs().total_cmp(&b.abs()))?;
        (most.abs() > 1e-9).then_some((instance, most))
    })?;
    let (op, arg) = (bench.source.op.as_str(), &bench.row.sig.params[at].name.name);
    let diag = Diag::error("E501", place, format!("`skip_vjp` of `{op}`: a gradient flows to `{arg}`"));
    let diag = diag.note(format!("for {}", instance.case.show(bench.row)));
    let diag = diag
        .note(format!("a result moves {} times as much as `{arg}` does", crate::check::gradients::show::number(slope)));
    Some(diag.help("delete it: what needs no gradient is found"))
}
