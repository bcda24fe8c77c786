//! `cargo ops list --sizes`: the size of the code generated for each row.

use std::collections::HashMap;
use std::io::Write;

use fulgurite_codegen::emit::{Artifacts, DatabaseParts, Target, Unit, names};
use fulgurite_codegen::pipeline;
use fulgurite_core::Name;
use serde_json::json;

use super::load::Loaded;
use super::paint::Paint;
use super::{Common, FINE, Outcome};

/// Bytes: symbol and functions, CPU kernels.
#[derive(Clone, Copy, Default)]
struct Sizes([usize; 2]);

impl Sizes {
    fn total(self) -> usize {
        self.0.iter().sum()
    }

    fn add(&mut self, other: Sizes) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a += b);
    }
}

pub(super) fn list(loaded: &Loaded, common: &Common, paint: &Paint, out: &mut dyn Write) -> Outcome {
    let rows = of_rows(loaded);
    let mut all = Sizes::default();
    rows.iter().for_each(|(_, sizes)| all.add(*sizes));
    let widest = rows.iter().map(|(op, _)| op.as_str().len()).max().unwrap_or(0).max("total".len());
    let numbers = |Sizes([symbols, kernels]): Sizes| format!("{symbols:>9} {kernels:>9}");
    if !common.json {
        let head = format!("{:widest$}  {:>9} {:>9}", "bytes of", "symbols", "kernels");
        writeln!(out, "{}", paint.faint(&head))?;
    }
    for (op, sizes) in &rows {
        let Sizes([symbols, kernels]) = *sizes;
        if common.json {
            writeln!(out, "{}", json!({"v": 1, "op": op.as_str(), "symbols": symbols, "kernels": kernels}))?;
        } else {
            writeln!(out, "{}  {}", paint.verb(&format!("{:widest$}", op.as_str())), numbers(*sizes))?;
        }
    }
    if !common.json {
        writeln!(out, "{:widest$}  {}", "total", numbers(all))?;
    }
    Ok(FINE)
}

/// The sizes of each row of the file, with its derived rows; the largest first.
fn of_rows(loaded: &Loaded) -> Vec<(Name, Sizes)> {
    let mut table = loaded.table();
    let rows = pipeline::with_derived(&loaded.database, &loaded.checked.rows, &table, &loaded.sources);
    rows.iter().for_each(|row| table.insert(row.row.clone()));
    let made = Artifacts::emit(
        &Target::upstream("fulgurite"),
        &rows,
        &DatabaseParts { classes: &[], calls: &[], sources: &loaded.sources, reached: &[] },
        &table,
    );
    let bytes = |units: &[Unit]| -> HashMap<String, usize> {
        let stem = |path: &str| path.rsplit('/').next().and_then(|file| file.split('.').next()).map(str::to_owned);
        units.iter().filter_map(|unit| Some((stem(&unit.path)?, unit.text.len()))).collect()
    };
    let products = [bytes(&made.database), bytes(&made.kernels)];
    let mut sizes: Vec<(Name, Sizes)> = Vec::new();
    for row in &rows {
        let stem = names::stem(row.row.op);
        let own = Sizes(products.each_ref().map(|product| product.get(&stem).copied().unwrap_or(0)));
        let op = row.derived_from.unwrap_or(row.row.op);
        // derived rows follow their row
        match sizes.last_mut() {
            Some((last, sum)) if *last == op => sum.add(own),
            _ => sizes.push((op, own)),
        }
    }
    sizes.sort_by_key(|(_, sizes)| std::cmp::Reverse(sizes.total()));
    sizes
}
