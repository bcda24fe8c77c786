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

use crate::line_gemm::{LANES, MOST_VECTORS};
use crate::multi::multi;
use std::hint::black_box;

/// The places of a patch.
pub const PLACES: usize = 16;
type Vector = [f32; LANES];

// Loops over lanes instead of closures, because a closure is not always compiled for the instruction set around it.

#[inline(always)]
fn sum(a: Vector, b: Vector) -> Vector {
    let mut to = a;
    for l in 0..LANES {
        to[l] = a[l] + b[l];
    }
    to
}

#[inline(always)]
fn difference(a: Vector, b: Vector) -> Vector {
    let mut to = a;
    for l in 0..LANES {
        to[l] = a[l] - b[l];
    }
    to
}

/// The larger magnitude, lane by lane.
#[inline(always)]
fn larger(most: Vector, x: Vector) -> Vector {
    let mut to = most;
    for l in 0..LANES {
        // as it stands, this is one instruction, which passes over NaN
        to[l] = if x[l].abs() > most[l] { x[l].abs() } else { most[l] };
    }
    to
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
    let mut halves = [sum(ends, g[1]), difference(ends, g[1])];
    for half in &mut halves {
        for x in half {
            *x *= 0.5;
        }
    }
    [g[0], halves[0], halves[1], g[2]]
}

/// `Aᵀ m` of a column of four.
#[inline(always)]
fn of_products(m: [Vector; 4]) -> [Vector; 2] {
    [sum(sum(m[0], m[1]), m[2]), difference(difference(m[1], m[2]), m[3])]
}

/// Patches side by side.
#[derive(Clone, Copy, Debug)]
pub struct Patches {
    /// The elements of the first channel at each place of the patches, row by row: one line for each place.
    pub from: [*const f32; PLACES],
    /// The distance from channel to channel of these lines.
    pub from_channel: usize,
    /// The transformed elements of the first channel at the first place.
    pub to: *mut f32,
    /// The distances of transformed elements from place to place, and from channel to channel.
    pub steps: (usize, usize),
    /// The number of channels.
    pub channels: usize,
    /// For each patch the largest magnitude of a transformed element of any channel.
    pub largest: *mut f32,
    /// The number of patches.
    pub count: usize,
}

multi! {
    /// Transforms patches, and notes the largest magnitudes of those transformed elements that are numbers.
    ///
    /// # Safety
    /// Lines have `count` elements, there is room for as many of each channel at each place, and for as many magnitudes:
    /// all rounded up to a multiple of [`LANES`].
    unsafe fn patches(p: &Patches) {
        for at in (0..p.count).step_by(LANES) {
            let mut most = [0f32; LANES];
            // SAFETY: the caller upholds the contract.
            unsafe {
                for channel in 0..p.channels {
                    // The compiler would keep 32 addresses from channel to channel, more than there are registers.
                    let from = black_box(at + channel * p.from_channel);
                    let to = black_box(p.to.add(at + channel * p.steps.1));
                    let mut columns = [[[0f32; LANES]; 4]; 4];
                    for j in 0..4 {
                        let mut d = [[0f32; LANES]; 4];
                        for i in 0..4 {
                            d[i] = (p.from[4 * i + j].add(from) as *const Vector).read_unaligned();
                        }
                        columns[j] = of_patch(d);
                    }
                    for i in 0..4 {
                        let row = of_patch([columns[0][i], columns[1][i], columns[2][i], columns[3][i]]);
                        for j in 0..4 {
                            most = larger(most, row[j]);
                            (to.add((4 * i + j) * p.steps.0) as *mut Vector).write_unaligned(row[j]);
                        }
                    }
                }
                (p.largest.add(at) as *mut Vector).write_unaligned(most);
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
            let mut columns = [[[0f32; LANES]; 4]; 3];
            for j in 0..3 {
                columns[j] = of_weights([g[0][j], g[1][j], g[2][j]]);
            }
            for i in 0..4 {
                let row = of_weights([columns[0][i], columns[1][i], columns[2][i]]);
                for j in 0..4 {
                    most = larger(most, row[j]);
                    let to = w.to.wrapping_add((4 * i + j) * w.step + first);
                    // SAFETY: the caller upholds the contract.
                    unsafe {
                        match lanes {
                            LANES => (to as *mut Vector).write_unaligned(row[j]),
                            _ => std::ptr::copy_nonoverlapping(row[j].as_ptr(), to, lanes),
                        }
                    }
                }
            }
        }
        most.into_iter().fold(0.0, f32::max)
    }
}

/// Patches that lie side by side among the products, and in a row of patches.
#[derive(Clone, Copy, Debug)]
pub struct PatchRun {
    /// The first of them among the products.
    pub at: usize,
    /// Their results in a line of results: two for each patch, or one fewer at the end of a line of odd length.
    pub columns: usize,
    /// Their lines of results: two, or one at the end of a result of odd height.
    pub lines: usize,
    /// The place of the first result.
    pub to: isize,
}

/// The products of patches side by side, for one row of the product.
#[derive(Clone, Copy, Debug)]
pub struct Products<'a> {
    /// The products at the first place.
    pub from: *const f32,
    /// The distance from place to place.
    pub step: usize,
    /// For each patch the largest magnitude of its transformed elements.
    pub largest: *const f32,
    /// The share of that magnitude which one of the four results must have.
    pub share: f32,
    /// The number of patches divided by [`LANES`], at most [`MOST_VECTORS`].
    pub vectors: usize,
    /// The patches whose results are written.
    pub runs: &'a [PatchRun],
    /// The place from which the places of results are counted.
    pub to: *mut f32,
    /// The distances from line to line of results, and from column to column.
    pub steps: (isize, isize),
}

