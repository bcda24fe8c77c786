//! Conditions of rows that read elements or run-time numbers: asked when the program runs, before the line.

use super::{ExecError, Kernel, Line, TensorMut, TensorRef};
use crate::symbol::Registered;
use fulgurite_core::conditions::{self, Condition};
use fulgurite_core::lower::lower_with;
use fulgurite_core::nest::Nest;
use std::sync::Arc;

/// A condition as a nest of truth values, and what to say where one is false.
pub(crate) struct Check {
    /// The condition.
    pub nest: Arc<Nest>,
    /// The message.
    pub message: String,
}

/// The conditions of a line that only a run can decide.
pub(crate) fn checks(line: &Line) -> Result<Vec<Check>, ExecError> {
    let fault = |code, message, help| ExecError { code, message, line: Some(line.id()), help };
    let row = line.symbol.symbol.row();
    let open = conditions::open(row, &line.symbol.solved).map_err(|argument| {
        let message = format!("a condition of `{}` reads `{argument}` along an axis that has no name", row.op);
        fault("E706", message, None)
    })?;
    let check = |c: Condition| {
        let nest = lower_with(&c.row, &c.body, &c.solved, &Registered).map_err(|r| fault(r.code, r.message, r.help))?;
        Ok(Check { nest: Arc::new(line.renumbered(nest)), message: c.message })
    };
    open.into_iter().map(check).collect()
}

/// Fails with a message if an element of its input is false.
pub(crate) struct Assert {
    /// The message.
    pub message: String,
}

impl Kernel for Assert {
    fn name(&self) -> String {
        "check".to_owned()
    }

    fn run(&self, inputs: &[TensorRef<'_>], _: &mut [TensorMut<'_>]) -> Result<(), ExecError> {
        let truths = inputs.first().and_then(|t| Some((t.shape, t.as_slice::<bool>()?)));
        let Some((shape, truths)) = truths else { return Err(ExecError::new("E705", self.message.clone())) };
        match truths.iter().position(|holds| !holds) {
            None => Ok(()),
            Some(_) if shape.is_empty() => Err(ExecError::new("E705", self.message.clone())),
            Some(at) => Err(ExecError::new("E705", format!("{}, first at {:?}", self.message, index(at, shape)))),
        }
    }
}

/// The index of an element by its position in row-major order.
fn index(mut at: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (i, n) in index.iter_mut().zip(shape).rev() {
        *i = at % n.max(&1);
        at /= n.max(&1);
    }
    index
}
