//! A stage through a step: order, cotangents, accumulation, memory.

use super::pipeline::{Grads, bits, data, disjoint, grads, interp, matrix, number, of, values};
use fulgurite::ErrorKind;
use fulgurite::ops::{Slice, Sum};
use fulgurite::pipeline::{Accumulate, Cotangent, Cotangents, Stage, StageRun};
use fulgurite::prelude::*;
use std::collections::BTreeMap;

type Pair = (Tensor, Tensor);

fn some(list: &[bool]) -> Vec<Option<()>> {
    list.iter().map(|there| there.then_some(())).collect()
}

fn there(list: &[Option<Tensor>]) -> Vec<Option<()>> {
    list.iter().map(|t| t.as_ref().map(|_| ())).collect()
}

/// An absent cotangent is a zero that nothing is computed for; the backward is compiled for each set of cotangents.
#[test]
fn s3_11_absent_cotangents() {
    let params = (matrix(3, 2, 1), matrix(2, 2, 2));
    let x = matrix(4, 3, 3);
    let f = |(w, u): Pair, x: Tensor| {
        let h = x.matmul(&w);
        (h.tanh(), h.matmul(&u).exp())
    };
    let stage = Stage::of("two", f, &params, &x).unwrap().on(interp());
    let ct = vec![Some(matrix(4, 2, 4)), None];
    let (_, dw) = grads(&stage, &params, &x, ct.clone());
    assert_eq!(there(&dw), some(&[true, false]), "u serves the other output alone");
    let halves = stage.backward_split(&[true, false]).unwrap();
    let lines = |h: &fulgurite::pipeline::BackwardSplit| h.report.input_lines + h.report.weight_lines;
    assert_eq!(lines(&halves), 3, "{}", halves.input);
    disjoint(&halves);
    // both were compiled: that of the stage's own signature, and this one
    assert_eq!(stage.masks(), 2);
    let both = vec![Some(matrix(4, 2, 4)), Some(matrix(4, 2, 5))];
    grads(&stage, &params, &x, both);
    grads(&stage, &params, &x, ct);
    assert_eq!(stage.masks(), 2, "nothing is compiled again");
    let none: Grads = grads(&stage, &params, &x, vec![None, None]);
    assert_eq!((there(&none.0), there(&none.1)), (some(&[false]), some(&[false, false])));
    assert_eq!((lines(&stage.backward_split(&[false, false]).unwrap()), stage.masks()), (0, 3));
}

type Aux = BTreeMap<String, Vec<Tensor>>;

/// Cotangents are a tree of the form of the outputs.
#[test]
fn s3_12_nested_outputs() {
    let (w, x) = (matrix(3, 2, 1), matrix(5, 3, 2));
    // in Rust both entries of a map have one type: `h` is a list of one
    let f = |w: Tensor, x: Tensor| {
        let h = x.matmul(&w);
        let three = Tensor::from([3i64]);
        Aux::from([("h".to_owned(), vec![h.clone()]), ("aux".to_owned(), vec![h.sum(), three])])
    };
    let stage = Stage::of("nested", f, &w, &x).unwrap().on(interp());
    let tree = |h: Tensor, aux: Option<Cotangent>| {
        let mut parts = vec![("h".to_owned(), Cotangent::List(vec![Cotangent::Tensor(h)]))];
        parts.extend(aux.map(|aux| ("aux".to_owned(), aux)));
        Cotangent::Named(parts)
    };
    let (h, c) = (matrix(5, 2, 3), Cotangent::Tensor(number(2.0)));
    let a = grads(&stage, &w, &x, tree(h.clone(), Some(Cotangent::List(vec![c.clone(), Cotangent::Absent]))));
    let b = grads(&stage, &w, &x, tree(h.clone(), Some(Cotangent::Absent)));
    assert_ne!(bits(&a.1), bits(&b.1), "aux takes part in one of them");
    let mut run = StageRun::new(&stage, 7, &w, 1).unwrap();
    run.forward(0, &x).unwrap();
    let mut refused = |ct: Cotangent| {
        let error = run.input_backward(0, ct).unwrap_err();
        assert_eq!(error.code(), "E753", "{error}");
        let ErrorKind::Cotangent { stage: 7, path } = error.kind().clone() else { panic!("{error}") };
        (path, error.claim().to_owned())
    };
    let (path, claim) = refused(tree(h.clone(), None));
    assert!(path == "out" && claim.contains("has the parts {aux, h}, the cotangent has {h}"), "{claim}");
    let (path, claim) = refused(tree(h.clone(), Some(Cotangent::List(vec![c.clone()]))));
    assert!(path == "out.aux" && claim.contains("has 2 entries, the cotangent has 1"), "{claim}");
    let (path, claim) = refused(tree(matrix(5, 3, 1), Some(Cotangent::Absent)));
    assert!(path == "out.h[0]" && claim.contains("is f32[5, 2], the cotangent is f32[5, 3]"), "{claim}");
    // what is no float has no cotangent
    let integer = Cotangent::List(vec![c, Cotangent::Tensor(Tensor::from([1i64]))]);
    let (path, claim) = refused(tree(h.clone(), Some(integer)));
    assert!(path == "out.aux[1]" && claim.contains("which has none"), "{claim}");
    // nothing ran
    run.input_backward(0, tree(h, Some(Cotangent::Absent))).unwrap();
}