/// The results of patches side by side in their order: the upper line, and the lower one.
type Lines = [[f32; 2 * MOST_VECTORS * LANES]; 2];

/// `left` and `right` in turns, as two vectors.
#[inline(always)]
fn turns(left: Vector, right: Vector) -> [Vector; 2] {
    let turn =
        |first: usize| std::array::from_fn(|l| if l % 2 == 0 { left[first + l / 2] } else { right[first + l / 2] });
    [turn(0), turn(LANES / 2)]
}

/// Copies `n` elements: with vectors of `W` elements, the last of which overlaps, if there are as many.
///
/// # Safety
/// The elements exist and don't overlap.
#[inline(always)]
unsafe fn copied<const W: usize>(from: *const f32, to: *mut f32, n: usize) -> bool {
    if n < W {
        return false;
    }
    for at in (0..n).step_by(W) {
        let at = at.min(n - W);
        // SAFETY: the caller upholds the contract, and a vector ends before element `n`.
        unsafe { (to.add(at) as *mut [f32; W]).write_unaligned((from.add(at) as *const [f32; W]).read_unaligned()) };
    }
    true
}

multi! {
    /// Adds products up to results and writes these. Returns whether all of them are finite, and one of the results of
    /// each patch has its share of the patch's magnitude.
    ///
    /// # Safety
    /// There are products at each place and magnitudes for all patches; the results of the runs exist.
    unsafe fn results(p: &Products<'_>) -> bool {
        let mut lines: Lines = [[0.0; 2 * MOST_VECTORS * LANES]; 2];
        let mut enough = [true; LANES];
        for v in 0..p.vectors {
            let at = v * LANES;
            // SAFETY: the caller upholds the contract.
            unsafe {
                let mut columns = [[[0f32; LANES]; 2]; 4];
                for j in 0..4 {
                    let mut m = [[0f32; LANES]; 4];
                    for i in 0..4 {
                        m[i] = (p.from.add((4 * i + j) * p.step + at) as *const Vector).read_unaligned();
                    }
                    columns[j] = of_products(m);
                }
                let mut most = [0f32; LANES];
                for i in 0..2 {
                    let row = [columns[0][i], columns[1][i], columns[2][i], columns[3][i]];
                    let [left, right] = of_products(row);
                    most = larger(larger(most, left), right);
                    for l in 0..LANES {
                        enough[l] &= left[l].is_finite() & right[l].is_finite();
                    }
                    let to = lines[i].as_mut_ptr().add(2 * at) as *mut [Vector; 2];
                    to.write_unaligned(turns(left, right));
                }
                let largest = (p.largest.add(at) as *const Vector).read_unaligned();
                for l in 0..LANES {
                    enough[l] &= p.share * largest[l] <= most[l];
                }
            }
        }
        for run in p.runs {
            for line in 0..run.lines.min(lines.len()) {
                let to = p.to.wrapping_offset(run.to + line as isize * p.steps.0);
                // SAFETY: the caller upholds the contract: these results exist.
                unsafe {
                    let from = lines[line].as_ptr().add(2 * run.at);
                    let done = p.steps.1 == 1
                        && (copied::<LANES>(from, to, run.columns)
                            || copied::<8>(from, to, run.columns)
                            || copied::<4>(from, to, run.columns));
                    if !done {
                        for column in 0..run.columns {
                            to.offset(column as isize * p.steps.1).write(from.add(column).read());
                        }
                    }
                }
            }
        }
        enough.into_iter().fold(true, |all, lane| all & lane)
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
            let lines: Vec<Vec<f32>> = (0..PLACES)
                .map(|place| (0..2).flat_map(|c| (0..COLUMNS).map(move |t| d(c, place, t))).collect())
                .collect();
            let mut v = vec![f32::NAN; PLACES * 2 * COLUMNS];
            let mut elements = [f32::NAN; COLUMNS];
            let p = Patches {
                from: std::array::from_fn(|place| lines[place].as_ptr()),
                from_channel: COLUMNS,
                to: v.as_mut_ptr(),
                steps: (2 * COLUMNS, COLUMNS),
                channels: 2,
                largest: elements.as_mut_ptr(),
                count: COLUMNS - 3,
            };
            // SAFETY: lines, magnitudes and room have this length.
            unsafe { patches::pick(isa)(&p) };
            let mut m = vec![0f32; PLACES * COLUMNS];
            for (t, most) in elements.into_iter().enumerate() {
                let own = (0..2 * PLACES).map(|line| v[line * COLUMNS + t].abs());
                assert_eq!(most, own.fold(0.0, f32::max));
            }
            for (line, t) in (0..2 * PLACES).flat_map(|line| (0..COLUMNS).map(move |t| (line, t))) {
                m[line / 2 * COLUMNS + t] += u[line] * v[line * COLUMNS + t];
            }
            let want = |line: usize, column: usize, t: usize| -> f32 {
                let terms = (0..18).map(|n| (n / 9, n / 3 % 3, n % 3));
                terms.map(|(c, i, j)| g(c, i, j) * d(c, 4 * (line + i) + column + j, t)).sum()
            };
            let weakest = (0..COLUMNS)
                .map(|t| (0..4).map(|n| want(n / 2, n % 2, t).abs()).fold(0.0, f32::max) / elements[t])
                .fold(f32::INFINITY, f32::min);
            assert!(weakest > 0.0);
            // runs of all lengths, the last of which ends in the middle of a patch
            let lengths = [2, 6, 10, 12, 34 - 1];
            let mut runs = Vec::new();
            for (n, columns) in lengths.into_iter().enumerate() {
                let at = lengths[..n].iter().sum::<usize>() / 2;
                runs.push(PatchRun { at, columns, lines: 1 + n % 2, to: 200 * n as isize });
            }
            for (share, step) in [(0.999, 1), (1.001, 1), (0.999, 2)] {
                let mut y = vec![f32::NAN; 1000];
                let p = Products {
                    from: m.as_ptr(),
                    step: COLUMNS,
                    largest: elements.as_ptr(),
                    share: share * weakest,
                    vectors: COLUMNS / LANES,
                    runs: &runs,
                    to: y.as_mut_ptr(),
                    steps: (100, step),
                };
                // SAFETY: products and magnitudes have this length; results end before element 1000.
                let enough = unsafe { results::pick(isa)(&p) };
                assert_eq!(enough, share < 1.0, "{isa:?}");
                let mut written = 0;
                for run in &runs {
                    for (line, column) in (0..run.lines).flat_map(|l| (0..run.columns).map(move |c| (l, c))) {
                        let at = run.to as usize + 100 * line + column * step as usize;
                        assert_eq!(
                            y[at],
                            want(line, column % 2, run.at + column / 2),
                            "{isa:?} {run:?} {line} {column}"
                        );
                        written += 1;
                    }
                }
                assert_eq!(y.iter().filter(|x| !x.is_nan()).count(), written, "nothing else is written");
            }
            m[5 * COLUMNS + 7] = f32::INFINITY;
            let (largest, to) = (elements.as_ptr(), [0f32; 1].as_mut_ptr());
            let (from, vectors, steps) = (m.as_ptr(), COLUMNS / LANES, (0, 1));
            let p = Products { from, step: COLUMNS, largest, share: 0.0, vectors, runs: &[], to, steps };
            // SAFETY: products and magnitudes have this length, and no result is written.
            assert!(!unsafe { results::pick(isa)(&p) }, "one result is infinite");
        }
    }
}
