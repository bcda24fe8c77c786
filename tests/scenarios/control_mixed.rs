//! Control flow beside everything else: sizes, regions, custom backwards, keys, checkpoints, transforms, refusals.

use fulgurite::bind::Rewriter;
use fulgurite::core::Name;
use fulgurite::ops;
use fulgurite::prelude::*;
use fulgurite::transforms::{At, Remat};

fn ramp(sizes: &[usize], at: usize) -> Tensor {
    let n: usize = sizes.iter().product();
    Tensor::from_vec((0..n).map(|i| ((i * 7 + at) % 13) as f64 * 0.125 - 0.5).collect::<Vec<f64>>(), sizes)
}

#[track_caller]
fn close(a: &Tensor, b: &Tensor) {
    let (a, b) = (a.to_f64().expect("a value"), b.to_f64().expect("a value"));
    assert!(near(&a, &b), "{a:?} {b:?}");
}

fn near(a: &[f64], b: &[f64]) -> bool {
    let one = |(x, y): (&f64, &f64)| (x - y).abs() <= 1e-7 * (1.0 + x.abs()) || x.to_bits() == y.to_bits();
    a.len() == b.len() && a.iter().zip(b).all(one)
}

fn recur(w: &Tensor, xs: &Tensor) -> Tensor {
    let h = w.sum_with(ops::Sum { dims: vec![0].into(), ..d() });
    let (h, ys) = scan(h, xs, |h: Tensor, x: Tensor| {
        let h = (h.matmul(w) + x).tanh();
        (h.clone(), h.square())
    })
    .expect("a scan");
    h.sum() + ys.sum()
}

#[test]
fn one_program_runs_loops_of_all_lengths() {
    let f = |(w, xs): (Tensor, Tensor)| value_and_grad(&(w, xs), |(w, xs)| recur(w, xs));
    let (symbolic, constant) = (jit(f).caching(Caching::Symbolic), jit(f));
    for (n, m) in [(3, 2), (5, 2), (1, 4), (4, 3), (0, 3)] {
        let p = (ramp(&[m, m], 1), ramp(&[n, m], 2));
        let (a, b) = (symbolic.call(p.clone()).expect("a value"), constant.call(p).expect("a value"));
        close(&a.0, &b.0);
        close(&a.1.0, &b.1.0);
        close(&a.1.1, &b.1.1);
    }
}

#[test]
fn regions_and_budgets_change_no_gradient() {
    let p = (ramp(&[3, 3], 1), ramp(&[4, 3], 2));
    let want = grad(&p, |(w, xs)| recur(w, xs));
    let with = |remat| jit(|p: (Tensor, Tensor)| grad(&p, |(w, xs)| recur(w, xs).exp())).rematerialise(remat);
    let plain = with(Remat::Share(1.0)).call(p.clone()).expect("a value");
    for share in [0.0, 0.3] {
        close(&with(Remat::Share(share)).call(p.clone()).expect("a value").0, &plain.0);
    }
    let g =
        jit(|p: (Tensor, Tensor)| grad(&p, |(w, xs)| checkpoint(|| recur(w, xs)))).call(p.clone()).expect("a value");
    close(&g.0, &want.0);
    close(&g.1, &want.1);
    let none = jit(|p: (Tensor, Tensor)| grad(&p, |(w, xs)| w.sum() + no_grad(|| recur(w, xs)))).call(p.clone());
    close(&none.expect("a value").1, &(&p.1 * 0.0));
    let (_, back) = jit(|(w, xs): (Tensor, Tensor)| recur(&w, &xs)).pullback(p).expect("a pullback");
    let apart = back.run(&Tensor::scalar(1.0f64)).expect("a gradient");
    close(&apart.0, &want.0);
}

#[test]
fn autocast_applies_inside() {
    let run = |w: &Tensor, xs: &Tensor| {
        autocast(DType::BF16, || scan(xs.select(0, 0), xs, |h, x| ((h.matmul(w) + x).cast(DType::F32), ())))
    };
    let (w, xs) = (ramp(&[3, 3], 1).cast(DType::F32), ramp(&[4, 3], 2).cast(DType::F32));
    let at_once = run(&w, &xs).expect("a value").0;
    let made = jit(move |(w, xs): (Tensor, Tensor)| run(&w, &xs)).keep_traces();
    close(&made.call((w.clone(), xs.clone())).expect("a value").0, &at_once);
    assert!(made.trace("simplified").expect("a stage").contains("bf16[3]"));
    let loose =
        |w: &Tensor, xs: &Tensor| autocast(DType::BF16, || scan(xs.select(0, 0), xs, |h, _: Tensor| (h.matmul(w), ())));
    assert_eq!(loose(&w, &xs).expect_err("refused").code(), "E758");
    let traced = jit(move |(w, xs): (Tensor, Tensor)| loose(&w, &xs)).call((w, xs));
    assert_eq!(traced.expect_err("refused").code(), "E758");
}

