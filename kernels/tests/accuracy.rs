//! Errors of the f32 functions over the whole domain, in all three instruction sets, against f64.
//!
//! Plain `cargo test` tests every 4099th bit pattern. With `FULGURITE_EXHAUSTIVE` set it tests every 257th, from which
//! the bounds were taken.

mod common;

use common::{Lcg, entry, forms, run};
use fulgurite_core::DType;
use fulgurite_core::builtins::{Builtin, eval_f64};

/// (builtin, bound in ulp). The arithmetic ones are correctly rounded.
const BOUNDS: &[(&str, f64)] = &[
    ("neg", 0.0),
    ("abs", 0.0),
    ("sign", 0.0),
    ("floor", 0.0),
    ("ceil", 0.0),
    ("round", 0.0),
    ("trunc", 0.0),
    ("sqrt", 0.5),
    ("reciprocal", 0.5),
    ("rsqrt", 1.5),
    ("exp", 1.2),
    ("exp2", 1.2),
    ("expm1", 1.6),
    ("ln", 1.0),
    ("log2", 1.6),
    ("log10", 1.8),
    ("log1p", 1.6),
    ("sin", 1.7),
    ("cos", 1.7),
    ("tan", 3.8),
    ("asin", 2.4),
    ("acos", 1.2),
    ("atan", 1.4),
    ("sinh", 1.7),
    ("cosh", 1.7),
    ("tanh", 2.5),
    ("asinh", 1.8),
    ("acosh", 2.1),
    ("atanh", 2.2),
    ("erf", 1.9),
    ("erfc", 4.0),
    ("erfinv", 3.3),
    ("sigmoid", 2.5),
    // Computed through f64.
    ("erfcx", 0.51),
    ("lgamma", 0.51),
    ("digamma", 0.51),
    ("i0", 0.51),
    ("i0e", 0.51),
    ("i1", 0.51),
    ("i1e", 0.51),
];

/// (builtin of two arguments, bound in ulp).
const BOUNDS_OF_TWO: &[(&str, f64)] = &[
    ("add", 0.5),
    ("sub", 0.5),
    ("mul", 0.5),
    ("div", 0.5),
    ("max", 0.0),
    ("min", 0.0),
    ("pow", 0.52),
    ("atan2", 1.6),
    ("hypot", 0.5),
    ("copysign", 0.0),
    ("rem_trunc", 0.5),
    ("rem_floor", 0.5),
];

/// Distance from |x| to the next larger f32.
fn ulp(x: f32) -> f64 {
    // The largest number takes the distance of its binade.
    let a = x.abs().min(f32::from_bits(f32::MAX.to_bits() - 1));
    f32::from_bits(a.to_bits() + 1) as f64 - a as f64
}

/// The error of `got` in ulp; infinite where NaN, infinity or the sign of zero is wrong.
fn error(got: f32, exact: f64) -> f64 {
    let rounded = exact as f32;
    if got.is_nan() || rounded.is_nan() {
        return if got.is_nan() == rounded.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got == rounded {
        let sign = got.is_sign_negative() == rounded.is_sign_negative();
        return if !sign {
            f64::INFINITY
        } else if got.is_infinite() {
            0.0
        } else {
            (got as f64 - exact).abs() / ulp(got)
        };
    }
    // Only one of the two may have overflowed.
    let finite = |x: f64| if x.is_infinite() { (f32::MAX as f64 + ulp(f32::MAX)).copysign(x) } else { x };
    (finite(got as f64) - finite(exact)).abs() / ulp(rounded)
}

#[test]
fn functions_of_one_argument() {
    let step = if std::env::var_os("FULGURITE_EXHAUSTIVE").is_some() { 257 } else { 4099 };
    let patterns: Vec<f32> = (0..=u32::MAX).step_by(step).map(f32::from_bits).collect();
    for (name, bound) in BOUNDS {
        let builtin = Builtin::from_name(name).expect("a builtin");
        let exact: Vec<f64> = patterns.iter().map(|x| eval_f64(builtin, &[*x as f64])).collect();
        for (level, f) in forms(entry(&format!("builtin.{name}"), "", DType::F32)) {
            let got: Vec<f32> = run(f, patterns.len(), &[&patterns], &[]);
            let errors = got.iter().zip(&exact).map(|(got, exact)| error(*got, *exact));
            let (worst, at) = errors.zip(&patterns).fold((0.0, 0.0), |w, (e, x)| if e > w.0 { (e, *x) } else { w });
            println!("{name} {level:?}: {worst:.3} ulp at {at:e}");
            assert!(worst <= *bound, "{name} {level:?} has an error of {worst} ulp at {at:e}, bound {bound}");
        }
    }
}

/// Values at which the conventions differ from plain formulas.
const SPECIAL: [f32; 24] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    3.0,
    -3.0,
    0.5,
    -2.5,
    0.1,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    1e-45,
    -1e-45,
    f32::MAX,
    f32::MIN,
    16_777_215.0,
    -16_777_216.0,
    1.000_000_1,
    0.999_999_94,
    128.0,
    -149.0,
];

