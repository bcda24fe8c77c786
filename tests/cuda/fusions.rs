//! Fusions of several lines: random programs, and a training step of a small transformer.

use fulgurite_tests::programs::{compare, compile, random};
use libtest_mimic::Failed;

/// Random programs.
const PROGRAMS: u64 = 150;

/// Sizes for threads, warps and blocks of threads, with and without packs.
const SIZES: [usize; 8] = [1, 2, 3, 5, 8, 33, 40, 128];

/// Makes all programs, so that the device knows their kernels.
pub fn announce() -> Result<(), Failed> {
    for seed in 0..PROGRAMS {
        let (trace, _) = random(seed, &SIZES).map_err(|e| e.to_string())?;
        compile(&trace, "cuda").map_err(|e| format!("seed {seed}: {e}\n{trace}"))?;
    }
    Ok(())
}

/// What the fused kernels give is what the interpreter gives line by line.
pub fn check() -> Result<(), Failed> {
    let failed: Vec<String> = (0..PROGRAMS).filter_map(|seed| compare(seed, &SIZES, "cuda").err()).collect();
    match failed.first() {
        None => Ok(()),
        Some(first) => Err(format!("{} of {PROGRAMS} programs differ; the first:\n{first}", failed.len()).into()),
    }
}
