//! Kernels that take sizes as arguments: what they give is what the specialised kernels give, to the bit, and one
//! compilation serves many shapes.

use super::resident::Counting;
use fulgurite::buffer::Buffer;
use fulgurite::executors::cuda::device::Device;
use fulgurite::executors::cuda::{Cuda, Kernels};
use fulgurite::executors::{self, Claim, ExecError, Executor, JoinedPart, Kernel, Line};
use fulgurite::jit;
use fulgurite::ops::{Mean, Sum};
use fulgurite::prelude::*;
use libtest_mimic::Failed;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The executor whose kernels take their sizes as arguments.
pub const GENERAL: &str = "cuda-general";

struct General(Cuda);

impl Executor for General {
    fn name(&self) -> &'static str {
        GENERAL
    }
    fn claim(&self, lines: &[Line]) -> Option<Claim> {
        self.0.claim(lines)
    }
    fn join(&self, part: &JoinedPart<'_>) -> Result<Arc<dyn Kernel>, ExecError> {
        self.0.join(part)
    }
}

/// Registers the executor on this device.
pub fn register(device: Arc<dyn Device>) {
    executors::register(Arc::new(General(Cuda::on(device).with_kernels(Kernels::General))));
}

/// Compares results to the bit; any NaN equals any other.
pub fn same_bits(found: &[Buffer], wanted: &[Buffer]) -> Result<(), String> {
    for (i, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        if found.as_bytes() == wanted.as_bytes() {
            continue;
        }
        let (found, wanted) = (found.to_f64(), wanted.to_f64());
        let differs = |(a, b): (&f64, &f64)| a.to_bits() != b.to_bits() && !(a.is_nan() && b.is_nan());
        if let Some(at) = found.iter().zip(&wanted).position(differs) {
            let (found, wanted) = (found[at], wanted[at]);
            return Err(format!("result {i} at {at}: the general kernel gives {found:?}, the specialised {wanted:?}"));
        }
    }
    Ok(())
}

/// Several kernels a step: a product, reductions whose rows are kept in registers, gathered and broadcast elements.
fn block(x: Tensor, w: Tensor, picks: Tensor) -> Tensor {
    let rows = x.index_select(&picks, 0).softmax(-1);
    let centred = &rows - rows.mean_with(Mean { dims: [1].into(), keepdim: true });
    (centred.matmul(&w).tanh() * 0.3).sum_with(Sum { dims: [1].into(), ..d() })
}

fn inputs(n: usize, m: usize) -> (Tensor, Tensor, Tensor) {
    let ramp = |count: usize, by: f32| super::resident::ramp(count, by);
    let picks: Vec<i64> = (0..n).map(|i| (i * 5 % n) as i64).collect();
    (Tensor::from_vec(ramp(n * m, 0.1), (n, m)), Tensor::from_vec(ramp(m * 3, 0.05), (m, 3)), picks.into())
}

fn on(device: &Arc<dyn Device>, kernels: Kernels) -> Vec<Arc<dyn Executor>> {
    let cuda: Arc<dyn Executor> = Arc::new(Cuda::on(device.clone()).with_kernels(kernels));
    [cuda].into_iter().chain(executors::default()).collect()
}

/// The names of the kernels that these shapes need, compiled for each shape anew.
fn kernels_of(shapes: &[(usize, usize)], kernels: Kernels) -> Result<BTreeSet<String>, Failed> {
    let (device, counts) = Counting::made(false);
    for &(n, m) in shapes {
        let step = jit(|(x, w, picks): (Tensor, Tensor, Tensor)| block(x, w, picks)).on(on(&device, kernels));
        let found = step.call(inputs(n, m)).and_then(|y| y.to_vec::<f32>()).map_err(|e| e.to_string())?;
        let (x, w, picks) = inputs(n, m);
        super::resident::near(&found, &block(x, w, picks).to_vec::<f32>().map_err(|e| e.to_string())?)?;
    }
    Ok(counts.names())
}

/// Five shapes of one program have the kernels of the first, equal sizes or not.
pub fn shapes_share_kernels() -> Result<(), Failed> {
    let shapes = [(9, 68), (16, 100), (33, 120), (100, 100), (124, 76)];
    let first = kernels_of(&shapes[..1], Kernels::General)?;
    let all = kernels_of(&shapes, Kernels::General)?;
    if all != first {
        return Err(format!("one shape has the kernels {first:?}, five have {all:?}").into());
    }
    let specialised = kernels_of(&shapes, Kernels::Specialised)?;
    match specialised.len() >= 4 * first.len() {
        true => Ok(()),
        false => Err(format!("{} specialised kernels for five shapes, {}", specialised.len(), first.len()).into()),
    }
}

