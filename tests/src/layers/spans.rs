//! Parts of a network that run inside of a choice, a loop, a batch, a checkpoint or another compiled function, one inside of
//! the other, and give what their layers give.

use super::{Layer, RandomLayers};
use crate::rng::Rng;
use fulgurite::prelude::*;
use fulgurite::{Error, zeros_like};
use std::ops::Range;
use std::sync::Arc;

/// How the layers of a part run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Plain,
    Checkpoint,
    /// A choice that depends on a number of the caller. The other branch runs the layers on the negative of their input.
    Choice,
    /// A loop that the number of the caller ends after one step.
    Loop,
    /// A loop of one step, which carries the value.
    Step,
    /// A loop over the samples of the batch, in this order or the other one.
    Samples,
    Backwards,
    /// All samples of the batch as slices.
    Slices,
    /// A compiled function, called inside.
    Compiled,
}

use Way::{Backwards, Checkpoint, Choice, Compiled, Loop, Plain, Samples, Slices, Step};

const WAYS: [Way; 9] = [Plain, Checkpoint, Choice, Loop, Step, Samples, Backwards, Slices, Compiled];

/// A part of a network, with the parts inside of it.
#[derive(Clone, Debug)]
pub(super) struct Span {
    layers: Range<usize>,
    way: Way,
    inside: Vec<Span>,
}

impl Span {
    /// Parts of these layers, up to `depth` inside of each other.
    pub(super) fn draw(rng: &mut Rng, network: &[Layer], layers: Range<usize>, depth: usize) -> Vec<Span> {
        let mut spans = Vec::new();
        let mut from = layers.start;
        while from < layers.end {
            let to = from + 1 + rng.below(layers.end - from);
            let way = *rng.pick(&WAYS);
            if way != Plain && fits(network, &(from..to), way) {
                let deeper = if depth == 0 { Vec::new() } else { Span::draw(rng, network, from..to, depth - 1) };
                spans.push(Span { layers: from..to, way, inside: deeper });
                from = to;
            } else {
                spans.push(Span { layers: from..from + 1, way: Plain, inside: Vec::new() });
                from += 1;
            }
        }
        spans
    }
}

/// Whether layers behind a part read no value inside of it, and those of samples read none before it.
fn fits(network: &[Layer], part: &Range<usize>, way: Way) -> bool {
    let alone = matches!(way, Samples | Backwards | Slices);
    network.iter().enumerate().all(|(at, layer)| match layer {
        Layer::Residual(of) if part.contains(&at) => !alone || *of >= part.start,
        Layer::Residual(of) if at >= part.end => *of <= part.start || *of >= part.end,
        _ => true,
    })
}

/// A call of a network in parts: its weights, and the number 1 of type f32, by which choices and loops go.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    pub network: &'a Arc<RandomLayers>,
    pub weights: &'a [Tensor],
    pub one: &'a Tensor,
}

impl Parts<'_> {
    /// The network's result for a batch.
    ///
    /// # Errors
    /// Reports what a choice, a loop or a batch refuses.
    pub(super) fn run(self, x: &Tensor) -> Result<Tensor, Error> {
        self.all(&self.network.spans, vec![x.clone()])
    }

    /// The last value that these parts make of `values`, which are those before each layer.
    fn all(self, spans: &[Span], mut values: Vec<Tensor>) -> Result<Tensor, Error> {
        for span in spans {
            let x = values[values.len() - 1].clone();
            let y = named(&format!("layer[{}]", span.layers.start), || self.span(span, &values, &x))?;
            // Nothing reads what is inside of a part.
            values.resize(span.layers.end, y.clone());
            values.push(y);
        }
        Ok(values[values.len() - 1].clone())
    }

    /// The layers of a part, with `x` in place of the last value.
    fn inside(self, span: &Span, values: &[Tensor], x: &Tensor) -> Result<Tensor, Error> {
        let mut values = values.to_vec();
        values.pop();
        values.push(x.clone());
        if !span.inside.is_empty() {
            return self.all(&span.inside, values);
        }
        for layer in &self.network.layers[span.layers.clone()] {
            let x = values[values.len() - 1].clone();
            values.push(self.network.layer(*layer, self.weights, &x, &values));
        }
        Ok(values[values.len() - 1].clone())
    }

    /// What [`Parts::inside`] gives, as a tensor that has the error otherwise.
    fn told(self, span: &Span, values: &[Tensor], x: &Tensor) -> Tensor {
        self.inside(span, values, x).unwrap_or_else(Tensor::poisoned)
    }

    fn span(self, span: &Span, values: &[Tensor], x: &Tensor) -> Result<Tensor, Error> {
        let same = self.network.shapes[span.layers.start] == self.network.shapes[span.layers.end];
        // Loops keep the dtype of what they carry, also where the layers run with autocast.
        let kept = |y: Tensor| y.cast(x.dtype());
        match span.way {
            Plain => self.inside(span, values, x),
            Checkpoint => checkpoint(|| self.inside(span, values, x)),
            Choice => {
                let [here, there] = [x.clone(), -x];
                let odd = span.layers.start % 2 == 1;
                let condition = if odd { self.one.lt(0.5) } else { self.one.gt(0.5) };
                let [then, otherwise] = if odd { [there, here] } else { [here, there] };
                cond(&condition, || self.told(span, values, &then), || self.told(span, values, &otherwise))
            }
            Loop => {
                let start = self.one * 0.0;
                let y = if same { x.clone() } else { zeros_like(&kept(self.told(span, values, x))) };
                let (_, _, y) = while_loop(
                    Some(2),
                    (start, x.clone(), y),
                    |(count, _, _)| count.lt(self.one),
                    |(count, x, _)| {
                        let y = kept(self.told(span, values, &x));
                        (count + self.one, x, y)
                    },
                )?;
                Ok(y)
            }
            Step if same => Ok(scan_n(1, x.clone(), |x| (kept(self.told(span, values, &x)), ()))?.0),
            Step => Ok(scan_n(1, (), |()| ((), self.told(span, values, x)))?.1.select(0, 0)),
            Samples | Backwards | Slices => {
                let xs = x.reshape([&[-1, 1][..], &whole(&self.network.shapes[span.layers.start])].concat());
                let of_sample = |x: &Tensor| self.told(span, &vec![x.clone(); values.len()], x);
                let ys = match span.way {
                    Samples => scan((), &xs, |(), x: Tensor| ((), of_sample(&x)))?.1,
                    Backwards => scan_reverse((), &xs, |(), x: Tensor| ((), of_sample(&x)))?.1,
                    _ => vmap(&xs, of_sample)?,
                };
                Ok(ys.reshape([&[-1][..], &whole(&self.network.shapes[span.layers.end])].concat()))
            }
            Compiled => {
                let (network, span) = (self.network.clone(), span.clone());
                let f = jit(move |weights: Vec<Tensor>, values: Vec<Tensor>, x: Tensor, one: Tensor| {
                    Parts { network: &network, weights: &weights, one: &one }.inside(&span, &values, &x)
                });
                f.call((self.weights.to_vec(), values.to_vec(), x.clone(), self.one.clone()))
            }
        }
    }
}

fn whole(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|n| *n as i64).collect()
}
