//! Random functions as a user writes them, as data: calls of any row, views, writes to whatever there is, draws, regions.
//!
//! A function means one thing, however it is run ([`ways`]), up to what rounding makes of it ([`near`]). Functions are
//! drawn from words ([`draw`]), so that one that fails is shrunk by proptest, and prints as text.

pub mod draw;
mod near;
pub mod run;
pub mod ways;

use crate::calls::show;
use fulgurite_core::eval::nest::Array;
use fulgurite_core::{DType, Name, Scalar, Value};
use std::fmt;

/// A function of tensors and a key.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its arguments; the first is a float.
    pub inputs: Vec<Array<f64>>,
    /// Other values of the arguments.
    pub others: Vec<Array<f64>>,
    /// Tensors in memory that it captures.
    pub captured: Vec<Array<f64>>,
    /// What it does, in order. Each step but a write makes one value, or those of a call.
    pub steps: Vec<Step>,
    /// The values that it gives: the arguments come first, then the captured tensors, then what steps made.
    pub outputs: Vec<usize>,
    /// The coarsest float type of its tensors.
    pub coarsest: DType,
    /// Unless 0: the values that steps use are moved by roundings of that type, each number in other directions.
    pub nudge: u64,
}

impl Function {
    /// Whether all floats are f64: then differences tell what gradients are.
    pub fn is_f64(&self) -> bool {
        self.coarsest == DType::F64
    }

    /// The function with values that are moved a little.
    pub fn nudged(&self, nudge: u64) -> Function {
        Function { nudge, ..self.clone() }
    }
}

/// A step.
#[derive(Clone, Debug)]
pub enum Step {
    /// A call of a row.
    Call {
        /// The row.
        row: Name,
        /// One value per parameter and option.
        args: Vec<Value<Arg>>,
        /// What it stands in, from the outside in.
        regions: Vec<Region>,
    },
    /// A tensor that is made inside.
    Made(Array<f64>),
    /// A view of a value, or the value itself under another name.
    View(usize, View),
    /// A write to a value, with what a value gives in its range and shape.
    Write(usize, How, usize),
    /// The key moves on.
    NextKey,
}

/// An argument of a call.
#[derive(Clone, Debug)]
pub enum Arg {
    /// A tensor that is made inside.
    Made(Array<f64>),
    /// A value brought to the type of this tensor, and between its least and largest element.
    Value(usize, Array<f64>),
    /// A number.
    Number(DType, Scalar),
    /// The key: this one, or the one that `next` gave last.
    Key(bool),
}

impl Arg {
    /// Its type, if it is a float tensor, by which a gradient can be taken.
    pub fn float(&self) -> Option<DType> {
        match self {
            Arg::Made(a) | Arg::Value(_, a) if a.dtype.is_float() => Some(a.dtype),
            _ => None,
        }
    }
}

/// Views.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum View {
    /// The tensor itself.
    Same,
    /// The element of the first axis with this number, counted modulo its size.
    Select(usize),
    /// All but the first element of the first axis.
    Slice,
    /// Its axes in the opposite order.
    Transposed,
    /// Its elements along one axis.
    Flat,
    /// Every other element of all.
    Strided,
}

/// Writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    /// `x.add_(y)`
    Add,
    /// `x.mul_(y)`
    Mul,
    /// `x.copy_(y)`
    Copy,
}

/// What a call may stand in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Region {
    /// A checkpoint.
    Checkpoint,
    /// A part with a name.
    Named,
    /// A function that is compiled, of all tensors of the call.
    Jit,
    /// The gradient of the sum of all float results, each weighted with other numbers, by all float tensors.
    Gradient,
    /// A function with a backward of its own, which is what differentiation makes of the call.
    Custom,
    /// A function with a backward of its own, which is twice what differentiation makes of the call.
    Doubled,
    /// Without gradients.
    NoGrad,
    /// On tensors in pieces on two or more ranks, along the first axis where its size is that of the first tensor.
    Sharded,
    /// On tensors that two ranks have whole.
    Replicated,
    /// On a first float tensor of which two of three elements count.
    Masked,
    /// In bf16 where that is enough.
    Autocast,
    /// For the one slice of a batch of the tensors.
    Batched,
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrays = |list: &[Array<f64>]| list.iter().map(array).collect::<Vec<_>>().join(", ");
        writeln!(f, "arguments: {}", arrays(&self.inputs))?;
        writeln!(f, "captured: {}", arrays(&self.captured))?;
        let mut next = self.inputs.len() + self.captured.len();
        for step in &self.steps {
            match step {
                Step::Call { row, args, regions } => {
                    let args: Vec<String> = args.iter().map(|a| show(a, &Arg::to_string)).collect();
                    let regions = if regions.is_empty() { String::new() } else { format!(" in {regions:?}") };
                    writeln!(f, "v{next}… = {row}({}){regions}", args.join(", "))?;
                    next += 1;
                }
                Step::Made(a) => writeln!(f, "v… = {}", array(a))?,
                Step::View(of, view) => writeln!(f, "v… = {view:?} of v{of}")?,
                Step::Write(to, how, from) => writeln!(f, "v{to}.{how:?}(v{from})")?,
                Step::NextKey => writeln!(f, "key.next()")?,
            }
        }
        writeln!(f, "return {:?}", self.outputs)
    }
}

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arg::Made(a) => f.write_str(&array(a)),
            Arg::Value(at, like) => write!(f, "v{at} as {}{:?}", like.dtype, like.shape),
            Arg::Number(_, s) => write!(f, "{s}"),
            Arg::Key(true) => f.write_str("child key"),
            Arg::Key(false) => f.write_str("key"),
        }
    }
}

/// The type of a tensor and its first elements.
fn array(a: &Array<f64>) -> String {
    let shown: Vec<String> = a.scalars().iter().take(6).map(Scalar::to_string).collect();
    let more = if a.len() > 6 { ", …" } else { "" };
    format!("{}{:?} {{{}{more}}}", a.dtype, a.shape, shown.join(", "))
}
