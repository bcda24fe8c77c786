//! Tensors of subclasses in what programs do besides calling operators: backwards of their own, functions that are
//! compiled in others, gradients through decompositions, edits. Found by random functions with such regions.

use fulgurite::bind::Rewriter;
use fulgurite::core::loc::Loc;
use fulgurite::core::{Name, Value};
use fulgurite::prelude::*;
use fulgurite::symbol::Port;
use fulgurite::trace::Trace;
use fulgurite::transforms::{At, Remat};
use fulgurite::{api, subclass};

fn numbers(key: u64, shape: &[usize]) -> Tensor {
    ops::randn(Key::new(key), shape).cast(DType::F64)
}

fn data(x: &Tensor) -> Vec<f64> {
    x.to_f64().unwrap_or_else(|e| panic!("{e}"))
}

#[track_caller]
fn near(have: &Tensor, want: &[f64]) {
    let have = data(have);
    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * (1.0 + b.abs());
    assert!(have.len() == want.len() && have.iter().zip(want).all(close), "{have:?}, not {want:?}");
}

/// `run(x)` with a backward that gives twice the derivative.
fn doubled(by: &[Tensor], run: impl Fn(&Vec<Tensor>) -> Tensor + Clone) -> Tensor {
    let again = run.clone();
    let backward = move |by: Vec<Tensor>, ct: &Tensor| match vjp(&by, ct, |by| again(by)) {
        Ok((_, grads)) => grads.iter().map(|g| g * 2.0).collect(),
        Err(e) => vec![Tensor::poisoned(e); by.len()],
    };
    custom_vjp(&by.to_vec(), |by| (run(by), by.clone()), backward)
}

/// The value and the gradient at once, compiled, and with less memory.
fn every_way(f: impl Fn(&Vec<Tensor>) -> Tensor + Clone + 'static, by: &[Tensor]) -> Vec<Vec<Tensor>> {
    let flat = |(value, grads): (Tensor, Vec<Tensor>)| [vec![value], grads].concat();
    let by = by.to_vec();
    let mut all = vec![flat(value_and_grad(&by, |by| f(by)))];
    for remat in [Remat::Marked, Remat::Share(0.3), Remat::Bytes(0)] {
        let f = f.clone();
        let compiled = jit(move |by: Vec<Tensor>| value_and_grad(&by, |by| f(by))).rematerialise(remat);
        all.push(flat(compiled.call(by.clone()).unwrap_or_else(|e| panic!("{e}"))));
    }
    all
}

/// A tensor of which the elements above 0 count.
fn masked(x: &Tensor) -> Tensor {
    let make = subclass::named("MaskedTensor").unwrap_or_else(|e| panic!("{e}")).port(Port::Unflatten);
    api::call_one(make, vec![Value::Tensor(x.clone()), Value::Tensor(x.gt(0.0))])
}

/// A class whose operators are differentiated through its rules does not see to a function that has a backward.
#[test]
fn a_backward_of_ones_own_is_asked_for_masked_tensors() {
    let x = numbers(1, &[4, 3]);
    let want: Vec<f64> = data(&x).iter().map(|x| if *x > 0.0 { 2.0 * x.exp() } else { 0.0 }).collect();
    for got in every_way(|by| doubled(&[masked(&by[0])], |by| by[0].exp()).plain().sum(), &[x]) {
        near(&got[1], &want);
    }
}

/// The cotangent of what is in pieces arrives whole on each rank: the lines of the backward are bound on that.
#[test]
fn a_backward_of_ones_own_gets_pieces_that_lie_elsewhere() {
    let (x, y) = (numbers(1, &[4, 3]), numbers(2, &[4, 3]));
    let product = |by: &Vec<Tensor>| by[0].exp() * &by[1];
    let (a, b) = (data(&x), data(&y));
    let by_x: Vec<f64> = a.iter().zip(&b).map(|(x, y)| 2.0 * x.exp() * y).collect();
    let by_y: Vec<f64> = a.iter().map(|x| 2.0 * x.exp()).collect();
    type Place = fn(&Tensor) -> Tensor;
    let places: [Place; 2] = [|x| x.shard(2), |x| x.replicate(2)];
    for (left, right) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let f = move |by: &Vec<Tensor>| doubled(&[places[left](&by[0]), places[right](&by[1])], product).plain().sum();
        for got in every_way(f, &[x.clone(), y.clone()]) {
            near(&got[1], &by_x);
            near(&got[2], &by_y);
        }
    }
}

