//! The kernel of `searchsorted`: a binary search in each row. For a row that is not sorted it returns the index at
//! which the steps in the row's meaning end.

use crate::buffer::Element;
use crate::executors::program::threads;
use crate::executors::{ExecError, Kernel, Line, TensorMut, TensorRef};
use fulgurite_core::signature::{Item, OutTy};
use fulgurite_core::{DType, Name};
use half::{bf16, f16};
use std::sync::Arc;

/// The kernel of a line that searches values in sorted rows; a third input gives the order of the elements.
pub(super) fn kernel(line: &Line) -> Option<Arc<dyn Kernel>> {
    let wide = match line.symbol.solved.outs.first()? {
        OutTy::Tensor(ty) if ty.dtype == DType::I64 => true,
        OutTy::Tensor(ty) if ty.dtype == DType::I32 => false,
        _ => return None,
    };
    let right = matches!(line.symbol.solved.env.item(Name::new("side")), Some(Item::Word(w)) if w.as_str() == "right");
    Some(Arc::new(Search { name: line.name(), right, wide }))
}

struct Search {
    name: &'static str,
    right: bool,
    /// Whether indices are i64; otherwise they are i32.
    wide: bool,
}

/// The estimated nanoseconds of a step of a binary search.
const STEP: f64 = 4.0;

impl Kernel for Search {
    fn name(&self) -> String {
        format!("cpu:{}", self.name)
    }

    fn run(&self, inputs: &[TensorRef<'_>], outs: &mut [TensorMut<'_>]) -> Result<(), ExecError> {
        let wrong = || ExecError::new("E807", format!("`{}` takes two tensors of one dtype and an order", self.name));
        let (Some(sorted), Some(values), [out]) = (inputs.first(), inputs.get(1), outs) else {
            return Err(wrong());
        };
        let order = inputs.get(2);
        macro_rules! by_dtype {
            ($($d:ident: $t:ty),*) => {
                match sorted.dtype {
                    $(DType::$d => self.rows::<$t>(sorted, values, order, out)?,)*
                    _ => None,
                }
            };
        }
        let done = by_dtype!(F64: f64, F32: f32, F16: f16, BF16: bf16, I64: i64, I32: i32, I16: i16, I8: i8, U8: u8);
        done.ok_or_else(wrong)
    }
}

impl Search {
    fn rows<T: Element + PartialOrd>(
        &self,
        sorted: &TensorRef<'_>,
        values: &TensorRef<'_>,
        order: Option<&TensorRef<'_>>,
        out: &mut TensorMut<'_>,
    ) -> Result<Option<()>, ExecError> {
        let (Some(all), Some(values)) = (sorted.as_slice::<T>(), values.as_slice::<T>()) else { return Ok(None) };
        let n = sorted.shape.last().copied().unwrap_or(1);
        let rows = sorted.shape.iter().rev().skip(1).product::<usize>();
        let each = values.len() / rows.max(1);
        // any row may name this kernel, so its shapes are checked
        if each * rows != values.len() || out.len() != values.len() || order.is_some_and(|o| o.len() != all.len()) {
            let what = format!("`{}` takes as many values for each sorted row, and gives an index for each", self.name);
            return Err(ExecError::new("E807", what));
        }
        let order = match order.map(indices) {
            None => None,
            Some(None) => return Ok(None),
            Some(Some(order)) => Some(order),
        };
        let mut counts = vec![0i64; values.len()];
        // an index out of range is refused even if there is no value to search for
        for row in 0..rows {
            let line = &all[row * n..][..n];
            let arranged: Vec<T>;
            let line = match &order {
                None => line,
                Some(order) => {
                    let pick = |i: &i64| usize::try_from(*i).ok().and_then(|i| line.get(i)).copied();
                    let all: Option<Vec<T>> = order[row * n..][..n].iter().map(pick).collect();
                    let outside = || ExecError::new("E804", format!("an index of `sorter` lies outside 0..{n}"));
                    arranged = all.ok_or_else(outside)?;
                    &arranged
                }
            };
            self.line(line, &values[row * each..][..each], &mut counts[row * each..][..each]);
        }
        Ok(match self.wide {
            true => out.as_slice_mut::<i64>().map(|out| out.copy_from_slice(&counts)),
            false => out.as_slice_mut::<i32>().map(|out| out.iter_mut().zip(&counts).for_each(|(o, c)| *o = *c as i32)),
        })
    }

    /// The index at which a binary search for each value ends: before the elements that are not smaller, or on the
    /// right side before those that are larger.
    fn line<T: Element + PartialOrd>(&self, line: &[T], values: &[T], counts: &mut [i64]) {
        let steps = (line.len() as f64 + 1.0).log2();
        let found = counts.as_mut_ptr() as usize;
        threads::share(values.len(), threads::threads(), STEP * steps * values.len() as f64, &|claims| {
            for (i, v) in claims.flatten().map(|i| (i, &values[i])) {
                let (mut start, mut stop) = (0, line.len());
                while start < stop {
                    let middle = start + (stop - start) / 2;
                    // elements that cannot be compared count as smaller
                    let reached = if self.right { line[middle] > *v } else { line[middle] >= *v };
                    (start, stop) = if reached { (start, middle) } else { (middle + 1, stop) };
                }
                // SAFETY: parts are disjoint and lie in `counts`, which has a place for each value
                unsafe { *(found as *mut i64).add(i) = start as i64 };
            }
        });
    }
}

/// The indices of a tensor of i32 or i64.
fn indices(order: &TensorRef<'_>) -> Option<Vec<i64>> {
    match order.dtype {
        DType::I64 => order.as_slice::<i64>().map(<[i64]>::to_vec),
        _ => order.as_slice::<i32>().map(|all| all.iter().map(|i| i64::from(*i)).collect()),
    }
}
