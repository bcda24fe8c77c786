//! W6, W9: a GPT's loss, and its training step with AdamW.

use super::numbers::{fill, weight_scale};
use super::serve::Checked;
use super::work::{Made, Pure, Stateful, ints};
use fulgurite::optim::AdamW;
use fulgurite::prelude::*;

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

/// The parameters of a block in the protocol's order.
#[derive(Tree, Clone, Debug)]
struct Block {
    ln1: LayerNorm,
    qkv: Linear,
    proj: Linear,
    ln2: LayerNorm,
    up: Linear,
    down: Linear,
}

/// The parameters in the protocol's order.
#[derive(Tree, Clone, Debug)]
struct Gpt {
    tok: Embedding,
    pos: Embedding,
    blocks: Vec<Block>,
    ln: LayerNorm,
    head: Tensor,
    #[tree(fixed)]
    heads: usize,
}

/// Makes parameter after parameter: number j is `fill(1000 + j, …)`.
struct Next(u32);

impl Next {
    fn tensor<const N: usize>(&mut self, shape: [usize; N], scale: f32, shift: f32) -> Tensor {
        let seed = 1000 + self.0;
        self.0 += 1;
        Tensor::from_vec(fill(seed, shape.iter().product(), scale, shift), shape)
    }

    fn norm(&mut self, d: usize) -> LayerNorm {
        LayerNorm { w: self.tensor([d], 0.1, 1.0), b: self.tensor([d], 0.05, 0.0), eps: 1e-5 }
    }

    fn linear(&mut self, outputs: usize, inputs: usize, scale: f32) -> Linear {
        Linear { w: self.tensor([outputs, inputs], scale, 0.0), b: Some(self.tensor([outputs], 0.05, 0.0)) }
    }
}

impl Gpt {
    fn new(s: Sizes) -> Gpt {
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
        Gpt { tok, pos, blocks, ln: next.norm(d), head: next.tensor([SYMBOLS, d], scale, 0.0), heads: s.heads }
    }

    /// `x: i64[b, t]`, `y: i64[b, t]`
    fn loss(&self, x: &Tensor, y: &Tensor) -> Tensor {
        let [b, t] = x.dims();
        let mut h = self.tok.at(x) + self.pos.at(&ops::arange(t));
        for l in &self.blocks {
            let qkv = l.qkv.at(&l.ln1.at(&h)).reshape((b, t, 3 * self.heads, -1));
            let [q, k, v] = qkv.transpose(1, 2).chunk_with(ops::Chunk { dim: 1.into() });
            let a = q.sdpa_with(&k, &v, None, ops::Sdpa { causal: true, ..d() });
            h += l.proj.at(&a.transpose(1, 2).reshape((b, t, -1)));
            let m = l.up.at(&l.ln2.at(&h)).gelu_with(ops::Gelu { approximate: ops::GeluApproximate::Tanh });
            h += l.down.at(&m);
        }
        let logits = self.ln.at(&h).linear(&self.head, None);
        logits.reshape((-1, SYMBOLS)).cross_entropy(&y.reshape(-1), None)
    }
}

/// The workloads of this file.
pub fn make(name: &str) -> Option<Made> {
    Some(match name {
        "W6.step" => step(SMALL, 5),
        "W6.loss" => {
            let (model, (x, y)) = (Gpt::new(SMALL), batch(SMALL));
            let run = jit(|model: Gpt, x: Tensor, y: Tensor| model.loss(&x, &y));
            Pure::units(SMALL.batch * SMALL.context, move || {
                Ok(vec![run.call((model.clone(), x.clone(), y.clone()))?])
            })
        }
        "W9.step" => step(LARGE, 3),
        _ => return None,
    })
}

fn batch(s: Sizes) -> (Tensor, Tensor) {
    let shape = [s.batch, s.context];
    (ints(5, shape, SYMBOLS as u32), ints(6, shape, SYMBOLS as u32))
}

fn step(s: Sizes, checked: usize) -> Made {
    let (x, y) = batch(s);
    let run = jit(|(m, o): (Gpt, AdamW<Gpt>), (x, y): (Tensor, Tensor)| {
        let (loss, g) = value_and_grad(&m, |m| m.loss(&x, &y));
        (o.step(m, g, LR), loss)
    });
    let make = move || {
        let model = Gpt::new(s);
        let optimiser = AdamW::new(&model).betas(0.9, 0.95).decay(0.1);
        (model, optimiser)
    };
    Stateful::work(make, Checked::Losses(checked), s.batch * s.context, move |state| {
        Ok(vec![run.update(state, (x.clone(), y.clone()))?])
    })
}

#[cfg(test)]
mod tests {
    use super::super::numbers::check;
    use super::*;

    /// PROTOCOL.md, section 6: parameter 4 of W6 is the first block's qkv.
    #[test]
    fn parameters_stand_in_order() {
        let model = Gpt::new(SMALL);
        let leaves: Vec<Tensor> = fulgurite::tree::flatten(&model).leaves().iter().map(|t| (*t).clone()).collect();
        assert_eq!(leaves.len(), 2 + 12 * SMALL.layers + 3);
        let [d, s] = check(&leaves[4].to_vec::<f32>().expect("data"));
        assert!((d + 1.895_619).abs() < 1e-5 && (s - 23.615_651).abs() < 1e-5, "{d} {s}");
    }
}
