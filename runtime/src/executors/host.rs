//! Primitives of the runtime that rows name with `host:`: few, and their results are integers.

use super::{ExecError, Kernel, Line, TensorMut, TensorRef};
use crate::buffer::Buffer;
use fulgurite_core::kernel::{HOST, Special};
use fulgurite_core::sig::Item;
use fulgurite_core::{Name, Scalar};
use std::cmp::Ordering;
use std::sync::Arc;

/// The kernel of a line that is a primitive.
pub(crate) fn kernel(line: &Line) -> Option<Arc<dyn Kernel>> {
    match Special::named(HOST, line.host()?.as_str())? {
        Special::Argsort => {
            let env = &line.symbol.solved.env;
            let dim = match env.item(Name::new("dim")) {
                Some(Item::Int(d)) => d.value(),
                Some(Item::Num(s)) => s.as_i64(),
                Some(Item::Ints(l)) => l.first().map_or(0, |d| d.value()),
                _ => -1,
            };
            let descending = matches!(env.item(Name::new("descending")), Some(Item::Num(s)) if s.as_bool());
            Some(Arc::new(Argsort { dim, descending }))
        }
        _ => None,
    }
}

/// Positions that sort along an axis; stable, NaN counts as the largest.
struct Argsort {
    dim: i64,
    descending: bool,
}

impl Kernel for Argsort {
    fn name(&self) -> String {
        "host:argsort".to_owned()
    }

    fn run(&self, inputs: &[TensorRef<'_>], outs: &mut [TensorMut<'_>]) -> Result<(), ExecError> {
        let (Some(x), [out]) = (inputs.first(), outs) else {
            return Err(ExecError::new("E807", "`argsort` takes one tensor and gives one"));
        };
        let rank = x.shape.len() as i64;
        let axis = if self.dim < 0 { self.dim + rank } else { self.dim };
        let n = usize::try_from(axis).ok().and_then(|a| x.shape.get(a)).copied().unwrap_or(1);
        let inner: usize = x.shape.iter().skip(axis.max(0) as usize + 1).product();
        let keys: Vec<Scalar> = x.to_buffer().as_ref().map(Buffer::scalars).unwrap_or_default();
        let Some(out) = out.as_slice_mut::<i64>() else {
            return Err(ExecError::new("E807", "`argsort` gives i64"));
        };
        let mut order: Vec<usize> = Vec::with_capacity(n);
        for start in 0..x.len() / n.max(1) {
            let base = start / inner * inner * n + start % inner;
            order.clear();
            order.extend(0..n);
            let key = |i: usize| keys[base + i * inner];
            if self.descending {
                order.sort_by(|a, b| compare(key(*b), key(*a)));
            } else {
                order.sort_by(|a, b| compare(key(*a), key(*b)));
            }
            for (i, o) in order.iter().enumerate() {
                out[base + i * inner] = *o as i64;
            }
        }
        Ok(())
    }
}

fn compare(a: Scalar, b: Scalar) -> Ordering {
    match (a, b) {
        (Scalar::Int(a), Scalar::Int(b)) => a.cmp(&b),
        _ => {
            let (a, b) = (a.as_f64(), b.as_f64());
            a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
        }
    }
}
