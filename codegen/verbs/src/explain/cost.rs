//! The cost of a gradient on an example: that of the written rule, and that of the gradient without it.
//!
//! Rules and bodies run on types alone. A call of a row counts by its loops: their work
//! ([`Nest::flops`](fulgurite_core::loop_nest::Nest::flops)), and the bytes of the tensors that it reads and makes.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use fulgurite_codegen::check::cases::{self, Case};
use fulgurite_codegen::check::rows::{RowSet, ty as same};
use fulgurite_codegen::check::rules;
use fulgurite_core::derive;
use fulgurite_core::eval::tensor::{self, Machine};
use fulgurite_core::lang::{Block, OptType};
use fulgurite_core::lower::{Rows, lower_with};
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::signature::{self, ArgTy, OutTy, Refusal, Solved};
use fulgurite_core::{DType, Dim, Name, TensorTy, Value};
use serde_json::json;

/// The limit of nested calls of rows.
const DEEPEST: usize = 24;

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
    let written = Counter::new(&set, by_hand).rule(row, rule, &case, &names).ok()?;
    let mut bare = Row::clone(row);
    bare.vjp.retain(|(of, _)| *of != arg);
    let bare = Arc::new(bare);
    let derived = derive::derive(&bare, &set);
    let without = match derived.rule(arg) {
        Some(rule) => {
            let own = derived.rows.iter().cloned().map(Arc::new);
            let with = RowSet::new(rows, own, &[]);
            Counter::new(&with, by_hand).rule(row, rule, &case, &names).ok()
        }
        None => match &row.meaning {
            Meaning::Decomp(body) => Counter::new(&set, by_hand).backward(row, body, &case, at).ok(),
            _ => None,
        },
    };
    Some(Costs { example: case.show(row), written, without })
}

/// A call in which argument `at` is present and nonempty, with sizes large enough that work dominates overhead.
fn example(row: &Row, at: usize) -> Option<Case> {
    let whole = |case: &&Case| {
        let mut elements = 0;
        case.args.get(at)?.for_each(&mut |ty| {
            if let ArgTy::Tensor(t) = ty {
                elements += t.numel();
            }
        });
        (elements >= SMALLEST).then(|| case.numel())
    };
    let family = cases::family(row, DType::F32);
    let given = |case: &Case| case.args.iter().filter(|arg| !arg.is_absent()).count();
    let large = family.cases.iter().filter_map(|case| Some((case, whole(&case)?)));
    let flat = |case: &Case| {
        let mut flat = case.args.iter().filter(|arg| matches!(arg, Value::DType(_))).count();
        let count = &mut |ty: &ArgTy| {
            if let ArgTy::Tensor(t) = ty {
                flat += t.shape.iter().filter(|d| d.value() < 2).count();
            }
        };
        case.args.iter().for_each(|arg| arg.for_each(count));
        flat
    };
    // Prefers a matrix or the like: no axis of size 1, no other dtype, all optional arguments, and no more axes than
    // needed.
    let key = |(case, elements): &(&Case, usize)| (flat(case), std::cmp::Reverse(given(case)), *elements);
    let (base, _) = large.min_by_key(key)?;
    LARGER.iter().find_map(|factor| {
        let mut args: Vec<Value<ArgTy>> = base.args.iter().map(|arg| grown(arg, *factor)).collect();
        for (opt, value) in row.sig.opts.iter().zip(args.iter_mut().skip(row.sig.params.len())) {
            if let (OptType::Shape { .. } | OptType::Size(_), Some(sizes)) = (&opt.ty, value.as_dims()) {
                let mut long = sizes.iter().map(|d| Value::size(longer(d, *factor)));
                *value = if matches!(value, Value::List(_)) {
                    Value::List(long.collect())
                } else {
                    long.next_back().unwrap_or(Value::Absent)
                };
            }
        }
        let solved = signature::solve_types(row, &args).ok()?;
        Some(Case { args, solved })
    })
}

/// The argument with every axis longer than 1 scaled by `factor`.
fn grown(arg: &Value<ArgTy>, factor: i64) -> Value<ArgTy> {
    arg.map(&mut |ty| match ty {
        ArgTy::Tensor(t) => {
            ArgTy::Tensor(TensorTy { dtype: t.dtype, shape: t.shape.iter().map(|d| longer(d, factor)).collect() })
        }
        other => other.clone(),
    })
}

fn longer(d: &Dim, factor: i64) -> Dim {
    if d.value() > 1 { Dim::from(d.value() * factor) } else { *d }
}

/// The type of a value, and whether it depends on the differentiated argument.
#[derive(Clone, Debug)]
struct Typed(ArgTy, bool);

/// A call of a row that has a gradient rule.
struct Line {
    row: Arc<Row>,
    case: Case,
    /// The arguments that depend on the differentiated one.
    moving: Vec<usize>,
}

struct Counter<'a> {
    rows: &'a RowSet<'a>,
    by_hand: &'a dyn Fn(Name) -> bool,
    depth: usize,
    cost: Cost,
    lines: Vec<Line>,
    /// Whether lines are collected instead of counted.
    backward: bool,
}

