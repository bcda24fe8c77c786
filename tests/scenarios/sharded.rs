//! Tensors in pieces over a simulated mesh of ranks.

use fulgurite::ErrorKind;
use fulgurite::ops::{Chunk, FromShards, Redistribute, RedistributePlace, Sdpa, Shard, Sum};
use fulgurite::ops::{from_parts, from_shards, from_shards_with};
use fulgurite::prelude::*;
use fulgurite::subclass;

const RANKS: i64 = 4;

fn numbers(shape: [usize; 2]) -> Tensor {
    ops::randn(Key::new((shape[0] * 31 + shape[1]) as u64), shape)
}

/// A matrix in a place: `S0`, `S1`, `R`, `P` (the sum is the matrix).
fn put(x: &Tensor, place: &str) -> Tensor {
    match place {
        "S0" => x.shard(RANKS),
        "S1" => x.shard_with(RANKS, Shard { dim: 1.into() }),
        "R" => x.replicate(RANKS),
        // pieces of a sum over the second axis
        _ => put(x, "S1").matmul(&put(&ops::eye(x.shape()[1]), "S0")),
    }
}

fn place(x: &Tensor) -> String {
    let parts = subclass::parts(x).unwrap();
    match (parts.meta::<String>("place").unwrap().as_str(), parts.meta::<i64>("dim").unwrap()) {
        ("shard", dim) => format!("S{dim}"),
        ("replicate", _) => "R".into(),
        (fold, _) => format!("P({fold})"),
    }
}

const COLLECTIVES: [&str; 4] = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"];

/// The collective lines of a trace.
fn collectives(trace: &str) -> Vec<&str> {
    let op = |line: &str| COLLECTIVES.into_iter().find(|op| line.contains(&format!("= {op}(")));
    trace.lines().filter_map(op).collect()
}

/// Where `f` of these is, the collectives on the way; its values are those of the plain call.
fn run(f: impl Fn(&[Tensor]) -> Tensor + Clone + 'static, of: &[(&Tensor, &str)]) -> (String, Vec<String>) {
    let plain: Vec<Tensor> = of.iter().map(|(t, _)| (*t).clone()).collect();
    let placed: Vec<Tensor> = of.iter().map(|(t, place)| put(t, place)).collect();
    let want = f(&plain);
    let g = f.clone();
    let program = jit(move |xs: Vec<Tensor>| g(&xs)).keep_traces();
    let have = program.call(placed.clone()).unwrap();
    near(&have.plain(), &want);
    assert_eq!(have.shape(), want.shape());
    // at once, by the same rules
    let at_once = f(&placed);
    assert_eq!(place(&at_once), place(&have));
    near(&at_once.plain(), &want);
    let unrolled = program.trace("unrolled").unwrap();
    (place(&have), collectives(&unrolled).into_iter().map(str::to_owned).collect())
}

fn near(have: &Tensor, want: &Tensor) {
    let (have, want) = (have.to_f64().unwrap(), want.to_f64().unwrap());
    let fits = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-4 * (1.0 + b.abs());
    assert!(have.len() == want.len() && have.iter().zip(&want).all(fits), "{have:?} is not {want:?}");
}

type Op = fn(&[Tensor]) -> Tensor;

