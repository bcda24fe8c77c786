//! The classes of the database: floats of eight bits, weights in groups of integers, masks.

use super::subclasses::{both, two};
use fulgurite::ErrorKind;
use fulgurite::buffer::{F8E4M3, F8E5M2, U4x2};
use fulgurite::ops::{ScaleFloat8, ScaledMm, Slice, Sum, ToFloat8, ToInt4Groups, ToInt8Columns, ToInt8Groups};
use fulgurite::prelude::*;

fn close(have: &Tensor, want: &[f32], rel: f32) {
    let have = have.to_vec::<f32>().unwrap();
    let fits = |(a, b): (&f32, &f32)| (a - b).abs() <= rel * b.abs();
    assert!(have.len() == want.len() && have.iter().zip(want).all(fits), "{have:?} is not {want:?}");
}

fn f64s(t: &Tensor) -> Vec<f64> {
    t.to_f64().unwrap()
}

fn x() -> Tensor {
    Tensor::from([[1.0f32, 2.0, -3.0, 0.1], [0.5, -0.25, 3.5, -7.0]])
}

fn w() -> Tensor {
    Tensor::from([[7.0f32, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 3.5]])
}

#[test]
fn s4_4_a_product_with_a_plain_matrix_is_refused_while_tracing() {
    let f = jit(|a: Tensor, w: Tensor| a.matmul(&w)).keep_traces();
    let line = line!() - 1;
    let e = f.call((x().to_float8(), ops::full([4, 2], 1.0))).unwrap_err();
    // the rule asks for a field of what has none
    assert_eq!((e.loc().file.ends_with("quantised.rs"), e.loc().line), (true, line), "{e}");
    let text = e.to_string();
    assert!(text.contains("in the rule of `Float8Tensor` for `matmul` (ops.yaml:"), "{text}");
    assert!(f.trace("compiled").is_none());
}

/// The outer operator's gradient is the class's; the products of eight bits stand in bodies.
#[test]
fn s4_5_float8_differentiates_the_outer_operator() {
    let f = jit(|x: Tensor, w: Tensor| {
        let ones = ops::full([2, 2], 1.0);
        vjp(&(x, w), &ones, |(x, w)| x.to_float8().linear(&w.to_float8(), None))
    });
    let f = f.named("f").keep_traces();
    let (y, (gx, gw)) = f.call((x(), w())).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [7.0, 0.35546875, 3.5, -24.5]);
    close(&gx, &[7.0, 0.0, 0.0, 3.5, 7.0, 0.0, 0.0, 3.5], 1e-6);
    close(&gw, &[1.5, 1.75, 0.5, -6.8984375, 1.5, 1.75, 0.5, -6.8984375], 1e-6);
    let x8 = x().to_float8();
    assert_eq!(f64s(&x8.field("data")), [64.0, 128.0, -192.0, 6.5, 32.0, -16.0, 224.0, -448.0]);
    assert_eq!((x8.field("data").dtype(), x8.field("scale").item::<f32>().unwrap()), (DType::F8E4M3FN, 64.0));
    let g8 = ops::full([2, 2], 1.0).to_float8_with(ToFloat8 { dtype: Some(DType::F8E5M2), ..d() });
    assert_eq!((f64s(&g8.field("data")), g8.field("scale").item::<f32>().unwrap()), (vec![57344.0; 4], 57344.0));
    let joint = f.trace("joint").unwrap();
    let outer = |op: &str| joint.lines().filter(|l| !l.contains("| ") && l.contains(&format!("= {op}("))).count();
    assert_eq!((outer("linear"), outer("matmul"), outer("scaled_mm")), (1, 2, 0), "{joint}");
    let body: Vec<&str> =
        joint.lines().skip_while(|l| !l.contains("= linear(")).skip(1).take_while(|l| l.contains("| ")).collect();
    assert!(body.iter().any(|l| l.contains("= matmul_nt(")) && body.iter().any(|l| l.contains("= scaled_mm(")));
    // along rows: a factor for each
    let rows = x().to_float8_with(ToFloat8 { axis: Some((-1).into()), ..d() });
    assert_eq!(rows.field("scale").shape(), [2, 1]);
    let w_rows = w().to_float8_with(ToFloat8 { axis: Some((-1).into()), ..d() });
    close(&rows.linear(&w_rows, None), &[7.0, 0.35546875, 3.5, -24.5], 0.07);
}

