//! The instruction set that runs, and look-ups in kernel tables.

pub use crate::math::Level;
use fulgurite_core::kernel::{KernelEntry, TileFn};

use std::sync::OnceLock;

impl Level {
    /// Every level, weakest first.
    pub const ALL: [Level; 3] = [Level::Baseline, Level::Avx2, Level::Avx512];

    /// The name in `FULGURITE_ISA`.
    pub fn name(self) -> &'static str {
        match self {
            Level::Baseline => "baseline",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        }
    }

    /// The level with this name.
    pub fn from_name(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|l| l.name() == name)
    }

    /// The highest level of this CPU.
    pub fn detect() -> Level {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 =
                is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512bw");
            match (avx2, avx512) {
                (true, true) => Level::Avx512,
                (true, false) => Level::Avx2,
                _ => Level::Baseline,
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        Level::Baseline
    }

    /// The level at which kernels run: that of the CPU, or a lower one if the environment variable `FULGURITE_ISA`
    /// requests it (`baseline`, `avx2`, `avx512`; other values are ignored). It is decided once per process.
    pub fn current() -> Level {
        static CURRENT: OnceLock<Level> = OnceLock::new();
        *CURRENT.get_or_init(|| {
            let asked = std::env::var("FULGURITE_ISA").ok().and_then(|name| Level::from_name(&name));
            asked.map_or(Level::detect(), |asked| asked.min(Level::detect()))
        })
    }

    /// The form of `entry` for this level: the strongest one up to it.
    pub fn pick(self, entry: &KernelEntry) -> TileFn {
        let avx512 = entry.avx512.filter(|_| self >= Level::Avx512);
        avx512.or(entry.avx2.filter(|_| self >= Level::Avx2)).unwrap_or(entry.baseline)
    }
}
