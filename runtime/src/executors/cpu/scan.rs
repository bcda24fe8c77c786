//! Scans: reduce every prefix (or suffix) along the last axis.

use crate::executors::fusion::fuse::Form;
use crate::executors::fusion::graph::ValueId;
use crate::executors::fusion::graph::piece::{Scan, Values};
use crate::executors::program::host_step::{HostStep, Memory, Stopped};
use crate::executors::program::threads;
use fulgurite_core::DType;
use fulgurite_core::lang::ast::Red;
use fulgurite_kernels::math::CastTo;
use fulgurite_kernels::reduce::{Fold, Reducible};
use fulgurite_kernels::{with_fold, with_register};

/// A compiled scan.
#[derive(Clone, Debug)]
pub struct ScanStep {
    /// The scanned value and the result: dense values (later storages).
    pub values: [u32; 2],
    /// The element at index 0 of the input.
    offset: isize,
    dtype: DType,
    red: Red,
    reverse: bool,
    exclusive: bool,
    /// The sizes and input strides of the axes before the last.
    outer: Vec<(usize, isize)>,
    /// The length and input stride of the last axis.
    last: (usize, isize),
}

impl ScanStep {
    /// Compiles a scan, whose result is dense.
    pub fn new(s: &Scan, values: &Values, form: &dyn Fn(ValueId) -> Form) -> ScanStep {
        let (ty, input) = (values.ty(s.input).clone(), form(s.input));
        let mut outer: Vec<(usize, isize)> =
            ty.shape.iter().copied().zip(input.strides.iter().map(|s| *s as isize)).collect();
        let last = outer.pop().unwrap_or((1, 0));
        ScanStep {
            values: [input.root, s.out],
            offset: input.offset as isize,
            dtype: ty.dtype,
            red: s.red,
            reverse: s.reverse,
            exclusive: s.exclusive,
            outer,
            last,
        }
    }

    fn lines(&self) -> usize {
        self.outer.iter().map(|o| o.0).product()
    }

    /// Scans one line.
    ///
    /// # Safety
    /// From `from` on, `last.0` elements with stride `last.1`, and from `to` on as many contiguous elements, lie in
    /// storages of dtype `T`; no other thread writes to the second.
    unsafe fn line<T: Reducible, F: Fold>(&self, from: *const T, to: *mut T) {
        let (n, stride) = self.last;
        let mut acc = F::start::<T::Acc>();
        for j in 0..n {
            let i = if self.reverse { n - 1 - j } else { j };
            // SAFETY: the caller upholds the contract of this function.
            unsafe {
                let x = from.offset(i as isize * stride).read().cast().cast();
                if self.exclusive {
                    to.add(i).write(acc.cast());
                }
                acc = F::step(acc, x);
                if !self.exclusive {
                    to.add(i).write(acc.cast());
                }
            }
        }
    }
}

impl HostStep for ScanStep {
    fn touches(&self) -> Vec<u32> {
        self.values.to_vec()
    }

    fn remap(&mut self, storage: &dyn Fn(u32) -> u32) {
        self.values.iter_mut().for_each(|v| *v = storage(*v));
    }

    unsafe fn run(&self, memory: Memory, _: &[usize], _: *mut u8, threads: usize) -> Result<(), Stopped> {
        threads::share(self.lines(), threads, self.cost(), &|claims| {
            for line in claims.flatten() {
                let (mut at, mut rest) = (self.offset, line);
                for (n, stride) in self.outer.iter().rev() {
                    at += (rest % n) as isize * stride;
                    rest /= n;
                }
                // SAFETY: the caller upholds the contract; lines are disjoint.
                with_fold!(self.red, F => with_register!(self.dtype, T => unsafe {
                    let from = (memory.at(self.values[0]) as *const T).offset(at);
                    let to = (memory.at(self.values[1]) as *mut T).add(line * self.last.0);
                    self.line::<T, F>(from, to)
                }));
            }
        });
        Ok(())
    }

    fn cost(&self) -> f64 {
        50.0 + 1.5 * (self.last.0 * self.lines()) as f64
    }

    fn traffic(&self) -> usize {
        2 * self.last.0 * self.lines() * self.dtype.size()
    }

    fn describe(&self) -> String {
        let way = if self.reverse { "suffixes" } else { "prefixes" };
        format!("scan of {way}, {} lines of {} {}", self.lines(), self.last.0, self.dtype)
    }
}
