//! Models that were exported from other frameworks: they run, differentiate and train on the rows of fulgurite.
//!
//! [`import`] reads an archive of `torch.export.save`. The parameters and buffers keep their names and their memory: the
//! file is mapped, not copied. The model is an ordinary function of tensors, so that every transform applies to it.
//!
//! ```no_run
//! use fulgurite::prelude::*;
//! use fulgurite_models::import;
//!
//! let model = import("resnet18.pt2")?;
//! let images = Tensor::from_vec(vec![0.5f32; 2 * 3 * 64 * 64], [2, 3, 64, 64]);
//! let logits = model.call([&images])?;
//!
//! // compiled, and differentiated by the parameters
//! let step = jit(|model: fulgurite_models::Model, images: Tensor| {
//!     try_value_and_grad(model.params(), |params| {
//!         let logits = model.with(params).call([&images])?;
//!         Ok::<_, Error>(logits[0].square().mean())
//!     })
//! });
//! let (loss, gradients) = step.call((model.clone(), images))?;
//! # Ok::<(), Error>(())
//! ```
//!
//! No operator is named here. A call of the file goes to the row that has its name in a linked database
//! ([`fulgurite::foreign`]); this crate links `fulgurite-pytorch`.

mod archive;
mod compare;
mod control_flow;
mod fault;
mod graph;
mod host;
mod inputs;
mod known;
mod memory;
mod model;
mod names;
mod onnx;
mod places;
mod pt2;
mod quantise;
mod recurrent;
mod replay;
mod report;
mod saved;
mod sequences;
mod size_text;
mod stages;
mod value;

pub use compare::{Comparison, Difference, compare};
pub use inputs::{Input, InputSize};
pub use model::{Model, ModelResults};
pub use quantise::WeightIntegers;
pub use report::{Missing, missing};

use fulgurite::Error;
use fulgurite_onnx as _;
use fulgurite_pytorch as _;
use std::path::Path;

/// Reads a model from an archive of `torch.export.save` (`.pt2`), or from a file of ONNX (`.onnx`).
///
/// # Errors
/// E930 if the file is no such archive, E931 if it is cut short or contradicts itself, E932 for a version of the format
/// that this program does not read, E933 if a part that the model needs is a pickle, and E934 with every call that no
/// row implements.
pub fn import(path: impl AsRef<Path>) -> Result<Model, Error> {
    let model = inspect(path.as_ref())?;
    match missing(&model) {
        missing if missing.is_empty() => Ok(model),
        missing => Err(report::refusal(path.as_ref(), &missing)),
    }
}

/// Like [`import`], for a model some of whose calls may have no row. The program of such a model
/// can be inspected, and [`missing`] lists the calls. A call of the model fails at the first of
/// them.
///
/// # Errors
/// The errors of [`import`] except for E934.
pub fn inspect(path: impl AsRef<Path>) -> Result<Model, Error> {
    let path = path.as_ref();
    match path.extension().is_some_and(|extension| extension == "onnx") {
        true => onnx::read(path),
        false => pt2::read(path),
    }
}
