//! The kernel of `matmul_groups`: [`fulgurite_kernels::quantised_gemm`], its columns shared among threads.

use crate::executors::program::threads::{share, threads};
use crate::executors::{ExecError, Kernel, Line, TensorMut, TensorRef};
use fulgurite_core::signature::Item;
use fulgurite_core::storage::U4x2;
use fulgurite_core::{DType, Name};
use fulgurite_kernels::abi::Level;
use fulgurite_kernels::quantised_gemm::{GroupedProduct, LANES, Usual, nanos};
use std::sync::Arc;

/// The kernel of a line with vectors of f32, where groups are multiples of the lanes.
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
    let cols = slots.get(1)?.as_ref()?.shape.first()?.len();
    let fits = rows > 0 && depth > 0 && depth.is_multiple_of(group);
    fits.then(|| Arc::new(QuantisedGemm { group, nanos: nanos(rows, depth, cols) }) as Arc<dyn Kernel>)
}

struct QuantisedGemm {
    group: usize,
    nanos: f64,
}

impl QuantisedGemm {
    fn product<Q: Usual>(&self, x: &[f32], q: &[Q], rest: &[TensorRef<'_>], out: &mut TensorMut<'_>) -> Option<()> {
        let scale = rest.first()?.as_slice::<f32>()?;
        let zero = match rest.get(1) {
            Some(zero) => Some(zero.as_slice::<f32>()?),
            None => None,
        };
        let cols = *out.shape.last()?;
        let read = (x, q, scale, zero);
        let product = GroupedProduct::new(Level::current(), (self.group, cols), read, out.as_slice_mut::<f32>()?)?;
        share(product.parts(), threads(), self.nanos, &|claims| {
            // SAFETY: `share` gives each part to one thread.
            claims.for_each(|parts| unsafe { product.run(parts.start, parts.end) });
        });
        Some(())
    }
}

impl Kernel for QuantisedGemm {
    fn name(&self) -> String {
        "cpu:matmul_groups".to_owned()
    }

    fn nanos(&self) -> Option<f64> {
        Some(self.nanos)
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