impl<'a> Counter<'a> {
    fn new(rows: &'a RowSet<'a>, by_hand: &'a dyn Fn(Name) -> bool) -> Counter<'a> {
        Counter { rows, by_hand, depth: 0, cost: Cost::default(), lines: Vec::new(), backward: false }
    }

    /// The cost of running a rule.
    fn rule(mut self, row: &Row, rule: &Block, case: &Case, names: &[(Name, Value<ArgTy>)]) -> Result<Cost, Refusal> {
        let still = |value: &Value<ArgTy>| value.map(&mut |ty| Typed(ty.clone(), false));
        let args: Vec<Value<Typed>> = case.args.iter().map(still).collect();
        let names: Vec<(Name, Value<Typed>)> = names.iter().map(|(name, value)| (*name, still(value))).collect();
        tensor::run(&mut self, row, rule, &case.solved, &args, &names)?;
        Ok(self.cost)
    }

    /// The cost of the gradients of a body's lines, for argument `at`.
    fn backward(mut self, row: &Row, body: &Block, case: &Case, at: usize) -> Result<Cost, Refusal> {
        self.backward = true;
        let mark = |(n, value): (usize, &Value<ArgTy>)| value.map(&mut |ty| Typed(ty.clone(), n == at));
        let args: Vec<Value<Typed>> = case.args.iter().enumerate().map(mark).collect();
        tensor::run(&mut self, row, body, &case.solved, &args, &[])?;
        let mut total = Cost::default();
        let mut known: HashMap<Name, derive::Derived> = HashMap::new();
        for line in &self.lines {
            let derived = known.entry(line.row.op).or_insert_with(|| derive::derive(&line.row, self.rows));
            let own = derived.rows.iter().cloned().map(Arc::new);
            let with = RowSet::new(self.rows, own, &[]);
            for at in &line.moving {
                let name = line.row.sig.params[*at].name.name;
                let written = line.row.vjp.iter().find(|(of, _)| *of == name).map(|(_, rule)| rule);
                let Some(rule) = written.or_else(|| derived.rule(name)) else { continue };
                let names = rules::names(&line.row, &line.case, &with);
                let cost = Counter::new(&with, self.by_hand).rule(&line.row, rule, &line.case, &names)?;
                total = total.plus(cost);
            }
        }
        Ok(total)
    }

    fn made(&mut self, row: &Arc<Row>, solved: Solved, args: &[Value<Typed>]) -> Result<Vec<Value<Typed>>, Refusal> {
        let moves = |value: &Value<Typed>| {
            let mut any = false;
            value.for_each(&mut |v: &Typed| any |= v.1);
            any
        };
        let moving: Vec<usize> = (0..row.sig.params.len()).filter(|at| args.get(*at).is_some_and(moves)).collect();
        // A row with a rule of its own is one line of the backward.
        let whole = self.backward && !row.vjp.is_empty();
        if let (Meaning::Decomp(body), false) = (&row.meaning, whole) {
            if self.depth > DEEPEST {
                return Err(Refusal::new("E010", format!("`{}` is called too deep", row.op)));
            }
            self.depth += 1;
            let results = tensor::run(self, row, body, &solved, args, &[]);
            self.depth -= 1;
            let mut results = results?;
            results.truncate(row.sig.outs.len());
            return Ok(results);
        }
        let moved = !moving.is_empty() && row.op != "detach" && row.no_grad.is_none();
        let one = |t: &TensorTy| Value::Tensor(Typed(ArgTy::Tensor(t.clone()), moved && t.dtype.is_float()));
        let results = solved.outs.iter().map(|out| match out {
            OutTy::Tensor(t) => Ok(one(t)),
            OutTy::List(ts) => Ok(Value::List(ts.iter().map(one).collect())),
            OutTy::FromBody => Err(Refusal::new("E706", format!("the results of `{}` can't be told", row.op))),
        });
        let results: Vec<Value<Typed>> = results.collect::<Result<_, _>>()?;
        if self.backward {
            let types = args.iter().map(|arg| arg.map(&mut |v: &Typed| v.0.clone())).collect();
            if moved {
                self.lines.push(Line { row: row.clone(), case: Case { args: types, solved }, moving });
            }
            return Ok(results);
        }
        self.cost = self.cost.plus(own(row, &solved, self.rows, (self.by_hand)(row.op))?);
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
    let made = solved.outs.iter().map(|out| match out {
        OutTy::Tensor(t) => bytes(t),
        OutTy::List(ts) => ts.iter().map(bytes).sum(),
        OutTy::FromBody => 0,
    });
    let moved = read + made.sum::<u64>();
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

impl Machine for Counter<'_> {
    type V = Typed;
    type Error = Refusal;

    fn call(
        &mut self,
        op: Name,
        positional: Vec<Value<Typed>>,
        named: Vec<(Name, Value<Typed>)>,
    ) -> Result<Vec<Value<Typed>>, Refusal> {
        let mut first = None;
        for row in self.rows.candidates(op) {
            let accepted = signature::arrange(&row, positional.clone(), named.clone())
                .and_then(|args| signature::solve(&row, &args, &|v: &Typed| same(&v.0)).map(|solved| (args, solved)));
            match accepted {
                Ok((args, solved)) => return self.made(&row, solved, &args),
                Err(refusal) => _ = first.get_or_insert(refusal),
            }
        }
        Err(first.unwrap_or_else(|| Refusal::new("E007", format!("there is no row `{op}`"))))
    }

    fn ty(&self, v: &Typed) -> ArgTy {
        v.0.clone()
    }

    fn write(&mut self, _: Name, _: Value<Typed>) -> Result<(), Refusal> {
        Ok(())
    }
}
