//! The pipeline of a database: its files are read ([`crate::schema`]), its rows are checked
//! ([`crate::check`]) and differentiated (`fulgurite_core::derive`), and the result is emitted as
//! Rust ([`crate::emit`]).

use crate::check::gradients::Graded;
use crate::check::{self, closure};
use crate::diag::render::{self, Style};
use crate::diag::{Diag, Diagnostics};
use crate::emit::{DatabaseParts, Emitted};
use crate::files::Files;
use crate::parallel;
use crate::schema::{ClassSource, Database, RowSource, read_database};
use crate::source::{FileId, Sources};
use fulgurite_core::Name;
use fulgurite_core::lower::Rows;
use fulgurite_core::row::Row;
use rustc_hash::FxHashSet;
use std::collections::HashMap;
use std::sync::Arc;

/// A database that passed every check.
pub struct Compiled {
    /// Rows in file order, each followed by the rows derived from it.
    pub rows: Vec<Emitted>,
    /// The source rows.
    pub database: Database,
    /// The upstream rows, of which those that this database calls are completed.
    pub upstream: Table,
    /// The written gradient rules that are right.
    pub graded: Vec<Graded>,
    /// The files, for places.
    pub sources: Sources,
    /// Warnings.
    pub diagnostics: Diagnostics,
}

impl Compiled {
    /// The parts beside the rows.
    pub fn parts(&self) -> DatabaseParts<'_> {
        let Database { classes, calls, .. } = &self.database;
        DatabaseParts { classes, calls, sources: &self.sources, reached: &[] }
    }

    /// The upstream rows that this database calls, directly or not, with the rows derived from them.
    pub fn reached(&self) -> Vec<Emitted> {
        let Table { written, sources, .. } = &self.upstream;
        let called = self.upstream.called_by(&self.database, &self.database.names().collect());
        let rows = check::completed(written, &called);
        let called = check::rows::derived_calls(rows.iter().map(|row| &**row));
        let source = |row: &Arc<Row>| written.rows.iter().find(|source| source.name() == row.op);
        let pairs: Vec<_> = rows.iter().filter_map(|row| Some((source(row)?, row))).collect();
        let each = parallel::map(&pairs, |(source, row)| derive_row(source, row, &self.upstream, &called, sources));
        // units have no paths
        let name = |file: &str| file.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
        each.into_iter().flatten().map(|row| Emitted { file: name(&row.file), ..row }).collect()
    }

    /// Every row by name, including derived and upstream ones.
    pub fn table(&self) -> Table {
        let mut table = self.upstream.clone();
        for row in &self.rows {
            table.insert(row.row.clone());
        }
        table
    }
}

/// A refused database, with its diagnostics.
pub struct Refused {
    /// The files, for places.
    pub sources: Sources,
    /// The errors.
    pub diagnostics: Diagnostics,
}

/// Rows by name: those of this database and of the databases that it uses.
#[derive(Default, Clone)]
pub struct Table {
    rows: HashMap<Name, Arc<Row>>,
    /// The tensor subclasses of the upstream databases.
    pub classes: Vec<ClassSource>,
    /// The text of the upstream databases.
    pub text: Arc<str>,
    /// The upstream rows as they are written.
    written: Arc<Database>,
    /// The sources for their places.
    sources: Arc<Sources>,
}

impl Table {
    /// A table for a check of the `wanted` rows and classes of `database`. The rows that they call are completed in it,
    /// because a row may leave its dtypes and its promotion to be inferred.
    pub fn completed_for(&self, database: &Database, wanted: &FxHashSet<Name>) -> Table {
        let mut table = self.clone();
        let unchanged = wanted.is_empty() && !database.rows.is_empty();
        if unchanged || self.written.rows.is_empty() {
            return table;
        }
        let called = self.called_by(database, wanted);
        check::completed(&self.written, &called).into_iter().for_each(|row| table.insert(row));
        table
    }

