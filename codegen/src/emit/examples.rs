//! Examples in the documentation of generated functions: a call of the row with data, and its results, as a program.
//!
//! The results are those of the row's text, which the generator evaluates, so the programs also test the kernels.

use super::Emitted;
use super::api::{Api, Outcome, Slot};
use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::{DType, Scalar, Value};
use std::sync::Arc;

/// A call of a row with data, and its results.
#[derive(Clone, Debug)]
pub struct CallExample {
    /// One value for each parameter and option, in the order of the signature.
    pub args: Vec<Value<ExampleTensor>>,
    /// The results; none where the row makes a tensor of a class.
    pub results: Vec<Value<ExampleTensor>>,
}

/// A tensor of an example.
#[derive(Clone, Debug)]
pub enum ExampleTensor {
    /// Elements.
    Array(Arc<Array<f64>>),
    /// A random key.
    Key([i64; 2]),
}

/// A result may differ from the evaluated one by this share of the largest element, because numbers are written with six
/// digits.
const TOLERANCE: &str = "1e-5";
/// The macro that examples call. It is named here, because the generator itself may not stop.
const ASSERT: &str = "assert";
/// The type of two integers of four bits in Rust, for which the language has no literal.
const PAIR: &str = "U4x2";
/// A result with more elements is not shown.
const MOST: usize = 32;

impl CallExample {
    /// Whether the call can be written in Rust.
    pub fn is_writable(&self, row: &Emitted) -> bool {
        Api::of(row).is_some_and(|api| self.lines(&api, row, api.method).is_some())
    }

    /// The program, as the lines of a doc comment, with a call of the method or of the function; `None` if an argument can't be written in Rust.
    pub(super) fn lines(&self, api: &Api, row: &Emitted, is_method: bool) -> Option<Vec<String>> {
        let sig = &row.row.sig;
        let mut lets = Vec::new();
        let mut passed = Vec::new();
        for slot in &api.params {
            passed.push(argument(slot, self.args.get(slot.at)?, &mut lets)?);
        }
        let mut turbofish = String::new();
        for slot in &api.positional {
            let value = self.args.get(slot.at)?;
            match slot.ty.is_empty() {
                // the length of a list of results
                true => turbofish = format!("::<{}>", integer(value)?),
                false => passed.push(option(slot, &slot.ty, value)?),
            }
        }
        let mut fields = Vec::new();
        for slot in &api.fields {
            match self.args.get(slot.at) {
                None | Some(Value::Absent) => {}
                Some(value) => {
                    let text = field(slot, value)?;
                    if !is_default(slot, &text) {
                        fields.push(format!("{}: {text}", slot.name));
                    }
                }
            }
        }
        let with = if fields.is_empty() { "" } else { "_with" };
        if !fields.is_empty() {
            let rest = if fields.len() < api.fields.len() { ", ..Default::default()" } else { "" };
            passed.push(format!("ops::{} {{ {}{rest} }}", api.options(), fields.join(", ")));
        }
        let name = format!("{}{with}{turbofish}", api.name);
        let call = match is_method {
            // the first argument is a reference to a named tensor
            true => {
                format!("{}.{name}({})", passed.first()?.trim_start_matches('&'), passed[1..].join(", "))
            }
            false => format!("ops::{name}({})", passed.join(", ")),
        };
        let names: Vec<String> =
            sig.outs.iter().enumerate().map(|(n, out)| result(n, out.name.name.as_str())).collect();
        let pattern = match (&api.result, names.as_slice()) {
            (Outcome::Tuple(_), names) => format!("({})", names.join(", ")),
            (_, [one]) => one.clone(),
            _ => return None,
        };
        lets.push(format!("let {pattern} = {call};"));
        if self.results.is_empty() {
            let checked = |name: &String| match &api.result {
                Outcome::List | Outcome::Array(_) => format!("{name}.iter().try_for_each(Tensor::check)?;"),
                _ => format!("{name}.check()?;"),
            };
            lets.extend(names.iter().map(checked));
        }
        for (name, value) in names.iter().zip(&self.results) {
            match value {
                Value::Tensor(t) => lets.extend(outcome(name, t)?),
                Value::List(items) => {
                    for (n, item) in items.iter().enumerate() {
                        let Value::Tensor(t) = item else { return None };
                        lets.extend(outcome(&format!("{name}[{n}]"), t)?);
                    }
                }
                _ => return None,
            }
        }
        let pair = lets.iter().any(|line| line.contains(PAIR)).then(|| format!("use fulgurite::buffer::{PAIR};"));
        let head = ["```".to_owned()].into_iter().chain(pair);
        let head = head.chain(["use fulgurite::prelude::*;".to_owned(), String::new()]);
        let tail = ["# Ok::<(), Error>(())".to_owned(), "```".to_owned()];
        Some(head.chain(lets).chain(tail).collect())
    }
}

