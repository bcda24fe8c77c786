//! The program of a model after each stage of the compiler.

use fulgurite::jit::CompileStage;
use fulgurite::prelude::{Caching, Error, Key, Tensor, jit};
use fulgurite_models::Model;

/// The stages of the program with symbolic sizes, compiled for inputs of zeros. The model is captured, because the sizes
/// of its parameters are fixed.
///
/// # Errors
/// E934 to E936: the model.
pub fn stages(model: &Model) -> Result<Vec<CompileStage>, Error> {
    let inputs: Vec<Tensor> = model.example_inputs()?;
    // a model that draws random numbers needs a key
    let model = model.with_key(Key::new(0));
    let f = jit(move |inputs: Vec<Tensor>| model.call(&inputs)).named("model").keep_traces();
    let f = f.caching(Caching::Symbolic);
    f.call(inputs)?;
    Ok(f.stages())
}
