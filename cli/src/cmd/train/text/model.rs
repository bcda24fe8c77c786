//! The model of the demo: a GPT over characters whose last map shares the table of its embedding.

use super::GptSizes;
use fulgurite::prelude::*;
use fulgurite_demo::gpt::{Block, Gpt};

/// A model of these sizes over `symbols` symbols. The last map of each branch starts smaller, so that the size of the
/// sum over all branches does not grow with their number.
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
