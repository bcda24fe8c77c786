//! Primitives of the runtime that rows name with `host:`. They are few, and their results are integers.

use super::program::threads;
use super::{ExecError, Kernel, Line, TensorMut, TensorRef};
use fulgurite_core::selection::{Lines, Selection, SortKey};
use fulgurite_core::{DType, Name};
use half::{bf16, f16};
use std::sync::Arc;

/// The kernel of a line that is a primitive.
pub(crate) fn kernel(line: &Line) -> Option<Arc<dyn Kernel>> {
    let name = line.host()?;
    let selection = Selection::of(name, &line.symbol.solved.env).ok()?;
    Some(Arc::new(Primitive { name, selection }))
}

/// A primitive with the options of a call.
struct Primitive {
    name: Name,
    selection: Selection,
}

/// The estimated nanoseconds for an element of a line.
const ELEMENT: f64 = 8.0;

impl Kernel for Primitive {
    fn name(&self) -> String {
        format!("host:{}", self.name)
    }

    fn run(&self, inputs: &[TensorRef<'_>], outs: &mut [TensorMut<'_>]) -> Result<(), ExecError> {
        let wrong = || ExecError::new("E807", format!("`{}` takes one tensor and gives one of i64", self.name));
        let ([x], [out]) = (inputs, outs) else { return Err(wrong()) };
        let refused = |why| ExecError::new("E804", format!("`{}`: {why}", self.name));
        let lines = self.selection.lines(x.shape).map_err(refused)?;
        let out = out.as_slice_mut::<i64>().filter(|out| out.len() == lines.count * lines.results).ok_or_else(wrong)?;
        macro_rules! by_dtype {
            ($($d:ident: $t:ty),*) => {
                match x.dtype {
                    $(DType::$d => x.as_slice::<$t>().map(|x| self.select(&lines, x, |e| e, out)),)*
                    DType::F16 => x.as_slice::<f16>().map(|x| self.select(&lines, x, |e| e.to_f32(), out)),
                    DType::BF16 => x.as_slice::<bf16>().map(|x| self.select(&lines, x, |e| e.to_f32(), out)),
                    // numbers of storage dtypes are read one by one
                    _ => x.to_buffer().map(|x| self.select(&lines, &x.scalars(), |e| e, out)),
                }
            };
        }
        by_dtype!(F64: f64, F32: f32, I64: i64, I32: i32, I16: i16, I8: i8, U8: u8, Bool: bool).ok_or_else(wrong)
    }
}

impl Primitive {
    /// Writes the positions of all lines of `x` to `out`; `number` returns an element as a number that has a key.
    fn select<E, K>(&self, lines: &Lines, x: &[E], number: impl Fn(E) -> K + Sync, out: &mut [i64])
    where
        E: Copy + Sync,
        K: SortKey,
    {
        let cost = ELEMENT * (lines.count * lines.size) as f64;
        let places = out.as_mut_ptr() as usize;
        threads::share(lines.count, threads::threads(), cost, &|claims| {
            for line in claims.flatten() {
                let (from, mut to) = (lines.first(line, lines.size), lines.first(line, lines.results));
                let strided: Vec<E>;
                let elements = if lines.step == 1 {
                    &x[from..][..lines.size]
                } else {
                    strided = (0..lines.size).map(|at| x[from + at * lines.step]).collect();
                    &strided
                };
                self.selection.line(elements, &number, |at| {
                    // SAFETY: lines are disjoint, and a line has as many places in `out` as positions
                    unsafe { *(places as *mut i64).add(to) = at as i64 };
                    to += lines.step;
                });
            }
        });
    }
}
