//! Workloads from closures, which return the resulting tensors.

use crate::numbers;
use crate::serve::{Checked, Work};
use fulgurite::buffer::Element;
use fulgurite::prelude::*;

/// The result of a loader.
pub type Made = Result<Box<dyn Work>>;

/// A workload without state: every repetition has equal results.
pub struct Pure<F> {
    run: F,
    last: Vec<Tensor>,
    units: usize,
}

impl<F: FnMut() -> fulgurite::Result<Vec<Tensor>> + 'static> Pure<F> {
    /// A workload that repeats `run`.
    pub fn work(run: F) -> Made {
        Pure::units(1, run)
    }

    /// A workload that repeats `run`; the time of a repetition is divided by `units`.
    pub fn units(units: usize, run: F) -> Made {
        Ok(Box::new(Pure { run, last: Vec::new(), units }))
    }
}

impl<F: FnMut() -> fulgurite::Result<Vec<Tensor>>> Work for Pure<F> {
    fn step(&mut self) -> Result<()> {
        // The last results are freed first, as in a user's loop.
        self.last.clear();
        self.last = (self.run)()?;
        Ok(())
    }

    fn results(&mut self) -> Result<Vec<Vec<f32>>> {
        read(&self.last)
    }

    fn units(&self) -> usize {
        self.units
    }
}

/// A workload that repeats `run`, for programs that make workloads of their own.
///
/// # Errors
/// None: the workload is made when it runs.
pub fn repeated(run: impl FnMut() -> fulgurite::Result<Vec<Tensor>> + 'static) -> Made {
    Pure::work(run)
}

/// A workload whose state every repetition advances.
pub struct Stateful<S, M, F> {
    make: M,
    state: S,
    run: F,
    last: Vec<Tensor>,
    checked: Checked,
    units: usize,
}

impl<S, M, F> Stateful<S, M, F>
where
    S: 'static,
    M: Fn() -> S + 'static,
    F: FnMut(&mut S) -> fulgurite::Result<Vec<Tensor>> + 'static,
{
    /// Repeats `run` on the state that `make` makes.
    pub fn work(make: M, checked: Checked, units: usize, run: F) -> Made {
        let state = make();
        Ok(Box::new(Stateful { make, state, run, last: Vec::new(), checked, units }))
    }
}

impl<S, M, F> Work for Stateful<S, M, F>
where
    M: Fn() -> S,
    F: FnMut(&mut S) -> fulgurite::Result<Vec<Tensor>>,
{
    fn step(&mut self) -> Result<()> {
        self.last.clear();
        self.last = (self.run)(&mut self.state)?;
        Ok(())
    }

    fn results(&mut self) -> Result<Vec<Vec<f32>>> {
        read(&self.last)
    }

    fn reset(&mut self) -> Result<()> {
        self.state = (self.make)();
        Ok(())
    }

    fn units(&self) -> usize {
        self.units
    }

    fn checked(&self) -> Checked {
        self.checked
    }
}

fn read(tensors: &[Tensor]) -> Result<Vec<Vec<f32>>> {
    let one = |t: &Tensor| match t.dtype() {
        DType::F32 => t.to_vec::<f32>(),
        _ => Ok(t.to_f64()?.into_iter().map(|x| x as f32).collect()),
    };
    tensors.iter().map(one).collect()
}

/// `fill(seed, shape, scale, shift)` of the protocol.
pub fn fill<const N: usize>(seed: u32, shape: [usize; N], scale: f32, shift: f32) -> Tensor {
    placed(numbers::fill(seed, shape.iter().product(), scale, shift), shape)
}

/// `ints(seed, shape, n)` of the protocol.
pub fn ints<const N: usize>(seed: u32, shape: [usize; N], n: u32) -> Tensor {
    placed(numbers::ints(seed, shape.iter().product(), n), shape)
}

/// A tensor on the device of the programs. If the device has no memory for it, it stays here, and its first program
/// reports the error.
pub fn placed<T: Element, const N: usize>(data: Vec<T>, shape: [usize; N]) -> Tensor {
    let here = Tensor::from_vec(data, shape);
    fulgurite_demo::device::hold(here.clone()).unwrap_or(here)
}
