//! An executor of one's own: it adds all elements of a tensor of f32 with compensated sums.
//!
//! An executor is offered the lines of a program and claims those that it can run. This one claims the line `sum` where
//! all elements of a tensor of f32 are added, and declines every other line, which goes to the executors after it. Its
//! kernel adds with Neumaier's compensation, so that the result is as accurate as one in twice the digits.
//!
//! ```
//! use fulgurite::prelude::*;
//! use fulgurite_executor::with_compensated;
//!
//! let x = Tensor::from([1e8f32, 1.0, -1e8]);
//! let f = jit(|x: Tensor| (x * 2.0).sum()).on(with_compensated()).keep_traces();
//! assert_eq!(f.call(x)?.item::<f32>()?, 2.0); // 1 is not lost beside 1e8
//! assert!(f.trace("compiled").expect("a stage").contains("compensated"));
//! # Ok::<(), fulgurite::Error>(())
//! ```

use fulgurite::core::{DType, signature::OutTy};
use fulgurite::executors::{self, Claim, ExecError, Executor, Kernel, Line, TensorMut, TensorRef};
use std::sync::Arc;

/// The executor `compensated`.
pub struct Compensated;

/// The usual executors, after [`Compensated`].
pub fn with_compensated() -> Vec<Arc<dyn Executor>> {
    let mut all: Vec<Arc<dyn Executor>> = vec![Arc::new(Compensated)];
    all.extend(executors::default());
    all
}

impl Executor for Compensated {
    fn name(&self) -> &'static str {
        "compensated"
    }

    /// Claims the first line, if it is a sum of all elements of a tensor of f32.
    fn claim(&self, lines: &[Line]) -> Option<Claim> {
        let line = lines.first()?;
        takes(line).then(|| Claim::line(line, Arc::new(NeumaierSum)))
    }
}

/// Whether the line adds all elements of an f32 to an f32. Executors see the operator, and the types that its signature
/// was solved for.
fn takes(line: &Line) -> bool {
    let solved = &line.symbol.solved;
    let ([Some(x)], [OutTy::Tensor(out)]) = (solved.env.slots.as_slice(), solved.outs.as_slice()) else { return false };
    // a `sum` along some axes has a result with axes, unless all of them have size 1
    line.name() == "sum" && x.dtype == DType::F32 && out.dtype == DType::F32 && out.rank() == 0
}

/// The kernel of one line: it reads the tensors of the line and writes its result.
struct NeumaierSum;

impl Kernel for NeumaierSum {
    fn name(&self) -> String {
        "compensated sum".to_owned()
    }

    fn run(&self, inputs: &[TensorRef<'_>], outs: &mut [TensorMut<'_>]) -> Result<(), ExecError> {
        let (Some(x), Some([out])) =
            (inputs.first().and_then(TensorRef::as_slice::<f32>), outs.first_mut().and_then(TensorMut::as_slice_mut))
        else {
            return Err(ExecError::new("E807", "a compensated sum reads one f32 and writes one f32"));
        };
        *out = sum(x);
        Ok(())
    }
}

/// The sum with the rounding errors added at the end (Neumaier: "Rundungsfehleranalyse einiger Verfahren zur Summation
/// endlicher Summen", 1974).
fn sum(x: &[f32]) -> f32 {
    let (mut total, mut lost) = (0.0f32, 0.0f32);
    for &x in x {
        let next = total + x;
        lost += if total.abs() >= x.abs() { (total - next) + x } else { (x - next) + total };
        total = next;
    }
    total + lost
}

#[cfg(test)]
mod tests {
    use super::with_compensated;
    use fulgurite::Jit;
    use fulgurite::prelude::*;

    fn steps<F>(f: &Jit<F>) -> String {
        f.trace("compiled").expect("kept")
    }

    #[test]
    fn a_sum_of_all_elements_is_claimed_and_exact() -> Result<()> {
        // small numbers between large ones that nearly cancel
        let x: Vec<f32> =
            (0..10_000).map(|i| if i % 2 == 0 { 3.0 / 7.0 } else { 1e6 * f64::from(i).sin() as f32 }).collect();
        let exact: f64 = x.iter().map(|&x| f64::from(x)).sum();
        let f = jit(|x: Tensor| x.sum()).on(with_compensated()).keep_traces();
        let got = f.call(Tensor::from(x))?.item::<f32>()?;
        assert_eq!(got, exact as f32);
        assert!(steps(&f).contains("compensated compensated sum"), "{}", steps(&f));
        Ok(())
    }

    #[test]
    fn other_lines_are_declined_and_run_elsewhere() -> Result<()> {
        let f = jit(|x: Tensor, y: Tensor| {
            let rows = x.sum_with(ops::Sum { dims: [1].into(), ..d() });
            (rows, y.sum(), x.exp())
        });
        let f = f.on(with_compensated()).keep_traces();
        let (rows, whole, _) = f.call((Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]), Tensor::from([1.0f64, 2.0])))?;
        assert_eq!((rows.to_vec::<f32>()?, whole.item::<f64>()?), (vec![3.0, 7.0], 3.0));
        assert!(!steps(&f).contains("compensated"), "{}", steps(&f));
        Ok(())
    }

    /// Executors see forward and backward: the gradient of a broadcast factor is a sum of all elements too.
    #[test]
    fn gradients_are_lines_as_well() -> Result<()> {
        let f = jit(|w: Tensor, x: Tensor| grad(&w, |w| (w * &x).sum())).on(with_compensated()).keep_traces();
        let g = f.call((Tensor::scalar(2.0f32), Tensor::from([1e8f32, 1.0, -1e8])))?;
        assert_eq!(g.item::<f32>()?, 1.0, "{}", steps(&f));
        assert!(steps(&f).contains("compensated sum"), "{}", steps(&f));
        Ok(())
    }
}
