//! A transform of a user's sees each line once, however the program is run, and at the place that it was given.

use fulgurite::bind::Rewriter;
use fulgurite::core::{Name, Scalar, Value};
use fulgurite::executors::Executor;
use fulgurite::executors::interp::Interp;
use fulgurite::pipeline::{Cotangents, Stage, StageRun};
use fulgurite::prelude::*;
use fulgurite::trace::{Tag, Trace};
use fulgurite::transforms::{At, Remat};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Each sine of a forward, twice.
fn twice(trace: &Trace) -> Result<Trace> {
    Rewriter::each(trace, "twice", |r, line| {
        r.keep()?;
        if line.symbol.name() == "sin" && !line.own_tags.contains(Tag::BACKWARD) {
            let two = Value::Num(Scalar::Float(2.0));
            let made = r.emit(Name::new("mul"), vec![Value::Tensor(line.outs[0]), two], vec![])?;
            r.bind(line.outs[0], made.outs[0])?;
        }
        Ok(())
    })
}

/// The sine, with its gradient taken `n` times around it: each time the value and the gradient are added.
fn loss(x: &Tensor, n: usize) -> Tensor {
    if n == 0 {
        return x.sin().sum();
    }
    let (value, slope) = value_and_grad(x, |x| loss(x, n - 1));
    value + slope.sum()
}

/// What [`loss`] and its gradient are with [`twice`] at `at`. The value is p times the sine of the forward, and so many
/// cosines and sines of gradients; an edit before differentiation doubles all derivatives of the first, one behind it
/// those that are taken of what it left, and one of the program none.
fn wanted(at: At, n: usize, x: f64) -> [f64; 2] {
    let slope = |level: usize, [p, cosines, sines]: [f64; 3]| {
        let of_sine = match at {
            At::Acquired => 2.0,
            At::Joint => {
                if level == 0 {
                    1.0
                } else {
                    2.0
                }
            }
            At::Simplified => 1.0,
        };
        [0.0, p * of_sine + sines, -cosines]
    };
    let mut value = [1.0, 0.0, 0.0];
    for level in 0..n {
        let more = slope(level, value);
        (0..3).for_each(|i| value[i] += more[i]);
    }
    let at = |[p, cosines, sines]: [f64; 3]| (2.0 * p + sines) * x.sin() + cosines * x.cos();
    [at(value), at(slope(n, value))]
}

type Both = Result<(Tensor, Tensor)>;

fn both(x: Tensor, n: usize) -> (Tensor, Tensor) {
    value_and_grad(&x, |x| loss(x, n))
}

const WAYS: [&str; 9] =
    ["call", "symbolic", "update", "pullback", "graph", "inside", "inside of a closure", "inside of a slice", "stage"];

fn run(
    way: &str,
    at: At,
    name: &'static str,
    edit: impl Fn(&Trace) -> Result<Trace> + Send + Sync + 'static,
    n: usize,
    x: Tensor,
) -> Both {
    let one = || Tensor::scalar(1.0f64);
    let f = move |x: Tensor| both(x, n);
    let plain = move |x: Tensor| loss(&x, n);
    match way {
        "call" => jit(f).transform(at, name, edit).call(x),
        "symbolic" => jit(f).transform(at, name, edit).caching(Caching::Symbolic).call(x),
        "update" => {
            let step = jit(move |s: Tensor, x: Tensor| (s, both(x, n))).transform(at, name, edit);
            step.update(&mut one(), x)
        }
        "pullback" => {
            let (value, pull) = jit(plain).transform(at, name, edit).pullback(x)?;
            Ok((value, pull.run(&one())?))
        }
        "graph" => {
            let (value, pull) = jit(plain).transform(at, name, edit).pullback_with_graph(x)?;
            Ok((value, pull.run(&one())?.0))
        }
        "inside" => {
            let f = jit(f).transform(at, name, edit);
            jit(move |x: Tensor| f.call(x)).call(x)
        }
        "inside of a closure" => {
            let f = jit(plain).transform(at, name, edit);
            jit(move |x: Tensor| try_value_and_grad(&x, |x| f.call(x.clone()))).call(x)
        }
        "inside of a slice" => {
            let f = jit(f).transform(at, name, edit);
            let batch = x.reshape((1, 1));
            let (v, g) = jit(move |x: Tensor| vmap(&x, |x| f.call(x.clone()))).call(batch)?;
            Ok((v.reshape(()), g.reshape([1])))
        }
        _ => {
            let f = jit(plain).transform(at, name, edit);
            let stage = Stage::of("stage", move |w: Tensor, ()| f.call(w), &x, &())?;
            let mut run = StageRun::new(&stage, 0, &x, 1)?;
            let value = run.forward(0, &())?.remove(0);
            run.backward(0, Cotangents::Loss)?;
            let slope = run.reduce()?.remove(0).expect("a gradient");
            Ok((value, slope))
        }
    }
}