/// A loss is one float tensor of rank 0.
#[test]
fn s3_13_losses() {
    let (w, x) = (number(2.0), of(&[1.0, 2.0, 3.0, 4.0]));
    let stage = Stage::of("loss", |w: Tensor, x: Tensor| x * w, &w, &x).unwrap();
    let mut run = StageRun::new(&stage, 3, &w, 1).unwrap();
    run.forward(0, &x).unwrap();
    let error = run.backward(0, Cotangents::Loss).unwrap_err();
    assert_eq!((error.code(), error.kind()), ("E754", &ErrorKind::Loss { stage: 3, shape: "[4]".into() }));
    run.backward(0, &of(&[1.0; 4])).unwrap();
    assert_eq!(values(&run.reduce().unwrap()), [Some(vec![10.0])]);
}

fn quadratic() -> (Stage, Tensor, Tensor) {
    let (w, x) = (number(2.0), of(&[1.0, 2.0]));
    (Stage::of("quadratic", |w: Tensor, x: Tensor| (x * w).square().mean(), &w, &x).unwrap(), w, x)
}

fn order(error: &Error, action: &str, mb: usize, state: &str, expected: &str) {
    assert_eq!(error.code(), "E752", "{error}");
    let ErrorKind::PipelineOrder { stage: 1, micro_batch, action: a, state: s, expected: e, .. } = error.kind() else {
        panic!("{error}")
    };
    assert_eq!((a.as_str(), *micro_batch, s.as_str(), e.as_str()), (action, mb, state, expected), "{error}");
}

/// What is out of order is refused, and says what would be in order.
#[test]
fn s3_14_errors_of_order() {
    let (stage, w, x) = quadratic();
    let mut run = StageRun::new(&stage, 1, &w, 4).unwrap();
    run.forward(2, &x).unwrap();
    let error = run.weight_backward(2).unwrap_err();
    order(&error, "W", 2, "Forwarded", "I or B");
    assert!(error.claim().starts_with("W(stage 1, mb 2) before I: state is Forwarded"), "{error}");
    run.input_backward(2, Cotangents::Loss).unwrap();
    order(&run.backward(2, Cotangents::Loss).unwrap_err(), "B", 2, "InputDone", "W");
    order(&run.forward(2, &x).unwrap_err(), "F", 2, "InputDone", "W");
    run.weight_backward(2).unwrap();
    for mb in [0, 1] {
        run.forward(mb, &x).unwrap();
        order(&run.forward(mb, &x).unwrap_err(), "F", mb, "Forwarded", "I or B");
        run.backward(mb, Cotangents::Loss).unwrap();
    }
    run.forward(3, &x).unwrap();
    run.input_backward(3, Cotangents::Loss).unwrap();
    let error = run.reduce().unwrap_err();
    order(&error, "REDUCE", 3, "InputDone", "W");
    assert!(error.claim().contains("(1, 3)") && !error.claim().contains("(1, 2)"), "{error}");
    order(&run.backward(9, Cotangents::Loss).unwrap_err(), "B", 9, "missing", "another micro-batch");
}

