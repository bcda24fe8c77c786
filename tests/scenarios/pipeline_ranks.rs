//! Schedules that run on stages, and models that are cut into stages.

use super::pipeline::{bits, data, disjoint, grads, interp, matrix, number, values};
use fulgurite::pipeline::{Accumulate, Chain, Cut, Done, Edge, Stage, StagedModel, Transport, run, run_rank};
use fulgurite::prelude::*;
use fulgurite::schedule::{Action, Generator, KINDS, Schedule};
use fulgurite::trace::ProxyTy;
use std::collections::HashMap;

type Pair = (Tensor, Tensor);

/// All schedules with four stages and eight micro-batches.
fn all() -> Vec<Schedule> {
    let make = |kind: &'static str| {
        let chunks = if matches!(kind, "gpipe" | "1f1b" | "zb1p") { 1 } else { 2 };
        Generator { kind, ranks: 4 / chunks, micro_batches: 8, chunks }.make().unwrap()
    };
    KINDS.iter().map(|kind| make(kind)).collect()
}

/// Small whole numbers: sums of products of them are exact in f32 in any order.
fn whole(rows: usize, columns: usize, seed: u64) -> Tensor {
    let x = data(&matrix(rows, columns, seed));
    Tensor::from_vec(x.iter().map(|x| (x * 3.0).round() as f32).collect(), [rows, columns])
}

/// Four maps with a loss behind: the first three stages give a hidden value, the last is fed what it is compared with.
fn maps(params: &[Tensor], x: &Tensor, y: &Tensor) -> Chain {
    let hidden = |w: Tensor, x: Tensor| x.matmul(&w).relu();
    let last = |w: Tensor, (x, y): Pair| ((x.matmul(&w) - y).square()).sum();
    let at = |i: usize| &params[i];
    let stages = vec![
        Stage::of("first", hidden, at(0), x).unwrap().on(interp()),
        Stage::of("second", hidden, at(1), x).unwrap().on(interp()),
        Stage::of("third", hidden, at(2), x).unwrap().on(interp()),
        Stage::of("last", last, at(3), &(x.clone(), y.clone())).unwrap().on(interp()),
    ];
    Chain::new(stages).unwrap()
}

/// Runs a schedule; the gradients per stage, and the losses.
fn ran(chain: &Chain, s: &Schedule, params: &[Tensor], batches: &[Pair], order: Accumulate) -> (Vec<Tensor>, Vec<f64>) {
    let mut feed = |stage: usize, mb: usize| {
        let (x, y) = &batches[mb];
        Ok(match stage {
            0 => vec![x.clone()],
            3 => vec![y.clone()],
            _ => Vec::new(),
        })
    };
    let done = run(chain, s, |stage| vec![params[stage].clone()], order, &mut feed).unwrap_or_else(|e| panic!("{e}"));
    let mut grads: Vec<(usize, Tensor)> =
        done.iter().flat_map(|d| d.grads.iter().map(|(stage, g)| (*stage, g[0].clone().unwrap()))).collect();
    grads.sort_by_key(|(stage, _)| *stage);
    let losses: HashMap<usize, f64> =
        done.iter().flat_map(|d| d.outputs.iter().map(|(mb, o)| (*mb, data(&o[0])[0]))).collect();
    (grads.into_iter().map(|(_, g)| g).collect(), (0..batches.len()).map(|mb| losses[&mb]).collect())
}

