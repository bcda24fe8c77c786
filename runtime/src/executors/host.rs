//! Primitives of the runtime that rows name with `host:`. They are few, and their results are integers.

use super::{ExecError, Kernel, Line, TensorMut, TensorRef};
use crate::buffer::Buffer;
use fulgurite_core::Name;
use fulgurite_core::kernel::{HOST, Special};
use fulgurite_core::selection::{self, Keys};
use fulgurite_core::signature::Env;
use std::sync::Arc;

/// The kernel of a line that is a primitive.
pub(crate) fn kernel(line: &Line) -> Option<Arc<dyn Kernel>> {
    let name = line.host()?;
    Special::named(HOST, name.as_str())?;
    Some(Arc::new(Primitive { name, env: line.symbol.solved.env.clone() }))
}

/// A primitive with the options of a call.
struct Primitive {
    name: Name,
    env: Env,
}

impl Kernel for Primitive {
    fn name(&self) -> String {
        format!("host:{}", self.name)
    }

    fn run(&self, inputs: &[TensorRef<'_>], outs: &mut [TensorMut<'_>]) -> Result<(), ExecError> {
        let wrong = || ExecError::new("E807", format!("`{}` gives one tensor of i64", self.name));
        let keys = |x: &TensorRef<'_>| {
            let elements = x.to_buffer().as_ref().map(Buffer::scalars).unwrap_or_default();
            Keys { shape: x.shape.to_vec(), elements }
        };
        let keys: Vec<Keys> = inputs.iter().map(keys).collect();
        let found = selection::run(self.name, &self.env, &keys)
            .map_err(|why| ExecError::new("E804", format!("`{}`: {why}", self.name)))?;
        let [out] = outs else { return Err(wrong()) };
        match out.as_slice_mut::<i64>() {
            Some(out) if out.len() == found.len() => out.copy_from_slice(&found),
            _ => return Err(wrong()),
        }
        Ok(())
    }
}