/// What the class computes with has no gradient, and says so.
#[test]
fn s4_6_the_gradient_of_the_unrolled_forward_is_refused() {
    let p = (x(), Tensor::scalar(64.0f32));
    let e = try_value_and_grad(&p, |(x, s)| {
        let a = (x * s).cast_sat(DType::F8E4M3FN);
        let one = 1.0 / s;
        Ok::<_, Error>(a.scaled_mm_with(&a.t(), &one, &one, ScaledMm { dtype: Some(DType::F32) }).sum())
    });
    let e = e.unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::NoGradRule { op, .. } if *op == "scaled_mm"), "{e}");
}

#[test]
fn s4_9_what_was_put_together_and_taken_apart_leaves_nothing() {
    let f = jit(|x: Tensor, w: Tensor| x.to_float8().reshape([4, 2]).t().matmul(&w.to_float8()));
    let f = f.keep_traces();
    f.call((x(), ops::full([4, 2], 1.0))).unwrap();
    let unrolled = f.trace("unrolled").unwrap();
    assert!(!unrolled.contains("flatten"), "{unrolled}");
    // arguments are their fields from the start
    let f = jit(|x: Tensor, w: Tensor| x.reshape([4, 2]).t().matmul(&w)).keep_traces();
    f.call((x().to_float8(), ops::full([4, 2], 1.0).to_float8())).unwrap();
    let unrolled = f.trace("unrolled").unwrap();
    assert!(
        !unrolled.contains("flatten") && unrolled.contains("in0.data: f8e4m3fn[2, 4], in0.scale: f32[]"),
        "{unrolled}"
    );
}

/// A program is for one class with its metadata and fields of these types; a miss says which differs.
#[test]
fn s4_11_metadata_and_field_types_are_part_of_what_is_compiled() {
    let f = jit(|x: Tensor| x.t().plain());
    let reason = |x: Tensor| {
        f.call(x).unwrap();
        f.stats().misses.last().unwrap().reasons.join("; ")
    };
    reason(x().to_float8());
    assert!(reason(x().cast(DType::BF16).to_float8()).contains("`x.orig` was"));
    let e5m2 = reason(x().to_float8_with(ToFloat8 { dtype: Some(DType::F8E5M2), ..d() }));
    assert!(e5m2.contains("`x.data` was f8e4m3fn[2, 4], is f8e5m2[2, 4]"), "{e5m2}");
    let rows = reason(x().to_float8_with(ToFloat8 { axis: Some(0.into()), ..d() }));
    assert!(rows.contains("`x.scale` was f32[], is f32[1, 4]"), "{rows}");
    assert_eq!((f.stats().hits, f.stats().misses.len()), (0, 4));
}

