//! Products of a few numbers, for which `gemm` takes longer to choose a kernel and to get memory than to multiply.

use crate::abi::Level;
use crate::math::Isa;
use crate::multi::multi;
use std::mem::MaybeUninit;
use std::ops::Add;

/// At most this many multiplications: beyond, the kernels of `gemm` gain more than their start costs.
const MOST: usize = 1024;
/// At most this many summed terms, whose columns are copied to the stack.
const MOST_TERMS: usize = 64;
/// The columns that are computed side by side.
const LANES: usize = 16;

/// A number of a product.
pub trait ProductNumber: Copy + Add<Output = Self> + 'static {
    /// The number 0.
    const ZERO: Self;
    /// The number 1.
    const ONE: Self;

    /// `self · by + to`, fused if that is an instruction.
    fn times_added<I: Isa>(self, by: Self, to: Self) -> Self;
}

impl ProductNumber for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;

    #[inline(always)]
    fn times_added<I: Isa>(self, by: f32, to: f32) -> f32 {
        I::fma(self, by, to)
    }
}

impl ProductNumber for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;

    #[inline(always)]
    fn times_added<I: Isa>(self, by: f64, to: f64) -> f64 {
        I::fma64(self, by, to)
    }
}

/// A product of matrices: `c[i, j] = Σ_k a[i, k] · b[k, j]`, with strides in elements.
#[derive(Clone, Copy, Debug)]
pub struct TinyGemm {
    /// The rows of the result, its columns, and the summed terms.
    pub sizes: [usize; 3],
    /// The left operand, and its strides by `(i, k)`.
    pub a: (*const u8, isize, isize),
    /// The right operand, and its strides by `(k, j)`.
    pub b: (*const u8, isize, isize),
    /// The result, and its strides by `(i, j)`.
    pub c: (*mut u8, isize, isize),
    /// Whether the product is added to the result.
    pub add: bool,
}

/// Whether a product with these rows, columns and summed terms is tiny.
pub fn is_tiny([rows, columns, terms]: [usize; 3]) -> bool {
    terms <= MOST_TERMS && rows.saturating_mul(columns).saturating_mul(terms) <= MOST
}

impl TinyGemm {
    /// Computes the product of numbers `T`.
    ///
    /// # Safety
    /// [`is_tiny`] holds; the operands and the result have these sizes and strides, and no other thread writes to the result.
    pub unsafe fn run<T: ProductNumber>(&self) {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { product::pick::<T>(Level::current())(self) }
    }
}

multi! {
    /// Computes a tiny product.
    ///
    /// # Safety
    /// The contract of [`TinyGemm::run`] holds.
    unsafe fn product<T: ProductNumber>(p: &TinyGemm) {
        let columns = p.sizes[1];
        for first in (0..columns).step_by(LANES) {
            let count = LANES.min(columns - first);
            // SAFETY: the caller upholds the contract of this function; these columns exist.
            unsafe {
                match count {
                    0..=4 => side_by_side::<I, T, 4>(p, first, count),
                    5..=8 => side_by_side::<I, T, 8>(p, first, count),
                    _ => side_by_side::<I, T, LANES>(p, first, count),
                }
            }
        }
    }
}

