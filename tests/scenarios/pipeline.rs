//! The cut of a backward in two, for the stages of pipelines.
//!
//! Each test runs the whole backward (B) and the two parts (I, W) of the same stage, on the interpreter: the bits are the
//! same, because the lines are the same.

use fulgurite::bind::Rewriter;
use fulgurite::executors::Executor;
use fulgurite::executors::interp::Interp;
use fulgurite::ops::Chunk;
use fulgurite::pipeline::{BackwardSplit, Cotangents, HandedValue, Handover, Origin, Stage, StageRun};
use fulgurite::prelude::*;
use fulgurite::trace::{BoundSymbol, Trace};
use std::rc::Rc;
use std::sync::Arc;

fulgurite::op! {
    /// A product and a sum: one line with two results.
    both(x: T, y: T) -> (product: T, sum: T),
    promote: default,
    dtypes: float,
    expr: (x * y, x + y),
}

pub fn interp() -> Vec<Arc<dyn Executor>> {
    vec![Arc::new(Interp)]
}

pub fn of(data: &[f32]) -> Tensor {
    Tensor::from_vec(data.to_vec(), data.len())
}

pub fn number(x: f32) -> Tensor {
    Tensor::scalar(x)
}

/// Numbers between -1 and 1 without pattern, the same on every machine.
pub fn matrix(rows: usize, columns: usize, seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / 8_388_608.0 - 1.0
    };
    Tensor::from_vec((0..rows * columns).map(|_| next()).collect(), [rows, columns])
}

pub fn data(x: &Tensor) -> Vec<f64> {
    x.to_f64().unwrap_or_else(|e| panic!("{e}"))
}

/// The elements of each, as bits.
pub fn bits(list: &[Option<Tensor>]) -> Vec<Option<Vec<u32>>> {
    let one = |t: &Tensor| t.to_vec::<f32>().unwrap().iter().map(|x| x.to_bits()).collect();
    list.iter().map(|t| t.as_ref().map(one)).collect()
}

pub fn values(list: &[Option<Tensor>]) -> Vec<Option<Vec<f64>>> {
    list.iter().map(|t| t.as_ref().map(data)).collect()
}

/// Gradients of inputs and of parameters.
pub type Grads = (Vec<Option<Tensor>>, Vec<Option<Tensor>>);

/// B, then I and W, of one micro-batch: the same bits. Gives the gradients.
pub fn grads<P: Tree, X: Tree>(stage: &Stage, params: &P, x: &X, ct: impl Into<Cotangents>) -> Grads {
    let ct = ct.into();
    let mut run = StageRun::new(stage, 0, params, 1).unwrap();
    run.forward(0, x).unwrap();
    let whole = run.backward(0, ct.clone()).unwrap();
    let whole_params = run.reduce().unwrap();
    let mut run = StageRun::new(stage, 0, params, 1).unwrap();
    run.forward(0, x).unwrap();
    let inputs = run.input_backward(0, ct).unwrap();
    let params = run.weight_backward(0).unwrap();
    assert_eq!(run.bytes(), 0, "all that was kept is freed");
    assert_eq!(bits(&whole), bits(&inputs));
    assert_eq!(bits(&whole_params), bits(&params));
    (inputs, params)
}

/// What a line applies.
pub fn ops(trace: &Trace) -> Vec<&'static str> {
    trace.lines().iter().map(|l| l.symbol.name()).collect()
}

/// The names of the values of a hand-over that come from one place.
fn names(backward_split: &BackwardSplit, from: impl Fn(&HandedValue) -> bool) -> Vec<String> {
    let name = |e: &HandedValue| backward_split.input.arena.name(e.value).to_string();
    backward_split.handover.iter().filter(|e| from(e)).map(name).collect()
}
fn fresh(backward_split: &BackwardSplit) -> Vec<String> {
    names(backward_split, |e| matches!(e.origin, Origin::Fresh(_)))
}
fn saved(backward_split: &BackwardSplit) -> Vec<String> {
    names(backward_split, |e| matches!(e.origin, Origin::Saved(_)))
}