#[test]
fn s4_15_reductions_see_what_the_mask_shows() {
    let masked = |mask: [bool; 4]| masked_tensor(&Tensor::from([1.0f32, 2.0, 3.0, 4.0]), &Tensor::from(mask));
    let m = masked([true, false, true, false]);
    let shown = |t: &Tensor| -> Vec<Option<f64>> {
        let (data, mask) = (f64s(&t.field("data")), t.field("mask").to_vec::<bool>().unwrap());
        data.into_iter().zip(mask).map(|(x, on)| on.then_some(x)).collect()
    };
    assert_eq!(shown(&(&m + 1.0)), [Some(2.0), None, Some(4.0), None]);
    assert_eq!(shown(&m.sum()), [Some(4.0)]);
    assert_eq!(shown(&m.mean()), [Some(2.0)]);
    assert_eq!(shown(&m.amax()), [Some(3.0)]);
    assert_eq!(shown(&m.prod()), [Some(3.0)]);
    assert_eq!(m.argmax().item::<i64>().unwrap(), 2);
    let soft = shown(&m.softmax(0));
    assert!((soft[0].unwrap() - 0.1192).abs() < 1e-4 && (soft[2].unwrap() - 0.8808).abs() < 1e-4, "{soft:?}");
    assert_eq!((soft[1], soft[3]), (None, None));
    let none = masked([false; 4]).sum();
    assert_eq!((shown(&none), f64s(&none.field("data"))), (vec![None], vec![0.0]));
}

fn masked_tensor(data: &Tensor, mask: &Tensor) -> Tensor {
    fulgurite::subclass::make(&fulgurite::classes::MASKED_TENSOR, vec![Operand::arg(data), Operand::arg(mask)])
}

/// One mask is not compared with itself; two are, when the program runs.
#[test]
fn s4_16_masks_are_compared_only_where_they_may_differ() {
    let data = || Tensor::from([1.0f32, 2.0, 3.0]);
    let f = jit(|m: Tensor| {
        let y = &m * 2.0;
        m + y
    });
    let f = f.keep_traces();
    f.call(masked_tensor(&data(), &Tensor::from([true, false, true]))).unwrap();
    assert!(!f.trace("acquired").unwrap().contains("checked"));
    let g = jit(|a: Tensor, b: Tensor| a + b).keep_traces();
    let line = line!() - 1;
    let mask = |on: [bool; 3]| masked_tensor(&data(), &Tensor::from(on));
    let y = g.call((mask([true, false, true]), mask([true, false, true]))).unwrap();
    assert_eq!(f64s(&y.field("data")), [2.0, 4.0, 6.0]);
    assert_eq!(g.trace("acquired").unwrap().matches("= checked(").count(), 1);
    let e = g.call((mask([true, false, true]), mask([true, true, true]))).unwrap_err();
    assert_eq!((e.code(), e.loc().line), ("E705", line), "{e}");
    assert!(e.to_string().contains("two values that must agree differ, first at [1]"), "{e}");
}

/// Where the mask hides an element no gradient comes from it, not even NaN.
#[test]
fn s4_17_hidden_elements_have_no_gradient() {
    let x = Tensor::from([4.0f32, 0.0]);
    let g = grad(&x, |x| masked_tensor(x, &x.gt(0.0)).sqrt().sum().plain());
    assert_eq!(g.to_vec::<f32>().unwrap(), [0.25, 0.0]);
}

