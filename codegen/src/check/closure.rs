//! E010: decompositions end. The call graph of rows gives the order in which rows can be checked, and its cycles.

use std::sync::Arc;

use fulgurite_core::Name;
use fulgurite_core::lang::{Block, Expr, Ident, Node, Span, UnOp};
use fulgurite_core::lower::Rows;
use fulgurite_core::row::{Meaning, Row};
use rustc_hash::{FxHashMap, FxHashSet};

use super::report;
use super::rows::RowSet;
use super::walk;
use crate::diag::{Diag, Diagnostics};
use crate::schema::RowSource;

/// A call in a body.
#[derive(Clone, Copy)]
pub struct Call {
    /// The row called.
    pub op: Name,
    /// The place of the call in the text.
    pub at: Span,
}

/// The rows that the meaning of `row` calls, by name or by an operator.
pub fn calls(row: &Row) -> Vec<Call> {
    let mut calls = Vec::new();
    match &row.meaning {
        Meaning::Expr(body) | Meaning::View(body) => {
            named_calls(body, &mut calls);
            // a builtin wins over a row of its name
            calls.retain(|call| !super::names::is_word(call.op));
        }
        Meaning::Decomp(body) => {
            named_calls(body, &mut calls);
            operators(body, &mut calls);
        }
        Meaning::Host(_) => {}
    }
    calls
}

/// The rows that the declared gradient rules of a row call.
pub fn rule_calls(source: &RowSource) -> Vec<Name> {
    let mut calls = Vec::new();
    for (_, rule) in source.grad.iter().chain(&source.jvp) {
        named_calls(&rule.tree, &mut calls);
        operators(&rule.tree, &mut calls);
    }
    calls.into_iter().map(|call| call.op).collect()
}

/// Whether the meaning of `row`, or a declared rule of it, reaches a row with a fault.
pub fn reaches_broken(source: &RowSource, row: &Row, set: &RowSet) -> bool {
    leads_to_broken(calls(row).into_iter().map(|call| call.op).chain(rule_calls(source)).collect(), set)
}

/// Whether a call in these texts reaches a row with a fault.
pub fn texts_reach_broken<'a>(texts: impl Iterator<Item = &'a Block>, set: &RowSet) -> bool {
    leads_to_broken(text_calls(texts), set)
}

/// The rows that these texts call, by name or by an operator.
pub fn text_calls<'a>(texts: impl Iterator<Item = &'a Block>) -> Vec<Name> {
    let mut made = Vec::new();
    for text in texts {
        named_calls(text, &mut made);
        operators(text, &mut made);
    }
    made.into_iter().map(|call| call.op).collect()
}

/// Whether one of these rows has a fault, or calls a row with one, directly or not.
pub fn leads_to_broken(names: Vec<Name>, set: &RowSet) -> bool {
    names.iter().any(|op| set.taints(*op))
        || any_reached(names, set, &mut |row| calls(row).iter().any(|call| set.taints(call.op)))
}

/// The rows that the meaning of `row` calls.
pub fn called(row: &Row) -> Vec<Name> {
    calls(row).into_iter().map(|call| call.op).collect()
}

/// The rows of these names, and all rows that their meanings call, directly or not.
pub fn all_reached(names: Vec<Name>, set: &RowSet) -> Vec<Arc<Row>> {
    let mut reached = Vec::new();
    any_reached(names, set, &mut |row| {
        reached.push(row.clone());
        false
    });
    reached
}

/// Whether `f` holds of a row of one of these names, or of a row that their meanings call, directly or not.
pub fn any_reached(names: Vec<Name>, set: &RowSet, f: &mut dyn FnMut(&Arc<Row>) -> bool) -> bool {
    let (mut met, mut next) = (FxHashSet::default(), names);
    while let Some(op) = next.pop() {
        if !met.insert(op) {
            continue;
        }
        for row in set.candidates(op) {
            if f(&row) {
                return true;
            }
            next.extend(called(&row));
        }
    }
    false
}

/// Adds the rows that a body calls by name. `cargo ops explain` lists these too.
pub fn named_calls(body: &Block, calls: &mut Vec<Call>) {
    walk::block(body, &mut |e| {
        if let Node::Call(Ident { name, span }, _) = &*e.node {
            calls.push(Call { op: *name, at: *span });
        }
    });
}

/// The names, without kinds, of the `wanted` rows and of all rows that their meanings and rules call, directly or
/// not.
pub fn reached(rows: &[RowSource], wanted: impl Iterator<Item = Name>) -> FxHashSet<Name> {
    let (mut met, mut next): (FxHashSet<Name>, Vec<Name>) = (FxHashSet::default(), wanted.map(super::base).collect());
    while let Some(op) = next.pop() {
        if !met.insert(op) {
            continue;
        }
        for source in rows.iter().filter(|source| super::base(source.name()) == op) {
            let called = calls(&source.lower_to_row()).into_iter().map(|call| call.op).chain(rule_calls(source));
            next.extend(called.map(super::base));
        }
    }
    met
}

