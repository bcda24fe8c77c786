//! Emission: from checked rows to the text of symbols, user functions, CPU kernels and the table of properties.
//!
//! There is one unit per row and product, formatted, and each item is stamped with the row's place. Equal rows give
//! equal bytes: units contain no dates, paths or hash order.

pub mod api;
pub mod cpu;
pub mod examples;
pub mod names;
pub mod scalar;
pub mod subclasses;
pub mod symbols;
pub mod variants;

use crate::schema::{Calls, ClassSource};
use crate::source::Sources;
use fulgurite_core::row::Row;
use fulgurite_core::{Name, files};
use std::path::Path;
use std::sync::Arc;

/// A row ready to be emitted.
#[derive(Clone)]
pub struct Emitted {
    /// The row, with its derived rules.
    pub row: Arc<Row>,
    /// The documentation, one sentence.
    pub doc: String,
    /// The first point that stands in the row, as it is written.
    pub point: Option<String>,
    /// A call with its results, for the documentation; [`crate::pipeline::Compiled::add_examples`] finds it.
    pub example: Option<examples::CallExample>,
    /// The database file, as diagnostics name it.
    pub file: String,
    /// The line of `op:`; a derived row has that of its origin.
    pub line: u32,
    /// The row from which this one was derived.
    pub derived_from: Option<Name>,
    /// Rules by tensor subclass.
    pub subclass: Vec<(String, String)>,
    /// Names or call forms by library, as the row lists them.
    pub aliases: Vec<(&'static str, String)>,
    /// Handwritten kernels by executor.
    pub kernels: Vec<(String, String)>,
}

/// A file to be written below the output folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The path of the file below the output folder, with `/`.
    pub path: String,
    /// The text of the file.
    pub text: String,
}

/// Everything that is emitted from one database.
#[derive(Clone, Debug, Default)]
pub struct Artifacts {
    /// Units for the crate that exports the database.
    pub database: Vec<Unit>,
    /// Units for the crate with the kernels.
    pub kernels: Vec<Unit>,
}

/// The crate for which code is made, and the paths of its dependencies.
#[derive(Clone, Debug)]
pub struct Target {
    /// The crate, as symbols name it.
    pub krate: String,
    /// The path of the runtime.
    pub runtime: &'static str,
    /// The path of the crate with the vector functions.
    pub kernels: &'static str,
    /// The expression for the crate's kernel tables.
    pub tables: &'static str,
    /// The name of the extension trait, which lets upstream and downstream methods coexist.
    pub methods: String,
    /// The page on which each row has a section, for a crate that has such a page; its rows get examples too.
    pub page: Option<&'static str>,
}

impl Target {
    /// The target of the project's own database, whose kernels are in a crate of their own.
    pub fn upstream(krate: &str) -> Target {
        Target {
            krate: krate.into(),
            runtime: "crate::__runtime",
            kernels: "::fulgurite_kernels",
            tables: "&fulgurite_row_kernels::TABLES",
            methods: "TensorOps".into(),
            page: Some("https://github.com/fulgurite/fulgurite/blob/main/docs/operators.md"),
        }
    }

    /// The target of a crate that uses `fulgurite`.
    pub fn downstream(krate: &str) -> Target {
        let methods = names::camel(&krate.replace('-', "_")) + "Ops";
        Target {
            krate: krate.into(),
            runtime: "::fulgurite::__runtime",
            kernels: "::fulgurite::__kernels",
            tables: "&kernels::ROWS",
            methods,
            page: None,
        }
    }
}

/// The parts of a database beside its rows.
pub struct DatabaseParts<'a> {
    /// The tensor subclasses in file order.
    pub classes: &'a [ClassSource],
    /// Other libraries' calls of upstream rows.
    pub calls: &'a [Calls],
    /// The sources for their places.
    pub sources: &'a Sources,
    /// Upstream rows whose kernels the crate holds too.
    pub reached: &'a [Emitted],
}

impl Artifacts {
    /// Emits `rows` as the database of a crate.
    pub fn emit(
        target: &Target,
        rows: &[Emitted],
        parts: &DatabaseParts<'_>,
        resolve: &dyn fulgurite_core::lower::Rows,
    ) -> Artifacts {
        let mut out = Artifacts::default();
        let (mut symbols, mut functions, mut methods) = (vec![], vec![], vec![]);
        for row in rows {
            let stem = names::stem(row.row.op);
            let api = api::Api::of(row);
            let mut text = names::head(&row.file);
            text += &symbols::unit(&target.krate, row);
            if let Some(api) = &api {
                text += &api.function(row, target);
                functions.push(api.export(row));
                if let Some((declaration, definition)) = api.method(row, target) {
                    methods.push((declaration, definition));
                }
            }
            symbols.push(names::constant(row.row.op));
            out.database.push(Unit { path: format!("rows/{stem}.rs"), text });
        }
        let mut kernels = Vec::new();
        for row in rows.iter().chain(parts.reached) {
            if let Some((text, entries)) = cpu::unit(row, target, resolve) {
                let stem = names::stem(row.row.op);
                out.kernels.push(Unit { path: format!("kernels/{stem}.rs"), text });
                kernels.push((stem, entries));
            }
        }
        if !parts.classes.is_empty() {
            let units = parts.classes.iter().map(|class| subclasses::unit(target, class, parts.sources));
            out.database.push(Unit { path: "classes.rs".into(), text: units.collect() });
        }
        let names: Vec<String> = parts.classes.iter().map(|class| subclasses::constant(class.name())).collect();
        out.database.push(symbols::index(target, rows, parts.calls, &symbols, &functions, &methods, &names));
        out.kernels.push(cpu::index(target, &kernels));
        out
    }

    /// All units as one text: the database with its included units, and the kernels in a module `kernels`.
    pub fn inline(&self) -> String {
        let index = |units: &[Unit], path: &str| {
            units.iter().find(|u| u.path == path).map(|u| u.text.clone()).unwrap_or_default()
        };
        let mut database = index(&self.database, "database.rs");
        let mut kernels = index(&self.kernels, "kernels.rs");
        for (text, units) in [(&mut database, &self.database), (&mut kernels, &self.kernels)] {
            for unit in units {
                *text = text.replace(&format!("include!(\"{}\");", unit.path), &unit.text);
            }
        }
        format!("{database}\nmod kernels {{\n{kernels}}}\n")
    }

    /// Writes the units that differ from the existing files, each atomically; removes units of deleted rows.
    ///
    /// # Errors
    /// The error of the file system.
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
            files::refresh(&path, &unit.text)?;
        }
        let parents: std::collections::HashSet<_> =
            kept.iter().filter_map(|p| p.parent().map(Path::to_owned)).collect();
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
