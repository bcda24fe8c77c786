//! E208 of programs: between its lines a program holds values in the dtype of its arguments. A number that meets them
//! may be 0 or infinite there, though single expressions compute in f32.

use std::cell::RefCell;
use std::sync::Arc;

use fulgurite_core::builtins::cast_f64;
use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::lang::{Block, Node, Opt};
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::signature::{self, ArgTy, Env, Solved, const_eval};
use fulgurite_core::{DType, Scalar, Value};
use rustc_hash::FxHashSet;

use super::cases::{self, Case};
use super::gradient_rules::{self, Declared};
use super::gradients::arrays::dense::{Dense, Library, V};
use super::machine::Types;
use super::report;
use super::rows::RowSet;
use super::{rules, thresholds, walk};
use crate::diag::Diag;
use crate::schema::RowSource;
use crate::yaml::Text;
use fulgurite_core::foreign::is_alias;

/// At most this many calls of a row are followed. Calls that differ in presence and words come first, because these
/// decide which branches are taken.
const CALLS: usize = 24;

/// Elements of tensors at a line: the least and the largest of f16, and some between them.
const HELD: [f64; 9] = [0.0, 1.0, -0.5, 6e-8, -6e-8, 1e-3, 65504.0, -65504.0, 300.0];

/// The first number in the body or a rule of a program that a line loses in an accepted dtype.
pub fn check(source: &RowSource, row: &Arc<Row>, set: &RowSet) -> Option<Diag> {
    let accepted = row.dtypes.as_ref().and_then(|e| const_eval::dtype_set(&Env::default(), e).ok());
    let takes = |dtype: &DType| accepted.is_none_or(|set| set.contains(*dtype));
    let halves: Vec<DType> = [DType::F16, DType::BF16].into_iter().filter(takes).collect();
    let body = match &row.meaning {
        Meaning::Decomp(body) => report::body(source).map(|(_, text)| (text, body, None)),
        _ => None,
    };
    let rules = gradient_rules::of(source).into_iter().map(|rule| (&rule.rule.text, &rule.rule.tree, Some(rule)));
    body.into_iter().chain(rules).find_map(|(text, block, of)| {
        // an option that a rule passes on is a number of the value, whose own check covers it
        let numbers = numbers(if of.is_none() { &row.sig.opts } else { &[] }, row, block);
        halves.iter().find_map(|dtype| {
            let lost: Vec<f64> = numbers.iter().copied().filter(|x| is_lost(*x, *dtype)).collect();
            if lost.is_empty() { None } else { lines(source, row, set, (text, block, of.as_ref()), *dtype, &lost) }
        })
    })
}

/// The fault of the first line of a text, perhaps of a rule, that loses one of these numbers in `dtype`.
fn lines(
    source: &RowSource,
    row: &Arc<Row>,
    set: &RowSet,
    (text, block, of): (&Text, &Block, Option<&Declared>),
    dtype: DType,
    lost: &[f64],
) -> Option<Diag> {
    let found = RefCell::new(None);
    let watch = |called: &Row, solved: &Solved, args: &[Value<ArgTy>]| {
        let number = number(called, solved, args, dtype, lost, set);
        if let Some(number) = number {
            found.borrow_mut().get_or_insert((called.op, number));
        }
        number.is_some()
    };
    let family = cases::family(row, dtype);
    let mut kinds = FxHashSet::default();
    let (first, others): (Vec<&Case>, Vec<&Case>) =
        family.cases.iter().filter(|case| case.numel() > 0).partition(|case| kinds.insert(case.kind()));
    let (fault, case) = first.into_iter().chain(others).take(CALLS).find_map(|case| {
        let case = Case::of(row, without_numbers(row, &case.args))?;
        let names = of.map_or_else(Vec::new, |of| rules::names_of(row, &case, set, of));
        let fault = Types::new(set).watching(&watch).run(row, block, &case.solved, &case.args, &names).err()?;
        found.borrow().is_some().then_some((fault, case))
    })?;
    let (called, number) = found.take()?;
    let place = fault.at.map_or(text.place, |span| text.at(span));
    let message = format!("`{}` gives {number} to `{called}`, whose result is {dtype}", source.op.as_str());
    let diag = Diag::error("E208", place, message);
    let diag = diag.here(format!("as {dtype} this number becomes {}", cast_f64(number, dtype)));
    let help = match number.abs() < 1.0 {
        true => {
            "compute this line in `acc(T)`, `x as acc(T)`, and cast the result; or let the number follow from the dtype: `epsilon(T)`"
        }
        false => {
            "compute this line in `acc(T)`, `x as acc(T)`, and cast the result; or write a number that the dtype holds"
        }
    };
    Some(diag.note(format!("for {}", case.show(row))).help(help))
}

