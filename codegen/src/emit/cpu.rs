//! CPU tile kernels: the expression of a pointwise row as one pass over a tile, in three instruction sets.

use super::scalar::{Printer, type_name};
use super::variants::{Variant, variants};
use super::{Emitted, Target, Unit, names};
use fulgurite_core::DType;
use fulgurite_core::lower::Rows;
use std::fmt::Write;

/// The dtypes for which rows get kernels of their own; rows of other dtypes run as builtin tiles.
const DTYPES: [DType; 1] = [DType::F32];

/// The kernels of a row and the number of their entries; `None` if the row needs no kernel of its
/// own.
pub fn unit(row: &Emitted, target: &Target, rows: &dyn Rows) -> Option<(String, usize)> {
    let mut text = names::head(&row.file);
    let kernels = target.kernels;
    let _ = write!(
        text,
        "use {kernels}::core::DType;\nuse {kernels}::core::kernel::KernelEntry;\nuse {kernels}::math as m;\nuse {kernels}::math::Isa;\nuse {kernels}::tile::{{self, CHUNK, Step, Tile}};\n\n"
    );
    let mut entries = String::new();
    let mut count = 0;
    for dtype in DTYPES {
        for variant in variants(row, rows, dtype) {
            let name = format!("K{count}");
            let Some(kernel) = kernel(row, &variant, &name) else { continue };
            text += &kernel;
            let _ = writeln!(
                entries,
                "    KernelEntry {{\n        symbol: {:?},\n        variant: {:?},\n        dtype: DType::{:?},\n        baseline: {name}::baseline,\n        avx2: tile::avx2_of::<{name}>(),\n        avx512: tile::avx512_of::<{name}>(),\n    }},",
                row.row.op.as_str(),
                variant.name,
                dtype
            );
            count += 1;
        }
    }
    if count == 0 {
        return None;
    }
    let _ =
        write!(text, "/// Kernels of `{}`.\npub static ENTRIES: [KernelEntry; {count}] = [\n{entries}];\n", row.row.op);
    Some((text, count))
}

fn kernel(row: &Emitted, v: &Variant, name: &str) -> Option<String> {
    let roots: Vec<_> = v.nest.outs.iter().map(|o| &o.expr).collect();
    let mut printer = Printer::new("                ", &roots);
    let mut results = Vec::new();
    for root in &roots {
        results.push(printer.expr(root).ok()?);
    }
    let outputs: Vec<DType> = roots.iter().map(|r| r.ty()).collect();
    let sizes = |dtypes: &[DType]| dtypes.iter().map(|d| d.size().to_string()).collect::<Vec<_>>().join(", ");
    let mut text = names::stamp(&row.file, row.line, &format!("{} [{}] {}", row.row.op, v.name, v.dtype));
    let _ = writeln!(
        text,
        "/// `{}`{} on {}.\nstruct {name};\n",
        row.row.op,
        if v.name.is_empty() { String::new() } else { format!(" ({})", v.name) },
        v.dtype
    );
    let _ = writeln!(
        text,
        "impl Tile for {name} {{\n    #[inline(always)]\n    unsafe fn run<I: Isa>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {{\n        // SAFETY: the caller's promise.\n        unsafe {{ tile::steps::<I, {name}>(n, ins, outs, nums) }}\n    }}\n}}\n"
    );
    let _ = writeln!(
        text,
        "impl Step for {name} {{\n    const SIZES: tile::Sizes = tile::Sizes {{ ins: &[{}], outs: &[{}] }};\n\n    #[inline(always)]\n    #[allow(unused_variables, clippy::all)]\n    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {{\n        // SAFETY: the caller's promise: inputs, outputs and numbers are those of the row.\n        unsafe {{",
        sizes(&v.inputs),
        sizes(&outputs)
    );
    for k in 0..v.numbers {
        let _ = writeln!(text, "            let n{k} = f64::from_bits(*nums.add({k}));");
    }
    for (i, d) in v.inputs.iter().enumerate() {
        let _ = writeln!(text, "            let in{i}: [{}; CHUNK] = tile::load(ins, {i}, at, len);", type_name(*d));
    }
    for (i, root) in roots.iter().enumerate() {
        let _ = writeln!(text, "            let mut out{i} = [{}::default(); CHUNK];", type_name(root.ty()));
    }
    text += "            for j in 0..CHUNK {\n";
    for i in 0..v.inputs.len() {
        let _ = writeln!(text, "                let x{i} = in{i}[j];");
    }
    text += printer.statements();
    for (i, r) in results.iter().enumerate() {
        let _ = writeln!(text, "                out{i}[j] = {r};");
    }
    text += "            }\n";
    for i in 0..roots.len() {
        let _ = writeln!(text, "            tile::store(outs, {i}, at, len, out{i});");
    }
    text += "        }\n    }\n}\n\n";
    Some(text)
}

/// The module that includes all kernel units and joins their entries.
pub fn index(target: &Target, kernels: &[(String, usize)]) -> Unit {
    let mut text = String::from("// Made by the generator; do not edit.\n\n");
    for (stem, _) in kernels {
        let _ = writeln!(text, "#[allow(non_snake_case)]\nmod {stem} {{\n    include!(\"kernels/{stem}.rs\");\n}}");
    }
    let _ = writeln!(
        text,
        "\n/// The kernels of all rows, a slice per row.\npub static ROWS: [&[{}::core::kernel::KernelEntry]; {}] = [",
        target.kernels,
        kernels.len()
    );
    for (stem, _) in kernels {
        let _ = writeln!(text, "    &{stem}::ENTRIES,");
    }
    text += "];\n";
    Unit { path: "kernels.rs".into(), text }
}
