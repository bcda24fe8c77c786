//! The table of scalar builtins: values against recorded ones, partials against differences, conventions one by one.

mod scalar_text;

use fulgurite_core::DType::{self, *};
use fulgurite_core::Scalar;
use fulgurite_core::builtins::{
    Builtin, Domain, IntError, Partial, Record, TABLE, cast_f64, cast_int, eval_bool, eval_f64, eval_int,
};
use scalar_text::evaluate;

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

fn builtin(name: &str) -> Builtin {
    Builtin::from_name(name).unwrap_or_else(|| panic!("{name} is no builtin"))
}

fn value(name: &str, args: &[f64]) -> f64 {
    eval_f64(builtin(name), args)
}

/// Equal as values at special points are: NaN equals NaN, and zeros have a sign.
fn same(a: f64, b: f64) -> bool {
    a.is_nan() && b.is_nan() || a == b && a.is_sign_negative() == b.is_sign_negative()
}

fn partial_text(record: &Record, text: &str, args: &[f64]) -> f64 {
    let mut env: Vec<(&str, f64)> = record.args.iter().copied().zip(args.iter().copied()).collect();
    env.push(("out", eval_f64(record.builtin, args)));
    evaluate(text, &env)
}

fn partial(name: &str, args: &[f64], i: usize) -> f64 {
    let record = builtin(name).record();
    match record.partials[i] {
        Partial::Text(text) => partial_text(record, text, args),
        Partial::Zero => 0.0,
        other => panic!("{name} has no partial text: {other:?}"),
    }
}

#[test]
fn the_table_is_whole() {
    let mut names: Vec<_> = TABLE.iter().map(|r| r.name).collect();
    for (i, record) in TABLE.iter().enumerate() {
        assert_eq!(record.builtin as usize, i, "{} stands at the wrong place", record.name);
        assert_eq!(record.partials.len(), record.arity(), "{}", record.name);
        assert_eq!(Builtin::from_name(record.name), Some(record.builtin));
        let against = record.partials_against_number.len();
        assert!(against == 0 || against == record.arity(), "{}", record.name);
        for arg in 0..record.arity() {
            assert!(record.cpu.contains(&format!("{{{arg}}}")), "{} drops an argument", record.name);
            assert!(record.cuda.contains(&format!("{{{arg}}}")), "{} drops an argument", record.name);
        }
        assert!(record.flops > 0);
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), TABLE.len(), "names repeat");
}

#[test]
fn results_have_dtypes() {
    assert_eq!(builtin("exp").result_dtype(F32, Bool), Some(F32));
    assert_eq!(builtin("exp").result_dtype(I32, Bool), None);
    assert_eq!(builtin("lt").result_dtype(I32, Bool), Some(Bool));
    assert_eq!(builtin("cast").result_dtype(I32, F16), Some(F16));
    assert_eq!(builtin("sub").result_dtype(Bool, Bool), None);
    assert!(!Domain::All.contains(C64));
}

/// Wherever a partial is text, it is the slope, away from kinks.
#[test]
fn partials_are_slopes() {
    for record in TABLE {
        let texts: Vec<_> =
            record.partials.iter().map(|p| if let Partial::Text(t) = p { Some(*t) } else { None }).collect();
        for case in 0..400u64 {
            let args: Vec<f64> = record
                .sample
                .iter()
                .enumerate()
                .map(|(i, (lo, hi))| {
                    let u = fulgurite_core::philox::uniform(9, record.builtin as u64, case, i as u32) as f64;
                    lo + (hi - lo) * u
                })
                .collect();
            for (i, text) in texts.iter().enumerate() {
                let Some(text) = text else { continue };
                let h = 1e-5;
                let at = |d: f64| {
                    let mut moved = args.clone();
                    moved[i] += d;
                    eval_f64(record.builtin, &moved)
                };
                // Skip where a kink or jump lies within the stencil: one-sided slopes differ.
                let (left, right) = ((at(0.0) - at(-2.0 * h)) / (2.0 * h), (at(2.0 * h) - at(0.0)) / (2.0 * h));
                if (left - right).abs() > 1e-2 * (1.0 + left.abs()) {
                    assert!(!record.kink.is_empty() || left.abs() > 10.0, "{} bends at {args:?}", record.name);
                    continue;
                }
                let slope = (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h);
                let derived = partial_text(record, text, &args);
                let scale = 1.0 + derived.abs();
                assert!((slope - derived).abs() < 1e-8 * scale, "{} {i} at {args:?}: {slope} {derived}", record.name);
            }
        }
    }
}