#[test]
fn s4_18_casts_to_eight_bits() {
    let tiny = 2f32.powi(-10);
    let xs = [464.0, 465.0, 1e4, f32::INFINITY, f32::NAN, tiny, 1.001 * tiny, 17.0, 19.0, 1.0625, 1.1875];
    let x = Tensor::from(xs);
    let e4m3 = |t: Tensor| t.cast(DType::F32).to_vec::<f32>().unwrap();
    let sat = e4m3(x.cast_sat(DType::F8E4M3FN));
    let least = 2f32.powi(-9);
    assert_eq!(sat[..4], [448.0; 4]);
    assert!(sat[4].is_nan());
    assert_eq!(sat[5..], [0.0, least, 16.0, 20.0, 1.0, 1.25]);
    let ieee = e4m3(x.cast_ieee(DType::F8E4M3FN));
    assert_eq!(ieee[0], 448.0);
    assert!(ieee[1..5].iter().all(|x| x.is_nan()), "{ieee:?}");
    assert_eq!(e4m3(x.cast(DType::F8E4M3FN))[..4], [448.0; 4]);
    let ys = Tensor::from([61439.0f32, 61440.0, 465.0, 480.0, 2f32.powi(-17), 1.125]);
    assert_eq!(e4m3(ys.cast_sat(DType::F8E5M2)), [57344.0, 57344.0, 448.0, 512.0, 0.0, 1.0]);
    assert_eq!(e4m3(ys.cast_ieee(DType::F8E5M2))[1], f32::INFINITY);
    assert_eq!(e4m3(ys.cast(DType::F8E5M2))[1], f32::INFINITY);
    // every code comes back from f32, at once and in programs
    let codes: Vec<F8E4M3> = (0..=255).map(F8E4M3).collect();
    let back = jit(|x: Tensor| x.cast(DType::F32).cast(DType::F8E4M3FN));
    let out = back.call(Tensor::from_slice(&codes, [256])).unwrap().to_vec::<F8E4M3>().unwrap();
    assert!(codes.iter().zip(&out).all(|(a, b)| a == b || (a.0 & 0x7f == 0x7f && b.0 & 0x7f == 0x7f)));
    let codes: Vec<F8E5M2> = (0..=255).map(F8E5M2).collect();
    let back = jit(|x: Tensor| x.cast(DType::F64).cast(DType::F8E5M2));
    let out = back.call(Tensor::from_slice(&codes, [256])).unwrap().to_vec::<F8E5M2>().unwrap();
    assert!(codes.iter().zip(&out).all(|(a, b)| a == b || (a.0 & 0x7f > 0x7c && b.0 & 0x7f > 0x7c)));
    // storage meets nothing else, and computes nothing
    let f8 = x.cast(DType::F8E4M3FN);
    assert_eq!((&f8 + 1.0).check().unwrap_err().code(), "E703");
    assert_eq!((&f8 * &x).check().unwrap_err().code(), "E703");
    assert_eq!(ops::cat(&[f8.clone(), x.clone()]).check().unwrap_err().code(), "E703");
    assert_eq!(ops::cat(&[f8.clone(), f8]).dtype(), DType::F8E4M3FN);
}

/// An infinite magnitude is not hidden: it shows in the result.
#[test]
fn s4_19_zeros_have_the_scale_of_the_least_magnitude() {
    for x in [Tensor::from([0.0f32, 0.0]), Tensor::from([1e-20f32, 0.0])] {
        let x8 = x.to_float8();
        assert_eq!(x8.field("scale").item::<f32>().unwrap(), 447_999_985_582_080.0);
        assert_eq!(f64s(&x8.field("data"))[1], 0.0);
        assert_eq!(x8.plain().to_vec::<f32>().unwrap()[1], 0.0);
    }
}

/// One infinite element would make all of them NaN.
#[test]
fn s4_19_an_infinite_magnitude_is_refused_where_that_is_asked() {
    let checked = |x: &Tensor| x.to_float8_with(ToFloat8 { checked: true, ..d() });
    let line = line!() - 1;
    let infinite = Tensor::from([f32::INFINITY, 1.0]);
    assert!(infinite.to_float8().plain().to_vec::<f32>().unwrap().iter().all(|x| x.is_nan()));
    let f = jit(move |x: Tensor| checked(&x).plain());
    assert_eq!(f.call(Tensor::from([448.0f32, -7.0])).unwrap().to_vec::<f32>().unwrap(), [448.0, -7.0]);
    let e = f.call(infinite.clone()).unwrap_err();
    assert_eq!((e.code(), e.loc().line), ("E705", line), "{e}");
    let text = e.to_string();
    assert!(text.contains("`finite`: an element is infinite or NaN"), "{text}");
    assert!(text.contains("in the body of `to_float8`"), "{text}");
    assert!(checked(&infinite).check().is_err());
}