/// A call, its tensors with their places, the place of its result, the collectives on the way.
type Case<'a> = (Op, &'a [(&'a Tensor, &'a str)], &'a str, &'a [&'a str]);

fn check(cases: &[Case]) {
    for (i, (op, of, want, moves)) in cases.iter().enumerate() {
        let (have, lines) = run(*op, of);
        assert!(have == *want && lines == *moves, "case {i}: {have} by {lines:?}, not {want} by {moves:?}");
    }
}

#[test]
fn s4_23_where_results_are_follows_from_the_loops() {
    let (x, y) = (&numbers([8, 8]), &(numbers([8, 8]) * 0.5));
    let add: Op = |t| &t[0] + &t[1];
    let mul: Op = |t| &t[0] * &t[1];
    let mm: Op = |t| t[0].matmul(&t[1]);
    check(&[
        (add, &[(x, "S0"), (y, "S0")], "S0", &[]),
        (add, &[(x, "S0"), (y, "R")], "S0", &[]),
        (add, &[(x, "S0"), (y, "S1")], "S0", &["all_to_all"]),
        (add, &[(x, "P"), (y, "P")], "P(sum)", &[]),
        (add, &[(x, "P"), (y, "R")], "P(sum)", &[]),
        (mul, &[(x, "P"), (y, "P")], "P(sum)", &["all_reduce"]),
        (mm, &[(x, "S0"), (y, "R")], "S0", &[]),
        (mm, &[(x, "S0"), (y, "S0")], "S0", &["all_gather"]),
        (mm, &[(x, "S0"), (y, "S1")], "S0", &["all_gather"]),
        (mm, &[(x, "R"), (y, "S1")], "S1", &[]),
        (mm, &[(x, "S1"), (y, "S0")], "P(sum)", &[]),
        (mm, &[(x, "P"), (y, "R")], "P(sum)", &[]),
        (|t| &t[0] * 2.0, &[(x, "P")], "P(sum)", &[]),
        (|t| &t[0] + 1.0, &[(x, "P")], "R", &["all_reduce"]),
        (|t| t[0].relu(), &[(x, "P")], "R", &["all_reduce"]),
        (|t| t[0].exp(), &[(x, "P")], "R", &["all_reduce"]),
        (|t| t[0].relu(), &[(x, "S1")], "S1", &[]),
        (|t| t[0].sum(), &[(x, "S0")], "P(sum)", &[]),
        (|t| t[0].amax(), &[(x, "S0")], "P(max)", &[]),
        (|t| t[0].amin(), &[(x, "S0")], "P(min)", &[]),
        (|t| t[0].mean(), &[(x, "S0")], "P(avg)", &[]),
        (|t| t[0].sum_with(Sum { dims: [0].into(), ..d() }), &[(x, "S0")], "P(sum)", &[]),
        (|t| t[0].sum_with(Sum { dims: [1].into(), ..d() }), &[(x, "S0")], "S0", &[]),
        (|t| t[0].t(), &[(x, "S0")], "S1", &[]),
        (|t| t[0].t(), &[(x, "P")], "P(sum)", &[]),
        (|t| t[0].reshape([64]), &[(x, "S0")], "S0", &[]),
        (|t| t[0].reshape([8, 2, 4]), &[(x, "S0")], "S0", &[]),
        (|t| t[0].softmax(0), &[(x, "S0")], "R", &["all_gather"]),
        (|t| t[0].softmax(1), &[(x, "S0")], "S0", &[]),
        (|t| &t[0] + &t[0].sum(), &[(x, "S0")], "S0", &["all_reduce"]),
        // sizes that happen to be that of what is cut stay what they are
        (|t| t[0].expand([8, 8, 8]), &[(x, "S1")], "S2", &[]),
        (|t| t[0].cast(DType::I64).clamp(0, 7).one_hot(8), &[(x, "S0")], "S0", &[]),
    ]);
}

#[test]
fn s4_23_uneven_pieces_and_what_is_refused() {
    let sizes = |n: usize| -> Vec<i64> {
        let x = put(&numbers([n, 2]), "S0");
        subclass::parts(&x).unwrap().list("local").iter().map(|t| t.shape()[0].value()).collect()
    };
    assert_eq!((sizes(6), sizes(5), sizes(3)), (vec![2, 2, 2, 0], vec![2, 2, 1, 0], vec![1, 1, 1, 0]));
    let x = &numbers([6, 3]);
    check(&[
        (|t| t[0].sum(), &[(x, "S0")], "P(sum)", &[]),
        (|t| t[0].amax(), &[(x, "S0")], "P(max)", &[]),
        // means over pieces of several sizes are no mean
        (|t| t[0].mean(), &[(x, "S0")], "R", &["all_gather"]),
        (|t| &t[0] * &t[0], &[(x, "S0")], "S0", &[]),
        (|t| t[0].t().matmul(&t[1]), &[(x, "S0"), (x, "S0")], "P(sum)", &[]),
    ]);
    let s = |x: &Tensor, place| put(x, place);
    let e = s(x, "S1").reshape([18]).check().unwrap_err();
    assert!(e.to_string().contains("`reshape` of a `Sharded` in place S1 would move elements"), "{e}");
    // 12 elements a piece are no two rows
    assert!(s(x, "S0").reshape([18]).check().is_err());
    let e = (s(x, "S0") + x).check().unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::NoDispatch { op, .. } if *op == "add"), "{e}");
    assert!(e.to_string().contains("`add` has tensors of `Sharded` and a plain f32[6, 3]"), "{e}");
    near(&(s(x, "S0") + Tensor::scalar(2.0f32)).plain(), &(x + 2.0));
    let e = (s(x, "S0") + x.shard(2)).check().unwrap_err();
    assert!(e.to_string().contains("pieces of 4 and of 2 ranks"), "{e}");
}

