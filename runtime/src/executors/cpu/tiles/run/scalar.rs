//! Builtins without a tile kernel, element by element.

use fulgurite_core::builtins::{Builtin, cast_scalar, eval_bool, eval_f64, eval_int};
use fulgurite_core::{DType, Scalar, storage};
use fulgurite_kernels::reduce;
use smallvec::SmallVec;

/// Computes a builtin on `n` elements, one by one. Fails if an integer is divided by zero.
///
/// # Safety
/// The pointers hold `n` elements of `from` and `to`.
pub(super) unsafe fn call(
    b: Builtin,
    ins: &[*const u8],
    out: *mut u8,
    from: DType,
    to: DType,
    n: usize,
) -> Result<(), Builtin> {
    for i in 0..n {
        // SAFETY: the caller's registers hold `n` elements.
        let args: SmallVec<[Scalar; 4]> = ins.iter().map(|p| unsafe { read(*p, from, i) }).collect();
        let value = match from {
            DType::Bool => {
                let args: SmallVec<[bool; 4]> = args.iter().map(|a| a.as_bool()).collect();
                Scalar::Bool(eval_bool(b, &args).unwrap_or(false))
            }
            d if d.is_int() => {
                let args: SmallVec<[i64; 4]> = args.iter().map(|a| a.as_i64()).collect();
                Scalar::Int(eval_int(b, &args, d).map_err(|_| b)?)
            }
            _ => {
                let args: SmallVec<[f64; 4]> = args.iter().map(|a| a.as_f64()).collect();
                Scalar::Float(eval_f64(b, &args))
            }
        };
        // SAFETY: the caller's register holds `n` elements.
        unsafe { write(out, to, i, cast_scalar(value, to)) };
    }
    Ok(())
}

/// # Safety
/// `p` is to more than `i` elements of `dtype`.
unsafe fn read(p: *const u8, dtype: DType, i: usize) -> Scalar {
    // SAFETY: the caller upholds the contract of this function; an element has the bytes of its dtype.
    let bits = unsafe {
        match dtype.size() {
            1 => u64::from(p.add(i).read()),
            2 => u64::from((p as *const u16).add(i).read()),
            4 => u64::from((p as *const u32).add(i).read()),
            _ => (p as *const u64).add(i).read(),
        }
    };
    storage::decode(bits, dtype)
}

/// # Safety
/// The contract of [`read`] holds, and no other code uses that element.
unsafe fn write(p: *mut u8, dtype: DType, i: usize, x: Scalar) {
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        let p = p.add(i * dtype.size());
        match dtype {
            DType::F32 => (p as *mut f32).write(x.as_f64() as f32),
            DType::F64 => (p as *mut f64).write(x.as_f64()),
            _ => reduce::finish(dtype, x.as_i64() as u64, p),
        }
    }
}