#[test]
fn s4_20_delayed_scaling_uses_the_scale_of_the_steps_before() {
    let most = 448.0;
    let step = jit(move |(history, scale): (Tensor, Tensor), x: Tensor| {
        let x8 = x.scale_float8(&scale);
        let amax = x.abs().amax().reshape([1]);
        let history = ops::cat(&[amax, history.slice_with(Slice { stop: Some(2.into()), ..d() })]);
        let scale = most / history.amax().maximum(1e-12);
        ((history, scale), x8)
    });
    let mut state = (ops::full([3], 0.0), Tensor::scalar(1.0f32));
    let steps = [[2.0f32, -4.0], [8.0, 1.0], [1.0, 1.0], [0.5, 0.5], [0.5, 0.25]];
    let mut seen = Vec::new();
    for x in steps {
        let x8 = step.update(&mut state, Tensor::from(x)).unwrap();
        seen.push((x8.field("scale").item::<f32>().unwrap(), f64s(&x8.field("data")), f64s(&x8.plain())));
    }
    assert_eq!(seen.iter().map(|s| s.0).collect::<Vec<_>>(), [1.0, 112.0, 56.0, 56.0, 56.0]);
    let data: Vec<Vec<f64>> = seen.iter().map(|s| s.1.clone()).collect();
    assert_eq!(data, [[2.0, -4.0], [448.0, 112.0], [56.0, 56.0], [28.0, 28.0], [28.0, 14.0]]);
    assert_eq!(seen[1].2, [4.0, 1.0]);
    assert_eq!(state.1.item::<f32>().unwrap(), 448.0);
}

/// A number may stand for a field without axes, at once and in a program.
#[test]
fn s4_20_a_scale_may_be_a_number() {
    let x = Tensor::from([1.5f32, -2.0]);
    let scaled = jit(|x: Tensor| x.scale_float8(0.5));
    for x8 in [x.scale_float8(0.5), scaled.call(x.clone()).unwrap(), x.scale_float8(Tensor::scalar(0.5f32))] {
        assert_eq!((f64s(&x8.field("data")), x8.field("scale").item::<f32>().unwrap()), (vec![0.75, -1.0], 0.5));
        assert_eq!(f64s(&x8.plain()), [1.5, -2.0]);
    }
    let slope = grad(&x, |x| (x.scale_float8(0.5).plain() * 3.0).sum());
    assert_eq!(slope.to_vec::<f32>().unwrap(), [3.0, 3.0]);
}

/// The history of a cotangent's magnitudes is written where the cotangent is: in the backward.
#[test]
fn s4_20_the_history_of_cotangents_is_written_by_the_backward() {
    let most = 57344.0;
    let (history, scale) = (ops::full([2], 0.0), Tensor::scalar(1.0f32));
    let (past, factor) = (history.clone(), scale.clone());
    let linear = move |x: &Tensor, w: &Tensor| {
        let (past, factor) = (past.clone(), factor.clone());
        custom_vjp(
            &(x.clone(), w.clone()),
            |(x, w)| (x.to_float8().linear(&w.to_float8(), None), (x.clone(), w.clone())),
            move |(x, w), g: &Tensor| {
                let g8 = g.scale_float8_with(&factor, ScaleFloat8 { dtype: Some(DType::F8E5M2) });
                let cotangents = (g8.matmul(&w.to_float8()), g8.t().matmul(&x.to_float8()));
                let amax = g.abs().amax().reshape([1]);
                let _ = past.copy_(&ops::cat(&[amax, past.slice_with(Slice { stop: Some(1.into()), ..d() })]));
                let _ = factor.copy_(&(most / past.amax().maximum(1e-12)));
                cotangents
            },
        )
    };
    let step = jit(move |x: Tensor, w: Tensor, g: Tensor| grad(&w, |w| (linear(&x, w) * &g).sum()));
    let mut seen = Vec::new();
    // the factor of the step before is too large for 8, which becomes the largest number: 2
    for (g, seen_as) in [(2.0, 2.0), (8.0, 2.0), (1.0, 1.0), (1.0, 1.0)] {
        let gw = step.call((x(), w(), Tensor::scalar(g as f32))).unwrap();
        // a power of two in eight bits is itself, times whatever power of two
        let want = x().to_float8().plain().sum_with(Sum { dims: [0].into(), ..d() }) * seen_as;
        close(&gw.select(0, 0), &want.to_vec::<f32>().unwrap(), 1e-6);
        seen.push((f64s(&history), scale.item::<f32>().unwrap()));
    }
    let want = [([2.0, 0.0], 28672.0), ([8.0, 2.0], 7168.0), ([1.0, 8.0], 7168.0), ([1.0, 1.0], 57344.0)];
    assert_eq!(seen, want.map(|(h, s)| (h.to_vec(), s)));
}

