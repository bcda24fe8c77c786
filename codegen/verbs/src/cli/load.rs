//! Reads databases from files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulgurite_codegen::check::{self, Checked};
use fulgurite_codegen::diag::Diagnostics;
use fulgurite_codegen::files::Files;
use fulgurite_codegen::nearest::near;
use fulgurite_codegen::pipeline;
use fulgurite_codegen::schema::{Database, RowSource, Rule, read_database};
use fulgurite_codegen::source::Sources;
use fulgurite_core::Name;
use fulgurite_core::lang::Alias;
use fulgurite_core::lower::Rows;
use fulgurite_core::row::Row;
use rustc_hash::FxHashSet;

use super::fault::CommandFault;
use super::{Common, upstream};

/// A database, with the rows that are right and the diagnostics of the others.
pub struct Loaded {
    /// The files of the database.
    pub files: Files,
    /// The files that were read.
    pub sources: Sources,
    /// The faults of the database.
    pub diags: Diagnostics,
    /// The rows and classes as they are written.
    pub database: Database,
    /// The rows as the checks completed them.
    pub checked: Checked,
    /// The names of the checked rows and classes: a part if some were chosen.
    pub(super) wanted: FxHashSet<Name>,
    /// Rows of other databases, which may be called.
    pub upstream: pipeline::Table,
    /// The file of these rows.
    above: Option<PathBuf>,
    /// The options by which another command reads the same database, each after a space.
    pub(super) options: String,
}

/// Reads and checks the database that `common` names, or `file`.
///
/// # Errors
/// E910: two databases are named, or none can be read.
pub fn load(common: &Common, file: Option<&Path>) -> Result<Loaded, CommandFault> {
    let files = read(common, file)?;
    let above = upstream_file(common, &files.rows.path)?;
    Ok(Loaded { above: above.clone(), options: options(common, file), ..loaded(files, table(above.as_deref())?) })
}

/// The options that name the same databases to another command, each after a space.
pub(super) fn options(common: &Common, file: Option<&Path>) -> String {
    let named = [("file", file.or(common.file.as_deref())), ("upstream", common.upstream.as_deref())];
    let option = |(name, path): (&str, Option<&Path>)| path.map(|path| format!(" --{name} {}", path.display()));
    named.into_iter().filter_map(option).collect()
}

/// The files of the named database, or of the one that is found.
pub(super) fn read(common: &Common, file: Option<&Path>) -> Result<Files, CommandFault> {
    if let (Some(file), Some(other)) = (file, &common.file) {
        let claim = format!("two databases are named: `{}` and `--file {}`", file.display(), other.display());
        return Err(CommandFault::usage("E910", claim).help("name one of them"));
    }
    let path = match file.or(common.file.as_deref()) {
        Some(path) => path.to_owned(),
        None => find()?,
    };
    let files = Files::rows(&path, path.display().to_string()).map_err(|(at, why)| {
        let missing = at == path && why.kind() == std::io::ErrorKind::NotFound;
        let fault = unreadable((at, why));
        match missing {
            true => fault.help(format!(
                "name another file, or start this one: `cargo ops new OP FORMULA --file {}`",
                path.display()
            )),
            false => fault,
        }
    })?;
    let help = format!("`points` of `{}` names the folder of further points", path.display());
    files.with_points().map_err(|why| unreadable(why).help(help))
}

fn unreadable((path, why): (PathBuf, std::io::Error)) -> CommandFault {
    CommandFault::unreadable(&path, &why)
}

/// A database of one text, with `path` as its (future) file.
pub(super) fn of_text(path: PathBuf, text: String) -> Files {
    let shown = path.display().to_string();
    Files::of_text(path, shown, text)
}

/// Like [`load`]; falls back to the program's own database if no file is named or found.
///
/// # Errors
/// E910: two databases are named, or a named one cannot be read.
pub fn load_or_built_in(common: &Common) -> Result<Loaded, CommandFault> {
    match (common.built_in, &common.file, find()) {
        (Some(text), None, Err(_)) => {
            Ok(loaded(of_text(PathBuf::from("ops.yaml"), text.to_owned()), table(common.upstream.as_deref())?))
        }
        _ => load(common, None),
    }
}

/// Like [`load`]. If there is no database upstream, the rows that the program was built with may be called, unless the
/// database has a row with the name of one of them, as another version of the program's own database has.
///
/// # Errors
/// E910: the database cannot be read.
pub fn load_over_built_in(common: &Common) -> Result<Loaded, CommandFault> {
    let files = read(common, None)?;
    if let (None, Some(text)) = (upstream_file(common, &files.rows.path)?, common.built_in) {
        let table = pipeline::read_rows(text, "ops.yaml").map_err(|why| CommandFault::failed("E999", why))?;
        let loaded = loaded(files, table);
        if !loaded.diags.sorted().iter().any(|diag| diag.code == TWICE) {
            return Ok(loaded);
        }
    }
    load(common, None)
}

/// The code of two rows with one name.
const TWICE: &str = "E008";

/// Checks a database that may not be written yet.
pub(super) fn loaded(files: Files, upstream: pipeline::Table) -> Loaded {
    loaded_some(files, upstream, all)
}

/// The names of all rows and classes.
pub(super) fn all(database: &Database, _: &Sources) -> FxHashSet<Name> {
    database.names().collect()
}

/// [`loaded`] for the rows that `choose` selects.
pub(super) fn loaded_some(
    files: Files,
    upstream: pipeline::Table,
    choose: impl FnOnce(&Database, &Sources) -> FxHashSet<Name>,
) -> Loaded {
    let mut diags = Diagnostics::new();
    let (sources, file) = files.sources();
    let mut database = read_database(file, &sources, &mut diags);
    database.upstream.clone_from(&upstream.classes);
    pipeline::taken(&database, &upstream, &mut diags);
    let wanted = choose(&database, &sources);
    let upstream = upstream.completed_for(&database, &wanted);
    let checked = check::some(&database, &upstream, &wanted, &mut diags);
    Loaded { wanted, files, sources, diags, database, checked, upstream, above: None, options: String::new() }
}

