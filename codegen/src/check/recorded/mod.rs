//! Values recorded from PyTorch, which refute a row that means something else. `check` runs a few calls of each name
//! (`few`), `mutate` runs all of `tests/data`.
//!
//! A case is a call of a row, by its own name or by one of another library, with its results or its refusal, and with
//! gradients. `mutate` leaves out the cases that the right rows fail here: the interpreter computes in f64 and rounds
//! less than PyTorch, so these cases refute nothing.

mod case;
pub mod compare;
mod few;
pub mod json;
mod run;

use fulgurite_core::eval::loop_nest::Array;
use fulgurite_core::foreign::Given;
use fulgurite_core::{Name, Named};

use crate::check::gradients::arrays::dense::V;

pub use case::of_name;
pub use few::{check, check_calls, is_known};
pub use run::{Forms, RunCall, Runner};

/// The callee of a recorded call, with its arguments.
pub enum Callee {
    /// A row, with its arguments by name.
    Row(Name, Vec<Named<V<f64>>>),
    /// A name of another library, with its positional and named arguments.
    Foreign(Name, Vec<Given<V<f64>>>, Vec<(String, Given<V<f64>>)>),
}

/// The argument that a gradient belongs to.
pub enum Wrt {
    /// The row's argument of this name.
    Name(Name),
    /// The argument that holds this tensor.
    Tensor(V<f64>),
}

/// A recorded result.
pub struct Want {
    /// The value; `None` if there is none, or nothing to compare.
    pub array: Option<Array<f64>>,
    /// Whether PyTorch gave a plain number.
    pub plain: bool,
    /// The possible error of PyTorch's own result: absolute, and relative to the element.
    pub noise: (f64, f64),
}

/// A recorded call.
pub struct Case {
    /// The name of the case: `softmax.1`, `aten.add.Tensor/forward/3`.
    pub name: String,
    /// The call.
    pub callee: Callee,
    /// The results; `None` if PyTorch refused the call.
    pub want: Option<Vec<Want>>,
    /// For each result, its cotangent, if it has one.
    pub cotangents: Vec<Option<Array<f64>>>,
    /// Gradients by argument: one per item of a list argument, otherwise one.
    pub gradients: Vec<(Wrt, Vec<Want>)>,
    /// Whether the narrow tolerances of `tests/recorded.rs` apply.
    pub strict: bool,
}

impl Case {
    /// Whether the callee is a row, and the name of the callee.
    pub fn callee(&self) -> (bool, Name) {
        match &self.callee {
            Callee::Row(name, _) => (true, *name),
            Callee::Foreign(name, ..) => (false, *name),
        }
    }
}