/// Ways in which a part of the pipeline could not be what the function wishes.
fn refused(way: &str, at: At) -> bool {
    match at {
        At::Acquired => false,
        At::Joint => matches!(way, "inside of a closure" | "stage"),
        At::Simplified => way.starts_with("inside") || way == "stage",
    }
}

#[test]
fn each_line_is_edited_once() {
    let x = 0.5f64;
    for at in [At::Acquired, At::Joint, At::Simplified] {
        for way in WAYS {
            for n in 0..4 {
                let got = run(way, at, "twice", twice, n, Tensor::from([x]));
                if refused(way, at) {
                    let error = got.expect_err(way);
                    assert_eq!(error.code(), "E757", "{at:?}, {way}, {n}: {error}");
                    continue;
                }
                let (v, g) = got.unwrap_or_else(|e| panic!("{at:?}, {way}, {n}: {e}"));
                let got = [v.item::<f64>().expect("a value"), g.to_vec::<f64>().expect("a slope")[0]];
                let want = wanted(at, n, x);
                let fits = got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12);
                assert!(fits, "{at:?}, {way}, {n} closures: {got:?}, not {want:?}");
            }
        }
    }
}

#[test]
fn each_line_is_seen_once() {
    for at in [At::Acquired, At::Joint] {
        for way in WAYS.into_iter().filter(|way| !refused(way, at)) {
            for n in 0..4 {
                let seen = Arc::new(Mutex::new(BTreeMap::new()));
                let into = seen.clone();
                let look = move |trace: &Trace| {
                    Rewriter::each(trace, "look", |r, line| {
                        *into.lock().expect("counts").entry(line.id).or_insert(0) += 1;
                        r.keep()
                    })
                };
                let _ = run(way, at, "look", look, n, Tensor::from([0.5f64]));
                let seen = seen.lock().expect("counts");
                // a program whose backward has a gradient holds the joint trace a second time
                let most = if way == "graph" && at == At::Joint { 2 } else { 1 };
                assert!(seen.values().all(|times| *times <= most), "{at:?}, {way}, {n}: {seen:?}");
                let none = at == At::Joint && n == 0 && way == "nothing";
                assert!(none || !seen.is_empty(), "{at:?}, {way}, {n}");
            }
        }
    }
}

/// A backward of one's own is code of the user's too.
#[test]
fn backwards_of_ones_own_are_edited_once() {
    let f = |x: Tensor| {
        value_and_grad(&x, |x| custom_vjp(x, |x| (x.sin(), x.clone()), |x, ct: &Tensor| ct * x.sin()).sum())
    };
    let x = 0.5f64;
    let (v, g) = jit(f).transform(At::Acquired, "twice", twice).call(Tensor::from([x])).expect("runs");
    assert_eq!(v.item::<f64>().expect("a value"), 2.0 * x.sin());
    assert_eq!(g.to_vec::<f64>().expect("a slope"), [2.0 * x.sin()]);
}