/// The parameters of each unit.
fn units(backward_split: &BackwardSplit) -> Vec<Vec<usize>> {
    backward_split.weight.iter().map(|u| u.params.clone()).collect()
}

/// No line of I stands in W, and none twice.
pub fn disjoint(backward_split: &BackwardSplit) {
    let lines = |t: &Trace| t.lines().iter().map(|l| l.id).collect::<Vec<_>>();
    let mut all = lines(&backward_split.input);
    backward_split.weight.iter().for_each(|u| all.extend(lines(&u.trace)));
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(count, all.len(), "a line runs twice");
    assert_eq!(backward_split.report.input_lines + backward_split.report.weight_lines, count);
    let ids = backward_split.handover.iter().map(|e| e.value).collect::<std::collections::HashSet<_>>();
    assert_eq!(ids.len(), backward_split.handover.len(), "no value twice");
    assert!(backward_split.handover.iter().all(|e| !e.readers.is_empty()), "each has a reader");
}

type Pair = (Tensor, Tensor);

#[test]
fn s3_1_a_plain_stage() {
    let params = (matrix(3, 4, 1), matrix(4, 2, 2));
    let x = matrix(5, 3, 3);
    let stage = Stage::of("mlp", |(a, b): Pair, x: Tensor| x.matmul(&a).tanh().matmul(&b), &params, &x).unwrap();
    let backward_split = stage.backward_split(&[true]).unwrap();
    disjoint(&backward_split);
    assert_eq!(ops(&backward_split.input), ["matmul.vjp.a", "tanh.vjp.x", "matmul.vjp.a"]);
    assert_eq!(backward_split.inputs, [Some(0)]);
    assert_eq!(units(&backward_split), [[0], [1]]);
    let [w1, w2] = &backward_split.weight[..] else { panic!("two units") };
    let reads = |at: &[usize]| {
        at.iter()
            .map(|i| backward_split.input.arena.name(backward_split.handover[*i].value).to_string())
            .collect::<Vec<_>>()
    };
    // the gradient behind tanh is called after the product that made its argument
    assert_eq!((ops(&w1.trace), reads(&w1.reads)), (vec!["matmul.vjp.w"], vec!["ct.matmul".into(), "x".to_owned()]));
    assert_eq!(
        (ops(&w2.trace), reads(&w2.reads)),
        (vec!["matmul.vjp.w"], vec!["tanh".into(), "ct.matmul.1".to_owned()])
    );
    assert_eq!(fresh(&backward_split), ["ct.matmul"]);
    assert_eq!(saved(&backward_split), ["tanh", "x"]);
    assert_eq!(names(&backward_split, |e| matches!(e.origin, Origin::Cotangent(_))), ["ct.matmul.1"]);
    assert_eq!(backward_split.report.shared_in_input, [""; 0]);
    // as text
    let text = backward_split.to_string();
    let tail = "# kept behind F: 140 bytes, behind I: 260
# ct.matmul: f32[5, 4], 80 bytes, made in I, read by W[0]
# tanh: f32[5, 4], 80 bytes, kept by F, read by W[1]
# x: f32[5, 3], 60 bytes, kept by F, read by W[0]
# ct.matmul.1: f32[5, 2], 40 bytes, cotangent, read by W[1]
";
    assert!(text.starts_with("# I: 3 lines, W: 2 lines\n# trace mlp.backward.input") && text.ends_with(tail), "{text}");
    grads(&stage.on(interp()), &params, &x, &matrix(5, 2, 4));
}

