//! The model of the demo: a GPT over characters, and what is trained with it.

use super::settings::Settings;
use fulgurite::optim::{AdamW, clip};
use fulgurite::prelude::*;
use fulgurite::{Jit, tree};

/// Attention, then a perceptron; each adds to its input.
#[derive(Tree, Clone, Debug)]
pub struct Block {
    ln1: LayerNorm,
    qkv: Linear,
    proj: Linear,
    ln2: LayerNorm,
    up: Linear,
    down: Linear,
}

/// A character-level GPT whose last map is the table of its first.
#[derive(Tree, Clone, Debug)]
pub struct Gpt {
    tok: Embedding,
    pos: Embedding,
    blocks: Vec<Block>,
    ln: LayerNorm,
    #[tree(fixed)]
    heads: usize,
}

impl Gpt {
    /// A model of these sizes over so many symbols. The last map of each branch starts smaller, so that the sum over all
    /// branches starts at one size.
    pub fn new(key: &mut Key, s: &Settings, symbols: usize) -> Gpt {
        let (d, gain) = (s.width, (2.0 * s.depth as f64).sqrt().recip());
        let block = |_| Block {
            ln1: LayerNorm::new(d),
            qkv: Linear::new(key.next(), d, 3 * d),
            proj: Linear::scaled(key.next(), d, d, gain),
            ln2: LayerNorm::new(d),
            up: Linear::new(key.next(), d, 4 * d),
            down: Linear::scaled(key.next(), 4 * d, d, gain),
        };
        let blocks = (0..s.depth).map(block).collect();
        let (tok, pos) = (Embedding::new(key.next(), symbols, d), Embedding::new(key.next(), s.context, d));
        Gpt { tok, pos, blocks, ln: LayerNorm::new(d), heads: s.heads }
    }

    /// `x: i64[b, t]` to `f32[b, t, symbols]`: how likely each symbol is after each position, as logarithms but for a
    /// constant.
    pub fn logits(&self, x: &Tensor) -> Tensor {
        let [b, t] = x.dims();
        let mut h = self.tok.at(x) + self.pos.at(&ops::arange(t));
        for (i, l) in self.blocks.iter().enumerate() {
            h = named(&format!("block[{i}]"), || l.at(&h, b, t, self.heads));
        }
        self.tok.logits(&self.ln.at(&h))
    }

    /// Mean of -ln(probability) of the symbols that really follow. `x, y: i64[b, t]`
    pub fn loss(&self, x: &Tensor, y: &Tensor) -> Tensor {
        let logits = self.logits(x);
        let [_, _, symbols] = logits.dims();
        logits.reshape((-1, symbols)).cross_entropy(&y.reshape(-1), None)
    }

    /// How many numbers are learned.
    pub fn parameters(&self) -> usize {
        tree::flatten(self).leaves().iter().map(|t| t.numel().len()).sum()
    }
}

impl Block {
    /// `h: f32[b, t, d]`
    fn at(&self, h: &Tensor, b: Dim, t: Dim, heads: usize) -> Tensor {
        let qkv = self.qkv.at(&self.ln1.at(h)).reshape((b, t, 3 * heads, -1));
        let [q, k, v] = qkv.transpose(1, 2).chunk_with(ops::Chunk { dim: 1.into() });
        let a = q.sdpa_with(&k, &v, None, ops::Sdpa { causal: true, ..d() });
        let h = h + self.proj.at(&a.transpose(1, 2).reshape((b, t, -1)));
        let m = self.up.at(&self.ln2.at(&h)).gelu_with(ops::Gelu { approximate: ops::GeluApproximate::Tanh });
        h + self.down.at(&m)
    }
}

/// What a step changes: the model and the optimiser's memory of it.
pub type Learner = (Gpt, AdamW<Gpt>);

/// The beginning of a run.
pub fn learner(key: &mut Key, s: &Settings, symbols: usize) -> Learner {
    let model = Gpt::new(key, s, symbols);
    let optimiser = AdamW::new(&model).betas(0.9, 0.99).decay(s.decay);
    (model, optimiser)
}

/// The function of one training step: from what is learned and (pieces of text, the same one character on, learning
/// rate) to what is learned then and (loss before the step, length of the gradient). `limit` shortens longer gradients.
#[allow(clippy::type_complexity)] // a name for this tuple of tuples would hide it
pub fn compiled_step(limit: f64) -> Jit<impl Fn(Learner, (Tensor, Tensor, Tensor)) -> (Learner, (Tensor, Tensor))> {
    let step = move |(model, optimiser): Learner, (x, y, lr): (Tensor, Tensor, Tensor)| {
        let (loss, grads) = value_and_grad(&model, |m| m.loss(&x, &y));
        let (grads, norm) = clip(&grads, limit);
        (optimiser.step(model, grads, lr), (loss, norm))
    };
    jit(step).named("train_step")
}