#[test]
fn s3_23_all_schedules_agree() {
    let params: Vec<Tensor> = (0..4).map(|i| whole(3, 3, i)).collect();
    let batches: Vec<Pair> = (0..8).map(|mb| (whole(2, 3, 10 + mb), whole(2, 3, 20 + mb))).collect();
    let chain = maps(&params, &batches[0].0, &batches[0].1);
    // the whole model in one program, one micro-batch after the other
    let loss = |p: &Vec<Tensor>, x: &Tensor, y: &Tensor| {
        let h = (0..3).fold(x.clone(), |h, i| h.matmul(&p[i]).relu());
        (h.matmul(&p[3]) - y).square().sum()
    };
    let mut want: Vec<Vec<f64>> = vec![vec![0.0; 9]; 4];
    let mut losses = Vec::new();
    for (x, y) in &batches {
        let (value, g) = value_and_grad(&params, |p| loss(p, x, y));
        losses.push(data(&value)[0]);
        for (sum, g) in want.iter_mut().zip(&g) {
            sum.iter_mut().zip(data(g)).for_each(|(sum, g)| *sum += g / 8.0);
        }
    }
    assert!(want.iter().flatten().any(|g| *g != 0.0));
    for s in all() {
        for order in [Accumulate::Arrival, Accumulate::ByMicroBatch] {
            let (grads, seen) = ran(&chain, &s, &params, &batches, order);
            assert_eq!((grads.iter().map(data).collect::<Vec<_>>(), seen), (want.clone(), losses.clone()), "{s}");
        }
    }
    // other numbers round, and by micro-batch they round alike
    let params: Vec<Tensor> = (0..4).map(|i| matrix(3, 3, i)).collect();
    let batches: Vec<Pair> = (0..8).map(|mb| (matrix(2, 3, 10 + mb), matrix(2, 3, 20 + mb))).collect();
    let exact = |s: &Schedule| {
        let (grads, losses) = ran(&chain, s, &params, &batches, Accumulate::ByMicroBatch);
        (bits(&grads.into_iter().map(Some).collect::<Vec<_>>()), losses)
    };
    let first = exact(&all()[0]);
    all().iter().for_each(|s| assert!(exact(s) == first, "{s}"));
}

/// What is kept at most goes with the schedule: GPipe keeps all micro-batches, 1F1B as many as there are ranks behind.
#[test]
fn s3_23_memory_of_schedules() {
    let params: Vec<Tensor> = (0..4).map(|i| matrix(3, 3, i)).collect();
    let batches: Vec<Pair> = (0..8).map(|mb| (matrix(2, 3, 10 + mb), matrix(2, 3, 20 + mb))).collect();
    let chain = maps(&params, &batches[0].0, &batches[0].1);
    let peaks = |kind: &'static str| {
        let s = Generator { kind, ranks: 4, micro_batches: 8, chunks: 1 }.make().unwrap();
        let mut feed = |stage: usize, mb: usize| {
            let (x, y) = batches[mb].clone();
            Ok(if stage == 0 {
                vec![x]
            } else if stage == 3 {
                vec![y]
            } else {
                vec![]
            })
        };
        let done = run(&chain, &s, |i| vec![params[i].clone()], Accumulate::Arrival, &mut feed).unwrap();
        done.iter().map(|d| d.peak).collect::<Vec<_>>()
    };
    let (all, few) = (peaks("gpipe"), peaks("1f1b"));
    for rank in 0..4 {
        assert_eq!(all[rank] * (4 - rank) / 8, few[rank], "rank {rank}: {all:?} {few:?}");
    }
}

/// What the simulator says of stages is what they do: their bytes, at most, on each rank, under every schedule; and of
/// products I and W each cost about as much as F.
#[test]
fn s3_23_simulated_and_measured() {
    let params: Vec<Tensor> = (0..4).map(|i| matrix(3, 3, i)).collect();
    let batches: Vec<Pair> = (0..8).map(|mb| (matrix(2, 3, 10 + mb), matrix(2, 3, 20 + mb))).collect();
    let chain = maps(&params, &batches[0].0, &batches[0].1);
    let costs = chain.costs().unwrap();
    for s in all() {
        let mut feed = |stage: usize, mb: usize| {
            let (x, y) = batches[mb].clone();
            Ok(if stage == 0 {
                vec![x]
            } else if stage == 3 {
                vec![y]
            } else {
                vec![]
            })
        };
        let done = run(&chain, &s, |i| vec![params[i].clone()], Accumulate::Arrival, &mut feed).unwrap();
        let said = fulgurite::schedule::simulate(&s, &costs).unwrap();
        let (said, seen): (Vec<u64>, Vec<u64>) =
            said.ranks.iter().zip(&done).map(|(r, d)| (r.bytes, d.peak as u64)).unzip();
        assert_eq!(said, seen, "{s}");
    }
    let (w, x) = (matrix(64, 64, 1), matrix(64, 64, 2));
    let map = || Stage::of("map", |w: Tensor, x: Tensor| x.matmul(&w), &w, &x).unwrap();
    let costs = Chain::new(vec![map(), map(), map()]).unwrap().costs().unwrap();
    assert_eq!(costs.input[0], 0, "nothing before the first stage waits for a gradient");
    for cost in [costs.input[1], costs.weight[1]] {
        assert!(cost.abs_diff(costs.forward[1]) * 20 < costs.forward[1], "{costs:?}");
    }
}

