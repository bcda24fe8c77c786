//! Calls with data for the tests of a package, drawn as the checks of rows draw them and written as Python.

use super::operator::identifier;
use fulgurite_codegen::check::cases::{Case, family};
use fulgurite_codegen::check::gradients::arrays::dense::{Library, V};
use fulgurite_codegen::check::gradients::samples;
use fulgurite_codegen::check::points;
use fulgurite_codegen::check::rows::RowSet;
use fulgurite_codegen::schema::RowSource;
use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::row::Row;
use fulgurite_core::signature::ArgTy;
use fulgurite_core::{DType, Scalar, Value};
use std::fmt::Write;

/// The calls of a row in the tests: enough for absent and given options, few enough for 500 rows in five minutes.
const CALLS: usize = 3;
/// The most elements of a call's arguments and of its results, because each is moved by the checks of gradients; a row
/// that needs more gets calls up to twice its smallest.
const ELEMENTS: usize = 48;

/// Up to three calls of a row, as the keyword arguments of its Python function: `dict(x=t("f64", [2], [0.5, 1.5]))`.
pub fn drawn(source: &RowSource, row: &Row, set: &RowSet<'_>) -> Vec<String> {
    arguments(source, row, set, CALLS, |args| written(row, args))
}

/// The arguments of up to `most` calls of a row, in the order of its signature; each is passed through `of`, and left out
/// where that gives none.
pub fn arguments<R>(
    source: &RowSource,
    row: &Row,
    set: &RowSet<'_>,
    most: usize,
    of: impl Fn(&[Value<V<f64>>]) -> Option<R>,
) -> Vec<R> {
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
    cases.retain(|case| size(case) <= ELEMENTS.max(2 * least));
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
            of(&instance.args)
        });
        calls.extend(drawn);
    }
    if calls.is_empty() {
        // data that are drawn do not meet what the row asks of elements
        calls.extend(points::arguments(source, row).filter_map(|args| of(&args)).take(most));
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

fn written(row: &Row, args: &[Value<V<f64>>]) -> Option<String> {
    let names = row.sig.params.iter().map(|p| p.name.name).chain(row.sig.opts.iter().map(|o| o.name.name));
    let mut text = String::new();
    for (name, arg) in names.zip(args) {
        if arg.is_absent() {
            continue;
        }
        let comma = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{comma}\"{}\": {}", identifier(name.as_str()), value(arg)?);
    }
    Some(format!("{{{text}}}"))
}

fn value(arg: &Value<V<f64>>) -> Option<String> {
    Some(match arg {
        Value::Tensor(V::Array(array)) => tensor(array)?,
        Value::Tensor(V::Key([seed, stream])) => format!("t(\"i64\", [2], [{seed}, {stream}])"),
        Value::Num(Scalar::Bool(b)) => if *b { "True" } else { "False" }.to_owned(),
        Value::Num(Scalar::Int(i)) => i.to_string(),
        Value::Num(Scalar::Float(x)) => float(*x),
        Value::DType(d) => format!("dtype(\"{}\")", d.name()),
        Value::Word(w) => format!("\"{w}\""),
        Value::Str(s) => format!("{s:?}"),
        Value::Size(d) => d.value().to_string(),
        Value::List(items) => {
            let items = items.iter().map(value).collect::<Option<Vec<_>>>()?;
            format!("[{}]", items.join(", "))
        }
        Value::Absent => "None".to_owned(),
        Value::Type(_) => return None,
    })
}

/// A tensor; none of a dtype that other frameworks do not have.
fn tensor(array: &Array<f64>) -> Option<String> {
    use DType::{F4E2M1FN, I2, I4, U2, U4, U4X2};
    if matches!(array.dtype, U4X2 | I2 | U2 | I4 | U4 | F4E2M1FN) {
        return None;
    }
    let elements: Vec<String> = match &array.data {
        Data::Float(data) => data.iter().map(|x| float(*x)).collect(),
        Data::Int(data) => data.iter().map(i64::to_string).collect(),
    };
    Some(format!("t(\"{}\", {:?}, [{}])", array.dtype.name(), array.shape, elements.join(", ")))
}

fn float(x: f64) -> String {
    if x.is_finite() { format!("{x:?}") } else { format!("float(\"{x}\")") }
}
