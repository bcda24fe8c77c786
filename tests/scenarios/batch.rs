//! Batches, and what stands on them: jacobians and hessians.

use super::program::{close, parse, run};
use fulgurite::ops::{Sum, arange, randn};
use fulgurite::prelude::*;
use fulgurite::symbol::{self, Symbol};
use fulgurite::trace::Tag;
use fulgurite::transforms;
use fulgurite_core::row::{MeaningKind, RowText};

fn numbers(t: &Tensor) -> Vec<f64> {
    t.to_f64().unwrap_or_else(|e| panic!("{e}"))
}

fn grid(rows: i64, columns: i64) -> Tensor {
    (arange(rows * columns).cast(DType::F64) / 7.0 - 0.4).reshape((rows, columns))
}

/// The operators of the stage that `vmap` makes.
fn lines(f: impl Fn(Tensor) -> Result<Tensor> + 'static, x: &Tensor) -> Vec<String> {
    let f = jit(f).keep_traces();
    f.call(x.clone()).unwrap_or_else(|e| panic!("{e}"));
    let text = f.trace("vmap").expect("a stage");
    let body = text.lines().filter_map(|l| l.split_once(" = ")).map(|(_, call)| call);
    body.map(|call| call.split(['(', ' ']).next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_batch_gives_its_slices_side_by_side() -> Result<()> {
    let x = grid(3, 4);
    let w = grid(4, 2);
    let f = |x: &Tensor| x.matmul(&w).softmax(0).sum();
    let got = vmap(&x, f)?;
    let want: Vec<f64> = (0..3).flat_map(|i| numbers(&f(&x.select(0, i)))).collect();
    close(&numbers(&got), &want);
    Ok(())
}

#[test]
fn the_rows_themselves_serve_where_they_do_the_same() {
    let x = grid(6, 4).reshape((2, 3, 4));
    let one = |f: fn(&Tensor) -> Tensor| lines(move |x| vmap(&x, f), &x);
    assert_eq!(one(|x| x.softmax(-1)), ["softmax"]);
    assert_eq!(one(|x| x.layer_norm(None, None, [4])), ["layer_norm"]);
    assert_eq!(one(|x| x.gelu()), ["gelu"]);
    assert_eq!(one(|x| x.sum()), ["sum"]);
    assert_eq!(one(|x| x.matmul(&x.t())), ["t.vmap.x", "matmul"]);
}

#[test]
fn gradients_of_examples() -> Result<()> {
    let (x, w) = (grid(3, 4), grid(4, 1).reshape(4));
    let each = vmap(&x, |x| grad(&w, |w| (x * w).sum().tanh()))?;
    let want: Vec<f64> = (0..3).flat_map(|i| numbers(&grad(&w, |w| (x.select(0, i) * w).sum().tanh()))).collect();
    close(&numbers(&each), &want);
    // and the other way round
    let whole = grad(&w, |w| vmap(&x, |x| (x * w).sum().tanh()).expect("a batch").sum());
    close(&numbers(&whole), &numbers(&each.sum_with(Sum { dims: [0].into(), ..d() })));
    Ok(())
}

#[test]
fn a_jacobian_both_ways() -> Result<()> {
    let x = grid(1, 3).reshape(3);
    let w = grid(3, 2);
    let f = |x: &Tensor| x.matmul(&w).tanh();
    let y = numbers(&f(&x));
    let wn = numbers(&w);
    let want: Vec<f64> =
        (0..2).flat_map(|o| (0..3).map(move |i| (o, i))).map(|(o, i)| wn[i * 2 + o] * (1.0 - y[o] * y[o])).collect();
    for found in [jacobian(&x, f)?, jacobian_forward(&x, f)?, jacobian_reverse(&x, f)?] {
        assert_eq!(found.shape(), [Dim::from(2), Dim::from(3)]);
        close(&numbers(&found), &want);
    }
    Ok(())
}

#[test]
fn a_hessian_agrees_with_hvp() -> Result<()> {
    let x = grid(1, 3).reshape(3);
    let f = |x: &Tensor| (x * x * x).sum() + x.select(0, 0) * x.select(0, 2);
    let h = hessian(&x, f)?;
    let v = numbers(&x);
    let want = [6.0 * v[0], 0.0, 1.0, 0.0, 6.0 * v[1], 0.0, 1.0, 0.0, 6.0 * v[2]];
    assert_eq!(h.len(), 1);
    close(&numbers(&h[0]), &want);
    let along = Tensor::from([1.0, -2.0, 0.5]);
    let (_, product) = hvp(&x, &along, f)?;
    close(&numbers(&h[0].matmul(&along)), &numbers(&product));
    Ok(())
}

#[test]
fn a_batch_in_a_batch() -> Result<()> {
    let (x, y) = (grid(2, 3), grid(4, 3));
    // every row of x with every row of y
    let all = vmap(&x, |a| vmap(&y, |b| (a * b).cumsum(0).softmax(0).sum() + a.matmul(b)))?;
    assert_eq!(all.shape(), [Dim::from(2), Dim::from(4)]);
    let want: Vec<f64> = (0..2)
        .flat_map(|i| (0..4).map(move |j| (i, j)))
        .flat_map(|(i, j)| {
            let (a, b) = (x.select(0, i), y.select(0, j));
            numbers(&((&a * &b).cumsum(0).softmax(0).sum() + a.matmul(&b)))
        })
        .collect();
    close(&numbers(&all), &want);
    Ok(())
}

#[test]
fn other_axes_and_what_is_shared() -> Result<()> {
    let (x, w) = (grid(3, 4), grid(3, 2));
    let f = |(x, w): &(Tensor, Tensor)| x.matmul(w);
    let got = vmap_with(&(x.clone(), w.clone()), &[Some(-1), None], f)?;
    assert_eq!(got.shape(), [Dim::from(4), Dim::from(2)]);
    close(&numbers(&got), &numbers(&x.t().matmul(&w)));
    // a result that no slice differs in is given once for each
    let same = vmap(&x, |_| w.sum())?;
    close(&numbers(&same), &numbers(&w.sum()).repeat(3));
    Ok(())
}

#[test]
fn filters_of_each_example_are_one_convolution_each_way() -> Result<()> {
    let x = (arange(2 * 3 * 5 * 5).cast(DType::F64) / 50.0 - 1.0).reshape((2, 3, 5, 5));
    let w = (arange(2 * 4 * 3 * 3 * 3).cast(DType::F64) / 99.0 - 1.0).reshape((2, 4, 3, 3, 3));
    let got = vmap(&(x.clone(), w.clone()), |(x, w): &(Tensor, Tensor)| x.conv(w, None))?;
    let want: Vec<f64> = (0..2).flat_map(|i| numbers(&x.select(0, i).conv(&w.select(0, i), None))).collect();
    close(&numbers(&got), &want);
    let one = w.select(0, 0);
    assert_eq!(lines(move |x| vmap(&x, |x| x.conv(&one, None)), &x), ["conv"]);
    assert_eq!(lines(|x| vmap(&x, |x| x.conv(&x.unsqueeze(0), None)), &x).last().expect("a line"), "conv.vmap.x.w");
    Ok(())
}

#[test]
fn a_key_of_each_slice_and_one_that_all_share() -> Result<()> {
    let x = Tensor::from_vec(vec![1.0f64; 3 * 64], [3, 64]);
    let key = Key::new(7);
    let rows = |y: &Tensor| (0..3).map(|i| numbers(&y.select(0, i))).collect::<Vec<_>>();
    let shared = rows(&vmap(&x, |x| x.dropout(&key))?);
    assert!(shared[0] == shared[1] && shared[1] == shared[2]);
    let own = rows(&vmap(&(x.clone(), key.clone()), |(x, key): &(Tensor, Key)| x.dropout(key))?);
    assert!(own[0] != own[1] && own[1] != own[2] && own[0] != own[2]);
    // also where only the key has slices
    let noise = vmap(&(x.clone(), key.clone()), |(_, key): &(Tensor, Key)| randn(key, [8]))?;
    let noise = rows(&noise);
    assert!(noise[0] != noise[1] && noise[1] != noise[2]);
    // the gradient meets the same draws
    let (y, g) = value_and_grad(&x, |x| {
        vmap(&(x.clone(), key.clone()), |(x, key): &(Tensor, Key)| x.dropout(key)).expect("a batch").sum()
    });
    close(&[numbers(&g).iter().sum()], &numbers(&y));
    Ok(())
}

#[test]
fn writes_inside() -> Result<()> {
    let x = Tensor::from([1.0, 2.0, 3.0]);
    let f = jit(|x: Tensor| {
        let doubled = vmap(&x, |x| {
            x.copy_(&(x * 2.0));
            x + 1.0
        });
        doubled.map(|y| (y, x))
    });
    let (y, x) = f.call(x)?;
    close(&numbers(&y), &[3.0, 5.0, 7.0]);
    close(&numbers(&x), &[2.0, 4.0, 6.0]);
    // what is captured is one for all: a value that no slice differs in may be written
    let count = Tensor::from([0.0]);
    let f = jit(move |x: Tensor| {
        let y = vmap(&x, |x| {
            count.copy_(&(&count + 1.0));
            x * count.sum()
        });
        y.map(|y| (y, count.clone()))
    });
    let (y, count) = f.call(Tensor::from([1.0, 2.0]))?;
    close(&numbers(&y), &[1.0, 2.0]);
    close(&numbers(&count), &[1.0]);
    let last = Tensor::from([0.0]);
    let f = jit(move |x: Tensor| vmap(&x, |x| last.copy_(x).sum() * 2.0));
    assert_eq!(f.call(Tensor::from([1.0, 2.0])).expect_err("which one?").code(), "E728");
    Ok(())
}

#[test]
fn regions_tags_and_places_stay() -> Result<()> {
    let (x, w) = (grid(3, 4), grid(4, 4));
    // no gradient flows through a region, and a checkpoint is made again
    let f = |w: &Tensor| {
        vmap(&x, |x| checkpoint(|| (x.matmul(w)).tanh()).sum() + no_grad(|| x.matmul(w).sum())).expect("a batch").sum()
    };
    let want = grad(&w, |w| x.matmul(w).tanh().sum());
    close(&numbers(&grad(&w, f)), &numbers(&want));
    let half = vmap(&x.cast(DType::F32), |x| autocast(DType::BF16, || x.matmul(&w.cast(DType::F32))))?;
    assert_eq!(half.dtype(), DType::BF16);
    let again = jit({
        let w = w.clone();
        move |x: Tensor| vmap(&x, |x| tagged(Tag::RECOMPUTE, || x.matmul(&w)))
    });
    let again = again.keep_traces();
    again.call(x.clone())?;
    let text = again.trace("vmap").expect("a stage");
    assert!(text.contains("recompute") && text.contains(file!()), "{text}");
    Ok(())
}

#[test]
fn what_can_not_be_batched_says_why() {
    let (x, y) = (grid(3, 2), grid(2, 2));
    let refused = |e: Result<Tensor>, text: &str| {
        let e = e.expect_err("no batch");
        assert!(e.code() == "E727" && e.to_string().contains(text), "{e}");
    };
    refused(vmap(&(x.clone(), y), |(x, y): &(Tensor, Tensor)| x + y), "`0` has 3 slices, `1` has 2");
    refused(vmap(&Tensor::from(1.0), |x| x.exp()), "has 0 axes, it can't be batched along axis 0");
    refused(vmap_with(&x, &[Some(2)], |x| x.exp()), "has 2 axes, it can't be batched along axis 2");
    refused(vmap_with(&x, &[None, None], |x| x.exp()), "2 axes were given for 1 leaf");
    refused(vmap_with(&x, &[None], |x| x.exp()), "no tensor is batched");
    // the closure's own
    let e = vmap(&x, |x| x.matmul(&Tensor::from([1.0; 3]))).expect_err("two and three");
    assert_eq!(e.code(), "E701", "{e}");
    let e = vmap(&x, |_| Err::<Tensor, _>("no such thing")).expect_err("the closure's");
    assert_eq!(e.code(), "E746", "{e}");
}

#[test]
fn jacobians_and_hessians_of_trees() -> Result<()> {
    let (a, b) = (Tensor::from([1.0, 2.0]), Tensor::from([3.0, -1.0, 0.5]));
    // f = (a0 a1) b: by a [a1 b, a0 b], by b the identity times a0 a1
    let f = |(a, b): &(Tensor, Tensor)| a.prod() * b;
    let (by_a, by_b) = jacobian(&(a.clone(), b.clone()), f)?;
    assert_eq!((by_a.shape().len(), by_b.shape().len()), (2, 2));
    close(&numbers(&by_a), &[6.0, 3.0, -2.0, -1.0, 1.0, 0.5]);
    close(&numbers(&by_b), &[2.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 2.0]);
    let g = |(a, b): &(Tensor, Tensor)| a.prod() * (b * b).sum();
    let h = hessian(&(a, b), g)?;
    let squares = 9.0 + 1.0 + 0.25;
    close(&numbers(&h[0].0), &[0.0, squares, squares, 0.0]);
    close(&numbers(&h[0].1), &[12.0, -4.0, 2.0, 6.0, -2.0, 1.0]);
    close(&numbers(&h[1].0), &[12.0, 6.0, -4.0, -2.0, 2.0, 1.0]);
    close(&numbers(&h[1].1), &[4.0, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 4.0]);
    // in a compiled function, of what has integers beside
    let f = jit(|x: Tensor, i: Tensor| jacobian(&(x, i), |(x, i): &(Tensor, Tensor)| x.gather(i, 0).exp()));
    let (by_x, by_i) = f.call((Tensor::from([0.0, 1.0]), Tensor::from([1i64, 0, 0])))?;
    let e = 1f64.exp();
    close(&numbers(&by_x), &[0.0, e, 1.0, 0.0, 1.0, 0.0]);
    assert_eq!(numbers(&by_i), [0.0; 9]);
    assert_eq!(jacobian(&Tensor::from([1i64]), |x| x.cast(DType::F64)).expect_err("integers").code(), "E712");
    assert_eq!(jacobian(&Tensor::from([1.0]), |x| x.cast(DType::I64)).expect_err("integers").code(), "E712");
    Ok(())
}

#[test]
fn hessians_of_examples() -> Result<()> {
    let x = grid(3, 2);
    let each = vmap(&x, |x| hessian(x, |x| (x * x).prod()).map(|mut h| h.remove(0)))?;
    let want: Vec<f64> = (0..3)
        .flat_map(|i| {
            let v = numbers(&x.select(0, i));
            let (a, b) = (v[0], v[1]);
            [2.0 * b * b, 4.0 * a * b, 4.0 * a * b, 2.0 * a * a]
        })
        .collect();
    close(&numbers(&each), &want);
    Ok(())
}

#[test]
fn printed_batches_are_read_where_nobody_made_them() {
    let text = "fn f(x: f64[2], y: f64[2], w: f64[3, 1, 2, 2]) {\n \
                a: f64[3, 1] = bilinear.vmap.w(x, y, w)\n return a\n}";
    let trace = parse(text);
    let w = (arange(12).cast(DType::F64)).reshape((3, 1, 2, 2));
    let out = run(&trace, &[Tensor::from([1.0, 2.0]), Tensor::from([3.0, 5.0]), w]);
    // x' w y for w = [[0, 1], [2, 3]], and 4 and 8 more in each entry
    close(&numbers(&out[0]), &[47.0, 47.0 + 4.0 * 24.0, 47.0 + 8.0 * 24.0]);
    assert_eq!(
        fulgurite::Trace::parse("fn f(x: f64[2]) {\n a: f64[2] = exp.vmap.y(x)\n return a\n}")
            .expect_err("no y")
            .code(),
        "E731"
    );
}

#[test]
fn a_gradient_through_a_batch_of_gradients() {
    let (x, w) = (grid(3, 4), grid(1, 4).reshape(4));
    // one step down the loss of each example, then the examples again
    let after = |w: &Tensor| {
        let each = vmap(&x, |x| {
            let step = grad(w, |w| (x * w).sum().square());
            (x * (w - step * 0.1)).sum()
        });
        each.map_or_else(Tensor::poisoned, |each| each.sum())
    };
    // sum of x (1 - 0.2 x x)
    let mut want = vec![0.0; 4];
    for i in 0..3 {
        let row = numbers(&x.select(0, i));
        let length: f64 = row.iter().map(|v| v * v).sum();
        want.iter_mut().zip(&row).for_each(|(w, v)| *w += v * (1.0 - 0.2 * length));
    }
    close(&numbers(&grad(&w, after)), &want);
}

/// Rows that nobody checked: E109 would have refused them.
#[test]
fn rows_without_a_batched_form_are_refused() {
    const VECTOR: RowText = RowText {
        op: "vector_only",
        doc: "A primitive of vectors.",
        sig: "(x: T[N]) -> T[N]",
        promote: "equal",
        dtypes: "all",
        kind: MeaningKind::Host,
        body: "vector_only",
        file: "batch.rs",
        line: 1,
        ..RowText::BLANK
    };
    const DRAWN: RowText = RowText {
        op: "one_draw",
        sig: "(x: T, key: Key) -> T",
        promote: "default",
        kind: MeaningKind::Expr,
        body: "x * uniform(key, 0, 0)",
        ..VECTOR
    };
    static ROWS: [Symbol; 2] = [Symbol::new("scenarios", VECTOR), Symbol::new("scenarios", DRAWN)];
    ROWS.iter().for_each(|row| _ = symbol::register(row));
    let refused = |text: &str, flags: &[bool], says: &str| {
        let e = transforms::vmap(&parse(text), flags, Dim::from(2)).expect_err("no batched form");
        assert!(e.code() == "E726" && e.to_string().contains(says), "{e}");
    };
    refused("fn f(x: f64[3]) {\n a: f64[3] = vector_only(x)\n return a\n}", &[true], "`x` starts with `N`");
    let drawn = "fn f(x: f64[3], k: key) {\n a: f64[3] = one_draw(x, k)\n return a\n}";
    refused(drawn, &[true, true], "`key` draws at one position");
    assert!(transforms::vmap(&parse(drawn), &[true, false], Dim::from(2)).is_ok());
}

/// A function with a backward of its own keeps it in a batch, whichever of the two stands around the other.
#[test]
fn own_backwards_in_batches() {
    // three times the true gradient, so that nobody derives it by chance
    let triple = |x: &Tensor, w: &Tensor| {
        custom_vjp(
            &(x.clone(), w.clone()),
            |(x, w)| ((x * w).sum(), (x.clone(), w.clone())),
            |(x, w), ct: &Tensor| (ct * &w * 3.0, ct * &x * 3.0),
        )
    };
    let xs = Tensor::from([[1.0f64, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    let w = Tensor::from([10.0f64, 100.0]);
    let all = |p: &(Tensor, Tensor)| vmap(&p.0, |x| triple(x, &p.1)).map(|y| y.sum());
    let (_, (gx, gw)) = try_value_and_grad(&(xs.clone(), w.clone()), all).expect("runs");
    assert_eq!(gx.to_f64().unwrap(), [30.0, 300.0, 30.0, 300.0, 30.0, 300.0]);
    assert_eq!(gw.to_f64().unwrap(), [27.0, 36.0], "what the slices share gets the sum");
    let each = vmap(&xs, |x| grad(x, |x| triple(x, &w))).expect("runs");
    assert_eq!(each.to_f64().unwrap(), gx.to_f64().unwrap());
    assert_eq!(vmap(&xs, |x| triple(x, &w)).expect("runs").to_f64().unwrap(), [210.0, 430.0, 650.0]);
    // what the backward captures is the same for all slices, at once as in a trace
    let scale = Tensor::from([2.0f64, 3.0]);
    let scaled = |xs: &Tensor| {
        let scale = scale.clone();
        vmap(xs, move |x| {
            let scale = scale.clone();
            custom_vjp(x, |x| (x * 5.0, ()), move |(), ct: &Tensor| ct * &scale)
        })
    };
    let summed = |xs: &Tensor| scaled(xs).map(|y| y.sum());
    let (_, at_once) = try_value_and_grad(&xs, summed).expect("runs");
    assert_eq!(at_once.to_f64().unwrap(), [2.0, 3.0, 2.0, 3.0, 2.0, 3.0]);
    assert_eq!(scaled(&xs).expect("runs").to_f64().unwrap(), [5.0, 10.0, 15.0, 20.0, 25.0, 30.0]);
    let compiled = jit(move |xs: Tensor| try_value_and_grad(&xs, summed).map(|(_, g)| g));
    assert_eq!(compiled.call(xs.clone()).expect("runs").to_f64().unwrap(), at_once.to_f64().unwrap());
    // no slice may write to what all share, in a backward as in a forward
    let seen = Tensor::from([0.0f64, 0.0]);
    let watched = |x: &Tensor| {
        let seen = seen.clone();
        custom_vjp(
            x,
            |x| (x * 2.0, ()),
            move |(), ct: &Tensor| {
                let _ = seen.add_(ct);
                ct * 2.0
            },
        )
    };
    let refused = try_value_and_grad(&xs, |xs| vmap(xs, watched).map(|y| y.sum()));
    assert_eq!(refused.expect_err("refused").code(), "E728");
    // a write of the same to all of them is one write
    let counted = |x: &Tensor| {
        let seen = seen.clone();
        custom_vjp(
            x,
            |x| (x * 2.0, ()),
            move |(), ct: &Tensor| {
                let _ = seen.add_(1.0);
                ct * &seen
            },
        )
    };
    let (_, g) = try_value_and_grad(&xs, |xs| vmap(xs, counted).map(|y| y.sum())).expect("runs");
    assert_eq!((g.to_f64().unwrap(), seen.to_f64().unwrap()), (vec![1.0; 6], vec![1.0, 1.0]));
}
