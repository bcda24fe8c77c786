//! `fulgurite eval`: calls of operators on typed numbers, with their gradients.

mod call;
mod own;
mod parse;
mod print;

use crate::args;
use crate::fault::{Fault, Outcome};
use crate::ui::{Mode, Ui};
use call::{Evaluator, Leaf};
use fulgurite::prelude::*;
use parse::Expr;
use serde_json::json;

/// Runs the command.
///
/// # Errors
/// E903, E917: faults of the expression. E910: a database that cannot be read. The errors of its operators.
pub fn run(args: &args::Eval, common: args::Common, ui: &Ui) -> Outcome {
    let text = args.expression.as_str();
    let expr = parse::parse(text)?;
    own::add(&expr, common)?;
    let mut first = Evaluator::new(text, None);
    let results = first.results(&expr)?;
    for tensor in &results {
        tensor.check().map_err(Fault::from)?;
    }
    let grads = if args.grad { gradients(text, &expr, &first.leaves)? } else { Vec::new() };
    if args.grad && grads.is_empty() {
        return Err(Fault::usage("E917", "the expression has no float list to take a gradient of"));
    }
    if ui.mode() == Mode::Json {
        let outputs = results.iter().map(print::json).collect::<Result<Vec<_>, _>>()?;
        let mut object = json!({"v": 1, "outputs": outputs});
        if args.grad {
            let named = first.leaves.iter().zip(&grads);
            let grads = named.map(|(leaf, grad)| {
                let mut value = print::json(grad)?;
                value["of"] = json!(leaf.name);
                value["span"] = json!([leaf.span.start, leaf.span.end]);
                Ok(value)
            });
            object["grads"] = grads.collect::<Result<Vec<_>, Fault>>()?.into();
        }
        ui.object(&object);
        return Ok(());
    }
    let names: Vec<String> = first.leaves.iter().zip(&grads).map(|(leaf, _)| format!("d/d {}", leaf.name)).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    for tensor in &results {
        ui.result(&print::text(tensor, if names.is_empty() { 0 } else { width + 2 }, "")?);
    }
    for (name, grad) in names.iter().zip(&grads) {
        ui.result(&print::text(grad, width + 2, name)?);
    }
    Ok(())
}

/// The one result of an expression.
///
/// # Errors
/// The errors are those of [`run`].
pub fn value(text: &str) -> Result<Tensor, Fault> {
    let (results, _) = results(text, None)?;
    let [one] = &results[..] else {
        return Err(Fault::usage("E917", format!("the expression has {} results, and one is needed", results.len())));
    };
    one.check()?;
    Ok(one.clone())
}

/// The results of an expression and its float lists; `lists`, if they are given, stand in the place of these.
///
/// # Errors
/// The errors are those of [`run`]; a result may carry an error as well.
pub fn results(text: &str, lists: Option<&[Tensor]>) -> Result<(Vec<Tensor>, Vec<Tensor>), Fault> {
    let mut evaluator = Evaluator::new(text, lists);
    let results = evaluator.results(&parse::parse(text)?)?;
    Ok((results, evaluator.leaves.into_iter().map(|leaf| leaf.value).collect()))
}

/// The gradient of the sum of all float results of an expression, for every float list.
///
/// # Errors
/// The errors are those of [`run`].
pub fn gradient(text: &str) -> Result<Vec<Tensor>, Fault> {
    let expr = parse::parse(text)?;
    let mut first = Evaluator::new(text, None);
    first.results(&expr)?;
    gradients(text, &expr, &first.leaves)
}

/// A tensor as text, and as JSON.
///
/// # Errors
/// The error of a poisoned tensor.
pub fn text(tensor: &Tensor) -> Result<String, Fault> {
    print::text(tensor, 0, "")
}
pub use call::suggest;
pub use print::json;

/// The gradient of the sum of all float results, for every leaf.
fn gradients(text: &str, expr: &Expr, leaves: &[Leaf]) -> Result<Vec<Tensor>, Fault> {
    let values: Vec<Tensor> = leaves.iter().map(|leaf| leaf.value.clone()).collect();
    if values.is_empty() {
        return Ok(values);
    }
    let mut failed = None;
    let (_, grads) = value_and_grad(&values, |values| {
        let results = Evaluator::new(text, Some(values)).results(expr);
        let sum = results.map(|all| {
            let floats = all.iter().filter(|t| t.error().is_some() || t.dtype().is_float());
            floats.map(|t| t.sum()).reduce(|a, b| a + b)
        });
        match sum {
            Ok(Some(sum)) => sum,
            Ok(None) => {
                failed = Some(Fault::usage("E917", "the result has no floats to take a gradient of"));
                Tensor::from(0.0)
            }
            Err(fault) => {
                failed = Some(fault);
                Tensor::from(0.0)
            }
        }
    });
    match failed {
        Some(fault) => Err(fault),
        None => Ok(grads),
    }
}
