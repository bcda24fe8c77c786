//! Writes in a backward, and forward and backward run apart.

use super::program::close;
use fulgurite::ErrorKind;
use fulgurite::prelude::*;

fn of(data: &[f64]) -> Tensor {
    Tensor::from_vec(data.to_vec(), data.len())
}

fn data(x: &Tensor) -> Vec<f64> {
    x.to_f64().unwrap_or_else(|e| panic!("{e}"))
}

/// The square of `x`, whose backward doubles `buf`.
fn doubling(x: &Tensor, buf: &Tensor) -> Tensor {
    let buf = buf.clone();
    custom_vjp(
        x,
        |x| (x * x, x.clone()),
        move |x, ct: &Tensor| {
            let _ = buf.mul_(2.0);
            x * ct * 2.0
        },
    )
}

fn inputs(plan: &fulgurite::transforms::MutationPlan) -> Vec<usize> {
    plan.bw_writes().iter().map(|w| w.input).collect()
}

#[test]
fn s2_1_buffer_written_in_backward() {
    let buf = of(&[3.0, 4.0]);
    let held = buf.clone();
    let f = jit(move |x: Tensor| doubling(&x, &held));
    let (y, pull) = f.pullback(of(&[1.0, 2.0])).expect("runs");
    assert_eq!((data(&y), data(&buf)), (vec![1.0, 4.0], vec![3.0, 4.0]));
    assert_eq!(inputs(pull.plan()), [1]);
    assert!(pull.plan().bw_writes_needing_grad().is_empty());
    assert_eq!(data(&pull.run(&of(&[1.0, 1.0])).expect("runs")), [2.0, 4.0]);
    assert_eq!(data(&buf), [6.0, 8.0]);

    // with a graph the first backward is the same, and the second writes nothing
    let _ = buf.copy_(&of(&[3.0, 4.0]));
    let (_, pull) = f.pullback_with_graph(of(&[1.0, 2.0])).expect("runs");
    let (g, again) = pull.run(&of(&[1.0, 1.0])).expect("a buffer needs no gradient");
    assert_eq!((data(&g), data(&buf)), (vec![2.0, 4.0], vec![6.0, 8.0]));
    let (gx, gct) = again.run(&of(&[1.0, 1.0])).expect("runs");
    assert_eq!((data(&gx), data(&gct)), (vec![2.0, 2.0], vec![2.0, 4.0]));
    assert_eq!(data(&buf), [6.0, 8.0]);
}

/// The same where the gradient is taken inside of the compiled function, and by two functions in each other.
#[test]
fn s2_1_in_one_program() {
    let buf = of(&[3.0, 4.0]);
    let held = buf.clone();
    let run = jit(move |x: Tensor| grad(&x, |x| doubling(x, &held).sum()));
    assert_eq!(data(&run.call(of(&[1.0, 2.0])).expect("runs")), [2.0, 4.0]);
    assert_eq!(data(&buf), [6.0, 8.0]);
    let held = buf.clone();
    let second = jit(move |x: Tensor| grad(&x, |x| grad(x, |x| doubling(x, &held).sum()).sum()));
    assert_eq!(data(&second.call(of(&[1.0, 2.0])).expect("runs")), [2.0, 2.0]);
    assert_eq!(data(&buf), [12.0, 16.0], "the inner backward ran once, the outer does not pass it");
    let held = buf.clone();
    assert_eq!(data(&grad(&of(&[1.0, 2.0]), |x| doubling(x, &held).sum())), [2.0, 4.0]);
    assert_eq!(data(&buf), [24.0, 32.0], "outside of compiled functions too");
}

#[test]
fn s2_2_buffer_in_wrt() {
    let f = jit(|x: Tensor, buf: Tensor| doubling(&x, &buf));
    let buf = of(&[3.0, 4.0]);
    let (_, pull) = f.pullback((of(&[1.0, 2.0]), buf.clone())).expect("runs");
    assert_eq!(pull.plan().bw_writes_needing_grad(), [1]);
    let (gx, gbuf) = pull.run(&of(&[1.0, 1.0])).expect("a backward that is only run may write");
    assert_eq!((data(&gx), data(&gbuf), data(&buf)), (vec![2.0, 4.0], vec![0.0, 0.0], vec![6.0, 8.0]));

    let buf = of(&[3.0, 4.0]);
    let (_, pull) = f.pullback_with_graph((of(&[1.0, 2.0]), buf.clone())).expect("runs");
    let error = pull.run(&of(&[1.0, 1.0])).err().expect("refused");
    assert_eq!(error.code(), "E719");
    let wanted = ErrorKind::BackwardWriteNeedsGrad { inputs: vec![(1, "1".into())] };
    assert_eq!((error.kind(), data(&buf)), (&wanted, vec![3.0, 4.0]), "{error}");

    let twice = jit(|x: Tensor, buf: Tensor| {
        let inner = |p: &(Tensor, Tensor)| grad(p, |(x, buf)| doubling(x, buf).sum());
        grad(&(x, buf), |p| inner(p).0.sum()).0
    });
    let error = twice.call((of(&[1.0, 2.0]), buf.clone())).expect_err("refused while tracing");
    assert_eq!((error.code(), data(&buf)), ("E719", vec![3.0, 4.0]), "{error}");
}

