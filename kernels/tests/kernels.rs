//! Compares every kernel with the evaluator, and all instruction sets with each other, at every length.

mod common;

use common::{Lcg, entry, forms, run};
use fulgurite_core::DType::{self, *};
use fulgurite_core::Scalar;
use fulgurite_core::builtins::{Builtin, IntError, ResultRule, TABLE, cast_scalar, eval_bool, eval_f64, eval_int};
use fulgurite_kernels::abi::Level;
use fulgurite_kernels::builtin::KERNELS;
use fulgurite_kernels::{cast, narrow};

const COMPUTE: [DType; 8] = [Bool, U8, I8, I16, I32, I64, F32, F64];

/// `numbers` as elements of `dtype`, densely.
fn encode(numbers: &[Scalar], dtype: DType) -> Vec<u8> {
    let mut out = Vec::new();
    for x in numbers {
        match (dtype, cast_scalar(*x, dtype)) {
            (Bool, x) => out.push(x.as_bool() as u8),
            (F32, x) => out.extend((x.as_f64() as f32).to_le_bytes()),
            (F64, x) => out.extend(x.as_f64().to_le_bytes()),
            (_, x) => out.extend(&x.as_i64().to_le_bytes()[..dtype.size()]),
        }
    }
    out
}

fn decode(bytes: &[u8], dtype: DType) -> Vec<Scalar> {
    let decode = |b: &[u8]| match dtype {
        Bool => Scalar::Bool(b[0] != 0),
        U8 => Scalar::Int(b[0] as i64),
        I8 => Scalar::Int(b[0] as i8 as i64),
        I16 => Scalar::Int(i16::from_le_bytes([b[0], b[1]]) as i64),
        I32 => Scalar::Int(i32::from_le_bytes(b.try_into().expect("4 bytes")) as i64),
        I64 => Scalar::Int(i64::from_le_bytes(b.try_into().expect("8 bytes"))),
        F32 => Scalar::Float(f32::from_le_bytes(b.try_into().expect("4 bytes")) as f64),
        _ => Scalar::Float(f64::from_le_bytes(b.try_into().expect("8 bytes"))),
    };
    bytes.chunks_exact(dtype.size()).map(decode).collect()
}

/// The reference value on arguments that are already of `dtype`.
fn reference(b: Builtin, args: &[Scalar], dtype: DType) -> Result<Scalar, IntError> {
    let truth = b.record().result == ResultRule::Bool;
    if dtype == Bool {
        let args: Vec<bool> = args.iter().map(|x| x.as_bool()).collect();
        return Ok(Scalar::Bool(eval_bool(b, &args).expect("defined")));
    }
    if dtype.is_int() {
        let args: Vec<i64> = args.iter().map(|x| x.as_i64()).collect();
        return eval_int(b, &args, dtype).map(|x| if truth { Scalar::Bool(x != 0) } else { Scalar::Int(x) });
    }
    let args: Vec<f64> = args.iter().map(|x| x.as_f64()).collect();
    let value = match (b, dtype) {
        // A step is one of the dtype, not of f64.
        (Builtin::Nextafter, DType::F32) if args[0] < args[1] => (args[0] as f32).next_up() as f64,
        (Builtin::Nextafter, DType::F32) if args[0] > args[1] => (args[0] as f32).next_down() as f64,
        _ => eval_f64(b, &args),
    };
    Ok(if truth { Scalar::Bool(value != 0.0) } else { cast_scalar(Scalar::Float(value), dtype) })
}

fn samples(dtype: DType, seed: u64) -> Vec<Scalar> {
    let mut random = Lcg(seed);
    let special = [0.0, -0.0, 1.0, -1.0, 2.5, -7.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.3, 1e-3, 100.0];
    let edges = [0, 1, -1, 7, -7, i64::MAX, i64::MIN, 127, -128, 255, i32::MIN as i64, i16::MIN as i64];
    (0..301)
        .map(|_| {
            let pick = random.next() as usize;
            let x = match (dtype.is_float(), pick % 3) {
                (true, 0) => Scalar::Float(special[pick / 3 % special.len()]),
                (true, _) => Scalar::Float(random.next() as f64 / 5e8 - 4.0),
                (false, 0) => Scalar::Int(edges[pick / 3 % edges.len()]),
                (false, _) => Scalar::Int(random.next() as i64 % 19 - 9),
            };
            cast_scalar(x, dtype)
        })
        .collect()
}

/// Whether two values of `dtype` agree; for floats up to rounding, whose bounds `accuracy.rs` tests.
fn agree(got: Scalar, expected: Scalar, b: Builtin) -> bool {
    match (got, expected) {
        (Scalar::Float(g), Scalar::Float(e)) => {
            let cut = matches!(b, Builtin::DivFloor | Builtin::DivTrunc);
            let slack = if cut { 1.0 } else { 1e-6 * e.abs() };
            g.is_nan() && e.is_nan() || g == e || (g - e).abs() <= slack
        }
        (g, e) => g == e,
    }
}

