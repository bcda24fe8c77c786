//! The GPT that the demo trains and the benchmarks run: blocks, attention's memory, loss.

use fulgurite::prelude::*;
use std::ops::Range;

/// Attention, then a perceptron; each adds to its input.
#[derive(Tree, Clone, Debug)]
pub struct Block {
    pub ln1: LayerNorm,
    pub qkv: Linear,
    pub proj: Linear,
    pub ln2: LayerNorm,
    pub up: Linear,
    pub down: Linear,
}

/// A GPT over symbols.
#[derive(Tree, Clone, Debug)]
pub struct Gpt {
    pub tok: Embedding,
    pub pos: Embedding,
    pub blocks: Vec<Block>,
    pub ln: LayerNorm,
    /// The last map, `f32[symbols, d]`; without one it is the table of `tok`.
    pub head: Option<Tensor>,
    #[tree(fixed)]
    pub heads: usize,
}

/// What a block remembers of the symbols that it has seen: f32[1, heads, context, width / heads] both.
#[derive(Tree, Clone, Debug)]
pub struct Memory {
    pub keys: Tensor,
    pub values: Tensor,
}

impl Gpt {
    /// How likely each symbol is after each position, as logarithms but for a constant: `f32[…, symbols]`.
    fn last_map(&self, h: &Tensor) -> Tensor {
        h.linear(self.head.as_ref().unwrap_or(&self.tok.w), None)
    }

    /// What the blocks make of `x: i64[b, t]`, and what they remember of it.
    fn hidden(&self, x: &Tensor) -> (Tensor, Vec<Memory>) {
        let mut memory = Vec::new();
        let h = self.through(embedded(&self.tok, &self.pos, x), false, |q, new, _| {
            let a = causal(q, &new);
            memory.push(new);
            a
        });
        (h, memory)
    }

    /// Reads a window `x: i64[1, t]`: the logits `f32[1, symbols]` after position `last: i64[1]`, and what the blocks
    /// remember. What stands behind `last` is remembered too, and neither seen nor kept: [`Gpt::next`] writes over it.
    pub fn read(&self, x: &Tensor, last: &Tensor) -> (Tensor, Vec<Memory>) {
        let (h, memory) = self.hidden(x);
        (self.last_map(&h.index_select(last, 1).select(1, 0)), memory)
    }

    /// Reads `token: i64[1, 1]` at position `at: i64[1]` behind those that `memory` has: the logits `f32[1, symbols]`
    /// after it, and the memory with it. The position is a value, so that one program serves all of them.
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

    /// `h: f32[b, t, d]` through all blocks and the last normalisation. `attend` gives a block's attention: from queries,
    /// and keys and values of the same positions, each `f32[b, heads, t, d / heads]`, and the number of the block. With
    /// `again`, the backward computes again what happens inside a block.
    fn through(&self, mut h: Tensor, again: bool, mut attend: impl FnMut(&Tensor, Memory, usize) -> Tensor) -> Tensor {
        for (i, l) in self.blocks.iter().enumerate() {
            let mut run = || l.at(&h, self.heads, |q, new| attend(q, new, i));
            h = named(&format!("block[{i}]"), || if again { checkpoint(&mut run) } else { run() });
        }
        self.ln.at(&h)
    }

    /// Mean of -ln(probability) of the symbols that really follow. `x, y: i64[b, t]`; `again` as in [`Gpt::through`].
    pub fn loss(&self, x: &Tensor, y: &Tensor, again: bool) -> Tensor {
        let h = embedded(&self.tok, &self.pos, x);
        loss_of(&self.last_map(&self.through(h, again, |q, new, _| causal(q, &new))), y)
    }
}

/// Some neighbouring units of a [`Gpt`]: its first table, its blocks, and its end are one unit each.
#[derive(Tree, Clone, Debug)]
pub struct Part {
    tok: Option<Embedding>,
    pos: Option<Embedding>,
    blocks: Vec<Block>,
    ln: Option<LayerNorm>,
    head: Option<Tensor>,
    #[tree(fixed)]
    heads: usize,
}

impl Gpt {
    /// The units with these numbers. An end without the beginning has the last map of its own, tied to that table.
    pub fn part(&self, units: &Range<usize>) -> Part {
        let (first, last) = (units.start == 0, units.end == self.blocks.len() + 2);
        let apart = || self.head.clone().or_else(|| (!first).then(|| self.tok.w.clone()));
        Part {
            tok: first.then(|| self.tok.clone()),
            pos: first.then(|| self.pos.clone()),
            blocks: self.blocks[self.block(units.start)..self.block(units.end)].to_vec(),
            ln: last.then(|| self.ln.clone()),
            head: if last { apart() } else { None },
            heads: self.heads,
        }
    }

    /// How many blocks stand before a unit.
    fn block(&self, unit: usize) -> usize {
        unit.saturating_sub(1).min(self.blocks.len())
    }

    /// Puts the units with these numbers back.
    pub fn put(&mut self, units: &Range<usize>, part: Part) {
        let from = self.block(units.start);
        self.blocks[from..].iter_mut().zip(part.blocks).for_each(|(own, new)| *own = new);
        if let (Some(tok), Some(pos)) = (part.tok, part.pos) {
            (self.tok, self.pos) = (tok, pos);
        }
        if let Some(ln) = part.ln {
            self.ln = ln;
        }
        if let (Some(own), Some(new)) = (&mut self.head, part.head) {
            *own = new;
        }
    }
}

impl Part {
    /// What its units make of `x`: `i64[b, t]` if it has the first, else `f32[b, t, d]`.
    pub fn through(&self, x: &Tensor) -> Tensor {
        let mut h = match (&self.tok, &self.pos) {
            (Some(tok), Some(pos)) => embedded(tok, pos, x),
            _ => x.clone(),
        };
        for block in &self.blocks {
            h = block.at(&h, self.heads, |q, new| causal(q, &new));
        }
        match &self.ln {
            Some(ln) => ln.at(&h),
            None => h,
        }
    }

    /// The loss, if it has the end; `x` as in [`Part::through`].
    pub fn loss(&self, x: &Tensor, y: &Tensor) -> Tensor {
        let h = self.through(x);
        let table = self.head.as_ref().or(self.tok.as_ref().map(|tok| &tok.w));
        // a part without a last map has no loss of symbols: the mean stands for it
        let Some(table) = table else { return h.mean() };
        loss_of(&h.linear(table, None), y)
    }
}

fn embedded(tok: &Embedding, pos: &Embedding, x: &Tensor) -> Tensor {
    let [_, t] = x.dims();
    tok.at(x) + pos.at(&ops::arange(t))
}

fn loss_of(logits: &Tensor, y: &Tensor) -> Tensor {
    let [_, _, symbols] = logits.dims();
    logits.reshape((-1, symbols)).cross_entropy(&y.reshape(-1), None)
}

/// Each position attends to itself and to those before it.
fn causal(q: &Tensor, m: &Memory) -> Tensor {
    q.sdpa_with(&m.keys, &m.values, None, ops::Sdpa { causal: true, ..d() })
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
