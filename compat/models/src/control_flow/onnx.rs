//! ONNX's `If`, `Loop`, `Scan` and `SequenceMap`.

use super::{FlowParts, MOST, Runner, choose, lines, odd, truth};
use crate::names::ControlFlow;
use crate::value::GraphValue;
use fulgurite::{Error, Tensor, TensorOps, ops};

/// Runs a call; `run` runs one of its programs on values.
///
/// # Errors
/// E936 for a condition that is not known, or for parts of another form, and the errors of the programs.
pub fn call(flow: ControlFlow, parts: &FlowParts, run: &mut Runner) -> Result<Vec<GraphValue>, Error> {
    match (flow, &parts.values[..]) {
        (ControlFlow::OnnxIf, [condition]) => {
            let (yes, no) = (parts.program("then_branch")?, parts.program("else_branch")?);
            choose(condition, &mut |condition| if condition { yes } else { no }.run(run, []))
        }
        (ControlFlow::OnnxLoop, [most, goes_on, initial @ ..]) => repeat(parts, most, goes_on, initial, run),
        (ControlFlow::OnnxScan, values) => scan(parts, values, run),
        (ControlFlow::SequenceMap, [first, more @ ..]) => sequence_map(parts, first, more, run),
        _ => Err(odd("a call has its programs and values in another form")),
    }
}

fn tensor(value: &GraphValue) -> Result<Tensor, Error> {
    value.tensor().ok_or_else(|| odd("a step of a loop has a result that is no tensor"))
}

/// Runs the body of a loop at most `most` times, for as long as it says so. The states come first, then for each
/// further result of the body the results of all steps, stacked.
fn repeat(
    parts: &FlowParts,
    most: &GraphValue,
    goes_on: &GraphValue,
    initial: &[GraphValue],
    run: &mut Runner,
) -> Result<Vec<GraphValue>, Error> {
    let body = parts.program("body")?;
    let steps = match most {
        GraphValue::None => None,
        value => Some(value.whole().ok_or_else(|| odd("the number of a loop's steps is not known"))?),
    };
    let mut state = initial.to_vec();
    let mut made = vec![Vec::new(); body.graph.outputs.len().saturating_sub(1 + state.len())];
    let mut goes_on = goes_on.clone();
    for step in 0.. {
        let holds = match &goes_on {
            GraphValue::None => true,
            condition => truth(condition).ok_or_else(|| {
                odd("whether a loop goes on is known only when the compiled program runs")
                    .help("call the model at once, outside of `jit` and gradients")
            })?,
        };
        if steps.is_some_and(|steps| step >= steps) || !holds {
            break;
        }
        if step >= MOST as i64 {
            return Err(odd(&format!("a loop has not ended after {MOST} steps")));
        }
        let condition = match &goes_on {
            GraphValue::None => GraphValue::Tensor(Tensor::scalar(true)),
            condition => condition.clone(),
        };
        let inputs = [GraphValue::Tensor(Tensor::scalar(step)), condition].into_iter().chain(state);
        let mut results = body.run(run, inputs)?.into_iter();
        goes_on = results.next().ok_or_else(|| odd("the body of a loop has no result"))?;
        state = results.by_ref().take(initial.len()).collect();
        for (all, result) in made.iter_mut().zip(results) {
            all.push(tensor(&result)?);
        }
    }
    let stacked = made.iter().map(|all| match all.is_empty() {
        true => Err(odd("a loop makes no step, and the sizes of what its steps would make are not known")),
        false => Ok(GraphValue::Tensor(ops::stack(all))),
    });
    let stacked = stacked.collect::<Result<Vec<_>, _>>()?;
    Ok(state.into_iter().chain(stacked).collect())
}

/// Runs the body on each slice of the last values, the sequences; the first values are the initial states.
fn scan(parts: &FlowParts, values: &[GraphValue], run: &mut Runner) -> Result<Vec<GraphValue>, Error> {
    let body = parts.program("body")?;
    let count = parts.numbers("num_scan_inputs")?.first().and_then(|n| usize::try_from(*n).ok());
    let states =
        count.and_then(|count| values.len().checked_sub(count)).ok_or_else(|| odd("a scan has no sequence"))?;
    let (initial, sequences) = values.split_at(states);
    let numbers = |name: &str| parts.numbers(name);
    let (input_axes, input_directions) = (numbers("scan_input_axes")?, numbers("scan_input_directions")?);
    let (output_axes, output_directions) = (numbers("scan_output_axes")?, numbers("scan_output_directions")?);
    let entry = |numbers: &[i64], at: usize| numbers.get(at).copied().unwrap_or(0);
    // a sequence runs along its first axis, from its first slice to the last
    let forward = |(at, value): (usize, &GraphValue)| {
        let x = tensor(value)?.move_axes([entry(&input_axes, at)], [0]);
        Ok(GraphValue::Tensor(if entry(&input_directions, at) == 1 { x.flip([0]) } else { x }))
    };
    let sequences = sequences.iter().enumerate().map(forward).collect::<Result<Vec<_>, Error>>()?;
    let mut results = lines::scan(initial, &sequences, &[], false, &mut |values| body.run(run, values))?;
    for (at, result) in results.iter_mut().skip(initial.len()).enumerate() {
        let x = tensor(result)?;
        let x = if entry(&output_directions, at) == 1 { x.flip([0]) } else { x };
        *result = GraphValue::Tensor(x.move_axes([0], [entry(&output_axes, at)]));
    }
    Ok(results)
}

/// Runs the body on the items of lists that belong together; a tensor among the arguments is given at each step.
fn sequence_map(
    parts: &FlowParts,
    first: &GraphValue,
    more: &[GraphValue],
    run: &mut Runner,
) -> Result<Vec<GraphValue>, Error> {
    let body = parts.program("body")?;
    let GraphValue::List(items) = first else { return Err(odd("a map over something that is no list")) };
    let mut made = vec![Vec::new(); body.graph.outputs.len()];
    for (at, item) in items.iter().enumerate() {
        let beside = more.iter().map(|value| match value {
            GraphValue::List(items) => items.get(at).cloned().ok_or_else(|| odd("the lists of a map differ in length")),
            other => Ok(other.clone()),
        });
        let beside = beside.collect::<Result<Vec<_>, _>>()?;
        for (all, result) in made.iter_mut().zip(body.run(run, [item.clone()].into_iter().chain(beside))?) {
            all.push(result);
        }
    }
    Ok(made.into_iter().map(GraphValue::List).collect())
}
