//! `cargo ops export`: packages of rows for other frameworks.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, Subcommand};
use fulgurite_codegen::check::rows::RowSet;
use fulgurite_codegen::files::Files;
use fulgurite_core::{Name, counted, files};
use rustc_hash::FxHashSet;
use serde_json::json;

use super::fault::CommandFault;
use super::load::{self, Loaded};
use super::paint::Paint;
use super::{Common, FINE, Outcome};
use crate::explain;
use crate::export::operator::{self, Operator, PythonTypes};
use crate::export::package::{ExportedPackage, ExportedRow, RowOrigin};
use crate::export::{PackageFile, jax, torch};

/// Makes packages of rows for other frameworks.
#[derive(Debug, Args)]
pub struct ExportCommand {
    /// The framework.
    #[command(subcommand)]
    pub to: Framework,
}

/// The frameworks.
#[derive(Debug, Subcommand)]
pub enum Framework {
    /// A Python package with the rows as operators of PyTorch
    #[command(
        after_help = "Examples:\n  cargo ops export torch --name smooth --out pkg\n  pip install ./pkg\n  cargo ops export torch --name smooth --out pkg --only squareplus,energy --wheel"
    )]
    Torch(ExportOptions),
    /// A Python package with the rows as functions of JAX
    #[command(
        after_help = "Examples:\n  cargo ops export jax --name smooth --out pkg\n  pip install ./pkg\n  cargo ops export jax --name smooth --out pkg --only squareplus,energy --wheel"
    )]
    Jax(ExportOptions),
}

/// The package.
#[derive(Debug, Args)]
pub struct ExportOptions {
    /// The database; otherwise `ops.yaml` here or in a folder above
    pub database: Option<PathBuf>,
    /// The name of the package, and of the namespace of its operators
    #[arg(long)]
    pub name: String,
    /// The folder of the package, which is made if it does not exist
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Only these rows; otherwise all
    #[arg(long, value_name = "OP,…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// The folder with the sources of fulgurite; otherwise that from which this command was built, or the published
    /// crates
    #[arg(long, value_name = "DIR")]
    pub sources: Option<PathBuf>,
    /// Build the wheel too, with Python and cargo, into `dist` in the folder of the package
    #[arg(long)]
    pub wheel: bool,
}

/// The database of fulgurite in its sources.
const DATABASE: &str = "generated/kernels/ops.yaml";

