//! The kernels of all rows and of the fusions, compiled by NVIDIA's compiler for several architectures.

use fulgurite::executors::cuda::device::KernelUnit;
use fulgurite::executors::cuda::device::nvrtc::{self, Usage};
use libtest_mimic::Failed;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Kernels that the compiler gets at once: most of a run is the text in front of them.
const UNIT: usize = 96;

/// What no kernel may need more of: registers (two blocks of 256 threads on a multiprocessor), bytes spilled (what calls of
/// the division of doubles save around them, of which kernels for regions of images have several), and shared memory.
const MOST_REGISTERS: usize = 128;
const MOST_SPILLED: usize = 128;
const MOST_SHARED: usize = 48 * 1024;

/// The architectures that are compiled for: Ampere's, Hopper's, and the newest that the library knows.
fn architectures() -> Result<Vec<u32>, Failed> {
    let known = nvrtc::architectures().map_err(|e| e.to_string())?;
    let newest = known.last().copied().unwrap_or(90);
    Ok([80, 90, newest].into_iter().filter(|a| known.contains(a)).collect())
}

fn units(all: &KernelUnit) -> Vec<KernelUnit> {
    let mut kernels: Vec<(&String, &String)> = all.names().iter().zip(all.texts()).collect();
    kernels.sort_by_key(|(name, _)| name.contains("_any_"));
    let unit = |chunk: &[(&String, &String)]| {
        let mut unit = KernelUnit::default();
        chunk.iter().for_each(|(name, text)| unit.add(name, text));
        unit
    };
    kernels.chunks(UNIT).map(unit).collect()
}

/// Every kernel compiles, and none needs more than a multiprocessor has for two blocks.
pub fn compile(all: &KernelUnit) -> Result<(), Failed> {
    if let Err(e) = nvrtc::present() {
        println!("skipped: {e}");
        return Ok(());
    }
    let (units, architectures) = (units(all), architectures()?);
    // general kernels are compiled for one architecture, because they are variants of the others
    let is_for = |a: u32, unit: &KernelUnit| a == 90 || !unit.names().iter().all(|name| name.contains("_any_"));
    let jobs = architectures.iter().flat_map(|a| units.iter().map(|u| (*a, u)));
    let jobs: Vec<(u32, &KernelUnit)> = jobs.filter(|(a, unit)| is_for(*a, unit)).collect();
    let next = AtomicUsize::new(0);
    let started = std::time::Instant::now();
    let work = || -> Result<Vec<(u32, Usage)>, String> {
        let mut made = Vec::new();
        while let Some((architecture, unit)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let compiled = nvrtc::compile(unit, *architecture).map_err(|e| e.to_string())?;
            if compiled.usage.len() != unit.names().len() {
                return Err(format!("{} kernels of {} are reported", compiled.usage.len(), unit.names().len()));
            }
            made.extend(compiled.usage.into_iter().map(|u| (*architecture, u)));
        }
        Ok(made)
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut usage = Vec::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            match worker.join() {
                Ok(made) => usage.extend(made?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok::<(), String>(())
    })?;
    for architecture in &architectures {
        let own: Vec<&Usage> = usage.iter().filter(|(a, _)| a == architecture).map(|(_, u)| u).collect();
        let most = own.iter().max_by_key(|u| u.registers);
        let shared = own.iter().map(|u| u.shared).max().unwrap_or(0);
        println!(
            "sm_{architecture}: {} kernels; most registers {} ({}), most shared memory {shared} bytes",
            own.len(),
            most.map_or(0, |u| u.registers),
            most.map_or("", |u| &u.kernel),
        );
    }
    println!("NVRTC {}: {:.0} s", nvrtc::version().unwrap_or(0), started.elapsed().as_secs_f64());
    let over = |u: &Usage| u.spilled > MOST_SPILLED || u.registers > MOST_REGISTERS || u.shared > MOST_SHARED;
    let faults: Vec<String> = (usage.iter().filter(|(_, u)| over(u)))
        .map(|(a, u)| {
            format!("sm_{a} {}: {} registers, {} bytes spilled, {} shared", u.kernel, u.registers, u.spilled, u.shared)
        })
        .collect();
    match faults.is_empty() {
        true => Ok(()),
        false => Err(format!("{} kernels need too much:\n{}", faults.len(), faults.join("\n")).into()),
    }
}