    /// The names, without kinds, of the rows that the `wanted` rows and classes of `database` call.
    fn called_by(&self, database: &Database, wanted: &FxHashSet<Name>) -> FxHashSet<Name> {
        // The text of a class may call any row.
        let called = match database.classes.is_empty() {
            true => closure::reached(&database.rows, wanted.iter().copied()),
            false => self.names().into_iter().map(check::base).collect(),
        };
        let foreign = database.calls.iter().map(|calls| check::base(Name::new(calls.op.as_str())));
        called.into_iter().chain(foreign).collect()
    }

    /// Adds a row.
    pub fn insert(&mut self, row: Arc<Row>) {
        self.rows.insert(row.op, row);
    }
}

impl Rows for Table {
    fn row(&self, name: Name) -> Option<Arc<Row>> {
        self.rows.get(&name).cloned()
    }

    fn names(&self) -> Vec<Name> {
        let mut names: Vec<Name> = self.rows.keys().copied().collect();
        names.sort_unstable_by_key(|name| name.as_str());
        names
    }
}

/// Reads, checks and derives the database `text` of file `file`; it may use the rows of `upstream`.
///
/// # Errors
/// Every diagnostic of every row.
pub fn compile(text: &str, file: &str, upstream: &Table) -> Result<Compiled, Box<Refused>> {
    let mut sources = Sources::default();
    let id = sources.add(file, text);
    compile_sources(sources, id, upstream)
}

/// Like [`compile`], for a database in files with further points.
///
/// # Errors
/// Every diagnostic of every row.
pub fn compile_files(files: &Files, upstream: &Table) -> Result<Compiled, Box<Refused>> {
    let (sources, id) = files.sources();
    compile_sources(sources, id, upstream)
}

fn compile_sources(sources: Sources, id: FileId, upstream: &Table) -> Result<Compiled, Box<Refused>> {
    let mut diagnostics = Diagnostics::new();
    let mut database = read_database(id, &sources, &mut diagnostics);
    database.upstream.clone_from(&upstream.classes);
    taken(&database, upstream, &mut diagnostics);
    let upstream = upstream.completed_for(&database, &database.names().collect());
    let checked = check::run(&database, &upstream, &mut diagnostics);
    if diagnostics.errors() > 0 {
        return Err(Box::new(Refused { sources, diagnostics }));
    }
    let mut table = upstream.clone();
    for row in &checked.rows {
        table.insert(row.clone());
    }
    let mut rows = with_derived(&database, &checked.rows, &table, &sources);
    for source in database.classes.iter().flat_map(|class| &class.from) {
        rows.extend(derive_row(source, &Arc::new(source.lower_to_row()), &table, &FxHashSet::default(), &sources));
    }
    Ok(Compiled { rows, database, upstream, graded: checked.graded, sources, diagnostics })
}

/// E008: rows whose names occur in an upstream database.
pub fn taken(database: &Database, upstream: &Table, diagnostics: &mut Diagnostics) {
    for source in database.rows.iter().filter(|source| upstream.rows.contains_key(&source.name())) {
        let op = source.op.as_str();
        let diag = Diag::error("E008", source.op.place, format!("there are two rows `{op}`"));
        let help = format!("call it by another name; an overload is named `op: {op}.kind`");
        diagnostics.push(diag.here("the other is of a database that is used").help(help));
    }
}

/// Checked rows in file order, each followed by the rows derived from it.
pub fn with_derived(database: &Database, checked: &[Arc<Row>], table: &Table, sources: &Sources) -> Vec<Emitted> {
    let pairs: Vec<(&RowSource, &Arc<Row>)> = database.rows.iter().zip(checked).collect();
    let called = check::rows::derived_calls(checked.iter().map(|row| &**row));
    let each = parallel::map(&pairs, |(source, row)| derive_row(source, row, table, &called, sources));
    each.into_iter().flatten().collect()
}

