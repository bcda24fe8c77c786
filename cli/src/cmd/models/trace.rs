//! The program of a model after each stage of the compiler.

use crate::cmd::traced::ShownProgram;
use fulgurite::prelude::{Caching, Error, Key, Tensor, jit};
use fulgurite_models::Model;

/// The program, compiled for inputs of zeros; with `measured`, also its times. The model is captured, because the sizes of
/// its parameters are fixed. With symbolic sizes a program may run in two parts, which no stage shows, so a reader of
/// steps chooses constant ones.
///
/// # Errors
/// E934 to E936: the model has no inputs of which the sizes are known.
pub fn traced(model: &Model, caching: Caching, measured: bool) -> Result<ShownProgram, Error> {
    let inputs: Vec<Tensor> = model.example_inputs()?;
    // a model that draws random numbers needs a key
    let model = model.with_key(Key::new(0));
    let f = jit(move |inputs: Vec<Tensor>| model.call(&inputs)).named("model").keep_traces();
    let f = f.caching(caching);
    Ok(ShownProgram::of(measured, || f.call(inputs.clone()).map(drop), || f.stages()))
}
