//! Calls with data for the tests of a package, drawn as the checks of rows draw them and written as Python.

use super::operator::identifier;
use fulgurite_codegen::check::gradients::arrays::dense::V;
use fulgurite_codegen::check::rows::RowSet;
use fulgurite_codegen::examples;
use fulgurite_codegen::schema::RowSource;
use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::row::Row;
use fulgurite_core::{DType, Scalar, Value};
use std::fmt::Write;

/// The calls of a row in the tests: enough for absent and given options, few enough for 500 rows in five minutes.
const CALLS: usize = 3;
/// The most elements of a call's arguments and of its results, because each is moved by the checks of gradients; a row
/// that needs more gets calls up to twice its smallest.
const ELEMENTS: usize = 48;

/// Up to three calls of a row, as the keyword arguments of its Python function: `dict(x=t("f64", [2], [0.5, 1.5]))`.
pub fn drawn(source: &RowSource, row: &Row, set: &RowSet<'_>) -> Vec<String> {
    examples::drawn(source, row, set, (CALLS, ELEMENTS), |args| written(row, args))
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
