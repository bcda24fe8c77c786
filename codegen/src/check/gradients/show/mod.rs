//! Counterexamples, formatted for people.

pub mod linear;
pub mod term;

use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::{Name, Value};

use crate::check::gradients::arrays::declared::{Declared, Seed, Way};
use crate::check::gradients::arrays::dense::V;
use crate::check::gradients::arrays::instance::Instance;
use crate::diag::Diag;

/// A tensor is shown with at most this many elements, because people read it.
const MOST: usize = 6;

/// A number this near to 1 is 1 up to rounding.
const SAME_AS_ONE: f64 = 1e-12;

/// Formats a number with six digits, or near 1 with as many as tell it from 1.
pub fn number(x: f64) -> String {
    let off = x - 1.0;
    if (SAME_AS_ONE..1e-5).contains(&off.abs()) {
        // two digits of the distance from 1
        let digits = (1.0 - off.abs().log10().floor()) as usize;
        return format!("{x:.digits$}");
    }
    // no `-0`
    let short = format!("{x:.5e}").parse().unwrap_or(x) + 0.0;
    // 0.25, but 1.5e-12
    if short != 0.0 && !(1e-4..1e7).contains(&short.abs()) { format!("{short:e}") } else { short.to_string() }
}

/// Formats a factor: `2`, `-1/3`.
pub fn factor(x: f64) -> String {
    let whole = (1.0 / x).round();
    if (2.0..1e3).contains(&whole.abs()) && (x * whole - 1.0).abs() < 1e-6 {
        return format!("{}1/{}", if x < 0.0 { "-" } else { "" }, whole.abs());
    }
    number(x)
}

/// Formats the elements of the arguments: `x = [1, 2], y = 3`.
pub fn arguments(instance: &Instance) -> String {
    named(instance.row.sig.params.iter().map(|param| param.name.name).zip(&instance.args))
}

fn named<'v>(values: impl Iterator<Item = (Name, &'v Value<V<f64>>)>) -> String {
    let shown = values.filter_map(|(name, value)| Some(format!("{name} = {}", elements(value)?)));
    shown.collect::<Vec<_>>().join(", ")
}

/// Adds the call and the data of a counterexample to `diag`: `for x: f32[2]`, `where x = [0.5, 0.25], g = -0.6`.
pub fn at(diag: Diag, rule: &Declared, instance: &Instance, seed: &Seed) -> Diag {
    let (row, passed) = (instance.row, seed.passed());
    let params = row.sig.params.iter().map(|param| param.name.name).zip(&instance.args);
    // a tangent has two names, of which the first is shown
    let data = named(params.chain(rule.seeds(row).into_iter().zip(&passed)));
    diag.note(format!("for {}", instance.case.show(row))).note(format!("where {data}"))
}

/// Formats the elements of a value, cut off if there are many; `None` if the value has none.
pub fn elements(v: &Value<V<f64>>) -> Option<String> {
    match v {
        Value::Tensor(V::Array(a)) => Some(array(a)),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(elements).collect::<Option<_>>()?;
            Some(format!("[{}]", items.join(", ")))
        }
        _ => None,
    }
}

fn array(a: &Array<f64>) -> String {
    let numbers: Vec<String> = match &a.data {
        Data::Float(x) => x.iter().take(MOST).map(|x| number(*x)).collect(),
        Data::Int(x) => x.iter().take(MOST).map(|x| x.to_string()).collect(),
    };
    match numbers.as_slice() {
        [one] if a.len() == 1 => one.clone(),
        some if a.len() > MOST => format!("[{}, …]", some.join(", ")),
        all => format!("[{}]", all.join(", ")),
    }
}

/// Names the element to which number `n` of a rule belongs: "the gradient of `x[1, 0]`".
pub fn element(rule: &Declared, instance: &Instance, n: usize) -> String {
    let row = instance.row;
    match rule.way {
        Way::Vjp => format!("the gradient of `{}`", within(&[(rule.arg.to_string(), &instance.args[rule.at])], n)),
        Way::Jvp => {
            let outs: Vec<(String, &Value<V<f64>>)> =
                row.sig.outs.iter().map(|out| out.name.name.to_string()).zip(&instance.results).collect();
            format!("the tangent of `{}`", within(&outs, n))
        }
    }
}

/// The name and position of element `n` among the float elements of these values.
fn within(values: &[(String, &Value<V<f64>>)], mut n: usize) -> String {
    for (name, value) in values {
        let mut arrays = Vec::new();
        value.for_each(&mut |v| {
            if let V::Array(a) = v
                && a.dtype.is_float()
            {
                arrays.push(a.clone());
            }
        });
        for (item, a) in arrays.iter().enumerate() {
            if n >= a.len() {
                n -= a.len();
                continue;
            }
            let list = if matches!(value, Value::List(_)) { format!("[{item}]") } else { String::new() };
            return format!("{name}{list}{}", position(&a.shape, n));
        }
    }
    values.first().map(|(name, _)| name.clone()).unwrap_or_default()
}

/// Formats a position: `[1, 0]`, or nothing if there is one element only.
fn position(shape: &[usize], mut n: usize) -> String {
    if shape.iter().all(|size| *size == 1) {
        return String::new();
    }
    let mut at: Vec<String> = Vec::new();
    for size in shape.iter().rev() {
        at.push((n % size.max(&1)).to_string());
        n /= size.max(&1);
    }
    at.reverse();
    format!("[{}]", at.join(", "))
}