/// Name, arguments, value, partials, as PyTorch 2.15 gave them.
#[test]
fn special_points() {
    let points: &[(&str, &[f64], f64, &[f64])] = &[
        ("sqrt", &[0.0], 0.0, &[INF]),
        ("sqrt", &[-0.0], -0.0, &[-INF]),
        ("sqrt", &[INF], INF, &[0.0]),
        ("rsqrt", &[0.0], INF, &[-INF]),
        ("rsqrt", &[-0.0], -INF, &[INF]),
        ("reciprocal", &[0.0], INF, &[-INF]),
        ("ln", &[0.0], -INF, &[INF]),
        ("log1p", &[-1.0], -INF, &[INF]),
        ("asin", &[1.0], 1.0f64.asin(), &[INF]),
        ("asin", &[-1.0], -1.0f64.asin(), &[INF]),
        ("asin", &[INF], NAN, &[NAN]),
        ("acos", &[1.0], 0.0, &[-INF]),
        ("atanh", &[1.0], INF, &[INF]),
        ("atanh", &[-1.0], -INF, &[INF]),
        ("acosh", &[1.0], 0.0, &[INF]),
        ("exp", &[INF], INF, &[INF]),
        ("tanh", &[INF], 1.0, &[0.0]),
        ("tanh", &[-INF], -1.0, &[0.0]),
        ("sigmoid", &[INF], 1.0, &[0.0]),
        ("sigmoid", &[-INF], 0.0, &[0.0]),
        ("sin", &[INF], NAN, &[NAN]),
        ("tan", &[-INF], NAN, &[NAN]),
        ("erf", &[0.0], 0.0, &[std::f64::consts::FRAC_2_SQRT_PI]),
        ("erfinv", &[1.0], INF, &[INF]),
        ("erfinv", &[1.5], NAN, &[NAN]),
        ("abs", &[0.0], 0.0, &[0.0]),
        ("abs", &[NAN], NAN, &[0.0]),
        ("sign", &[NAN], 0.0, &[0.0]),
        ("sign", &[-0.0], 0.0, &[0.0]),
        ("lgamma", &[0.0], INF, &[-INF]),
        ("lgamma", &[-0.0], INF, &[INF]),
        ("lgamma", &[-2.0], INF, &[NAN]),
        ("lgamma", &[1.0], 0.0, &[-0.5772156649015329]),
        ("lgamma", &[INF], INF, &[INF]),
        ("lgamma", &[-INF], INF, &[NAN]),
        ("digamma", &[0.0], -INF, &[INF]),
        ("digamma", &[-0.0], INF, &[INF]),
        // PyTorch's slope at a negative integer is what the rounding of sin(πx) leaves, 6.6e32.
        ("digamma", &[-1.0], NAN, &[INF]),
        ("digamma", &[INF], INF, &[0.0]),
        ("digamma", &[-INF], NAN, &[NAN]),
        ("polygamma", &[1e30, 1e20], 0.0, &[]),
        ("polygamma", &[INF, 2.0], NAN, &[]),
        ("polygamma", &[0.5, 2.0], NAN, &[]),
        ("polygamma", &[2.0, 0.0], -INF, &[]),
        ("polygamma", &[3.0, -4.0], INF, &[]),
        ("polygamma", &[2.0, INF], 0.0, &[]),
        ("i0", &[0.0], 1.0, &[0.0]),
        ("i0", &[INF], NAN, &[NAN]),
        ("i0e", &[0.0], 1.0, &[0.0]),
        ("i0e", &[-INF], 0.0, &[0.0]),
        ("i1", &[-0.0], -0.0, &[0.5]),
        ("i1e", &[0.0], 0.0, &[0.5]),
        ("i1e", &[INF], 0.0, &[0.0]),
        ("i1e", &[-INF], -0.0, &[0.0]),
        ("erfcx", &[0.0], 1.0, &[-std::f64::consts::FRAC_2_SQRT_PI]),
        ("erfcx", &[INF], 0.0, &[NAN]),
        ("erfcx", &[-INF], INF, &[-INF]),
        ("erfcx", &[-30.0], INF, &[-INF]),
        ("nextafter", &[1.0, 2.0], 1.0 + f64::EPSILON, &[1.0, 0.0]),
        ("nextafter", &[1.0, 1.0], 1.0, &[0.0, 0.0]),
        ("nextafter", &[0.0, -0.0], -0.0, &[0.0, 0.0]),
        ("nextafter", &[-0.0, 1.0], 5e-324, &[1.0, 0.0]),
        ("nextafter", &[INF, 0.0], f64::MAX, &[1.0, 0.0]),
        ("nextafter", &[NAN, 0.0], NAN, &[1.0, 0.0]),
        ("nextafter", &[0.0, NAN], NAN, &[1.0, 0.0]),
        ("round", &[2.5], 2.0, &[0.0]),
        ("round", &[-0.5], -0.0, &[0.0]),
        ("floor", &[NAN], NAN, &[0.0]),
        ("div", &[1.0, 0.0], INF, &[INF, -INF]),
        ("div", &[0.0, 0.0], NAN, &[INF, NAN]),
        ("div_floor", &[INF, 1.0], NAN, &[0.0, 0.0]),
        ("div_floor", &[-1.0, INF], -1.0, &[0.0, 0.0]),
        ("div_floor", &[0.0, -3.0], -0.0, &[0.0, 0.0]),
        ("div_floor", &[-5.0, 0.0], -INF, &[0.0, 0.0]),
        ("div_trunc", &[-5.0, 3.0], -1.0, &[0.0, 0.0]),
        ("rem_trunc", &[-5.0, 3.0], -2.0, &[1.0, 1.0]),
        ("rem_trunc", &[5.0, 0.0], NAN, &[1.0, -INF]),
        ("rem_floor", &[-5.0, 3.0], 1.0, &[1.0, 2.0]),
        ("rem_floor", &[-1.0, INF], INF, &[1.0, 1.0]),
        ("rem_floor", &[-6.0, 3.0], -0.0, &[1.0, 2.0]),
        ("atan2", &[0.0, 0.0], 0.0, &[0.0, -0.0]),
        ("hypot", &[0.0, 0.0], 0.0, &[NAN, NAN]),
        ("copysign", &[2.0, -0.0], -2.0, &[-1.0, 0.0]),
        ("copysign", &[-0.0, -1.0], -0.0, &[-0.0, 0.0]),
        ("max", &[2.0, 2.0], 2.0, &[0.5, 0.5]),
        ("max", &[NAN, 1.0], NAN, &[1.0, 1.0]),
        ("max", &[1.0, NAN], NAN, &[1.0, 1.0]),
        ("max", &[-0.0, 0.0], -0.0, &[0.5, 0.5]),
        ("max", &[0.0, -0.0], 0.0, &[0.5, 0.5]),
        ("min", &[0.0, -0.0], 0.0, &[0.5, 0.5]),
        ("min", &[3.0, 2.0], 2.0, &[0.0, 1.0]),
        ("min", &[1.0, NAN], NAN, &[1.0, 1.0]),
        ("pow", &[0.0, 0.0], 1.0, &[0.0, 0.0]),
        ("pow", &[0.0, 1.0], 0.0, &[1.0, 0.0]),
        ("pow", &[0.0, 0.5], 0.0, &[INF, 0.0]),
        ("pow", &[-2.0, 2.0], 4.0, &[-4.0, NAN]),
        ("pow", &[7.0, 0.0], 1.0, &[0.0, 7.0f64.ln()]),
        ("pow", &[0.0, -1.0], INF, &[-INF, -INF]),
        ("pow", &[NAN, 0.0], 1.0, &[0.0, NAN]),
        ("pow", &[1.0, NAN], 1.0, &[NAN, 0.0]),
    ];
    for (name, args, expected, partials) in points {
        let got = value(name, args);
        assert!(same(got, *expected), "{name}{args:?} is {got}, not {expected}");
        for (i, expected) in partials.iter().enumerate() {
            let got = partial(name, args, i);
            assert!(same(got, *expected), "partial {i} of {name} at {args:?} is {got}, not {expected}");
        }
    }
}

