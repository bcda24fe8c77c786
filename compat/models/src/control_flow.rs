//! Calls that choose or repeat programs: PyTorch's `cond`, `while_loop` and `scan`, ONNX's `If`, `Loop`, `Scan` and
//! `SequenceMap`. A condition that is known while the program is replayed decides at once; any other one becomes a line
//! of the trace with the programs.

mod lines;
mod onnx;

use crate::graph::ModelGraph;
use crate::names::ControlFlow;
use crate::value::GraphValue;
use fulgurite::Error;
use fulgurite::core::Scalar;

/// At most this many steps of a loop, because a condition that never becomes false would not end.
const MOST: usize = 1 << 20;

/// Runs a program on values.
pub type Runner<'r> = dyn FnMut(&ModelGraph, Vec<GraphValue>) -> Result<Vec<GraphValue>, Error> + 'r;

/// A program among the arguments of a call.
pub struct FlowProgram<'a> {
    /// The name of the argument, if it is a named one.
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
    ///
    /// # Errors
    /// E936 if it has something else.
    fn numbers(&self, name: &str) -> Result<Vec<i64>, Error> {
        let number = |value: &GraphValue| {
            value.whole().ok_or_else(|| odd(&format!("`{name}` has {}, and no whole number", value.kind())))
        };
        match self.named.iter().find(|(n, _)| *n == name).map(|(_, value)| value) {
            Some(GraphValue::List(items)) => items.iter().map(number).collect(),
            Some(one) => Ok(vec![number(one)?]),
            None => Ok(Vec::new()),
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
            choose(condition, &mut |condition| {
                let program = if condition { yes } else { no };
                program.run(run, operands.clone())
            })
        }
        (ControlFlow::While, [condition, body], [GraphValue::List(carried), GraphValue::List(fixed)]) => {
            let mut carried = carried.clone();
            for _ in 0..MOST {
                let all: Vec<GraphValue> = carried.iter().chain(fixed).cloned().collect();
                let goes_on = only(condition.run(run, all.clone())?)?;
                match truth(&goes_on) {
                    Some(false) => return Ok(carried),
                    Some(true) => carried = body.run(run, all)?,
                    None => return lines::repeat(carried, fixed, condition, body, run),
                }
            }
            Err(odd(&format!("a loop has not ended after {MOST} steps")))
        }
        (
            ControlFlow::Scan,
            [body],
            [GraphValue::List(initial), GraphValue::List(sequences), GraphValue::List(fixed)],
        ) => lines::scan(initial, sequences, fixed, false, &mut |values| body.run(run, values)),
        _ => Err(odd("a call has its programs and values in another form")),
    }
}

/// The results of the program that a condition chooses. If the condition is not known, both become programs of a line.
fn choose(
    condition: &GraphValue,
    run: &mut dyn FnMut(bool) -> Result<Vec<GraphValue>, Error>,
) -> Result<Vec<GraphValue>, Error> {
    match (truth(condition), condition) {
        (Some(condition), _) => run(condition),
        (None, GraphValue::Tensor(condition)) => lines::choose(condition, run),
        (None, other) => Err(odd(&format!("a condition is {}", other.kind()))),
    }
}

/// The one result of a condition.
fn only(results: Vec<GraphValue>) -> Result<GraphValue, Error> {
    let [one] = <[GraphValue; 1]>::try_from(results).map_err(|_| odd("the condition of a loop has other results"))?;
    Ok(one)
}

/// The truth of a condition; `None` if it is not known before the compiled program runs.
fn truth(condition: &GraphValue) -> Option<bool> {
    match condition {
        GraphValue::Number(Scalar::Bool(b)) => Some(*b),
        GraphValue::Tensor(x) | GraphValue::Known(x) => {
            let one = x.buffer().ok().filter(|b| b.len() == 1);
            one.and_then(|b| b.scalars().first().copied()).map(Scalar::as_bool)
        }
        _ => None,
    }
}

fn odd(why: &str) -> Error {
    Error::new("E936", why)
}