/// Pieces of other sizes than a cut gives would make means of pieces that are no means.
#[test]
fn s4_23_pieces_are_those_of_a_cut() {
    let x = numbers([4, 2]);
    let cut = |sizes: [i64; 2]| from_shards(&x.split(sizes));
    near(&cut([2, 2]).mean().plain(), &x.mean());
    let e = cut([1, 3]).mean().check().unwrap_err();
    assert!(
        e.to_string().contains("the piece of rank 0 is f32[1, 2], where f32[4, 2] in place S0 has f32[2, 2]"),
        "{e}"
    );
}

/// Each way between places, with its line and the bytes that each rank sends: three quarters of 8 times 6 numbers, or
/// twice or a fourth of that.
#[test]
fn s4_23_redistribution() {
    let x = &numbers([8, 6]);
    let moves = [
        ("S0", "R", "all_gather", 144),
        ("S0", "S1", "all_to_all", 36),
        ("P", "R", "all_reduce", 288),
        ("P", "S1", "reduce_scatter", 144),
        ("R", "S0", "", 0),
        ("R", "P(sum)", "", 0),
    ];
    for (from, to, line, bytes) in moves {
        let f = jit(move |x: Tensor| {
            let to = match to {
                "S0" | "S1" => Redistribute { place: RedistributePlace::Shard, dim: i64::from(to == "S1").into() },
                "R" => d(),
                _ => Redistribute { place: RedistributePlace::Sum, ..d() },
            };
            x.redistribute_with(to)
        });
        let f = f.keep_traces();
        let y = f.call(put(x, from)).unwrap();
        assert_eq!(place(&y), to);
        near(&y.plain(), x);
        assert_eq!(collectives(&f.trace("unrolled").unwrap()).join(" "), line, "{from} {to}");
        let said = f.stages().iter().find(|s| s.name == "unrolled").and_then(|s| s.remark.clone());
        let want = (!line.is_empty()).then(|| format!("each rank sends: {line} {bytes} B"));
        assert_eq!(said, want);
    }
}

/// The gradient of a whole parameter is a sum of parts, which is reduced once.
#[test]
fn s4_24_gradients_of_whole_parameters_are_parts() {
    let (x, w) = (numbers([8, 6]), numbers([6, 5]));
    let plain = grad(&(x.clone(), w.clone()), |(x, w)| x.matmul(w).sum());
    let program = |reduced: bool| {
        let f = move |x: Tensor, w: Tensor| {
            let (gx, gw) = grad(&(x, w), |(x, w)| x.matmul(w).sum());
            (gx, if reduced { gw.redistribute() } else { gw })
        };
        jit(f).keep_traces()
    };
    let args = || (x.shard(RANKS), w.replicate(RANKS));
    let f = program(false);
    let (gx, gw) = f.call(args()).unwrap();
    assert_eq!(place(&gw), "P(sum)");
    assert_eq!(collectives(&f.trace("unrolled").unwrap()), [] as [&str; 0]);
    near(&gx.plain(), &plain.0);
    near(&gw.plain(), &plain.1);
    let f = program(true);
    let (_, gw) = f.call(args()).unwrap();
    assert_eq!(place(&gw), "R");
    assert_eq!(collectives(&f.trace("unrolled").unwrap()), ["all_reduce"]);
    near(&gw.plain(), &plain.1);
}

