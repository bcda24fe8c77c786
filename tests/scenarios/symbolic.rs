//! Symbolic sizes: one program for all sizes that its guards admit.

use super::program::{cut, numbers, of, parse, run};
use fulgurite::bind::SymbolicTrace;
use fulgurite::core::loc::Loc;
use fulgurite::foreign::{self, Given};
use fulgurite::jit::Stats;
use fulgurite::ops::{self, Conv, Mean, Slice, Std, Var, VarMean, arange, cat, full};
use fulgurite::prelude::*;
use fulgurite::trace::{PrintOptions, Trace};

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

fn program(text: &str) -> Trace {
    let trace = parse(text);
    let printed = trace.print(&PrintOptions::plain());
    assert_eq!(printed, parse(&printed).print(&PrintOptions::plain()), "what is printed reads back");
    trace
}

/// The scenario of the same number in `s0`, with sizes that are symbolic: none is a value of the program.
#[test]
fn s0_5_a_sum_with_a_position_grid() {
    let f = |a: Tensor, _: Tensor| {
        let [_, n, m] = a.dims();
        let grid = arange(n * m).reshape((1, 1, n, m));
        let (_, g) = value_and_grad(&a, |a| (a.unsqueeze(1) + &grid).sum());
        cat(&[a.unsqueeze(1) + grid, g.unsqueeze(1)])
    };
    once(f, &[(&[2, 3, 4], &[]), (&[5, 3, 4], &[]), (&[5, 2, 7], &[])], &[]);
    let text = "fn f[n = 2](a: f32[n, 3, 4]) {\n r: i64[12] = arange(stop=12)\n b: i64[1, 1, 3, 4] = reshape(r, shape=[1, 1, 3, 4])\n u: f32[n, 1, 3, 4] = unsqueeze(a, dim=1)\n o: f32[n, 1, 3, 4] = add(u, b)\n return o\n}";
    let split = cut(&program(text));
    let lines = |t: &Trace| t.lines().iter().map(|l| l.symbol.name()).collect::<Vec<_>>();
    assert_eq!(lines(&split.forward), ["arange", "reshape", "unsqueeze", "add"]);
    assert_eq!((split.plan.tensors.len(), split.plan.numbers.len()), (0, 0));
}

#[test]
fn s0_6_broadcasts() {
    let text =
        "fn f[b = 2, c = 4](a: f64[b, c, 3, 3], w: f64[b, 1, 3, 3]) {\n o: f64[b, c, 3, 3] = add(a, w)\n return o\n}";
    let split = cut(&program(text));
    assert_eq!((split.plan.tensors.len(), split.plan.numbers.len(), split.forward.saved), (0, 0, 0));
    for (b, c) in [(2, 4), (3, 5)] {
        let sizes = |name: &str| Some(if name == "b" { b as i64 } else { c as i64 });
        let back = SymbolicTrace::of(&split.backward).at(&sizes).expect("binds at other sizes");
        let grads = numbers(&run(&back, &[of(&vec![1.0; b * c * 9], &[b as i64, c as i64, 3, 3])]));
        assert_eq!(grads, [vec![1.0; b * c * 9], vec![c as f64; b * 9]]);
    }
}

/// Numbers are numbers of the run, however sizes are treated; `Fixed` ones are part of the program.
#[test]
fn s0_16_a_number_is_kept_and_a_fixed_one_is_not() {
    let f = jit(|x: Tensor, s: Tensor, Fixed(k): Fixed<f64>| grad(&x, |x| (x.sin() * &s * k).sum())).keep_traces();
    let f = f.caching(Caching::Symbolic);
    let call = |n: usize, s: f64, k: f64| f.call((ramp(&[n]), Tensor::from(s), Fixed(k))).unwrap().to_f64().unwrap()[0];
    let want = |s: f64, k: f64| f64::from((-1.0f32 + 0.25 * 3.0).cos()) * s * k;
    for (n, s, k) in [(4, 2.0, 3.0), (5, 2.5, 3.0), (6, 2.0, 3.0), (6, 2.0, 4.0)] {
        assert!((call(n, s, k) - want(s, k)).abs() < 1e-5, "{n} {s} {k}");
    }
    assert_eq!(f.stats().misses.len(), 2, "{}", f.stats());
    assert_eq!(f.stats().misses[1].reasons, ["fixed `2` was 3.0, is 4.0"]);
}