/// Parameters that stages share: the parts are added once, in the order of stages.
#[test]
fn s3_24_tied_parameters() {
    let table = whole(5, 3, 1);
    let w = whole(3, 3, 2);
    let tokens = Tensor::from([0i64, 1, 1, 4]);
    let target = Tensor::from([2i64, 0, 3, 1]);
    let x = whole(4, 3, 3);
    let map = |w: Tensor, x: Tensor| x.matmul(&w);
    let head = |table: Tensor, (x, y): Pair| x.linear(&table, None).cross_entropy(&y, None);
    let stages = vec![
        Stage::of("embedding", |t: Tensor, at: Tensor| ops::embedding(&t, &at), &table, &tokens)
            .unwrap()
            .tied(&[("w", 0)])
            .unwrap(),
        Stage::of("one", map, &w, &x).unwrap(),
        Stage::of("two", map, &w, &x).unwrap(),
        Stage::of("head", head, &table, &(x, target.clone())).unwrap().tied(&[("w", 0)]).unwrap(),
    ];
    let chain = Chain::new(stages.into_iter().map(|s| s.on(interp())).collect()).unwrap();
    assert_eq!(chain.ties(), [[0, 3]]);
    let want = grad(&(table.clone(), w.clone()), |(t, w)| {
        ops::embedding(t, &tokens).matmul(w).matmul(w).linear(t, None).cross_entropy(&target, None)
    });
    let mut feed = |stage: usize, _: usize| {
        Ok(match stage {
            0 => vec![tokens.clone()],
            3 => vec![target.clone()],
            _ => vec![],
        })
    };
    let params = |s: usize| vec![if matches!(s, 0 | 3) { table.clone() } else { w.clone() }];
    for reduces in [false, true] {
        let mut s = Generator { kind: "1f1b", ranks: 4, micro_batches: 2, chunks: 1 }.make().unwrap();
        if reduces {
            s.ties = chain.ties();
            s.lists.iter_mut().enumerate().for_each(|(rank, list)| list.push(Action::Reduce(rank)));
        }
        let done = run(&chain, &s, params, Accumulate::Arrival, &mut feed).unwrap();
        let of = |stage: usize| data(done[stage].grads[&stage][0].as_ref().unwrap());
        assert_eq!(of(0), of(3), "both stages have the whole gradient");
        let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
        assert!(near(&of(0), &data(&want.0)), "{:?} {:?}", of(0), want.0);
        let sum: Vec<f64> = of(1).iter().zip(of(2)).map(|(a, b)| a + b).collect();
        assert!(near(&sum, &data(&want.1)));
    }
    // without the reduction of one the checker names the tie
    let mut s = Generator { kind: "1f1b", ranks: 4, micro_batches: 2, chunks: 1 }.make().unwrap();
    s.ties = chain.ties();
    s.lists[0].push(Action::Reduce(0));
    let error = run(&chain, &s, params, Accumulate::Arrival, &mut feed).unwrap_err();
    assert!(error.code() == "E751" && error.to_string().contains("stage 3 shares weights (tie 0 3)"), "{error}");
}

/// A GPT block: attention with a mask that is shared, dropout, norms.
#[derive(Tree, Clone)]
struct Block {
    ln1: LayerNorm,
    qkv: Linear,
    proj: Linear,
    ln2: LayerNorm,
    up: Linear,
    down: Linear,
}

impl Block {
    fn new(width: usize) -> Block {
        let linear = |seed: u64, i: usize, o: usize| Linear {
            w: matrix(o, i, seed),
            b: Some(matrix(1, o, seed + 50).reshape(-1)),
        };
        Block {
            ln1: LayerNorm::new(width),
            qkv: linear(1, width, 3 * width),
            proj: linear(2, width, width),
            ln2: LayerNorm::new(width),
            up: linear(3, width, 2 * width),
            down: linear(4, 2 * width, width),
        }
    }

    fn at(&self, h: &Tensor, mask: &Tensor, key: &Key, heads: usize) -> Tensor {
        let [b, t, _] = h.dims();
        let qkv = self.qkv.at(&self.ln1.at(h)).reshape((b, t, 3 * heads, -1));
        let [q, k, v] = qkv.transpose(1, 2).chunk_with(ops::Chunk { dim: 1.into() });
        let a = q.sdpa(&k, &v, Some(mask)).transpose(1, 2).reshape((b, t, -1));
        let drop = |x: &Tensor| x.dropout_with(key, ops::Dropout { p: 0.1 });
        let h = h + drop(&self.proj.at(&a));
        let m = self.up.at(&self.ln2.at(&h)).gelu();
        &h + drop(&self.down.at(&m))
    }
}