#[test]
fn ties_with_numbers_have_no_slope() {
    for (name, slopes) in [("max", [0.0, 1.0, 0.0, 1.0]), ("min", [1.0, 0.0, 0.0, 1.0])] {
        let record = builtin(name).record();
        let points = [1.0, 3.0, 2.0, NAN];
        for (x, slope) in points.into_iter().zip(slopes) {
            let got = partial_text(record, record.partials_against_number[0], &[x, 2.0]);
            assert_eq!(got, slope, "{name}({x}, 2)");
            let got = partial_text(record, record.partials_against_number[1], &[2.0, x]);
            assert_eq!(got, slope, "{name}(2, {x})");
        }
    }
}

#[test]
fn comparisons_with_nan_are_false_but_ne() {
    for name in ["eq", "lt", "le", "gt", "ge"] {
        assert_eq!(value(name, &[NAN, 1.0]), 0.0);
    }
    assert_eq!(value("ne", &[NAN, NAN]), 1.0);
    assert_eq!(value("isfinite", &[INF]), 0.0);
    assert_eq!(value("isinf", &[-INF]), 1.0);
    assert_eq!(value("select", &[0.0, NAN, 2.0]), 2.0);
}

#[test]
fn erf_and_its_kin_are_within_their_bounds() {
    let mut worst = [("erf", 0), ("erfc", 0), ("erfinv", 0)];
    for line in include_str!("data/erf.txt").lines().filter(|l| !l.starts_with('#')) {
        let [name, x, y] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let bits = |text| f64::from_bits(u64::from_str_radix(text, 16).expect("hex"));
        let (x, y) = (bits(x), bits(y));
        let error = (value(name, &[x]).to_bits() as i64).abs_diff(y.to_bits() as i64);
        let slot = worst.iter_mut().find(|w| w.0 == name).expect("a known function");
        slot.1 = slot.1.max(error);
    }
    assert_eq!(value("erfc", &[-30.0]), 2.0);
    assert_eq!(value("erf", &[-30.0]), -1.0);
    assert!(worst[0].1 <= 1 && worst[1].1 <= 2 && worst[2].1 <= 1, "errors in ulp: {worst:?}");
}

