//! E405, E501: a value that is taken for a constant (`detach`, `skip_vjp`) must not affect the results. E410: a declared
//! rule that takes a value for a constant has a wrong second derivative.

use std::sync::Arc;

use fulgurite_core::Name;
use fulgurite_core::lang::{Block, Node, Pattern, Span, Stmt};
use fulgurite_core::row::Row;

use crate::check::gradient_rules::{self, Declared};
use crate::check::gradients::arrays::dense::Dense;
use crate::check::gradients::arrays::numbers::Numbers;
use crate::check::gradients::budget::DETACHED;
use crate::check::gradients::claims::deviates::{self, DETACH};
use crate::check::gradients::search::Bench;
use crate::check::gradients::show;
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
    let span = deviates::first(&rule.tree)?;
    Some(rule.text.at(span))
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
    let diag = diag.note(format!("a result moves {} times as much as `{arg}` does", show::number(slope)));
    Some(diag.help("delete it: what needs no gradient is found"))
}

/// Finds `detach` in the rules of a row that does not state `once`. To detach a value of the call is a fault unless the
/// row states `deviates`. To detach a cotangent or tangent is one in any case, because every rule is linear in it.
pub fn in_rules(source: &RowSource, row: &Arc<Row>) -> Vec<Diag> {
    if source.once.is_some() {
        return Vec::new();
    }
    let faults = gradient_rules::of(source).into_iter().filter_map(|declared| {
        let rule = declared.rule;
        let names = if source.deviates.is_some() { seeds(&declared, row) } else { values(row, &rule.tree) };
        let (span, name) = detached_of(&rule.tree, &names)?;
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
fn detached_of(rule: &Block, names: &[Name]) -> Option<(Span, Name)> {
    walk::first(rule, &mut |e| {
        let Node::Call(f, args) = &*e.node else { return None };
        let mut read = Vec::new();
        args.iter().for_each(|arg| walk::expr_names(&arg.value, &mut |name| read.push(name)));
        let found = read.into_iter().find(|name| names.contains(name)).filter(|_| f.name == DETACH)?;
        Some((e.span, found))
    })
}