/// The name of a result. `out` is that of a result without a name of its own.
fn result(n: usize, name: &str) -> String {
    match name.is_empty() {
        true if n == 0 => "out".to_owned(),
        true => format!("out{n}"),
        false => super::names::ident(name),
    }
}

/// An argument; a tensor gets a name.
fn argument(slot: &Slot, value: &Value<ExampleTensor>, lets: &mut Vec<String>) -> Option<String> {
    let mut named = |name: &str, t: &ExampleTensor| -> Option<String> {
        lets.push(format!("let {name} = {};", tensor(t)?));
        Some(name.to_owned())
    };
    match (slot.ty.as_str(), value) {
        ("Option<&Tensor>", Value::Absent) => Some("None".to_owned()),
        ("Option<&Tensor>", Value::Tensor(t)) => Some(format!("Some(&{})", named(&slot.name, t)?)),
        ("impl Into<Limit>", Value::Absent) => Some("()".to_owned()),
        ("&[Tensor]", Value::List(items)) => {
            let one = |item: &Value<ExampleTensor>| match item {
                Value::Tensor(t) => tensor(t),
                _ => None,
            };
            Some(format!("&[{}]", items.iter().map(one).collect::<Option<Vec<_>>>()?.join(", ")))
        }
        (_, Value::Tensor(t)) => Some(format!("&{}", named(&slot.name, t)?)),
        // a number stands where a tensor would do, but not before the name of a method
        ("impl Operand" | "impl Into<Limit>", Value::Num(n)) if slot.at > 0 => scalar(*n),
        _ => None,
    }
}

/// An option by position.
fn option(slot: &Slot, ty: &str, value: &Value<ExampleTensor>) -> Option<String> {
    match (ty, value) {
        ("impl Into<Number>", Value::Num(n)) => scalar(*n),
        ("f64", Value::Num(n)) => float(n.as_f64()),
        ("bool", Value::Num(n)) => Some((n.as_f64() != 0.0).to_string()),
        ("&str" | "&'static str", Value::Str(text)) => Some(format!("{text:?}")),
        ("DType", Value::DType(dtype)) => Some(format!("DType::{dtype:?}")),
        ("impl Into<Dim>" | "Dim", value) => integer(value),
        ("impl Into<Dims>" | "Dims" | "impl Into<ShapeArg>" | "ShapeArg", value) => integers(value),
        (_, Value::Word(word)) if slot.words.is_some() => {
            let (of, _) = slot.words.as_ref()?;
            Some(format!("ops::{of}::{}", super::api::variant(word.as_str())))
        }
        _ => None,
    }
}

/// An option that is a field of a struct.
fn field(slot: &Slot, value: &Value<ExampleTensor>) -> Option<String> {
    let inner = slot.ty.strip_prefix("Option<").and_then(|ty| ty.strip_suffix('>'));
    let ty = inner.unwrap_or(&slot.ty);
    let text = match (ty, value) {
        ("Scalar", Value::Num(Scalar::Bool(x))) => format!("Scalar::Bool({x})"),
        ("Scalar", Value::Num(Scalar::Int(x))) => format!("Scalar::Int({x})"),
        ("Scalar", Value::Num(Scalar::Float(x))) => format!("Scalar::Float({})", float(*x)?),
        ("Dim" | "Dims" | "ShapeArg", value) => match option(slot, ty, value)? {
            negative if negative.starts_with('-') => format!("({negative}).into()"),
            text => format!("{text}.into()"),
        },
        _ => option(slot, ty, value)?,
    };
    Some(if inner.is_some() { format!("Some({text})") } else { text })
}

/// Whether a field's value is its default, which need not be written.
fn is_default(slot: &Slot, text: &str) -> bool {
    let size = text.strip_suffix(".into()").map(|size| format!("Dim::from({}i64)", size.trim_matches(['(', ')'])));
    text.trim_start_matches("ops::") == slot.default || size.as_ref() == Some(&slot.default)
}

fn integer(value: &Value<ExampleTensor>) -> Option<String> {
    match value {
        Value::Num(Scalar::Int(i)) => Some(i.to_string()),
        Value::Size(size) if size.is_const() => Some(size.value().to_string()),
        _ => None,
    }
}

fn integers(value: &Value<ExampleTensor>) -> Option<String> {
    match value {
        Value::List(items) if items.is_empty() => Some("()".to_owned()),
        Value::List(items) => Some(format!("[{}]", items.iter().map(integer).collect::<Option<Vec<_>>>()?.join(", "))),
        Value::Word(word) if word.as_str() == "all" => Some("Dims::All".to_owned()),
        one => integer(one),
    }
}

fn scalar(x: Scalar) -> Option<String> {
    match x {
        Scalar::Bool(x) => Some(x.to_string()),
        Scalar::Int(x) => Some(x.to_string()),
        Scalar::Float(x) => float(x),
    }
}

/// A float of a call, with all its digits.
fn float(x: f64) -> Option<String> {
    x.is_finite().then(|| format!("{:?}", x + 0.0)) // no `-0`
}

