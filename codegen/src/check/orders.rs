//! E417: the steps of a gradient are of no higher order than those of the value.
//!
//! Each program is expanded, by types alone, to loops at large sizes, and the steps of its loops are counted. So are
//! those of the rule of each argument. Loops that executors walk once count once: a scan, and a reduction whose
//! condition is an equation that determines where each element goes.

use std::sync::Arc;

use fulgurite_core::builtins::Builtin;
use fulgurite_core::derive::Derived;
use fulgurite_core::lang::{Block, Node, OptType, Param};
use fulgurite_core::loop_nest::{LoopExpr, Nest, NestOut, SOp, VarId};
use fulgurite_core::lower::lower_with;
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::signature::{ArgTy, OutTy, Refusal, Solved};
use fulgurite_core::{Name, TensorTy, Value};
use rustc_hash::FxHashSet;

use super::call_cache::Resolved;
use super::cases::{Case, Family};
use super::expanded::{self, Expanded, Look, Marked, Results};
use super::report;
use super::rows::RowSet;
use super::{gradient_rules, rules, walk};
use crate::diag::Diag;
use crate::schema::RowSource;

/// Factor by which every size of a call grows. It exceeds the numbers of options by far, so that these are no part of
/// an order.
const LARGER: i64 = 1 << 12;

/// A gradient of the same order takes at most 512 times the steps of the value, because options such as widths of
/// kernels, and repeated walks over the same elements, make up the factor. One of a higher order takes `LARGER` times
/// the steps.
const MOST: f64 = (1 << 9) as f64;

/// At most this many calls are counted. They differ in presence, words, truth values and ranks.
const CALLS: usize = 4;

/// At most this many tensors per list, because loops are written out for each of them, and sizes may give their
/// number.
const MOST_ITEMS: usize = 8;

/// At most this many nodes of loops, because more take too long to count.
const MOST_NODES: u32 = 1 << 16;

/// A rule whose steps are of a higher order than those of the value.
pub struct Higher {
    /// The argument.
    pub arg: Name,
    /// The call.
    pub case: Case,
    /// Steps of the meaning, and of the rule.
    pub steps: [f64; 2],
}

impl Higher {
    /// Both orders, as powers of the sizes: `n^1`, `n^2`.
    fn orders(&self) -> [f64; 2] {
        let size =
            |arg: &Value<ArgTy>| arg.tensors().flat_map(|t| &t.shape).map(|d| d.value() as f64).fold(1.0, f64::max);
        let n = self.case.args.iter().map(size).fold(2.0, f64::max);
        self.steps.map(|steps| steps.max(1.0).ln() / n.ln())
    }
}

/// The first rule of the row, declared or derived, whose steps are of a higher order than those of the meaning.
pub fn check(source: &RowSource, row: &Arc<Row>, set: &RowSet, family: &Family) -> Option<Diag> {
    let higher = higher(row, set, family)?;
    let written = source.grad.iter().find(|(arg, _)| higher.arg == arg.as_str());
    let place = written.map_or_else(|| Some(report::body(source)?.1.place), |(_, rule)| Some(rule.text.place))?;
    let [own, gradient] = higher.orders();
    let message =
        format!("the gradient of `{}` in `{}` takes steps of a higher order than the value", row.op, higher.arg);
    let diag = Diag::warning("E417", place, message);
    let diag = diag.here(format!("about n^{gradient:.1} steps, the value takes n^{own:.1}"));
    let diag = diag.note(format!("for {}", higher.case.show(row)));
    Some(match written {
        Some(_) => diag.help("the rule looks for each element among all others: place elements where they go (`scatter_add`, or an equation of a place and one index), or scan"),
        None => diag.help("each element is looked for among all others: write the rule in `grad`, with ranges or places that name where elements go"),
    })
}

/// The first argument whose gradient takes steps of a higher order than the value, with both numbers of steps.
fn higher(row: &Arc<Row>, set: &RowSet, family: &Family) -> Option<Higher> {
    if !has_rules(row) {
        return None;
    }
    let derived = set.derived(row);
    // a derived rule without a condition runs over the places of the value's own loops
    let filters = derived.rows.iter().any(|row| row.index_body().is_some_and(has_filter));
    let rules: Vec<Rule> = rules_of(row, &derived)
        .into_iter()
        .filter(|(_, arg, _)| filters || row.vjp.iter().any(|(of, _)| of == arg))
        .collect();
    let cases = if rules.is_empty() { Vec::new() } else { cases(row, family) };
    cases.into_iter().find_map(|case| {
        let (own, steps) = counted(row, set, &derived, &rules, &case)?;
        let (arg, steps) = steps.into_iter().find(|(_, steps)| *steps > MOST * own)?;
        Some(Higher { arg, case, steps: [own, steps] })
    })
}