/// A parameter whose gradients come from above and from below another one; PyTorch's W frees what it still needs.
#[test]
fn s3_2_a_parameter_above_and_below_another() {
    let params = (number(3.0), number(5.0));
    let x = number(2.0);
    let stage = Stage::of("d53", |(w, v): Pair, x: Tensor| ((x * &w) * v) * w, &params, &x).unwrap().on(interp());
    let backward_split = stage.backward_split(&[true]).unwrap();
    disjoint(&backward_split);
    assert_eq!(units(&backward_split), [[0], [1]]);
    let (dx, dw) = grads(&stage, &params, &x, Cotangents::Loss);
    assert_eq!((values(&dx), values(&dw)), (vec![Some(vec![45.0])], vec![Some(vec![60.0]), Some(vec![18.0])]));
    // either unit first
    for order in [[0, 1], [1, 0]] {
        let mut run = StageRun::new(&stage, 0, &params, 1).unwrap();
        run.forward(0, &x).unwrap();
        run.input_backward(0, Cotangents::Loss).unwrap();
        let first = run.weight_unit(0, order[0]).unwrap();
        assert_eq!(first[order[1]].as_ref().map(data), None, "a unit gives its own gradients alone");
        let all = run.weight_unit(0, order[1]).unwrap();
        assert_eq!(values(&all), [Some(vec![60.0]), Some(vec![18.0])]);
    }
    let stage = Stage::of("l2", |(w, v): Pair, x: Tensor| (x * &v) * w + &v * &v / 2.0, &params, &x).unwrap();
    let (dx, dw) = grads(&stage.on(interp()), &params, &x, Cotangents::Loss);
    assert_eq!((values(&dx), values(&dw)), (vec![Some(vec![15.0])], vec![Some(vec![10.0]), Some(vec![11.0])]));
}

/// A residual block that is applied twice.
#[test]
fn s3_2_a_block_applied_twice() {
    type Block = (Pair, Pair);
    let params: Block = ((matrix(3, 4, 1), matrix(1, 4, 2)), (matrix(4, 3, 3), matrix(1, 3, 4)));
    let x = matrix(2, 3, 5);
    let block = |((a, c), (b, d)): &Block, h: Tensor| &h + (h.matmul(a) + c).relu().matmul(b) + d;
    let twice = move |p: Block, x: Tensor| block(&p, block(&p, x));
    let stage = Stage::of("twice", twice, &params, &x).unwrap();
    disjoint(&stage.backward_split(&[true]).unwrap());
    let ct = matrix(2, 3, 6);
    let (dx, dw) = grads(&stage.on(interp()), &params, &x, &ct);
    let whole = jit(move |p: Block, x: Tensor, ct: Tensor| vjp(&(p, x), &ct, |(p, x)| twice(p.clone(), x.clone())));
    let (_, (((a, c), (b, d)), x)) = whole.on(interp()).call((params, x, ct)).unwrap();
    let (want, wanted) = (vec![Some(x)], [a, c, b, d].map(Some));
    assert_eq!((bits(&dx), bits(&dw)), (bits(&want), bits(&wanted)));
}

/// A parameter used twice or more; the sum of its contributions is a line of W.
#[test]
fn s3_3_shared_weights() {
    let (x, w) = (number(2.0), number(3.0));
    let twice = Stage::of("two", |w: Tensor, x: Tensor| (x * &w) * w, &w, &x).unwrap().on(interp());
    let (dx, dw) = grads(&twice, &w, &x, Cotangents::Loss);
    assert_eq!((values(&dx), values(&dw)), (vec![Some(vec![9.0])], vec![Some(vec![12.0])]));
    let thrice = Stage::of("three", |w: Tensor, x: Tensor| ((x * &w) * &w) * w, &w, &x).unwrap().on(interp());
    let (dx, dw) = grads(&thrice, &w, &x, Cotangents::Loss);
    assert_eq!((values(&dx), values(&dw)), (vec![Some(vec![27.0])], vec![Some(vec![54.0])]));
    for (stage, adds) in [(&twice, 1), (&thrice, 2)] {
        let backward_split = stage.backward_split(&[true]).unwrap();
        disjoint(&backward_split);
        let joins = |t: &Trace| ops(t).iter().filter(|op| **op == "add").count();
        assert_eq!((joins(&backward_split.input), joins(&backward_split.weight[0].trace)), (0, adds));
    }
}

