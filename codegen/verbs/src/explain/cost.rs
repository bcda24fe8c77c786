//! The cost of a gradient on an example: that of the written rule, and that of the gradient without it.
//!
//! Rules and bodies run on types alone. A call of a row counts by its loops: their work
//! ([`Nest::flops`](fulgurite_core::loop_nest::Nest::flops)), and the bytes of the tensors that it reads and makes.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use fulgurite_codegen::check::Resolved;
use fulgurite_codegen::check::cases::{self, Case};
use fulgurite_codegen::check::expanded::{self, Expanded, Look, Marked, Results};
use fulgurite_codegen::check::rows::RowSet;
use fulgurite_codegen::check::rules;
use fulgurite_core::derive;
use fulgurite_core::eval::tensor;
use fulgurite_core::lang::Block;
use fulgurite_core::lower::{Rows, lower_with};
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::signature::{ArgTy, OutTy, Refusal, Solved};
use fulgurite_core::{DType, Name, Named, TensorTy, Value};
use serde_json::json;

/// Factors of the sizes in the family of cases; the largest one that the row accepts is used.
const LARGER: [i64; 4] = [32, 8, 2, 1];

/// The least number of elements of the argument before scaling.
const SMALLEST: usize = 6;

/// Operations per element of a row with a handwritten kernel, whose algorithm beats the loops of the row.
const BY_HAND: u64 = 4;

/// The cost of a computation: operations, bytes read and written, and calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Operations on elements.
    pub flops: u64,
    /// Bytes of all tensors that calls read or make.
    pub bytes: u64,
    /// Calls.
    pub lines: u64,
}

/// The cost of a written rule, and of its alternative.
#[derive(Clone, Debug)]
pub struct Costs {
    /// The call: `x: f32[64, 96], dim = 0`.
    pub example: String,
    /// The written rule.
    pub written: Cost,
    /// The cost without the rule; `None` if no other gradient exists.
    pub without: Option<Cost>,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = if self.lines == 1 { "line" } else { "lines" };
        write!(f, "{} flops, {} bytes in {} {lines}", short(self.flops), short(self.bytes), self.lines)
    }
}

/// Three digits: `12.3 k`.
fn short(n: u64) -> String {
    match n {
        0..10_000 => n.to_string(),
        10_000..10_000_000 => format!("{:.1} k", n as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} M", n as f64 / 1e6),
        _ => format!("{:.1} G", n as f64 / 1e9),
    }
}

impl Costs {
    /// The costs as a JSON object.
    pub fn json(&self) -> serde_json::Value {
        let one = |cost: Cost| json!({"flops": cost.flops, "bytes": cost.bytes, "lines": cost.lines});
        json!({"example": self.example, "written": one(self.written), "without": self.without.map(one)})
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let without = self.without.map_or("nothing to compare with".to_owned(), |cost| cost.to_string());
        write!(f, "for {}: {}; without it {without}", self.example, self.written)
    }
}

/// The costs of `arg`'s written gradient; `None` if no example is accepted. `by_hand` says which rows have handwritten
/// kernels.
pub fn costs(
    row: &Arc<Row>,
    arg: Name,
    rule: &Block,
    rows: &(dyn Rows + Sync),
    by_hand: &dyn Fn(Name) -> bool,
) -> Option<Costs> {
    let set = RowSet::new(rows, [], &[]);
    let at = row.sig.params.iter().position(|param| param.name.name == arg)?;
    let case = example(row, at)?;
    let mut names = rules::names(row, &case, &set);
    names.extend([(Name::new("t"), case.args.get(at)?.clone())]);
    let written = of_rule(&set, by_hand, (row, rule), &case, &names)?;
    let mut bare = Row::clone(row);
    bare.vjp.retain(|(of, _)| *of != arg);
    let bare = Arc::new(bare);
    let derived = derive::derive(&bare, &set);
    let without = match derived.rule(arg) {
        Some(rule) => {
            let own = derived.rows.iter().cloned().map(Arc::new);
            let with = RowSet::new(rows, own, &[]);
            of_rule(&with, by_hand, (row, rule), &case, &names)
        }
        None => match &row.meaning {
            Meaning::Decomp(body) => backward(&set, by_hand, (row, body), &case, at),
            _ => None,
        },
    };
    Some(Costs { example: case.show(row), written, without })
}

/// The cost of a call: that of its loops, or of all calls of its program. `None` if the program cannot be followed.
pub fn of_call(row: &Row, case: &Case, rows: &RowSet) -> Option<Cost> {
    match &row.meaning {
        Meaning::Decomp(body) => of_rule(rows, &|_| false, (row, body), case, &[]),
        _ => own(row, &case.solved, rows, false).ok(),
    }
}

/// A call in which argument `at` is present and nonempty, with sizes large enough that work dominates overhead.
fn example(row: &Row, at: usize) -> Option<Case> {
    let whole = |case: &&Case| {
        let elements: usize = case.args.get(at)?.tensors().map(TensorTy::numel).sum();
        (elements >= SMALLEST).then(|| case.numel())
    };
    let family = cases::family(row, DType::F32);
    let given = |case: &Case| case.args.iter().filter(|arg| !arg.is_absent()).count();
    let large = family.cases.iter().filter_map(|case| Some((case, whole(&case)?)));
    let flat = |case: &Case| {
        let dtypes = case.args.iter().filter(|arg| matches!(arg, Value::DType(_))).count();
        let axes = case.args.iter().flat_map(Value::tensors).flat_map(|t| &t.shape);
        dtypes + axes.filter(|d| d.value() < 2).count()
    };
    // Prefers a matrix or the like: no axis of size 1, no other dtype, all optional arguments, and no more axes than
    // needed.
    let key = |(case, elements): &(&Case, usize)| (flat(case), std::cmp::Reverse(given(case)), *elements);
    let (base, _) = large.min_by_key(key)?;
    LARGER.iter().find_map(|factor| base.grown(row, *factor, true))
}