/// Each position sees itself and those before it.
fn seen() -> Tensor {
    let at = ops::arange(4);
    at.reshape((1, -1)).le(at.reshape((-1, 1)))
}

#[test]
fn s3_19_a_block_of_a_gpt() {
    let block = Block::new(8);
    let x = (matrix(8, 8, 5).reshape((2, 4, 8)), seen(), Key::new(7));
    let f = |block: Block, (h, mask, key): (Tensor, Tensor, Key)| block.at(&h, &mask, &key, 2);
    let ct = matrix(8, 8, 6).reshape((2, 4, 8));
    let stage = Stage::of("block", f, &block, &x).unwrap().on(interp());
    let (dx, dw) = grads(&stage, &block, &x, &ct);
    assert!(dx[0].is_some() && dx[1..].iter().all(Option::is_none), "mask and key have no gradient");
    assert!(dw.iter().all(Option::is_some));
    disjoint(&stage.backward_split(&stage.whole_mask()).unwrap());
    // run again in the backward, the dropout drops the same: the same gradients
    let again = |block: Block, (h, mask, key): (Tensor, Tensor, Key)| checkpoint(|| block.at(&h, &mask, &key, 2));
    let again = Stage::of("block", again, &block, &x).unwrap().on(interp());
    let (dx2, dw2) = grads(&again, &block, &x, &ct);
    assert_eq!((bits(&dx), bits(&dw)), (bits(&dx2), bits(&dw2)));
    // another key drops others
    let other = (x.0.clone(), x.1.clone(), Key::new(8));
    assert_ne!(bits(&grads(&stage, &block, &other, &ct).1), bits(&dw));
    // the executor that fuses: I and W have fewer lines each to fuse than B, and still round alike here
    let fused = Stage::of("block", f, &block, &x).unwrap();
    let (dx3, dw3) = grads(&fused, &block, &x, &ct);
    let near = |a: &[Option<Tensor>], b: &[Option<Tensor>]| {
        let pairs = values(a).into_iter().flatten().flatten().zip(values(b).into_iter().flatten().flatten());
        pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-4 * (1.0 + a.abs()))
    };
    assert!(near(&dx, &dx3) && near(&dw, &dw3));
}

#[derive(Tree, Clone)]
struct Gpt {
    table: Tensor,
    blocks: Vec<Block>,
    unused: Tensor,
}

fn gpt(depth: usize) -> Gpt {
    Gpt { table: matrix(6, 8, 30), blocks: (0..depth).map(|_| Block::new(8)).collect(), unused: number(1.0) }
}

fn loss(model: &Gpt, (x, y, key): &(Tensor, Tensor, Key)) -> Tensor {
    let mask = seen();
    let mut h = named("embedding", || ops::embedding(&model.table, x));
    for (i, block) in model.blocks.iter().enumerate() {
        h = named(&format!("block[{i}]"), || block.at(&h, &mask, key, 2));
    }
    h.linear(&model.table, None).reshape((-1, 6)).cross_entropy(&y.reshape(-1), None)
}

fn batch(mb: usize) -> (Tensor, Tensor, Key) {
    let of = |k: usize| Tensor::from_vec((0..8).map(|i| ((i * k + mb) % 6) as i64).collect(), [2, 4]);
    (of(5), of(7), Key::new(3 + mb as u64))
}

/// The gradients of a cut model under a schedule, and the losses.
fn model_run(model: &StagedModel, s: &Schedule, params: &Gpt) -> (Vec<Option<Tensor>>, Vec<f64>) {
    let mut feed = |stage: usize, mb: usize| Ok(model.feed(stage, &batch(mb)));
    let done = run(model.chain(), s, |stage| model.params(stage, params), Accumulate::ByMicroBatch, &mut feed);
    let done = done.unwrap_or_else(|e| panic!("{e}"));
    let losses = done.iter().flat_map(|d| d.outputs.values().map(|o| data(&o[0])[0])).collect();
    (model.grads(&done), losses)
}

