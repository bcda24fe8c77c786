//! Values of the builtins: in f64, in integers of any width, in bool, and across dtypes.
//!
//! These values are the definitions. Where a kernel differs from them, the kernel is wrong.

use super::Builtin::{self, *};
use super::bessel::{i0, i0e, i1, i1e};
use super::erf::{erf, erfc, erfcx, erfinv};
use super::gamma::{digamma, lgamma, polygamma};
use crate::dtype::{Category, DType};
use crate::scalar::Scalar;
use std::fmt;

/// Why an integer builtin has no value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntError {
    /// Division or remainder by zero.
    DivisionByZero,
    /// The builtin isn't defined on this dtype.
    Undefined,
}

impl fmt::Display for IntError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IntError::DivisionByZero => "division of an integer by zero",
            IntError::Undefined => "not defined on integers",
        })
    }
}

impl std::error::Error for IntError {}

fn truth(condition: bool) -> f64 {
    condition as i64 as f64
}

/// The value in f64. Comparisons, `not`, `and`, `or` and `isnan`… give 0 or 1 and take any non-zero number as true;
/// `cast` is the identity (see [`cast_f64`]).
///
/// NaN where there is no value in f64: bit operations, `uniform` (see [`crate::philox`]), missing arguments.
pub fn eval_f64(builtin: Builtin, args: &[f64]) -> f64 {
    let at = |i: usize| args.get(i).copied().unwrap_or(f64::NAN);
    let (x, y) = (at(0), at(1));
    match builtin {
        Neg => -x,
        Not => truth(x == 0.0),
        Add => x + y,
        Sub => x - y,
        Mul => x * y,
        Div => x / y,
        And => truth(x != 0.0 && y != 0.0),
        Or => truth(x != 0.0 || y != 0.0),
        Eq => truth(x == y),
        Ne => truth(x != y),
        Lt => truth(x < y),
        Le => truth(x <= y),
        Gt => truth(x > y),
        Ge => truth(x >= y),
        Abs => x.abs(),
        // NaN and both zeros give +0.
        Sign => truth(x > 0.0) - truth(x < 0.0),
        Sqrt => x.sqrt(),
        Rsqrt => 1.0 / x.sqrt(),
        Reciprocal => 1.0 / x,
        Exp => x.exp(),
        Exp2 => x.exp2(),
        Expm1 => x.exp_m1(),
        Ln => x.ln(),
        Log2 => x.log2(),
        Log10 => x.log10(),
        Log1p => x.ln_1p(),
        Sin => x.sin(),
        Cos => x.cos(),
        Tan => x.tan(),
        Asin => x.asin(),
        Acos => x.acos(),
        Atan => x.atan(),
        Sinh => x.sinh(),
        Cosh => x.cosh(),
        Tanh => x.tanh(),
        Asinh => x.asinh(),
        Acosh => x.acosh(),
        Atanh => x.atanh(),
        Erf => erf(x),
        Erfc => erfc(x),
        Erfinv => erfinv(x),
        Erfcx => erfcx(x),
        Lgamma => lgamma(x),
        Digamma => digamma(x),
        Polygamma => polygamma(x, y),
        I0 => i0(x),
        I0e => i0e(x),
        I1 => i1(x),
        I1e => i1e(x),
        Sigmoid => sigmoid(x),
        Floor => x.floor(),
        Ceil => x.ceil(),
        Round => x.round_ties_even(),
        Trunc => x.trunc(),
        Pow => x.powf(y),
        Atan2 => x.atan2(y),
        Hypot => x.hypot(y),
        Copysign => x.copysign(y),
        Nextafter => nextafter(x, y),
        // NaN wins; equal arguments (also zeros of different sign) give the first.
        Max => {
            if x >= y || x.is_nan() {
                x
            } else {
                y
            }
        }
        Min => {
            if x <= y || x.is_nan() {
                x
            } else {
                y
            }
        }
        RemTrunc => x % y,
        RemFloor => rem_floor(x, y),
        DivFloor => div_floor(x, y),
        DivTrunc => (x / y).trunc(),
        Isnan => truth(x.is_nan()),
        Isinf => truth(x.is_infinite()),
        Isfinite => truth(x.is_finite()),
        Select => {
            if x != 0.0 {
                y
            } else {
                at(2)
            }
        }
        Cast => x,
        Bitand | Bitor | Bitxor | Bitnot | Shl | Shr | Gcd | Lcm | Uniform => f64::NAN,
    }
}

