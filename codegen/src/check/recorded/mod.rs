//! Values that PyTorch gave: what refutes a row that means something else. `check` runs a few for each name (`few`),
//! `mutate` all of `tests/data`.
//!
//! A case is a call of a row, or of one of its other names, with results, a refusal, and gradients. Cases that the right
//! rows do not meet here (an interpreter in f64 rounds less than PyTorch) say nothing, and are left out.

mod compare;
mod few;
mod json;
mod load;
mod near;
mod run;
mod signatures;

use fulgurite_core::eval::loop_nest::Array;
use fulgurite_core::foreign::Given;
use fulgurite_core::{Name, Value};

use crate::check::gradients::arrays::dense::V;

pub use few::{check, check_calls, is_known};
pub use load::load;
pub use near::{Near, near};
pub use run::{Forms, Runner};
pub use signatures::facts;

/// How a call is made.
enum Callee {
    /// A row, with these arguments by name.
    Row(Name, Vec<(Name, Value<V<f64>>)>),
    /// A name of another library, with these positional and named arguments.
    Foreign(Name, Vec<Given<V<f64>>>, Vec<(String, Given<V<f64>>)>),
}

/// Which argument a gradient belongs to.
enum Wrt {
    /// The row's argument of this name.
    Name(Name),
    /// The argument that is this tensor.
    Tensor(V<f64>),
}

/// A result that PyTorch gave.
struct Want {
    /// Its value; `None`: none, or nothing to compare.
    array: Option<Array<f64>>,
    /// A plain number there.
    plain: bool,
    /// What PyTorch's own result may be off by: in all, and relative to the element.
    noise: (f64, f64),
}

/// A recorded call.
pub struct Case {
    /// `softmax.1`, `aten.add.Tensor/forward/3`
    pub name: String,
    callee: Callee,
    /// Results; `None`: it was refused.
    want: Option<Vec<Want>>,
    /// A cotangent for each result that has one.
    cotangents: Vec<Option<Array<f64>>>,
    /// Gradients; of a list argument, one per item.
    gradients: Vec<(Wrt, Vec<Want>)>,
    /// f64 results carry no more than this of rounding.
    strict: bool,
}

impl Case {
    /// The row, or the other library's name, that it calls.
    pub fn callee(&self) -> (bool, Name) {
        match &self.callee {
            Callee::Row(name, _) => (true, *name),
            Callee::Foreign(name, ..) => (false, *name),
        }
    }
}