#[test]
fn a_backward_of_its_own_counts_inside() {
    let double = |x: &Tensor| custom_vjp(x, |x| (x.sin(), x.clone()), |x, ct: &Tensor| x.cos() * ct * 2.0);
    let f = move |x: &Tensor| scan_n(3, x.clone(), |x: Tensor| (double(&x), ())).expect("a loop").0.sum();
    let unrolled = move |x: &Tensor| double(&double(&double(x))).sum();
    let x = ramp(&[3], 4);
    close(&grad(&x, f), &grad(&x, unrolled));
    close(&jit(move |x: Tensor| f(&x)).call(x.clone()).expect("a value"), &unrolled(&x));
    close(&jit(move |x: Tensor| grad(&x, f)).call(x.clone()).expect("a value"), &grad(&x, unrolled));
}

#[test]
fn keys_are_captured_sliced_and_carried() {
    let draw = |k: &Key| ops::randn(k, [2]);
    let fixed = move |k: &Key| scan_n(2, (), |()| ((), draw(k))).expect("a loop").1;
    let carried = move |k: &Key| {
        let step = |k: Key| {
            let [next, now] = k.split();
            (next, draw(&now))
        };
        scan_n(2, k.clone(), step).expect("a loop").1
    };
    let key = Key::new(7);
    let compiled = jit(move |k: Key| (fixed(&k), carried(&k))).call(key.clone()).expect("a value");
    close(&compiled.0, &fixed(&key));
    close(&compiled.1, &carried(&key));
    close(&compiled.0.select(0, 0), &compiled.0.select(0, 1));
    let (a, b) =
        (compiled.1.select(0, 0).to_f64().expect("numbers"), compiled.1.select(0, 1).to_f64().expect("numbers"));
    assert_ne!(a, b);
}

#[test]
fn a_line_without_readers_is_removed_and_one_that_may_refuse_stays() {
    let text = |index: bool| {
        let f = jit(move |(x, i): (Tensor, Tensor)| {
            _ = scan_n(2, x.clone(), |x: Tensor| {
                let y = if index { x.index_select(&i, 0) } else { x.sin() };
                (y, ())
            })?;
            Ok::<_, Error>(x.cos())
        })
        .keep_traces();
        f.call((ramp(&[2], 1), Tensor::from([1i64, 0]))).expect("a value");
        let wrong = f.call((ramp(&[2], 1), Tensor::from([1i64, 5])));
        (f.trace("simplified").expect("a stage").contains("scan("), wrong.err().map(|e| (e.code(), e.to_string())))
    };
    assert_eq!(text(false), (false, None));
    let (stays, refused) = text(true);
    let (code, said) = refused.expect("refused");
    assert!(stays && code == "E804" && said.contains("control_mixed.rs"), "{said}");
}

#[test]
fn loops_and_choices_nest() {
    let f = |x: &Tensor| {
        let step = |(x, n): (Tensor, Tensor)| {
            let x = cond(&x.sum().gt(0.0), || &x * 0.5 - 1.0, || x.sin() + &x * &x).expect("a choice");
            let (x, _) = scan_n(2, x, |x: Tensor| (x.tanh(), ())).expect("a loop");
            (x, n + 1)
        };
        let start = (x.clone(), Tensor::scalar(0i64));
        while_loop(Some(5), start, |(_, n)| n.lt(3), step).expect("a loop").0.sum()
    };
    let unrolled = |x: &Tensor| {
        let mut x = x.clone();
        for _ in 0..3 {
            let holds = x.sum().gt(0.0);
            x = holds.where_(&x * 0.5 - 1.0, x.sin() + &x * &x).tanh().tanh();
        }
        x.sum()
    };
    for at in 0..4 {
        let (x, v) = (ramp(&[3], at), ramp(&[3], at + 3));
        close(&jit(move |x: Tensor| f(&x)).call(x.clone()).expect("a value"), &unrolled(&x));
        close(&grad(&x, f), &grad(&x, unrolled));
        close(&jvp(&x, &v, f).expect("jvp").1, &jvp(&x, &v, unrolled).expect("jvp").1);
        close(&hvp(&x, &v, f).expect("hvp").1, &hvp(&x, &v, unrolled).expect("hvp").1);
    }
}

#[test]
fn transforms_see_the_lines_of_programs() {
    let swap = |trace: &fulgurite::Trace| {
        Rewriter::each(trace, "swap", |rewriter, line| match line.symbol.name() {
            "sin" => {
                let made = rewriter.emit(Name::new("cos"), line.args.clone(), vec![])?;
                rewriter.bind(line.outs[0], made.outs[0])
            }
            _ => rewriter.keep(),
        })
    };
    let f = jit(|x: Tensor| scan_n(1, x, |x: Tensor| (x.sin(), ()))).transform(At::Acquired, "swap", swap);
    close(&f.call(Tensor::scalar(0.0f64)).expect("a value").0, &Tensor::scalar(1.0f64));
}