/// Parameters that an output needs beside the inputs' paths.
#[test]
fn s3_4_side_branches() {
    let params = (number(3.0), number(5.0));
    let x = number(2.0);
    let one = Some(number(1.0));
    let ct = vec![one.clone(), one];
    let own = Stage::of("d54", |w: Tensor, x: Tensor| (x * &w, &w * &w), &params.0, &x).unwrap().on(interp());
    let backward_split = own.backward_split(&[true, true]).unwrap();
    let keys = backward_split.weight[0].keys.iter().map(|i| backward_split.handover[*i].origin).collect::<Vec<_>>();
    assert!(keys.len() == 2 && keys.iter().all(|k| matches!(k, Origin::Cotangent(_))), "{keys:?}");
    let (dx, dw) = grads(&own, &params.0, &x, ct.clone());
    assert_eq!((values(&dx), values(&dw)), (vec![Some(vec![3.0])], vec![Some(vec![8.0])]));
    let other = Stage::of("d55", |(w, v): Pair, x: Tensor| (x * w, &v * &v), &params, &x).unwrap().on(interp());
    assert_eq!(units(&other.backward_split(&[true, true]).unwrap()), [[0], [1]]);
    let (_, dw) = grads(&other, &params, &x, ct);
    assert_eq!(values(&dw), [Some(vec![2.0]), Some(vec![10.0])]);
}

/// A stage whose inputs have no gradient; PyTorch hides it by special code in its first stage.
#[test]
fn s3_5_inputs_without_gradient() {
    let params = (matrix(5, 3, 1), matrix(3, 2, 2));
    let tokens = Tensor::from([0i64, 1, 1]);
    let f = |(table, w): Pair, at: Tensor| fulgurite::ops::embedding(&table, &at).matmul(&w);
    let stage = Stage::of("embedding", f, &params, &tokens).unwrap().on(interp());
    let backward_split = stage.backward_split(&[true]).unwrap();
    assert_eq!((backward_split.input.lines().len(), &backward_split.inputs[..]), (0, &[None][..]));
    disjoint(&backward_split);
    let (dx, dw) = grads(&stage, &params, &tokens, &matrix(3, 2, 3));
    assert!(dx[0].is_none());
    let (table, ct) = (data(dw[0].as_ref().unwrap()), data(&matrix(3, 2, 3)));
    let w = data(&params.1);
    let row = |i: usize| (0..3).map(move |j| (i, j));
    let back = |(i, j): (usize, usize)| ct[2 * i] * w[2 * j] + ct[2 * i + 1] * w[2 * j + 1];
    let sum: Vec<f64> = row(1).zip(row(2)).map(|(a, b)| back(a) + back(b)).collect();
    assert!(table[3..6].iter().zip(&sum).all(|(a, b)| (a - b).abs() < 1e-6), "{table:?} {sum:?}");
    assert!(table[6..].iter().all(|x| *x == 0.0));
}

/// Parts that are frozen or unused, integers among the inputs. Known when the stage is compiled.
#[test]
fn s3_6_frozen_and_unused() {
    type Three = (Tensor, Tensor, Tensor);
    let params: Three = (matrix(3, 4, 1), matrix(4, 2, 2), of(&[1.0, 2.0]));
    let x: Three = (matrix(5, 3, 3), of(&[7.0]), Tensor::from([1i64]));
    let f = |(a, b, _): Three, (x, _, q): Three| (x.matmul(&a).tanh().matmul(&b), q);
    let stage = Stage::of("frozen", f, &params, &x).unwrap().frozen(&["0"]).unwrap().on(interp());
    let backward_split = stage.backward_split(&stage.whole_mask()).unwrap();
    assert_eq!(backward_split.report.unused, [2], "u");
    assert_eq!(backward_split.params, [None, Some((0, 0)), None]);
    assert_eq!(stage.sends().unwrap(), [true, false, false]);
    let (dx, dw) = grads(&stage, &params, &x, vec![Some(matrix(5, 2, 4)), None]);
    assert_eq!(dx.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(dw.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false]);
    let error = Stage::of("frozen", f, &params, &x).unwrap().frozen(&["9"]).unwrap_err();
    assert_eq!(error.code(), "E756", "{error}");
}

