//! Registers of floats for quantised products: eight lanes, by AVX2 or by plain code for any processor.
//!
//! Plain loops are too slow here. The compiler's code for a conversion next to a sum depends on the code around it, and
//! took two to four times as long.

use fulgurite_core::storage::U4x2;

/// The lanes of a register.
pub const WIDTH: usize = 8;

/// The registers in which one column is summed.
pub const REGISTERS: usize = 2;

/// The elements that are handled side by side.
pub const LANES: usize = WIDTH * REGISTERS;

/// A register of [`WIDTH`] floats.
///
/// # Safety
/// Functions of an implementation may be called only where the processor has its instructions.
pub unsafe trait Register: Copy {
    /// One number in all lanes.
    ///
    /// # Safety
    /// The contract of [`Register`] holds.
    unsafe fn splat(x: f32) -> Self;
    /// # Safety
    /// `from` is to [`WIDTH`] floats.
    unsafe fn load(from: *const f32) -> Self;
    /// # Safety
    /// `from` is to [`WIDTH`] integers.
    unsafe fn load_i8(from: *const i8) -> Self;
    /// Loads bytes of two integers as a register of the lower and one of the upper halves.
    ///
    /// # Safety
    /// `from` is to [`WIDTH`] bytes.
    unsafe fn load_halves(from: *const U4x2) -> [Self; 2];
    /// Loads words of eight four-bit integers as eight registers, the lowest integer first. The integer at position `k`
    /// is multiplied by `16^k`, except that the last one is not scaled.
    ///
    /// # Safety
    /// `from` is to [`WIDTH`] words of four bytes.
    unsafe fn load_words(from: *const U4x2) -> [Self; 8];
    /// Loads two numbers, each into one half of the lanes.
    ///
    /// # Safety
    /// `from` is to two floats.
    unsafe fn load_two(from: *const f32) -> Self;
    /// # Safety
    /// `to` is to [`WIDTH`] floats that no other code uses.
    unsafe fn store(self, to: *mut f32);
    /// `a · b + c`, rounded once where the processor has an instruction for it.
    ///
    /// # Safety
    /// The contract of [`Register`] holds.
    unsafe fn madd(a: Self, b: Self, c: Self) -> Self;
    /// The sum of all lanes of all registers, added in a tree.
    ///
    /// # Safety
    /// The contract of [`Register`] holds.
    unsafe fn sum(all: [Self; REGISTERS]) -> f32;
    /// For each register, the sum of its lanes, neighbours first.
    ///
    /// # Safety
    /// The contract of [`Register`] holds.
    unsafe fn sums(four: [Self; 4]) -> [f32; 4];
}

// SAFETY: every processor has the instructions of plain code.
unsafe impl Register for [f32; WIDTH] {
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        [x; WIDTH]
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { (from as *const Self).read_unaligned() }
    }

    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { (from as *const [i8; WIDTH]).read_unaligned() }.map(f32::from)
    }

    #[inline(always)]
    unsafe fn load_halves(from: *const U4x2) -> [Self; 2] {
        // SAFETY: the caller upholds the contract of this function.
        let bytes = unsafe { (from as *const [U4x2; WIDTH]).read_unaligned() };
        [bytes.map(|b| f32::from(b.0 & 15)), bytes.map(|b| f32::from(b.0 >> 4))]
    }

    #[inline(always)]
    unsafe fn load_words(from: *const U4x2) -> [Self; 8] {
        // SAFETY: the caller upholds the contract of this function.
        let words = unsafe { (from as *const [[u8; 4]; WIDTH]).read_unaligned() }.map(u32::from_le_bytes);
        std::array::from_fn(|k| match k {
            7 => words.map(|w| (w >> 28) as f32),
            _ => words.map(|w| (w & 15 << (4 * k)) as f32),
        })
    }

    #[inline(always)]
    unsafe fn load_two(from: *const f32) -> Self {
        // SAFETY: the caller upholds the contract of this function.
        let [a, b] = unsafe { (from as *const [f32; 2]).read_unaligned() };
        std::array::from_fn(|l| if l < WIDTH / 2 { a } else { b })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { (to as *mut Self).write_unaligned(self) }
    }

    #[inline(always)]
    unsafe fn madd(a: Self, b: Self, c: Self) -> Self {
        std::array::from_fn(|l| a[l] * b[l] + c[l])
    }

    #[inline(always)]
    unsafe fn sum(all: [Self; REGISTERS]) -> f32 {
        let mut lanes: Self = std::array::from_fn(|l| all[0][l] + all[1][l]);
        for half in [4, 2, 1] {
            (0..half).for_each(|l| lanes[l] += lanes[l + half]);
        }
        lanes[0]
    }

    #[inline(always)]
    unsafe fn sums(four: [Self; 4]) -> [f32; 4] {
        four.map(|x| ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7])))
    }
}

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

