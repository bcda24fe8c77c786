//! The kernel of `matmul_groups`: a few vectors against a weight in groups of integers, which is read once and never
//! written out as floats.
//!
//! A result is the sum over groups, in their order, of `scale · Σ x · q` (and `zero · Σ x`); inside a group sixteen sums
//! run side by side and are added in a tree. Results do not depend on the number of threads.

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
        std::array::from_fn(|l| f32::from(from[l]))
    }
}

impl Stored for U4x2 {
    const EACH: usize = 2;
    #[inline(always)]
    fn lanes(from: &[U4x2]) -> [f32; LANES] {
        std::array::from_fn(|l| f32::from((from[l / 2].0 >> (4 * (l % 2))) & 15) - 8.0)
    }
}

multi! {
    /// Columns `from..to` of the result.
    unsafe fn columns<Q: Stored>(p: *const u8, from: usize, to: usize) {
        // SAFETY: the caller's pointer is to operands that live and whose columns `from..to` nobody else writes.
        let p = unsafe { &*(p as *const Operands<'_, Q>) };
        let groups = p.depth / p.group;
        for j in from..to {
            let weight = &p.q[j * p.depth / Q::EACH..(j + 1) * p.depth / Q::EACH];
            let scale = &p.scale[j * groups..(j + 1) * groups];
            for i in 0..p.rows {
                let x = &p.x[i * p.depth..(i + 1) * p.depth];
                let mut sum = 0.0;
                for g in 0..groups {
                    let mut acc = [0f32; LANES];
                    let runs = weight[g * p.group / Q::EACH..(g + 1) * p.group / Q::EACH].chunks_exact(LANES / Q::EACH);
                    for (q, x) in runs.zip(x[g * p.group..(g + 1) * p.group].chunks_exact(LANES)) {
                        let q = Q::lanes(q);
                        for l in 0..LANES {
                            acc[l] += q[l] * x[l];
                        }
                    }
                    let mut half = LANES / 2;
                    while half > 0 {
                        for l in 0..half {
                            acc[l] += acc[l + half];
                        }
                        half /= 2;
                    }
                    sum += acc[0] * scale[g];
                    if let Some(zero) = p.zero {
                        sum += zero[j * groups + g] * p.sums[i * groups + g];
                    }
                }
                // SAFETY: column `j` of row `i` is one of ours.
                unsafe { p.out.add(i * p.cols + j).write(sum) };
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
