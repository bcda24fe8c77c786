//! The GPT that the demo trains and the benchmarks run: blocks, a cache of keys and values, the loss.

use clap::ValueEnum;
use fulgurite::prelude::*;
use serde::{Deserialize, Serialize};

/// Attention, then an MLP; each adds to its input.
#[derive(Tree, Clone, Debug)]
pub struct Block {
    /// Norm before the attention.
    pub ln1: LayerNorm,
    /// Queries, keys and values in one map.
    pub qkv: Linear,
    /// Map of the attention's result.
    pub proj: Linear,
    /// Norm before the MLP.
    pub ln2: LayerNorm,
    /// First map of the MLP.
    pub up: Linear,
    /// Second map of the MLP.
    pub down: Linear,
}

/// A GPT over symbols.
#[derive(Tree, Clone, Debug)]
pub struct Gpt {
    /// A vector for each symbol.
    pub tok: Embedding,
    /// A vector for each place.
    pub pos: Embedding,
    /// The blocks, the first one first.
    pub blocks: Vec<Block>,
    /// Norm before the last map.
    pub ln: LayerNorm,
    /// The last map, `f32[symbols, d]`; without one, the table of `tok` is used.
    pub head: Option<Tensor>,
    /// Attention heads of each block.
    #[tree(fixed)]
    pub heads: usize,
    /// The precision in which the maps of the blocks compute.
    #[tree(fixed)]
    pub precision: Precision,
}

/// The precision in which a model computes; its parameters are f32.
#[derive(ValueEnum, Clone, Copy, Default, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// f32
    #[default]
    F32,
    /// bf16 where autocast allows it
    Bf16,
    /// The maps of the blocks in floats of eight bits, scaled dynamically; everything else in f32
    Float8,
}

impl Precision {
    /// An affine map of the last axis.
    fn map(self, l: &Linear, x: &Tensor) -> Tensor {
        match self {
            Precision::Float8 => x.to_float8().linear(&l.w.to_float8(), l.b.as_ref()),
            Precision::F32 | Precision::Bf16 => l.at(x),
        }
    }
}

/// The keys and values that a block caches for previous symbols: f32[1, heads, context, width / heads] both.
#[derive(Tree, Clone, Debug)]
pub struct Memory {
    /// A key for each symbol.
    pub keys: Tensor,
    /// A value for each symbol.
    pub values: Tensor,
}

impl Gpt {
    /// Replaces every matrix of the blocks by `f` of it; the blocks then compute with the new matrices.
    ///
    /// # Errors
    /// The first error of a poisoned matrix.
    pub fn with_matrices(mut self, mut f: impl FnMut(&Tensor) -> Tensor) -> Result<Gpt> {
        for block in &mut self.blocks {
            for map in [&mut block.qkv, &mut block.proj, &mut block.up, &mut block.down] {
                map.w = f(&map.w);
                map.w.check()?;
            }
        }
        self.precision = Precision::F32;
        Ok(self)
    }

    /// The logits of each symbol after each position: `f32[…, symbols]`.
    fn last_map(&self, h: &Tensor) -> Tensor {
        h.linear(self.head.as_ref().unwrap_or(&self.tok.w), None)
    }

    /// The result of all blocks for `x: i64[b, t]`, and the keys and values to cache.
    fn hidden(&self, x: &Tensor) -> (Tensor, Vec<Memory>) {
        let mut memory = Vec::new();
        let h = self.through(self.embedded(x), false, |q, new, _| {
            let a = causal(q, &new);
            memory.push(new);
            a
        });
        (h, memory)
    }

    fn embedded(&self, x: &Tensor) -> Tensor {
        let [_, t] = x.dims();
        self.tok.at(x) + self.pos.at(&ops::arange(t))
    }