/// Whether a text has a reduction over the places for which a condition holds.
fn has_filter(body: &Block) -> bool {
    walk::any(body, &mut |e| matches!(&*e.node, Node::Reduce(r) if r.filter.is_some()))
}

/// The steps of each gradient at large sizes, as a multiple of the value's, and the call.
pub fn times(row: &Arc<Row>, set: &RowSet, family: &Family) -> Option<(Vec<(Name, f64)>, Case)> {
    if !has_rules(row) {
        return None;
    }
    let derived = set.derived(row);
    let rules = rules_of(row, &derived);
    let case = cases(row, family).into_iter().max_by(|a, b| elements(a).total_cmp(&elements(b)))?;
    let (own, steps) = counted(row, set, &derived, &rules, &case)?;
    let times: Vec<(Name, f64)> = steps.into_iter().map(|(arg, steps)| (arg, steps / own)).collect();
    (!times.is_empty()).then_some((times, case))
}

/// Whether a row has rules of its own. A pointwise row has those of builtins. A program without declared rules has
/// those of its lines, which are checked by themselves.
fn has_rules(row: &Row) -> bool {
    !row.is_pointwise() && row.no_grad.is_none() && !(row.is_composite() && row.vjp.is_empty())
}

/// An argument: its position, its name, its rule.
type Rule<'r> = (usize, Name, &'r Block);

fn rules_of<'r>(row: &'r Row, derived: &'r Derived) -> Vec<Rule<'r>> {
    let rule = |(at, param): (usize, &Param)| {
        let arg = param.name.name;
        Some((at, arg, gradient_rules::holding(row, derived, arg)?))
    };
    row.sig.params.iter().enumerate().filter_map(rule).collect()
}

/// Calls at large sizes. In some of them the sizes of arguments alone are large, in others those that options name
/// are too.
fn cases(row: &Row, family: &Family) -> Vec<Case> {
    let mut kinds = FxHashSet::default();
    let ranks = |case: &Case| -> Vec<usize> { case.args.iter().map(rank).collect() };
    let small = family.cases.iter().filter(|case| whole(case) && kinds.insert((case.kind(), ranks(case))));
    let small: Vec<&Case> = small.take(CALLS).collect();
    let named = row.sig.opts.iter().any(|opt| matches!(opt.ty, OptType::Shape { .. } | OptType::Size(_)));
    let grown = |case: &&Case, named| case.grown(row, LARGER, named).filter(|case| written_out(&case.solved));
    let alone = small.iter().filter(|_| named).filter_map(|case| grown(case, false));
    let all = small.iter().filter_map(|case| grown(case, true));
    let (several, one): (Vec<Case>, Vec<Case>) = alone.chain(all).partition(many);
    // where one window holds a whole argument, the gradient is of the order of the window, which is small in other
    // calls
    if several.is_empty() { one } else { several }
}

/// The steps of the value and of each rule in a call. Each includes one step per element that the call reads or
/// returns.
fn counted(row: &Row, set: &RowSet, derived: &Derived, rules: &[Rule], case: &Case) -> Option<(f64, Vec<(Name, f64)>)> {
    let ends = elements(case) + results(case);
    let own = match &row.meaning {
        Meaning::Decomp(body) => {
            let mut steps = Expanded::new(set, Steps::default());
            steps.follow(row, body, &case.solved, &case.args, &[]).ok()?;
            steps.look.walked
        }
        Meaning::Expr(body) => steps(&nest(row, body, &case.solved, set).ok()?),
        _ => 0.0,
    };
    let named = rules::names(row, case, set);
    let of_rule = |(at, arg, rule): &Rule| {
        let given = case.args.get(*at).is_some_and(|arg| !arg.is_absent());
        let mut steps = Expanded::new(set, Steps::default()).with(&derived.rows);
        let followed = given && steps.follow(row, rule, &case.solved, &case.args, &named).is_ok();
        followed.then_some((*arg, steps.look.walked + ends))
    };
    Some((own + ends, rules.iter().filter_map(of_rule).collect()))
}

/// Whether some tensor has axes, and every axis several elements. An axis of one element would not grow.
fn whole(case: &Case) -> bool {
    let mut axes = case.args.iter().flat_map(Value::tensors).flat_map(|t| &t.shape).peekable();
    axes.peek().is_some() && axes.all(|d| d.value() > 1)
}

/// Whether every axis of every result has several elements.
fn many(case: &Case) -> bool {
    case.solved.outs.iter().flat_map(OutTy::tensors).all(|t| t.shape.iter().all(|d| d.value() > 1))
}

/// The axes of a tensor, or the entries of a list.
fn rank(arg: &Value<ArgTy>) -> usize {
    match arg {
        Value::Tensor(ArgTy::Tensor(t)) | Value::Type(t) => t.rank(),
        Value::List(items) => items.len(),
        _ => 0,
    }
}

