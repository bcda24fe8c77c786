//! One step of a recurrent layer, on states of the sizes [batch, hidden].

use fulgurite::prelude::d;
use fulgurite::{Tensor, TensorOps, ops};

/// The kinds of cells. The numbers are the places of the gates among the rows of the weights.
pub enum RecurrentKind {
    Simple,
    Gru {
        reset: usize,
        update: usize,
        /// Whether the reset gate multiplies the product of state and weights, and not the state itself.
        after: bool,
    },
    Lstm {
        input: usize,
        output: usize,
        forget: usize,
        /// The weights of the state of memory in the gates for input, output and forgetting, each [hidden].
        peepholes: Option<[Tensor; 3]>,
        /// Whether the gate for forgetting is 1 minus that for input.
        coupled: bool,
    },
}

/// An activation function.
#[derive(Clone, Copy)]
pub enum Activation {
    Sigmoid,
    Tanh,
    Relu,
}

impl Activation {
    fn call(self, x: &Tensor) -> Tensor {
        match self {
            Activation::Sigmoid => x.sigmoid(),
            Activation::Tanh => x.tanh(),
            Activation::Relu => x.relu(),
        }
    }
}

pub struct RecurrentCell {
    pub kind: RecurrentKind,
    /// The functions of the gates, of the new value, and of the state of memory in an LSTM's output.
    pub activations: [Activation; 3],
    /// The bound of the absolute values of the functions' arguments, if there is one.
    pub clip: Option<f64>,
}

impl RecurrentCell {
    /// The number of gates.
    pub fn gates(&self) -> usize {
        match self.kind {
            RecurrentKind::Simple => 1,
            RecurrentKind::Gru { .. } => 3,
            RecurrentKind::Lstm { .. } => 4,
        }
    }

    /// The number of states.
    pub fn states(&self) -> usize {
        if matches!(self.kind, RecurrentKind::Lstm { .. }) { 2 } else { 1 }
    }

    /// The states after a step; the first one is its output. `gates` is the contribution of the
    /// inputs, [batch, gates * hidden], and `r` has the weights of the state.
    pub fn step(&self, gates: &Tensor, states: &[Tensor], r: &Tensor, bias: Option<&Tensor>) -> Vec<Tensor> {
        let h = &states[0];
        let parts = self.gates();
        let [gate, new, memory] = self.activations;
        let function = |f: Activation, x: Tensor| f.call(&self.clipped(x));
        let product = |h: &Tensor, weights: &Tensor, bias: Option<Tensor>| {
            let product = ops::matmul(h, &weights.t());
            bias.map_or(product.clone(), |bias| product + bias)
        };
        match &self.kind {
            RecurrentKind::Simple => vec![function(new, gates + product(h, r, bias.cloned()))],
            RecurrentKind::Gru { reset, update, after } => {
                let value = 3 - reset - update;
                let of = |x: &Tensor, at: usize, axis: usize| part(x, at, parts, axis);
                let rows = |at: usize| of(r, at, 0);
                let biases = |at: usize| bias.map(|bias| of(bias, at, 0));
                let open = |at: usize| function(gate, of(gates, at, 1) + product(h, &rows(at), biases(at)));
                let (reset, update) = (open(*reset), open(*update));
                let inner = match after {
                    true => reset * product(h, &rows(value), biases(value)),
                    false => product(&(reset * h), &rows(value), biases(value)),
                };
                let value = function(new, of(gates, value, 1) + inner);
                vec![(1.0 - &update) * value + update * h]
            }
            RecurrentKind::Lstm { input, output, forget, peepholes, coupled } => {
                let c = &states[1];
                let all = gates + product(h, r, bias.cloned());
                let seen = |at: usize, which: usize, c: &Tensor| {
                    let x = part(&all, at, parts, 1);
                    let x = peepholes.as_ref().map_or(x.clone(), |weights| x + &weights[which] * c);
                    function(gate, x)
                };
                let i = seen(*input, 0, c);
                let f = if *coupled { 1.0 - &i } else { seen(*forget, 2, c) };
                let value = function(new, part(&all, 6 - input - output - forget, parts, 1));
                let c = f * c + i * value;
                let o = seen(*output, 1, &c);
                vec![o * memory.call(&c), c]
            }
        }
    }

    fn clipped(&self, x: Tensor) -> Tensor {
        match self.clip {
            Some(most) => x.clamp(-most, most),
            None => x,
        }
    }
}

/// Part `at` of `parts` equal parts along an axis, counted from the first one. A tensor without this axis gives its own
/// error, or that of the slice.
pub fn part(x: &Tensor, at: usize, parts: usize, axis: usize) -> Tensor {
    let size = x.shape().get(axis).map_or(0, |size| size.len()) / parts;
    let (start, stop) = (size * at, size * (at + 1));
    x.slice_with(ops::Slice { dim: (axis as i64).into(), start: start.into(), stop: Some(stop.into()), ..d() })
}
