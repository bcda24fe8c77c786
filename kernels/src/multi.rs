//! Macros of the kernels in this crate: a body compiled for each instruction set, and dispatch by dtype or width.

/// `multi! { unsafe fn name<T: Bound>(args) -> R { body } }` makes a module `name` with the body compiled for each
/// instruction set, which is the type `I` in it, and the function `name::pick::<T>(isa)`.
macro_rules! multi {
    ($(#[$doc:meta])* unsafe fn $name:ident $(<$($g:ident: $bound:path),+>)? ($($arg:ident: $t:ty),* $(,)?) $(-> $r:ty)? $body:block) => {
        $(#[$doc])*
        pub mod $name {
            #![allow(unused_imports, clippy::missing_safety_doc, clippy::too_many_arguments)]
            // A closure is not compiled for the instruction set around it, so rows of arrays are walked by their numbers.
            #![allow(clippy::needless_range_loop)]
            // Most bodies do not ask which instruction set they are compiled for.
            #![allow(clippy::extra_unused_type_parameters)]
            use super::*;
            use $crate::abi::Level;
            use $crate::math::{Avx2, Avx512, Baseline, Isa};

            /// The type of the function.
            pub type Fn = unsafe fn($($t),*) $(-> $r)?;

            #[inline(always)]
            unsafe fn body<I: Isa $(, $($g: $bound),+)?>($($arg: $t),*) $(-> $r)? $body

            unsafe fn baseline $(<$($g: $bound),+>)? ($($arg: $t),*) $(-> $r)? {
                // SAFETY: the caller upholds the contract of this function.
                unsafe { body::<Baseline $(, $($g),+)?>($($arg),*) }
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn avx2 $(<$($g: $bound),+>)? ($($arg: $t),*) $(-> $r)? {
                // SAFETY: the caller upholds the contract of this function.
                unsafe { body::<Avx2 $(, $($g),+)?>($($arg),*) }
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c")]
            unsafe fn avx512 $(<$($g: $bound),+>)? ($($arg: $t),*) $(-> $r)? {
                // SAFETY: the caller upholds the contract of this function.
                unsafe { body::<Avx512 $(, $($g),+)?>($($arg),*) }
            }

            /// The variant for an instruction set that this CPU has.
            pub fn pick $(<$($g: $bound),+>)? (isa: Level) -> Fn {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => avx512 $(::<$($g),+>)?,
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => avx2 $(::<$($g),+>)?,
                    _ => baseline $(::<$($g),+>)?,
                }
            }
        }
    };
}
pub(crate) use multi;

/// Runs `$body` with `$t` as the Rust type of a dtype's registers (`u8` for bool). Numbers that are stored otherwise than they
/// compute have the type of their bits.
#[macro_export]
macro_rules! with_register {
    ($dtype:expr, $t:ident => $body:expr) => {{
        use $crate::core::DType;
        match $dtype {
            DType::I8 | DType::I2 | DType::I4 => {
                type $t = i8;
                $body
            }
            DType::I16 | DType::U16 | DType::F16 | DType::BF16 => {
                type $t = i16;
                $body
            }
            DType::I32 | DType::U32 => {
                type $t = i32;
                $body
            }
            DType::I64 | DType::U64 | DType::C64 | DType::C128 => {
                type $t = i64;
                $body
            }
            DType::F32 => {
                type $t = f32;
                $body
            }
            DType::F64 => {
                type $t = f64;
                $body
            }
            // bool, u8, and floats of four and eight bits
            _ => {
                type $t = u8;
                $body
            }
        }
    }};
}

/// Runs `$body` with `$t` as an unsigned type of `$bytes` bytes.
macro_rules! with_width {
    ($bytes:expr, $t:ident => $body:expr) => {
        match $bytes {
            1 => {
                type $t = u8;
                $body
            }
            2 => {
                type $t = u16;
                $body
            }
            4 => {
                type $t = u32;
                $body
            }
            _ => {
                type $t = u64;
                $body
            }
        }
    };
}
pub(crate) use with_width;