#[test]
fn s4_21_weights_in_groups_of_integers() {
    let group = |n: i64| ToInt8Groups { group: n.into() };
    let w = Tensor::from([[1.0f32, -2.0, 0.5, 4.0], [0.0, 0.0, 0.0, 0.0]]).to_int8_groups_with(group(4));
    assert_eq!(w.field("q").to_vec::<i8>().unwrap(), [32, -64, 16, 127, 0, 0, 0, 0]);
    assert!((f64s(&w.plain())[3] - 3.98431397).abs() < 1e-7);
    assert_eq!(f64s(&w.field("scale"))[1], 2f64.powi(-23));
    let w = ops::arange(8).cast(DType::F32).reshape([1, 8]).to_int4_groups_with(ToInt4Groups { group: 4.into() });
    let q: Vec<u8> = w.field("q").to_vec::<U4x2>().unwrap().into_iter().flat_map(|b| [b.0 & 15, b.0 >> 4]).collect();
    assert_eq!(q, [0, 5, 10, 15, 0, 5, 10, 15]);
    close(&w.field("scale"), &[0.2, 0.2], 1e-6);
    close(&w.field("zero"), &[1.6, 5.6], 1e-6);
    let plain = w.plain().to_vec::<f32>().unwrap();
    assert!(plain.iter().enumerate().all(|(i, x)| (x - i as f32).abs() < 2e-6), "{plain:?}");
    let w = ops::full([1, 4], 5.0).to_int4_groups_with(ToInt4Groups { group: 4.into() });
    assert_eq!(f64s(&w.plain()), [5.0; 4]);
    assert_eq!(w.field("q").to_vec::<U4x2>().unwrap(), [U4x2(0), U4x2(0)]);
    let xs: Vec<f32> = (0..8).map(|i| -1.0 + 0.5 * i as f32).collect();
    let w = Tensor::from_vec(xs.clone(), [1, 8]).to_int4_groups_with(ToInt4Groups { group: 8.into() });
    let q: Vec<u8> = w.field("q").to_vec::<U4x2>().unwrap().into_iter().flat_map(|b| [b.0 & 15, b.0 >> 4]).collect();
    assert_eq!(q, [0, 2, 4, 6, 9, 11, 13, 15]);
    let worst = w.plain().to_vec::<f32>().unwrap().iter().zip(&xs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!((worst - 0.1).abs() < 1e-6 && f64::from(worst) <= f64s(&w.field("scale"))[0] / 2.0 + 1e-6);
}

#[test]
fn s4_22_a_frozen_weight_passes_the_gradient_on_and_has_none() {
    let w = ops::randn(Key::new(1), [3, 8]).to_int8_groups_with(ToInt8Groups { group: 4.into() });
    let x = ops::randn(Key::new(2), [2, 8]);
    let g = grad(&x, |x| x.linear(&w, None).sum());
    let want = ops::full([2, 3], 1.0).matmul(&w.plain());
    close(&g, &want.to_vec::<f32>().unwrap(), 1e-6);
    let e = try_value_and_grad(&w, |w| Ok::<_, Error>(x.linear(w, None).sum())).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::NoGradRule { op, input } if *op == "linear" && *input == "w"), "{e}");
    assert!(e.to_string().contains("GroupQuantWeight"), "{e}");
    let e = x.to_int8_groups_with(ToInt8Groups { group: 3.into() }).check().unwrap_err();
    assert_eq!(e.code(), "E705");
    assert!(e.to_string().contains("the group must divide the length of a row"), "{e}");
}