/// Every (builtin, dtype) of the table's domain has a kernel, and it agrees with the evaluator.
#[test]
fn every_builtin_equals_its_definition() {
    for record in TABLE.iter().filter(|r| !matches!(r.builtin, Builtin::Cast | Builtin::Uniform | Builtin::Select)) {
        for dtype in COMPUTE.into_iter().filter(|d| record.domain.contains(*d)) {
            let entry = entry(&format!("builtin.{}", record.name), "", dtype);
            let columns: Vec<Vec<Scalar>> = (0..record.arity()).map(|k| samples(dtype, k as u64 + 1)).collect();
            let n = columns[0].len();
            let ins: Vec<Vec<u8>> = columns.iter().map(|column| encode(column, dtype)).collect();
            let out = if record.result == ResultRule::Bool { Bool } else { dtype };
            for (level, f) in forms(entry) {
                let ins: Vec<&[u8]> = ins.iter().map(Vec::as_slice).collect();
                let mut got: Vec<u8> = vec![0xAA; n * out.size()];
                let pointers: Vec<*const u8> = ins.iter().map(|x| x.as_ptr()).collect();
                let outs = [got.as_mut_ptr()];
                // SAFETY: buffers of n elements of the kernel's dtypes.
                unsafe { f(n, pointers.as_ptr(), outs.as_ptr(), std::ptr::null()) };
                for (i, got) in decode(&got, out).into_iter().enumerate() {
                    let args: Vec<Scalar> = columns.iter().map(|c| c[i]).collect();
                    // The executor refuses divisions by zero before; the kernel gives 0.
                    let expected = match reference(record.builtin, &args, dtype) {
                        Err(IntError::DivisionByZero) => continue,
                        expected => expected.expect("defined on this dtype"),
                    };
                    let name = record.name;
                    assert!(
                        agree(got, expected, record.builtin),
                        "{name} {dtype} {level:?} {args:?}: {got:?}, not {expected:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn casts_equal_their_definition() {
    for from in COMPUTE {
        for to in COMPUTE {
            let mut numbers = samples(from, 3);
            if from.is_float() {
                let edges =
                    [300.0, 3e9, -3e9, 1e20, 2_147_483_647.0, 2_147_483_648.0, -2_147_483_648.0, 9.3e18, 40_000.0, 0.1];
                numbers.extend(edges.map(|x| cast_scalar(Scalar::Float(x), from)));
            }
            let ins = encode(&numbers, from);
            for level in common::levels() {
                let f = cast::cast(from, to, level);
                let mut got = vec![0xAA; numbers.len() * to.size()];
                let (pointers, outs) = ([ins.as_ptr()], [got.as_mut_ptr()]);
                // SAFETY: buffers of as many elements of the two dtypes.
                unsafe { f(numbers.len(), pointers.as_ptr(), outs.as_ptr(), std::ptr::null()) };
                for (x, got) in numbers.iter().zip(decode(&got, to)) {
                    let expected = cast_scalar(*x, to);
                    let same = got == expected || got.as_f64().is_nan() && expected.as_f64().is_nan();
                    assert!(same, "{x:?} {from} to {to} {level:?}: {got:?}, not {expected:?}");
                }
            }
        }
    }
}

/// Names whose forms may differ in the last place between the baseline and AVX (polynomials with fused steps).
fn may_differ(symbol: &str, dtype: DType) -> bool {
    let name = symbol.trim_start_matches("builtin.");
    let exact = ["sqrt", "rsqrt", "reciprocal", "div", "copysign", "hypot"];
    let float_only = Builtin::from_name(name).is_some_and(|b| !b.record().domain.contains(I32));
    dtype == F32 && (float_only || name == "pow") && !exact.contains(&name)
}

/// Makes all NaN equal: sign and payload are unspecified.
fn one_nan(dtype: DType, out: usize, mut bytes: Vec<u8>) -> Vec<u8> {
    match (dtype, out) {
        (F32, 4) => bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|b| {
            if f32::from_le_bytes(*b).is_nan() {
                *b = f32::NAN.to_le_bytes();
            }
        }),
        (F64, 8) => bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|b| {
            if f64::from_le_bytes(*b).is_nan() {
                *b = f64::NAN.to_le_bytes();
            }
        }),
        _ => {}
    }
    bytes
}

/// All forms give equal bits, at every length, also in place.
#[test]
fn forms_lengths_and_aliases_agree() {
    let mut random = Lcg(5);
    for entry in KERNELS {
        let record = Builtin::from_name(entry.symbol.trim_start_matches("builtin.")).expect("a builtin").record();
        let out = if record.result == ResultRule::Bool { 1 } else { entry.dtype.size() };
        let ins = vec![entry.dtype.size(); record.arity()];
        let n = 99;
        let buffers: Vec<Vec<u8>> = ins
            .iter()
            .map(|size| {
                let is_bool = entry.dtype == Bool;
                (0..n * size)
                    .map(|_| if is_bool { random.next() as u8 & 1 } else { (random.next() >> 9) as u8 })
                    .collect()
            })
            .collect();
        let nums = [2.5f64.to_bits()];
        let run = |f: fulgurite_core::kernel::TileFn, len: usize, in_place: bool| {
            let mut buffers = buffers.clone();
            let mut fresh = vec![0u8; n * out];
            let target = if in_place { buffers[ins.len() - 1].as_mut_ptr() } else { fresh.as_mut_ptr() };
            let pointers: Vec<*const u8> = buffers.iter_mut().map(|b| b.as_mut_ptr().cast_const()).collect();
            // SAFETY: buffers of n elements; the output is one of its own or exactly the last input.
            unsafe {
                f(len, pointers.as_ptr(), [target].as_ptr(), nums.as_ptr());
                one_nan(entry.dtype, out, std::slice::from_raw_parts(target, len * out).to_vec())
            }
        };
        let whole = run(entry.baseline, n, false);
        for (level, f) in forms(entry) {
            let own = run(f, n, false);
            if !may_differ(entry.symbol, entry.dtype) || level == Level::Baseline {
                assert!(own == whole, "{} {} {} {level:?}", entry.symbol, entry.variant, entry.dtype);
            }
            for len in (0..n).step_by(7).chain([31, 32, 33, 64]) {
                assert!(run(f, len, false) == own[..len * out], "{} {level:?} of {len}", entry.symbol);
            }
            if ins.last() == Some(&out) {
                assert!(run(f, n, true) == own, "{} {level:?} in place", entry.symbol);
            }
        }
    }
}

#[test]
fn avx2_and_avx512_agree() {
    let x: Vec<f32> = (0..=u32::MAX).step_by(1_000_003).map(f32::from_bits).collect();
    for e in KERNELS.iter().filter(|e| e.dtype == F32 && e.variant.is_empty() && e.symbol.starts_with("builtin.")) {
        let arity = Builtin::from_name(e.symbol.trim_start_matches("builtin.")).map_or(0, |b| b.record().arity());
        let [_, (_, avx2), (_, avx512)] = forms(e)[..] else { continue };
        if arity == 1 && Builtin::from_name(&e.symbol[8..]).is_some_and(|b| b.record().result == ResultRule::Same) {
            let (a, b): (Vec<f32>, Vec<f32>) = (run(avx2, x.len(), &[&x], &[]), run(avx512, x.len(), &[&x], &[]));
            let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            assert!(a.iter().zip(&b).all(same), "{}", e.symbol);
        }
    }
}

#[test]
fn half_types_convert_as_the_half_crate_does() {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    let patterns: Vec<f32> = (0..=u32::MAX).step_by(4099).map(f32::from_bits).collect();
    // Halfway points, where ties go to even.
    let ties = all.iter().map(|h| f32::from_bits(half::f16::from_bits(*h).to_f32().to_bits() | 0x1000));
    let patterns: Vec<f32> = patterns.into_iter().chain(ties).collect();
    for level in common::levels() {
        let f = narrow::widen(F16, level);
        let got: Vec<f32> = run(f, all.len(), &[&all], &[]);
        for (h, got) in all.iter().zip(got) {
            let expected = half::f16::from_bits(*h).to_f32();
            assert!(got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan(), "{h:x} {level:?}: {got}");
        }
    }
    for level in common::levels() {
        let f = narrow::widen(BF16, level);
        let got: Vec<f32> = run(f, all.len(), &[&all], &[]);
        for (h, got) in all.iter().zip(got) {
            let expected = half::bf16::from_bits(*h).to_f32();
            assert!(got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan(), "{h:x} {level:?}: {got}");
        }
    }
    for level in common::levels() {
        let f = narrow::narrow(F16, level);
        let got: Vec<u16> = run(f, patterns.len(), &[&patterns], &[]);
        for (x, got) in patterns.iter().zip(got) {
            let (expected, got) = (half::f16::from_f32(*x), half::f16::from_bits(got));
            assert!(got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan(), "{x:e} {level:?}: {got}");
        }
    }
    for level in common::levels() {
        let f = narrow::narrow(BF16, level);
        let got: Vec<u16> = run(f, patterns.len(), &[&patterns], &[]);
        for (x, got) in patterns.iter().zip(got) {
            let (expected, got) = (half::bf16::from_f32(*x), half::bf16::from_bits(got));
            assert!(got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan(), "{x:e} {level:?}: {got}");
        }
    }
}

#[test]
fn each_kernel_has_one_name() {
    for e in KERNELS {
        let found = entry(e.symbol, e.variant, e.dtype);
        assert!(std::ptr::eq(found, e), "two kernels {} {} {}", e.symbol, e.variant, e.dtype);
    }
    assert_eq!(Level::from_name("avx2"), Some(Level::Avx2));
    assert_eq!(Level::from_name("sse9"), None);
}
