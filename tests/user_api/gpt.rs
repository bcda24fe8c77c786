//! The training program of the documentation, a few steps long.

use fulgurite::ops::{Chunk, Sdpa, arange};
use fulgurite::prelude::*;

#[derive(Tree, Clone, Debug)]
struct Block {
    ln1: LayerNorm,
    qkv: Linear,
    proj: Linear,
    ln2: LayerNorm,
    up: Linear,
    down: Linear,
}

#[derive(Tree, Clone, Debug)]
struct Gpt {
    tok: Embedding,
    pos: Embedding,
    blocks: Vec<Block>,
    ln: LayerNorm,
    #[tree(fixed)]
    heads: usize,
}

impl Gpt {
    fn new(k: &mut Key, vocab: usize, ctx: usize, d: usize, depth: usize, heads: usize) -> Gpt {
        let blocks = (0..depth)
            .map(|_| Block {
                ln1: LayerNorm::new(d),
                qkv: Linear::new(k.next(), d, 3 * d),
                proj: Linear::new(k.next(), d, d),
                ln2: LayerNorm::new(d),
                up: Linear::new(k.next(), d, 4 * d),
                down: Linear::new(k.next(), 4 * d, d),
            })
            .collect();
        let (tok, pos) = (Embedding::new(k.next(), vocab, d), Embedding::new(k.next(), ctx, d));
        Gpt { tok, pos, blocks, ln: LayerNorm::new(d), heads }
    }

    fn logits(&self, x: &Tensor) -> Tensor {
        let [b, t] = x.dims();
        let mut h = self.tok.at(x) + self.pos.at(&arange(t));
        for l in &self.blocks {
            let qkv = l.qkv.at(&l.ln1.at(&h)).reshape((b, t, 3 * self.heads, -1)).transpose(1, 2);
            let [q, k, v] = qkv.chunk_with(Chunk { dim: 1.into() });
            let a = q.sdpa_with(&k, &v, None, Sdpa { causal: true, ..d() });
            h += l.proj.at(&a.transpose(1, 2).reshape((b, t, -1)));
            h += l.down.at(&l.up.at(&l.ln2.at(&h)).gelu());
        }
        self.ln.at(&h).matmul(&self.tok.w.t())
    }
}

const TEXT: &str = "the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs. ";

/// What a step reads and writes.
type State = (Gpt, AdamW<Gpt>);

/// The model, and what it says about the text after so many steps.
fn train(steps: usize) -> Result<(State, Vec<f32>)> {
    let (text, mut key) = (Text::new(&TEXT.repeat(8))?, Key::new(1337));
    let model = Gpt::new(&mut key, text.symbols(), 16, 16, 2, 2);
    let mut state = (model.clone(), AdamW::new(&model));
    let step = jit(|(m, o): (Gpt, AdamW<Gpt>), (x, y, lr): (Tensor, Tensor, Tensor)| {
        let (loss, g) = value_and_grad(&m, |m| m.logits(&x).transpose(1, 2).cross_entropy(&y, None));
        (o.step(m, g, lr), loss)
    });
    let mut losses = Vec::new();
    for i in 0..steps {
        let (x, y) = text.batch(key.next(), 4, 16);
        let loss = step.update(&mut state, (x, y, lr(i).into()))?;
        losses.push(loss.item::<f32>()?);
    }
    // the learning rate changed at each step, and is a number of the run
    assert_eq!(step.stats().misses.len(), 1, "{}", step.stats());
    Ok((state, losses))
}

fn lr(i: usize) -> f64 {
    1e-2 * ((i + 1) as f64 / 4.0).min(1.0)
}

#[test]
fn a_model_learns() {
    let (_, losses) = train(45).expect("every step runs");
    let symbols = Text::new(&TEXT.repeat(8)).expect("a text").symbols() as f32;
    assert!((losses[0] - symbols.ln()).abs() < 0.6, "an untrained model knows nothing: {} for ln {symbols}", losses[0]);
    let last = losses[40..].iter().sum::<f32>() / 5.0;
    assert!(last < losses[0] - 0.5, "{losses:?}");
}

#[test]
fn the_same_seed_learns_the_same() {
    let bits = |losses: Vec<f32>| losses.into_iter().map(f32::to_bits).collect::<Vec<_>>();
    assert_eq!(bits(train(4).expect("runs").1), bits(train(4).expect("runs").1));
}

#[test]
fn a_model_is_saved_and_loaded() {
    let (state, _) = train(2).expect("runs");
    let path = std::env::temp_dir().join(format!("fulgurite-user-api-{}.safetensors", std::process::id()));
    save(&path, &state).expect("saves");
    let mut fresh = train(1).expect("runs").0;
    load(&path, &mut fresh).expect("loads");
    let values = |s: &State| {
        let leaves = fulgurite::tree::flatten(s);
        leaves.leaves().iter().map(|t| t.to_f64().expect("numbers")).collect::<Vec<_>>()
    };
    assert_eq!(values(&fresh), values(&state));
    std::fs::remove_file(path).expect("was there");
}
