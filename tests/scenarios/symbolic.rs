//! Symbolic sizes: one program for all sizes that its guards admit.

use fulgurite::jit::Stats;
use fulgurite::prelude::*;

/// Numbers that differ from place to place.
fn ramp(sizes: &[usize]) -> Tensor {
    let n: usize = sizes.iter().product();
    Tensor::from_vec((0..n).map(|i| ((i * 7 + 3) % 11) as f32 * 0.25 - 1.0).collect(), sizes)
}

fn bits(t: &Tensor) -> (Vec<Dim>, Vec<u64>) {
    (t.shape(), t.to_f64().expect("numbers").into_iter().map(f64::to_bits).collect())
}

/// Calls `f` with symbolic and with constant sizes: the same bits. What is asked of sizes, and how often it was compiled.
#[track_caller]
fn agree(f: impl Fn(Tensor, Tensor) -> Tensor + Clone, calls: &[(&[usize], &[usize])]) -> (Vec<String>, Stats) {
    let symbolic = jit(f.clone()).caching(Caching::Symbolic).keep_traces();
    let constant = jit(f);
    for (x, y) in calls {
        let (x, y) = (ramp(x), ramp(y));
        let want = constant.call((x.clone(), y.clone())).unwrap_or_else(|e| panic!("{e}"));
        let got = symbolic.call((x.clone(), y.clone())).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(bits(&got), bits(&want), "{x:?}\n{y:?}\n{}", symbolic.trace("simplified").unwrap());
    }
    let prologue = symbolic.prologue().expect("compiled");
    let guards = prologue.lines().filter(|line| !line.contains(" is ")).map(str::to_owned).collect();
    let stats = symbolic.stats();
    assert!(!stats.to_string().contains("can't be"), "{stats}");
    (guards, stats)
}

/// One program for all these calls, with these guards.
#[track_caller]
fn once(f: impl Fn(Tensor, Tensor) -> Tensor + Clone, calls: &[(&[usize], &[usize])], guards: &[&str]) {
    let (have, stats) = agree(f, calls);
    assert_eq!(have, guards);
    assert_eq!(stats.misses.len(), 1, "{stats}");
}

#[test]
fn a_pointwise_function_is_compiled_once_for_all_sizes() {
    let f = |x: Tensor, y: Tensor| (&x * 2.0 + y).exp();
    let sizes: [[usize; 2]; 6] = [[4, 3], [7, 3], [4, 3], [300, 5], [1, 1], [0, 2]];
    let calls: Vec<(&[usize], &[usize])> = sizes.iter().map(|s| (&s[..], &s[..])).collect();
    let (guards, stats) = agree(f, &calls);
    assert_eq!(guards, ["in0.0 == in1.0", "in0.1 == in1.1"]);
    assert_eq!((stats.misses.len(), stats.programs, stats.hits, stats.plans), (1, 1, 5, 4), "{stats}");
}

#[test]
fn sizes_flow_through_the_usual_rows() {
    let none: &[usize] = &[];
    once(|x, _| x.mean_with(Mean { dims: [0].into(), ..d() }), &[(&[4, 3], none), (&[9, 2], none)], &[]);
    once(|x, _| x.mean(), &[(&[4, 3], none), (&[9, 2], none)], &[]);
    once(|x, _| x.softmax(-1), &[(&[4, 3], none), (&[9, 2], none)], &[]);
    once(|x, _| x.reshape((-1, 2)) + 1.0, &[(&[4, 3], none), (&[9, 2], none)], &["(in0.0*in0.1) % 2 == 0"]);
    once(|x, _| x.reshape(-1), &[(&[4, 3], none), (&[9, 2], none)], &[]);
    once(|x, y| cat(&[x, y]), &[(&[4, 3], &[2, 3]), (&[9, 2], &[3, 2])], &["in0.1 == in1.1"]);
    once(|x, y| x.matmul(&y), &[(&[4, 3], &[3, 2]), (&[9, 2], &[2, 7])], &["in0.1 == in1.0"]);
    once(|x, _| x.transpose(0, 1).reshape((-1, 1)), &[(&[4, 3], none), (&[9, 2], none)], &[]);
}

#[test]
fn programs_of_users_ask_of_sizes() {
    let none: &[usize] = &[];
    let f = |x: Tensor, _: Tensor| {
        let [n, m] = x.dims();
        let y = &x + arange(m) + full((n, 1), 3.0);
        if n > Dim::from(3) { y * 2.0 } else { y }
    };
    once(f, &[(&[4, 3], none), (&[9, 2], none)], &["in0.0 > 3"]);
    let (_, stats) = agree(f, &[(&[4, 3], none), (&[9, 2], none), (&[3, 2], none), (&[2, 5], none)]);
    assert_eq!(stats.misses[1].reasons, ["`in0.0 > 3` was so with 4 and 3, is 3 and 3"]);
    assert_eq!(stats.misses.len(), 2, "{stats}");
    // a loop is as long as it is
    let looped = |x: Tensor, _: Tensor| {
        let n = usize::try_from(x.dims::<1>()[0]).expect("a size");
        (0..n).fold(x.clone(), |y, i| y + x.select(0, i as i64))
    };
    let (guards, stats) = agree(looped, &[(&[4], none), (&[3], none), (&[4], none)]);
    assert_eq!((guards, stats.misses.len()), (vec!["in0.0 == 3".to_owned()], 2), "{stats}");
    // what is 1 broadcasts, what is not does not
    let sum = |x: Tensor, y: Tensor| x * y;
    let (_, stats) = agree(sum, &[(&[4, 3], &[4, 1]), (&[4, 3], &[4, 3]), (&[5, 2], &[5, 1]), (&[5, 2], &[5, 2])]);
    assert_eq!(stats.misses.len(), 2, "{stats}");
    println!("{stats}");
}

#[test]
fn gradients_stay_symbolic() {
    let f = |x: Tensor, y: Tensor| {
        let (loss, g) = value_and_grad(&x, |x| (x.matmul(&y).tanh() * &y.sum()).mean());
        g * loss
    };
    once(f, &[(&[4, 3], &[3, 2]), (&[9, 2], &[2, 7]), (&[2, 5], &[5, 2])], &["in0.1 == in1.0"]);
    let norm = |x: Tensor, y: Tensor| {
        let [n] = y.dims();
        let (_, g) = value_and_grad(&(x, y), |(x, y)| x.layer_norm_with(Some(y), None, n, d()).square().mean());
        cat(&[g.0, g.1.reshape((1, -1))])
    };
    once(norm, &[(&[4, 3], &[3]), (&[9, 2], &[2]), (&[2, 5], &[5])], &["in0.1 == in1.0"]);
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
    println!("{}\n{}", symbolic.stats(), symbolic.prologue().unwrap());
    let (want, weights_wanted, _) = run(Caching::Constant);
    assert_eq!(losses, want);
    assert_eq!(weights, weights_wanted);
    assert_eq!(symbolic.stats().misses.len(), 1, "{}", symbolic.stats());
}
