//! `fulgurite import`: reads a model of another framework, and says what it needs and whether rows implement it.

use super::trace::traced;
use crate::args;
use crate::fault::{FAILED, Fault};
use crate::ui::{Mode, Ui};
use fulgurite::prelude::{Caching, Tensor};
use fulgurite_models::{Input, Missing, Model, compare, inspect, missing};
use serde_json::json;

/// Runs the command. Returns the exit status: 1 if calls have no row, or a value differs.
///
/// # Errors
/// E930 to E936: the model. E901 to E904: the values.
pub fn run(args: &args::Import, ui: &Ui) -> Result<u8, Fault> {
    let model = inspect(&args.model)?;
    let lacking = missing(&model);
    if args.trace && lacking.is_empty() {
        let first = traced(&model, Caching::Symbolic, false)?.stages()?.into_iter().next();
        ui.result(&first.and_then(|stage| stage.text).unwrap_or_default());
        return Ok(0);
    }
    summary(args, &model, &lacking, ui);
    if !lacking.is_empty() {
        return Ok(FAILED);
    }
    match &args.compare {
        Some(values) => {
            let values = fulgurite::checkpoint::tensors(values)?;
            compared(&model, &values, args.tolerance, ui)
        }
        None => Ok(0),
    }
}

fn summary(args: &args::Import, model: &Model, lacking: &[Missing], ui: &Ui) {
    let functions = model.functions();
    let bytes = |tensor: &Tensor| tensor.numel().len() * tensor.dtype().size();
    let params: usize = model.params().values().map(bytes).sum();
    let calls: usize = lacking.iter().map(|m| m.calls).sum();
    if ui.mode() == Mode::Json {
        let inputs: Vec<String> = model.inputs().iter().map(Input::to_string).collect();
        let rows = |m: &Missing| json!({"target": m.target, "calls": m.calls, "place": m.loc.to_string()});
        ui.object(&json!({"v": 1, "model": args.model, "calls": model.len(), "functions": functions, "inputs": inputs,
            "ranges": model.ranges(), "parameters": model.params().len(), "parameter_bytes": params,
            "buffers": model.buffers().len(), "missing": lacking.iter().map(rows).collect::<Vec<_>>()}));
        return;
    }
    ui.result(&format!(
        "{}: {} calls of {} functions, {} parameters ({:.1} MB), {} buffers",
        args.model.display(),
        model.len(),
        functions.len(),
        model.params().len(),
        params as f64 / 1e6,
        model.buffers().len()
    ));
    for input in model.inputs() {
        ui.result(&format!("  input {input}"));
    }
    for (symbol, (least, most)) in model.ranges() {
        let most = most.map_or("on".to_owned(), |most| format!("to {most}"));
        ui.result(&format!("  size {symbol}: from {least} {most}"));
    }
    if ui.wishes().verbose {
        for (target, calls) in &functions {
            ui.result(&format!("  {calls:5} × {target}"));
        }
    }
    match calls {
        0 => ui.result("every call has a row"),
        _ => ui.result(&format!("{calls} calls have no row:")),
    }
    for Missing { target, calls, loc } in lacking {
        ui.result(&format!("  {calls:5} × {target}   {loc}"));
    }
}

fn compared(
    model: &Model,
    values: &std::collections::BTreeMap<String, Tensor>,
    tolerance: f64,
    ui: &Ui,
) -> Result<u8, Fault> {
    let found = compare(model, values, tolerance)?;
    let worst = found.worst.as_ref().map_or(0.0, |worst| worst.error);
    if ui.mode() == Mode::Json {
        let first = found
            .first
            .as_ref()
            .map(|d| json!({"name": d.name, "target": d.target, "place": d.loc.to_string(), "error": d.error}));
        ui.object(&json!({"v": 1, "compared": found.compared, "worst": worst, "first": first}));
    } else {
        ui.result(&format!("{} values are compared, the largest difference is {worst:.1e}", found.compared));
        if let Some(d) = &found.first {
            let text = format!("the first that is off: `{}`, a result of {}, by {:.1e}", d.name, d.target, d.error);
            ui.result(&format!("{text}\n  {}", d.loc));
        }
    }
    if found.compared == 0 {
        let claim = "no tensor of the values has the name of a result";
        return Err(Fault::failed("E935", claim).help("see docs/models.md for a script that writes the values"));
    }
    Ok(if found.first.is_none() { 0 } else { FAILED })
}