    /// Reads a window `x: i64[1, t]`: returns the logits `f32[1, symbols]` after position `last: i64[1]`, and the
    /// cache. Positions after `last` are cached too, but never attended to: [`Gpt::next`] overwrites them.
    pub fn read(&self, x: &Tensor, last: &Tensor) -> (Tensor, Vec<Memory>) {
        let (h, memory) = self.hidden(x);
        (self.last_map(&h.index_select(last, 1).select(1, 0)), memory)
    }

    /// Reads `token: i64[1, 1]` at position `at: i64[1]`, after those in `memory`: returns the logits `f32[1, symbols]`
    /// after it, and the cache with it. The position is a value, so that one program serves all positions.
    pub fn next(&self, memory: &[Memory], token: &Tensor, at: &Tensor) -> (Tensor, Vec<Memory>) {
        let [context, _] = self.pos.w.dims();
        let places = ops::arange(context);
        let (here, seen) = (places.eq(at).reshape((-1, 1)), places.le(at).reshape((1, -1)));
        let mut next = Vec::new();
        let h = self.through(self.tok.at(token) + self.pos.at(at), false, |q, new, i| {
            let put = |new: &Tensor, old: &Tensor| ops::where_(&here, new, old);
            let (keys, values) = (put(&new.keys, &memory[i].keys), put(&new.values, &memory[i].values));
            let a = q.sdpa(&keys, &values, Some(&seen));
            next.push(Memory { keys, values });
            a
        });
        (self.last_map(&h).select(1, 0), next)
    }

    /// Passes `h: f32[b, t, d]` through all blocks and the last normalisation. `attend` computes a block's attention
    /// from queries, from keys and values of these positions, each `f32[b, heads, t, d / heads]`, and from the number
    /// of the block. With `again`, the backward recomputes the inside of every block.
    fn through(&self, mut h: Tensor, again: bool, mut attend: impl FnMut(&Tensor, Memory, usize) -> Tensor) -> Tensor {
        for (i, l) in self.blocks.iter().enumerate() {
            let mut run = || l.at(&h, self.heads, self.precision, |q, new| attend(q, new, i));
            h = named(&format!("block[{i}]"), || if again { checkpoint(&mut run) } else { run() });
        }
        self.ln.at(&h)
    }

    /// The mean of -ln(probability) of the true next symbols. `x, y: i64[b, t]`; `again` as in `Gpt::through`.
    pub fn loss(&self, x: &Tensor, y: &Tensor, again: bool) -> Tensor {
        match self.precision {
            Precision::Bf16 => autocast(DType::BF16, || self.plain_loss(x, y, again)),
            Precision::F32 | Precision::Float8 => self.plain_loss(x, y, again),
        }
    }

    fn plain_loss(&self, x: &Tensor, y: &Tensor, again: bool) -> Tensor {
        let logits = self.last_map(&self.through(self.embedded(x), again, |q, new, _| causal(q, &new)));
        let [_, _, symbols] = logits.dims();
        logits.reshape((-1, symbols)).cross_entropy(&y.reshape(-1), None)
    }
}

/// Causal attention: each position attends to itself and to those before it.
fn causal(q: &Tensor, m: &Memory) -> Tensor {
    q.sdpa_with(&m.keys, &m.values, None, ops::Sdpa { causal: true, ..d() })
}

impl Block {
    /// `h: f32[b, t, d]`
    fn at(&self, h: &Tensor, heads: usize, p: Precision, attend: impl FnOnce(&Tensor, Memory) -> Tensor) -> Tensor {
        let [b, t, _] = h.dims();
        let qkv = p.map(&self.qkv, &self.ln1.at(h)).reshape((b, t, 3 * heads, -1));
        let [q, keys, values] = qkv.transpose(1, 2).chunk_with(ops::Chunk { dim: 1.into() });
        let a = attend(&q, Memory { keys, values });
        let h = h + p.map(&self.proj, &a.transpose(1, 2).reshape((b, t, -1)));
        let m = p.map(&self.up, &self.ln2.at(&h)).gelu_with(ops::Gelu { approximate: ops::GeluApproximate::Tanh });
        h + p.map(&self.down, &m)
    }
}
