//! Control flow in traces: choices and loops against the program that is written out.

use fulgurite::prelude::*;
use fulgurite::{cond, scan, scan_n, scan_reverse, while_loop};

fn rnn(w: &Tensor, h: &Tensor, xs: &Tensor) -> Tensor {
    let (h, ys) = scan(h.clone(), xs, |h: Tensor, x: Tensor| {
        let h = (h.matmul(w) + &x).tanh();
        (h.clone(), h.square().sum())
    })
    .expect("a scan");
    h.sum() + ys.sum()
}

fn unrolled(w: &Tensor, h: &Tensor, xs: &Tensor, n: i64) -> Tensor {
    let mut h = h.clone();
    let mut total = Tensor::scalar(0.0f64);
    for i in 0..n {
        h = (h.matmul(w) + xs.select(0, i)).tanh();
        total += h.square().sum();
    }
    h.sum() + total
}

fn data() -> (Tensor, Tensor, Tensor) {
    let w = Tensor::from([[0.3f64, -0.2, 0.5], [0.1, 0.7, -0.4], [-0.6, 0.2, 0.1]]);
    let h = Tensor::from([0.1f64, -0.2, 0.3]);
    let xs = Tensor::from([[0.5f64, -1.0, 0.2], [0.1, 0.3, -0.7], [0.9, -0.4, 0.6], [-0.2, 0.8, 0.0]]);
    (w, h, xs)
}

#[track_caller]
fn close(a: &Tensor, b: &Tensor) {
    let (a, b) = (a.to_f64().expect("a value"), b.to_f64().expect("a value"));
    assert_eq!(a.len(), b.len());
    for (x, y) in a.iter().zip(&b) {
        assert!((x - y).abs() <= 1e-9 * (1.0 + x.abs()) || x == y, "{a:?} {b:?}");
    }
}

#[test]
fn a_scan_is_its_steps() {
    let (w, h, xs) = data();
    let want = unrolled(&w, &h, &xs, 4);
    close(&rnn(&w, &h, &xs), &want);
    let f = jit(|(w, h, xs): (Tensor, Tensor, Tensor)| rnn(&w, &h, &xs));
    close(&f.call((w.clone(), h.clone(), xs.clone())).expect("a value"), &want);
    let g = |(w, h, xs): &(Tensor, Tensor, Tensor)| rnn(w, h, xs);
    let u = |(w, h, xs): &(Tensor, Tensor, Tensor)| unrolled(w, h, xs, 4);
    let p = (w, h, xs);
    let (a, b) = (grad(&p, g), grad(&p, u));
    close(&a.0, &b.0);
    close(&a.1, &b.1);
    close(&a.2, &b.2);
    let v = (p.0.cos(), p.1.cos(), p.2.cos());
    let (a, b) = (jvp(&p, &v, g).expect("jvp"), jvp(&p, &v, u).expect("jvp"));
    close(&a.1, &b.1);
    let (a, b) = (hvp(&p, &v, g).expect("hvp"), hvp(&p, &v, u).expect("hvp"));
    close(&a.1.0, &b.1.0);
    close(&a.1.1, &b.1.1);
    close(&a.1.2, &b.1.2);
}

#[test]
fn a_choice_runs_one_branch() {
    let f = |x: &Tensor| cond(&x.sum().gt(0.0), || x.sqrt().sum(), || x.neg().sum()).expect("a choice");
    for x in [Tensor::from([4.0f64, 9.0]), Tensor::from([-4.0f64, -9.0]), Tensor::from([0.0f64, 0.0])] {
        let compiled = jit(move |x: Tensor| f(&x));
        close(&f(&x), &compiled.call(x.clone()).expect("a value"));
        let g = grad(&x, f);
        let h = jit(move |x: Tensor| grad(&x, f));
        close(&g, &h.call(x.clone()).expect("a value"));
    }
    close(&grad(&Tensor::from([0.0f64, 0.0]), f), &Tensor::from([-1.0f64, -1.0]));
}