// SAFETY: the functions use AVX2 and FMA, which the caller's processor has.
#[cfg(target_arch = "x86_64")]
unsafe impl Register for __m256 {
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { _mm256_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from as *const __m128i))) }
    }

    #[inline(always)]
    unsafe fn load_halves(from: *const U4x2) -> [Self; 2] {
        // SAFETY: the caller upholds the contract of this function.
        unsafe {
            let bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(from as *const __m128i));
            let (low, high) = (_mm256_and_si256(bytes, _mm256_set1_epi32(15)), _mm256_srli_epi32::<4>(bytes));
            [_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)]
        }
    }

    #[inline(always)]
    unsafe fn load_words(from: *const U4x2) -> [Self; 8] {
        // SAFETY: the caller upholds the contract of this function.
        unsafe {
            let words = _mm256_loadu_si256(from as *const __m256i);
            std::array::from_fn(|k| {
                _mm256_cvtepi32_ps(match k {
                    7 => _mm256_srli_epi32::<28>(words),
                    _ => _mm256_and_si256(words, _mm256_set1_epi32(15 << (4 * k))),
                })
            })
        }
    }

    #[inline(always)]
    unsafe fn load_two(from: *const f32) -> Self {
        // SAFETY: the caller upholds the contract of this function.
        unsafe {
            let two = _mm256_castsi256_ps(_mm256_castsi128_si256(_mm_loadl_epi64(from as *const __m128i)));
            _mm256_permutevar8x32_ps(two, _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1))
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { _mm256_storeu_ps(to, self) }
    }

    #[inline(always)]
    unsafe fn madd(a: Self, b: Self, c: Self) -> Self {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn sum(all: [Self; REGISTERS]) -> f32 {
        // SAFETY: the caller upholds the contract of this function.
        unsafe {
            let lanes = _mm256_add_ps(all[0], all[1]);
            let four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps::<1>(lanes));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }

    #[inline(always)]
    unsafe fn sums([a, b, c, d]: [Self; 4]) -> [f32; 4] {
        let mut out = [0.0; 4];
        // SAFETY: the caller upholds the contract; there is room for four.
        unsafe {
            let halves = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
            let all = _mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps::<1>(halves));
            _mm_storeu_ps(out.as_mut_ptr(), all);
        }
        out
    }
}

/// The storage of quantised integers.
pub trait Stored: Copy + Sync {
    /// The number of integers in one stored element.
    const EACH: usize;
    /// The number that is added to an integer before it is stored.
    const OFFSET: f32;
    /// The position of element `k` of a run of [`LANES`] among the integers that [`Stored::load`] returns.
    fn place(k: usize) -> usize;
    /// Loads a run of [`LANES`] integers.
    ///
    /// # Safety
    /// `from` is to [`LANES`] stored integers; the processor has the instructions of `R`.
    unsafe fn load<R: Register>(from: *const Self) -> [R; REGISTERS];

    /// Writes elements in the order in which [`Stored::load`] returns integers.
    fn arrange(to: &mut [f32], from: &[f32]) {
        for (to, from) in to.as_chunks_mut::<LANES>().0.iter_mut().zip(from.as_chunks::<LANES>().0) {
            for (k, element) in from.iter().enumerate() {
                to[Self::place(k)] = *element;
            }
        }
    }
}

impl Stored for i8 {
    const EACH: usize = 1;
    const OFFSET: f32 = 0.0;

    fn place(k: usize) -> usize {
        k
    }

    #[inline(always)]
    unsafe fn load<R: Register>(from: *const i8) -> [R; REGISTERS] {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { [R::load_i8(from), R::load_i8(from.add(WIDTH))] }
    }
}

impl Stored for U4x2 {
    const EACH: usize = 2;
    const OFFSET: f32 = 8.0;

    /// Integers in lower halves of bytes come first, then those in upper halves.
    fn place(k: usize) -> usize {
        k % 2 * WIDTH + k / 2
    }

    #[inline(always)]
    unsafe fn load<R: Register>(from: *const U4x2) -> [R; REGISTERS] {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { R::load_halves(from) }
    }
}