#[test]
fn s2_3_forward_and_backward() {
    for again in [false, true] {
        let b = of(&[3.0, 4.0]);
        let held = b.clone();
        let f = jit(move |x: Tensor| {
            let _ = held.add_(1.0);
            if again { checkpoint(|| doubling(&x, &held)) } else { doubling(&x, &held) }
        });
        let (_, pull) = f.pullback(of(&[1.0, 2.0])).expect("runs");
        assert_eq!(data(&b), [4.0, 5.0]);
        assert_eq!(pull.plan().fw_writes().len(), 1);
        assert_eq!(data(&pull.run(&of(&[1.0, 1.0])).expect("runs")), [2.0, 4.0]);
        assert_eq!(data(&b), [8.0, 10.0]);

        let _ = b.copy_(&of(&[3.0, 4.0]));
        let (_, pull) = f.pullback_with_graph(of(&[1.0, 2.0])).expect("runs");
        assert_eq!(data(&b), [4.0, 5.0]);
        assert_eq!(data(&pull.run(&of(&[1.0, 1.0])).expect("runs").0), [2.0, 4.0]);
        assert_eq!(data(&b), [8.0, 10.0]);
    }
}

/// A write of the forward behind the call is seen by the backward, which runs later.
#[test]
fn s2_3_written_after_the_call() {
    let b = of(&[3.0, 4.0]);
    let held = b.clone();
    let run = jit(move |x: Tensor| {
        grad(&x, |x| {
            let y = doubling(x, &held);
            let _ = held.add_(1.0);
            y.sum()
        })
    });
    assert_eq!(data(&run.call(of(&[1.0, 2.0])).expect("runs")), [2.0, 4.0]);
    assert_eq!(data(&b), [8.0, 10.0]);
}

#[test]
fn s2_4_both_and_in_wrt() {
    let f = jit(|x: Tensor, b: Tensor| {
        let _ = no_grad(|| b.add_(1.0));
        doubling(&x, &b)
    });
    let b = of(&[1.0, 1.0]);
    let (_, pull) = f.pullback((of(&[1.0, 2.0]), b.clone())).expect("runs");
    assert_eq!(data(&b), [2.0, 2.0]);
    let _ = pull.run(&of(&[1.0, 1.0])).expect("runs");
    assert_eq!(data(&b), [4.0, 4.0]);

    let b = of(&[1.0, 1.0]);
    let (_, pull) = f.pullback_with_graph((of(&[1.0, 2.0]), b.clone())).expect("runs");
    let error = pull.run(&of(&[1.0, 1.0])).err().expect("refused");
    assert_eq!((error.code(), data(&b)), ("E719", vec![2.0, 2.0]), "{error}");
}

