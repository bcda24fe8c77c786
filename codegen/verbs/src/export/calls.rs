//! Calls with data for the tests of a package, drawn as the checks of rows draw them and written as Python.

use fulgurite_codegen::check::cases::{Case, family};
use fulgurite_codegen::check::gradients::arrays::dense::{Library, V};
use fulgurite_codegen::check::gradients::samples;
use fulgurite_codegen::check::rows::RowSet;
use fulgurite_codegen::schema::RowSource;
use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::lang::ast::Opt;
use fulgurite_core::row::Row;
use fulgurite_core::signature::ArgTy;
use fulgurite_core::{DType, Scalar, Value};
use std::fmt::Write;

/// The calls of a row in the tests: enough for absent and given options, few enough for 500 rows in five minutes.
const CALLS: usize = 3;
/// The most elements of a call's arguments and of its results, because each is moved by the checks of gradients.
const ELEMENTS: usize = 48;

/// Up to three calls of a row, as the keyword arguments of its Python function: `dict(x=t("f64", [2], [0.5, 1.5]))`.
pub fn drawn(source: &RowSource, row: &Row, set: &RowSet<'_>) -> Vec<String> {
    let Some(dtype) = dtype(row) else { return Vec::new() };
    let library = Library::new(set);
    let own = samples::stated(source);
    let compared = samples::compared(row, &[]);
    let family = family(row, dtype);
    let small = |case: &&Case| {
        let (args, results) = (case.numel(), case.results());
        (1..=ELEMENTS).contains(&args) && (1..=ELEMENTS).contains(&results) && case.args.iter().all(is_full)
    };
    let mut kinds: Vec<String> = Vec::new();
    let mut calls = Vec::new();
    // calls of another form first, then any
    let cases: Vec<&Case> = family.cases.iter().filter(small).collect();
    let is_new = |case: &&Case| {
        let kind = case.kind();
        let new = !kinds.contains(&kind);
        kinds.push(kind);
        new
    };
    let (first, rest): (Vec<&Case>, Vec<&Case>) = cases.into_iter().partition(is_new);
    for (n, case) in first.into_iter().chain(rest).enumerate() {
        if calls.len() == CALLS {
            break;
        }
        let drawn = samples::domains(&own, &compared, 2 * n + 1).find_map(|domain| {
            let instance = samples::draw(&library, row, case, &domain, 2 * n as u64, &|_| true)?;
            written(row, &instance.args)
        });
        calls.extend(drawn);
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
    let params = row.sig.params.iter().map(|p| (p.name.name, None));
    let options = row.sig.opts.iter().map(|o| (o.name.name, Some(o)));
    let mut text = String::new();
    for ((name, option), arg) in params.chain(options).zip(args) {
        if arg.is_absent() {
            continue;
        }
        let comma = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{comma}\"{name}\": {}", value(arg, option)?);
    }
    Some(format!("{{{text}}}"))
}

fn value(arg: &Value<V<f64>>, option: Option<&Opt>) -> Option<String> {
    Some(match arg {
        Value::Tensor(V::Array(array)) => tensor(array),
        Value::Tensor(V::Key([seed, stream])) => format!("t(\"i64\", [2], [{seed}, {stream}])"),
        Value::Num(Scalar::Bool(b)) => if *b { "True" } else { "False" }.to_owned(),
        Value::Num(Scalar::Int(i)) => i.to_string(),
        Value::Num(Scalar::Float(x)) => float(*x),
        Value::DType(d) => format!("torch_dtype(\"{}\")", d.name()),
        Value::Word(w) => format!("\"{w}\""),
        Value::Str(s) => format!("{s:?}"),
        Value::Size(d) => d.value().to_string(),
        Value::List(items) => {
            let items = items.iter().map(|item| value(item, option)).collect::<Option<Vec<_>>>()?;
            format!("[{}]", items.join(", "))
        }
        Value::Absent => "None".to_owned(),
        Value::Type(_) => return None,
    })
}

fn tensor(array: &Array<f64>) -> String {
    let elements: Vec<String> = match &array.data {
        Data::Float(data) => data.iter().map(|x| float(*x)).collect(),
        Data::Int(data) => data.iter().map(i64::to_string).collect(),
    };
    format!("t(\"{}\", {:?}, [{}])", array.dtype.name(), array.shape, elements.join(", "))
}

fn float(x: f64) -> String {
    if x.is_finite() { format!("{x:?}") } else { format!("float(\"{x}\")") }
}