fn count(t: &TensorTy) -> f64 {
    t.shape.iter().map(|d| d.value() as f64).product()
}

fn elements(case: &Case) -> f64 {
    case.args.iter().flat_map(Value::tensors).map(count).sum()
}

fn results(case: &Case) -> f64 {
    case.solved.outs.iter().flat_map(OutTy::tensors).map(count).sum()
}

/// Whether the loops of a call can be written out, because its lists of results are short.
fn written_out(solved: &Solved) -> bool {
    solved.outs.iter().chain(&solved.aux).all(|out| !matches!(out, OutTy::List(ts) if ts.len() > MOST_ITEMS))
}

/// The loops of a call. They are refused if they are too many to be counted.
fn nest(row: &Row, body: &Block, solved: &Solved, rows: &RowSet) -> Result<Nest, Refusal> {
    let too_large = || Refusal::new("E706", format!("the loops of `{}` are too many to be counted", row.op));
    if !written_out(solved) {
        return Err(too_large());
    }
    let nest = lower_with(row, body, solved, rows)?;
    let weight: u32 = nest.outs.iter().fold(0, |sum, out| sum.saturating_add(out.expr.weight()));
    if weight > MOST_NODES { Err(too_large()) } else { Ok(nest) }
}

/// Counts the steps of the rows that a program calls.
#[derive(Default)]
struct Steps {
    walked: f64,
}

impl Look for Steps {
    type Mark = ();
    type Halt = Refusal;

    fn loops(&mut self, rows: &RowSet, of: &Resolved, args: &[Value<Marked<()>>]) -> Results<Steps> {
        let (row, solved) = (&of.row, &of.solved);
        let made = || solved.outs.iter().chain(&solved.aux).flat_map(OutTy::tensors).map(count).sum::<f64>();
        self.walked += match &row.meaning {
            Meaning::View(_) => 0.0,
            // one step per element
            _ if row.is_pointwise() => made(),
            Meaning::Expr(body) => steps(&nest(row, body, solved, rows)?),
            Meaning::Host(_) | Meaning::Decomp(_) => made(),
        };
        Ok(expanded::promised(rows, of, args, |_| ()))
    }
}

/// The steps of loops, as executors walk them.
pub fn steps(nest: &Nest) -> f64 {
    let extent = |v: VarId| nest.vars.get(v).map_or(1.0, |d| d.value() as f64);
    let of = |out: &NestOut| {
        let elements: f64 = out.shape.iter().map(|d| d.value() as f64).product();
        elements * (1.0 + inside(&out.expr, &extent))
    };
    nest.outs.iter().map(of).sum()
}

/// The steps for one element of a result.
fn inside(e: &LoopExpr, extent: &dyn Fn(VarId) -> f64) -> f64 {
    let mut sum = 0.0;
    let SOp::Reduce { vars, filter, body, otherwise, .. } = e.op() else {
        e.op().parts(&mut |part| sum = f64::max(sum, inside(part, extent)));
        return sum;
    };
    let mut times = 1.0;
    for range in vars {
        let (lo, hi) = (range.lo.as_int(), range.hi.as_int());
        // a range that depends on the element belongs to a scan, which goes on where the last element ended
        times *= match (lo, hi) {
            (Some(lo), Some(hi)) => hi.saturating_sub(lo).max(0) as f64,
            _ => 1.0,
        };
    }
    // an equation determines one of its variables, of the reduction or of the result, so that one is not walked
    let mut fixed = Vec::new();
    if let Some(filter) = filter {
        equations(filter, &mut fixed);
    }
    let mut used = Vec::new();
    for (a, b) in fixed {
        let mut open = Vec::new();
        [a, b].into_iter().for_each(|side| variables(side, &mut open));
        open.retain(|v| !used.contains(v));
        let Some(v) = open.into_iter().max_by(|a, b| extent(*a).total_cmp(&extent(*b))) else { continue };
        times /= extent(v).max(1.0);
        used.push(v);
    }
    let nested = inside(body, extent).max(otherwise.as_ref().map_or(0.0, |e| inside(e, extent)));
    times * (1.0 + nested)
}

/// Collects the equations that all must hold.
fn equations<'e>(e: &'e LoopExpr, found: &mut Vec<(&'e LoopExpr, &'e LoopExpr)>) {
    match e.op() {
        SOp::Call(Builtin::And, sides) => sides.iter().for_each(|side| equations(side, found)),
        SOp::Call(Builtin::Eq, sides) => found.push((&sides[0], &sides[1])),
        _ => {}
    }
}

/// Collects the variables of an expression outside of element accesses.
fn variables(e: &LoopExpr, found: &mut Vec<VarId>) {
    match e.op() {
        SOp::Var(v) => found.push(*v),
        SOp::Load { .. } => {}
        op => op.parts(&mut |part| variables(part, found)),
    }
}
