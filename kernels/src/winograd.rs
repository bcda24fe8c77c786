//! Convolutions with windows of 3 × 3 by the minimal filtering of Winograd, F(2 × 2, 3 × 3): four neighbouring results need
//! 16 products instead of 36 (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016).
//!
//! A patch `d` of 4 × 4 elements and a window of weights `g` give 2 × 2 results `Aᵀ (G g Gᵀ ⊙ Bᵀ d B) A`, with
//!
//! ```text
//! Bᵀ = 1  0 -1  0     G = 1    0    0     Aᵀ = 1  1  1  0
//!      0  1  1  0         1/2  1/2  1/2        0  1 -1 -1
//!      0 -1  1  0         1/2 -1/2  1/2
//!      0  1  0 -1         0    0    1
//! ```
//!
//! The products of one place of the 4 × 4, summed over channels, are a product of matrices.

use crate::line_gemm::LANES;
use crate::multi::multi;

/// The places of a patch.
pub const PLACES: usize = 16;
/// The results of a patch.
pub const RESULTS: usize = 4;

type Vector = [f32; LANES];

/// Adds or subtracts lane by lane.
#[inline(always)]
fn each(a: Vector, b: Vector, f: impl Fn(f32, f32) -> f32) -> Vector {
    std::array::from_fn(|l| f(a[l], b[l]))
}

#[inline(always)]
fn sum(a: Vector, b: Vector) -> Vector {
    each(a, b, |a, b| a + b)
}

#[inline(always)]
fn difference(a: Vector, b: Vector) -> Vector {
    each(a, b, |a, b| a - b)
}

/// The larger magnitude, lane by lane.
#[inline(always)]
fn larger(most: Vector, x: Vector) -> Vector {
    each(most, x, |most, x| most.max(x.abs()))
}

/// `Bᵀ d` of a column of four.
#[inline(always)]
fn of_patch(d: [Vector; 4]) -> [Vector; 4] {
    [difference(d[0], d[2]), sum(d[1], d[2]), difference(d[2], d[1]), difference(d[1], d[3])]
}

/// `G g` of a column of three.
#[inline(always)]
fn of_weights(g: [Vector; 3]) -> [Vector; 4] {
    let ends = sum(g[0], g[2]);
    let half = |x: Vector| x.map(|x| 0.5 * x);
    [g[0], half(sum(ends, g[1])), half(difference(ends, g[1])), g[2]]
}

/// `Aᵀ m` of a column of four.
#[inline(always)]
fn of_products(m: [Vector; 4]) -> [Vector; 2] {
    [sum(sum(m[0], m[1]), m[2]), difference(difference(m[1], m[2]), m[3])]
}

/// Patches side by side.
#[derive(Clone, Copy, Debug)]
pub struct Patches {
    /// The elements at each place of the patches, row by row: one line for each place.
    pub from: [*const f32; PLACES],
    /// The transformed elements at the first place.
    pub to: *mut f32,
    /// The distance from place to place.
    pub step: usize,
    /// For each patch the largest magnitude of a transformed element so far; other channels have others.
    pub largest: *mut f32,
    /// The number of patches, a multiple of [`LANES`].
    pub count: usize,
}

multi! {
    /// Transforms patches, and notes the largest magnitudes of those transformed elements that are numbers.
    ///
    /// # Safety
    /// The lines have `count` elements, there is room for as many at each place, and there are as many magnitudes.
    unsafe fn patches(p: &Patches) {
        for at in (0..p.count).step_by(LANES) {
            // SAFETY: the caller upholds the contract.
            unsafe {
                let largest = p.largest.add(at) as *mut Vector;
                let mut most = largest.read_unaligned();
                let d = |i: usize, j: usize| (p.from[4 * i + j].add(at) as *const Vector).read_unaligned();
                let columns: [[Vector; 4]; 4] = std::array::from_fn(|j| of_patch(std::array::from_fn(|i| d(i, j))));
                for i in 0..4 {
                    let row = of_patch(std::array::from_fn(|j| columns[j][i]));
                    for (j, x) in row.into_iter().enumerate() {
                        most = larger(most, x);
                        (p.to.add((4 * i + j) * p.step + at) as *mut Vector).write_unaligned(x);
                    }
                }
                largest.write_unaligned(most);
            }
        }
    }
}

/// The weights of one row of the product.
#[derive(Clone, Copy, Debug)]
pub struct WindowWeights {
    /// The first weight of the first channel.
    pub from: *const f32,
    /// The distances from channel to channel, and along the two axes of the window.
    pub steps: (isize, isize, isize),
    /// The transformed weights at the first place.
    pub to: *mut f32,
    /// The distance from place to place.
    pub step: usize,
    /// The number of channels.
    pub channels: usize,
}

