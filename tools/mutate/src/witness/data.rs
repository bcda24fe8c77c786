//! Data for calls: ties, extreme numbers, and ordinary ones.

use std::sync::Arc;

use fulgurite_codegen::check::gradients::arrays::dense::V;
use fulgurite_codegen::check::gradients::arrays::numbers::{Numbers, short};
use fulgurite_core::eval::loop_nest::{Array, Field};
use fulgurite_core::signature::ArgTy;
use fulgurite_core::{DType, TensorTy, Value};

use super::Call;

/// Numbers at which functions have kinks, jumps or limits.
const ENDS: [f64; 12] = [0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e3, -1e3, 1e-7, 0.5, -30.0, 30.0];

/// The call with data of kind `n`.
pub(super) fn fill(call: &[Value<ArgTy>], n: usize, numbers: &mut Numbers) -> Call {
    let mut fill = |ty: &ArgTy| match ty {
        ArgTy::Tensor(t) => V::Array(Arc::new(array(t, n, numbers))),
        ArgTy::Key | ArgTy::Number(_) => V::Key([7, 11]),
    };
    call.iter().map(|value| value.map(&mut fill)).collect()
}

fn array(t: &TensorTy, kind: usize, numbers: &mut Numbers) -> Array<f64> {
    let shape = t.sizes().to_vec();
    let count = 0..shape.iter().product::<usize>();
    let whole = |numbers: &mut Numbers, lo: f64, hi: f64| (lo + (hi - lo) * numbers.draw()).round();
    if t.dtype.is_float() {
        let one = |numbers: &mut Numbers| match kind % 6 {
            0 => short(4.0 * numbers.draw() - 2.0),
            1 => short(numbers.draw()),
            2 => whole(numbers, -2.0, 2.0),
            3 => ENDS[((numbers.draw() * ENDS.len() as f64) as usize).min(ENDS.len() - 1)],
            4 => short(100.0 * numbers.draw() - 50.0),
            _ => whole(numbers, 0.0, 3.0),
        };
        // The number as the dtype holds it, so that PyTorch can be called with equal numbers.
        return Array::float(t.dtype, &shape, count.map(|_| one(numbers).kept_as(t.dtype)).collect());
    }
    if kind % 9 == 8 && t.dtype == DType::I64 {
        let all = [i64::MAX, (1 << 53) + 1, -((1 << 53) + 1), (1 << 31) + 1, 255, -129];
        let one = |numbers: &mut Numbers| all[((numbers.draw() * 6.0) as usize).min(5)];
        return Array::int(t.dtype, &shape, count.map(|_| one(numbers)).collect());
    }
    let (lo, hi) = match (t.dtype, kind % 4) {
        (DType::Bool, _) => (0.0, 1.0),
        (_, 0) => (0.0, 1.0),
        (DType::U8, _) | (_, 1) => (0.0, 3.0),
        (_, 2) => (-3.0, 4.0),
        _ => (0.0, 0.0),
    };
    Array::int(t.dtype, &shape, count.map(|_| whole(numbers, lo, hi) as i64).collect())
}
