//! The model of the demo: a GPT over characters.

use super::GptSizes;
use fulgurite::prelude::*;

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

/// What a block remembers of the characters that it has seen: f32[1, heads, context, width / heads] both.
#[derive(Tree, Clone, Debug)]
pub struct Memory {
    keys: Tensor,
    values: Tensor,
}

impl Gpt {
    /// A model of these sizes over so many symbols. The last map of each branch starts smaller, so that the sum over all
    /// branches starts at one size.
    pub fn new(key: &mut Key, s: &GptSizes, symbols: usize) -> Gpt {
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
        self.tok.logits(&self.hidden(x).0)
    }

    /// What the blocks make of `x: i64[b, t]`, and what they remember of it.
    fn hidden(&self, x: &Tensor) -> (Tensor, Vec<Memory>) {
        let [_, t] = x.dims();
        let h = self.tok.at(x) + self.pos.at(&ops::arange(t));
        let mut memory = Vec::new();
        let h = self.through(h, |q, new, _| {
            let a = q.sdpa_with(&new.keys, &new.values, None, ops::Sdpa { causal: true, ..d() });
            memory.push(new);
            a
        });
        (h, memory)
    }

    /// Reads a window `x: i64[1, t]`: the logits `f32[1, symbols]` after position `last: i64[1]`, and what the blocks
    /// remember. What stands behind `last` is remembered too, and neither seen nor kept: [`Gpt::next`] writes over it.
    pub fn read(&self, x: &Tensor, last: &Tensor) -> (Tensor, Vec<Memory>) {
        let (h, memory) = self.hidden(x);
        (self.tok.logits(&h.index_select(last, 1).select(1, 0)), memory)
    }

    /// Reads `token: i64[1, 1]` at position `at: i64[1]` behind those that `memory` has: the logits `f32[1, symbols]`
    /// after it, and the memory with it. The position is a value, so that one program serves all of them.
    pub fn next(&self, memory: &[Memory], token: &Tensor, at: &Tensor) -> (Tensor, Vec<Memory>) {
        let [context, _] = self.pos.w.dims();
        let places = ops::arange(context);
        let (here, seen) = (places.eq(at).reshape((-1, 1)), places.le(at).reshape((1, -1)));
        let mut next = Vec::new();
        let h = self.through(self.tok.at(token) + self.pos.at(at), |q, new, i| {
            let put = |new: &Tensor, old: &Tensor| ops::where_(&here, new, old);
            let (keys, values) = (put(&new.keys, &memory[i].keys), put(&new.values, &memory[i].values));
            let a = q.sdpa(&keys, &values, Some(&seen));
            next.push(Memory { keys, values });
            a
        });
        (self.tok.logits(&h).select(1, 0), next)
    }

    /// `h: f32[b, t, d]` through all blocks and the last normalisation. `attend` gives a block's attention: from queries,
    /// and keys and values of the same positions, each `f32[b, heads, t, d / heads]`, and the number of the block.
    fn through(&self, mut h: Tensor, mut attend: impl FnMut(&Tensor, Memory, usize) -> Tensor) -> Tensor {
        for (i, l) in self.blocks.iter().enumerate() {
            h = named(&format!("block[{i}]"), || l.at(&h, self.heads, |q, new| attend(q, new, i)));
        }
        self.ln.at(&h)
    }

    /// Mean of -ln(probability) of the symbols that really follow. `x, y: i64[b, t]`
    pub fn loss(&self, x: &Tensor, y: &Tensor) -> Tensor {
        let logits = self.logits(x);
        let [_, _, symbols] = logits.dims();
        logits.reshape((-1, symbols)).cross_entropy(&y.reshape(-1), None)
    }
}

impl Block {
    /// `h: f32[b, t, d]`
    fn at(&self, h: &Tensor, heads: usize, attend: impl FnOnce(&Tensor, Memory) -> Tensor) -> Tensor {
        let [b, t, _] = h.dims();
        let qkv = self.qkv.at(&self.ln1.at(h)).reshape((b, t, 3 * heads, -1));
        let [q, keys, values] = qkv.transpose(1, 2).chunk_with(ops::Chunk { dim: 1.into() });
        let a = attend(&q, Memory { keys, values });
        let h = h + self.proj.at(&a.transpose(1, 2).reshape((b, t, -1)));
        let m = self.up.at(&self.ln2.at(&h)).gelu_with(ops::Gelu { approximate: ops::GeluApproximate::Tanh });
        h + self.down.at(&m)
    }
}
