//! Recurrent layers: ONNX's `RNN`, `GRU` and `LSTM`, and PyTorch's, whose gates stand in another order. They are
//! scans over programs of rows, because no row has a recurrence.

mod cell;
mod onnx;
mod torch;

use crate::value::GraphValue;
use cell::RecurrentCell;
use fulgurite::prelude::{scan, scan_reverse};
use fulgurite::{Tensor, TensorOps, ops};

/// A recurrent layer of another library.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RecurrentLayer {
    OnnxRnn,
    OnnxGru,
    OnnxLstm,
    TorchTanh,
    TorchRelu,
    TorchGru,
    TorchLstm,
}

const TABLE: &[(&str, RecurrentLayer)] = &[
    ("onnx.RNN", RecurrentLayer::OnnxRnn),
    ("onnx.GRU", RecurrentLayer::OnnxGru),
    ("onnx.LSTM", RecurrentLayer::OnnxLstm),
    ("aten.rnn_tanh.input", RecurrentLayer::TorchTanh),
    ("aten.rnn_relu.input", RecurrentLayer::TorchRelu),
    ("aten.gru.input", RecurrentLayer::TorchGru),
    ("aten.lstm.input", RecurrentLayer::TorchLstm),
];

/// The layer of this name.
pub fn find(target: &str) -> Option<RecurrentLayer> {
    TABLE.iter().find(|(name, _)| *name == target).map(|(_, layer)| *layer)
}

/// Calls a layer.
///
/// # Errors
/// An argument that is not supported, in words.
pub fn call(
    layer: RecurrentLayer,
    args: &[GraphValue],
    named: &[(&str, GraphValue)],
) -> Result<Vec<GraphValue>, String> {
    use RecurrentLayer as L;
    let results = match layer {
        L::OnnxRnn | L::OnnxGru | L::OnnxLstm => onnx::call(layer, args, named)?,
        L::TorchTanh | L::TorchRelu | L::TorchGru | L::TorchLstm => torch::call(layer, args, named)?,
    };
    for result in &results {
        result.check().map_err(|e| e.to_string())?;
    }
    Ok(results.into_iter().map(GraphValue::Tensor).collect())
}

/// One direction of a layer, on a sequence `x` of the sizes [steps, batch, inputs].
struct Pass<'a> {
    cell: &'a RecurrentCell,
    /// The weights of the inputs: [gates * hidden, inputs].
    w: Tensor,
    /// The weights of the state: [gates * hidden, hidden].
    r: Tensor,
    /// The biases of both: [gates * hidden].
    biases: Option<(Tensor, Tensor)>,
    /// The length of each sequence of the batch; steps after it change no state, and their outputs are 0.
    lengths: Option<Tensor>,
    reverse: bool,
}

impl Pass<'_> {
    /// The outputs of all steps, [steps, batch, hidden], and the states after the last one, each [batch, hidden].
    fn run(&self, x: &Tensor, states: Vec<Tensor>) -> Result<(Tensor, Vec<Tensor>), String> {
        // the inputs of all steps are multiplied at once
        let from_inputs = ops::matmul(x, &self.w.t());
        let from_inputs = match &self.biases {
            Some((bias, _)) => from_inputs + bias,
            None => from_inputs,
        };
        let bias = self.biases.as_ref().map(|(_, bias)| bias);
        let step = |states: Vec<Tensor>, (gates, at): (Tensor, Tensor)| {
            let next = self.cell.step(&gates, &states, &self.r, bias);
            let Some(lengths) = &self.lengths else { return (next.clone(), next[0].clone()) };
            let goes_on = ops::gt(lengths.reshape([-1, 1]), &at);
            let output = ops::where_(&goes_on, &next[0], 0.0);
            (next.iter().zip(&states).map(|(new, old)| ops::where_(&goes_on, new, old)).collect(), output)
        };
        let places = ops::arange(x.shape().first().copied().unwrap_or_else(|| 0.into()));
        let sequence = (from_inputs, places);
        let made = match self.reverse {
            true => scan_reverse(states, &sequence, step),
            false => scan(states, &sequence, step),
        };
        let (states, outputs) = made.map_err(|e| e.to_string())?;
        Ok((outputs, states))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulgurite::core::Scalar;

    /// Tensors of each rank from 0 to 4.
    fn operands() -> Vec<GraphValue> {
        let shapes: [&[usize]; 6] = [&[], &[8], &[8, 2], &[1, 8, 2], &[0, 1, 2], &[1, 2, 1, 2]];
        let zeros = |shape: &[usize]| Tensor::from_vec(vec![0.0f32; shape.iter().product()], shape);
        shapes.map(|shape| GraphValue::Tensor(zeros(shape))).to_vec()
    }

    /// A file may give any tensors to a layer: a layer with one of another rank is an error.
    #[test]
    fn operands_of_any_rank_are_refused_or_taken() {
        let int = |n: i64| GraphValue::Number(Scalar::Int(n));
        let operands = operands();
        let mut refused = 0;
        for (_, layer) in TABLE {
            for odd in &operands {
                for at in 0..8 {
                    for last in [0, 1] {
                        use RecurrentLayer as L;
                        // of ONNX: a sequence, weights, weights of the state, biases, lengths, states, peepholes
                        let usual = [4, 3, 3, 2, 0, 3, 3, 2].map(|which: usize| operands[which.min(3)].clone());
                        let mut args = usual.to_vec();
                        args[4] = GraphValue::None;
                        args[at] = odd.clone();
                        let mut named = vec![("layout", int(last))];
                        if !matches!(layer, L::OnnxRnn | L::OnnxGru | L::OnnxLstm) {
                            let list = |from: usize, count: usize| {
                                GraphValue::List(args.iter().cycle().skip(from).take(count).cloned().collect())
                            };
                            let states = if matches!(layer, L::TorchLstm) { 2 } else { 1 };
                            let flags = [int(1), int(1), int(0), int(0), int(0), int(last)];
                            args = [args[0].clone(), list(5, states), list(1, 4)].into_iter().chain(flags).collect();
                            named = vec![];
                        }
                        refused += usize::from(call(*layer, &args, &named).is_err());
                    }
                }
            }
        }
        assert!(refused > 400, "{refused}");
    }

    /// A number of layers whose weights are more than there are numbers is none.
    #[test]
    fn a_number_of_layers_does_not_begin_again() {
        let flags = [0, 1 << 62, 0, 0, 1, 0].map(|n| GraphValue::Number(Scalar::Int(n)));
        let lists = [operands()[3].clone(), GraphValue::List(operands()[..1].to_vec()), GraphValue::List(vec![])];
        let args: Vec<GraphValue> = lists.into_iter().chain(flags).collect();
        let said = call(RecurrentLayer::TorchGru, &args, &[]).unwrap_err();
        assert!(said.contains("another number of weights"), "{said}");
    }
}
