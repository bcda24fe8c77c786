//! Random functions of a user as data: calls of any row, views, writes, random draws, regions.
//!
//! A function has one meaning in every way of running it ([`ways`]), up to the effect of rounding (`near`). Functions
//! are drawn from words ([`draw`]), so that proptest can shrink a failing one; a function prints as text.

pub mod draw;
mod near;
pub mod run;
pub mod ways;

use crate::calls::show;
use fulgurite_core::eval::loop_nest::Array;
use fulgurite_core::{DType, Name, Scalar, Value};
use std::fmt;

/// A function of tensors and a key.
#[derive(Clone, Debug)]
pub struct Function {
    /// The function's arguments; the first is a float.
    pub inputs: Vec<Array<f64>>,
    /// A second set of values for the arguments.
    pub others: Vec<Array<f64>>,
    /// Tensors in memory that the function captures.
    pub captured: Vec<Array<f64>>,
    /// The steps in order. Each step except a write makes one value, or the values of a call.
    pub steps: Vec<Step>,
    /// The indices of the results among the values: arguments come first, then captured tensors, then the values of
    /// steps.
    pub outputs: Vec<usize>,
    /// The coarsest float type of its tensors.
    pub coarsest: DType,
    /// If not 0, the seed with which the values that steps use are moved by roundings of the coarsest dtype, each
    /// number in its own direction.
    pub nudge: u64,
}

impl Function {
    /// Whether all floats are f64, so that differences approximate gradients.
    pub fn is_f64(&self) -> bool {
        self.coarsest == DType::F64
    }

    /// The function with slightly moved values.
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
        /// The regions around the call, the outermost first.
        regions: Vec<Region>,
    },
    /// A tensor that is made inside of the function.
    Made(Array<f64>),
    /// A view of a value, or an alias of it.
    View(usize, View),
    /// A write to a value, of another value that is fitted to its range and shape.
    Write(usize, How, usize),
    /// Advances the key.
    NextKey,
}

/// An argument of a call.
#[derive(Clone, Debug)]
pub enum Arg {
    /// A tensor that is made inside of the function.
    Made(Array<f64>),
    /// A value fitted to the type of this tensor, and to the interval from its least to its largest element.
    Value(usize, Array<f64>),
    /// A number.
    Number(DType, Scalar),
    /// The key: the current one, or the last result of `next`.
    Key(bool),
}

impl Arg {
    /// The argument's dtype, if it is a float tensor, which can be differentiated.
    pub fn float(&self) -> Option<DType> {
        match self {
            Arg::Made(a) | Arg::Value(_, a) if a.dtype.is_float() => Some(a.dtype),
            _ => None,
        }
    }
}

/// A view of a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum View {
    /// The tensor itself.
    Same,
    /// The element of the first axis with this index, modulo its size.
    Select(usize),
    /// All but the first element of the first axis.
    Slice,
    /// The tensor with its axes in the opposite order.
    Transposed,
    /// The tensor with its elements along one axis.
    Flat,
    /// Every other element along every axis.
    Strided,
}

/// A write to a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    /// `x.add_(y)`
    Add,
    /// `x.mul_(y)`
    Mul,
    /// `x.copy_(y)`
    Copy,
}

/// A region in which a call may stand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Region {
    /// A checkpoint.
    Checkpoint,
    /// A part with a name.
    Named,
    /// A compiled function of all tensors of the call.
    Jit,
    /// The gradient of the weighted sum of all float results, with respect to all float tensors.
    Gradient,
    /// A function with a custom backward that equals the derivative of the call.
    Custom,
    /// A function with a custom backward that is twice the derivative of the call.
    Doubled,
    /// Without gradients.
    NoGrad,
    /// On tensors sharded over two or more ranks, along the first axis where its size is that of the first tensor.
    Sharded,
    /// On tensors replicated on two ranks.
    Replicated,
    /// On a first float tensor with every third element masked out.
    Masked,
    /// In bf16 where autocast allows it.
    Autocast,
    /// For a batch that consists of one slice of the tensors.
    Batched,
    /// In the branch of a choice that is taken.
    Chosen,
    /// In the steps of a scan, of which the last one's results count.
    Scanned,
    /// In the one step of a loop.
    Looped,
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

/// The type of a tensor, with its first elements.
fn array(a: &Array<f64>) -> String {
    let shown: Vec<String> = a.scalars().iter().take(6).map(Scalar::to_string).collect();
    let more = if a.len() > 6 { ", …" } else { "" };
    format!("{}{:?} {{{}{more}}}", a.dtype, a.shape, shown.join(", "))
}