multi! {
    /// Transforms weights; returns the largest magnitude of a transformed weight that is a number.
    ///
    /// # Safety
    /// The weights exist, and there is room for one for each channel at each place.
    unsafe fn weights(w: &WindowWeights) -> f32 {
        let mut most = [0f32; LANES];
        for first in (0..w.channels).step_by(LANES) {
            let lanes = LANES.min(w.channels - first);
            let mut g = [[[0f32; LANES]; 3]; 3];
            for (i, row) in g.iter_mut().enumerate() {
                for (j, x) in row.iter_mut().enumerate() {
                    let from = w.from.wrapping_offset(i as isize * w.steps.1 + j as isize * w.steps.2);
                    for (l, x) in x.iter_mut().enumerate().take(lanes) {
                        // SAFETY: the caller upholds the contract.
                        *x = unsafe { from.offset((first + l) as isize * w.steps.0).read() };
                    }
                }
            }
            let columns: [[Vector; 4]; 3] = std::array::from_fn(|j| of_weights([g[0][j], g[1][j], g[2][j]]));
            for i in 0..4 {
                let row = of_weights([columns[0][i], columns[1][i], columns[2][i]]);
                for (j, x) in row.into_iter().enumerate() {
                    most = larger(most, x);
                    let to = w.to.wrapping_add((4 * i + j) * w.step + first);
                    // SAFETY: the caller upholds the contract.
                    unsafe { std::ptr::copy_nonoverlapping(x.as_ptr(), to, lanes) };
                }
            }
        }
        most.into_iter().fold(0.0, f32::max)
    }
}

/// The products of patches side by side.
#[derive(Clone, Copy, Debug)]
pub struct Products {
    /// The products at the first place.
    pub from: *const f32,
    /// The distance from place to place.
    pub step: usize,
    /// The results at the top left of the patches.
    pub to: *mut f32,
    /// The distance from one of the four results to the next.
    pub to_step: usize,
    /// For each patch the largest magnitude of its transformed elements.
    pub largest: *const f32,
    /// The share of that magnitude which one of the four results must have.
    pub share: f32,
    /// The number of patches, a multiple of [`LANES`].
    pub count: usize,
}

multi! {
    /// Adds products up to results: top left, top right, bottom left, bottom right. Returns whether one of the results of
    /// each patch has its share of the patch's magnitude.
    ///
    /// # Safety
    /// There are `count` products at each place and as many magnitudes, and there is room for as many of each result.
    unsafe fn results(p: &Products) -> bool {
        let mut enough = true;
        for at in (0..p.count).step_by(LANES) {
            // SAFETY: the caller upholds the contract.
            unsafe {
                let m = |i: usize, j: usize| (p.from.add((4 * i + j) * p.step + at) as *const Vector).read_unaligned();
                let mut most = [0f32; LANES];
                let columns: [[Vector; 2]; 4] = std::array::from_fn(|j| of_products(std::array::from_fn(|i| m(i, j))));
                for i in 0..2 {
                    let row = of_products(std::array::from_fn(|j| columns[j][i]));
                    for (j, x) in row.into_iter().enumerate() {
                        most = larger(most, x);
                        (p.to.add((2 * i + j) * p.to_step + at) as *mut Vector).write_unaligned(x);
                    }
                }
                let largest = (p.largest.add(at) as *const Vector).read_unaligned();
                let short: u32 = (0..LANES).map(|l| u32::from(p.share * largest[l] > most[l])).sum();
                enough &= short == 0;
            }
        }
        enough
    }
}

/// Results of a row of patches, which go side by side to a row of the result.
#[derive(Clone, Copy, Debug)]
pub struct Pairs {
    /// The left results.
    pub left: *const f32,
    /// The right results.
    pub right: *const f32,
    /// The first element of the row.
    pub to: *mut f32,
    /// The distance from element to element.
    pub step: isize,
    /// The elements of the row.
    pub count: usize,
}