/// A mesh of two axes: the rows over two groups, the columns of each group's rows over two ranks.
#[test]
fn s4_25_meshes_nest() {
    let (x, w) = (numbers([4, 6]), numbers([6, 3]));
    let cols = |t: &Tensor| t.shard_with(2, Shard { dim: 1.into() });
    let pieces: Vec<Tensor> = x.split([2, 2]).iter().map(cols).collect();
    let rows: Vec<Tensor> = (0..2).map(|_| w.shard(2)).collect();
    let f = jit(|x: Tensor, w: Tensor| value_and_grad(&w, |w| (x.matmul(w).square()).sum())).keep_traces();
    let (have, g) = f.call((from_shards(&pieces), from_parts(&rows))).unwrap();
    let (want, gw) = value_and_grad(&w, |w| x.matmul(w).square().sum());
    near(&have.plain(), &want);
    near(&g.plain(), &gw);
    let inner = &subclass::parts(&g).unwrap().list("local")[0];
    assert_eq!((place(&g), place(inner)), ("P(sum)".into(), "S0".into()));
    // a product of cut columns is a sum of parts, which the square and its gradient need whole, in each group
    assert_eq!(collectives(&f.trace("unrolled").unwrap()), ["all_reduce"; 4]);
}

/// Classes nest: each rank has its piece in eight bits.
#[test]
fn s4_25_pieces_may_be_of_a_class() {
    let (x, w) = (numbers([8, 16]), numbers([16, 4]));
    let eight = |t: &Tensor| {
        let parts = subclass::parts(t).unwrap();
        let locals: Vec<Tensor> = parts.list("local").iter().map(Tensor::to_float8).collect();
        let dim = parts.meta::<i64>("dim").unwrap();
        if place(t) == "R" { from_parts(&locals) } else { from_shards_with(&locals, FromShards { dim: dim.into() }) }
    };
    let (xs, ws) = (eight(&put(&x, "S0")), eight(&put(&w, "R")));
    let f = jit(|x: Tensor, w: Tensor| x.matmul(&w)).keep_traces();
    let y = f.call((xs, ws)).unwrap();
    assert_eq!(place(&y), "S0");
    let want = x.to_float8().plain().matmul(&w.to_float8().plain());
    let err: f64 = (y.plain() - want).abs().amax().to_f64().unwrap()[0];
    assert!(err < 0.5, "{err}");
    let traced = f.trace("acquired").unwrap();
    assert!(traced.contains("Sharded[f32[8, 16]]{local.0: Float8Tensor[f32[2, 16]]{data: f8e4m3fn[2, 16]"), "{traced}");
    let lines = |op: &str| traced.lines().filter(|l| l.contains(&format!("= {op}("))).count();
    assert_eq!((lines("matmul"), lines("scaled_mm")), (5, 4), "{traced}");
    let unrolled = f.trace("unrolled").unwrap();
    assert!(!unrolled.contains("flatten") && !unrolled.contains("Sharded"), "{unrolled}");
}