/// Computes `count` columns from `first` on, at most `W`.
///
/// # Safety
/// The contract of [`TinyGemm::run`] holds, and these columns exist.
// Indices step through registers and memory at once, and their constant bounds let the compiler unroll the loops.
#[allow(clippy::needless_range_loop)]
#[inline(always)]
unsafe fn side_by_side<I: Isa, T: ProductNumber, const W: usize>(p: &TinyGemm, first: usize, count: usize) {
    let [rows, _, terms] = p.sizes;
    let mut copy = MaybeUninit::<[[T; W]; MOST_TERMS]>::uninit();
    let copied = copy.as_mut_ptr() as *mut [T; W];
    // SAFETY: the caller upholds the contract; there are at most as many terms as the copy has, and each is written
    // before it is read.
    unsafe {
        let (a, column) = (p.a.0 as *const T, p.b.0 as *const T);
        let column = column.offset(first as isize * p.b.2);
        for k in 0..terms {
            let from = column.offset(k as isize * p.b.1);
            let mut line = [T::ZERO; W];
            if count == W && p.b.2 == 1 {
                line = (from as *const [T; W]).read_unaligned();
            } else {
                for j in 0..count {
                    line[j] = from.offset(j as isize * p.b.2).read();
                }
            }
            copied.add(k).write(line);
        }
        for i in 0..rows {
            let mut sums = [T::ZERO; W];
            for k in 0..terms {
                let x = a.offset(i as isize * p.a.1 + k as isize * p.a.2).read();
                let line = copied.add(k).read();
                for j in 0..W {
                    sums[j] = x.times_added::<I>(line[j], sums[j]);
                }
            }
            let to = (p.c.0 as *mut T).offset(i as isize * p.c.1 + first as isize * p.c.2);
            if count == W && p.c.2 == 1 && !p.add {
                (to as *mut [T; W]).write_unaligned(sums);
                continue;
            }
            for j in 0..count {
                let to = to.offset(j as isize * p.c.2);
                to.write(if p.add { to.read() + sums[j] } else { sums[j] });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All sizes up to a few, in all orders of their axes, against sums of integers, which are exact.
    fn tiny_products<T: ProductNumber + From<i16> + PartialEq + std::fmt::Debug>() {
        for isa in Level::ALL.into_iter().filter(|i| *i <= Level::detect()) {
            for (rows, columns, terms) in
                [(1, 1, 1), (4, 4, 4), (3, 5, 7), (2, 8, 6), (7, 16, 3), (2, 21, 4), (6, 33, 2), (5, 9, 0), (1, 16, 64)]
            {
                assert!(is_tiny([rows, columns, terms]));
                let number = |i: usize, j: usize, of: usize| ((5 * i + 3 * j * j + of) % 9) as i16 - 4;
                for layout in 0..8 {
                    let strides = |bit: usize, outer: usize, inner: usize| match layout >> bit & 1 {
                        0 => (inner + 1, 1),
                        _ => (1, outer + 2),
                    };
                    let (sa, sb, sc) = (strides(0, rows, terms), strides(1, terms, columns), strides(2, rows, columns));
                    let fill = |(s, t): (usize, usize), outer: usize, inner: usize, of: usize| {
                        let mut all = vec![T::from(99); s * outer + t * inner + 1];
                        for (i, j) in (0..outer).flat_map(|i| (0..inner).map(move |j| (i, j))) {
                            all[s * i + t * j] = T::from(number(i, j, of));
                        }
                        all
                    };
                    let (a, b) = (fill(sa, rows, terms, 1), fill(sb, terms, columns, 2));
                    let mut c = fill(sc, rows, columns, 3);
                    for add in [true, false] {
                        let before = c.clone();
                        let of = |s: (usize, usize)| (s.0 as isize, s.1 as isize);
                        let (sa, sb, st) = (of(sa), of(sb), of(sc));
                        let p = TinyGemm {
                            sizes: [rows, columns, terms],
                            a: (a.as_ptr() as *const u8, sa.0, sa.1),
                            b: (b.as_ptr() as *const u8, sb.0, sb.1),
                            c: (c.as_mut_ptr() as *mut u8, st.0, st.1),
                            add,
                        };
                        // SAFETY: the operands and the result have these sizes and strides.
                        unsafe { product::pick::<T>(isa)(&p) };
                        let mut want = before;
                        for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
                            let terms = (0..terms).map(|k| number(i, k, 1) * number(k, j, 2));
                            let sum = terms.sum::<i16>() + if add { number(i, j, 3) } else { 0 };
                            want[sc.0 * i + sc.1 * j] = T::from(sum);
                        }
                        assert_eq!(c, want, "{isa:?} {rows}x{columns}x{terms} {layout} {add}");
                    }
                }
            }
        }
    }

    #[test]
    fn tiny_products_are_sums_over_strided_operands() {
        tiny_products::<f32>();
        tiny_products::<f64>();
    }
}
