//! Choices and loops as lines of the trace, or at once where no trace is open.

use super::{FlowProgram, Runner, odd, only};
use crate::value::GraphValue;
use fulgurite::{Error, Tensor, prelude};
use std::cell::RefCell;

/// The tensors of values.
///
/// # Errors
/// E936 for a value that is not a tensor.
pub fn tensors(values: &[GraphValue]) -> Result<Vec<Tensor>, Error> {
    let tensor =
        |value: &GraphValue| value.tensor().ok_or_else(|| odd("a program of a loop has a value that is no tensor"));
    values.iter().map(tensor).collect()
}

fn values(tensors: Vec<Tensor>) -> Vec<GraphValue> {
    tensors.into_iter().map(GraphValue::Tensor).collect()
}

/// The first error in the programs of a line. After it, their functions give no results, and this
/// error replaces the error of the line about that.
#[derive(Default)]
struct Failure(RefCell<Option<Error>>);

impl Failure {
    fn keep(&self, made: Result<Vec<Tensor>, Error>) -> Vec<Tensor> {
        made.unwrap_or_else(|e| {
            self.0.borrow_mut().get_or_insert(e);
            Vec::new()
        })
    }

    fn or<T>(self, made: Result<T, Error>) -> Result<T, Error> {
        self.0.into_inner().map_or(made, Err)
    }
}

/// The results of one of two programs, which `run` runs.
///
/// # Errors
/// The errors of the programs, and those of [`prelude::cond`].
pub fn choose(
    condition: &Tensor,
    run: &mut dyn FnMut(bool) -> Result<Vec<GraphValue>, Error>,
) -> Result<Vec<GraphValue>, Error> {
    let (run, failure) = (RefCell::new(run), Failure::default());
    let branch = |which| failure.keep((run.borrow_mut())(which).and_then(|made| tensors(&made)));
    let made = prelude::cond(condition, || branch(true), || branch(false));
    failure.or(made).map(values)
}

/// Runs `body` on the carried and the fixed values for as long as `condition` holds.
///
/// # Errors
/// The errors of the programs, and those of [`prelude::while_loop`].
pub fn repeat(
    carried: Vec<GraphValue>,
    fixed: &[GraphValue],
    condition: &FlowProgram,
    body: &FlowProgram,
    run: &mut Runner,
) -> Result<Vec<GraphValue>, Error> {
    let (run, failure) = (RefCell::new(run), Failure::default());
    let call = |program: &FlowProgram, carried: Vec<Tensor>| {
        program.run(*run.borrow_mut(), values(carried).into_iter().chain(fixed.iter().cloned()))
    };
    let test = |carried: &Vec<Tensor>| {
        let made = call(condition, carried.clone()).and_then(only).and_then(|one| tensors(&[one]));
        failure.keep(made).pop().unwrap_or_else(|| Tensor::scalar(false))
    };
    let step = |carried: Vec<Tensor>| failure.keep(call(body, carried).and_then(|made| tensors(&made)));
    let made = prelude::while_loop(None, tensors(&carried)?, test, step);
    failure.or(made).map(values)
}

/// The states after the last step, and for each further result of the body the results of all steps, stacked.
///
/// # Errors
/// The errors of the body, and those of [`prelude::scan`].
pub fn scan(
    initial: &[GraphValue],
    sequences: &[GraphValue],
    fixed: &[GraphValue],
    reverse: bool,
    body: &mut dyn FnMut(Vec<GraphValue>) -> Result<Vec<GraphValue>, Error>,
) -> Result<Vec<GraphValue>, Error> {
    let (body, failure) = (RefCell::new(body), Failure::default());
    let states = initial.len();
    let step = |state: Vec<Tensor>, slices: Vec<Tensor>| {
        let all = values(state).into_iter().chain(values(slices)).chain(fixed.iter().cloned()).collect();
        let mut made = failure.keep((body.borrow_mut())(all).and_then(|made| tensors(&made)));
        let outputs = made.split_off(states.min(made.len()));
        (made, outputs)
    };
    let (initial, sequences) = (tensors(initial)?, tensors(sequences)?);
    let made = match reverse {
        true => prelude::scan_reverse(initial, &sequences, step),
        false => prelude::scan(initial, &sequences, step),
    };
    failure.or(made).map(|(state, outputs)| values(state.into_iter().chain(outputs).collect()))
}
