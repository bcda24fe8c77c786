//! The step of a product of f32 that computes the terms outside of windows as zeros.

use super::prepared::KeptProduct;
use crate::executors::cpu::product::Literal;
use crate::executors::program::host_step::{Fault, HostStep, Memory, Stopped};

/// The facts that the step reports about its product.
pub struct ProductFacts {
    /// The values of the operands and the result.
    pub values: [u32; 3],
    /// The number of products of matrices, and the rows, columns and summed elements of each.
    pub sizes: [usize; 4],
    /// The numbers that one product reads and writes.
    pub moved: usize,
    /// The estimated nanoseconds on one thread.
    pub cost: f64,
    /// The part of a description that follows the word `over`.
    pub over: &'static str,
}

/// A way to compute a product.
pub trait Method: Send + Sync {
    /// The facts about the product.
    fn facts(&self) -> ProductFacts;

    /// Lets every element add up its terms in their order, so that two ways to compute the product have the same bits.
    fn sum_in_order(&mut self) {}

    /// Computes the product, with zeros for elements outside of windows. Returns whether all of it
    /// is finite.
    ///
    /// # Safety
    /// The storages of `operands` are valid memory of the two operands and of the result, which overlaps neither.
    unsafe fn multiply(&self, operands: Memory, threads: usize) -> Result<bool, Fault>;
}

/// The step.
pub struct LineStep<M> {
    method: M,
    facts: ProductFacts,
    /// The loops that run instead if an operand is not finite.
    exact: Option<Box<Literal>>,
    /// The product that runs instead while there is a prepared copy of an operand.
    kept: Option<KeptProduct>,
}

impl<M: Method> LineStep<M> {
    /// The step of a product, with the loops of the exact sum if the product leaves out its conditions.
    pub fn new(method: M, exact: Option<Box<Literal>>) -> LineStep<M> {
        LineStep { facts: method.facts(), method, exact, kept: None }
    }

    /// The step, with the product of prepared copies of an operand.
    pub(super) fn with_kept(self, kept: Option<KeptProduct>) -> LineStep<M> {
        LineStep { kept, ..self }
    }
}

impl<M: Method> HostStep for LineStep<M> {
    fn touches(&self) -> Vec<u32> {
        self.facts.values.into_iter().chain(self.exact.iter().flat_map(|e| e.touches())).collect()
    }

    fn may_stop(&self) -> bool {
        self.exact.as_ref().is_some_and(|e| e.sum.may_stop())
    }

    fn remap(&mut self, storage: &dyn Fn(u32) -> u32) {
        self.facts.values = self.facts.values.map(storage);
        self.exact.iter_mut().for_each(|e| e.remap(storage));
        self.kept.iter_mut().for_each(|k| k.remap(storage));
    }

    fn keeps(&self) -> Option<(u32, usize)> {
        self.kept.as_ref().map(|k| k.keeps())
    }

    fn keep(&mut self, storage: u32) {
        self.method.sum_in_order();
        self.kept.iter_mut().for_each(|k| k.keep(storage));
    }

    unsafe fn prepare(&self, memory: Memory, threads: usize) {
        if let Some(kept) = &self.kept {
            // SAFETY: the caller upholds the contract of this function.
            unsafe { kept.prepare(memory, threads) };
        }
    }

    unsafe fn run(&self, memory: Memory, sizes: &[usize], _: *mut u8, threads: usize) -> Result<(), Stopped> {
        let operands = self.facts.values.map(|v| memory.at(v));
        // SAFETY: the caller upholds the contract of this function.
        unsafe {
            let finite = match self.kept.as_ref().and_then(|k| k.multiply(memory, threads)) {
                Some(done) => done?,
                None => self.method.multiply(Memory(&operands), threads)?,
            };
            // A factor that is not finite makes a result that is not, so finite results are those of the sum.
            if let Some(exact) = self.exact.as_ref().filter(|_| !finite) {
                exact.run_unless_finite(memory, sizes, threads)?;
            }
        }
        Ok(())
    }

    fn cost(&self) -> f64 {
        self.facts.cost
    }

    fn flops(&self) -> f64 {
        2.0 * self.facts.sizes.into_iter().product::<usize>() as f64
    }

    fn traffic(&self) -> usize {
        self.facts.sizes[0] * self.facts.moved * size_of::<f32>()
    }

    fn describe(&self) -> String {
        let [around, rows, columns, depth] = self.facts.sizes;
        let times = if around > 1 { format!("{around} times ") } else { String::new() };
        format!("{times}product {rows}x{columns}x{depth} f32 over {}", self.facts.over)
    }
}