/// A block of a network with its batch cut, and with its weights cut, is the block.
#[test]
fn s4_24_blocks_by_batch_and_by_weights() {
    type Weights = (Tensor, Tensor, Tensor);
    fn block(x: &Tensor, (a, b, scale): &Weights) -> Tensor {
        let h = x.layer_norm_with(Some(scale), None, [8], d());
        (h.linear(a, None).gelu().linear(b, None) + x).log_softmax(-1)
    }
    let (x, a, b) = (numbers([12, 8]), numbers([16, 8]), numbers([8, 16]));
    let target = numbers([12, 8]).softmax(-1);
    let scale = ops::full([8], 1.5);
    let weights = (a, b, scale);
    let loss = |(x, t, w): &(Tensor, Tensor, Weights)| value_and_grad(w, |w| -(block(x, w) * t).sum());
    let plain = loss(&(x.clone(), target.clone(), weights.clone()));
    let step = jit(move |args: (Tensor, Tensor, Weights)| loss(&args)).keep_traces();
    let whole = |t: &Tensor| put(t, "R");
    let run = |x: Tensor, t: Tensor, w: Weights| {
        let (have, (ga, gb, gs)) = step.call((x, t, w)).unwrap();
        near(&have.plain(), &plain.0);
        let want = [&plain.1.0, &plain.1.1, &plain.1.2];
        [&ga, &gb, &gs].into_iter().zip(want).for_each(|(g, want)| near(&g.plain(), want));
        let lines = collectives(&step.trace("unrolled").unwrap()).into_iter().map(str::to_owned).collect::<Vec<_>>();
        (place(&have), [ga, gb, gs].map(|g| place(&g)).join(" "), lines)
    };
    let (a, b, scale) = &weights;
    let by_batch = run(put(&x, "S0"), put(&target, "S0"), (whole(a), whole(b), whole(scale)));
    assert_eq!(by_batch, ("P(sum)".into(), "P(sum) P(sum) P(sum)".into(), vec![]));
    // the rows of the first matrix and the columns of the second: one sum in the forward; that of the backward is left
    // to whoever reads the gradient of the scale
    let by_weights = run(whole(&x), whole(&target), (put(a, "S0"), put(b, "S1"), whole(scale)));
    assert_eq!((by_weights.0.as_str(), by_weights.1.as_str()), ("R", "S0 S1 P(sum)"));
    assert_eq!(by_weights.2, ["all_reduce"]);
}

/// A language model with its batch cut: only what is one number for all is sent, and the gradients are parts.
#[test]
fn s4_24_attention_and_cross_entropy_by_batch() {
    type Weights = (Tensor, Tensor, Tensor, Tensor);
    fn model((emb, qkv, out, scale): &Weights, idx: &Tensor, target: &Tensor) -> Tensor {
        let x = emb.embedding(idx);
        let [b, t] = [x.shape()[0], x.shape()[1]];
        let h = x.rms_norm_with(Some(scale), [8], d());
        let parts: [Tensor; 3] = h.linear(qkv, None).chunk_with(Chunk { dim: (-1).into() });
        let [q, k, v] = parts.map(|p| p.reshape([b, t, 2.into(), 4.into()]).transpose(1, 2));
        let y = q.sdpa_with(&k, &v, None, Sdpa { causal: true, ..d() }).transpose(1, 2).reshape([b, t, 8.into()]);
        let logits = (x + y.linear(out, None)).linear(emb, None);
        logits.transpose(1, 2).cross_entropy(target, None)
    }
    let some = |i: u64, shape: &[usize]| ops::randn(Key::new(i), shape) * 0.3;
    let weights = (some(1, &[10, 8]), some(2, &[24, 8]), some(3, &[8, 8]), ops::full([8], 1.1));
    let classes = |i: u64| (ops::randn(Key::new(i), [4, 6]).sigmoid() * 10.0).cast(DType::I64);
    let (idx, target) = (classes(4), classes(5));
    let (loss, (ge, gq, go, gs)) = value_and_grad(&weights, |w| model(w, &idx, &target));
    let step = |w: Weights, idx: Tensor, t: Tensor| value_and_grad(&w, |w| model(w, &idx, &t));
    let step = jit(step).keep_traces();
    let (a, b, c, e) = &weights;
    let whole = |t: &Tensor| t.replicate(RANKS);
    let (have, (he, hq, ho, hs)) =
        step.call(((whole(a), whole(b), whole(c), whole(e)), idx.shard(RANKS), target.shard(RANKS))).unwrap();
    for (have, want) in [(&have, &loss), (&he, &ge), (&hq, &gq), (&ho, &go), (&hs, &gs)] {
        assert_eq!(place(have), "P(sum)");
        near(&have.plain(), want);
    }
    let sent = step.stages().iter().find(|s| s.name == "unrolled").and_then(|s| s.remark.clone());
    assert_eq!(sent.as_deref(), Some("each rank sends: all_reduce 6 B, all_reduce 6 B"));
}
