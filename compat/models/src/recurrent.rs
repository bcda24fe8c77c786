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
    /// The length of each sequence of the batch; steps behind it change no state, and their outputs are 0.
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