/// The second I and the second W name the step at which the first ran, and change nothing.
#[test]
fn s3_15_twice() {
    let (stage, w, x) = quadratic();
    let mut run = StageRun::new(&stage, 1, &w, 2).unwrap();
    run.forward(1, &x).unwrap();
    run.forward(0, &x).unwrap();
    run.input_backward(0, Cotangents::Loss).unwrap();
    let error = run.input_backward(0, Cotangents::Loss).unwrap_err();
    order(&error, "I", 0, "InputDone", "W");
    assert!(error.claim().contains("again: state is InputDone since step 2"), "{error}");
    let before = values(&run.weight_backward(0).unwrap());
    let error = run.weight_backward(0).unwrap_err();
    order(&error, "W", 0, "Done", "nothing more");
    assert!(error.claim().contains("state is Done since step 3"), "{error}");
    run.input_backward(1, Cotangents::Loss).unwrap();
    run.weight_backward(1).unwrap();
    // the mean over two equal micro-batches is the gradient of one
    assert_eq!(values(&run.reduce().unwrap()), before);
}

/// Gradients add up, W gives what there is, and the mean is taken once.
#[test]
fn s3_16_accumulation() {
    let (stage, w, _) = quadratic();
    let mut run = StageRun::new(&stage, 0, &w, 2).unwrap();
    run.forward(0, &of(&[1.0, 2.0])).unwrap();
    run.forward(1, &of(&[3.0, 4.0])).unwrap();
    run.input_backward(0, Cotangents::Loss).unwrap();
    assert_eq!(values(&run.weight_backward(0).unwrap()), [Some(vec![10.0])]);
    run.input_backward(1, Cotangents::Loss).unwrap();
    assert_eq!(values(&run.weight_backward(1).unwrap()), [Some(vec![60.0])]);
    assert_eq!(values(&run.reduce().unwrap()), [Some(vec![30.0])]);
    let whole = grad(&w, |w| (Tensor::from([1.0f32, 2.0, 3.0, 4.0]) * w).square().mean());
    assert_eq!(data(&whole), [30.0]);
    let error = run.reduce().unwrap_err();
    assert!(error.code() == "E752" && error.claim().contains("again"), "{error}");
}

/// By micro-batch: the same bits in whatever order they come.
#[test]
fn s3_16_the_order_of_addition() {
    let (stage, w, _) = quadratic();
    let batches: Vec<Tensor> = (0..5).map(|i| matrix(1, 2, i).reshape([2])).collect();
    let run = |order: Accumulate, list: [usize; 5]| {
        let mut run = StageRun::new(&stage, 0, &w, 5).unwrap().accumulating(order);
        (0..5).for_each(|mb| _ = run.forward(mb, &batches[mb]).unwrap());
        for mb in list {
            run.input_backward(mb, Cotangents::Loss).unwrap();
            run.weight_backward(mb).unwrap();
        }
        bits(&run.reduce().unwrap())
    };
    let straight = run(Accumulate::Arrival, [0, 1, 2, 3, 4]);
    for list in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 4, 0, 3, 1]] {
        assert_eq!(run(Accumulate::ByMicroBatch, list), straight);
    }
}

/// What is kept, in bytes, as it is and as the cut says.
#[test]
fn s3_17_memory() {
    type Three = (Tensor, Tensor, Tensor);
    let params: Three = (matrix(8, 32, 1), matrix(32, 32, 2), matrix(32, 8, 3));
    let x = matrix(16, 8, 4);
    let f = |(a, b, c): Three, x: Tensor| x.matmul(&a).gelu().matmul(&b).gelu().matmul(&c);
    for stage in [Stage::of("mlp", f, &params, &x).unwrap(), Stage::of("mlp", f, &params, &x).unwrap().on(interp())] {
        let mut run = StageRun::new(&stage, 0, &params, 1).unwrap();
        run.forward(0, &x).unwrap();
        assert_eq!(run.bytes(), 8704);
        run.input_backward(0, &matrix(16, 8, 5)).unwrap();
        assert_eq!(run.bytes(), 9216);
        let report = stage.backward_split(&[true]).unwrap().report;
        assert_eq!((report.bytes_forward, report.bytes_handover), (8704, 9216));
        // units free what nobody else reads
        run.weight_unit(0, 0).unwrap();
        assert_eq!(run.bytes(), 9216 - 512 - 2048, "x and the gradient behind the first map");
        run.weight_backward(0).unwrap();
        assert_eq!(run.bytes(), 0);
    }
}