fn sigmoid(x: f64) -> f64 {
    // One exponential whose argument is never positive, so that neither side overflows.
    let e = (-x.abs()).exp();
    if x >= 0.0 { 1.0 / (1.0 + e) } else { e / (1.0 + e) }
}

/// The f64 next to x in the direction of y. A kernel of another type steps by ulps of its own type.
fn nextafter(x: f64, y: f64) -> f64 {
    if x < y {
        x.next_up()
    } else if x > y {
        x.next_down()
    } else {
        // Equal arguments give the second, as zeros of different sign show; NaN stays.
        if x.is_nan() { x } else { y }
    }
}

/// x - y floor(x / y): the sign is that of y.
fn rem_floor(x: f64, y: f64) -> f64 {
    let r = x % y;
    if r != 0.0 && (y < 0.0) != (r < 0.0) { r + y } else { r }
}

/// floor(x / y) of the exact quotient, which the rounded one can miss by one.
fn div_floor(x: f64, y: f64) -> f64 {
    if y == 0.0 {
        return x / y;
    }
    let r = x % y;
    let exact = (x - r) / y;
    let q = if r != 0.0 && (y < 0.0) != (r < 0.0) { exact - 1.0 } else { exact };
    if q == 0.0 {
        return 0.0f64.copysign(x / y);
    }
    let floor = q.floor();
    if q - floor > 0.5 { floor + 1.0 } else { floor }
}

/// The value in integers of `dtype`, wrapping to its width (u8 is 0..=255). Comparisons and tests give 0 or 1.
///
/// # Errors
/// Division by zero; a builtin that isn't defined on integers.
pub fn eval_int(builtin: Builtin, args: &[i64], dtype: DType) -> Result<i64, IntError> {
    let at = |i: usize| args.get(i).copied().ok_or(IntError::Undefined);
    let x = at(0)?;
    let y = at(1).unwrap_or(0);
    let arity = builtin.record().arity();
    if args.len() != arity || !dtype.is_int() || !builtin.record().domain.contains(dtype) {
        return Err(IntError::Undefined);
    }
    let wide = match builtin {
        Neg => x.wrapping_neg(),
        Add => x.wrapping_add(y),
        Sub => x.wrapping_sub(y),
        Mul => x.wrapping_mul(y),
        Eq => (x == y) as i64,
        Ne => (x != y) as i64,
        Lt => (x < y) as i64,
        Le => (x <= y) as i64,
        Gt => (x > y) as i64,
        Ge => (x >= y) as i64,
        Abs => x.wrapping_abs(),
        Sign => x.signum(),
        Floor | Ceil | Round | Trunc | Cast => x,
        Pow => int_pow(x, y),
        Max => x.max(y),
        Min => x.min(y),
        RemTrunc | RemFloor | DivTrunc | DivFloor if y == 0 => return Err(IntError::DivisionByZero),
        RemTrunc => x.wrapping_rem(y),
        DivTrunc => x.wrapping_div(y),
        RemFloor => {
            let r = x.wrapping_rem(y);
            if r != 0 && (r < 0) != (y < 0) { r + y } else { r }
        }
        DivFloor => {
            let q = x.wrapping_div(y);
            if x.wrapping_rem(y) != 0 && (x < 0) != (y < 0) { q - 1 } else { q }
        }
        Isnan | Isinf => 0,
        Isfinite => 1,
        Select => {
            if x != 0 {
                y
            } else {
                at(2)?
            }
        }
        Bitand => x & y,
        Bitor => x | y,
        Bitxor => x ^ y,
        Bitnot => !x,
        // A shift by the width or more leaves only the sign.
        Shl => {
            if in_width(y, dtype) {
                x.wrapping_shl(y as u32)
            } else {
                0
            }
        }
        Shr => x >> if in_width(y, dtype) { y as u32 } else { 63 },
        Gcd => gcd(x, y),
        Lcm => lcm(x, y, dtype),
        _ => return Err(IntError::Undefined),
    };
    Ok(dtype.wrapped(wide))
}