/// On the negative axis functions with zeros there cancel terms of this size next to them.
fn cancelled(name: &str, x: f64) -> f64 {
    match name {
        "lgamma" | "digamma" if x < 0.0 => 4.0,
        "polygamma2" if x < 0.0 => 32.0,
        "polygamma4" if x < 0.0 => 1536.0,
        _ => 0.0,
    }
}

#[test]
fn special_functions_are_within_their_bounds() {
    for line in include_str!("data/special.txt").lines().filter(|l| !l.starts_with('#')) {
        let [name, x, y] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let bits = |text| f64::from_bits(u64::from_str_radix(text, 16).expect("hex"));
        let (x, y) = (bits(x), bits(y));
        let got = match name.strip_prefix("polygamma") {
            Some(n) => value("polygamma", &[n.parse().expect("an order"), x]),
            None => value(name, &[x]),
        };
        let size = y.abs().max(cancelled(name, x));
        let error = (got - y).abs() / (size.next_up() - size);
        let bound = if name.starts_with("polygamma") { 5.0 } else { 4.0 };
        assert!(error <= bound, "{name}({x}) is {got}, not {y}: {error} ulp");
    }
}

/// Every pair of i8 and of u8 against arithmetic in i64 that is then cut to the width.
#[test]
fn narrow_integers_wrap() {
    let cut = |x: i64, d: DType| if d == I8 { x as i8 as i64 } else { x as u8 as i64 };
    for (d, range) in [(I8, -128..=127), (U8, 0..=255)] {
        for x in range.clone() {
            assert_eq!(eval_int(Builtin::Neg, &[x], d), Ok(cut(-x, d)));
            assert_eq!(eval_int(Builtin::Abs, &[x], d), Ok(cut(x.abs(), d)));
            assert_eq!(eval_int(Builtin::Bitnot, &[x], d), Ok(cut(!x, d)));
            for y in range.clone() {
                let of = |b| eval_int(b, &[x, y], d);
                assert_eq!(of(Builtin::Add), Ok(cut(x + y, d)));
                assert_eq!(of(Builtin::Mul), Ok(cut(x * y, d)));
                assert_eq!(of(Builtin::Lt), Ok((x < y) as i64));
                if y == 0 {
                    assert_eq!(of(Builtin::RemFloor), Err(IntError::DivisionByZero));
                    continue;
                }
                let floor = (x as f64 / y as f64).floor() as i64;
                assert_eq!(of(Builtin::DivFloor), Ok(cut(floor, d)), "{x} // {y}");
                assert_eq!(of(Builtin::RemFloor), Ok(cut(x - floor * y, d)), "{x} mod {y}");
                assert_eq!(of(Builtin::DivTrunc), Ok(cut(x / y, d)));
                assert_eq!(of(Builtin::RemTrunc), Ok(cut(x % y, d)));
            }
        }
    }
}

