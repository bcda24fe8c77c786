//! Compares the cost of a plan for other sizes with that of a compilation and of the step itself, for a training step
//! of a GPT over symbolic sizes.
//!
//! `cargo run --release --example plans -p fulgurite -- [BLOCKS [WIDTH]]`

use fulgurite::optim::AdamW;
use fulgurite::prelude::*;
use std::time::Instant;

#[derive(Tree, Clone)]
struct Block {
    ln1: LayerNorm,
    qkv: Linear,
    proj: Linear,
    ln2: LayerNorm,
    up: Linear,
    down: Linear,
}

#[derive(Tree, Clone)]
struct Gpt {
    tok: Embedding,
    pos: Embedding,
    blocks: Vec<Block>,
    ln: LayerNorm,
}

const HEADS: usize = 4;
const SYMBOLS: usize = 32;
const CONTEXT: usize = 512;

fn tensor(seed: usize, shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let at = |i: usize| ((i * 31 + seed * 17) % 101) as f32 / 1010.0 - 0.05;
    Tensor::from_vec((0..n).map(at).collect::<Vec<f32>>(), shape)
}

fn gpt(blocks: usize, width: usize) -> Gpt {
    let norm = || LayerNorm { w: tensor(1, &[width]) + 1.0, b: tensor(2, &[width]), eps: 1e-5 };
    let map = |out, inputs| Linear { w: tensor(3, &[out, inputs]), b: Some(tensor(4, &[out])) };
    let block = |_| Block {
        ln1: norm(),
        qkv: map(3 * width, width),
        proj: map(width, width),
        ln2: norm(),
        up: map(4 * width, width),
        down: map(width, 4 * width),
    };
    Gpt {
        tok: Embedding { w: tensor(5, &[SYMBOLS, width]) },
        pos: Embedding { w: tensor(6, &[CONTEXT, width]) },
        blocks: (0..blocks).map(block).collect(),
        ln: norm(),
    }
}

impl Block {
    fn at(&self, h: &Tensor) -> Tensor {
        let [b, t, _] = h.dims();
        let qkv = self.qkv.at(&self.ln1.at(h)).reshape((b, t, 3 * HEADS, -1));
        let [q, k, v] = qkv.transpose(1, 2).chunk_with(ops::Chunk { dim: 1.into() });
        let a = q.sdpa_with(&k, &v, None, ops::Sdpa { causal: true, ..d() });
        let h = h + self.proj.at(&a.transpose(1, 2).reshape((b, t, -1)));
        let m = self.up.at(&self.ln2.at(&h)).gelu_with(ops::Gelu { approximate: ops::GeluApproximate::Tanh });
        h + self.down.at(&m)
    }
}

impl Gpt {
    fn loss(&self, x: &Tensor, y: &Tensor) -> Tensor {
        let [_, t] = x.dims();
        let h = self.blocks.iter().fold(self.tok.at(x) + self.pos.at(&ops::arange(t)), |h, block| block.at(&h));
        let logits = self.ln.at(&h).linear(&self.tok.w, None);
        logits.reshape((-1, SYMBOLS)).cross_entropy(&y.reshape(-1), None)
    }
}

type State = (Gpt, AdamW<Gpt>);
type Step<'a> = &'a dyn Fn(&mut State, (Tensor, Tensor)) -> Result<Tensor>;

fn main() -> Result<()> {
    let given: Vec<usize> = std::env::args().skip(1).filter_map(|n| n.parse().ok()).collect();
    let (blocks, width) = (given.first().copied().unwrap_or(2), given.get(1).copied().unwrap_or(64));
    let step = |(m, o): State, (x, y): (Tensor, Tensor)| {
        let (loss, g) = value_and_grad(&m, |m| m.loss(&x, &y));
        (o.step(m, g, 1e-3), loss)
    };
    let batch = |b: usize, t: usize| {
        let ids = |k: usize| (0..b * t).map(|i| (i * k % SYMBOLS) as i64).collect::<Vec<i64>>();
        (Tensor::from_vec(ids(7), (b, t)), Tensor::from_vec(ids(11), (b, t)))
    };
    let symbolic = jit(step).caching(Caching::Symbolic);
    let (model, all) = (gpt(blocks, width), [(4, 64), (4, 96), (3, 50), (8, 128), (1, 33), (2, 97), (5, 64), (4, 256)]);
    println!("b, t      constant ms   plan ms   share   step ms   same bits");
    for (b, t) in all {
        // The bits of the results, and the duration in milliseconds.
        let run = |f: Step<'_>, (b, t)| -> Result<(Vec<u8>, f64)> {
            let (mut state, batch) = ((model.clone(), AdamW::new(&model)), batch(b, t));
            let began = Instant::now();
            let mut bits = f(&mut state, batch)?.buffer()?.as_bytes().to_vec();
            let took = began.elapsed().as_secs_f64() * 1e3;
            for leaf in fulgurite::tree::flatten(&state.0).leaves() {
                bits.extend_from_slice(leaf.buffer()?.as_bytes());
            }
            Ok((bits, took))
        };
        // Results of earlier compilations are reused only for equal sizes, so each is measured at new sizes.
        let constant = jit(step);
        run(&|s, b| constant.update(s, b), (b, t + 1))?;
        let whole = constant.stats().compile_time().as_secs_f64() * 1e3;
        let before = symbolic.stats();
        let (got, _) = run(&|s, b| symbolic.update(s, b), (b, t))?;
        let after = symbolic.stats();
        let plan = (after.plan_time - before.plan_time).as_secs_f64() * 1e3;
        let (_, step) = run(&|s, b| symbolic.update(s, b), (b, t))?;
        let (want, _) = run(&|s, b| constant.update(s, b), (b, t))?;
        let what = if after.misses.len() > before.misses.len() { "compiled" } else { "planned" };
        println!(
            "{b}, {t:<6} {whole:>12.2} {plan:>9.2} {:>6.1}% {step:>9.1}   {}   {what}",
            100.0 * plan / whole,
            if got == want { "yes" } else { "NO" },
        );
    }
    println!("{}", symbolic.stats());
    Ok(())
}