/// The greatest common divisor. It is never negative, except where it is 2^63 and wraps; gcd(0, 0) is 0.
pub fn gcd(x: i64, y: i64) -> i64 {
    let (mut a, mut b) = (x.unsigned_abs(), y.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a as i64
}

/// The least common multiple before it wraps to the dtype; 0 if either is 0. In i32, as in i64, the product wraps before
/// its sign is taken away, as PyTorch's does.
pub fn lcm(x: i64, y: i64, dtype: DType) -> i64 {
    let divisor = gcd(x, y);
    if divisor == 0 {
        return 0;
    }
    let product = x.wrapping_div(divisor).wrapping_mul(y);
    (if dtype == DType::I32 { dtype.wrapped(product) } else { product }).wrapping_abs()
}

fn in_width(shift: i64, dtype: DType) -> bool {
    (0..8 * dtype.size() as i64).contains(&shift)
}

/// x^y modulo 2^64; for a negative y the truncated 1 / x^-y: 0 but for x = ±1 (and for 0, as in PyTorch).
fn int_pow(x: i64, y: i64) -> i64 {
    if y < 0 {
        return match x {
            1 => 1,
            -1 => {
                if y % 2 == 0 {
                    1
                } else {
                    -1
                }
            }
            _ => 0,
        };
    }
    let (mut power, mut base, mut rest) = (1i64, x, y);
    while rest > 0 {
        if rest & 1 == 1 {
            power = power.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        rest >>= 1;
    }
    power
}

/// The value in bool; `add` is or, `mul` is and. `None` if the builtin isn't defined on bool.
pub fn eval_bool(builtin: Builtin, args: &[bool]) -> Option<bool> {
    if args.len() != builtin.record().arity() || !builtin.record().domain.contains(DType::Bool) {
        return None;
    }
    let x = args[0];
    let y = args.get(1).copied().unwrap_or(false);
    Some(match builtin {
        Not | Bitnot => !x,
        And | Bitand | Mul | Min => x & y,
        Or | Bitor | Add | Max => x | y,
        Eq => x == y,
        Ne | Bitxor => x != y,
        Lt => !x & y,
        Le => !x | y,
        Gt => x & !y,
        Ge => x | !y,
        Sign | Cast => x,
        Isnan | Isinf => false,
        Isfinite => true,
        Select => {
            if x {
                y
            } else {
                args[2]
            }
        }
        _ => return None,
    })
}

/// A float as an element of `dtype`. A cast to an integer truncates; a value that i32 cannot hold (i64 for dtypes of more
/// than 31 bits) becomes the smallest number of that width, and narrower dtypes wrap it, as on x86: NaN to i32 is
/// `i32::MIN`, 300 to u8 is 44. A value from 2^63 on as a u64 is the i64 of the same bits.
pub fn cast_f64(x: f64, dtype: DType) -> Scalar {
    use half::{bf16, f16};
    let word = |x: f64| if (-TWO_63..TWO_63).contains(&x) { x as i64 } else { i64::MIN };
    match dtype {
        DType::Bool => Scalar::Bool(x != 0.0),
        DType::I64 => Scalar::Int(word(x)),
        DType::U64 => Scalar::Int(if x >= TWO_63 { word(x - TWO_63) ^ i64::MIN } else { word(x) }),
        DType::U32 => Scalar::Int(dtype.wrapped(word(x))),
        // Through f32 (two roundings), as PyTorch and the tile kernels do.
        DType::F16 => Scalar::Float(f16::from_f32(x as f32).to_f64()),
        DType::BF16 => Scalar::Float(bf16::from_f32(x as f32).to_f64()),
        DType::F32 | DType::C64 => Scalar::Float(x as f32 as f64),
        DType::F64 | DType::C128 => Scalar::Float(x),
        _ if dtype.is_float() => Scalar::Float(f64::from(crate::minifloat::round(x as f32, dtype))),
        _ => {
            let t = x.trunc();
            let word = if (i32::MIN as f64..=i32::MAX as f64).contains(&t) { t as i64 } else { i32::MIN as i64 };
            Scalar::Int(dtype.wrapped(word))
        }
    }
}

const TWO_63: f64 = 9_223_372_036_854_775_808.0;

/// An integer as an element of `dtype`: integers wrap, floats round once.
pub fn cast_int(x: i64, dtype: DType) -> Scalar {
    match dtype.category() {
        Category::Bool => Scalar::Bool(x != 0),
        Category::Int => Scalar::Int(dtype.wrapped(x)),
        // i64 → f32 in one rounding.
        _ if dtype.opmath() == DType::F32 => cast_f64(x as f32 as f64, dtype),
        _ => cast_f64(x as f64, dtype),
    }
}

/// A number as an element of `dtype`.
pub fn cast_scalar(x: Scalar, dtype: DType) -> Scalar {
    match x {
        Scalar::Bool(b) => cast_int(b as i64, dtype),
        Scalar::Int(i) => cast_int(i, dtype),
        Scalar::Float(f) => cast_f64(f, dtype),
    }
}