/// Rows that can't be operators, each with the reason.
type LeftOut = Vec<(String, &'static str)>;

impl ExportCommand {
    pub(super) fn run(&self, common: &Common, paint: &Paint, out: &mut dyn Write, err: &mut dyn Write) -> Outcome {
        let (options, types, files): (_, _, FilesOf) = match &self.to {
            Framework::Torch(options) => (options, &PythonTypes::TORCH, torch::files),
            Framework::Jax(options) => (options, &PythonTypes::JAX, jax::files),
        };
        options.run(types, files, common, paint, out, err)
    }
}

/// The function that makes the files of a package for a framework.
type FilesOf = fn(&ExportedPackage<'_>, &RowSet<'_>) -> Vec<PackageFile>;

impl ExportOptions {
    fn run(
        &self,
        types: &PythonTypes,
        files: FilesOf,
        common: &Common,
        paint: &Paint,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> Outcome {
        if !is_identifier(&self.name) {
            let claim = format!("`{}` can't be the name of a Python package", self.name);
            return Err(CommandFault::usage("E924", claim).help("use small letters, digits and `_`, a letter first"));
        }
        let sources = self.sources.clone().or_else(built_from).map(|path| path.canonicalize().unwrap_or(path));
        let loaded = self.load(common, sources.as_deref())?;
        if loaded.diags.errors() > 0 {
            let faults = counted(loaded.diags.errors(), "fault", "faults");
            let claim = format!("`{}` has {faults}", loaded.files.rows.path.display());
            return Err(
                CommandFault::failed("E924", claim).help(format!("`cargo ops check{}` shows them", loaded.options))
            );
        }
        let (rows, left_out) = self.rows(&loaded, types)?;
        let origin = origin(&loaded.files, sources.as_deref());
        let package = ExportedPackage { name: self.name.clone(), rows, origin, sources };
        let set = RowSet::new(&loaded.upstream, loaded.checked.rows.iter().cloned(), &[]);
        let files = files(&package, &set);
        for file in &files {
            let path = self.out.join(&file.path);
            let unwritable = |why: std::io::Error| CommandFault::unwritable(&path, &why);
            if fs::read(&path).is_ok_and(|old| old == file.text.as_bytes()) {
                continue;
            }
            path.parent().map_or(Ok(()), fs::create_dir_all).map_err(unwritable)?;
            files::refresh(&path, &file.text).map_err(unwritable)?;
        }
        if let Some(sources) = &package.sources {
            self.take_versions(&sources.join("Cargo.lock"))?;
        }
        let wheel = if self.wheel { Some(self.build(err, common)?) } else { None };
        if common.json {
            let left: Vec<_> = left_out.iter().map(|(op, why)| json!({"op": op, "why": why})).collect();
            let rows: Vec<_> = package.rows.iter().map(|r| &r.operator.row).collect();
            let object = json!({
                "v": 1, "package": self.name, "folder": self.out.display().to_string(), "rows": rows, "left_out": left,
                "wheel": wheel,
            });
            writeln!(out, "{object}")?;
            return Ok(FINE);
        }
        if !common.quiet {
            let mut said = String::new();
            for (op, why) in &left_out {
                said += &paint.status("Left out", &format!("{op}: {why}"));
            }
            let rows = counted(package.rows.len(), "row", "rows");
            said += &paint.status("Written", &format!("{rows} to {}", self.out.display()));
            err.write_all(said.as_bytes())?;
        }
        match wheel {
            Some(wheel) => writeln!(out, "{wheel}")?,
            None if !common.quiet => {
                // pip takes a bare name for that of a package of PyPI
                let here = if self.out.is_absolute() { "" } else { "./" };
                let next = format!("pip install {here}{0}  ·  python {0}/tests/test_ops.py", self.out.display());
                err.write_all(paint.status("next:", &next).as_bytes())?;
            }
            None => {}
        }
        Ok(FINE)
    }

    /// Reads the database. Its rows may call those of fulgurite, on which the package depends, unless it stands in a
    /// crate that has another database upstream.
    fn load(&self, common: &Common, sources: Option<&Path>) -> Result<Loaded, CommandFault> {
        let file = load::read(common, self.database.as_deref())?.rows.path;
        let mut upstream = load::upstream_file(common, &file)?;
        if upstream.is_none() {
            let own = sources.map(|sources| sources.join(DATABASE)).filter(|own| own.is_file());
            upstream = own.filter(|own| own.canonicalize().ok() != file.canonicalize().ok());
        }
        load::load(&Common { upstream, ..common.clone() }, self.database.as_deref())
    }

    /// The rows to export, and those that can't be operators, with the reason.
    fn rows<'a>(
        &self,
        loaded: &'a Loaded,
        types: &PythonTypes,
    ) -> Result<(Vec<ExportedRow<'a>>, LeftOut), CommandFault> {
        let mut wanted: FxHashSet<Name> = FxHashSet::default();
        for op in &self.only {
            loaded.find(op)?;
            wanted.insert(Name::new(op));
        }
        let classes: FxHashSet<Name> = loaded
            .database
            .classes
            .iter()
            .map(|class| class.name())
            .chain(loaded.upstream.classes.iter().map(|class| class.name()))
            .collect();
        let table = loaded.table();
        let (mut rows, mut left_out) = (Vec::new(), Vec::new());
        for (source, row) in loaded.database.rows.iter().zip(&loaded.checked.rows) {
            if !wanted.is_empty() && !wanted.contains(&row.op) {
                continue;
            }
            let is_class = |name: Name| classes.contains(&name);
            let made = if operator::makes_a_class(row, &is_class) {
                Err("it makes a tensor of a class")
            } else {
                Operator::of(row, &table, types)
            };
            match made {
                Ok(operator) => {
                    let gradients = explain::gradients(row, &table, &loaded.checked);
                    let gradients = gradients.iter().map(|g| format!("{}: {}", g.arg, g.text())).collect();
                    rows.push(ExportedRow { source, row, operator, gradients });
                }
                Err(why) => left_out.push((row.op.to_string(), why)),
            }
        }
        let names: Vec<&str> = rows.iter().map(|r| r.operator.name.as_str()).collect();
        if let Some((at, name)) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
            let claim = format!("the rows `{}` and another one have the Python name `{name}`", rows[at].operator.row);
            return Err(CommandFault::failed("E924", claim).help("rename one of them, or choose rows with `--only`"));
        }
        if let (Some((op, why)), true) = (left_out.first(), rows.is_empty()) {
            return Err(CommandFault::failed("E924", format!("`{op}` can't be exported: {why}")));
        }
        Ok((rows, left_out))
    }

    /// Gives a new package the versions of crates with which fulgurite is tested. Cargo leaves out what it does not need.
    fn take_versions(&self, tested: &Path) -> Result<(), CommandFault> {
        let own = self.out.join("Cargo.lock");
        if tested.is_file() && !own.exists() {
            let versions = fs::read(tested).map_err(|why| CommandFault::unreadable(tested, &why))?;
            files::refresh(&own, versions).map_err(|why| CommandFault::unwritable(&own, &why))?;
        }
        Ok(())
    }

    /// Builds the wheel; returns its path.
    fn build(&self, err: &mut dyn Write, common: &Common) -> Result<String, CommandFault> {
        if !common.quiet {
            writeln!(err, "cargo build --release, which takes some minutes the first time")?;
        }
        let folder = self.out.canonicalize().map_err(|why| CommandFault::unwritable(&self.out, &why))?;
        let built = Command::new("python3").arg("build_backend.py").current_dir(&folder).output();
        let built = built.map_err(|why| {
            CommandFault::failed("E924", format!("`python3` can't be run: {why}")).help("install Python 3.10 or later")
        })?;
        if !built.status.success() {
            let said = String::from_utf8_lossy(&built.stderr).trim().to_owned();
            return Err(CommandFault::failed("E924", "the wheel could not be built").help(said));
        }
        Ok(String::from_utf8_lossy(&built.stdout).trim().to_owned())
    }
}