/// What a backward gives may be parts of a sum where its argument is whole on each rank.
#[test]
fn a_cotangent_may_be_in_parts() {
    let (x, row) = (numbers(1, &[4, 3]), numbers(2, &[1, 3]));
    let f = |by: &Vec<Tensor>| doubled(&[by[0].shard(2), by[1].replicate(2)], |by| &by[0] * &by[1]).plain().sum();
    let want: Vec<f64> = (0..3).map(|j| 2.0 * (0..4).map(|i| data(&x)[3 * i + j]).sum::<f64>()).collect();
    for got in every_way(f, &[x.clone(), row]) {
        near(&got[2], &want);
    }
}

/// A decomposition leaves pieces elsewhere than the operator does: its results are brought to where programs were told.
#[test]
fn decompositions_give_what_programs_were_told() {
    let x = numbers(1, &[3]);
    for got in every_way(|by| by[0].shard(3).var_mean().1.plain().sum(), std::slice::from_ref(&x)) {
        near(&got[1], &[1.0 / 3.0; 3]);
    }
    // a result of nothing is plain in the decomposition
    let (x, mean, var) = (numbers(1, &[2, 3]), numbers(2, &[3]), numbers(3, &[3]).square());
    let norm = |by: &Vec<Tensor>, nested: bool| {
        let on = |x: &Tensor| if nested { x.replicate(2).replicate(3) } else { x.replicate(2) };
        let symbol = fulgurite::symbol::find(Name::new("batch_norm_fixed")).expect("a row");
        let args = by.iter().map(|x| Value::Tensor(on(x))).collect();
        let outs = api::call(symbol, args, Loc::NOWHERE).unwrap_or_else(|e| panic!("{e}"));
        outs.iter().fold(Tensor::scalar(0.0f64), |sum, out| sum + out.plain().sum())
    };
    let by = [x, mean, var];
    let scale: Vec<f64> = data(&by[2]).iter().map(|v| 1.0 / (v + 1e-5).sqrt()).collect();
    let want: Vec<f64> = (0..6).map(|i| scale[i % 3]).collect();
    for nested in [false, true] {
        for got in every_way(move |by| norm(by, nested), &by) {
            near(&got[1], &want);
        }
    }
    // losses whose decomposition ends in a row of which the body alone knows the result
    let (x, y) = (numbers(4, &[2, 3]), numbers(5, &[2, 3]));
    let f = |by: &Vec<Tensor>| by[0].replicate(2).smooth_l1_loss(&by[1].replicate(2)).plain();
    let want = value_and_grad(&[x.clone(), y.clone()].to_vec(), |by| by[0].smooth_l1_loss(&by[1])).1;
    for got in every_way(f, &[x, y]) {
        near(&got[1], &data(&want[0]));
        near(&got[2], &data(&want[1]));
    }
}

/// Lines that run again on pieces have bodies of their own: an `all_reduce` of the forward and its copy in the backward
/// are decomposed in one program, and each reads its own sum.
#[test]
fn what_runs_again_on_pieces_reads_its_own_sums() {
    let x = numbers(1, &[7, 2, 3]);
    let by = std::slice::from_ref(&x);
    let want = value_and_grad(&by.to_vec(), |by| by[0].sigmoid().var_mean().0.sum()).1;
    for got in every_way(|by| by[0].sigmoid().shard(7).var_mean().0.plain().sum(), by) {
        near(&got[1], &data(&want[0]));
    }
}