#[test]
fn integers_at_their_edges() {
    let of = |name: &str, args: &[i64], d| eval_int(builtin(name), args, d);
    assert_eq!(of("div_trunc", &[i64::MIN, -1], I64), Ok(i64::MIN));
    assert_eq!(of("rem_trunc", &[i64::MIN, -1], I64), Ok(0));
    assert_eq!(of("div_floor", &[i64::MIN, -1], I64), Ok(i64::MIN));
    assert_eq!(of("rem_floor", &[i64::MIN, i64::MAX], I64), Ok(i64::MAX - 1));
    assert_eq!(of("pow", &[100, 2], U8), Ok(16));
    assert_eq!(of("pow", &[2, 10], I8), Ok(0));
    assert_eq!(of("pow", &[2, -1], I32), Ok(0));
    assert_eq!(of("pow", &[-1, -3], I32), Ok(-1));
    assert_eq!(of("pow", &[0, -1], I32), Ok(0));
    assert_eq!(of("pow", &[3, i64::MAX], I64), Ok(of_pow(3, i64::MAX)));
    for (x, y, divisor, multiple) in [(0, 5, 5, 0), (-6, 4, 2, 12), (6, -4, 2, 12), (0, 0, 0, 0), (127, 126, 1, -126)] {
        assert_eq!(of("gcd", &[x, y], I8), Ok(divisor), "{x} {y}");
        assert_eq!(of("lcm", &[x, y], I8), Ok(multiple), "{x} {y}");
    }
    assert_eq!(of("gcd", &[i64::MIN, 0], I64), Ok(i64::MIN));
    assert_eq!(of("lcm", &[200, 150], U8), Ok(88));
    for (shift, left, right) in [(40, 0, -1), (-1, 0, -1), (1, -16, -4), (32, 0, -1)] {
        assert_eq!(of("shl", &[-8, shift], I32), Ok(left));
        assert_eq!(of("shr", &[-8, shift], I32), Ok(right));
        assert!(of("shr", &[8, shift], I32).is_ok_and(|x| x >= 0));
    }
    assert_eq!(of("shl", &[8, 31], I32), Ok(0));
    assert_eq!(of("exp", &[1], I32), Err(IntError::Undefined));
    assert_eq!(of("add", &[1], I32), Err(IntError::Undefined));
    assert_eq!(of("add", &[1, 1], F32), Err(IntError::Undefined));
    assert_eq!(of("isfinite", &[1], I16), Ok(1));
}

