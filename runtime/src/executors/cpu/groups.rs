//! The kernel of `matmul_groups`: a few vectors against a weight in groups of integers, which is read once and never
//! written out as floats.
//!
//! A result is the sum of `scale · Σ x · q` over groups (and of `zero · Σ x`): sixteen such sums run side by side through
//! all groups, in their order, and are added in a tree at the end. Results do not depend on the number of threads, nor on
//! how many columns are computed together.

use super::kern::{Isa, multi};
use super::threads::{share, threads};
use crate::buffer::U4x2;
use crate::executors::{ExecError, Kernel, Line, TensorMut, TensorRef};
use fulgurite_core::sig::Item;
use fulgurite_core::{DType, Name};
use std::sync::Arc;

/// Most vectors: for more the weight is written out once and multiplied as any matrix.
const MOST: usize = 8;

/// Elements handled side by side.
const LANES: usize = 16;

/// The kernel of a line with few vectors of f32, where groups are multiples of the lanes.
pub(super) fn kernel(line: &Line) -> Option<Arc<dyn Kernel>> {
    let Item::Int(group) = line.symbol.solved.env.item(Name::new("group"))? else { return None };
    let group = usize::try_from(group.value()).ok().filter(|g| *g > 0 && g.is_multiple_of(LANES))?;
    let slots = &line.symbol.solved.env.slots;
    let x = slots.first()?.as_ref()?;
    let f32s = |at: usize| slots.get(at).and_then(Option::as_ref).is_none_or(|t| t.dtype == DType::F32);
    if ![0, 2, 3].into_iter().all(f32s) {
        return None;
    }
    let depth = x.shape.last()?.len();
    let rows: usize = x.shape[..x.rank() - 1].iter().map(|d| d.len()).product();
    let fits = (1..=MOST).contains(&rows) && depth > 0 && depth.is_multiple_of(group);
    fits.then(|| Arc::new(Groups { group }) as Arc<dyn Kernel>)
}

struct Groups {
    group: usize,
}

/// What is multiplied.
struct Operands<'a, Q> {
    rows: usize,
    depth: usize,
    group: usize,
    cols: usize,
    x: &'a [f32],
    q: &'a [Q],
    scale: &'a [f32],
    zero: Option<&'a [f32]>,
    /// Per vector and group, the sum of its elements, if there are least numbers.
    sums: &'a [f32],
    out: *mut f32,
}

// SAFETY: threads write disjoint columns of `out`, and only read the rest.
unsafe impl<Q: Sync> Sync for Operands<'_, Q> {}

/// How integers are stored.
pub trait Stored: Copy + Sync {
    /// Integers in one element.
    const EACH: usize;
    /// The integers of a run of `LANES`, as floats; of `from` there are as many as make that.
    fn lanes(from: &[Self]) -> [f32; LANES];
}

impl Stored for i8 {
    const EACH: usize = 1;
    #[inline(always)]
    fn lanes(from: &[i8]) -> [f32; LANES] {
        match from.first_chunk::<LANES>() {
            Some(run) => std::array::from_fn(|l| f32::from(run[l])),
            None => [0.0; LANES],
        }
    }
}

impl Stored for U4x2 {
    const EACH: usize = 2;
    #[inline(always)]
    fn lanes(from: &[U4x2]) -> [f32; LANES] {
        let Some(run) = from.first_chunk::<{ LANES / 2 }>() else { return [0.0; LANES] };
        // integer `l` of eight is bits `4 l` of their word: shifts by lane, which vectors have
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| run[at + i].0));
        let words = [word(0), word(4)];
        std::array::from_fn(|l| ((words[l / 8] >> (4 * (l % 8))) & 15) as i32 as f32 - 8.0)
    }
}

/// The lanes' sum, in a tree.
#[inline(always)]
fn tree(mut acc: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for l in 0..half {
            acc[l] += acc[l + half];
        }
        half /= 2;
    }
    acc[0]
}

/// The sum of products of two vectors, lane by lane.
#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut acc = [0f32; LANES];
    for (a, b) in a.chunks(LANES).zip(b.chunks(LANES)) {
        for (acc, (a, b)) in acc.iter_mut().zip(a.iter().zip(b)) {
            *acc += a * b;
        }
    }
    tree(acc)
}