/// Whether a text can name a Python module and a namespace of a framework.
fn is_identifier(name: &str) -> bool {
    let rest = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(rest)
}

/// The folder of the sources from which this command was built, if they are still there.
fn built_from() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    folder.join("compat/torch/Cargo.toml").is_file().then(|| folder.to_owned())
}

/// The origin of the rows: the crate that has the database, or its files.
fn origin(files: &Files, sources: Option<&Path>) -> RowOrigin {
    let path = files.rows.path.canonicalize().unwrap_or_else(|_| files.rows.path.clone());
    if let Some(sources) = sources
        && sources.join(DATABASE).canonicalize().is_ok_and(|own| own == path)
    {
        return RowOrigin::Crate("fulgurite".to_owned(), sources.join("generated"));
    }
    if let Some(folder) = path.parent()
        && let Some(name) = database_crate(folder)
    {
        return RowOrigin::Crate(name, folder.to_owned());
    }
    let calls = files.calls.iter().filter_map(|calls| {
        let name = calls.path.file_name()?.to_string_lossy().into_owned();
        Some((name, calls.text.clone()))
    });
    RowOrigin::Files(std::iter::once(("ops.yaml".to_owned(), files.rows.text.clone())).chain(calls).collect())
}

/// The name of the crate in a folder, if its library has a database.
fn database_crate(folder: &Path) -> Option<String> {
    let library = fs::read_to_string(folder.join("src/lib.rs")).ok()?;
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).ok().filter(|_| library.contains("database!"))?;
    let package = manifest.lines().skip_while(|line| line.trim() != "[package]");
    let name = package.skip(1).find_map(|line| line.trim().strip_prefix("name")?.trim().strip_prefix('='));
    Some(name?.trim().trim_matches('"').to_owned())
}
