//! The inputs of a model, and the conditions on them: dtypes, sizes and the ranges of sizes.

use crate::size_text::SizeExpression;
use fulgurite::buffer::Buffer;
use fulgurite::core::signature::MOST_AXES;
use fulgurite::core::{DType, Dim};
use fulgurite::{Error, Tensor};
use std::collections::BTreeMap;
use std::fmt;

/// Refuses a tensor of a file with more axes than a result can have.
///
/// # Errors
/// The number of axes, in words.
pub fn check_rank(axes: usize) -> Result<(), String> {
    match axes > MOST_AXES {
        true => Err(format!("has {axes} axes, and at most {MOST_AXES} are read")),
        false => Ok(()),
    }
}

/// An input of a model.
#[derive(Clone, Debug)]
pub struct Input {
    /// The name of the input in the model.
    pub name: String,
    /// The dtype of the input. An input that is a size stands for a number of the program, and its
    /// dtype is i64.
    pub dtype: DType,
    /// The sizes of the input; a number has none.
    pub sizes: Vec<InputSize>,
    /// Whether the program takes a number here, which a tensor of rank 0 in memory gives.
    pub number: bool,
}

/// A size of an input: a number, or a function of symbols whose values the inputs of a call give.
#[derive(Clone, Debug)]
pub struct InputSize(pub(crate) SizeExpression);

impl fmt::Display for InputSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.sizes.iter().map(InputSize::to_string).collect();
        write!(f, "{}: {}[{}]", self.name, self.dtype.name(), sizes.join(", "))
    }
}

/// The least and the largest value of each symbol; a symbol without bounds is at least 0.
pub type Ranges = BTreeMap<String, (i64, Option<i64>)>;

/// Checks tensors against the inputs, and their sizes against the ranges. In a trace with symbolic sizes, the answers
/// are guards of the program.
///
/// # Errors
/// E935 with the input, the expected and the found.
pub fn check(inputs: &[Input], ranges: &Ranges, given: &[Tensor]) -> Result<(), Error> {
    if given.len() != inputs.len() {
        let names: Vec<String> = inputs.iter().map(Input::to_string).collect();
        let (want, have) = (inputs.len(), given.len());
        let error = Error::new("E935", format!("the model takes {want} inputs, and {have} are given"));
        return Err(error.note(format!("the inputs are {}", names.join("; "))));
    }
    let mut symbols = BTreeMap::new();
    for (input, tensor) in inputs.iter().zip(given) {
        tensor.check()?;
        let shape = tensor.shape();
        if tensor.dtype() != input.dtype || shape.len() != input.sizes.len() {
            return Err(mismatch(input, tensor, ""));
        }
        for (size, found) in input.sizes.iter().zip(&shape) {
            if let SizeExpression::Symbol(name) = &size.0 {
                symbols.entry(name.clone()).or_insert(*found);
            }
        }
    }
    for (name, (least, most)) in ranges {
        let Some(value) = symbols.get(name) else { continue };
        // compared with the numbers beside the range, because a guard says which of two sizes is larger, or that they
        // are equal: all sizes in the range have one answer
        let below = *value <= Dim::from(least.saturating_sub(1));
        if below || most.is_some_and(|most| *value >= Dim::from(most.saturating_add(1))) {
            let (input, axis) = place_of(inputs, name);
            let range = most.map_or(format!("at least {least}"), |most| format!("from {least} to {most}"));
            let claim = format!("`{input}` has size {} on axis {axis}, and the model takes {range}", value.hint());
            let why =
                format!("`{name}` is the symbol of this size; the ranges were chosen when the model was exported");
            return Err(Error::new("E935", claim).note(why));
        }
    }
    for (input, tensor) in inputs.iter().zip(given) {
        for (size, found) in input.sizes.iter().zip(tensor.shape()) {
            match size.0.value(&symbols) {
                Some(expected) if expected == found => {}
                Some(expected) => {
                    let why = format!("`{size}` is {} here", expected.hint());
                    return Err(mismatch(input, tensor, &why));
                }
                // a function of symbols that no input has alone: the program itself decides
                None => {}
            }
        }
    }
    Ok(())
}

/// An example of an input takes at most this many bytes, because its sizes come from the file.
const MOST: usize = 1 << 30;

/// Inputs of zeros. Each symbol has a size of its own, from 2 on where its range allows it, so that no two are equal by
/// chance.
///
/// # Errors
/// E936 if a size has no value, or an input would be too large.
pub fn example(inputs: &[Input], ranges: &Ranges) -> Result<Vec<Tensor>, Error> {
    let mut symbols: BTreeMap<String, Dim> = BTreeMap::new();
    for (number, (name, (least, most))) in ranges.iter().enumerate() {
        let chosen = (2 + number as i64).max(*least).min(most.unwrap_or(i64::MAX));
        symbols.insert(name.clone(), Dim::from(chosen));
    }
    let sizes = |input: &Input| {
        let size = |size: &InputSize| size.0.value(&symbols).and_then(|size| usize::try_from(size).ok());
        let unknown = || Error::new("E936", format!("the sizes of {input} have no example"));
        input.sizes.iter().map(size).collect::<Option<Vec<usize>>>().ok_or_else(unknown)
    };
    let zeros = |input: &Input| {
        let sizes = sizes(input)?;
        let bytes = sizes.iter().try_fold(input.dtype.size(), |n, size| n.checked_mul(*size));
        if bytes.is_none_or(|bytes| bytes > MOST) {
            return Err(Error::new("E936", format!("an example of {input} takes more than {MOST} bytes")));
        }
        let buffer = Buffer::zeros(input.dtype, &sizes).map_err(|e| Error::new("E936", e.to_string()))?;
        Ok(Tensor::from_buffer(buffer))
    };
    inputs.iter().map(zeros).collect()
}

fn mismatch(input: &Input, tensor: &Tensor, why: &str) -> Error {
    let found = tensor.ty().map_or_else(String::new, |ty| ty.to_string());
    let error = Error::new("E935", format!("the input `{}` must be {input}, and {found} is given", input.name));
    if why.is_empty() { error } else { error.note(why) }
}

/// The first input and axis whose size is the symbol.
fn place_of<'a>(inputs: &'a [Input], symbol: &str) -> (&'a str, usize) {
    let is_symbol = |size: &InputSize| matches!(&size.0, SizeExpression::Symbol(name) if name == symbol);
    let found = inputs.iter().find_map(|input| Some((input.name.as_str(), input.sizes.iter().position(is_symbol)?)));
    found.unwrap_or(("", 0))
}
