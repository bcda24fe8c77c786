//! Tile kernels of the rows of `ops.yaml`, from the generator.

use fulgurite_kernels::core::kernel::KernelEntry;

/// The kernels, which have every literal in parentheses.
#[cfg(feature = "rows")]
#[allow(unused_parens)]
pub mod rows {
    include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
}

/// No kernels.
#[cfg(not(feature = "rows"))]
pub mod rows {
    /// A crate that leaves out the kernels of all rows has those of the rows that it reaches.
    pub static ROWS: [&[super::KernelEntry]; 0] = [];
}

/// The kernel tables: builtins, then rows.
pub static TABLES: [&[KernelEntry]; rows::ROWS.len() + 1] = {
    let mut all = [fulgurite_kernels::builtin::KERNELS; rows::ROWS.len() + 1];
    let mut i = 0;
    while i < rows::ROWS.len() {
        all[i + 1] = rows::ROWS[i];
        i += 1;
    }
    all
};