/// A program over symbolic sizes needs the compiler for its first sizes only, and has the results of fixed sizes.
pub fn symbolic_programs_share_kernels() -> Result<(), Failed> {
    let (device, counts) = Counting::made(true);
    let step = |(x, w, picks): (Tensor, Tensor, Tensor)| block(x, w, picks);
    let symbolic = jit(step).caching(Caching::Symbolic).on(on(&device, Kernels::Automatic));
    let fixed = jit(step).on(on(&device, Kernels::Specialised));
    let mut first = None;
    for n in [7, 12, 30, 31, 64, 100] {
        let found = symbolic.call(inputs(n, 80)).and_then(|y| y.to_vec::<f32>()).map_err(|e| e.to_string())?;
        let general: BTreeSet<String> = counts.names().into_iter().filter(|name| name.contains("_any_")).collect();
        if first.get_or_insert(general.clone()) != &general || general.is_empty() {
            return Err(format!("n = {n} has the kernels {general:?}, the first size {first:?}").into());
        }
        let wanted = fixed.call(inputs(n, 80)).and_then(|y| y.to_vec::<f32>()).map_err(|e| e.to_string())?;
        if found.iter().zip(&wanted).any(|(a, b)| a.to_bits() != b.to_bits()) {
            return Err(format!("n = {n} gives {found:?}, with fixed sizes {wanted:?}").into());
        }
    }
    let stats = symbolic.stats();
    match (stats.misses.len(), stats.plans) {
        (1, 5) => Ok(()),
        other => Err(format!("compilations and plans: {other:?}").into()),
    }
}

/// A program over symbolic sizes that was called a thousand times with the same sizes has specialised kernels, recorded
/// anew, and the same results.
pub fn frequent_sizes_are_specialised() -> Result<(), Failed> {
    for records in [false, true] {
        let (device, counts) = Counting::made(records);
        let step = jit(|x: Tensor| (&x * 3.5).tanh()).caching(Caching::Symbolic).on(on(&device, Kernels::Automatic));
        let x = fulgurite::to_device(&Tensor::from_vec(super::resident::ramp(20, 0.1), (4, 5)), "host");
        let x = x.map_err(|e| e.to_string())?;
        let mut results: BTreeSet<Vec<u32>> = BTreeSet::new();
        for call in 0..1010 {
            let y = step.call(x.clone()).and_then(|y| y.to_vec::<f32>()).map_err(|e| e.to_string())?;
            results.insert(y.into_iter().map(f32::to_bits).collect());
            let specialised = counts.names().iter().any(|name| !name.contains("_any_"));
            if specialised != (call >= 1000) {
                return Err(format!("specialised kernels in call {call}: {specialised}").into());
            }
        }
        if results.len() != 1 {
            return Err(format!("{} different results", results.len()).into());
        }
    }
    Ok(())
}

/// Calls with other numbers share kernels too, because constants are arguments.
pub fn constants_are_arguments() -> Result<(), Failed> {
    let (device, counts) = Counting::made(false);
    for by in [0.3, 0.7, -4.0] {
        let step = jit(move |x: Tensor| (&x * by).sum()).on(on(&device, Kernels::General));
        let data = super::resident::ramp(50, 0.1);
        let found = step.call(Tensor::from(data.clone())).and_then(|y| y.item::<f32>()).map_err(|e| e.to_string())?;
        let wanted: f64 = data.iter().map(|x| f64::from(*x) * by).sum();
        if (f64::from(found) - wanted).abs() > 1e-4 {
            return Err(format!("{found} is not {wanted}").into());
        }
    }
    match counts.names().len() {
        1 => Ok(()),
        other => Err(format!("{other} kernels").into()),
    }
}

/// All tests, with names.
pub const ALL: &[(&str, super::resident::Test)] = &[
    ("general::shapes_share_kernels", shapes_share_kernels),
    ("general::symbolic_programs_share_kernels", symbolic_programs_share_kernels),
    ("general::frequent_sizes_are_specialised", frequent_sizes_are_specialised),
    ("general::constants_are_arguments", constants_are_arguments),
];