/// Of two sizes that differ, a guard says which is 1: so a batch of 1 meets the program of larger ones.
#[test]
fn a_size_of_1_that_broadcasts_serves_every_size_of_the_other() {
    let f = |x: Tensor, y: Tensor| {
        let (_, (dx, dy)) = value_and_grad(&(x.clone(), y.clone()), |(x, y)| (x * y).exp().sum());
        (x + y) * dx.cos() + dy
    };
    let calls: &[(&[usize], &[usize])] = &[(&[3, 4], &[1, 4]), (&[1, 4], &[1, 4]), (&[5, 2], &[1, 2])];
    once(f, calls, &["in1.0 == 1", "in0.1 == in1.1"]);
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
    // slices to a symbolic end, windows, and what is put together
    let ends = |x: Tensor, _: Tensor| {
        let [n, _] = x.dims();
        cat(&[x.slice_with(Slice { start: 1.into(), ..d() }), x.slice_with(Slice { stop: (n - 1).into(), ..d() })])
    };
    once(ends, &[(&[4, 3], none), (&[9, 2], none)], &["in0.0 > 1"]);
    let windows = |x: Tensor, w: Tensor| x.conv_with(&w, None, Conv { padding: 1.into(), ..d() });
    let calls: [(&[usize], &[usize]); 2] = [(&[2, 3, 8], &[5, 3, 3]), (&[1, 2, 11], &[4, 2, 3])];
    let (guards, stats) = agree(windows, &calls);
    assert_eq!(stats.misses.len(), 1, "{guards:?} {stats}");
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

/// State in place, captured tensors, writes, keys and donated memory are what they are with constant sizes.
#[test]
fn writes_keys_and_captured_tensors_work_at_all_sizes() {
    let run = |caching: Caching| {
        let count = Tensor::from_vec(vec![1f32, 2.0, 3.0], 3);
        let f = jit({
            let count = count.clone();
            move |(mut x, k): (Tensor, Key), y: Tensor| {
                count.copy_(&(&count + y.sum()));
                x += &y * &count.sum();
                let x = x.dropout(&k);
                ((x, k), y.mean())
            }
        });
        let f = f.caching(caching);
        let mut seen = Vec::new();
        for n in [3, 5, 3, 8, 2] {
            let mut state = (ramp(&[n]), Key::new(5));
            for i in 0..2 {
                seen.push(bits(&f.update(&mut state, ramp(&[n]) * (i + 1)).unwrap_or_else(|e| panic!("{e}"))));
                seen.push(bits(&state.0));
            }
            seen.push(bits(&count));
        }
        (seen, f.stats())
    };
    let (symbolic, stats) = run(Caching::Symbolic);
    assert_eq!(symbolic, run(Caching::Constant).0);
    assert_eq!((stats.misses.len(), stats.plans), (1, 3), "{stats}");
}

#[test]
fn an_argument_that_is_written_may_be_another_one() {
    let run = |caching: Caching| {
        let f = jit(|x: Tensor, y: Tensor| {
            x.copy_(&(&x + 1.0));
            &x * &y
        })
        .caching(caching);
        let mut seen = Vec::new();
        for n in [3, 4] {
            let (x, y) = (ramp(&[n]), ramp(&[n]));
            seen.push(bits(&f.call((x.clone(), y)).unwrap()));
            seen.push(bits(&f.call((x.clone(), x.clone())).unwrap()));
            seen.push(bits(&x));
        }
        (seen, f.stats())
    };
    let (symbolic, stats) = run(Caching::Symbolic);
    assert_eq!(symbolic, run(Caching::Constant).0);
    assert_eq!(stats.misses.len(), 2, "one for each pattern of shared tensors: {stats}");
}

#[test]
fn errors_are_those_of_constant_sizes() {
    let f = |x: Tensor, y: Tensor| x.matmul(&y);
    let say = |caching| jit(f).caching(caching).call((ramp(&[2, 3]), ramp(&[4, 5]))).unwrap_err().to_string();
    assert_eq!(say(Caching::Symbolic), say(Caching::Constant));
}

#[test]
fn what_is_printed_reads_back() {
    let f = jit(|x: Tensor, y: Tensor| grad(&x, |x| x.reshape((-1, 2)).matmul(&y).square().mean()));
    let f = f.caching(Caching::Symbolic).keep_traces();
    f.call((ramp(&[4, 3]), ramp(&[2, 5]))).unwrap();
    for stage in ["acquired", "joint", "simplified"] {
        let text = f.trace(stage).expect("kept");
        assert!(text.contains("/ 2"), "{text}");
        program(&text);
    }
}

/// Checkpoints, autocast, recomputation by a budget, tangents and second derivatives.
#[test]
fn regions_and_second_derivatives_stay_symbolic() {
    let loss = |x: &Tensor, y: &Tensor| {
        let h = checkpoint(|| x.matmul(y).tanh());
        let h = autocast(DType::BF16, || h.matmul(&y.transpose(0, 1)));
        no_grad(|| h.sum()) * h.square().mean()
    };
    let calls: &[(&[usize], &[usize])] = &[(&[4, 3], &[3, 2]), (&[9, 2], &[2, 7]), (&[2, 5], &[5, 2])];
    let first = move |x: Tensor, y: Tensor| grad(&x, |x| loss(x, &y));
    let second = move |x: Tensor, y: Tensor| {
        let v = &x * 0.5;
        hvp(&x, &v, |x| loss(x, &y)).map_or_else(Tensor::poisoned, |(g, h)| g + h)
    };
    for (guards, stats) in [agree(first, calls), agree(second, calls)] {
        assert_eq!((&guards[0][..], stats.misses.len()), ("in0.1 == in1.0", 1), "{guards:?} {stats}");
    }
    let f = jit(first).caching(Caching::Symbolic).rematerialise(fulgurite::transforms::Remat::Share(0.5));
    let plain = jit(first);
    for (x, y) in calls {
        let args = (ramp(x), ramp(y));
        assert_eq!(bits(&f.call(args.clone()).unwrap()), bits(&plain.call(args).unwrap()));
    }
    assert_eq!(f.stats().misses.len(), 1, "{}", f.stats());
}

/// A trace is bound again at other sizes line by line: what does not fit there is refused, and never planned.
#[test]
fn a_trace_that_is_wrong_at_other_sizes_is_refused() {
    let at = |text: &str, n: i64, m: i64| {
        let trace = SymbolicTrace::of(&parse(text)).at(&|name| Some(if name == "n" { n } else { m }));
        trace.map(|t| t.print(&PrintOptions::plain())).map_err(|e| e.code())
    };
    let halves = "fn f[n = 4](x: f32[n]) {\n  y: f32[2, n / 2] = reshape(x, shape=[2, -1])\n  return y\n}\n";
    assert_eq!(at(halves, 6, 0).unwrap(), halves.replace("[n = 4]", "").replace("n / 2", "3").replace("[n]", "[6]"));
    assert_eq!(at(halves, 5, 0), Err("E701"));
    let product = "fn f[n = 4, m = 4](x: f32[n], w: f32[m]) {\n  y: f32[n] = mul(x, w)\n  return y\n}\n";
    assert_eq!(at(product, 3, 3).map(drop), Ok(()));
    assert_eq!(at(product, 3, 5), Err("E701"));
    assert_eq!(at(product, 1, 5), Err("E730"), "the result would have another size than the trace says");
    assert_eq!(at(product, i64::MAX / 8, i64::MAX / 8).map(drop), Ok(()));
    assert_eq!(at(product, i64::MAX, i64::MAX), Err("E704"), "no memory has so many bytes");
    let grown = "fn f[n = 4](x: f32[n, n]) {\n  y: f32[n*n] = reshape(x, shape=[-1])\n  return y\n}\n";
    assert_eq!(at(grown, i64::MAX, 0), Err("E704"));
}

/// What the sizes of a batch do not reach, here the step of the weights, is compiled once for all plans. Its results,
/// writes and errors are those of one program.
#[test]
fn what_no_size_reaches_is_compiled_once() {
    let step = |(w, m, at): (Tensor, Tensor, Tensor), x: Tensor| {
        let (loss, g) = value_and_grad(&w, |w| (&x * w).tanh().square().sum());
        let m = &m * 0.9 + &g * 0.1;
        let size = (&m * &m).sum().sqrt() + 1e-3;
        let w = &w - &m / &size * 0.5 + (&w * 0.01).sin();
        let picked = w.take(&at);
        ((w, m, at), loss + picked.sum())
    };
    let run = |caching: Caching| {
        let f = jit(step).caching(caching).keep_traces();
        let mut state = (ramp(&[4]), ramp(&[4]) * 0.1, Tensor::from([1i64, 3]));
        let mut seen = Vec::new();
        for n in [3, 5, 3, 8, 1] {
            seen.push(bits(&f.update(&mut state, ramp(&[n, 4])).unwrap_or_else(|e| panic!("{e}"))));
            seen.extend([bits(&state.0), bits(&state.1)]);
        }
        // a failure behind the part that was planned anew leaves the state as it was
        let mut wrong = (state.0.clone(), state.1.clone(), Tensor::from([1i64, 9]));
        drop(state);
        let before = (bits(&wrong.0), bits(&wrong.1));
        let error = f.update(&mut wrong, ramp(&[2, 4])).expect_err("no such element");
        assert!(error.to_string().contains("take"), "{error}");
        assert_eq!((bits(&wrong.0), bits(&wrong.1)), before, "{caching:?}");
        (seen, f)
    };
    let (symbolic, f) = run(Caching::Symbolic);
    assert_eq!(symbolic, run(Caching::Constant).0);
    assert_eq!((f.stats().misses.len(), f.stats().plans), (1, 4), "{}", f.stats());
    let text = f.trace("compiled").expect("kept");
    assert_eq!(text.matches(" steps, arena").count(), 2, "two programs:\n{text}");
    // other weights: not what was guessed, and right all the same
    let mut other = (ramp(&[6]), ramp(&[6]), Tensor::from([5i64, 0]));
    let mut same = (ramp(&[6]), ramp(&[6]), Tensor::from([5i64, 0]));
    let got = bits(&f.update(&mut other, ramp(&[2, 6])).expect("runs"));
    assert_eq!(got, bits(&jit(step).update(&mut same, ramp(&[2, 6])).expect("runs")));
    assert_eq!((bits(&other.0), f.stats().misses.len()), (bits(&same.0), 1));
}

/// A number that is computed of a size and an option stays a size: a variance asks at most whether there are elements.
#[test]
fn a_variance_is_compiled_once_for_all_sizes() {
    let none: &[usize] = &[];
    let sizes: [(&[usize], &[usize]); 3] = [(&[3, 2], none), (&[5, 2], none), (&[7, 4], none)];
    let mean_alone =
        |x: Tensor, _: Tensor| grad(&x, |x| ops::var_mean_with(x, VarMean { dims: 0.into(), ..d() }).1.square().sum());
    once(mean_alone, &sizes, &["in0.0 > 0"]);
    once(|x, _| grad(&x, |x| x.var()), &sizes, &["in0.0*in0.1 > 0"]);
    once(|x, _| grad(&x, |x| x.std_with(Std { correction: 0.0, ..d() })), &sizes, &["in0.0*in0.1 > 0"]);
    once(|x, _| x.var_with(Var { correction: 0.5, ..d() }), &sizes, &[]);
}

/// A guard whose bound lies at an end of `i64` neither panics nor wraps.
#[test]
fn bounds_at_the_ends_of_numbers_are_no_panic() {
    for offset in [i64::MIN, i64::MIN + 1, i64::MIN + 2, i64::MAX - 1, i64::MAX] {
        let f = jit(move |x: Tensor| x.diagonal_with(ops::Diagonal { offset: offset.into(), ..Default::default() }));
        let f = f.caching(Caching::Symbolic);
        for n in [1, 3] {
            match f.call(ramp(&[n, n])) {
                Ok(y) => assert_eq!(y.numel().value(), 0, "{offset}"),
                Err(e) => assert!(e.code().starts_with("E70"), "{e}"),
            }
        }
    }
    let n = Dim::atom("n", 3);
    for far in [i64::MIN, i64::MAX] {
        let minus = -1;
        let made = [n + far, n - far, n * far, far - n, (n * far) / minus, (n + far) % minus, (n * minus) * far];
        for size in made {
            let _ = (size.to_string(), size < n, size == n, size.value());
        }
    }
    let _ = fulgurite_core::dim::recorded().iter().map(ToString::to_string).collect::<Vec<_>>();
}

#[test]
fn a_size_is_a_number_of_a_call_by_another_name() {
    let none: &[usize] = &[];
    let call = |name: &str, args: &[Given]| {
        let outs = foreign::call(name, args, &[], None, Loc::NOWHERE).unwrap_or_else(|e| panic!("{e}")).outs;
        outs.into_iter().next().flatten().expect("one result")
    };
    // an option of a composite, and a number in the place of a tensor
    let f = move |x: Tensor, _: Tensor| {
        let [n, m] = x.dims();
        let steps = call("aten.arange.start_step", &[Given::Int(0), Given::Size(m), Given::Int(1)]);
        x + call("aten.add.Tensor", &[Given::Tensor(steps), Given::Size(n)])
    };
    once(f, &[(&[4, 3], none), (&[9, 2], none), (&[2, 5], none)], &[]);
}