/// On the executor that fuses: sizes of many tiles, sums over rows, products. B has more lines to fuse than I and W have,
/// and gives the same bits, because a fusion has the bits of its lines.
#[test]
fn s3_17_the_same_bits_where_lines_are_fused() {
    type Two = (Tensor, Tensor);
    let params: (Two, Two) = ((matrix(96, 300, 1), matrix(1, 300, 2)), (matrix(300, 70, 3), matrix(1, 70, 4)));
    let x = matrix(130, 96, 5);
    let f = |((a, c), (b, e)): (Two, Two), x: Tensor| {
        let h = (x.matmul(&a) + c).gelu();
        let h = &h * h.sigmoid().sqrt();
        ((h.matmul(&b) + e).softmax(1) * &x.sum_with(Sum { dims: [1].into(), keepdim: true, ..d() })).log_softmax(1)
    };
    let stage = Stage::of("wide", f, &params, &x).unwrap();
    let (_, dw) = grads(&stage, &params, &x, &matrix(130, 70, 6));
    assert!(dw.iter().flatten().all(|g| data(g).iter().any(|x| *x != 0.0)));
}

/// A parameter that W reads was written; one that it does not read may be.
#[test]
fn s3_18_written_in_between() {
    let params = (of(&[3.0, 4.0]), number(10.0));
    let x = of(&[1.0, 2.0]);
    let norm = |(v, s): Pair, x: Tensor| (x * (s * &v / v.square().sum().sqrt())).sum();
    let stage = Stage::of("weight norm", norm, &params, &x).unwrap().on(interp());
    let (dx, dw) = grads(&stage, &params, &x, Cotangents::Loss);
    let near = |a: &Option<Tensor>, b: &[f64]| {
        let a = data(a.as_ref().unwrap());
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5), "{a:?} {b:?}");
    };
    near(&dx[0], &[6.0, 8.0]);
    near(&dw[0], &[-0.64, 0.48]);
    near(&dw[1], &[2.2]);

    let v = of(&[3.0, 4.0]);
    // in (x·v)·v W reads the product that F made, and not v: only x·(v·v) has something to be stale
    let stage = Stage::of("squares", |v: Tensor, x: Tensor| (x * (&v * &v)).sum(), &v, &x).unwrap().on(interp());
    let (dx, dw) = grads(&stage, &v, &x, Cotangents::Loss);
    assert_eq!((values(&dx), values(&dw)), (vec![Some(vec![9.0, 16.0])], vec![Some(vec![6.0, 16.0])]));
    let mut run = StageRun::new(&stage, 2, &v, 1).unwrap();
    run.forward(0, &x).unwrap();
    run.input_backward(0, Cotangents::Loss).unwrap();
    let _ = v.copy_(&of(&[1.0, 1.0]));
    let error = run.weight_backward(0).unwrap_err();
    assert_eq!(error.code(), "E755", "{error}");
    let wanted = ErrorKind::StaleHandover { stage: 2, micro_batch: 0, value: "w".into(), saved_version: 0, now: 1 };
    assert_eq!(error.kind(), &wanted, "{error}");

    let params = (matrix(3, 4, 1), matrix(4, 2, 2));
    let x = matrix(5, 3, 3);
    let mlp = |(a, b): Pair, x: Tensor| x.matmul(&a).tanh().matmul(&b);
    let stage = Stage::of("mlp", mlp, &params, &x).unwrap().on(interp());
    let (_, want) = grads(&stage, &params, &x, &matrix(5, 2, 4));
    let mut run = StageRun::new(&stage, 0, &params, 1).unwrap();
    run.forward(0, &x).unwrap();
    run.input_backward(0, &matrix(5, 2, 4)).unwrap();
    let _ = params.0.copy_(&matrix(3, 4, 9));
    assert_eq!(bits(&run.weight_backward(0).unwrap()), bits(&want), "W does not read it");
}

