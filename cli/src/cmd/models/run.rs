//! `fulgurite run`: calls a model on inputs from files or expressions.

use super::inputs::inputs;
use super::open;
use crate::args::{self, Weights};
use crate::cmd::eval;
use crate::cmd::profile::Profiler;
use crate::fault::Outcome;
use crate::threads;
use crate::ui::{Mode, Ui};
use fulgurite::Key;
use fulgurite::checkpoint;
use fulgurite::prelude::{Tensor, jit};
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
    let call = jit(|model: Model, inputs: Vec<Tensor>| model.call(&inputs));
    let mut profiler = Profiler::new(&args.profile);
    let outputs = profiler.run("run", ui, || call.call((model.clone(), inputs)))?;
    profiler.finish(ui)?;
    if let Some(path) = &args.save {
        model.save(path)?;
        ui.status("Wrote", &format!("{}", path.display()));
    }
    if let Some(path) = &args.out {
        let named: BTreeMap<String, Tensor> =
            outputs.iter().enumerate().map(|(n, x)| (format!("output{n}"), x.clone())).collect();
        checkpoint::save(path, &named)?;
        ui.status("Wrote", &format!("{}", path.display()));
        return Ok(());
    }
    if ui.mode() == Mode::Json {
        let outputs = outputs.iter().map(eval::json).collect::<Result<Vec<_>, _>>()?;
        ui.object(&json!({"v": 1, "outputs": outputs}));
        return Ok(());
    }
    for output in &outputs {
        ui.result(&eval::text(output)?);
    }
    Ok(())
}
