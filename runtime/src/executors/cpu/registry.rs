//! The registry of tile kernels that codegen compiled from rows and builtins, by name, variant and dtype.

use super::Level;
use fulgurite_core::DType;
use fulgurite_core::builtins::Builtin;
use fulgurite_core::kernel::{KernelEntry, TileFn};
use rustc_hash::FxHashMap;
use std::sync::OnceLock;

type Key = (&'static str, &'static str, DType);

/// The kernels of all linked databases.
fn table() -> &'static FxHashMap<Key, &'static KernelEntry> {
    static TABLE: OnceLock<FxHashMap<Key, &'static KernelEntry>> = OnceLock::new();
    TABLE.get_or_init(|| crate::symbol::kernels().map(|k| ((k.symbol, k.variant, k.dtype), k)).collect())
}

/// The kernel of that name, in the best form for an instruction set.
pub fn find(symbol: &str, variant: &str, dtype: DType, isa: Level) -> Option<TileFn> {
    at(table(), (symbol, variant, dtype)).map(|entry| isa.pick(entry))
}

/// Looks up a key whose texts live shorter than those in the map.
fn at<'k>(
    table: &'k FxHashMap<(&'k str, &'k str, DType), &'static KernelEntry>,
    key: (&'k str, &'k str, DType),
) -> Option<&'k &'static KernelEntry> {
    table.get(&key)
}

/// The kernel of a builtin on arguments of `dtype`.
pub fn builtin(b: Builtin, dtype: DType, isa: Level) -> Option<TileFn> {
    variant(b, "", dtype, isa)
}

/// The kernel of a builtin whose second argument is one number for all elements, if there is such a kernel.
pub fn builtin_by(b: Builtin, dtype: DType, isa: Level) -> Option<TileFn> {
    variant(b, "by", dtype, isa)
}

fn variant(b: Builtin, variant: &str, dtype: DType, isa: Level) -> Option<TileFn> {
    let mut name = String::with_capacity(24);
    name.push_str("builtin.");
    name.push_str(b.name());
    find(&name, variant, dtype, isa)
}