/// An edit that changes where pieces are: what reads them is bound anew.
#[test]
fn an_edit_may_move_pieces() {
    let to_parts = |trace: &Trace| {
        Rewriter::each(trace, "stay", |r, line| match (line.symbol.name(), &line.args[0]) {
            ("redistribute", Value::Tensor(x)) => r.bind(line.outs[0], *x),
            _ => r.keep(),
        })
    };
    let f = |x: Tensor| (x.shard(2).redistribute().exp() * 2.0).plain();
    let x = numbers(1, &[4, 3]);
    let want = data(&f(x.clone()));
    for edited in [jit(f), jit(f).transform(At::Acquired, "stay", to_parts)] {
        near(&edited.call(x.clone()).unwrap_or_else(|e| panic!("{e}")), &want);
    }
}

/// A backward that can't be recorded is an error of gradients; a function that is called in a trace is refused there.
#[test]
fn refusals_come_where_they_come_at_once() {
    let x = numbers(1, &[4, 3]);
    let wrong = |x: &Tensor| custom_vjp(x, |x| (x.exp(), ()), |(), ct: &Tensor| ct.sum());
    near(&jit(move |x: Tensor| wrong(&x)).call(x.clone()).unwrap_or_else(|e| panic!("{e}")), &data(&x.exp()));
    let error = jit(move |x: Tensor| grad(&x, |x| wrong(x).sum())).call(x.clone()).map(|_| ());
    assert_eq!(error.map_err(|e| e.code()), Err("E712"));

    let inner = jit(|x: Tensor| x.reshape([5, 5]));
    let outer = move |x: &Tensor| inner.call(x.clone()).map_or_else(|e| e.code(), |_| "none");
    assert_eq!(outer(&x), "E701");
    let seen = std::sync::Arc::new(std::sync::Mutex::new("none"));
    let told = seen.clone();
    let traced = jit(move |x: Tensor| {
        *told.lock().unwrap_or_else(|e| e.into_inner()) = outer(&x);
        x * 2.0
    });
    near(&traced.call(x.clone()).unwrap_or_else(|e| panic!("{e}")), &data(&(x * 2.0)));
    assert_eq!(*seen.lock().unwrap_or_else(|e| e.into_inner()), "E701");
}

/// A maker of a class says what its gradient is, also where it is called on a class that is differentiated through its
/// rules: a mask that every rank has counts once.
#[test]
fn a_mask_on_every_rank_counts_once() {
    let x = numbers(11, &[4, 3]);
    let shown: Vec<f64> = data(&x).iter().map(|x| f64::from(u8::from(*x > 0.0))).collect();
    let makers: [fn(&Tensor) -> Tensor; 3] = [|m| m.replicate(3), |m| m.shard(2), |m| m.replicate(2).shard(2)];
    for make in makers {
        let sum = move |by: &Vec<Tensor>| (0..3).fold(make(&masked(&by[0])) * 1.0, |x, _| x.plain()).sum();
        for got in every_way(sum, std::slice::from_ref(&x)) {
            near(&got[1], &shown);
        }
    }
}

/// Pieces may be of a class themselves. An operator on them still cuts an argument that is whole on each rank, `index`,
/// where the others, `x` and `src`, are in pieces.
#[test]
fn pieces_of_pieces_are_cut_alike() {
    let (x, src) = (numbers(12, &[5, 2, 7]), numbers(13, &[5, 2, 3]));
    let index = || Tensor::from(vec![0i64, 3, 3]).reshape((1, 1, 3)).expand((5, 2, 3));
    let prod = ops::ScatterReduceReduce::Prod;
    let plain = move |by: &Vec<Tensor>| ops::scatter_reduce(&by[0], &index(), &by[1], 2, prod).square().sum();
    let pieces = move |by: &Vec<Tensor>| {
        let (x, src) = (by[0].replicate(2).shard(5), by[1].replicate(2).shard(5));
        ops::scatter_reduce(&x, &index().replicate(2).replicate(5), &src, 2, prod).plain().plain().square().sum()
    };
    let by = [x, src];
    let (value, grads) = value_and_grad(&by.to_vec(), plain);
    for got in every_way(pieces, &by) {
        for (got, want) in got.iter().zip([vec![value.clone()], grads.clone()].concat()) {
            near(got, &data(&want));
        }
    }
}