#[test]
fn what_programs_can_not_do_is_refused() {
    let x = || ramp(&[2], 1);
    let code = |made: Result<Tensor>| made.and_then(|t| t.check().map(|()| t)).expect_err("refused").code();
    let write = jit(|x: Tensor| {
        let sum = Tensor::from([0.0f64, 0.0]);
        let made = scan_n(2, x, |x: Tensor| {
            sum.clone().add_(&x);
            (x, ())
        });
        made.map(|(x, _)| x + sum)
    });
    assert_eq!(code(write.call(x())), "E759");
    let own = jit(|x: Tensor| {
        scan_n(2, x, |x: Tensor| {
            x.add_(1.0);
            (x, ())
        })
        .map(|(x, _)| x)
    });
    assert_eq!(code(own.call(x())), "E759");
    let branches = jit(|x: Tensor| cond(&x.sum().gt(0.0), || x.clone(), || x.sum()));
    assert_eq!(code(branches.call(x())), "E758");
    assert_eq!(code(jit(|x: Tensor| cond(&x, || x.clone(), || x.clone())).call(x())), "E758");
    assert_eq!(code(cond(&x(), x, x)), "E758");
    let lists = jit(|x: Tensor| cond(&x.sum().gt(0.0), || vec![x.clone()], Vec::new).map(|v| v[0].clone()));
    assert_eq!(code(lists.call(x())), "E748");
    let batch = ramp(&[3, 2], 0);
    let choice = |x: &Tensor| cond(&x.sum().gt(0.0), || x.sin(), || x.cos()).unwrap_or_else(Tensor::poisoned);
    assert_eq!(code(vmap(&batch, choice)), "E726");
    let wait = |x: &Tensor| {
        let made = while_loop(Some(3), x.clone(), |x| x.sum().lt(1.0), |x| x + 1.0);
        made.unwrap_or_else(Tensor::poisoned)
    };
    assert_eq!(code(vmap(&batch, wait)), "E726");
    let masked = jit(|x: Tensor| {
        let m = x.replicate(2);
        scan_n(2, x, |x: Tensor| (m.plain() + &x, ())).map(|(x, _)| x)
    });
    assert_eq!(code(masked.call(x())), "E759");
}

#[test]
fn refusals_say_what_was_expected_and_what_to_do() {
    let x = || ramp(&[2], 1);
    let said = |made: Result<Tensor>| {
        let text = made.and_then(|t| t.check().map(|()| t)).expect_err("refused").to_string();
        let kept = |line: &&str| line.starts_with("error") || line.trim_start().starts_with("= ");
        text.lines().filter(kept).map(|line| format!("{}\n", line.trim_start())).collect::<String>()
    };
    let carry = jit(|x: Tensor| scan_n(2, x, |x: Tensor| (x.cast(DType::F32), ())).map(|(x, _)| x));
    let branches = jit(|x: Tensor| cond(&x.sum().gt(0.0), || x.clone(), || x.sum()));
    let slices = jit(|x: Tensor| scan(x.clone(), &(x, Tensor::scalar(1.0f64)), |c, _| (c, ())).map(|(x, _)| x));
    let write = jit(|x: Tensor| {
        let made = scan_n(2, x, |x: Tensor| {
            x.add_(1.0);
            (x, ())
        });
        made.map(|(x, _)| x)
    });
    let wait = |x: &Tensor| while_loop(None, x.clone(), |x| x.sum().lt(1.0), |x| x + 1.0);
    let free = grad(&x(), |x| wait(x).map_or_else(Tensor::poisoned, |x| x.sum()));
    let apart = vmap(&ramp(&[3, 2], 0), |x| wait(x).unwrap_or_else(Tensor::poisoned));
    let all = [carry.call(x()), branches.call(x()), slices.call(x()), write.call(x()), Ok(free), apart];
    expect_test::expect![[r#"
        error[E758]: the carry of a `scan` is f64[2], and a step makes it f32[2]
        = expected f64[2], found f32[2]
        = help: a carry keeps its dtype and its sizes: cast or reshape one of the two

        error[E758]: result 0 of a `cond` is f64[2] in one branch and f64[] in the other
        = expected f64[2], found f64[]
        = help: both branches give the same dtypes and sizes: cast or reshape one of them

        error[E758]: a `scan` is given f64[]
        = expected 2 slices, found f64[]
        = help: all tensors that a scan slices have one first axis; capture what every step reads whole

        error[E759]: a program of a line writes to `0` in place
        = it may run never, or many times, so the write has no place in the order of writes
        = help: make the tensor a carry, and return its new value

        error[E711]: a `while_loop` without a bound has no gradient
        = its backward needs the carries of every step, and nothing says how many there are
        = help: give a bound: `while_loop(Some(n), …)`, or put the loop in a no_grad region

        error[E726]: the condition of a `while_loop` differs from slice to slice
        = one program runs for all slices, so all of them must go the same way
        = help: give a bound, and keep a finished slice unchanged: `where` in the body
    "#]]
    .assert_eq(&all.map(said).join("\n"));
}
