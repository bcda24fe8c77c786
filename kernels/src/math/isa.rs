//! Instruction sets as types.

/// The instruction sets for which kernels are compiled, weakest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// The instructions of every CPU of the architecture.
    Baseline,
    /// AVX2, FMA, F16C.
    Avx2,
    /// AVX-512 F, VL, DQ, BW.
    Avx512,
}

/// An instruction set for which a kernel is compiled.
pub trait Isa: Copy + Default + Send + Sync + 'static {
    /// The level of this instruction set.
    const LEVEL: Level;
    /// Whether fused multiply-add is an instruction. Without it, `f32::mul_add` calls a library, 49 times slower than
    /// `a * b + c`.
    const FMA: bool;
    /// Whether rounding to integers is an instruction. Without it, `f32::floor` calls a library.
    const ROUND: bool;

    /// a b + c, fused if that is an instruction.
    #[inline(always)]
    fn fma(a: f32, b: f32, c: f32) -> f32 {
        if Self::FMA { a.mul_add(b, c) } else { a * b + c }
    }

    /// a b + c in f64, fused if that is an instruction.
    #[inline(always)]
    fn fma64(a: f64, b: f64, c: f64) -> f64 {
        if Self::FMA { a.mul_add(b, c) } else { a * b + c }
    }
}

/// The instructions of every CPU of the architecture.
#[derive(Clone, Copy, Default)]
pub struct Baseline;

/// AVX2, FMA, F16C.
#[derive(Clone, Copy, Default)]
pub struct Avx2;

/// AVX-512 F, VL, DQ, BW.
#[derive(Clone, Copy, Default)]
pub struct Avx512;

impl Isa for Baseline {
    const LEVEL: Level = Level::Baseline;
    const FMA: bool = cfg!(any(target_feature = "fma", target_arch = "aarch64"));
    const ROUND: bool = cfg!(any(target_feature = "sse4.1", target_arch = "aarch64"));
}

impl Isa for Avx2 {
    const LEVEL: Level = Level::Avx2;
    const FMA: bool = true;
    const ROUND: bool = true;
}

impl Isa for Avx512 {
    const LEVEL: Level = Level::Avx512;
    const FMA: bool = true;
    const ROUND: bool = true;
}
