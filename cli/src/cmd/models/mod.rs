//! The commands for models of other frameworks: `import`, `run`, and `train --model`.

pub mod import;
pub mod run;
pub mod train;

use crate::fault::Fault;
use fulgurite::Tensor;
use fulgurite::checkpoint::{self, Load};
use fulgurite_models::Model;
use std::collections::BTreeMap;
use std::path::Path;

/// Reads a model, and on request other weights for it: a file that `train --model` wrote.
///
/// # Errors
/// E930 to E934: the model. E901 to E905: the weights.
fn open(path: &Path, weights: Option<&Path>) -> Result<Model, Fault> {
    let mut model = fulgurite_models::import(path)?;
    if let Some(weights) = weights {
        checkpoint::load_with(weights, &mut model, &Load { fixed: false })?;
    }
    Ok(model)
}

/// The tensors of a safetensors file, by name.
fn tensors(path: &Path) -> Result<BTreeMap<String, Tensor>, Fault> {
    Ok(checkpoint::tensors(path)?)
}