/// Outputs that are views, or inputs.
#[test]
fn s3_7_views_and_inputs_as_outputs() {
    let (w, x) = (matrix(3, 4, 1), matrix(5, 3, 2));
    let f = |w: Tensor, x: Tensor| {
        let h = x.matmul(&w);
        let backward_split = h.chunk_with::<2>(Chunk { dim: 1.into() });
        (backward_split, h.transpose(0, 1), x)
    };
    let stage = Stage::of("views", f, &w, &x).unwrap().on(interp());
    let ct = vec![Some(matrix(5, 2, 3)), Some(matrix(5, 2, 4)), Some(matrix(4, 5, 5)), Some(matrix(5, 3, 6))];
    let mut run = StageRun::new(&stage, 0, &w, 1).unwrap();
    let out = run.forward(0, &x).unwrap();
    let before: Vec<Vec<f64>> = out.iter().map(data).collect();
    run.input_backward(0, ct.clone()).unwrap();
    run.weight_backward(0).unwrap();
    assert_eq!(out.iter().map(data).collect::<Vec<_>>(), before, "outputs are untouched");
    disjoint(&stage.backward_split(&[true; 4]).unwrap());
    // an output that is an input: its cotangent is a part of the input's gradient
    let (dx, _) = grads(&stage, &w, &x, ct.clone());
    let mut without = ct;
    without[3] = None;
    let (less, _) = grads(&stage, &w, &x, without);
    let (dx, less) = (data(dx[0].as_ref().unwrap()), data(less[0].as_ref().unwrap()));
    let direct = data(&matrix(5, 3, 6));
    assert!((0..15).all(|i| (dx[i] - less[i] - direct[i]).abs() < 1e-6));
}

/// An output that another output needs.
#[test]
fn s3_8_an_output_of_an_output() {
    let (params, x) = ((number(3.0), number(5.0)), number(2.0));
    let f = |(w, v): Pair, x: Tensor| {
        let h = x * w;
        (h.clone(), h * v)
    };
    let stage = Stage::of("d58", f, &params, &x).unwrap().on(interp());
    let (dx, dw) = grads(&stage, &params, &x, vec![Some(number(1.0)), Some(number(1.0))]);
    assert_eq!((values(&dx), values(&dw)), (vec![Some(vec![18.0])], vec![Some(vec![12.0]), Some(vec![6.0])]));
}

/// A line with two results, each with a gradient of its own.
#[test]
fn s3_9_two_results_of_one_line() {
    let (w, x) = (number(5.0), number(2.0));
    let f = |w: Tensor, x: Tensor| x.both(&w);
    let stage = Stage::of("d52", f, &w, &x).unwrap().on(interp());
    let (dx, dw) = grads(&stage, &w, &x, vec![Some(number(2.0)), Some(number(3.0))]);
    assert_eq!((values(&dx), values(&dw)), (vec![Some(vec![13.0])], vec![Some(vec![7.0])]));
    let (dx, dw) = grads(&stage, &w, &x, vec![None, Some(number(3.0))]);
    assert_eq!((values(&dx), values(&dw)), (vec![Some(vec![3.0])], vec![Some(vec![3.0])]));
}

