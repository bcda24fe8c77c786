//! The kernel of `linear_scan`: y[n] = a[n] * y[n - 1] + b[n], and y[n] = b[n] where the scan starts anew. It takes one
//! step per element instead of a sum of products.

use crate::buffer::Element;
use crate::executors::{ExecError, Kernel, Line, TensorMut, TensorRef};
use fulgurite_core::signature::Item;
use fulgurite_core::{DType, Name};
use half::{bf16, f16};
use std::sync::Arc;

/// The kernel of a line that is a linear recurrence.
pub(super) fn kernel(line: &Line) -> Option<Arc<dyn Kernel>> {
    let dim = match line.symbol.solved.env.item(Name::new("dim"))? {
        Item::Int(d) => d.value(),
        Item::Num(s) => s.as_i64(),
        _ => return None,
    };
    Some(Arc::new(Recurrence { dim }))
}

struct Recurrence {
    dim: i64,
}

impl Kernel for Recurrence {
    fn name(&self) -> String {
        "cpu:linear_scan".to_owned()
    }

    fn run(&self, inputs: &[TensorRef<'_>], outs: &mut [TensorMut<'_>]) -> Result<(), ExecError> {
        let (a, b, start, out) = match (inputs, outs) {
            ([a, b], [out]) => (a, b, None, out),
            ([a, b, start], [out]) => (a, b, Some(start), out),
            _ => return Err(ExecError::new("E807", "`linear_scan` takes two or three tensors and gives one")),
        };
        // any row may name this kernel, so its shapes are checked
        let of_others = |shape: &[usize]| sizes(shape) != sizes(b.shape);
        if of_others(a.shape) || of_others(out.shape) || start.is_some_and(|start| of_others(start.shape)) {
            return Err(ExecError::new("E807", "`linear_scan` takes tensors of one shape, and gives one of it"));
        }
        let start = match start.map(|start| start.as_slice::<bool>()) {
            Some(None) => {
                return Err(ExecError::new("E807", "`linear_scan` starts anew where a tensor of bool says so"));
            }
            Some(flags) => flags,
            None => None,
        };
        let shape = sizes(b.shape);
        let axis = if self.dim < 0 { self.dim + shape.len() as i64 } else { self.dim };
        let n = usize::try_from(axis).ok().and_then(|a| shape.get(a)).copied().unwrap_or(1);
        let inner = shape.iter().skip(axis.max(0) as usize + 1).product();
        let axis = Along { n, inner, start };
        let done = match b.dtype {
            DType::F64 => lines::<f64>(a, b, out, &axis, |x| x, |x| x),
            DType::F32 => lines::<f32>(a, b, out, &axis, f64::from, |x| x as f32),
            DType::F16 => lines::<f16>(a, b, out, &axis, f16::to_f64, f16::from_f64),
            DType::BF16 => lines::<bf16>(a, b, out, &axis, bf16::to_f64, bf16::from_f64),
            _ => None,
        };
        done.ok_or_else(|| ExecError::new("E807", "`linear_scan` takes two tensors of one float dtype"))
    }
}

/// The sizes of a tensor; a tensor of rank 0 has one element along the axis.
fn sizes(shape: &[usize]) -> &[usize] {
    if shape.is_empty() { &[1] } else { shape }
}

/// The axis of a scan.
struct Along<'a> {
    /// The number of elements.
    n: usize,
    /// The distance between elements.
    inner: usize,
    /// Whether the scan starts anew, by element.
    start: Option<&'a [bool]>,
}

/// Runs the recurrence along every line of the axis.
fn lines<T: Element + Copy>(
    a: &TensorRef<'_>,
    b: &TensorRef<'_>,
    out: &mut TensorMut<'_>,
    axis: &Along<'_>,
    wide: impl Fn(T) -> f64,
    narrow: impl Fn(f64) -> T,
) -> Option<()> {
    let (a, b, out) = (a.as_slice::<T>()?, b.as_slice::<T>()?, out.as_slice_mut::<T>()?);
    let Along { n, inner, start } = *axis;
    for line in 0..b.len() / n.max(1) {
        let first = line / inner * inner * n + line % inner;
        let mut y = 0.0;
        for (step, at) in (first..).step_by(inner).take(n).enumerate() {
            // at a start the factor multiplies nothing, so an infinite factor has no effect
            let starts = step == 0 || start.is_some_and(|flags| flags[at]);
            y = if starts { wide(b[at]) } else { wide(a[at]) * y + wide(b[at]) };
            out[at] = narrow(y);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::Recurrence;
    use crate::buffer::Buffer;
    use crate::executors::{Kernel, TensorMut, TensorRef};

    /// Any row may name the kernel.
    #[test]
    fn tensors_of_other_sizes_are_refused() {
        let tensor = |n: usize| Buffer::from_slice(&vec![1.0f32; n], &[n]).expect("a vector");
        let (short, long) = (tensor(2), tensor(3));
        let run = |a: &Buffer, b: &Buffer, mut out: Buffer| {
            let outs = &mut [TensorMut::of(&mut out).expect("here")];
            let [a, b] = [a, b].map(|x| TensorRef::of(x).expect("here"));
            Recurrence { dim: 0 }.run(&[a, b], outs)
        };
        assert_eq!(run(&short, &long, tensor(3)).expect_err("a is short").code, "E807");
        assert_eq!(run(&long, &long, tensor(2)).expect_err("the result is short").code, "E807");
        assert!(run(&long, &long, tensor(3)).is_ok());
    }
}