#[test]
fn functions_of_two_arguments() {
    let mut pairs: Vec<(f32, f32)> = SPECIAL.iter().flat_map(|x| SPECIAL.iter().map(|y| (*x, *y))).collect();
    let mut random = Lcg(12_345);
    for _ in 0..50_000 {
        let mut in_range = |width: f32| (random.next() as f32 / 4_294_967_296.0 - 0.5) * width;
        pairs.push((in_range(20.0), in_range(200.0)));
        pairs.push((1.0 + in_range(0.01), in_range(20_000.0)));
        pairs.push((in_range(4.0), in_range(4.0)));
        pairs.push((f32::from_bits(random.next()), f32::from_bits(random.next())));
        pairs.push((f32::from_bits(random.next() >> 1), random.next() as f32 / 1e9 - 2.0));
    }
    let (x, y): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
    for (name, bound) in BOUNDS_OF_TWO {
        let builtin = Builtin::from_name(name).expect("a builtin");
        for (level, f) in forms(entry(&format!("builtin.{name}"), "", DType::F32)) {
            let got: Vec<f32> = run(f, x.len(), &[&x, &y], &[]);
            for (i, got) in got.iter().enumerate() {
                let exact = eval_f64(builtin, &[x[i] as f64, y[i] as f64]);
                let e = error(*got, exact);
                assert!(e <= *bound, "{name} {level:?}({:e}, {:e}) is {got:e}, not {exact:e}: {e} ulp", x[i], y[i]);
            }
        }
    }
}

/// Quotients that are rounded before they are truncated may differ by one from the f64 result where they are whole.
#[test]
fn divisions_with_rounding() {
    for (x, y, floor, trunc) in [
        (7.0, 2.0, 3.0, 3.0),
        (-7.0, 2.0, -4.0, -3.0),
        (7.0, -2.0, -4.0, -3.0),
        (0.0, -3.0, -0.0, -0.0),
        (-1.0, f32::INFINITY, -1.0, -0.0),
        (f32::INFINITY, 1.0, f32::NAN, f32::INFINITY),
        (5.0, 0.0, f32::INFINITY, f32::INFINITY),
        (0.0, 0.0, f32::NAN, f32::NAN),
        (1.0, 0.1, 9.0, 10.0),
    ] {
        for (name, expected) in [("builtin.div_floor", floor), ("builtin.div_trunc", trunc)] {
            for (level, f) in forms(entry(name, "", DType::F32)) {
                let got: Vec<f32> = run(f, 1, &[&[x], &[y]], &[]);
                let same = got[0].is_nan() && f32::is_nan(expected) || got[0].to_bits() == f32::to_bits(expected);
                assert!(same, "{name} {level:?}({x}, {y}) is {}, not {expected}", got[0]);
            }
        }
    }
}
