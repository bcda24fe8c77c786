//! `fulgurite run`: calls a model on inputs from files or expressions.

use super::inputs::inputs;
use super::{open, sum_of_floats};
use crate::args::{self, Weights};
use crate::cmd::eval;
use crate::cmd::profile::Profiler;
use crate::fault::{Fault, Outcome};
use crate::threads;
use crate::ui::{Mode, Ui};
use fulgurite::Key;
use fulgurite::checkpoint;
use fulgurite::prelude::{Error, Tensor, jit, try_value_and_grad};
use fulgurite_models::{Model, WeightIntegers};
use serde_json::json;
use std::collections::BTreeMap;

/// Runs the command.
///
/// # Errors
/// E930 to E936: the model and its inputs. E901 to E905: files of tensors. E903, E917: an expression.
pub fn run(args: &args::Run, ui: &Ui) -> Outcome {
    threads::set(args.threads, 1)?;
    let model = open(&args.model, args.weights.as_deref())?.with_key(Key::new(args.seed));
    let model = match args.quantise {
        Weights::F32 => model,
        Weights::Int8 => model.quantise(WeightIntegers::Int8)?,
        Weights::Int4 => model.quantise(WeightIntegers::Int4)?,
    };
    let inputs = inputs(&model, &args.input)?;
    let grad = args.grad;
    let call = jit(move |model: Model, inputs: Vec<Tensor>| {
        if !grad {
            return Ok((model.call(&inputs)?, BTreeMap::new()));
        }
        let ((_, outputs), gradients) =
            try_value_and_grad(model.params(), |params| sum_of_floats(&model.with(params), &inputs))?;
        Ok::<_, Error>((outputs, gradients))
    });
    let mut profiler = Profiler::new(&args.profiled.profile);
    let (outputs, mut gradients) = profiler.run("run", ui, || call.call((model.clone(), inputs)))?;
    // other parameters have no gradient
    gradients.retain(|_, gradient| gradient.dtype().is_float());
    profiler.finish(ui)?;
    if let Some(path) = &args.save {
        model.save(path)?;
        ui.status("Wrote", &format!("{}", path.display()));
    }
    if let Some(path) = &args.out {
        let outputs = outputs.into_iter().enumerate().map(|(n, x)| (format!("output{n}"), x));
        let gradients = gradients.into_iter().map(|(name, x)| (format!("gradient.{name}"), x));
        checkpoint::save(path, &outputs.chain(gradients).collect::<BTreeMap<String, Tensor>>())?;
        ui.status("Wrote", &format!("{}", path.display()));
        return Ok(());
    }
    if ui.mode() == Mode::Json {
        let outputs = outputs.iter().map(eval::json).collect::<Result<Vec<_>, _>>()?;
        let mut object = json!({"v": 1, "outputs": outputs});
        if grad {
            let each = |(name, x): (String, Tensor)| Ok::<_, Fault>((name, eval::json(&x)?));
            object["gradients"] = gradients.into_iter().map(each).collect::<Result<serde_json::Map<_, _>, _>>()?.into();
        }
        ui.object(&object);
        return Ok(());
    }
    for output in &outputs {
        ui.result(&eval::text(output)?);
    }
    for (name, gradient) in &gradients {
        ui.result(&format!("gradient by {name}"));
        ui.result(&eval::text(gradient)?);
    }
    Ok(())
}
