//! Kernels that leave an element of their result unwritten, which debug builds notice.

use super::*;
use crate::buffer::Element;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Copies the first argument of `add`, but for the elements from `unwritten` on.
struct Copies<T> {
    unwritten: Option<usize>,
    runs: Arc<AtomicUsize>,
    of: std::marker::PhantomData<T>,
}

impl<T: Element + Send + Sync> Copies<T> {
    fn new(unwritten: Option<usize>, runs: &Arc<AtomicUsize>) -> Arc<Copies<T>> {
        Arc::new(Copies { unwritten, runs: runs.clone(), of: std::marker::PhantomData })
    }
}

impl<T: Element + Send + Sync> Executor for Copies<T> {
    fn name(&self) -> &'static str {
        "copies"
    }
    fn claim(&self, lines: &[Line]) -> Option<Claim> {
        let line = lines.first().filter(|line| line.name() == "add")?;
        let kernel = Copies::<T>::new(self.unwritten, &self.runs);
        Some(Claim::Kernel { lines: 1, inputs: line.tensors.clone(), outs: line.outs.clone(), kernel })
    }
}

impl<T: Element + Send + Sync> Kernel for Copies<T> {
    fn name(&self) -> String {
        "copies".into()
    }
    fn run(&self, inputs: &[TensorRef<'_>], outs: &mut [TensorMut<'_>]) -> Result<(), ExecError> {
        self.runs.fetch_add(1, Relaxed);
        let (Some(x), Some(y)) = (inputs[0].as_slice::<T>(), outs[0].as_slice_mut::<T>()) else {
            return Err(ExecError::new("E807", "`copies` has another dtype"));
        };
        let n = self.unwritten.unwrap_or(y.len());
        y[..n].copy_from_slice(&x[..n]);
        Ok(())
    }
}

/// The error of a program whose kernel copies `x`, and how often the kernel ran.
fn copied<T: Element + Send + Sync>(x: &[T], unwritten: Option<usize>, donated: bool) -> (Option<ExecError>, usize) {
    let (dtype, n) = (T::DTYPE, x.len());
    let text = format!("fn f(x: {dtype}[{n}]) {{ y: {dtype}[{n}] = add(x, x) return y }}");
    let trace = parse(&text);
    let runs = Arc::new(AtomicUsize::new(0));
    let program = compile_with(&trace, vec![Copies::<T>::new(unwritten, &runs), Arc::new(cpu::Cpu)], 1).unwrap();
    let x = Buffer::from_slice(x, &[n]).unwrap();
    let ran = match donated {
        true => program.run_donating(&mut [x], &[true]),
        false => program.run(&[x]),
    };
    let e = ran.err();
    if let Some(e) = &e {
        let line = trace.lines()[0].id;
        assert!(e.code == "E807" && e.line == Some(line), "{e}");
    }
    (e, runs.load(Relaxed))
}

#[test]
#[cfg(debug_assertions)]
fn an_element_that_a_kernel_does_not_write_ends_the_run_at_its_line() {
    let (e, _) = copied(&[1f32, 2.0, 3.0], Some(2), false);
    assert_eq!(e.unwrap().message, "`copies` did not write element 2 of `y`");
    for donated in [false, true] {
        assert!(copied(&[1f64; 9], Some(8), donated).0.is_some());
        assert!(copied(&[1i64; 9], Some(0), donated).0.is_some());
        assert!(copied(&[1u8; 9], Some(1), donated).0.is_some());
    }
}

/// Numbers that have the bits of the pattern by chance were written.
#[test]
fn a_number_with_the_bits_of_the_pattern_is_no_fault() {
    assert_eq!(copied(&[1f32, 2.0, 3.0], None, false), (None, 1));
    // the kernel runs again where it can't be known otherwise
    let twice = if cfg!(debug_assertions) { 2 } else { 1 };
    let signalling = f32::from_bits(0x7FA5_A5A5);
    assert_eq!(copied(&[0xA5u8, 0xA4, 7], None, false), (None, twice));
    assert_eq!(copied(&[0xA5A5_A5A5_A5A5_A5A5_u64 as i64, 1], None, false), (None, twice));
    assert_eq!(copied(&[1f32, signalling], None, false), (None, twice));
}
