//! Calls that choose or repeat programs: `cond`, `while_loop`, `scan`. Conditions are read while the program is replayed,
//! so they must be known then; a scan is replayed step by step.

use crate::graph::ModelGraph;
use crate::names::ControlFlow;
use crate::value::GraphValue;
use fulgurite::core::Scalar;
use fulgurite::{Error, Tensor, TensorOps, ops};

/// At most this many steps of a loop, because a condition that never becomes false would not end.
const MOST: usize = 1 << 20;

/// Runs a program on values.
pub type Runner<'r> = dyn FnMut(&ModelGraph, Vec<GraphValue>) -> Result<Vec<GraphValue>, Error> + 'r;

/// The parts of a call: its programs, its condition, and its lists of values.
pub struct FlowParts<'a> {
    pub graphs: Vec<&'a ModelGraph>,
    pub values: Vec<GraphValue>,
}

/// Runs a call; `run` runs one of its programs on values.
///
/// # Errors
/// E936 for a condition that is not known, or for parts of another form, and the errors of the programs.
pub fn call(flow: ControlFlow, parts: &FlowParts, run: &mut Runner) -> Result<Vec<GraphValue>, Error> {
    match (flow, &parts.graphs[..], &parts.values[..]) {
        (ControlFlow::Cond, [yes, no], [condition, GraphValue::List(operands)]) => {
            run(if truth(condition)? { yes } else { no }, operands.clone())
        }
        (ControlFlow::While, [condition, body], [GraphValue::List(carried), GraphValue::List(fixed)]) => {
            let mut carried = carried.clone();
            for _ in 0..MOST {
                let all: Vec<GraphValue> = carried.iter().chain(fixed).cloned().collect();
                let goes_on = run(condition, all.clone())?;
                let [goes_on] = &goes_on[..] else { return Err(odd("the condition of a loop has other results")) };
                if !truth(goes_on)? {
                    return Ok(carried);
                }
                carried = run(body, all)?;
            }
            Err(odd(&format!("a loop has not ended after {MOST} steps")))
        }
        (
            ControlFlow::Scan,
            [body],
            [GraphValue::List(initial), GraphValue::List(sequences), GraphValue::List(fixed)],
        ) => scan(initial, sequences, fixed, &mut |values| run(body, values)),
        _ => Err(odd("a call has its programs and values in another form")),
    }
}

/// The states after the last step, and for each further result of the body the results of all steps, stacked.
fn scan(
    initial: &[GraphValue],
    sequences: &[GraphValue],
    fixed: &[GraphValue],
    body: &mut dyn FnMut(Vec<GraphValue>) -> Result<Vec<GraphValue>, Error>,
) -> Result<Vec<GraphValue>, Error> {
    let tensor = |value: &GraphValue| value.tensor().ok_or_else(|| odd("a scan runs over something that is no tensor"));
    let sequences = sequences.iter().map(tensor).collect::<Result<Vec<_>, _>>()?;
    let steps = sequences.first().and_then(|x| x.shape().first().copied());
    let steps = steps.ok_or_else(|| odd("a scan has no sequence"))?.len();
    if steps == 0 || steps > MOST {
        return Err(odd(&format!("a scan has {steps} steps, from 1 to {MOST} are taken")));
    }
    let mut state = initial.to_vec();
    let mut made: Vec<Vec<Tensor>> = Vec::new();
    for step in 0..steps {
        let slices = sequences.iter().map(|x| GraphValue::Tensor(x.select(0, step)));
        let mut results = body(state.iter().cloned().chain(slices).chain(fixed.iter().cloned()).collect())?;
        if results.len() < state.len() {
            return Err(odd("the body of a scan has fewer results than states"));
        }
        let outputs = results.split_off(state.len());
        made.resize_with(outputs.len(), Vec::new);
        for (all, output) in made.iter_mut().zip(&outputs) {
            all.push(tensor(output)?);
        }
        state = results;
    }
    let stacked = made.iter().map(|all| GraphValue::Tensor(ops::stack(all)));
    Ok(state.into_iter().chain(stacked).collect())
}

/// The truth of a condition.
fn truth(condition: &GraphValue) -> Result<bool, Error> {
    let known = match condition {
        GraphValue::Number(Scalar::Bool(b)) => Some(*b),
        GraphValue::Tensor(x) => x.buffer().ok().and_then(|b| b.item()).map(Scalar::as_bool),
        _ => None,
    };
    known.ok_or_else(|| {
        odd("a condition depends on values that are known only when the compiled program runs")
            .help("call the model at once, outside of `jit` and gradients")
    })
}

fn odd(why: &str) -> Error {
    Error::new("E936", why)
}