/// What a program inside of another one can't have is refused, not dropped.
#[test]
fn wishes_of_functions_inside_are_kept_or_refused() {
    let x = || Tensor::from([0.5f64, 1.5]);
    let body = |x: Tensor| value_and_grad(&x, |x| x.sin().exp().tanh().sum());
    // a budget holds for the gradients that the function takes
    let f = jit(body).rematerialise(Remat::Bytes(0));
    let outer = jit(move |x: Tensor| f.call(x)).keep_traces();
    let (v, g) = outer.call(x()).expect("runs");
    let (wv, wg) = body(x());
    assert_eq!((v.to_f64().expect("v"), g.to_f64().expect("g")), (wv.to_f64().expect("v"), wg.to_f64().expect("g")));
    assert!(outer.trace("rematerialised").is_some_and(|text| text.contains(".r1")), "{:?}", outer.stages());
    // of gradients that the function around it takes it would be lost
    let f = jit(|x: Tensor| x.sin().exp().tanh().sum()).rematerialise(Remat::Bytes(0));
    let outer = jit(move |x: Tensor| try_value_and_grad(&x, |x| f.call(x.clone())));
    assert_eq!(outer.call(x()).expect_err("refused").code(), "E757");
    // unless that wishes the same
    let f = jit(|x: Tensor| x.sin().exp().tanh().sum()).rematerialise(Remat::Bytes(0));
    let outer = jit(move |x: Tensor| try_value_and_grad(&x, |x| f.call(x.clone()))).rematerialise(Remat::Bytes(0));
    assert!(outer.call(x()).is_ok());
    // executors compile whole programs
    let on = || -> Vec<Arc<dyn Executor>> { vec![Arc::new(Interp)] };
    let f = jit(|x: Tensor| x.sin()).on(on());
    let error = jit(move |x: Tensor| f.call(x)).call(x()).expect_err("refused");
    assert!(error.to_string().contains("executors"), "{error}");
    let f = jit(|x: Tensor| x.sin()).on(on());
    assert!(jit(move |x: Tensor| f.call(x)).on(on()).call(x()).is_ok());
}

/// Arguments that the function inside writes are written, whatever its transforms; one tensor twice is refused.
#[test]
fn a_function_inside_writes_to_its_arguments() {
    let add = || {
        jit(|a: Tensor, b: Tensor| {
            let _ = a.add_(b.sin());
            a * 1.0
        })
        .transform(At::Acquired, "twice", twice)
    };
    let f = add();
    let outer = jit(move |a: Tensor, b: Tensor| {
        let y = f.call((a.clone(), b))?;
        Ok::<_, Error>(y + a)
    });
    let (a, b) = (Tensor::from([1.0f64]), Tensor::from([0.5f64]));
    let y = outer.call((a.clone(), b)).expect("runs").to_vec::<f64>().expect("y");
    let written = 1.0 + 2.0 * 0.5f64.sin();
    assert_eq!((y, a.to_vec::<f64>().expect("a")), (vec![2.0 * written], vec![written]));
    let f = add();
    let outer = jit(move |a: Tensor| f.call((a.clone(), a)));
    assert_eq!(outer.call(Tensor::from([1.0f64])).expect_err("refused").code(), "E757");
}

/// A stage's backward is made for each set of cotangents; what it reads of the edited forward is one thing for all.
#[test]
fn a_stage_is_edited_alike_for_every_set_of_cotangents() {
    let (w, x) = (Tensor::from([0.5f64]), Tensor::from([0.25f64]));
    let f = |w: Tensor, x: Tensor| {
        let s = (&w * &x).sin();
        (s.exp(), s.square())
    };
    let stage = Stage::of("two", f, &w, &x).expect("a stage").transform("twice", twice);
    let s = (0.5f64 * 0.25).sin();
    let cos = (0.5f64 * 0.25).cos();
    // the edit stands behind differentiation: what the backward reads is edited, what it is made of is not
    let ones = [Some(Tensor::from([1.0f64])), None];
    for (first, second) in [(0, 0), (0, 1), (1, 0)] {
        let mut run = StageRun::new(&stage, 0, &w, 1).expect("a run");
        let y = run.forward(0, &x).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(y[0].to_vec::<f64>().expect("y"), [(2.0 * s).exp()]);
        let leaves = vec![ones[first].clone(), ones[second].clone()];
        run.backward(0, Cotangents::Leaves(leaves)).unwrap_or_else(|e| panic!("{first} {second}: {e}"));
        let got = run.reduce().expect("grads").remove(0).expect("a gradient").to_vec::<f64>().expect("data")[0];
        let by = |at: usize, d: f64| if at == 0 { d } else { 0.0 };
        let want = (by(first, (2.0 * s).exp()) + by(second, 2.0 * (2.0 * s))) * cos * 0.25;
        assert!((got - want).abs() < 1e-12, "{first} {second}: {got}, not {want}");
    }
}