/// The transpose of a weight keeps its integers, however it is written, and a product takes it as its second factor.
#[test]
fn s4_21_a_transposed_weight_keeps_its_integers() {
    let w = ops::randn(Key::new(1), [3, 8]).to_int8_groups_with(ToInt8Groups { group: 4.into() });
    let x = ops::randn(Key::new(2), [2, 8]);
    let (want, plain) = (x.linear(&w, None), w.plain());
    let transposed = [w.t(), w.transpose(0, 1), w.transpose(-1, -2), w.permute([1, 0]), w.permute([-1, -2])];
    for columns in &transposed {
        assert_eq!(columns.class().map(|class| class.name().as_str()), Some("GroupQuantColumns"));
        assert_eq!(f64s(&columns.plain()), f64s(&plain.t()));
        assert_eq!(f64s(&x.matmul(columns)), f64s(&want));
        assert_eq!(f64s(&columns.t().plain()), f64s(&plain));
    }
    for same in [w.transpose(0, -2), w.permute([0, 1]), w.permute([-2, -1])] {
        assert_eq!(same.class().map(|class| class.name().as_str()), Some("GroupQuantWeight"));
        assert_eq!(f64s(&same.plain()), f64s(&plain));
    }
    let columns = w.plain().t().to_int8_columns_with(ToInt8Columns { group: 4.into() });
    assert_eq!(f64s(&columns.field("q")), f64s(&w.field("q")));
    let g = grad(&x, |x| x.matmul(&columns).sum());
    close(&g, &ops::full([2, 3], 1.0).matmul(&columns.plain().t()).to_vec::<f32>().unwrap(), 1e-6);
    // other places of the weight, and other products, are refused
    assert_eq!(w.t().matmul(&ops::full([3, 2], 1.0)).check().unwrap_err().code(), "E702");
    assert_eq!((&columns + 1.0).check().unwrap_err().code(), "E708");
}