/// A float of a result, with six digits.
fn rounded(x: f64) -> Option<String> {
    float(short(x))
}

fn short(x: f64) -> f64 {
    format!("{x:.5e}").parse().unwrap_or(x)
}

/// A tensor as Rust; its first element says which dtype it has, and where no type of Rust does, a cast.
fn tensor(t: &ExampleTensor) -> Option<String> {
    let array = match t {
        ExampleTensor::Key([seed, 0]) => return Some(format!("Key::new({seed})")),
        ExampleTensor::Key([seed, stream]) => {
            return Some(format!("Key::of_data(&Tensor::from([{seed}i64, {stream}]))"));
        }
        ExampleTensor::Array(array) => array,
    };
    let (suffix, cast) = match array.dtype {
        DType::F64 | DType::Bool | DType::U4X2 => ("", ""),
        DType::F32 => ("f32", ""),
        DType::I64 => ("i64", ""),
        DType::I32 => ("i32", ""),
        DType::I16 => ("i16", ""),
        DType::I8 => ("i8", ""),
        DType::U8 => ("u8", ""),
        dtype if dtype.is_float() => ("", dtype_name(dtype)?),
        _ => return None,
    };
    let elements: Vec<String> = match &array.data {
        Data::Float(data) => data.iter().map(|x| float(*x)).collect::<Option<_>>()?,
        Data::Int(data) if array.dtype == DType::Bool => data.iter().map(|x| (*x != 0).to_string()).collect(),
        Data::Int(data) if array.dtype == DType::U4X2 => data.iter().map(|x| format!("{PAIR}({x})")).collect(),
        Data::Int(data) => data.iter().map(i64::to_string).collect(),
    };
    let first = elements.first().map(|first| format!("{first}{suffix}"))?;
    let elements: Vec<String> = std::iter::once(first).chain(elements.into_iter().skip(1)).collect();
    let text = match array.shape.len() {
        0 => format!("Tensor::scalar({})", elements[0]),
        1..=3 => format!("Tensor::from({})", nested(&elements, &array.shape)),
        _ => format!("Tensor::from_vec(vec![{}], {:?})", elements.join(", "), array.shape),
    };
    Some(if cast.is_empty() { text } else { format!("{text}.cast(DType::{cast})") })
}

/// The variant of a dtype that casts name, for floats of eight bits, which only casts make. Floats of 16 bits are left out:
/// a row that takes them has an example in f64.
fn dtype_name(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::F8E4M3FN => Some("F8E4M3FN"),
        DType::F8E5M2 => Some("F8E5M2"),
        _ => None,
    }
}

fn nested(elements: &[String], shape: &[usize]) -> String {
    match shape {
        [] | [_] => format!("[{}]", elements.join(", ")),
        [n, rest @ ..] => {
            let each = elements.len() / (*n).max(1);
            let parts: Vec<String> = elements.chunks(each.max(1)).map(|part| nested(part, rest)).collect();
            format!("[{}]", parts.join(", "))
        }
    }
}

/// The assertions about a result, as lines of Rust.
fn outcome(name: &str, t: &ExampleTensor) -> Option<Vec<String>> {
    let ExampleTensor::Array(array) = t else { return None };
    match array.len() {
        // a result without elements says that it has none
        0 => return Some(vec![format!("{name}.check()?;")]),
        1..=MOST => {}
        _ => return None,
    }
    let (list, read): (String, &str) = match &array.data {
        Data::Int(data) if array.dtype == DType::Bool => {
            (data.iter().map(|x| (*x != 0).to_string()).collect::<Vec<_>>().join(", "), "to_vec::<bool>")
        }
        Data::Int(data) if array.dtype == DType::I64 => {
            (data.iter().map(i64::to_string).collect::<Vec<_>>().join(", "), "to_vec::<i64>")
        }
        Data::Int(data) => (data.iter().map(|x| format!("{x}.0")).collect::<Vec<_>>().join(", "), "to_f64"),
        Data::Float(data) => {
            let list = data.iter().map(|x| rounded(*x)).collect::<Option<Vec<_>>>()?.join(", ");
            let exact = data.iter().all(|x| (x * 64.0).fract() == 0.0 && short(*x) == *x);
            if !exact {
                let largest = data.iter().fold(1.0f64, |most, x| most.max(x.abs()));
                let bound =
                    if largest > 1.0 { format!("{TOLERANCE} * {}", rounded(largest)?) } else { TOLERANCE.to_owned() };
                return Some(vec![
                    format!("let (got, wanted) = ({name}.to_f64()?, [{list}]);"),
                    format!("{ASSERT}!(got.iter().zip(wanted).all(|(got, wanted)| (got - wanted).abs() < {bound}));"),
                ]);
            }
            (list, "to_f64")
        }
    };
    Some(vec![format!("{ASSERT}_eq!({name}.{read}()?, [{list}]);")])
}
