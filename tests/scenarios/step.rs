//! A training step with symbolic batch and length.

use fulgurite::ops::{Chunk, Sdpa, arange};
use fulgurite::prelude::*;

fn bits(t: &Tensor) -> Vec<u64> {
    t.to_f64().expect("numbers").into_iter().map(f64::to_bits).collect()
}

#[derive(Tree, Clone, Debug)]
struct Block {
    ln: LayerNorm,
    qkv: Linear,
    proj: Linear,
    up: Linear,
    down: Linear,
    head: Embedding,
    #[tree(fixed)]
    heads: usize,
}

impl Block {
    fn new(mut key: Key, d: usize, heads: usize) -> Block {
        Block {
            ln: LayerNorm::new(d),
            qkv: Linear::new(key.next(), d, 3 * d),
            proj: Linear::new(key.next(), d, d),
            up: Linear::new(key.next(), d, 4 * d),
            down: Linear::new(key.next(), 4 * d, d),
            head: Embedding::new(key.next(), 13, d),
            heads,
        }
    }

    fn logits(&self, x: &Tensor, key: &Key) -> Tensor {
        let [b, t] = x.dims();
        let mut h = self.head.at(x) + self.head.at(&arange(t).remainder(13));
        let qkv = self.qkv.at(&self.ln.at(&h)).reshape((b, t, 3 * self.heads, -1)).transpose(1, 2);
        let [q, k, v] = qkv.chunk_with(Chunk { dim: 1.into() });
        let a = q.sdpa_with(&k, &v, None, Sdpa { causal: true, ..d() });
        h += self.proj.at(&a.transpose(1, 2).reshape((b, t, -1)));
        h += self.down.at(&self.up.at(&self.ln.at(&h)).gelu()).dropout(key);
        self.head.logits(&h)
    }
}

type State = (Block, AdamW<Block>, Key);

fn step((m, o, k): State, (x, y, lr): (Tensor, Tensor, Tensor)) -> (State, Tensor) {
    let (loss, g) = value_and_grad(&m, |m| m.logits(&x, &k).transpose(1, 2).cross_entropy(&y, None));
    let (m, o) = o.step(m, g, lr);
    ((m, o, k), loss)
}

#[test]
fn a_training_step_is_compiled_once_for_all_batches_and_lengths() {
    let model = Block::new(Key::new(7), 8, 2);
    let start: State = (model.clone(), AdamW::new(&model), Key::new(3));
    let tokens = |b: usize, t: usize, from: usize| {
        Tensor::from_vec((0..b * t).map(|i| ((i * 5 + from) % 13) as i64).collect(), (b, t))
    };
    let run = |caching: Caching| {
        let step = jit(step).caching(caching).keep_traces();
        let mut state = start.clone();
        let mut losses = Vec::new();
        for (i, (b, t)) in [(4, 8), (3, 5), (6, 16), (4, 8), (2, 2)].into_iter().enumerate() {
            let batch = (tokens(b, t, i), tokens(b, t, i + 1), Tensor::from(0.01 * (i + 1) as f64));
            losses.push(bits(&step.update(&mut state, batch).unwrap_or_else(|e| panic!("{e}"))));
        }
        let weights: Vec<_> = fulgurite::tree::flatten(&state.0).leaves().iter().map(|t| bits(t)).collect();
        (losses, weights, step)
    };
    let (losses, weights, symbolic) = run(Caching::Symbolic);
    println!("{}", symbolic.stats());
    for stage in symbolic.stages() {
        println!("{:14} {:4} lines {:6.2} ms", stage.name, stage.lines, stage.time.as_secs_f64() * 1e3);
    }
    let (want, weights_wanted, _) = run(Caching::Constant);
    assert_eq!(losses, want);
    assert_eq!(weights, weights_wanted);
    assert_eq!(symbolic.stats().misses.len(), 1, "{}", symbolic.stats());
}

/// A step takes parameters of any float dtype, whatever the dtype of the rate. 16 bits can't count steps from 257 on, so the
/// number of the step and the rate are used in f32.
#[test]
fn optimisers_step_in_the_dtype_of_each_parameter() {
    let start = [1.0f32, -2.0, 0.5, 3.0];
    let train = |dtype: DType, rate: Tensor, sgd: bool| {
        let mut w = Tensor::from(start).cast(dtype);
        let (mut adam, mut descent) = (AdamW::new(&w), Sgd::new(&w, 0.9));
        adam.step = Tensor::scalar(300f32);
        for _ in 0..5 {
            let gradient = &w * 2.0;
            match sgd {
                true => (w, descent) = descent.step(w, gradient, rate.clone()),
                false => (w, adam) = adam.step(w, gradient, rate.clone()),
            }
            assert_eq!(w.dtype(), dtype);
        }
        assert_eq!((adam.m.dtype(), adam.step.dtype(), descent.buf.dtype()), (dtype, DType::F32, dtype));
        w.to_f64().unwrap()
    };
    for sgd in [false, true] {
        let exact = train(DType::F64, Tensor::scalar(0.01f64), sgd);
        assert!(exact.iter().zip(start).all(|(w, start)| w.abs() < f64::from(start).abs()), "{exact:?}");
        for (dtype, rate, share) in [
            (DType::F64, Tensor::scalar(0.01f32), 1e-8),
            (DType::F32, Tensor::scalar(0.01f64), 1e-5),
            (DType::BF16, Tensor::scalar(0.01f32), 1e-2),
            (DType::F16, Tensor::scalar(0.01f32), 2e-3),
        ] {
            let found = train(dtype, rate, sgd);
            let near = exact.iter().zip(&found).all(|(a, b)| (a - b).abs() < share * a.abs());
            assert!(near && found != exact, "{dtype}: {found:?} is not {exact:?}");
        }
    }
}
