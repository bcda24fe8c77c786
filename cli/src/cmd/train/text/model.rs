//! The model of the demo: a GPT over characters whose last map is the table of its first.

use super::GptSizes;
use fulgurite::prelude::*;
use fulgurite_demo::gpt::{Block, Gpt};

/// A model of these sizes over so many symbols. The last map of each branch starts smaller, so that the sum over all
/// branches starts at one size.
pub fn model(key: &mut Key, s: &GptSizes, symbols: usize) -> Gpt {
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
    Gpt { tok, pos, blocks, ln: LayerNorm::new(d), head: None, heads: s.heads, precision: s.precision }
}