#[test]
fn a_loop_with_a_bound_has_a_gradient() {
    let f = |x: &Tensor| while_loop(Some(10), x.clone(), |x| x.lt(100.0), |x| &x * &x).expect("a loop");
    let x = Tensor::scalar(3.0f64);
    close(&f(&x), &Tensor::scalar(6561.0f64));
    close(&jit(move |x: Tensor| f(&x)).call(x.clone()).expect("a value"), &Tensor::scalar(6561.0f64));
    close(&grad(&x, f), &Tensor::scalar(8.0 * 3.0f64.powi(7)));
    close(&jvp(&x, &Tensor::scalar(1.0f64), f).expect("jvp").1, &Tensor::scalar(8.0 * 3.0f64.powi(7)));
    close(&hvp(&x, &Tensor::scalar(1.0f64), f).expect("hvp").1, &Tensor::scalar(56.0 * 3.0f64.powi(6)));
    let f = |x: &Tensor| while_loop(None, x.clone(), |x| x.lt(100.0), |x| &x * &x).expect("a loop");
    close(&jit(move |x: Tensor| f(&x)).call(x.clone()).expect("a value"), &Tensor::scalar(6561.0f64));
    close(&jvp(&x, &Tensor::scalar(1.0f64), f).expect("jvp").1, &Tensor::scalar(8.0 * 3.0f64.powi(7)));
    assert_eq!(grad(&x, f).check().expect_err("refused").code(), "E711");
}

#[test]
fn a_scan_is_batched() {
    let (w, h, xs) = data();
    let hs = Tensor::from([[0.1f64, -0.2, 0.3], [0.4, 0.5, -0.6]]);
    let one = |h: &Tensor| rnn(&w, h, &xs);
    let made = vmap(&hs, |h| one(h)).expect("a batch");
    let each: Vec<f64> = (0..2).map(|i| one(&hs.select(0, i)).item::<f64>().expect("a value")).collect();
    close(&made, &Tensor::from_vec(each, [2]));
    let all = xs.unsqueeze(0).expand([2, 4, 3]);
    let made = vmap(&(hs.clone(), all), |(h, xs)| rnn(&w, h, xs)).expect("a batch");
    close(&made, &vmap(&hs, |h| one(h)).expect("a batch"));
    let g = vmap(&hs, |h| grad(h, one)).expect("a batch");
    let t = grad(&hs, |hs| vmap(hs, |h| one(h)).expect("a batch").sum());
    close(&g, &t);
    close(&g.select(0, 1), &grad(&hs.select(0, 1), one));
    let _ = h;
}

#[test]
fn steps_without_slices_and_in_reverse() {
    let f = |x: &Tensor| {
        let (last, all) = scan_n(3, x.clone(), |x: Tensor| (&x * 2.0, &x + 1.0)).expect("a loop");
        let (back, _) = scan_reverse(last, &all, |c: Tensor, a: Tensor| (&c * &a, ())).expect("a loop");
        back
    };
    let x = Tensor::scalar(1.5f64);
    let want = 1.5 * 8.0 * 2.5 * 4.0 * 7.0;
    close(&f(&x), &Tensor::scalar(want));
    close(&jit(move |x: Tensor| f(&x)).call(x.clone()).expect("a value"), &Tensor::scalar(want));
}

