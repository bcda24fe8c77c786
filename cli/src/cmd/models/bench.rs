//! `fulgurite bench --model`: the time of a model's calls.

use super::inputs::inputs;
use super::sum_of_floats;
use crate::args;
use crate::cmd::profile::Profiler;
use crate::fault::Outcome;
use crate::ui::Ui;
use fulgurite::prelude::{Error, Key, Tensor, TensorOps, jit, try_value_and_grad};
use fulgurite_bench::{Made, Server, repeated};
use fulgurite_models::{Model, import};
use serde_json::Value;
use std::path::Path;

/// The variant that not every model has.
const GRADIENT: &str = "gradient";

/// Makes the workload of a variant.
type Maker = fn(Model, Vec<Tensor>) -> Made;

/// Times a call at once, a compiled call, and a compiled gradient of the sum of all outputs by the parameters. Each
/// begins with the buffers of the file. A model without a gradient is timed without it. `show` prints a record.
///
/// # Errors
/// E930 to E936: the model and its inputs. E901 to E905: files of tensors. E903, E917: an expression. The refusal of a
/// call.
pub fn run(path: &Path, args: &args::Bench, server: &mut Server, ui: &Ui, show: &dyn Fn(&str, &Value)) -> Outcome {
    let model = import(path)?.with_key(Key::new(0));
    let given = match args.input.is_empty() {
        true => model.example_inputs()?,
        false => inputs(&model, &args.input)?,
    };
    let stem = path.file_stem().map_or_else(|| "model".into(), |stem| stem.to_string_lossy().replace('.', "-"));
    let variants: [(&str, Maker); 3] = [("at_once", at_once), ("compiled", compiled), (GRADIENT, gradient)];
    let mut profiler = Profiler::new(&args.profiled.profile);
    for (variant, make) in variants {
        let name = format!("{stem}.{variant}");
        let work = || make(with_own_buffers(&model), given.clone());
        match profiler.run(&name, ui, || server.record_of(&name, work, args.reps)) {
            Ok(record) => show(&name, &record),
            Err(e) if variant == GRADIENT => ui.status("Skipped", &format!("{name}: {}", e.claim())),
            Err(e) => return Err(e.into()),
        }
    }
    profiler.finish(ui)
}

fn at_once(model: Model, inputs: Vec<Tensor>) -> Made {
    repeated(move || model.call(&inputs))
}

fn compiled(model: Model, inputs: Vec<Tensor>) -> Made {
    let call = jit(|model: Model, inputs: Vec<Tensor>| model.call(&inputs));
    repeated(move || call.call((model.clone(), inputs.clone())))
}

fn gradient(model: Model, inputs: Vec<Tensor>) -> Made {
    let step = jit(|model: Model, inputs: Vec<Tensor>| {
        try_value_and_grad(model.params(), |params| Ok::<_, Error>(sum_of_floats(&model.with(params), &inputs)?.0))
    });
    repeated(move || {
        let (value, gradients) = step.call((model.clone(), inputs.clone()))?;
        Ok(std::iter::once(value).chain(gradients.into_values().filter(|g| g.dtype().is_float())).collect())
    })
}

/// The model with copies of its buffers, because calls may write them.
fn with_own_buffers(model: &Model) -> Model {
    model.with_buffers(&model.buffers().iter().map(|(name, x)| (name.clone(), x.copy())).collect())
}