/// A model cut at marks, and balanced: any schedule gives what the whole model gives; the table is shared.
#[test]
fn a_model_cut_into_stages() {
    let params = gpt(4);
    let f = |p: Gpt, b: (Tensor, Tensor, Key)| loss(&p, &b);
    let on = |s: Stage| Ok(s.on(interp()));
    let (mut sum, mut losses): (Option<Gpt>, Vec<f64>) = (None, Vec::new());
    let whole = jit(|p: Gpt, b: (Tensor, Tensor, Key)| value_and_grad(&p, |p| loss(p, &b))).on(interp());
    for mb in 0..4 {
        let (value, g) = whole.call((params.clone(), batch(mb))).unwrap();
        losses.push(data(&value)[0]);
        sum = Some(match sum {
            None => g,
            Some(sum) => fulgurite::tree::zip(&sum, &g, |a, b| a + b),
        });
    }
    let want: Vec<Vec<f64>> =
        fulgurite::tree::describe(&sum.unwrap()).0.iter().map(|g| data(g).iter().map(|g| g / 4.0).collect()).collect();
    let marks = Cut::At(&["block[1]", "block[2]", "block[3]"]);
    for cut in [marks, Cut::Balanced(4)] {
        let model = StagedModel::cut_with("gpt", f, &params, &batch(0), cut, on).unwrap();
        assert_eq!(model.chain().stages().len(), 4);
        let costs = model.costs();
        let most = costs.iter().copied().fold(0.0, f64::max);
        assert!(most < 0.4 * costs.iter().sum::<f64>(), "{costs:?}");
        assert_eq!(model.chain().ties(), [[0, 3]]);
        let mut first = None;
        for kind in ["gpipe", "1f1b", "zb1p"] {
            let s = Generator { kind, ranks: 4, micro_batches: 4, chunks: 1 }.make().unwrap();
            let (grads, seen) = model_run(&model, &s, &params);
            assert_eq!(seen, losses, "losses have the same bits as those of the whole model");
            for (have, want) in grads.iter().zip(&want) {
                let have = have.as_ref().map_or_else(|| vec![0.0; want.len()], data);
                assert!(
                    have.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-5 * (1.0 + b.abs())),
                    "{have:?} {want:?}"
                );
            }
            assert!(grads.last().unwrap().is_none(), "what no stage reads has no gradient");
            let exact = bits(&grads);
            assert_eq!(*first.get_or_insert(exact.clone()), exact, "{kind}");
        }
        // one process that runs the stages one after the other: the same bits
        let s: Schedule = one_rank(4, 4);
        assert_eq!(Some(bits(&model_run(&model, &s, &params).0)), first);
    }
}

/// One rank that has all stages.
fn one_rank(stages: usize, m: usize) -> Schedule {
    let place = vec!["0"; stages].join(" ");
    let forward = |mb: usize| (0..stages).map(move |s| format!("{s}F{mb}"));
    let back = |mb: usize| (0..stages).rev().map(move |s| format!("{s}B{mb}"));
    let list: Vec<String> = (0..m).flat_map(|mb| forward(mb).chain(back(mb))).collect();
    format!("stages {stages}, micro-batches {m}, place {place}\nr0: {}", list.join(" ")).parse().unwrap()
}

#[test]
fn a_model_that_can_not_be_cut_so() {
    let params = gpt(2);
    let f = |p: Gpt, b: (Tensor, Tensor, Key)| loss(&p, &b);
    let refused = |cut| StagedModel::cut("gpt", f, &params, &batch(0), cut).unwrap_err();
    let e = refused(Cut::At(&["block[9]"]));
    assert!(e.code() == "E756" && e.to_string().contains("block[0], block[1]"), "{e}");
    let e = refused(Cut::At(&["block[1]", "block[0]"]));
    assert!(e.code() == "E756" && e.to_string().contains("`block[0]` begins where, or before"), "{e}");
    let e = refused(Cut::Balanced(100_000));
    assert!(e.code() == "E756" && e.to_string().contains("100000 stages"), "{e}");
    // stages that do not fit
    let (w, x) = (matrix(3, 2, 1), matrix(5, 3, 2));
    let make = || Stage::of("map", |w: Tensor, x: Tensor| x.matmul(&w), &w, &x).unwrap();
    let e = Chain::new(vec![make(), make()]).unwrap_err();
    assert!(e.code() == "E756" && e.to_string().contains("output 0 of stage 0 is f32[5, 2]"), "{e}");
    assert_eq!(Chain::new(vec![]).unwrap_err().code(), "E756");
}

/// A transport that loses what a stage sends.
struct Deaf;
impl Transport for Deaf {
    fn send(&mut self, _: Edge, _: Vec<Tensor>) -> fulgurite::Result<()> {
        Ok(())
    }
    fn receive(&mut self, edge: Edge, _: &[ProxyTy]) -> fulgurite::Result<Vec<Tensor>> {
        Err(Error::new("E773", format!("nothing came from stage {}", edge.from)))
    }
}

