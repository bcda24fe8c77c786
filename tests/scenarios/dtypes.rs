//! Every dtype of tensors, cast to every other one and moved: at once, compiled and as the interpreter defines it.

use fulgurite::buffer::Buffer;
use fulgurite::core::builtins::cast_scalar;
use fulgurite::core::{DType, Scalar, storage};
use fulgurite::executors;
use fulgurite::prelude::*;

/// All dtypes that tensors have.
fn dtypes() -> impl Iterator<Item = DType> {
    DType::STORED.into_iter().chain(DType::STORAGE)
}

/// Numbers of a dtype: its ends, those around its bounds, and some that other dtypes can't hold.
fn numbers(dtype: DType) -> Vec<Scalar> {
    let words =
        [0i64, 1, -1, 2, 3, 7, 8, 127, 128, 255, 256, 32_768, 65_535, 1 << 31, (1 << 32) + 5, i64::MAX, i64::MIN];
    let floats =
        [0.5, -0.5, 1.5, 2.5, 6.5, -7.0, 240.0, 248.0, 448.0, 465.0, 57_344.0, 70_000.0, 3e9, 5e18, 1.5e19, 3e38];
    let special = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -0.0];
    let whole = words.into_iter().map(|x| cast_scalar(Scalar::Int(x), dtype));
    match dtype.is_float() {
        true => whole.chain(floats.into_iter().chain(special).map(|x| cast_scalar(Scalar::Float(x), dtype))).collect(),
        false => whole.collect(),
    }
}

/// The number `x` of `from` as one of `to`.
fn expected(x: Scalar, from: DType, to: DType) -> u64 {
    let x = match to.is_float() && from == DType::U64 {
        // in one rounding, as from any other integer
        true => Scalar::Float(match to.opmath() {
            DType::F32 => f64::from(x.as_i64() as u64 as f32),
            _ => storage::as_f64(x, from),
        }),
        false => x,
    };
    storage::encode(cast_scalar(x, to), to)
}

/// The bits of the elements; every NaN has the same ones.
fn bits(x: &Tensor) -> Vec<u64> {
    let nan = |x: &Scalar| matches!(x, Scalar::Float(x) if x.is_nan());
    let one = |s: Scalar| if nan(&s) { u64::MAX } else { storage::encode(s, x.dtype()) };
    x.buffer().unwrap().scalars().into_iter().map(one).collect()
}

#[test]
fn every_dtype_is_cast_to_every_other_one() {
    for from in dtypes() {
        // several tiles of numbers, and a rest
        let numbers: Vec<Scalar> = numbers(from).into_iter().cycle().take(301).collect();
        let x = Tensor::from_buffer(Buffer::from_numbers(from, &[301], numbers.iter().copied()).unwrap());
        for to in dtypes() {
            let wanted: Vec<u64> = numbers.iter().map(|n| expected(*n, from, to)).collect();
            let wanted = bits(&Tensor::from_buffer(
                Buffer::from_numbers(to, &[301], wanted.iter().map(|b| storage::decode(*b, to))).unwrap(),
            ));
            assert_eq!(bits(&x.cast(to)), wanted, "{from} to {to} at once");
            let compiled = jit(move |x: Tensor| x.cast(to).flip(0).flip(0));
            assert_eq!(bits(&compiled.call(x.clone()).unwrap()), wanted, "{from} to {to} compiled");
            let interpreted = jit(move |x: Tensor| x.cast(to)).on(vec![executors::find("interp").unwrap()]);
            assert_eq!(bits(&interpreted.call(x.clone()).unwrap()), wanted, "{from} to {to} interpreted");
        }
    }
}

/// A compiler makes one cast of two where the inner one loses nothing, and only there.
#[test]
fn a_cast_of_a_cast_rounds_twice() {
    for from in dtypes() {
        let numbers = numbers(from);
        let x = Tensor::from_buffer(Buffer::from_numbers(from, &[numbers.len()], numbers.iter().copied()).unwrap());
        for to in dtypes() {
            for last in [from, DType::F32, DType::F64] {
                let compiled = jit(move |x: Tensor| x.cast(to).cast(last)).call(x.clone()).unwrap();
                assert_eq!(bits(&compiled), bits(&x.cast(to).cast(last)), "{from} to {to} to {last}");
            }
        }
    }
}

#[test]
fn a_large_u64_is_printed_read_and_kept_as_it_is() {
    let x = Tensor::from([u64::MAX, 1 << 63, 5]);
    assert!(format!("{x:?}").contains("18446744073709551615"), "{x:?}");
    assert_eq!(x.to_vec::<u64>().unwrap(), [u64::MAX, 1 << 63, 5]);
    assert_eq!(x.to_f64().unwrap()[1], 9_223_372_036_854_775_808.0);
    let picked = jit(|x: Tensor| x.index_select(&Tensor::from([1i64, 0]), 0)).call(x).unwrap();
    assert_eq!(picked.to_vec::<u64>().unwrap(), [1 << 63, u64::MAX]);
}
