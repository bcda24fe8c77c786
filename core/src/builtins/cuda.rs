//! The prelude of the table's CUDA texts, and the CUDA spelling of dtypes, numbers and calls.

use super::Builtin;
use crate::{DType, Scalar};

/// CUDA C++ definitions of the `fg_*` functions in `Record::cuda`.
///
/// The text needs only C++17, the overloaded mathematical functions and the fixed-width integer names, so it also
/// compiles for the CPU with `FG` empty and `<cmath>` included. It is tested that way, without a device.
pub const CUDA_PRELUDE: &str = concat!(include_str!("prelude.cuh"), "\n", include_str!("special.cuh"));

/// The C type of a dtype's values in registers: half types compute in float.
pub fn register_type(d: DType) -> &'static str {
    match d {
        DType::Bool => "bool",
        DType::U8 => "unsigned char",
        DType::I8 => "signed char",
        DType::I16 => "short",
        DType::I32 => "int",
        DType::I64 => "long long",
        DType::F64 => "double",
        _ => "float",
    }
}

/// The C type of a dtype's elements in memory.
pub fn stored_type(d: DType) -> &'static str {
    match d {
        DType::F16 => "fg_f16",
        DType::BF16 => "fg_bf16",
        d => register_type(d),
    }
}

/// A number of the dtype's register type.
pub fn literal(s: Scalar, d: DType) -> String {
    let ty = register_type(d);
    match d {
        DType::Bool => s.as_bool().to_string(),
        d if d.is_float() => float(s.as_f64(), d == DType::F64),
        _ => match s.as_i64() {
            // Without its sign, the literal of the minimum would exceed the maximum by one.
            i64::MIN => format!("(-{}LL - 1)", i64::MAX),
            i if d == DType::I64 && i >= 0 => format!("{i}LL"),
            i if d == DType::I64 => format!("({i}LL)"),
            i => format!("({ty}){i}"),
        },
    }
}

/// Not-a-number and infinities are functions of the prelude: NVRTC has no <math.h>.
fn float(x: f64, double: bool) -> String {
    let ty = if double { "double" } else { "float" };
    let infinite = if double { x.is_infinite() } else { (x as f32).is_infinite() };
    let minus = if x < 0.0 { "-" } else { "" };
    if x.is_nan() {
        format!("({ty})fg_nan()")
    } else if infinite {
        format!("({ty}){minus}fg_inf()")
    } else {
        let text = format!("{x:?}{}", if double { "" } else { "f" });
        // `--1.0` is a decrement
        if x.is_sign_negative() { format!("({text})") } else { text }
    }
}

/// A call of a builtin; `ty` is the type of its value, which the text of a cast names.
pub fn call(b: Builtin, args: &[String], ty: &str) -> String {
    let text = b.record().cuda.replace("{t}", ty);
    args.iter().enumerate().fold(text, |text, (i, a)| text.replace(&format!("{{{i}}}"), a))
}