/// Whether a finite number other than 0 becomes 0 or infinite in this dtype.
fn is_lost(x: f64, dtype: DType) -> bool {
    let held = cast_f64(x, dtype).as_f64();
    x != 0.0 && x.is_finite() && (held == 0.0 || held.is_infinite())
}

/// The numbers in a text, and the defaults of these options.
fn numbers(opts: &[Opt], row: &Row, text: &Block) -> Vec<f64> {
    let mut found = Vec::new();
    walk::block(text, &mut |e| match &*e.node {
        Node::Float(x) => found.push(*x),
        Node::Int(i) => found.push(*i as f64),
        _ => {}
    });
    // the defaults of an alias row are the other library's, and the row means whatever becomes of them there
    let opts = if is_alias(row.op.as_str()) { &[] } else { opts };
    let defaults = opts.iter().filter_map(|opt| thresholds::literal(opt.default.as_ref()?));
    found.extend(defaults.map(Scalar::as_f64));
    found
}

/// A call with every number at its default. Only defaults are judged, because callers choose other numbers themselves.
fn without_numbers(row: &Row, args: &[Value<ArgTy>]) -> Vec<Value<ArgTy>> {
    let first = row.sig.params.len();
    let mut args = args.to_vec();
    for (at, opt) in row.sig.opts.iter().enumerate() {
        if opt.default.is_some() && matches!(args[first + at], Value::Num(Scalar::Float(_) | Scalar::Int(_))) {
            args[first + at] = Value::Absent;
        }
    }
    args
}

/// The first number among the arguments of a call in `dtype` that the call loses: its results stay the same with the
/// number as `dtype` holds it, 0 or infinity.
fn number(row: &Row, solved: &Solved, args: &[Value<ArgTy>], dtype: DType, lost: &[f64], set: &RowSet) -> Option<f64> {
    let narrow = |out: &signature::OutTy| matches!(out, signature::OutTy::Tensor(t) if t.dtype == dtype);
    if !solved.outs.iter().all(narrow) {
        return None;
    }
    (0..args.len()).find_map(|at| {
        let Value::Num(given) = &args[at] else { return None };
        let x = given.as_f64();
        let held = cast_f64(x, dtype).as_f64();
        if !lost.iter().any(|known| known.abs() == x.abs()) {
            return None;
        }
        let with = |x: f64| {
            let mut args = args.to_vec();
            args[at] = Value::Num(Scalar::Float(x));
            args
        };
        let (without, other) = (with(held), with(0.5));
        let library = Library::new(set);
        let mut matters = false;
        let same = (0..=HELD.len()).try_fold((), |(), turn| {
            let run = |args: &[Value<ArgTy>]| {
                let solved = signature::accepted(row, args)?;
                let data: Vec<_> = args.iter().map(|arg| arg.map(&mut |ty| filled(ty, turn))).collect();
                let results = Dense::new(&library).meaning(row, &solved, &data).ok()?;
                let mut elements: Vec<f64> = Vec::new();
                results.iter().take(row.sig.outs.len()).for_each(|value| {
                    value.for_each(&mut |v| {
                        if let V::Array(a) = v
                            && let Data::Float(x) = &a.data
                        {
                            elements.extend(x);
                        }
                    });
                });
                Some(elements)
            };
            // a call that can't be run shows nothing
            let (with, without) = (run(args)?, run(&without)?);
            let bits = |x: &f64| cast_f64(*x, dtype).as_f64().to_bits();
            let equal = |a: &[f64], b: &[f64]| a.iter().map(bits).eq(b.iter().map(bits));
            matters = matters || run(&other).is_some_and(|other| !equal(&other, &with));
            (!with.is_empty() && equal(&with, &without)).then_some(())
        });
        // a number in a branch that is not taken does not matter
        same.filter(|()| matters).map(|()| x)
    })
}

/// A tensor filled with one of the numbers, or in the last turn with all of them.
fn filled(ty: &ArgTy, turn: usize) -> V<f64> {
    let ArgTy::Tensor(t) = ty else { return V::Key([7, 11]) };
    let shape: Vec<usize> = t.sizes().to_vec();
    let count: usize = shape.iter().product();
    let each = |i: usize| HELD.get(turn).copied().unwrap_or(HELD[i % HELD.len()]);
    V::Array(Arc::new(match t.dtype.is_float() {
        true => Array::float(t.dtype, &shape, (0..count).map(each).collect()),
        false => Array::int(t.dtype, &shape, (0..count).map(|i| ((i + turn) % 2) as i64).collect()),
    }))
}