/// An error says at which action of which rank it came.
#[test]
fn errors_name_the_action() {
    let params: Vec<Tensor> = (0..4).map(|i| matrix(3, 3, i)).collect();
    let (x, y) = (matrix(2, 3, 8), matrix(2, 3, 9));
    let chain = maps(&params, &x, &y);
    let s = Generator { kind: "1f1b", ranks: 4, micro_batches: 4, chunks: 1 }.make().unwrap();
    let mut feed = |stage: usize, _: usize| Ok(if stage == 0 { vec![x.clone()] } else { vec![] });
    let params = |i: usize| vec![params[i].clone()];
    let mut go = |rank| -> fulgurite::Result<Done> {
        run_rank(&chain, &s, rank, params, Accumulate::Arrival, &mut feed, &mut Deaf)
    };
    let e = go(0).unwrap_err();
    assert!(
        e.to_string().contains("nothing came from stage 1") && e.to_string().contains("rank 0, at `0B0`, action 4"),
        "{e}"
    );
    let e = go(2).unwrap_err();
    assert!(e.to_string().contains("rank 2, at `2F0`, action 0"), "{e}");
}

/// An action for a stage that the pipeline does not have, from a schedule that nobody checked.
#[test]
fn an_action_of_no_stage_is_refused() {
    use fulgurite::pipeline::Rank;
    use fulgurite::schedule::{Kind, Work};
    struct Nobody;
    impl Transport for Nobody {
        fn send(&mut self, _: Edge, _: Vec<Tensor>) -> Result<(), Error> {
            Ok(())
        }
        fn receive(&mut self, edge: Edge, _: &[ProxyTy]) -> Result<Vec<Tensor>, Error> {
            panic!("nothing is asked of a stage that is not here: {edge:?}")
        }
    }
    let w = matrix(2, 2, 1);
    let f = |w: Tensor, x: Tensor| x.matmul(&w).sum();
    let chain = Chain::new(vec![Stage::of("one", f, &w, &w).unwrap().on(interp())]).unwrap();
    let schedule: Schedule = "r0: 0F0 0B0".parse().unwrap();
    let mut rank = Rank::new(&chain, &schedule, 0, |_| vec![w.clone()], Accumulate::default()).unwrap();
    let mut feed = |_: usize, _: usize| Ok(vec![w.clone()]);
    for stage in [1, usize::MAX] {
        for kind in [Kind::F, Kind::B, Kind::I, Kind::W] {
            let action = Action::Do(Work { stage, kind, micro_batch: 0 });
            let refused = rank.act(action, &mut feed, &mut Nobody).expect_err("there is no such stage");
            assert_eq!(refused.code(), "E756", "{refused}");
        }
    }
}

/// Ranks are numbers of a program's own making, and come in messages too.
#[test]
fn a_rank_that_there_is_not_is_named() {
    use fulgurite::comm::{Communicator, FIRST_TAG, Local, Ranks, Reduction};
    use std::time::Duration;
    let alone = || Ranks::new(Box::new(Local::ranks(1).remove(0)), Duration::from_millis(50));
    for rank in [1, 7, usize::MAX] {
        let refused = [
            alone().send(rank, FIRST_TAG, Vec::new()).err(),
            alone().poll(rank, FIRST_TAG).err(),
            alone().receive(rank, FIRST_TAG, &"it").err(),
            alone().broadcast(rank, FIRST_TAG, Vec::new(), &"it").err(),
            alone().gather(rank, FIRST_TAG, Vec::new(), &"it").err(),
            Reduction::start(&mut alone(), &[0, rank], FIRST_TAG, vec![1.0]).err(),
        ];
        for refused in refused {
            let refused = refused.expect("there is no such rank");
            assert!(refused.code() == "E773" && refused.claim().contains(&rank.to_string()), "{refused}");
        }
    }
    // who waits too long asks for whom the other waits (tag 1), and is told a rank that there is not (tag 2)
    let mut both = Local::ranks(2);
    let (mut liar, honest) = (both.remove(1), both.remove(0));
    liar.send(0, 2, u64::MAX.to_ne_bytes().to_vec()).unwrap();
    let late = Ranks::new(Box::new(honest), Duration::from_millis(50)).receive(1, FIRST_TAG, &"it");
    assert_eq!(late.expect_err("nothing comes").code(), "E770");
}