/// A layer norm between two maps. Its gradients are lines apart; where its backward is one line with three results, that
/// line is opened, unless an executor has claimed it.
#[test]
fn s3_10_lines_with_several_results_are_opened() {
    type Norm = (Tensor, Tensor, Tensor, Tensor);
    let params: Norm = (matrix(3, 4, 1), of(&[1.0, 2.0, 3.0, 4.0]), of(&[0.5; 4]), matrix(4, 2, 2));
    let x = matrix(5, 3, 3);
    let plain = |(a, g, b, c): Norm, x: Tensor| x.matmul(&a).layer_norm(Some(&g), Some(&b), [4]).matmul(&c);
    let whole = |(a, g, b, c): Norm, x: Tensor| {
        let norm = custom_vjp(
            &(x.matmul(&a), g, b),
            |(h, g, b)| {
                let (y, mean, rstd) = h.native_layer_norm(Some(g), Some(b), [4]);
                (y, (h.clone(), mean, rstd, g.clone()))
            },
            |(h, mean, rstd, g), ct: &Tensor| ct.native_layer_norm_backward(&h, &mean, &rstd, Some(&g), [4]),
        );
        norm.matmul(&c)
    };
    let ct = matrix(5, 2, 4);
    let stage = Stage::of("norm", plain, &params, &x).unwrap().on(interp());
    let backward_split = stage.backward_split(&[true]).unwrap();
    disjoint(&backward_split);
    assert_eq!(
        (units(&backward_split), &backward_split.report.shared_in_input[..]),
        (vec![vec![0], vec![1, 2], vec![3]], &[][..])
    );
    let (_, want) = grads(&stage, &params, &x, &ct);

    let stage = Stage::of("norm", whole, &params, &x).unwrap().on(interp());
    let backward_split = stage.backward_split(&[true]).unwrap();
    disjoint(&backward_split);
    assert_eq!(
        (units(&backward_split), &backward_split.report.shared_in_input[..]),
        (vec![vec![0], vec![1, 2], vec![3]], &[][..])
    );
    assert!(!ops(&backward_split.input).contains(&"native_layer_norm_backward"), "opened");
    let mut run = StageRun::new(&stage, 0, &params, 1).unwrap();
    run.forward(0, &x).unwrap();
    run.input_backward(0, &ct).unwrap();
    let opened = run.weight_backward(0).unwrap();

    let claimed = Stage::of("norm", whole, &params, &x).unwrap().on(interp()).transform("claim", |trace| {
        Rewriter::each(trace, "claim", |r, line| {
            if line.symbol.name() != "native_layer_norm_backward" {
                return r.keep();
            }
            r.insert(&Rc::new(BoundSymbol { claimed_by: Some("mine"), ..(**line).clone() }));
            r.drop_line();
            Ok(())
        })
    });
    let backward_split = claimed.backward_split(&[true]).unwrap();
    disjoint(&backward_split);
    assert_eq!(backward_split.report.shared_in_input, ["native_layer_norm_backward"]);
    assert!(ops(&backward_split.input).contains(&"native_layer_norm_backward"));
    // both gradients are made in I, and W gives them
    let (unit, _) = backward_split.params[1].unwrap();
    assert!(backward_split.weight[unit].trace.lines().is_empty());
    let (_, kept) = grads(&claimed, &params, &x, &ct);
    for ((a, b), c) in want.iter().zip(&opened).zip(&kept) {
        let [a, b, c] = [a, b, c].map(|t| data(t.as_ref().unwrap()));
        assert!(
            a.iter().zip(&b).zip(&c).all(|((a, b), c)| (a - b).abs() < 1e-5 && (a - c).abs() < 1e-5),
            "{a:?} {b:?} {c:?}"
        );
    }
}

/// The hand-over with the fewest bytes: the gradient behind `exp` is made again in W of what W reads anyway, 64 numbers
/// less. No line that is not pointwise or a view runs twice.
#[test]
fn s3_1_with_the_fewest_bytes() {
    let params = (matrix(1, 8, 1), (matrix(1, 8, 2), matrix(1, 8, 3)));
    let x = matrix(8, 8, 4);
    let f = |(w, (b, c)): (Tensor, Pair), x: Tensor| (x * w + b).exp() * c;
    let make = |policy| Stage::of("scale", f, &params, &x).unwrap().on(interp()).handing(policy);
    let (all, fewest) = (make(Handover::Values), make(Handover::MinBytes));
    let report = |s: &Stage| s.backward_split(&[true]).unwrap().report;
    let (a, b) = (report(&all), report(&fewest));
    assert_eq!((a.bytes_handover, b.bytes_handover), (4 * 256, 3 * 256), "{a:?} {b:?}");
    assert!(a.recomputed.is_empty() && b.recomputed.iter().all(|op| op == "mul" || op.starts_with("exp")), "{b:?}");
    let ct = matrix(8, 8, 5);
    let (p, q) = (grads(&all, &params, &x, &ct), grads(&fewest, &params, &x, &ct));
    assert_eq!((bits(&p.0), bits(&p.1)), (bits(&q.0), bits(&q.1)));
    // where a product would have to run again, nothing changes
    let params = (matrix(3, 8, 1), matrix(8, 2, 2));
    let x = matrix(5, 3, 3);
    let f = |(a, b): Pair, x: Tensor| x.matmul(&a).exp().matmul(&b);
    let make = |policy| Stage::of("mlp", f, &params, &x).unwrap().handing(policy);
    assert_eq!(report(&make(Handover::Values)), report(&make(Handover::MinBytes)));
}