/// A checkpoint holds the fields.
#[test]
fn s4_21_tensors_of_classes_are_saved_by_their_fields() {
    let dir = std::env::temp_dir().join(format!("fulgurite-classes-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("model.safetensors");
    let of = |seed: u64| {
        let w = ops::randn(Key::new(seed), [4, 8]);
        let four = w.to_int4_groups_with(ToInt4Groups { group: 4.into() });
        (w.to_int8_groups_with(ToInt8Groups { group: 4.into() }), four, w.to_float8(), two(&[1.0], &[seed as f32]))
    };
    let (saved, mut loaded) = (of(3), of(4));
    save(&path, &saved).unwrap();
    load(&path, &mut loaded).unwrap();
    assert_eq!(f64s(&saved.0.plain()), f64s(&loaded.0.plain()));
    assert_eq!(f64s(&saved.1.plain()), f64s(&loaded.1.plain()));
    assert_eq!(f64s(&saved.2.plain()), f64s(&loaded.2.plain()));
    assert_eq!(both(&loaded.3), (vec![1.0], vec![3.0]));
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Numbers that a key decides, of magnitudes from tiny to large.
fn spread(seed: u64, sizes: [usize; 2]) -> Tensor {
    let (a, b) = (Key::new(seed), Key::new(seed + 500));
    let size = 10f64.powf((seed % 7) as f64 - 3.0);
    ops::randn(&a, sizes) * ops::uniform(&b, sizes) * size
}

/// The generated properties (tests/properties.rs, `Class.operator::p18_…`) hold, and would not with a bound ten times too
/// small: then they name the class, the operator and where both stand.
#[test]
fn s4_27_a_bound_ten_times_too_small_does_not_hold() {
    let laws = || fulgurite_tests::classes::laws(&|class| matches!(class, "Float8Tensor" | "GroupQuantWeight"));
    let tight = [
        "Float8Tensor::p18_made",
        "Float8Tensor.matmul::p18_operators",
        "Float8Tensor.matmul_nt::p18_operators",
        "Float8Tensor.matmul_nt::p18_gradients",
        "GroupQuantWeight::p18_made",
        "GroupQuantWeight.matmul_nt::p18_operators",
    ];
    for name in tight {
        let find = || laws().into_iter().find(|law| law.name == name).unwrap_or_else(|| panic!("no law {name}"));
        find().check().unwrap_or_else(|fault| panic!("{name}: {fault}"));
        let fault = find().within(0.1).check().expect_err(name);
        let (class, op) =
            name.split(':').next().unwrap().split_once('.').unwrap_or((name.split(':').next().unwrap(), ""));
        assert!(fault.contains(&format!("`{class}` at ops.yaml:")), "{fault}");
        assert!(op.is_empty() || fault.contains(&format!("`{op}` at ops.yaml:")), "{fault}");
    }
}

/// A view that factors along an axis can't follow is refused.
#[test]
fn s4_27_views_move_factors_along_or_are_refused() {
    let x = spread(3, [4, 6]);
    let rows = x.to_float8_with(ToFloat8 { axis: Some((-1).into()), ..d() });
    assert_eq!(f64s(&rows.t().plain()), f64s(&rows.plain().t()));
    assert!(rows.reshape([2, 12]).check().is_err());
}

/// What is computed again, and a backward written by hand, are copies of lines: each with a body of its own.
#[test]
fn s4_5_lines_on_classes_are_computed_again_and_copied() {
    let (x, w) = (spread(3, [6, 8]), spread(4, [4, 8]));
    fn map(x: &Tensor, w: &Tensor) -> Tensor {
        x.to_float8().linear(&w.to_float8(), None).gelu()
    }
    let step = |again: bool| {
        jit(move |x: Tensor, w: Tensor| {
            grad(&(x, w), |(x, w)| {
                let run = || map(x, w);
                (if again { checkpoint(run) } else { run() }).sum()
            })
        })
        .keep_traces()
    };
    let (plain, again) = (step(false), step(true));
    let want = plain.call((x.clone(), w.clone())).unwrap();
    let have = again.call((x.clone(), w.clone())).unwrap();
    assert_eq!((f64s(&have.0), f64s(&have.1)), (f64s(&want.0), f64s(&want.1)));
    assert!(
        again.trace("rematerialised").unwrap().contains("recompute of"),
        "{}",
        again.trace("rematerialised").unwrap()
    );
    let own = jit(|x: Tensor, w: Tensor| {
        let twice = |x: &Tensor| {
            let f = |x: &Tensor| (x * 1.0, x.clone());
            custom_vjp(x, f, |kept: Tensor, ct: &Tensor| ct * kept.to_float8().plain())
        };
        grad(&(x, w), |(x, w)| (twice(x) * twice(&(x * 2.0))).matmul(&w.t()).sum())
    });
    own.call((x.clone(), w.clone())).unwrap();
    // what is not there yet says so
    let e = jvp(&x, &x, |x| x.to_float8().plain()).err().unwrap();
    assert_eq!(e.code(), "E711", "{e}");
    let e = vmap(&x, |x| x.to_float8().plain()).err().unwrap();
    assert_eq!(e.code(), "E726", "{e}");
    let e = jit(|x: Tensor| x.plain()).pullback(x.to_float8()).err().unwrap();
    assert_eq!(e.code(), "E708", "{e}");
    let e = jit(|x: Tensor| x.to_float8()).pullback(x.clone()).err().unwrap();
    assert_eq!(e.code(), "E708", "{e}");
}