/// The error of a function that writes to a tensor of two axes, which stays as it was.
fn refused(f: &dyn Fn(&Tensor, &Tensor) -> Tensor) -> ErrorKind {
    let buf = Tensor::from([[1.0f64, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let held = buf.clone();
    let error = once(|x| f(x, &held)).expect_err("refused");
    assert_eq!((error.code(), data(&buf)), ("E714", vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), "{error}");
    error.kind().clone()
}

fn phase(kind: &ErrorKind) -> fulgurite::trace::Phase {
    match kind {
        ErrorKind::MetadataMutation { phase, .. } => *phase,
        other => panic!("{other:?}"),
    }
}

/// A backward that writes another type: refused while it is traced, with the phase, the input and both types.
#[test]
fn s2_5_metadata_in_the_backward() {
    let late = refused(&|x, buf| writing(x, buf, |buf| buf.copy_(&buf.t().copy())));
    let (old, new) = ("f64[2, 3]".to_owned(), "f64[3, 2]".to_owned());
    let wanted = ErrorKind::MetadataMutation {
        phase: fulgurite::trace::Phase::Backward,
        index: 1,
        name: "captured.0".into(),
        old: old.clone(),
        new: new.clone(),
    };
    assert_eq!(late, wanted);
    // where the forward does it too, the first of them is reported
    let first = refused(&|x, buf| {
        let _ = buf.copy_(&buf.t().copy());
        writing(x, buf, |buf| buf.copy_(&buf.t().copy()))
    });
    assert_eq!(phase(&first), fulgurite::trace::Phase::Forward);
}

/// Storage is no thing of its own here: a tensor keeps its type for life, and nothing gives it the memory of another.
/// What comes nearest: nothing, and a view of another tensor, written to it.
#[test]
fn s2_6_storage_in_the_backward() {
    let empty = refused(&|x, buf| writing(x, buf, |buf| buf.copy_(&Tensor::from_vec(Vec::<f64>::new(), 0))));
    assert_eq!(phase(&empty), fulgurite::trace::Phase::Backward);
    let (buf, other) = (of(&[3.0, 4.0]), of(&[5.0, 6.0]));
    let (held, source) = (buf.clone(), other.clone());
    let g = once(move |x| writing(x, &held, |buf| buf.copy_(&source))).expect("runs");
    assert_eq!((data(&g), data(&buf)), (vec![2.0, 2.0], vec![5.0, 6.0]));
    let _ = other.add_(1.0);
    assert_eq!((data(&buf), data(&other)), (vec![5.0, 6.0], vec![6.0, 7.0]), "elements were copied, not memory");
}

/// `x * 2`, whose backward does something to `buf`.
fn writing(x: &Tensor, buf: &Tensor, write: impl Fn(&Tensor) -> Tensor) -> Tensor {
    let buf = buf.clone();
    custom_vjp(
        x,
        |x| (x * 2.0, ()),
        move |(), ct: &Tensor| {
            let _ = write(&buf);
            ct * 2.0
        },
    )
}

/// The gradient of a sum, compiled.
fn once(f: impl Fn(&Tensor) -> Tensor) -> Result<Tensor, Error> {
    jit(|x: Tensor| grad(&x, |x| f(x).sum())).call(of(&[1.0, 2.0]))
}

#[test]
fn s2_7_cotangent() {
    let double = |x: &Tensor| {
        custom_vjp(
            x,
            |x| ((x * 1.0, x * x), x.clone()),
            |x, (_, ct): &(Tensor, Tensor)| {
                let _ = ct.mul_(2.0);
                x * ct
            },
        )
    };
    let error = once(|x| double(x).1).expect_err("refused");
    assert_eq!((error.code(), error.kind()), ("E717", &ErrorKind::CotangentMutation { output: 1 }), "{error}");
    // not through a view of it, nor a detached alias
    let sly = |x: &Tensor| {
        custom_vjp(
            x,
            |x| (x * x, x.clone()),
            |x, ct: &Tensor| {
                let _ = ct.detach().reshape((2, 1)).mul_(2.0);
                x * ct
            },
        )
    };
    assert_eq!(once(sly).expect_err("refused").code(), "E717");
    let copied = |x: &Tensor| custom_vjp(x, |x| (x * x, x.clone()), |x, ct: &Tensor| x * ct.copy().mul_(2.0));
    assert_eq!(data(&once(copied).expect("a copy may be written")), [2.0, 4.0]);
}

#[test]
fn s2_8_branch_not_on_the_loss_path() {
    let buf = of(&[3.0, 4.0]);
    let held = buf.clone();
    // what a loss passes on has the symbolic cotangent zero
    let run = jit(move |x: Tensor| {
        let ((_, y), g) = try_value_and_grad(&x, |x| {
            let y = doubling(x, &held);
            Ok::<_, Error>(((x * 3.0).sum(), y))
        })?;
        Ok::<_, Error>((g, y))
    });
    let (g, y) = run.call(of(&[1.0, 2.0])).expect("runs");
    assert_eq!((data(&g), data(&y), data(&buf)), (vec![3.0, 3.0], vec![1.0, 4.0], vec![3.0, 4.0]));

    let held = buf.clone();
    let f = jit(move |x: Tensor| (doubling(&x, &held), x * 3.0));
    let (_, pull) = f.pullback(of(&[1.0, 2.0])).expect("runs");
    let g = pull.run(&(of(&[0.0, 0.0]), of(&[1.0, 1.0]))).expect("runs");
    assert_eq!((data(&g), data(&buf)), (vec![3.0, 3.0], vec![6.0, 8.0]), "dense zeros are values");
}

#[test]
fn s2_9_old_value_needed_after_the_write() {
    let b = of(&[3.0, 4.0]);
    let held = b.clone();
    let g = once(move |x| doubling(&(x * &held), &held)).expect("runs");
    assert_eq!((data(&g), data(&b)), (vec![18.0, 64.0], vec![6.0, 8.0]));
    let b = of(&[3.0, 4.0]);
    let held = b.clone();
    let f = jit(move |x: Tensor| doubling(&x, &held) * &held);
    let (_, pull) = f.pullback(of(&[1.0, 2.0])).expect("runs");
    assert_eq!((data(&pull.run(&of(&[1.0, 1.0])).expect("runs")), data(&b)), (vec![6.0, 16.0], vec![6.0, 8.0]));
}

/// A batch makes a view of a captured tensor, and the view is read when the backward runs.
#[test]
fn s2_9_a_batch_reads_when_the_backward_runs() {
    let scaling = |x: &Tensor, buf: &Tensor| {
        let buf = buf.clone();
        custom_vjp(x, |x| (x * 2.0, ()), move |(), ct: &Tensor| ct * buf)
    };
    let batched = move |x: &Tensor, buf: &Tensor| vmap(x, |x| scaling(x, buf)).unwrap_or_else(Tensor::poisoned);
    let twice = move |x: &Tensor, buf: &Tensor| {
        vmap(x, |x| vmap(x, |x| scaling(x, buf)).unwrap_or_else(Tensor::poisoned)).unwrap_or_else(Tensor::poisoned)
    };
    let within = move |x: &Tensor, buf: &Tensor| {
        let buf = buf.clone();
        let backward =
            |x: Tensor, ct: &Tensor| vjp(&x, ct, |x| batched(x, &buf)).map_or_else(Tensor::poisoned, |(_, g)| g);
        custom_vjp(x, |x| (batched(x, &buf), x.clone()), backward)
    };
    type Case<'a> = &'a dyn Fn(&Tensor, &Tensor) -> Tensor;
    let cases: [(&str, Case); 4] = [("plain", &scaling), ("batched", &batched), ("twice", &twice), ("within", &within)];
    for (name, f) in cases {
        let x = Tensor::from([[[1.0f64, 2.0], [3.0, 4.0]]]);
        let buf = of(&[3.0, 4.0]);
        assert_eq!(data(&grad(&x, |x| f(x, &buf).sum())), [3.0, 4.0, 3.0, 4.0], "{name}, at once");
        let held = buf.clone();
        let compiled = jit(move |x: Tensor| f(&x, &held));
        let (_, pull) = compiled.pullback(x.clone()).expect("runs");
        let _ = buf.add_(1.0);
        assert_eq!(data(&pull.run(&(x * 0.0 + 1.0)).expect("runs")), [4.0, 5.0, 4.0, 5.0], "{name}, written between");
    }
}

#[test]
fn s2_10_second_run() {
    let buf = of(&[3.0, 4.0]);
    let held = buf.clone();
    let f = jit(move |x: Tensor| doubling(&x, &held));
    let (_, pull) = f.pullback(of(&[1.0, 2.0])).expect("runs");
    let error = pull.run_keep(&of(&[1.0, 1.0])).expect_err("it writes");
    let wanted = ErrorKind::RetainWithBackwardWrites { inputs: vec![(1, "captured.0".into())] };
    assert_eq!((error.code(), error.kind(), data(&buf)), ("E720", &wanted, vec![3.0, 4.0]), "{error}");
    let _ = pull.run(&of(&[1.0, 1.0])).expect("runs");
    assert_eq!(data(&buf), [6.0, 8.0]);

    let f = jit(|x: Tensor| x.exp().sin());
    let (_, pull) = f.pullback(of(&[1.0, 2.0])).expect("runs");
    let ct = of(&[1.0, -1.0]);
    let (a, b) = (pull.run_keep(&ct).expect("runs"), pull.run_keep(&ct).expect("runs"));
    assert_eq!((data(&a), data(&a)), (data(&b), data(&pull.run(&ct).expect("runs"))));
}

#[test]
fn s2_11_write_to_a_forward_value() {
    let refused = |x: &Tensor| {
        let off = x.detach().copy();
        let y = writing(x, &off, |off| off.add_(1.0));
        y + off
    };
    let error = once(refused).expect_err("refused");
    let ErrorKind::BackwardWriteToIntermediate { value, line } = error.kind() else { panic!("{error}") };
    assert_eq!((error.code(), value.as_str(), line.as_str()), ("E718", "copy", "copy = copy(…)"), "{error}");
    assert!(error.to_string().contains("pass a tensor"), "{error}");
    // what the forward kept is such a value too
    let kept = |x: &Tensor| custom_vjp(x, |x| (x * 2.0, x.copy()), |x, ct: &Tensor| x.add_(ct));
    assert_eq!(once(kept).expect_err("refused").code(), "E718");
}

/// A history of maxima, as scaled formats keep them: `x * 2`, whose backward shifts the maximum of the cotangent in.
fn scaled(x: &Tensor, hist: &Tensor) -> Tensor {
    writing_ct(x, hist, |hist, ct| {
        let newest = ct.abs().amax().reshape(1);
        let older = hist.slice_with(ops::Slice { stop: Some(3.into()), ..d() });
        hist.copy_(&ops::cat(&[newest, older.copy()]))
    })
}

fn writing_ct(x: &Tensor, buf: &Tensor, write: impl Fn(&Tensor, &Tensor) -> Tensor) -> Tensor {
    let buf = buf.clone();
    custom_vjp(
        x,
        |x| (x * 2.0, ()),
        move |(), ct: &Tensor| {
            let _ = write(&buf, ct);
            ct * 2.0
        },
    )
}

#[test]
fn s2_14_history() {
    let hist = of(&[0.1, 0.2, 0.3, 0.4]);
    let held = hist.clone();
    let f = jit(move |x: Tensor| scaled(&x, &held));
    let (_, pull) = f.pullback(of(&[1.0, 2.0])).expect("runs");
    assert_eq!(data(&hist), [0.1, 0.2, 0.3, 0.4]);
    assert_eq!(data(&pull.run(&of(&[0.5, -3.0])).expect("runs")), [1.0, -6.0]);
    close(&data(&hist), &[3.0, 0.1, 0.2, 0.3]);
    let (_, pull) = f.pullback(of(&[1.0, 2.0])).expect("runs");
    let _ = pull.run(&of(&[7.0, 0.0])).expect("runs");
    close(&data(&hist), &[7.0, 3.0, 0.1, 0.2]);
    assert_eq!(f.stats().misses.len(), 1);
}

/// Of many inputs, the backward looks at those that it writes; names are looked up for errors only.
#[test]
fn s2_23_many_inputs() {
    let f = |written: &'static [usize]| {
        jit(move |x: Vec<Tensor>| {
            let all = custom_vjp(&x[0], |x| (x * 2.0, ()), {
                let buffers: Vec<Tensor> = written.iter().map(|&i| x[i].clone()).collect();
                move |(), ct: &Tensor| {
                    buffers.iter().for_each(|b| _ = b.mul_(2.0));
                    ct * 2.0
                }
            });
            x[1..].iter().fold(all, |sum, x| sum + x)
        })
    };
    let given = || (0..500).map(|_| of(&[1.0])).collect::<Vec<_>>();
    let error = {
        let (_, pull) = f(&[499, 7, 250]).pullback_with_graph(given()).expect("runs");
        assert_eq!(pull.plan().bw_writes_needing_grad(), [7, 250, 499]);
        pull.run(&of(&[1.0])).err().expect("refused")
    };
    let ErrorKind::BackwardWriteNeedsGrad { inputs } = error.kind() else { panic!("{error}") };
    assert_eq!(inputs.iter().map(|(i, _)| *i).collect::<Vec<_>>(), [7, 250, 499]);

    let args = given();
    let seven = args[7].clone();
    let (_, pull) = f(&[7]).pullback(args).expect("runs");
    assert_eq!((pull.plan().bw_writes().len(), pull.plan().bw_writes_needing_grad()), (1, &[7][..]));
    let _ = pull.run(&of(&[1.0])).expect("runs");
    assert_eq!(data(&seven), [2.0]);
}

/// An inference program has the same plan, of empty lists; that nobody fills one in is a doctest of the type.
#[test]
fn s2_24_frozen() {
    let f = jit(|x: Tensor| x.exp());
    let (_, pull) = f.pullback(of(&[1.0])).expect("runs");
    assert_eq!(pull.plan(), &fulgurite::transforms::MutationPlan::default());
}

#[test]
fn s2_27_user_writes_between() {
    let b = of(&[3.0, 4.0]);
    let held = b.clone();
    let f = jit(move |x: Tensor| x * &held);
    let (_, pull) = f.pullback(of(&[1.0, 2.0])).expect("runs");
    let _ = b.copy_(&of(&[9.0, 9.0]));
    assert_eq!(data(&pull.run(&of(&[1.0, 1.0])).expect("runs")), [3.0, 4.0]);
}

/// The plan lists values that a write of the forward replaces, and that the backward reads.
#[test]
fn s2_17_s2_25_snapshots() {
    let b = of(&[3.0, 4.0]);
    let plan = |f: &dyn Fn(&Tensor, &Tensor) -> Tensor, want: &[f64]| {
        let held = b.copy();
        let seen = held.clone();
        let run = jit(move |x: Tensor| f(&x, &held));
        let (_, pull) = run.pullback(of(&[1.0, 2.0])).expect("runs");
        assert_eq!(data(&seen), [4.0, 5.0]);
        let snapshots = pull.plan().snapshots().to_vec();
        close(&data(&pull.run(&of(&[1.0, 1.0])).expect("runs")), want);
        snapshots
    };
    let after = |x: &Tensor, b: &Tensor| {
        let y = x * b;
        let _ = b.add_(1.0);
        y
    };
    assert_eq!(plan(&after, &[3.0, 4.0]), [1]);
    let again = |x: &Tensor, b: &Tensor| {
        let y = checkpoint(|| (x * b).sin());
        let _ = b.add_(1.0);
        y
    };
    assert_eq!(plan(&again, &[-2.969_977_489_801_336, -0.582_000_135_234_454]), [1]);
    let before = |x: &Tensor, b: &Tensor| {
        let _ = b.add_(1.0);
        x * 2.0
    };
    assert!(plan(&before, &[2.0, 2.0]).is_empty());
}

/// What a closure writes to a tensor of the function around it is written, whether it is an argument, a value or a view.
#[test]
fn writes_of_closures() {
    let b = of(&[1.0, 1.0]);
    let run = jit(|x: Tensor, b: Tensor| {
        let y = &x * 1.0;
        let head = y.slice_with(ops::Slice { stop: Some(1.into()), ..d() });
        let g = grad(&x, |x| {
            let _ = b.add_(1.0);
            let _ = y.add_(10.0);
            let _ = head.mul_(2.0);
            (x * &b * &y).sum()
        });
        (g, &b * 1.0, y, head)
    });
    let (g, after, y, head) = run.call((of(&[1.0, 2.0]), b.clone())).expect("runs");
    assert_eq!(data(&b), [2.0, 2.0]);
    assert_eq!((data(&after), data(&y), data(&head)), (vec![2.0, 2.0], vec![22.0, 12.0], vec![22.0]));
    assert_eq!(data(&g), [44.0, 24.0]);
    // one that is differentiated by the function around is refused there
    let error = jit(|x: Tensor| {
        grad(&x, |x| {
            grad(&(x * 1.0), |y| {
                let _ = x.add_(1.0);
                (y * x).sum()
            })
            .sum()
        })
    });
    assert_eq!(error.call(of(&[1.0, 2.0])).expect_err("refused").code(), "E713");
}

/// A backward of one's own in derivatives of every kind.
#[test]
fn own_backwards_in_other_derivatives() {
    let cube = |x: &Tensor| custom_vjp(x, |x| (x * x * x, x.clone()), |x, ct: &Tensor| x.square() * 3.0 * ct);
    let x = of(&[1.0, 2.0]);
    close(&data(&grad(&x, |x| cube(x).sum())), &[3.0, 12.0]);
    close(&data(&grad(&x, |x| grad(x, |x| cube(x).sum()).sum())), &[6.0, 12.0]);
    let (y, t) = jvp(&x, &of(&[1.0, 10.0]), cube).expect("the transpose of the backward");
    close(&data(&y), &[1.0, 8.0]);
    close(&data(&t), &[3.0, 120.0]);
    let (_, hv) = hvp(&x, &of(&[1.0, 1.0]), |x| cube(x).sum()).expect("runs");
    close(&data(&hv), &[6.0, 12.0]);
    let rough = |x: &Tensor| custom_vjp(x, |x| (x * x, ()), |(), ct: &Tensor| ct * ct);
    assert_eq!(jvp(&x, &x, rough).expect_err("not linear").code(), "E711");
    // several arguments and results, one of them an integer; a zero that is known as such
    let pick = |p: &(Tensor, Tensor)| {
        custom_vjp(
            p,
            |(x, w)| ((x * w, x.argmax()), (x.clone(), w.clone())),
            |(x, w), (ct, _): &(Tensor, Tensor)| (ct * w, zeros_like(&x)),
        )
    };
    let run = jit(move |x: Tensor, w: Tensor| grad(&(x, w), |p| pick(p).0.sum())).keep_traces();
    let (gx, gw) = run.call((x.clone(), of(&[5.0, 6.0]))).expect("runs");
    assert_eq!((data(&gx), data(&gw)), (vec![5.0, 6.0], vec![0.0, 0.0]));
    // its lines stand in the backward, at the user's own places
    let joint = run.trace("joint").expect("kept");
    assert!(joint.contains("own_vjp") && joint.contains("#backward  // backward of …"), "{joint}");
    // a result that is an argument, used otherwise too
    let same = |x: &Tensor| custom_vjp(x, |x| (x.clone(), ()), |(), ct: &Tensor| ct * 7.0) + x;
    assert_eq!(data(&grad(&x, |x| same(x).sum())), [8.0, 8.0]);
    // another type than the argument's
    let wrong = |x: &Tensor| custom_vjp(x, |x| (x * 2.0, ()), |(), ct: &Tensor| ct.cast(DType::F32));
    assert_eq!(grad(&x, |x| wrong(x).sum()).error().expect("refused").code(), "E712");
}

#[test]
fn pullbacks_of_other_kinds() {
    let f = jit(|x: Tensor, i: Tensor| (x.take(&i), i));
    let (_, pull) = f.pullback((of(&[1.0, 2.0]), Tensor::from([1i64, 1]))).expect("runs");
    let (gx, gi) = pull.run(&(of(&[1.0, 5.0]), Tensor::from([0i64, 0]))).expect("runs");
    assert_eq!((data(&gx), data(&gi)), (vec![0.0, 6.0], vec![0.0, 0.0]));
    let wrong = f.pullback((of(&[1.0, 2.0]), Tensor::from([1i64, 1]))).expect("runs").1;
    assert_eq!(wrong.run(&(of(&[1.0]), Tensor::from([0i64, 0]))).expect_err("a wrong size").code(), "E712");
    let inner = jit(|x: Tensor| x.exp());
    let error = jit(move |x: Tensor| inner.pullback(x).map(|(y, _)| y)).call(of(&[1.0])).expect_err("inside");
    assert_eq!(error.code(), "E750", "{error}");
    // rematerialised
    let f = jit(|x: Tensor| checkpoint(|| x.exp().sin()).exp());
    let (_, pull) = f.pullback(of(&[0.5, 1.0])).expect("runs");
    let kept = pull.bytes();
    let plain = jit(|x: Tensor| x.exp().sin().exp()).pullback(of(&[0.5, 1.0])).expect("runs").1;
    assert!(kept < plain.bytes(), "{kept} of {}", plain.bytes());
    let ct = of(&[1.0, 1.0]);
    close(&data(&pull.run(&ct).expect("runs")), &data(&plain.run(&ct).expect("runs")));
}

/// Functions with a backward of their own in each other, with symbolic sizes, and in a step that replaces its state.
#[test]
fn own_backwards_in_each_other() {
    let inner = |x: &Tensor| custom_vjp(x, |x| (x * 2.0, ()), |(), ct: &Tensor| ct * 5.0);
    let outer = |x: &Tensor| custom_vjp(x, |x| (inner(x) + 1.0, x.clone()), |x, ct: &Tensor| inner(&x) * ct);
    let x = of(&[1.0, 3.0]);
    assert_eq!(data(&grad(&x, |x| outer(x).sum())), [2.0, 6.0]);
    assert_eq!(data(&grad(&x, |x| grad(x, |x| outer(x).sum()).sum())), [5.0, 5.0]);
    // a gradient inside of a backward
    let exp = |x: &Tensor| custom_vjp(x, |x| (x.sin(), x.clone()), |x, ct: &Tensor| grad(&x, |x| x.exp().sum()) * ct);
    let want = [1.0f64.exp(), 3.0f64.exp()];
    close(&data(&grad(&x, |x| exp(x).sum())), &want);
    close(&data(&grad(&x, |x| grad(x, |x| exp(x).sum()).sum())), &want);
    // values and memory of outside, read by the backward alone
    let w = of(&[7.0, 8.0]);
    let f = jit(move |x: Tensor, s: Tensor| {
        let t = &s * 2.0;
        let w = w.clone();
        grad(&x, |x| custom_vjp(x, |x| (x * 1.0, ()), |(), ct: &Tensor| ct * &t * &w).sum())
    });
    assert_eq!(data(&f.call((x, of(&[10.0, 100.0]))).expect("runs")), [140.0, 1600.0]);

    let f = jit(move |x: Tensor| grad(&x, |x| inner(x).sum())).caching(Caching::Symbolic);
    assert_eq!(data(&f.call(of(&[1.0, 2.0])).expect("runs")), [5.0, 5.0]);
    assert_eq!(data(&f.call(of(&[1.0, 2.0, 3.0])).expect("runs")), [5.0, 5.0, 5.0]);
    assert_eq!((f.stats().misses.len(), f.stats().plans), (1, 1));

    let step = jit(|(w, seen): (Tensor, Tensor), x: Tensor| {
        let count = seen.clone();
        let (loss, g) = value_and_grad(&w, |w| {
            let count = count.clone();
            let backward = move |(), ct: &Tensor| {
                let _ = count.add_(1.0);
                ct.clone()
            };
            custom_vjp(&(w * &x), |y| (y.clone(), ()), backward).sum()
        });
        ((w - g * 0.1, seen), loss)
    });
    let mut state = (of(&[1.0, 1.0]), of(&[0.0]));
    for want in [3.0, 2.5, 2.0] {
        close(&data(&step.update(&mut state, of(&[1.0, 2.0])).expect("runs")), &[want]);
    }
    close(&data(&state.0), &[0.7, 0.4]);
    assert_eq!(data(&state.1), [3.0], "written once a step");
}

/// Trees without tensors, keys, numbers, and every dtype pass through such a function.
#[test]
fn own_backwards_of_any_tree() {
    let x = of(&[1.0, 2.0]);
    let nothing = jit(|x: Tensor| {
        let () = custom_vjp(&x, |_| ((), ()), |(), ()| zeros_like(&of(&[0.0, 0.0])));
        let three = custom_vjp(&(), |()| (Tensor::from([3.0f64]), ()), |(), _: &Tensor| ());
        grad(&x, |x| (x * &three).sum())
    });
    assert_eq!(data(&nothing.call(x.clone()).expect("runs")), [3.0, 3.0]);
    let mixed = jit(|x: Tensor, k: Key, s: Tensor| {
        grad(&x, |x| {
            let p = (x.clone(), k.clone(), s.clone());
            let (y, k, s) = custom_vjp(
                &p,
                |(x, k, s)| ((x * s, k.clone(), s.clone()), (k.clone(), s.clone())),
                |(k, s), (ct, _, _): &(Tensor, Key, Tensor)| (ct * &s * 3.0, k, s),
            );
            (y * s).sum() + ops::uniform(&k, 1).sum().detach() * 0.0
        })
    });
    let g = mixed.call((x.clone(), Key::new(1), Tensor::from(2.0f64))).expect("runs");
    assert_eq!(data(&g), [12.0, 12.0]);
    for dtype in [
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::Bool,
    ] {
        let run = jit(move |x: Tensor| {
            let y = custom_vjp(&x, |x| (x.clone(), x.clone()), |_, ct: &Tensor| ct.clone());
            y.cast(dtype)
        });
        assert_eq!(run.call(x.cast(dtype)).expect("runs").dtype(), dtype);
    }
}

/// A backward that differentiates reads a key and a tensor of the trace around from inside of its own closure.
#[test]
fn a_closure_in_a_backward_reads_what_stands_around_it() {
    let f = |x: &Tensor, w: &Tensor, key: &Key| {
        let back = |x: Tensor, ct: &Tensor| grad(&x, |x| (x.dropout(key) * w * ct).sum());
        custom_vjp(x, |x| (x.dropout(key) * w, x.clone()), back)
    };
    let (x, w, key) = (Tensor::from([1.0f64, -2.0, 5.0]), Tensor::from([3.0f64, 4.0, 5.0]), || Key::new(3));
    let numbers = |t: Tensor| t.to_f64().unwrap_or_else(|e| panic!("{e}"));
    let want = numbers(grad(&x, |x| (x.dropout(key()) * &w).sum()));
    assert_eq!(numbers(grad(&x, |x| f(x, &w, &key()).sum())), want);
    let compiled = jit(move |(x, w, key): (Tensor, Tensor, Key)| grad(&x, |x| checkpoint(|| f(x, &w, &key)).sum()));
    assert_eq!(numbers(compiled.call((x, w, key())).unwrap_or_else(|e| panic!("{e}"))), want);
}

/// A write to a result of a function with its own backward is none to its argument, at once as compiled.
#[test]
fn results_of_own_backwards_are_tensors_of_their_own() {
    let written = |x: &Tensor| {
        let row = custom_vjp(x, |x| (x.select(0, 0), x.clone()), |x, _: &Tensor| zeros_like(&x));
        let same = custom_vjp(x, |x| (x.clone(), ()), |(), ct: &Tensor| ct.clone());
        let _ = (row.add_(1.0), same.mul_(2.0));
        (row, same)
    };
    for compiled in [false, true] {
        let x = Tensor::from([[1.0f64, 2.0], [3.0, 4.0]]);
        let (row, same) = match compiled {
            true => jit(move |x: Tensor| written(&x)).call(x.clone()).expect("runs"),
            false => written(&x),
        };
        assert_eq!((data(&row), data(&same)), (vec![2.0, 3.0], vec![2.0, 4.0, 6.0, 8.0]), "{compiled}");
        assert_eq!(data(&x), [1.0, 2.0, 3.0, 4.0], "{compiled}");
    }
}