#[test]
fn a_line_prints_its_programs() {
    let f = jit(|(w, xs): (Tensor, Tensor)| {
        let h = Tensor::from([0.0f32, 0.0]);
        let (h, ys) = scan(h, &xs, |h: Tensor, x: Tensor| {
            let h = (&h * &w + x).tanh();
            (h.clone(), h)
        })?;
        cond(&h.sum().gt(0.0), || &h + &ys, || ys.neg())
    })
    .named("f")
    .keep_traces();
    f.call((Tensor::from([0.5f32, 0.1]), Tensor::from([[0.0f32, 0.0], [1.0, 1.0], [2.0, 2.0]]))).expect("a value");
    let text = f.trace("simplified").expect("a stage");
    let lines: Vec<&str> = text.lines().skip(1).map(|l| l.split("  //").next().unwrap_or(l).trim_end()).collect();
    expect_test::expect![[r#"
        fn f(in0: f32[2], in1: f32[3, 2], captured.0: f32[2]) {
          (captured.1: f32[2], tanh.1: f32[3, 2]) = scan([captured.0], [in1], [in0], length=3) {
            body(in0.1: f32[2], in1.1: f32[2], in0.2: f32[2]) {
              mul: f32[2] = mul(in0.1, in0.2)
              add: f32[2] = add(mul, in1.1)
              tanh: f32[2] = tanh(add)
              return tanh, tanh
            }
          }
          sum: f32[] = sum(captured.1, keepdim=false)
          gt: bool[] = gt(sum, 0.0)
          neg.1: f32[3, 2] = cond(gt, [captured.1, tanh.1]) {
            then(captured.2: f32[2], tanh.2: f32[3, 2]) {
              add.1: f32[3, 2] = add(captured.2, tanh.2)
              return add.1
            }
            otherwise(captured.3: f32[2], tanh.3: f32[3, 2]) {
              neg: f32[3, 2] = neg(tanh.3)
              return neg
            }
          }
          return neg.1
        }"#]]
    .assert_eq(&lines.join("\n"));
    let read = fulgurite::Trace::parse(&text).expect("a trace");
    let plain = fulgurite::trace::PrintOptions::plain();
    assert_eq!(fulgurite::Trace::parse(&read.print(&plain)).expect("a trace").print(&plain), read.print(&plain));
    assert_eq!(read.print(&plain).trim(), lines.join("\n").trim());
}

/// A view whose base was written is taken again where it is used first. That must be outside of a region without
/// gradients, and in a program of a line the view is a value from outside.
#[test]
fn a_view_of_what_was_written_keeps_its_gradient_where_it_is_used_first() {
    let x = Tensor::from([0.3f64, 0.5]);
    let first_without_gradient = grad(&x, |x| {
        let y = x * 1.0;
        let view = y.reshape([2, 1]);
        y.add_(x);
        no_grad(|| &view * 2.0);
        (&view * 3.0).sum()
    });
    close(&first_without_gradient, &Tensor::from([6.0f64, 6.0]));
    let in_a_program = grad(&x, |x| {
        let y = x * 1.0;
        let view = y.reshape([2, 1]);
        y.add_(x);
        let then = || {
            no_grad(|| &view * 2.0);
            &view * 3.0
        };
        cond(&Tensor::scalar(1.0f64).gt(0.0), then, || &view * 1.0).expect("a choice").sum()
    });
    close(&in_a_program, &Tensor::from([6.0f64, 6.0]));
}

/// A function with a custom backward that reads a captured tensor.
fn scaled(x: &Tensor, by: &Tensor) -> Tensor {
    let by = by.clone();
    custom_vjp(x, |x| (x.sin(), ()), move |(), ct: &Tensor| ct * &by)
}

/// Calls [`scaled`] once: directly, in a choice, in a loop, or in a batch, as `way` says.
fn scaled_in(way: usize, x: &Tensor, by: &Tensor) -> Tensor {
    let holds = Tensor::scalar(1.0f64).gt(0.0);
    let made = match way {
        0 => Ok(scaled(x, by)),
        1 => cond(&holds, || scaled(x, by), || x * 7.0),
        2 => cond(&holds.logical_not(), || x * by, || scaled(x, by)),
        3 => scan_n(1, x.clone(), |x: Tensor| (scaled(&x, by), ())).map(|(x, ())| x),
        4 => scan_n(1, (), |()| ((), scaled(x, by))).map(|((), xs)| xs.select(0, 0)),
        5 => {
            let first = (Tensor::scalar(0i64), x.clone());
            let step = |(n, x): (Tensor, Tensor)| (n + 1, scaled(&x, by));
            while_loop(Some(3), first, |(n, _)| n.lt(1), step).map(|(_, x)| x)
        }
        6 => scan_n(1, x.clone(), |x: Tensor| {
            let chosen = cond(&x.sum().lt(100.0), || scaled(&x, by), || x.clone());
            (chosen.unwrap_or_else(Tensor::poisoned), ())
        })
        .map(|(x, ())| x),
        7 => vmap(&x.unsqueeze(0), |x| scaled_in(1, x, by)).map(|x| x.select(0, 0)),
        8 => vmap(&x.unsqueeze(0), |x| scaled(x, by)).map(|x| x.select(0, 0)),
        // the tensor is an argument of the batch that all slices share
        _ => {
            vmap_with(&(x.unsqueeze(0), by.clone()), &[Some(0), None], |(x, by)| scaled(x, by)).map(|x| x.select(0, 0))
        }
    };
    made.unwrap_or_else(Tensor::poisoned)
}

/// A custom backward reads a tensor that it captures when it runs, also in a program of a line, which writes nothing.
#[test]
fn a_custom_backward_in_a_program_reads_what_it_captures_when_it_runs() {
    let x = Tensor::from([0.3f64, 0.5]);
    let by = || Tensor::from([2.0f64, 3.0]);
    for way in 0..10 {
        close(&grad(&x, |x| scaled_in(way, x, &by()).sum()), &by());
        let captured = by();
        let inside = captured.clone();
        close(&grad(&x, |x| scaled_in(way, x, &captured).sum()), &by());
        let compiled = jit(move |x: Tensor| grad(&x, |x| scaled_in(way, x, &inside).sum()));
        close(&compiled.call(x.clone()).expect("a gradient"), &by());
        captured.mul_(2.0);
        close(&compiled.call(x.clone()).expect("a gradient"), &(by() * 2.0));
        // the function writes the tensor before the line, and again behind it
        let before = 10.0;
        let written = |x: &Tensor, by: &Tensor| {
            by.mul_(before);
            let made = scaled_in(way, x, by);
            by.mul_(10.0);
            made.sum()
        };
        let at_once = by();
        close(&grad(&x, |x| written(x, &at_once)), &(by() * before * 10.0));
        let given = by();
        let inside = given.clone();
        let f = jit(move |x: Tensor| written(&x, &inside));
        let (_, pull) = f.pullback(x.clone()).expect("a value");
        given.mul_(10.0);
        let of_x = pull.run(&Tensor::scalar(1.0f64)).expect("a gradient");
        close(&of_x, &(by() * before * 100.0));
    }
    // a gradient inside of the program
    let inner = |x: &Tensor| grad(x, |x| scaled(x, &by()).sum());
    let chosen = cond(&x.sum().gt(0.0), || inner(&x), || x.clone()).expect("a choice");
    close(&chosen, &by());
    let steps = jit(move |x: Tensor| scan_n(2, x, |x: Tensor| (inner(&x), ())).map(|(x, ())| x));
    close(&steps.call(x.clone()).expect("a value"), &by());
    // the second derivative reads the tensor too
    let twice = |x: &Tensor| {
        let by = by();
        let square = custom_vjp(x, |x| (x * 1.0, x.clone()), move |x, ct: &Tensor| ct * x.square() * &by);
        square.sum()
    };
    let in_a_choice = |x: &Tensor| cond(&x.sum().gt(0.0), || twice(x), || x.sum()).unwrap_or_else(Tensor::poisoned);
    let (want, have) = (hvp(&x, &by(), twice), hvp(&x, &by(), in_a_choice));
    assert_eq!(want.as_ref().err().map(|e| e.code()), have.as_ref().err().map(|e| e.code()));
    let second = |f: &dyn Fn(&Tensor) -> Tensor| grad(&x, |x| grad(x, f).sum());
    close(&second(&in_a_choice), &(&x * by() * 2.0));
    close(&second(&twice), &(&x * by() * 2.0));
}

/// A custom backward in a program of a line may not write, neither to a tensor from outside nor to a carry.
#[test]
fn a_custom_backward_in_a_program_writes_nothing() {
    let x = Tensor::from([0.3f64, 0.5]);
    let counting = |x: &Tensor, count: &Tensor| {
        let count = count.clone();
        custom_vjp(
            x,
            |x| (x.sin(), ()),
            move |(), ct: &Tensor| {
                count.add_(1.0);
                ct.clone()
            },
        )
    };
    let said = |made: Tensor| made.check().expect_err("refused").to_string().lines().next().unwrap_or("").to_owned();
    let outside = Tensor::scalar(0.0f64);
    let choice = |x: &Tensor| cond(&x.sum().gt(0.0), || counting(x, &outside), || x.clone());
    let steps = |x: &Tensor| {
        let first = (x.clone(), outside.clone());
        scan_n(2, first, |(x, n): (Tensor, Tensor)| ((counting(&x, &n), n), ())).map(|((x, _), ())| x)
    };
    let all = [
        said(grad(&x, |x| choice(x).unwrap_or_else(Tensor::poisoned).sum())),
        said(grad(&x, |x| steps(x).unwrap_or_else(Tensor::poisoned).sum())),
    ];
    assert_eq!(
        all,
        [
            "error[E759]: a program of a line writes to a tensor f64[] from outside",
            "error[E759]: a program of a line writes to `0.1` in place",
        ]
    );
    assert_eq!(outside.item::<f64>().expect("a number"), 0.0);
}
