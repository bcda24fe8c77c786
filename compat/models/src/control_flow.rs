//! Calls that choose or repeat programs: PyTorch's `cond`, `while_loop` and `scan`, ONNX's `If`, `Loop`, `Scan` and
//! `SequenceMap`. Conditions are read while the program is replayed, so they must be known then; a scan is replayed step
//! by step.

mod onnx;

use crate::graph::ModelGraph;
use crate::names::ControlFlow;
use crate::value::GraphValue;
use fulgurite::core::Scalar;
use fulgurite::{Error, Tensor, TensorOps, ops};

/// At most this many steps of a loop, because a condition that never becomes false would not end.
const MOST: usize = 1 << 20;

/// Runs a program on values.
pub type Runner<'r> = dyn FnMut(&ModelGraph, Vec<GraphValue>) -> Result<Vec<GraphValue>, Error> + 'r;

/// A program among the arguments of a call.
pub struct FlowProgram<'a> {
    /// Its name, if it is a named argument.
    pub name: &'a str,
    pub graph: &'a ModelGraph,
    /// The values of its last inputs.
    pub captured: Vec<GraphValue>,
}

/// The parts of a call: its programs, its positional arguments, and its named ones.
pub struct FlowParts<'a> {
    pub programs: Vec<FlowProgram<'a>>,
    pub values: Vec<GraphValue>,
    pub named: Vec<(&'a str, GraphValue)>,
}

impl FlowProgram<'_> {
    fn run(&self, run: &mut Runner, values: impl IntoIterator<Item = GraphValue>) -> Result<Vec<GraphValue>, Error> {
        run(self.graph, values.into_iter().chain(self.captured.iter().cloned()).collect())
    }
}

impl FlowParts<'_> {
    fn program(&self, name: &str) -> Result<&FlowProgram<'_>, Error> {
        self.programs.iter().find(|p| p.name == name).ok_or_else(|| odd(&format!("a call has no program `{name}`")))
    }

    /// The whole numbers of a named argument; none if it is left out.
    fn numbers(&self, name: &str) -> Vec<i64> {
        let number = |value: &GraphValue| match value {
            GraphValue::Number(x) => Some(x.as_f64() as i64),
            _ => None,
        };
        match self.named.iter().find(|(n, _)| *n == name).map(|(_, value)| value) {
            Some(GraphValue::List(items)) => items.iter().filter_map(number).collect(),
            Some(one) => number(one).into_iter().collect(),
            None => Vec::new(),
        }
    }
}

/// Runs a call; `run` runs one of its programs on values.
///
/// # Errors
/// E936 for a condition that is not known, or for parts of another form, and the errors of the programs.
pub fn call(flow: ControlFlow, parts: &FlowParts, run: &mut Runner) -> Result<Vec<GraphValue>, Error> {
    match flow {
        ControlFlow::OnnxIf | ControlFlow::OnnxLoop | ControlFlow::OnnxScan | ControlFlow::SequenceMap => {
            return onnx::call(flow, parts, run);
        }
        ControlFlow::Cond | ControlFlow::While | ControlFlow::Scan => {}
    }
    match (flow, &parts.programs[..], &parts.values[..]) {
        (ControlFlow::Cond, [yes, no], [condition, GraphValue::List(operands)]) => {
            if truth(condition)? { yes } else { no }.run(run, operands.clone())
        }
        (ControlFlow::While, [condition, body], [GraphValue::List(carried), GraphValue::List(fixed)]) => {
            let mut carried = carried.clone();
            for _ in 0..MOST {
                let all: Vec<GraphValue> = carried.iter().chain(fixed).cloned().collect();
                let goes_on = condition.run(run, all.clone())?;
                let [goes_on] = &goes_on[..] else { return Err(odd("the condition of a loop has other results")) };
                if !truth(goes_on)? {
                    return Ok(carried);
                }
                carried = body.run(run, all)?;
            }
            Err(odd(&format!("a loop has not ended after {MOST} steps")))
        }
        (
            ControlFlow::Scan,
            [body],
            [GraphValue::List(initial), GraphValue::List(sequences), GraphValue::List(fixed)],
        ) => scan(initial, sequences, fixed, &mut |values| body.run(run, values)),
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
        GraphValue::Tensor(x) | GraphValue::Known(x) => {
            let one = x.buffer().ok().filter(|b| b.len() == 1);
            one.and_then(|b| b.scalars().first().copied()).map(Scalar::as_bool)
        }
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