multi! {
    /// Writes left and right results in turns.
    ///
    /// # Safety
    /// There are results for all elements of the row, which exist.
    unsafe fn pairs(p: &Pairs) {
        let whole = p.count / 2;
        // SAFETY: the caller upholds the contract.
        unsafe {
            if p.step == 1 {
                // a distance that the compiler knows becomes whole vectors
                for t in 0..whole {
                    p.to.add(2 * t).write(p.left.add(t).read());
                    p.to.add(2 * t + 1).write(p.right.add(t).read());
                }
            } else {
                for t in 0..whole {
                    p.to.offset(2 * t as isize * p.step).write(p.left.add(t).read());
                    p.to.offset((2 * t as isize + 1) * p.step).write(p.right.add(t).read());
                }
            }
            if p.count % 2 == 1 {
                p.to.offset((p.count - 1) as isize * p.step).write(p.left.add(whole).read());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Level;

    /// Two channels, one patch for each of 20 columns: the sums of products are those of the windows.
    #[test]
    fn results_are_those_of_the_windows() {
        const COLUMNS: usize = 32;
        let d = |c: usize, place: usize, t: usize| ((7 * c + 5 * place + 3 * t * t) % 11) as f32 - 5.0;
        let g = |c: usize, i: usize, j: usize| ((3 * c + 2 * i + 5 * j * j) % 7) as f32 - 3.0;
        for isa in Level::ALL.into_iter().filter(|i| *i <= Level::detect()) {
            let own: Vec<f32> = (0..18).map(|n| g(n / 9, n / 3 % 3, n % 3)).collect();
            let mut u = vec![f32::NAN; PLACES * 2];
            let w = WindowWeights { from: own.as_ptr(), steps: (9, 3, 1), to: u.as_mut_ptr(), step: 2, channels: 2 };
            // SAFETY: there are nine weights for each of two channels, and room for two at each place.
            let largest = unsafe { weights::pick(isa)(&w) };
            assert_eq!(largest, u.iter().fold(0.0, |most: f32, x| most.max(x.abs())));
            let mut m = vec![0f32; PLACES * COLUMNS];
            let mut elements = [0f32; COLUMNS];
            for c in 0..2 {
                let lines: Vec<Vec<f32>> =
                    (0..PLACES).map(|place| (0..COLUMNS).map(|t| d(c, place, t)).collect()).collect();
                let mut v = vec![f32::NAN; PLACES * COLUMNS];
                let from = std::array::from_fn(|place| lines[place].as_ptr());
                let mut of_channel = [0f32; COLUMNS];
                let (to, most) = (v.as_mut_ptr(), of_channel.as_mut_ptr());
                let p = Patches { from, to, step: COLUMNS, largest: most, count: COLUMNS };
                // SAFETY: lines, magnitudes and room have this length.
                unsafe { patches::pick(isa)(&p) };
                for (t, most) in of_channel.into_iter().enumerate() {
                    let own = (0..PLACES).map(|place| v[place * COLUMNS + t].abs());
                    assert_eq!(most, own.fold(0.0, f32::max));
                    elements[t] = f32::max(elements[t], most);
                }
                for place in 0..PLACES {
                    for t in 0..COLUMNS {
                        m[place * COLUMNS + t] += u[2 * place + c] * v[place * COLUMNS + t];
                    }
                }
            }
            let mut y = vec![f32::NAN; RESULTS * COLUMNS];
            let to = y.as_mut_ptr();
            // the share that the weakest patch has, and a little more
            let of_patch = |y: &[f32], t: usize| (0..RESULTS).map(|n| y[n * COLUMNS + t].abs()).fold(0.0, f32::max);
            let mut weakest = 0f32;
            for more in [1.0, 1.001] {
                let (largest, share) = (elements.as_ptr(), weakest * more);
                let p =
                    Products { from: m.as_ptr(), step: COLUMNS, to, to_step: COLUMNS, largest, share, count: COLUMNS };
                // SAFETY: products, magnitudes and room have this length.
                let enough = unsafe { results::pick(isa)(&p) };
                assert_eq!(enough, more == 1.0 || weakest == 0.0, "{isa:?}");
                weakest = (0..COLUMNS).map(|t| of_patch(&y, t) / elements[t]).fold(f32::INFINITY, f32::min);
            }
            for (result, t) in (0..RESULTS).flat_map(|r| (0..COLUMNS).map(move |t| (r, t))) {
                let (top, left) = (result / 2, result % 2);
                let mut want = 0.0;
                for (c, i, j) in (0..2).flat_map(|c| (0..9).map(move |n| (c, n / 3, n % 3))) {
                    want += g(c, i, j) * d(c, 4 * (top + i) + left + j, t);
                }
                assert_eq!(y[result * COLUMNS + t], want, "{isa:?} {result} {t}");
            }
        }
    }

    #[test]
    fn pairs_alternate() {
        let (left, right) = ([1f32, 3.0, 5.0], [2f32, 4.0, 6.0]);
        for isa in Level::ALL.into_iter().filter(|i| *i <= Level::detect()) {
            for (step, count) in [(1, 5), (1, 6), (2, 5)] {
                let mut to = [0f32; 12];
                let p = Pairs { left: left.as_ptr(), right: right.as_ptr(), to: to.as_mut_ptr(), step, count };
                // SAFETY: there are three pairs, and room for six elements two apart.
                unsafe { pairs::pick(isa)(&p) };
                for (n, x) in to.iter().enumerate() {
                    let written = n % step as usize == 0 && n / (step as usize) < count;
                    assert_eq!(*x, if written { (n / step as usize + 1) as f32 } else { 0.0 });
                }
            }
        }
    }
}