/// The rows that those of the database `file` may call.
pub(super) fn upstream(common: &Common, file: &Path) -> Result<pipeline::Table, CommandFault> {
    table(upstream_file(common, file)?.as_deref())
}

/// The database upstream of the database `file`: the one that is named, or that of a dependency.
pub(super) fn upstream_file(common: &Common, file: &Path) -> Result<Option<PathBuf>, CommandFault> {
    common.upstream.clone().map_or_else(|| upstream::of(file), |named| Ok(Some(named)))
}

fn table(upstream: Option<&Path>) -> Result<pipeline::Table, CommandFault> {
    let Some(path) = upstream else { return Ok(pipeline::Table::default()) };
    let text = std::fs::read_to_string(path).map_err(|why| {
        CommandFault::unreadable(path, &why).help("`--upstream FILE` names the database whose rows are called")
    })?;
    pipeline::read_rows(&text, &path.display().to_string()).map_err(|report| {
        CommandFault::usage("E910", format!("the upstream database `{}` is broken", path.display())).help(report)
    })
}

/// Whether this folder or one above has a database, which may not be readable.
pub fn is_found() -> bool {
    find().is_ok()
}

/// `ops.yaml` in this folder or one above.
pub(super) fn find() -> Result<PathBuf, CommandFault> {
    let here = std::env::current_dir().map_err(|why| CommandFault::unreadable(Path::new("."), &why))?;
    for (up, folder) in here.ancestors().enumerate() {
        if folder.join("ops.yaml").is_file() {
            // The path is shown in its shortest form.
            return Ok(std::iter::repeat_n(Path::new(".."), up).collect::<PathBuf>().join("ops.yaml"));
        }
    }
    Err(CommandFault::usage("E910", "there is no `ops.yaml` in this folder or in a folder above")
        .help("name the database with `--file FILE`, or start one: `cargo ops new OP FORMULA --file ops.yaml`"))
}

impl Loaded {
    /// A row by its name.
    ///
    /// # Errors
    /// E903: the row does not exist, or has a fault.
    pub fn find(&self, op: &str) -> Result<(&RowSource, &Arc<Row>), CommandFault> {
        let at = self.database.rows.iter().position(|source| source.op == op);
        let found = at.and_then(|at| Some((&self.database.rows[at], self.checked.rows.get(at)?)));
        found.ok_or_else(|| {
            let file = self.files.rows.path.display();
            if self.database.broken.iter().any(|name| *name == op) {
                return CommandFault::failed("E903", format!("the row `{op}` of `{file}` has a fault"))
                    .help(format!("`cargo ops check --only {op}{}` shows it", self.options));
            }
            let fault = CommandFault::failed("E903", format!("`{file}` has no row `{op}`"));
            let near: Vec<String> = near(op, self.names().iter().map(|name| name.as_str()))
                .into_iter()
                .take(3)
                .map(|name| format!("`{name}`"))
                .collect();
            if let Some(help) = self.elsewhere(op) {
                return fault.help(help);
            }
            match near.as_slice() {
                [] => fault.help("`cargo ops list` shows the rows of a database; `--file FILE` names another database"),
                near => fault.help(format!("did you mean {}?", any_of(near))),
            }
        })
    }

    /// Where a row or a class is that this database lacks: upstream, or under the name that another library's call has.
    fn elsewhere(&self, op: &str) -> Option<String> {
        let upstream = |op: &str| {
            let class = self.upstream.classes.iter().any(|class| class.class == op);
            class || self.upstream.row(Name::new(op)).is_some()
        };
        let file = match &self.above {
            Some(path) => path.display().to_string(),
            None => "FILE".to_owned(),
        };
        if upstream(op) {
            return Some(format!("the database upstream has it: `cargo ops explain {op} --file {file}`"));
        }
        let names = |aliases: &[(&'static str, Rule<Alias>)]| {
            let named = |(library, alias): &(&'static str, Rule<Alias>)| {
                op.strip_prefix(library).and_then(|rest| rest.strip_prefix('.')) == Some(alias.tree.name.name.as_str())
            };
            aliases.iter().any(named)
        };
        let Database { rows, calls, .. } = &self.database;
        let rows = rows.iter().map(|row| (row.op.as_str(), &row.aliases));
        let mut all = rows.chain(calls.iter().map(|calls| (calls.op.as_str(), &calls.aliases)));
        let row = all.find_map(|(row, aliases)| names(aliases).then_some(row))?;
        let option = if upstream(row) { format!(" --file {file}") } else { String::new() };
        Some(format!("`{op}` is a call of the row `{row}`: `cargo ops explain {row}{option}`"))
    }

    /// The names of all rows.
    pub fn names(&self) -> Vec<Name> {
        self.database.rows.iter().map(RowSource::name).chain(self.database.broken.iter().copied()).collect()
    }

    /// Every row, including upstream ones.
    pub fn table(&self) -> pipeline::Table {
        let mut table = self.upstream.clone();
        self.checked.rows.iter().for_each(|row| table.insert(row.clone()));
        table
    }
}

/// `a`, `b` or `c`.
fn any_of(names: &[String]) -> String {
    match names {
        [first @ .., before, last] => {
            let first: String = first.iter().map(|name| format!("{name}, ")).collect();
            format!("{first}{before} or {last}")
        }
        _ => names.concat(),
    }
}