/// A write by the backward is made by I, once, whatever becomes of W.
#[test]
fn s2_15_a_backward_that_writes() {
    let hist = Tensor::from([0.1f64, 0.2, 0.3, 0.4]);
    let x = Tensor::from([1.0f64, 2.0]);
    let w = Tensor::from([1.0f64, 1.0]);
    let held = hist.clone();
    let f = move |w: Tensor, x: Tensor| {
        let held = held.clone();
        custom_vjp(
            &(x * w),
            |x| (x * 2.0, ()),
            move |(), ct: &Tensor| {
                let newest = ct.abs().amax().reshape([1]);
                let _ = held.copy_(&ops::cat(&[newest, held.slice_with(Slice { stop: Some(3.into()), ..d() })]));
                ct * 2.0
            },
        )
    };
    let stage = Stage::of("history", f, &w, &x).unwrap().on(interp());
    let halves = stage.backward_split(&[true]).unwrap();
    disjoint(&halves);
    let mut run = StageRun::new(&stage, 0, &w, 2).unwrap();
    run.forward(0, &x).unwrap();
    run.forward(1, &x).unwrap();
    assert_eq!(data(&hist), [0.1, 0.2, 0.3, 0.4]);
    let dx = run.input_backward(0, &Tensor::from([0.5f64, -3.0])).unwrap();
    assert_eq!((values(&dx), data(&hist)), (vec![Some(vec![1.0, -6.0])], vec![3.0, 0.1, 0.2, 0.3]));
    run.input_backward(1, &Tensor::from([7.0f64, 0.0])).unwrap();
    assert_eq!(data(&hist), [7.0, 3.0, 0.1, 0.2]);
    run.weight_backward(1).unwrap();
    run.weight_backward(0).unwrap();
    assert_eq!(data(&hist), [7.0, 3.0, 0.1, 0.2], "W writes nothing");
    assert_eq!(values(&run.reduce().unwrap()), [Some(vec![(1.0 + 14.0) / 2.0, (-12.0 + 0.0) / 2.0])]);
}

/// A stage that writes in its forward: running statistics, once a micro-batch. Written by the stage itself, nothing is
/// stale; two arguments that are one tensor are refused.
#[test]
fn a_forward_that_writes() {
    type Params = (Tensor, (Tensor, Tensor));
    let params: Params = (number(2.0), (number(0.0), number(1.0)));
    let x = of(&[1.0, 3.0]);
    let f = |(w, (mean, count)): Params, x: Tensor| {
        no_grad(|| {
            let _ = mean.copy_(&(&mean + x.mean()));
            let _ = count.add_(1.0);
        });
        (x * &w * w).sum() * count.detach()
    };
    let stage = Stage::of("running", f, &params, &x).unwrap().frozen(&["1.0", "1.1"]).unwrap().on(interp());
    let mut run = StageRun::new(&stage, 0, &params, 2).unwrap();
    assert_eq!(data(&run.forward(0, &x).unwrap()[0]), [32.0]);
    assert_eq!(data(&run.forward(1, &x).unwrap()[0]), [48.0]);
    assert_eq!((data(&params.1.0), data(&params.1.1)), (vec![4.0], vec![3.0]));
    for mb in [1, 0] {
        run.input_backward(mb, Cotangents::Loss).unwrap();
        run.weight_backward(mb).unwrap();
    }
    assert_eq!(values(&run.reduce().unwrap())[0], Some(vec![(32.0 + 48.0) / 2.0]));
    let both = number(0.0);
    let twice: Params = (number(2.0), (both.clone(), both));
    let error = Stage::of("running", f, &twice, &x).unwrap_err();
    assert!(error.code() == "E756" && error.to_string().contains("`1.0` and `1.1` are one tensor"), "{error}");
    let mut run = StageRun::new(&stage, 0, &twice, 1).unwrap();
    assert_eq!(run.forward(0, &x).unwrap_err().code(), "E756");
}

/// A step of more micro-batches than a schedule can have is refused before there is room for them.
#[test]
fn too_many_micro_batches_are_refused() {
    let w = matrix(2, 2, 1);
    let stage = Stage::of("one", |w: Tensor, x: Tensor| x.matmul(&w), &w, &w).unwrap().on(interp());
    for m in [usize::MAX, 1 << 45] {
        let refused = StageRun::new(&stage, 0, &w, m).err().expect("no memory has them");
        assert!(refused.code() == "E751" && refused.claim().contains("micro-batches"), "{refused}");
    }
}