/// The rows of a database that is checked elsewhere.
///
/// # Errors
/// The report, if the text is not a database.
pub fn read_rows(text: &str, file: &str) -> Result<Table, String> {
    let mut sources = Sources::default();
    let mut diagnostics = Diagnostics::new();
    let id = sources.add(file, text);
    let database = read_database(id, &sources, &mut diagnostics);
    if diagnostics.errors() > 0 {
        return Err(render::text(&diagnostics, &sources, Style { color: false, width: 100 }));
    }
    let mut table = Table::default();
    for row in &database.rows {
        table.insert(Arc::new(row.lower_to_row()));
    }
    table.classes.clone_from(&database.classes);
    table.text = text.into();
    table.written = Arc::new(database);
    table.sources = Arc::new(sources);
    Ok(table)
}

/// The first point that stands in the row, on one line.
fn first_point(source: &RowSource, sources: &Sources) -> Option<String> {
    let own = source.tests.points.iter().find(|point| source.place.holds(point.place))?;
    let text = &sources.file(own.place.file).text[own.place.range()];
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The row with its rules, and the rows that these call.
fn derive_row(
    source: &RowSource,
    row: &Arc<Row>,
    table: &Table,
    called: &FxHashSet<Name>,
    sources: &Sources,
) -> Vec<Emitted> {
    let place = source.op.place;
    let file = sources.file(place.file).path.clone();
    let line = sources.line(place);
    // Calls from files of points are only checked, so they are not emitted.
    let own = source.aliases.iter().filter(|(_, alias)| source.place.holds(alias.text.place));
    let aliases = own.map(|(library, alias)| (*library, alias.text.text.clone())).collect();
    let subclass = source.subclass.iter().map(|(class, rule)| (class.text.clone(), rule.text.clone())).collect();
    let kernels =
        source.kernels.iter().map(|(executor, kernel)| (executor.text.clone(), kernel.text.clone())).collect();
    let mut emitted = Emitted {
        row: row.clone(),
        doc: source.doc.text.clone(),
        point: first_point(source, sources),
        example: None,
        file: file.clone(),
        line,
        derived_from: None,
        subclass,
        aliases,
        kernels,
    };
    let (full, derived) = check::rows::with_rules(row, table, called);
    emitted.row = Arc::new(full);
    let mut out = vec![emitted];
    for derived in derived {
        let doc = format!("The gradient of `{}` in one argument", row.op);
        out.push(Emitted {
            row: Arc::new(derived),
            doc,
            point: None,
            example: None,
            file: file.clone(),
            line,
            derived_from: Some(row.op),
            subclass: vec![],
            aliases: vec![],
            kernels: vec![],
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emit::{Artifacts, Target};

    /// Without the kernels of all upstream rows, a database gets those of the rows that its own call, also by others.
    #[test]
    fn kernels_of_reached_rows_are_emitted() {
        let row = |op: &str, meaning: &str| {
            format!(
                "- op: {op}\n  doc: A row\n  sig: '(x: T) -> T'\n  promote: float\n  dtypes: f32 + f64\n  {meaning}\n"
            )
        };
        let rows = [("bent", "expr: x * x + 1"), ("far", "expr: x * x + 2"), ("twice", "decomp: bent(bent(x))")];
        let above: String = rows.map(|(op, meaning)| row(op, meaning)).concat();
        let upstream = read_rows(&format!("ops:\n{above}"), "folder/above.yaml").expect("is a database");
        let own = format!("ops:\n{}", row("more", "decomp: twice(twice(x))"));
        let style = Style { color: false, width: 100 };
        let compiled = compile(&own, "ops.yaml", &upstream)
            .unwrap_or_else(|refused| panic!("{}", render::text(&refused.diagnostics, &refused.sources, style)));
        let reached = compiled.reached();
        let parts = DatabaseParts { reached: &reached, ..compiled.parts() };
        let made = Artifacts::emit(&Target::downstream("own"), &compiled.rows, &parts, &compiled.table());
        let kernel = |op: &str| made.kernels.iter().find(|unit| unit.path == format!("kernels/{op}.rs"));
        let text = &kernel("bent").expect("it is reached").text;
        assert!(text.contains("above.yaml") && !text.contains("folder"), "{text}");
        assert!(kernel("far").is_none(), "nothing calls it");
        assert!(made.database.iter().all(|unit| unit.path != "rows/bent.rs"), "its symbol is upstream");
    }
}
