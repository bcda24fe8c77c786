//! CPU tile kernels: those of the scalar builtins are written here, those of the rows by the generator.
//!
//! | module | is |
//! |---|---|
//! | [`math`] | the builtins as vectorisable scalar functions, `m::exp::<I, _>(x)` |
//! | [`tile`] | the loop of a kernel over a tile, and its forms for three instruction sets |
//! | [`builtin`] | tile kernels of the builtins, casts, reductions |
//! | [`rows`] | tile kernels of the rows of `ops.yaml` |
//! | [`abi`] | the kernel table and the instruction set of this machine |

pub mod abi;
pub mod builtin;
pub mod math;
pub mod tile;

/// The crate that generated kernels use.
#[doc(hidden)]
pub use fulgurite_core as core;

/// Kernels of the rows, written by the generator, which puts every literal in parentheses.
#[allow(unused_parens)]
pub mod rows {
    include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
}

/// The kernel tables of this crate: builtins, then rows.
pub static TABLES: [&[core::kernel::KernelEntry]; rows::ROWS.len() + 1] = {
    let mut all = [builtin::KERNELS; rows::ROWS.len() + 1];
    let mut i = 0;
    while i < rows::ROWS.len() {
        all[i + 1] = rows::ROWS[i];
        i += 1;
    }
    all
};
