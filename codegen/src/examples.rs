//! Calls of rows with data, for tests in packages and for examples in documentation: drawn as the checks of rows draw
//! them, or the row's own points.

use crate::check::cases::{Case, family};
use crate::check::gradients::arrays::dense::{Dense, Library, V, ty};
use crate::check::gradients::samples;
use crate::check::points;
use crate::check::rows::RowSet;
use crate::emit::Emitted;
use crate::emit::examples::{CallExample, ExampleTensor};
use crate::parallel;
use crate::pipeline::Compiled;
use crate::schema::RowSource;
use fulgurite_core::eval::loop_nest::Array;
use fulgurite_core::row::Row;
use fulgurite_core::signature::{self, ArgTy, OutTy};
use fulgurite_core::{DType, Name, Scalar, Value};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The most elements of the arguments and of the results of an example, because people read it; a row that needs more
/// gets a call of up to twice its smallest.
const SHOWN: usize = 16;
/// At most this many calls of a row are tried as its example.
const TRIED: usize = 12;

/// The arguments of a call: one value for each parameter and option.
pub type CallArguments = Vec<Value<V<f64>>>;

/// Up to `most` calls of a row with at most `elements` elements, in the form that `write` gives them; those for which it
/// has none are passed over. Calls of different forms come first. If none can be drawn, they are those of the points.
pub fn drawn<T>(
    source: &RowSource,
    row: &Row,
    set: &RowSet<'_>,
    (most, elements): (usize, usize),
    write: impl Fn(&[Value<V<f64>>]) -> Option<T>,
) -> Vec<T> {
    let Some(dtype) = dtype(row) else { return Vec::new() };
    let library = Library::new(set);
    let own = samples::stated(source);
    let compared = samples::compared(row, &[]);
    let family = family(row, dtype);
    let params = row.sig.params.len();
    let fits = |case: &&Case| {
        let tensors = case.args.iter().take(params).all(|arg| !matches!(arg, Value::Num(_)));
        // a row may state the numbers for which an option is meant, too
        let stated = row.sig.opts.iter().zip(case.args.iter().skip(params)).all(|(o, arg)| {
            let domain = own.iter().find(|(name, _)| *name == o.name.name);
            domain.is_none_or(|(_, (lo, hi))| !matches!(arg, Value::Num(n) if !(*lo..=*hi).contains(&n.as_f64())))
        });
        tensors && stated && case.results() > 0 && case.args.iter().all(is_full)
    };
    let size = |case: &Case| case.numel().max(case.results());
    let mut cases: Vec<&Case> = family.cases.iter().filter(fits).collect();
    let least = cases.iter().map(|case| size(case)).min().unwrap_or(0);
    cases.retain(|case| size(case) <= elements.max(2 * least));
    let mut kinds: Vec<String> = Vec::new();
    let mut calls = Vec::new();
    // calls of another form first, then any
    let is_new = |case: &&Case| {
        let kind = case.kind();
        let new = !kinds.contains(&kind);
        kinds.push(kind);
        new
    };
    let (first, rest): (Vec<&Case>, Vec<&Case>) = cases.into_iter().partition(is_new);
    for (n, case) in first.into_iter().chain(rest).enumerate() {
        if calls.len() == most {
            break;
        }
        let drawn = samples::domains(&own, &compared, 2 * n + 1).find_map(|domain| {
            let instance = samples::draw(&library, row, case, &domain, 2 * n as u64, &|_| true)?;
            write(&instance.args)
        });
        calls.extend(drawn);
    }
    if calls.is_empty() {
        // random data do not meet the conditions of a row on elements
        calls.extend(points::arguments(source, row).filter_map(|args| write(&args)).take(most));
    }
    calls
}

/// The dtype of the calls: f64 if the row takes it, because gradients are compared in it.
fn dtype(row: &Row) -> Option<DType> {
    let taken = samples::taken(row)?;
    let wanted = [DType::F64, DType::F32, DType::I64, DType::Bool, DType::U8];
    wanted.into_iter().find(|dtype| taken.contains(*dtype)).or_else(|| taken.iter().next())
}

/// Whether every tensor has elements.
fn is_full(arg: &Value<ArgTy>) -> bool {
    let mut full = true;
    arg.for_each(&mut |ty| full &= !matches!(ty, ArgTy::Tensor(t) if t.numel() == 0));
    full
}

impl Compiled {
    /// Adds an example to each of these rows that users call.
    pub fn add_examples(&mut self, wanted: impl Fn(&Emitted) -> bool + Sync) {
        let table = self.table();
        let set = RowSet::new(&table, [], &[]);
        let classes = self.database.classes.iter().flat_map(|class| &class.from);
        let sources: FxHashMap<Name, &RowSource> =
            self.database.rows.iter().chain(classes).map(|source| (source.name(), source)).collect();
        let examples = parallel::map(&self.rows, |emitted| {
            let source = sources.get(&emitted.row.op).filter(|_| emitted.derived_from.is_none() && wanted(emitted))?;
            example(source, emitted, &set)
        });
        for (row, example) in self.rows.iter_mut().zip(examples) {
            row.example = example;
        }
    }
}

