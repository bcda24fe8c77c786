//! PyTorch's recurrent layers: several layers, each in one or both directions.

use super::cell::{Activation, RecurrentCell, RecurrentKind};
use super::{Pass, RecurrentLayer};
use crate::value::GraphValue;
use fulgurite::core::Scalar;
use fulgurite::{Tensor, TensorOps, ops};

/// The outputs of all steps of the last layer, and the last states of all layers. The arguments are those of
/// `aten::lstm.input`: a sequence, states, weights, and whether there are biases, the number of layers, the probability
/// of a dropout between them, whether the module is in training, whether it runs in both directions, and whether the
/// batch is the first axis.
///
/// # Errors
/// An argument that is not supported, in words.
pub fn call(layer: RecurrentLayer, args: &[GraphValue], named: &[(&str, GraphValue)]) -> Result<Vec<Tensor>, String> {
    let odd = || "a recurrent layer has its arguments in another form".to_owned();
    let [input, states, weights, biases, layers, dropout, train, both, batch_first] = args else { return Err(odd()) };
    if !named.is_empty() {
        return Err(odd());
    }
    let tensors = |value: &GraphValue| match value {
        GraphValue::List(items) => items.iter().map(GraphValue::tensor).collect::<Option<Vec<_>>>(),
        one => one.tensor().map(|one| vec![one]),
    };
    let (Some(x), Some(states), Some(weights)) = (input.tensor(), tensors(states), tensors(weights)) else {
        return Err(odd());
    };
    let flag = |value: &GraphValue| matches!(value, GraphValue::Number(x) if x.as_bool());
    let drops = matches!(dropout, GraphValue::Number(p) if p.as_f64() > 0.0);
    if drops && flag(train) {
        return Err("a recurrent layer in training that drops values between its layers".to_owned());
    }
    let directions = if flag(both) { 2 } else { 1 };
    let each = if flag(biases) { 4 } else { 2 };
    let GraphValue::Number(Scalar::Int(layers)) = layers else { return Err(odd()) };
    let cell = cell(layer);
    let count = layers.checked_mul(directions as i64 * each);
    if count != Some(weights.len() as i64) || states.len() != cell.states() {
        return Err("a recurrent layer with projections, or with another number of weights than its layers".to_owned());
    }
    let mut x = if flag(batch_first) { swapped(&x) } else { x };
    let mut last = vec![Vec::new(); cell.states()];
    for (at, weights) in weights.chunks(each as usize * directions).enumerate() {
        let mut outputs = Vec::new();
        for (direction, weights) in weights.chunks(each as usize).enumerate() {
            let biases = weights.get(2).cloned().zip(weights.get(3).cloned());
            let (w, r, reverse) = (weights[0].clone(), weights[1].clone(), direction == 1);
            let pass = Pass { cell: &cell, w, r, biases, lengths: None, reverse };
            let initial = states.iter().map(|state| state.select(0, at * directions + direction)).collect();
            let (output, after) = pass.run(&x, initial)?;
            outputs.push(output);
            last.iter_mut().zip(after).for_each(|(all, state)| all.push(state));
        }
        x = match &outputs[..] {
            [one] => one.clone(),
            several => ops::cat_with(several, ops::Cat { dim: 2.into() }),
        };
    }
    let output = if flag(batch_first) { swapped(&x) } else { x };
    Ok([output].into_iter().chain(last.iter().map(|states| ops::stack(states))).collect())
}

/// The tensor with its first two axes exchanged.
fn swapped(x: &Tensor) -> Tensor {
    x.permute([1, 0, 2])
}

fn cell(layer: RecurrentLayer) -> RecurrentCell {
    use Activation::{Relu, Sigmoid, Tanh};
    let (kind, new) = match layer {
        RecurrentLayer::TorchGru => (RecurrentKind::Gru { reset: 0, update: 1, after: true }, Tanh),
        RecurrentLayer::TorchLstm => {
            (RecurrentKind::Lstm { input: 0, forget: 1, output: 3, peepholes: None, coupled: false }, Tanh)
        }
        RecurrentLayer::TorchRelu => (RecurrentKind::Simple, Relu),
        _ => (RecurrentKind::Simple, Tanh),
    };
    RecurrentCell { kind, activations: [Sigmoid, new, Tanh], clip: None }
}
