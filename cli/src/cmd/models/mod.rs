//! The commands for models of other frameworks: `import`, `run`, and `train`, `trace` and `bench` with `--model`.

pub mod bench;
pub mod import;
mod inputs;
pub mod run;
pub mod trace;
pub mod train;

use crate::fault::Fault;
use fulgurite::checkpoint;
use fulgurite::core::DType;
use fulgurite::prelude::{Error, Tensor, TensorOps};
use fulgurite_models::Model;
use std::collections::BTreeMap;
use std::path::Path;

/// Reads a model, and on request other weights for it: a file that `train --model` or [`Model::save`] wrote.
///
/// # Errors
/// E930 to E934: the model. E901 to E905: the weights.
fn open(path: &Path, weights: Option<&Path>) -> Result<Model, Fault> {
    let model = fulgurite_models::import(path)?;
    match weights {
        Some(weights) => Ok(model.load(weights)?),
        None => Ok(model),
    }
}

/// The tensors of a safetensors file, by name.
fn tensors(path: &Path) -> Result<BTreeMap<String, Tensor>, Fault> {
    Ok(checkpoint::tensors(path)?)
}

/// The sum of all outputs of floats, computed in f32, and the outputs.
///
/// # Errors
/// E936 if there is no such output. The errors of the call.
fn sum_of_floats(model: &Model, inputs: &[Tensor]) -> Result<(Tensor, Vec<Tensor>), Error> {
    let outputs = model.call(inputs)?;
    let floats = outputs.iter().filter(|x| x.dtype().is_float());
    let sum = floats.map(|x| x.cast(DType::F32).sum()).reduce(|a, b| a + b);
    let sum = sum.ok_or_else(|| Error::new("E936", "the model has no output of floats, so it has no gradient"))?;
    Ok((sum, outputs))
}
