//! Compares the values of a model with those of the framework that exported it, to find the first call that differs.

use crate::inputs::Input;
use crate::model::Model;
use crate::value::GraphValue;
use fulgurite::checkpoint::as_held;
use fulgurite::core::loc::Loc;
use fulgurite::{Error, Tensor};
use std::collections::{BTreeMap, HashSet};

/// The result of [`compare`].
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// The number of values that were compared.
    pub compared: usize,
    /// The largest difference among them.
    pub worst: Option<Difference>,
    /// The first value that differs by more than the tolerance.
    pub first: Option<Difference>,
}

/// A value that is not the expected one.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The name of the value in the model.
    pub name: String,
    /// The function whose result it is.
    pub target: String,
    /// The line of the source that made the call.
    pub loc: Loc,
    /// The largest difference of an element, as a share of the largest expected one; infinite for another type, or for
    /// an element that is a number on one side only.
    pub error: f64,
}

/// Runs the model on the inputs among `values`, and compares each result of a call whose name is among them.
///
/// # Errors
/// E935 if an input is missing among the values, and the errors of [`Model::run`].
pub fn compare(model: &Model, values: &BTreeMap<String, Tensor>, tolerance: f64) -> Result<Comparison, Error> {
    let input = |input: &Input| {
        let name = &input.name;
        let missing = || Error::new("E935", format!("the values have no tensor `{name}`, which the model takes"));
        as_held(values.get(name).ok_or_else(missing)?, input.dtype)
    };
    let inputs = model.inputs().iter().map(input).collect::<Result<Vec<_>, _>>()?;
    let mut found = Comparison::default();
    let mut seen = HashSet::new();
    let mut compare = |name: &str, target: &str, loc: Loc, value: &Tensor| {
        let Some(expected) = values.get(name).filter(|_| seen.insert(name.to_owned())) else { return };
        let error = difference(value, expected);
        let here = || Difference { name: name.to_owned(), target: target.to_owned(), loc, error };
        found.compared += 1;
        if found.worst.as_ref().is_none_or(|worst| error > worst.error) {
            found.worst = Some(here());
        }
        if error > tolerance && found.first.is_none() {
            found.first = Some(here());
        }
    };
    let results = model.observe(&inputs, &mut |node, name, value| {
        if let GraphValue::Tensor(value) | GraphValue::Known(value) = value {
            compare(name, &node.target, node.loc, value);
        }
    })?;
    // an output may be a constant, or an input, which no call makes
    for (name, value) in results.names.iter().zip(&results.outputs) {
        compare(name, "the model", Loc::NOWHERE, value);
    }
    Ok(found)
}

/// The largest difference of an element, as a share of the largest expected one.
fn difference(found: &Tensor, expected: &Tensor) -> f64 {
    let Ok(expected) = as_held(expected, found.dtype()) else { return f64::INFINITY };
    let (Ok(a), Ok(b)) = (found.to_f64(), expected.to_f64()) else { return f64::INFINITY };
    if found.dtype() != expected.dtype() || found.shape() != expected.shape() {
        return f64::INFINITY;
    }
    let largest = b.iter().filter(|x| x.is_finite()).fold(f64::MIN_POSITIVE, |largest, x| largest.max(x.abs()));
    let one = |(a, b): (&f64, &f64)| match a == b || (a.is_nan() && b.is_nan()) {
        true => 0.0,
        false if a.is_finite() && b.is_finite() => (a - b).abs() / largest,
        false => f64::INFINITY,
    };
    a.iter().zip(&b).map(one).fold(0.0, f64::max)
}
