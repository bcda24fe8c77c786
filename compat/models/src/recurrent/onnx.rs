//! ONNX's recurrent layers: one layer in one or both directions.

use super::cell::{Activation, RecurrentCell, RecurrentKind, part};
use super::{Pass, RecurrentLayer};
use crate::value::GraphValue;
use fulgurite::prelude::zeros_like;
use fulgurite::{Tensor, TensorOps, ops};

/// The positional arguments, from the third one: biases, lengths, states, peepholes.
struct Given<'a>(&'a [GraphValue]);

impl Given<'_> {
    fn tensor(&self, at: usize) -> Option<Tensor> {
        self.0.get(at).and_then(GraphValue::tensor)
    }
}

/// The outputs of all steps, [steps, directions, batch, hidden], and the last states, [directions, batch, hidden] each.
///
/// # Errors
/// An argument that is not supported, in words.
pub fn call(layer: RecurrentLayer, args: &[GraphValue], named: &[(&str, GraphValue)]) -> Result<Vec<Tensor>, String> {
    let given = Given(args);
    let option = |name: &str| named.iter().find(|(n, _)| *n == name).map(|(_, value)| value);
    let (Some(x), Some(w), Some(r)) = (given.tensor(0), given.tensor(1), given.tensor(2)) else {
        return Err("a recurrent layer needs a sequence and weights".to_owned());
    };
    let batch_first = GraphValue::whole_named(named, "layout", 0)? != 0;
    let x = if batch_first { swapped(&x, 1) } else { x };
    let directions: &[bool] = match option("direction") {
        Some(GraphValue::Text(word)) if word == "reverse" => &[true],
        Some(GraphValue::Text(word)) if word == "bidirectional" => &[false, true],
        Some(GraphValue::Text(word)) if word != "forward" => {
            return Err(format!("a recurrent layer with the direction `{word}`"));
        }
        _ => &[false],
    };
    let lengths = given.tensor(4);
    if lengths.is_some() && directions.contains(&true) {
        return Err("a recurrent layer that runs backwards over sequences of different lengths".to_owned());
    }
    let (mut outputs, mut last) = (Vec::new(), Vec::new());
    for (at, reverse) in directions.iter().enumerate() {
        let of = |x: Tensor| x.select(0, at);
        let cell = cell(layer, named, at, given.tensor(7).map(of))?;
        let halves = given.tensor(3).map(of).map(|b| (part(&b, 0, 2, 0), part(&b, 1, 2, 0)));
        let r = of(r.clone());
        let state = |which: usize| match given.tensor(5 + which) {
            Some(state) if batch_first => swapped(&state, 1).select(0, at),
            Some(state) => of(state),
            // of the type and sizes that a step gives
            None => zeros_like(&ops::matmul(&x.select(0, 0), &of(w.clone()).t()).slice_with(first(&r))),
        };
        let states = (0..cell.states()).map(state).collect();
        let pass =
            Pass { cell: &cell, w: of(w.clone()), r, biases: halves, lengths: lengths.clone(), reverse: *reverse };
        let (output, states) = pass.run(&x, states)?;
        outputs.push(output);
        last.push(states);
    }
    let mut results = vec![ops::stack_with(&outputs, ops::Stack { dim: 1.into() })];
    for which in 0..last[0].len() {
        let states: Vec<Tensor> = last.iter().map(|states| states[which].clone()).collect();
        results.push(ops::stack(&states));
    }
    if batch_first {
        results[0] = swapped(&results[0], 2);
        results[1..].iter_mut().for_each(|state| *state = swapped(state, 1));
    }
    Ok(results)
}

/// The first entries along the last axis, as many as the state has.
fn first(r: &Tensor) -> ops::Slice {
    let hidden = r.shape().last().copied().unwrap_or_else(|| 0.into());
    ops::Slice { dim: (-1).into(), stop: Some(hidden), ..Default::default() }
}

/// The tensor with axis `batch` in front of the axes before it. A tensor without this axis gives its own error, or that of
/// the order.
fn swapped(x: &Tensor, batch: usize) -> Tensor {
    let behind = (batch + 1..x.rank()).map(|axis| axis as i64);
    let order: Vec<i64> = [batch as i64].into_iter().chain(0..batch as i64).chain(behind).collect();
    x.permute(order)
}

/// The cell of direction `at`, with the functions and the bound that the attributes give.
fn cell(
    layer: RecurrentLayer,
    named: &[(&str, GraphValue)],
    at: usize,
    peepholes: Option<Tensor>,
) -> Result<RecurrentCell, String> {
    use Activation::{Sigmoid, Tanh};
    let option = |name: &str| named.iter().find(|(n, _)| *n == name).map(|(_, value)| value);
    let flag = |name: &str| GraphValue::whole_named(named, name, 0).map(|n| n != 0);
    let peepholes = peepholes.map(|p| [0, 1, 2].map(|at| part(&p, at, 3, 0)));
    let (kind, defaults) = match layer {
        RecurrentLayer::OnnxGru => {
            (RecurrentKind::Gru { update: 0, reset: 1, after: flag("linear_before_reset")? }, vec![Sigmoid, Tanh])
        }
        RecurrentLayer::OnnxLstm => {
            let coupled = flag("input_forget")?;
            (RecurrentKind::Lstm { input: 0, output: 1, forget: 2, peepholes, coupled }, vec![Sigmoid, Tanh, Tanh])
        }
        _ => (RecurrentKind::Simple, vec![Tanh]),
    };
    let count = defaults.len();
    let functions = match option("activations") {
        Some(GraphValue::List(words)) if !words.is_empty() => {
            let own = words.get(at * count..(at + 1) * count).ok_or("a layer has too few activation functions")?;
            own.iter().map(activation).collect::<Result<Vec<_>, _>>()?
        }
        _ => defaults,
    };
    let activations = match functions[..] {
        [new] => [Sigmoid, new, Tanh],
        [gate, new] => [gate, new, Tanh],
        [gate, new, memory, ..] => [gate, new, memory],
        [] => [Sigmoid, Tanh, Tanh],
    };
    let clip = match option("clip") {
        Some(GraphValue::Number(most)) => Some(most.as_f64()),
        _ => None,
    };
    Ok(RecurrentCell { kind, activations, clip })
}

fn activation(word: &GraphValue) -> Result<Activation, String> {
    match word {
        GraphValue::Text(word) if word.eq_ignore_ascii_case("sigmoid") => Ok(Activation::Sigmoid),
        GraphValue::Text(word) if word.eq_ignore_ascii_case("tanh") => Ok(Activation::Tanh),
        GraphValue::Text(word) if word.eq_ignore_ascii_case("relu") => Ok(Activation::Relu),
        other => Err(format!("a recurrent layer with the activation function {other:?}")),
    }
}