/// Adds the operators of a body in the tensor language, where every operator is a row.
fn operators(body: &Block, calls: &mut Vec<Call>) {
    walk::block(body, &mut |e| own_operator(e, calls));
}

/// Adds the row of the operator at the root of an expression, if there is one. `cargo ops explain` leaves out operators
/// that do not run, so it looks at each one.
pub fn own_operator(e: &Expr, calls: &mut Vec<Call>) {
    let op = match &*e.node {
        Node::Binary(op, ..) => op.row(),
        Node::Unary(UnOp::Neg, _) => "neg",
        Node::Unary(UnOp::Not, _) => "logical_not",
        Node::Cast(..) => "cast",
        _ => return,
    };
    calls.push(Call { op: Name::new(op), at: e.span });
}

/// The `wanted` rows and those that they call, in waves: a row calls only rows of earlier waves. Cycles are reported,
/// and their rows are marked as broken.
pub fn waves(
    sources: &[RowSource],
    wanted: &dyn Fn(&RowSource) -> bool,
    rows: &mut RowSet,
    diags: &mut Diagnostics,
) -> Vec<Vec<usize>> {
    let index: FxHashMap<Name, usize> = sources.iter().enumerate().map(|(n, source)| (source.name(), n)).collect();
    let mut edges: Vec<Vec<(usize, Span)>> = Vec::with_capacity(sources.len());
    for source in sources {
        let row = rows.row(source.name());
        let calls = row.as_ref().map(|row| calls(row)).unwrap_or_default();
        let targets = calls.iter().flat_map(|call| {
            let candidates = rows.candidates(call.op);
            candidates
                .into_iter()
                .filter_map(|row| index.get(&row.op).copied())
                .map(|n| (n, call.at))
                .collect::<Vec<_>>()
        });
        edges.push(targets.collect());
    }
    let mut search = Search {
        edges: &edges,
        done: vec![false; sources.len()],
        path: Vec::new(),
        order: Vec::new(),
        circles: Vec::new(),
    };
    for (n, _) in sources.iter().enumerate().filter(|(_, source)| wanted(source)) {
        search.visit(n);
    }
    let Search { order, circles, .. } = search;
    let mut reported: FxHashSet<usize> = FxHashSet::default();
    for circle in circles {
        if circle.iter().any(|(n, _)| reported.contains(n)) {
            continue;
        }
        reported.extend(circle.iter().map(|(n, _)| *n));
        diags.push(diag(sources, &circle));
        circle.iter().for_each(|(n, _)| rows.break_row(sources[*n].name()));
    }
    let mut wave_of = vec![0; sources.len()];
    let mut waves: Vec<Vec<usize>> = Vec::new();
    for n in order {
        // within a cycle a row may come before one that it calls; it has a fault anyway
        let wave = edges[n].iter().map(|(called, _)| wave_of[*called] + 1).max().unwrap_or(0);
        wave_of[n] = wave;
        waves.resize_with(waves.len().max(wave + 1), Vec::new);
        waves[wave].push(n);
    }
    waves
}

/// Depth-first search. A row that is met again on the path closes a cycle.
struct Search<'a> {
    edges: &'a [Vec<(usize, Span)>],
    done: Vec<bool>,
    /// The rows being visited, each with the call that leads on.
    path: Vec<(usize, Span)>,
    order: Vec<usize>,
    circles: Vec<Vec<(usize, Span)>>,
}

impl Search<'_> {
    fn visit(&mut self, n: usize) {
        if self.done[n] {
            return;
        }
        if let Some(start) = self.path.iter().position(|(m, _)| *m == n) {
            self.circles.push(self.path[start..].to_vec());
            return;
        }
        self.path.push((n, Span::default()));
        let edges = self.edges;
        for (target, at) in &edges[n] {
            if let Some(last) = self.path.last_mut() {
                last.1 = *at;
            }
            self.visit(*target);
        }
        self.path.pop();
        self.done[n] = true;
        self.order.push(n);
    }
}

fn diag(sources: &[RowSource], circle: &[(usize, Span)]) -> Diag {
    let names: Vec<String> =
        circle.iter().chain(&circle[..1]).map(|(n, _)| format!("`{}`", sources[*n].op.as_str())).collect();
    let place = |(n, at): (usize, Span)| {
        let source = &sources[n];
        report::body(source).map_or(source.op.place, |(_, text)| text.at(at))
    };
    let message = match circle.len() {
        1 => format!("the meaning of {} calls {} itself", names[0], names[0]),
        _ => format!("decompositions go in a circle: {}", names.join(" → ")),
    };
    let mut diag = Diag::error("E010", place(circle[0]), message);
    if circle.len() > 1 {
        diag = diag.here(format!("{} calls {}", names[0], names[1]));
    }
    for (n, link) in circle.iter().enumerate().skip(1) {
        diag = diag.label(place(*link), format!("{} calls {}", names[n], names[n + 1]));
    }
    diag.help(match circle.len() {
        1 => "a row can't be defined by itself: write its meaning in builtins, or in other rows",
        _ => "give one of them an `expr`, or a body of rows that do not lead back to it",
    })
}