/// A call of a row that has a gradient rule.
struct Line {
    row: Arc<Row>,
    case: Case,
    /// The arguments that depend on the differentiated one.
    moving: Vec<usize>,
}

/// Counts the calls of a program. The mark of a value tells whether it depends on the differentiated argument.
struct Counter<'a> {
    by_hand: &'a dyn Fn(Name) -> bool,
    cost: Cost,
    /// Collects the lines of a body instead of counting, if there is a list.
    lines: Option<Vec<Line>>,
}

/// The cost of running a rule.
fn of_rule(
    rows: &RowSet,
    by_hand: &dyn Fn(Name) -> bool,
    (row, rule): (&Row, &Block),
    case: &Case,
    names: &[Named<ArgTy>],
) -> Option<Cost> {
    let mut calls = Expanded::new(rows, Counter { by_hand, cost: Cost::default(), lines: None });
    calls.follow(row, rule, &case.solved, &case.args, names).ok()?;
    Some(calls.look.cost)
}

/// The cost of the gradients of a body's lines, for argument `at`.
fn backward(
    rows: &RowSet,
    by_hand: &dyn Fn(Name) -> bool,
    (row, body): (&Row, &Block),
    case: &Case,
    at: usize,
) -> Option<Cost> {
    let mut calls = Expanded::new(rows, Counter { by_hand, cost: Cost::default(), lines: Some(Vec::new()) });
    let mark = |(n, value): (usize, &Value<ArgTy>)| value.map(&mut |ty| Marked { ty: ty.clone(), mark: n == at });
    let args: Vec<Value<Marked<bool>>> = case.args.iter().enumerate().map(mark).collect();
    tensor::run(&mut calls, row, body, &case.solved, &args, &[]).ok()?;
    let mut total = Cost::default();
    let mut known: HashMap<Name, derive::Derived> = HashMap::new();
    for line in calls.look.lines.iter().flatten() {
        let derived = known.entry(line.row.op).or_insert_with(|| derive::derive(&line.row, rows));
        let own = derived.rows.iter().cloned().map(Arc::new);
        let with = RowSet::new(rows, own, &[]);
        for at in &line.moving {
            let name = line.row.sig.params[*at].name.name;
            let written = line.row.vjp.iter().find(|(of, _)| *of == name).map(|(_, rule)| rule);
            let Some(rule) = written.or_else(|| derived.rule(name)) else { continue };
            let names = rules::names(&line.row, &line.case, &with);
            total = total.plus(of_rule(&with, by_hand, (&line.row, rule), &line.case, &names)?);
        }
    }
    Some(total)
}

impl Look for Counter<'_> {
    type Mark = bool;
    type Halt = Refusal;

    /// A row with a rule of its own is one line of the backward.
    fn enters(&self, of: &Resolved) -> bool {
        self.lines.is_none() || of.row.vjp.is_empty()
    }

    fn loops(&mut self, rows: &RowSet, of: &Resolved, args: &[Value<Marked<bool>>]) -> Results<Self> {
        let (row, solved) = (&of.row, &of.solved);
        let moves = |value: &Value<Marked<bool>>| {
            let mut any = false;
            value.for_each(&mut |v| any |= v.mark);
            any
        };
        let moving: Vec<usize> = (0..row.sig.params.len()).filter(|at| args.get(*at).is_some_and(moves)).collect();
        let moved = !moving.is_empty() && row.op != "detach" && row.no_grad.is_none();
        let is_float = |ty: &ArgTy| matches!(ty, ArgTy::Tensor(t) if t.dtype.is_float());
        let results = expanded::promised(rows, of, args, |ty| moved && is_float(ty));
        match &mut self.lines {
            None => self.cost = self.cost.plus(own(row, solved, rows, (self.by_hand)(row.op))?),
            Some(lines) if moved => {
                let args = args.iter().map(|arg| arg.map(&mut |v| v.ty.clone())).collect();
                lines.push(Line { row: row.clone(), case: Case { args, solved: solved.clone() }, moving });
            }
            Some(_) => {}
        }
        Ok(results)
    }
}

impl Cost {
    fn plus(self, other: Cost) -> Cost {
        Cost {
            flops: self.flops.saturating_add(other.flops),
            bytes: self.bytes.saturating_add(other.bytes),
            lines: self.lines + other.lines,
        }
    }
}

/// The cost of one call of a row without a program. A view moves no bytes.
fn own(row: &Row, solved: &Solved, rows: &RowSet, by_hand: bool) -> Result<Cost, Refusal> {
    let bytes = |t: &TensorTy| (t.numel() as u64).saturating_mul(t.dtype.size() as u64);
    let read: u64 = solved.env.slots.iter().flatten().map(bytes).sum();
    let moved = read + solved.outs.iter().flat_map(OutTy::tensors).map(bytes).sum::<u64>();
    let Some(body) = row.index_body() else { return Ok(Cost { flops: 0, bytes: moved, lines: 1 }) };
    if matches!(row.meaning, Meaning::View(_)) {
        return Ok(Cost { lines: 1, ..Cost::default() });
    }
    let nest = lower_with(row, body, solved, rows)?;
    let elements = || nest.outs.iter().map(|out| out.shape.iter().fold(1u64, |n, d| n.saturating_mul(d.len() as u64)));
    let flops = match by_hand {
        true => elements().fold(0, |n: u64, of| n.saturating_add(of.saturating_mul(BY_HAND))),
        false => nest.flops() as u64,
    };
    Ok(Cost { flops, bytes: moved, lines: 1 })
}
