//! The executor's own tile kernels: copies, conversions, reductions. Arithmetic comes from the registered kernels.
//!
//! Bodies are plain loops, which [`multi`] compiles for three instruction sets. None contracts or reorders operations,
//! so all give equal bits. A function is picked when a program is built.

pub mod cast;
pub mod copy;
pub mod fill;
pub mod gather;
pub mod half;
pub mod reduce;
pub mod registry;
pub mod select;
pub mod window;

use std::sync::OnceLock;

/// Instruction sets, each of which includes the ones before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Isa {
    /// Any CPU of the architecture.
    Baseline,
    /// AVX2, FMA, F16C.
    Avx2,
    /// AVX-512 F, VL, DQ, BW.
    Avx512,
}

impl Isa {
    /// The name of the instruction set in `FULGURITE_ISA`.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Baseline => "baseline",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }

    /// The best instruction set that this CPU has, whatever `FULGURITE_ISA` says.
    pub fn detected() -> Isa {
        detect()
    }

    /// The best instruction set that this CPU has; `FULGURITE_ISA=baseline|avx2` lowers it, for tests.
    pub fn here() -> Isa {
        static HERE: OnceLock<Isa> = OnceLock::new();
        *HERE.get_or_init(|| {
            let most = match std::env::var("FULGURITE_ISA").as_deref() {
                Ok("baseline") => Isa::Baseline,
                Ok("avx2") => Isa::Avx2,
                _ => Isa::Avx512,
            };
            detect().min(most)
        })
    }
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Isa {
    let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bw");
    match (avx2, avx512) {
        (true, true) => Isa::Avx512,
        (true, false) => Isa::Avx2,
        _ => Isa::Baseline,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Isa {
    Isa::Baseline
}

/// `multi! { unsafe fn name<T: Bound>(args) -> R { body } }` makes a module `name` with the body compiled for each
/// instruction set, and the function `name::pick::<T>(isa)`.
macro_rules! multi {
    ($(#[$doc:meta])* unsafe fn $name:ident $(<$($g:ident: $bound:path),+>)? ($($arg:ident: $t:ty),* $(,)?) $(-> $r:ty)? $body:block) => {
        $(#[$doc])*
        pub mod $name {
            #![allow(unused_imports, clippy::missing_safety_doc, clippy::too_many_arguments)]
            use super::*;
            use $crate::executors::cpu::tile_kernels::Isa;

            /// The type of the function.
            pub type Fn = unsafe fn($($t),*) $(-> $r)?;

            #[inline(always)]
            unsafe fn body $(<$($g: $bound),+>)? ($($arg: $t),*) $(-> $r)? $body

            unsafe fn baseline $(<$($g: $bound),+>)? ($($arg: $t),*) $(-> $r)? {
                // SAFETY: the caller upholds the contract of this function.
                unsafe { body $(::<$($g),+>)? ($($arg),*) }
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn avx2 $(<$($g: $bound),+>)? ($($arg: $t),*) $(-> $r)? {
                // SAFETY: the caller upholds the contract of this function.
                unsafe { body $(::<$($g),+>)? ($($arg),*) }
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c")]
            unsafe fn avx512 $(<$($g: $bound),+>)? ($($arg: $t),*) $(-> $r)? {
                // SAFETY: the caller upholds the contract of this function.
                unsafe { body $(::<$($g),+>)? ($($arg),*) }
            }

            /// The variant for an instruction set that this CPU has.
            pub fn pick $(<$($g: $bound),+>)? (isa: Isa) -> Fn {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 => avx512 $(::<$($g),+>)?,
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => avx2 $(::<$($g),+>)?,
                    _ => baseline $(::<$($g),+>)?,
                }
            }
        }
    };
}
pub(crate) use multi;

/// Runs `$body` with `$t` as the Rust type of a dtype's registers (`u8` for bool). f16 and bf16 have no registers.
macro_rules! with_register {
    ($dtype:expr, $t:ident => $body:expr) => {{
        use fulgurite_core::DType;
        match $dtype {
            DType::Bool | DType::U8 | DType::F8E4M3FN | DType::F8E5M2 | DType::U4X2 => {
                type $t = u8;
                $body
            }
            DType::I8 => {
                type $t = i8;
                $body
            }
            DType::I16 | DType::F16 | DType::BF16 => {
                type $t = i16;
                $body
            }
            DType::I32 => {
                type $t = i32;
                $body
            }
            DType::I64 | DType::C64 | DType::C128 => {
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
        }
    }};
}
pub(crate) use with_register;

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
