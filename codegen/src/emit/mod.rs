//! Emission: from checked rows to the text of symbols, user functions, CPU kernels, CUDA C and the table of properties.
//!
//! One unit per row and product, formatted, each item stamped with the row's place. The same rows give the same bytes:
//! no dates, no paths, no hash order.

pub mod api;
pub mod cpu;
pub mod cuda;
pub mod names;
pub mod scalar;
pub mod symbols;
pub mod variants;

use fulgurite_core::Name;
use fulgurite_core::row::Row;
use std::path::Path;
use std::sync::Arc;

/// A row ready to be emitted.
#[derive(Clone)]
pub struct Emitted {
    /// The row, with its derived rules.
    pub row: Arc<Row>,
    /// One sentence.
    pub doc: String,
    /// The database file, as diagnostics name it.
    pub file: String,
    /// The line of `op:`; a derived row has that of its origin.
    pub line: u32,
    /// The row that it was derived from.
    pub derived_from: Option<Name>,
    /// PyTorch names.
    pub aliases: Vec<String>,
}

/// A file to be written below the output folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its path, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// Everything that is emitted from one database.
#[derive(Clone, Debug, Default)]
pub struct Artifacts {
    /// Units for the crate that exports the database.
    pub database: Vec<Unit>,
    /// Units for the crate with the kernels.
    pub kernels: Vec<Unit>,
    /// CUDA C.
    pub cuda: Vec<Unit>,
}

impl Artifacts {
    /// Emits `rows` as the database of crate `krate`.
    pub fn emit(krate: &str, rows: &[Emitted], resolve: &dyn fulgurite_core::lower::Rows) -> Artifacts {
        let mut out = Artifacts::default();
        let (mut symbols, mut functions, mut methods, mut kernels) = (vec![], vec![], vec![], vec![]);
        for row in rows {
            let stem = names::stem(row.row.op);
            let api = api::Api::of(row);
            let mut text = names::head(&row.file);
            text += &symbols::unit(krate, row);
            if let Some(api) = &api {
                text += &api.function(row);
                functions.push(api.export(row));
                if let Some((declaration, definition)) = api.method(row) {
                    methods.push((declaration, definition));
                }
            }
            symbols.push(names::constant(row.row.op));
            out.database.push(Unit { path: format!("rows/{stem}.rs"), text });
            let kernel = cpu::unit(row, resolve);
            if let Some((text, entries)) = kernel {
                out.kernels.push(Unit { path: format!("kernels/{stem}.rs"), text });
                kernels.push((stem.clone(), entries));
            }
            if let Some(text) = cuda::unit(row, resolve) {
                out.cuda.push(Unit { path: format!("cuda/{stem}.cu"), text });
            }
        }
        out.database.push(symbols::index(krate, rows, &symbols, &functions, &methods));
        out.kernels.push(cpu::index(&kernels));
        out
    }

    /// Writes the units whose bytes differ from what is there, each atomically; removes units of rows that are gone.
    ///
    /// # Errors
    /// What the file system reports.
    pub fn write(units: &[Unit], folder: &Path) -> std::io::Result<()> {
        let mut kept = std::collections::HashSet::new();
        for unit in units {
            let path = folder.join(&unit.path);
            kept.insert(path.clone());
            if std::fs::read(&path).is_ok_and(|old| old == unit.text.as_bytes()) {
                continue;
            }
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            let fresh = path.with_extension("fresh");
            std::fs::write(&fresh, &unit.text)?;
            std::fs::rename(&fresh, &path)?;
        }
        let parents: std::collections::HashSet<_> = kept.iter().filter_map(|p| p.parent().map(Path::to_owned)).collect();
        for parent in parents.iter().filter(|p| p.as_path() != folder) {
            for entry in std::fs::read_dir(parent)? {
                let path = entry?.path();
                if path.is_file() && !kept.contains(&path) {
                    std::fs::remove_file(path)?;
                }
            }
        }
        Ok(())
    }
}