/// Results `j..j + N` for one vector.
#[inline(always)]
fn few<Q: Stored, const N: usize>(p: &Operands<'_, Q>, x: &[f32], j: usize) -> [f32; N] {
    let (groups, bytes) = (p.depth / p.group, p.depth / Q::EACH);
    let weight: [&[Q]; N] = std::array::from_fn(|c| &p.q[(j + c) * bytes..(j + c + 1) * bytes]);
    let scale: [&[f32]; N] = std::array::from_fn(|c| &p.scale[(j + c) * groups..(j + c + 1) * groups]);
    let mut total = [[0f32; LANES]; N];
    for (g, x) in x.chunks_exact(p.group).enumerate() {
        let mut part = [[0f32; LANES]; N];
        for (run, x) in x.as_chunks::<LANES>().0.iter().enumerate() {
            let at = (g * p.group + run * LANES) / Q::EACH;
            for c in 0..N {
                let q = Q::lanes(&weight[c][at..at + LANES / Q::EACH]);
                for l in 0..LANES {
                    part[c][l] += q[l] * x[l];
                }
            }
        }
        for c in 0..N {
            let scale = scale[c][g];
            for l in 0..LANES {
                total[c][l] += part[c][l] * scale;
            }
        }
    }
    total.map(tree)
}

/// Columns computed together.
const TOGETHER: usize = 4;

multi! {
    /// Columns `from..to` of the result.
    unsafe fn columns<Q: Stored>(p: *const u8, from: usize, to: usize) {
        // SAFETY: the caller's pointer is to operands that live and whose columns `from..to` nobody else writes.
        let p = unsafe { &*(p as *const Operands<'_, Q>) };
        let groups = p.depth / p.group;
        for i in 0..p.rows {
            let x = &p.x[i * p.depth..(i + 1) * p.depth];
            let write = |j: usize, sum: f32| {
                let rest = p.zero.map_or(0.0, |zero| {
                    dot(&zero[j * groups..(j + 1) * groups], &p.sums[i * groups..(i + 1) * groups])
                });
                // SAFETY: column `j` of row `i` is one of ours.
                unsafe { p.out.add(i * p.cols + j).write(sum + rest) };
            };
            let whole = from + (to - from) / TOGETHER * TOGETHER;
            for j in (from..whole).step_by(TOGETHER) {
                few::<Q, TOGETHER>(p, x, j).into_iter().enumerate().for_each(|(c, sum)| write(j + c, sum));
            }
            for j in whole..to {
                let [sum] = few::<Q, 1>(p, x, j);
                write(j, sum);
            }
        }
    }
}

/// Nanoseconds of a multiplication and addition, about.
const STEP: f64 = 0.06;

impl Groups {
    fn product<Q: Stored>(&self, x: &[f32], q: &[Q], rest: &[TensorRef<'_>], out: &mut TensorMut<'_>) -> Option<()> {
        let scale = rest.first()?.as_slice::<f32>()?;
        let zero = match rest.get(1) {
            Some(zero) => Some(zero.as_slice::<f32>()?),
            None => None,
        };
        let cols = *out.shape.last()?;
        let depth = q.len() * Q::EACH / cols.max(1);
        let (rows, groups) = (x.len() / depth.max(1), depth / self.group);
        let fits = x.len() == rows * depth && scale.len() == cols * groups && out.len() == rows * cols;
        if !fits || zero.is_some_and(|z| z.len() != scale.len()) {
            return None;
        }
        let sums: Vec<f32> = match zero {
            Some(_) => x.chunks_exact(self.group).map(|part| part.iter().sum()).collect(),
            None => Vec::new(),
        };
        let out = out.as_slice_mut::<f32>()?.as_mut_ptr();
        let p = Operands { rows, depth, group: self.group, cols, x, q, scale, zero, sums: &sums, out };
        let f = columns::pick::<Q>(Isa::here());
        let p = &p;
        // SAFETY: `p` lives until all parts are done, and they cover disjoint columns.
        let work = |from: usize, to: usize| unsafe { f(std::ptr::from_ref(p) as *const u8, from, to) };
        share(cols, threads(), (rows * depth * cols) as f64 * STEP, &work);
        Some(())
    }
}

impl Kernel for Groups {
    fn name(&self) -> String {
        "cpu:matmul_groups".to_owned()
    }

    fn run(&self, inputs: &[TensorRef<'_>], outs: &mut [TensorMut<'_>]) -> Result<(), ExecError> {
        let wrong =
            || ExecError::new("E807", "`matmul_groups` takes vectors of f32, integers in groups, and f32 factors");
        let ([x, q, rest @ ..], [out]) = (inputs, outs) else { return Err(wrong()) };
        let x = x.as_slice::<f32>().ok_or_else(wrong)?;
        let done = match q.dtype {
            DType::I8 => self.product::<i8>(x, q.as_slice().ok_or_else(wrong)?, rest, out),
            DType::U4X2 => self.product::<U4x2>(x, q.as_slice().ok_or_else(wrong)?, rest, out),
            _ => None,
        };
        done.ok_or_else(wrong)
    }
}