/// By repeated squaring in u128, modulo 2^64.
fn of_pow(x: u64, mut y: i64) -> i64 {
    let (mut r, mut b) = (1u128, x as u128);
    while y > 0 {
        if y & 1 == 1 {
            r = r * b % (1 << 64);
        }
        b = b * b % (1 << 64);
        y >>= 1;
    }
    r as u64 as i64
}

/// On bool every builtin is its meaning on the integers 0 and 1 (with `add` and `mul` as or and and).
#[test]
fn bools_are_small_integers() {
    for record in TABLE.iter().filter(|r| r.domain.contains(Bool) && r.arity() == 2) {
        for (x, y) in [(false, false), (false, true), (true, false), (true, true)] {
            let expected = match record.name {
                "and" => x && y,
                "or" => x || y,
                _ => eval_int(record.builtin, &[x as i64, y as i64], I64).expect("defined on integers") != 0,
            };
            assert_eq!(eval_bool(record.builtin, &[x, y]), Some(expected), "{} {x} {y}", record.name);
        }
    }
    assert_eq!(eval_bool(Builtin::Sub, &[true, true]), None);
    assert_eq!(eval_bool(Builtin::Not, &[true]), Some(false));
    assert_eq!(eval_bool(Builtin::Not, &[]), None);
    assert_eq!(eval_bool(Builtin::Select, &[true, false, true]), Some(false));
}

/// Recorded from `tensor.to(dtype)` of PyTorch 2.15 on x86.
#[test]
fn casts() {
    for (x, d, expected) in [
        (NAN, I32, i32::MIN as i64),
        (NAN, U8, 0),
        (NAN, I64, i64::MIN),
        (300.0, U8, 44),
        (-1.0, U8, 255),
        (3e9, I32, i32::MIN as i64),
        (3e9, U8, 0),
        (3e9, I16, 0),
        (3e9, I64, 3_000_000_000),
        (1e20, I64, i64::MIN),
        (40_000.0, I16, -25_536),
        (-1.9, I32, -1),
        (2_147_483_647.5, I32, i32::MAX as i64),
        (-2_147_483_648.5, I32, i32::MIN as i64),
    ] {
        assert_eq!(cast_f64(x, d), Scalar::Int(expected), "{x} to {d}");
    }
    assert_eq!(cast_f64(NAN, Bool), Scalar::Bool(true));
    assert_eq!(cast_f64(-0.0, Bool), Scalar::Bool(false));
    assert_eq!(cast_f64(0.1, F32), Scalar::Float(0.1f32 as f64));
    assert_eq!(cast_f64(70_000.0, F16), Scalar::Float(INF));
    assert_eq!(cast_f64(70_000.0, BF16), Scalar::Float(70_144.0));
    assert_eq!(cast_int(300, I8), Scalar::Int(44));
    assert_eq!(cast_int((1 << 24) + 1, F32), Scalar::Float(16_777_216.0));
    assert_eq!(cast_int(-3, Bool), Scalar::Bool(true));
}