/// The first of the row's points, then of drawn calls, that can be written in Rust and has a result to show.
fn example(source: &RowSource, emitted: &Emitted, set: &RowSet<'_>) -> Option<CallExample> {
    let row = &*emitted.row;
    let library = Library::new(set);
    let written = |args: &[Value<V<f64>>]| {
        let example = evaluated(row, args, &library)?;
        example.is_writable(emitted).then_some(example)
    };
    let points = points::arguments(source, row).take(TRIED).filter(|args| elements(args) <= SHOWN);
    let of_points = points.filter_map(|args| written(&args)).next();
    let of_points = of_points.or_else(|| drawn(source, row, set, (1, SHOWN), written).into_iter().next());
    of_points.or_else(|| unevaluated(row, written))
}

/// A call of a row that makes a tensor of a class, whose text the generator does not evaluate.
fn unevaluated(row: &Row, written: impl Fn(&[Value<V<f64>>]) -> Option<CallExample>) -> Option<CallExample> {
    let family = family(row, DType::F32);
    let makes_class = |case: &&Case| case.solved.outs.iter().any(|out| matches!(out, OutTy::FromBody));
    let axes = |case: &Case| case.args.iter().flat_map(Value::tensors).all(|t| t.rank() > 0);
    let few = |case: &&Case| (1..=4 * SHOWN).contains(&case.numel()) && axes(case) && case.args.iter().all(is_full);
    let mut cases: Vec<&Case> = family.cases.iter().filter(makes_class).filter(few).collect();
    cases.sort_by_key(|case| case.numel());
    // a default may need larger sizes than an example has
    let of = |defaults: bool| cases.iter().find_map(|case| written(&plain_arguments(row, case, defaults)?));
    of(true).or_else(|| of(false))
}

/// The arguments of a call with plain elements. With `defaults`, options have their defaults.
fn plain_arguments(row: &Row, case: &Case, defaults: bool) -> Option<CallArguments> {
    let params = row.sig.params.iter().map(|param| (param.name.name, true));
    let needed = row.sig.opts.iter().map(|opt| (opt.name.name, !defaults || opt.default.is_none() && !opt.optional));
    // an option keeps its number
    let option = |n: usize| n >= row.sig.params.len();
    let given = params.chain(needed).zip(&case.args).enumerate();
    let given = given.filter(|(_, ((_, needed), arg))| *needed && !arg.is_absent());
    let value = |n: usize, arg: &Value<ArgTy>| match arg {
        Value::Num(number) if option(n) => Some(Value::Num(*number)),
        arg => filled(arg),
    };
    let named = given.map(|(n, ((name, _), arg))| Some((name, value(n, arg)?))).collect::<Option<Vec<_>>>()?;
    signature::arrange(row, Vec::new(), named).ok()
}

/// An argument of this type with plain elements. A number in place of a tensor becomes one, because fields of classes are
/// tensors.
fn filled(arg: &Value<ArgTy>) -> Option<Value<V<f64>>> {
    if let Value::Num(number) = arg {
        return Some(Value::Tensor(V::Array(Arc::new(Array::from_scalars(DType::F32, &[], [*number])))));
    }
    let mut whole = true;
    let value = arg.map(&mut |ty| match ty {
        ArgTy::Tensor(t) => {
            let shape: Vec<usize> = t.shape.iter().map(|d| d.value().unsigned_abs() as usize).collect();
            let elements = (0..t.numel()).map(|n| Scalar::Int((n as i64 * 5) % 9 - 3));
            V::Array(Arc::new(Array::from_scalars(t.dtype, &shape, elements)))
        }
        ArgTy::Key => V::Key([1, 0]),
        ArgTy::Number(_) => {
            whole = false;
            V::Key([0, 0])
        }
    });
    whole.then_some(value)
}

/// The number of elements of all tensors; one without elements counts as very many, because it shows nothing.
fn elements(args: &[Value<V<f64>>]) -> usize {
    let mut count = 0usize;
    for arg in args {
        arg.for_each(&mut |v| {
            if let V::Array(array) = v {
                count = count.saturating_add(if array.is_empty() { usize::MAX } else { array.len() });
            }
        });
    }
    count
}

/// The call with its results, as the row's text gives them.
fn evaluated(row: &Row, args: &[Value<V<f64>>], library: &Library<'_>) -> Option<CallExample> {
    let solved = signature::solve(row, args, &ty).ok()?;
    // the types of a tensor of a class, and of a list whose length the body decides, are those of the body
    let makes_class = solved.outs.iter().any(|out| matches!(out, OutTy::FromBody));
    let results = match Dense::new(library).meaning(row, &solved, args) {
        Ok(results) => results,
        Err(_) if makes_class => Vec::new(),
        Err(_) => return None,
    };
    let shown = |v: &V<f64>| match v {
        V::Array(array) => ExampleTensor::Array(array.clone()),
        V::Key(key) => ExampleTensor::Key(*key),
    };
    let count = row.sig.outs.len();
    Some(CallExample {
        args: args.iter().map(|arg| arg.map(&mut |v| shown(v))).collect(),
        results: results.iter().take(count).map(|result| result.map(&mut |v| shown(v))).collect(),
    })
}
