//! Adds up gradients over micro-batches.

use fulgurite_runtime::Error;
use fulgurite_runtime::jit::{Jit, jit};
use fulgurite_runtime::tensor::Tensor;
use std::collections::BTreeMap;

/// The order in which the gradients of micro-batches are added.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Accumulate {
    /// Gradients are added as they arrive. None is held back, but schedules that run backwards in another order round
    /// differently.
    #[default]
    Arrival,
    /// Gradients are added by the number of the micro-batch, so every schedule gives equal bits. A gradient that
    /// arrives early is held back.
    ByMicroBatch,
}

type Two = fn(Tensor, Tensor) -> Tensor;

/// Addition and division, compiled once per type.
pub(super) struct Arithmetic {
    add: Jit<Two>,
    scale: Jit<Two>,
}

impl Default for Arithmetic {
    fn default() -> Arithmetic {
        let (add, scale): (Two, Two) = (|a, b| a + b, |a, b| a * b);
        Arithmetic { add: jit(add).named("accumulate"), scale: jit(scale).named("scale") }
    }
}

impl Arithmetic {
    pub fn add(&self, a: Tensor, b: Tensor) -> Result<Tensor, Error> {
        self.add.call((a, b))
    }

    pub fn mean(&self, a: Tensor, n: usize) -> Result<Tensor, Error> {
        self.scale.call((a, Tensor::from(1.0 / n as f64)))
    }
}

/// The sums of one stage's gradients.
#[derive(Default)]
pub(super) struct Sums {
    order: Accumulate,
    /// One sum per parameter.
    sums: Vec<Sum>,
}

#[derive(Clone, Default)]
struct Sum {
    value: Option<Tensor>,
    /// The micro-batch that is added next.
    next: usize,
    /// Gradients that arrived before their turn.
    early: BTreeMap<usize, Option<Tensor>>,
}

impl Sums {
    pub fn new(params: usize, order: Accumulate) -> Sums {
        Sums { order, sums: vec![Sum::default(); params] }
    }

    /// Adds the gradient of a micro-batch by a parameter; `None` stands for zero.
    pub fn add(
        &mut self,
        with: &Arithmetic,
        param: usize,
        micro_batch: usize,
        grad: Option<Tensor>,
    ) -> Result<(), Error> {
        let order = self.order;
        let sum = &mut self.sums[param];
        if order == Accumulate::Arrival {
            return sum.take(with, grad);
        }
        sum.early.insert(micro_batch, grad);
        while let Some(grad) = sum.early.remove(&sum.next) {
            sum.take(with, grad)?;
            sum.next += 1;
        }
        Ok(())
    }

    /// The sums so far.
    pub fn values(&self) -> Vec<Option<Tensor>> {
        self.sums.iter().map(|s| s.value.clone()).collect()
    }

    /// Takes the sums out.
    pub fn take(&mut self) -> Vec<Option<Tensor>> {
        self.sums.iter_mut().map(|s| s.value.take()).collect()
    }
}

impl Sum {
    fn take(&mut self, with: &Arithmetic, grad: Option<Tensor>) -> Result<(), Error> {
        let Some(grad) = grad else { return Ok(()) };
        self.value = Some(match self.value.take() {
            Some(value) => with.add(value, grad)?,
            None => grad,
        });
        Ok(())
    }
}
