//! Workloads from closures: what is repeated, and the tensors that come out.

use crate::numbers;
use crate::serve::{Checked, Work};
use fulgurite::buffer::Element;
use fulgurite::prelude::*;

/// What a loader gives.
pub type Made = Result<Box<dyn Work>>;

/// A workload without state: the same results each time.
pub struct Pure<F> {
    run: F,
    last: Vec<Tensor>,
    units: usize,
}

impl<F: FnMut() -> fulgurite::Result<Vec<Tensor>> + 'static> Pure<F> {
    /// Repeats this.
    pub fn work(run: F) -> Made {
        Pure::units(1, run)
    }

    /// Repeats this; the time of one repetition is divided by `units`.
    pub fn units(units: usize, run: F) -> Made {
        Ok(Box::new(Pure { run, last: Vec::new(), units }))
    }
}

impl<F: FnMut() -> fulgurite::Result<Vec<Tensor>>> Work for Pure<F> {
    fn step(&mut self) -> Result<()> {
        // the last results are freed first, as a user's loop would
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

/// A workload with state: each repetition moves it on.
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
    /// Repeats `run` on what `make` made.
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
    tensors.iter().map(|t| t.to_vec::<f32>()).collect()
}

/// `fill(seed, shape, scale, shift)` of the protocol.
pub fn fill<const N: usize>(seed: u32, shape: [usize; N], scale: f32, shift: f32) -> Tensor {
    placed(numbers::fill(seed, shape.iter().product(), scale, shift), shape)
}

/// `ints(seed, shape, n)` of the protocol.
pub fn ints<const N: usize>(seed: u32, shape: [usize; N], n: u32) -> Tensor {
    placed(numbers::ints(seed, shape.iter().product(), n), shape)
}

/// A tensor where programs run. One for which the device has no memory stays here: its first program says so.
pub fn placed<T: Element, const N: usize>(data: Vec<T>, shape: [usize; N]) -> Tensor {
    let here = Tensor::from_vec(data, shape);
    fulgurite_demo::device::hold(here.clone()).unwrap_or(here)
}