/// What runs again on tensors of a class has a body with values of its own: that of the forward is still read.
#[test]
fn what_runs_again_on_a_class_has_its_own_body() {
    let x = numbers(14, &[2, 3]);
    let shown = Tensor::from(vec![true, true, false, true, true, true]).reshape((2, 3));
    let f = move |x: &Tensor| {
        let kept = checkpoint(|| {
            let make = subclass::named("MaskedTensor").unwrap_or_else(|e| panic!("{e}")).port(Port::Unflatten);
            let m = api::call_one(make, vec![Value::Tensor(x.clone()), Value::Tensor(shown.clone())]);
            let norm = m.abs().exp() + 0.5;
            ops::where_(norm.gt(2.0), &norm * 2.0, norm.sqrt()).plain()
        });
        (kept.sin() * x).sum()
    };
    let want = {
        let f = f.clone();
        grad(&x, |x| f(x))
    };
    let apart = jit({
        let f = f.clone();
        move |x: Tensor| f(&x)
    });
    let (_, pull) = apart.pullback(x.clone()).unwrap_or_else(|e| panic!("{e}"));
    near(&pull.run(&Tensor::scalar(1.0f64)).unwrap_or_else(|e| panic!("{e}")), &data(&want));
    for got in every_way(move |by: &Vec<Tensor>| f(&by[0]), &[x]) {
        near(&got[1], &data(&want));
    }
}

/// The gradient of an operator holds for tensors of a class whose fields are of another one only where the inner class
/// computes the same function: a mean under a mask divides by the number of elements that count.
#[test]
fn a_gradient_on_nested_classes_is_right_or_refused() {
    fn make(x: &Tensor, mask: &Tensor) -> Tensor {
        let make = subclass::named("MaskedTensor").unwrap_or_else(|e| panic!("{e}")).port(Port::Unflatten);
        api::call_one(make, vec![Value::Tensor(x.clone()), Value::Tensor(mask.clone())])
    }
    let (x, other) = (numbers(1, &[6]), numbers(2, &[6]));
    let mask = Tensor::from([1.0f64, 0.0, 1.0, 1.0, 0.0, 1.0]).ne(0.0);
    let shown = mask.cast(DType::F64);
    let under = mask.clone();
    let inside = move |x: &Tensor| make(x, &under).replicate(2);
    // the mean of four elements
    let mean = |x: &Tensor| (&x.replicate(2) * &inside(&other)).mean().plain();
    let refused = try_value_and_grad(&x, |x| Ok::<_, fulgurite::Error>(mean(x))).expect_err("another function inside");
    assert!(refused.code() == "E711" && refused.to_string().contains("MaskedTensor"), "{refused}");
    near(&mean(&x), &[data(&(&x * &other * &shown)).iter().sum::<f64>() / 4.0]);
    let loss = |x: &Tensor| ops::mse_loss(&inside(&other), &x.replicate(2)).plain();
    let refused = try_value_and_grad(&x, |x| Ok::<_, fulgurite::Error>(loss(x))).expect_err("its mean inside");
    assert_eq!(refused.code(), "E711");
    // the sum of what counts, element by element: the operator's own function
    let of = inside.clone();
    let sum = move |by: &Vec<Tensor>| {
        let squared = ops::square(&(&of(&by[0]) - &by[1].replicate(2)));
        (&squared.sum() * 1.5).plain()
    };
    let want: Vec<f64> = data(&((&x - &other) * 3.0 * &shown));
    for found in every_way(sum, &[x.clone(), other.clone()]) {
        near(&found[1], &want);
        near(&found[2], &want.iter().map(|g| -g).collect::<Vec<_>>());
    }
    // the mask outside: its rule is differentiated, and the operators in it are those of pieces
    let outside = |x: &Tensor| make(&x.replicate(2), &mask.replicate(2)).mean().plain();
    let (_, g) = value_and_grad(&x, |x| outside(x).plain());
    near(&g.plain(), &data(&(&shown * 0.25)));
}
