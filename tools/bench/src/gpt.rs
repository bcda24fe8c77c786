//! W6, W9: a GPT's loss, and its training step with AdamW. W7: its next tokens, with a cache of keys and values.

use crate::numbers::{self, weight_scale};
use crate::serve::Checked;
use crate::work::{Made, Pure, Stateful, fill, ints, placed};
use fulgurite::optim::AdamW;
use fulgurite::prelude::*;
use fulgurite::transforms::Remat;
use fulgurite_demo::gpt::{Block, Gpt, Memory, Precision};

/// Sizes of the GPT of section 4.
#[derive(Clone, Copy)]
struct Sizes {
    layers: usize,
    width: usize,
    heads: usize,
    context: usize,
    batch: usize,
}

const SMALL: Sizes = Sizes { layers: 6, width: 192, heads: 6, context: 128, batch: 16 };
const LARGE: Sizes = Sizes { layers: 4, width: 512, heads: 8, context: 256, batch: 8 };
const SYMBOLS: usize = 96;
const LR: f64 = 1e-3;
/// The share of the backward's inputs that W9.auto keeps. At its peak a step also holds the working set of the backward
/// of the loss and of one block, so keeping half of the bytes saves less than half of the memory; 0.4 saves two thirds
/// of it.
const SHARE: f64 = 0.4;

/// Makes one parameter after another: number j is `fill(1000 + j, …)`.
struct Next(u32);

impl Next {
    fn tensor<const N: usize>(&mut self, shape: [usize; N], scale: f32, shift: f32) -> Tensor {
        let seed = 1000 + self.0;
        self.0 += 1;
        fill(seed, shape, scale, shift)
    }

    fn norm(&mut self, d: usize) -> LayerNorm {
        LayerNorm { w: self.tensor([d], 0.1, 1.0), b: self.tensor([d], 0.05, 0.0), eps: 1e-5 }
    }

    fn linear(&mut self, outputs: usize, inputs: usize, scale: f32) -> Linear {
        Linear { w: self.tensor([outputs, inputs], scale, 0.0), b: Some(self.tensor([outputs], 0.05, 0.0)) }
    }
}

/// The model of these sizes; its parameters have the protocol's order.
fn gpt(s: Sizes) -> Gpt {
    let (d, mut next) = (s.width, Next(0));
    let scale = weight_scale(d);
    let tok = Embedding { w: next.tensor([SYMBOLS, d], 0.05, 0.0) };
    let pos = Embedding { w: next.tensor([s.context, d], 0.05, 0.0) };
    let block = |_| Block {
        ln1: next.norm(d),
        qkv: next.linear(3 * d, d, scale),
        proj: next.linear(d, d, scale),
        ln2: next.norm(d),
        up: next.linear(4 * d, d, scale),
        down: next.linear(d, 4 * d, scale * 0.5),
    };
    let blocks = (0..s.layers).map(block).collect();
    let (ln, head) = (next.norm(d), Some(next.tensor([SYMBOLS, d], scale, 0.0)));
    Gpt { tok, pos, blocks, ln, head, heads: s.heads, precision: Precision::F32 }
}

/// The workloads of this file.
pub fn make(name: &str) -> Option<Made> {
    Some(match name {
        "W6.step" => step(SMALL, 5, Again::Nothing),
        "W6.loss" => {
            let (model, (x, y)) = (gpt(SMALL), batch(SMALL));
            let run = jit(|model: Gpt, x: Tensor, y: Tensor| model.loss(&x, &y, false));
            Pure::units(SMALL.batch * SMALL.context, move || {
                Ok(vec![run.call((model.clone(), x.clone(), y.clone()))?])
            })
        }
        "W7.tok" => tokens(SMALL),
        "W9.step" => step(LARGE, 3, Again::Nothing),
        "W9.ckpt" => step(LARGE, 3, Again::Blocks),
        "W9.auto" => step(LARGE, 3, Again::Chosen),
        _ => return None,
    })
}

fn batch(s: Sizes) -> (Tensor, Tensor) {
    let shape = [s.batch, s.context];
    (ints(5, shape, SYMBOLS as u32), ints(6, shape, SYMBOLS as u32))
}

/// The lines that the backward recomputes.
#[derive(Clone, Copy, PartialEq)]
enum Again {
    Nothing,
    /// Each block, as a checkpoint.
    Blocks,
    /// The lines that reduce the kept bytes to the share at the least cost.
    Chosen,
}

fn step(s: Sizes, checked: usize, again: Again) -> Made {
    let (x, y) = batch(s);
    let run = jit(move |(m, o): (Gpt, AdamW<Gpt>), (x, y): (Tensor, Tensor)| {
        let (loss, g) = value_and_grad(&m, |m| m.loss(&x, &y, again == Again::Blocks));
        (o.step(m, g, LR), loss)
    });
    let run = if again == Again::Chosen { run.rematerialise(Remat::Share(SHARE)) } else { run };
    let make = move || {
        let model = gpt(s);
        let optimiser = AdamW::new(&model).betas(0.9, 0.95).decay(0.1);
        (model, optimiser)
    };
    Stateful::work(make, Checked::Losses(checked), s.batch * s.context, move |state| {
        Ok(vec![run.update(state, (x.clone(), y.clone()))?])
    })
}

/// The number of tokens in a repetition of W7, and the position of the first one.
const TOKENS: (usize, usize) = (64, 64);

/// One token per call, with the keys and values of the previous ones as an argument.
fn tokens(s: Sizes) -> Made {
    let (count, from) = TOKENS;
    let model = gpt(s);
    let symbols = numbers::ints(6, count, SYMBOLS as u32);
    let token = |x: i64| placed(vec![x], [1, 1]);
    let place = |i: usize| placed(vec![(from + i) as i64], [1]);
    let inputs: Vec<(Tensor, Tensor)> = symbols.into_iter().enumerate().map(|(i, x)| (token(x), place(i))).collect();
    let run = jit(|memory: Vec<Memory>, (model, token, at): (Gpt, Tensor, Tensor)| {
        let (logits, memory) = model.next(&memory, &token, &at);
        (memory, logits)
    });
    let make = move || {
        let part = |seed: usize| fill(seed as u32, [1, s.heads, s.context, s.width / s.heads], 1.0, 0.0);
        (0..s.layers).map(|l| Memory { keys: part(5000 + 2 * l), values: part(5001 + 2 * l) }).collect::<Vec<Memory>>()
    };
    Stateful::work(make, Checked::After(1), count, move |memory| {
        let mut last = Vec::new();
        for (token, at) in &inputs {
            last = vec![run.update(memory, (model.clone(), token.clone(), at.clone()))?];
        }
        Ok(last)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::check;

    /// Parameter 4 of W6 is the first block's qkv.
    #[test]
    fn parameters_stand_in_order() {
        let model = gpt(SMALL);
        let leaves: Vec<Tensor> = fulgurite::tree::flatten(&model).leaves().iter().map(|t| (*t).clone()).collect();
        assert_eq!(leaves.len(), 2 + 12 * SMALL.layers + 3);
        let [d, s] = check(&leaves[4].to_vec::<f32>().expect("data"));
        assert!((d + 1.895_619).abs() < 1e-5 && (s - 23.615_651).abs() < 1e-5, "{d} {s}");
    }
}
