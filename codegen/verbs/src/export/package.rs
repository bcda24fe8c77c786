//! The files of a package that are the same for every framework.

use super::PackageFile;
use super::calls;
use super::operator::Operator;
use fulgurite_codegen::check::rows::RowSet;
use fulgurite_codegen::schema::RowSource;
use fulgurite_core::row::Row;
use rustc_hash::FxHashSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// A package to be written.
pub struct ExportedPackage<'a> {
    /// The name of the package in Python, which is also the namespace of its operators.
    pub name: String,
    /// The rows.
    pub rows: Vec<ExportedRow<'a>>,
    /// The origin of the rows.
    pub origin: RowOrigin,
    /// The folder with the sources of fulgurite; without it, the published crates are used.
    pub sources: Option<PathBuf>,
}

/// The origin of the rows of a package.
pub enum RowOrigin {
    /// The files of a database, which the package takes over, with their names.
    Files(Vec<(String, String)>),
    /// A crate that has a database: its name and folder.
    Crate(String, PathBuf),
}

/// A row that is exported.
pub struct ExportedRow<'a> {
    /// The row as it is written.
    pub source: &'a RowSource,
    /// The row as the checks completed it.
    pub row: &'a Arc<Row>,
    /// The operator.
    pub operator: Operator,
    /// One line for each gradient.
    pub gradients: Vec<String>,
}

/// The parts in which the packages for two frameworks differ.
pub struct FrameworkHalf {
    /// The framework as people call it.
    pub title: &'static str,
    /// What Python needs.
    pub requires: &'static str,
    /// The modules of the package: `_runtime.py`, which registers the rows with the framework, and others.
    pub modules: Vec<(&'static str, String)>,
    /// The checks of an operator.
    pub checks: &'static str,
}

const LIBRARY: &str = include_str!("_library.py");
const BACKEND: &str = include_str!("build_backend.py");
const RUNNING: &str = include_str!("running.py");

impl ExportedPackage<'_> {
    /// The files of the package; `set` has all rows, for the calls of its tests, and `facts` are those of a row that the
    /// checks of the framework need.
    pub fn files(
        &self,
        half: FrameworkHalf,
        set: &RowSet<'_>,
        facts: impl Fn(&ExportedRow<'_>) -> String,
    ) -> Vec<PackageFile> {
        let name = &self.name;
        let mut files = vec![
            ("pyproject.toml".to_owned(), self.pyproject(&half)),
            ("Cargo.toml".to_owned(), self.manifest()),
            ("src/lib.rs".to_owned(), self.library()),
            ("build_backend.py".to_owned(), BACKEND.to_owned()),
            (format!("{name}/_library.py"), LIBRARY.to_owned()),
            (format!("{name}/py.typed"), String::new()),
            ("tests/checks.py".to_owned(), half.checks.to_owned()),
            ("tests/running.py".to_owned(), RUNNING.to_owned()),
            ("tests/test_ops.py".to_owned(), self.tests(set, facts)),
            (".gitignore".to_owned(), "/target\n/dist\n*.so\n__pycache__\n".to_owned()),
        ];
        files.extend(half.modules.into_iter().map(|(module, text)| (format!("{name}/{module}"), text)));
        if let RowOrigin::Files(database) = &self.origin {
            files.extend(database.iter().cloned());
            files.push(("build.rs".to_owned(), self.build_script()));
        }
        files.into_iter().map(|(path, text)| PackageFile { path, text }).collect()
    }

    fn pyproject(&self, half: &FrameworkHalf) -> String {
        format!(
            "[build-system]\nrequires = []\nbuild-backend = \"build_backend\"\nbackend-path = [\".\"]\n\n[project]\nname = \"{}\"\nversion = \"0.1.0\"\ndescription = \"Operators of a database, for {}\"\nrequires-python = \">=3.10\"\ndependencies = [\"{}\"]\n",
            self.name, half.title, half.requires
        )
    }

    fn manifest(&self) -> String {
        // the build script makes the kernels of those rows of fulgurite that the package's own reach
        let few = if matches!(self.origin, RowOrigin::Files(_)) { ", default-features = false" } else { "" };
        let crates = [("fulgurite", "generated", few), ("fulgurite-torch", "compat/torch", "")];
        let from = |(krate, folder, more): (&str, &str, &str)| match &self.sources {
            Some(sources) => format!("{krate} = {{ path = {:?}{more} }}\n", sources.join(folder)),
            None => format!("{krate} = {{ version = \"{}\"{more} }}\n", env!("CARGO_PKG_VERSION")),
        };
        let mut text = format!(
            "[package]\nname = \"{}\"\nversion = \"0.1.0\"\nedition = \"2024\"\npublish = false\n\n[lib]\ncrate-type = [\"cdylib\"]\n\n[dependencies]\n",
            self.name
        );
        crates.into_iter().for_each(|krate| text += &from(krate));
        match &self.origin {
            RowOrigin::Files(_) => {
                text += &format!("\n[build-dependencies]\n{}", from(("fulgurite-codegen", "codegen", "")))
            }
            RowOrigin::Crate(name, _) if name == "fulgurite" => {}
            RowOrigin::Crate(name, folder) => text += &format!("{name} = {{ path = {folder:?} }}\n"),
        }
        text += PROFILE;
        let database = match &self.origin {
            RowOrigin::Crate(name, _) if name != "fulgurite" => Some(name.as_str()),
            _ => None,
        };
        for krate in KERNELS.into_iter().chain([self.name.as_str()]).chain(database) {
            text += &format!("[profile.release.package.{krate}]\nopt-level = 3\n");
        }
        text
    }

    fn build_script(&self) -> String {
        format!(
            "//! Checks the rows, and makes their kernels.\n\nfn main() -> std::io::Result<()> {{\n    fulgurite_codegen::build::downstream(\"{}\", \"ops.yaml\")\n}}\n",
            self.name
        )
    }

    fn library(&self) -> String {
        let database = match &self.origin {
            RowOrigin::Files(_) => "fulgurite::database!();\n".to_owned(),
            RowOrigin::Crate(name, _) => format!("// links the database\nuse {} as _;\n\n", name.replace('-', "_")),
        };
        format!(
            "//! The rows of the package, and the functions that its Python half calls.\n\n{database}fulgurite_torch::library!();\n"
        )
    }

    /// The functions of the package: `intro` is the beginning of the module, whose imports are left out where nothing uses
    /// them, `setup` the code before the functions, and `call` the expression that a function returns.
    pub fn functions(&self, intro: &str, setup: &str, call: impl Fn(&Operator) -> String) -> String {
        let (mut names, mut functions, mut code) = (String::new(), String::new(), setup.to_owned());
        for exported in &self.rows {
            let o = &exported.operator;
            let head = format!("def {}({}) -> {}:", o.name, o.parameters(), o.returns);
            let (doc, body) = (docstring(exported), call(o));
            let _ = write!(functions, "\n\n{head}\n    \"\"\"{doc}\"\"\"\n    return {body}\n");
            let _ = writeln!(names, "    \"{}\",", o.name);
            code += &format!("{head} {body}\n");
        }
        format!("{}\n__all__ = [\n{names}]\n{setup}{functions}", used(intro, &code))
    }

    fn tests(&self, set: &RowSet<'_>, facts: impl Fn(&ExportedRow<'_>) -> String) -> String {
        let name = &self.name;
        let intro = format!(
            "\"\"\"Tests of the operators: calls that were drawn when the package was made.\n\nRun `pytest`, or `python tests/test_ops.py [ROW ...]`.\n\"\"\"\n\nfrom checks import Facts, dtype, t\nfrom running import rows_as_tests, run\n\nimport {name}\n"
        );
        let mut text = "CALLS = {\n".to_owned();
        for exported in &self.rows {
            let _ = writeln!(text, "    \"{}\": (Facts({}), [", exported.operator.name, facts(exported));
            for call in calls::drawn(exported.source, exported.row, set) {
                let _ = writeln!(text, "        {call},");
            }
            text += "    ]),\n";
        }
        text += &format!(
            "}}\n\nglobals().update(rows_as_tests({name}, CALLS))\n\nif __name__ == \"__main__\":\n    run({name}, CALLS)\n"
        );
        format!("{}\n{text}", used(&intro, &text))
    }
}

impl ExportedRow<'_> {
    /// The facts of a row that the checks of every framework need: whether its derivatives are those of its values, and
    /// whether they have no derivatives themselves.
    pub fn facts(&self) -> String {
        let word = |is: bool| if is { "True" } else { "False" };
        let smooth = self.operator.differentiable && self.source.deviates.is_none();
        format!("differentiable={}, once={}", word(smooth), word(self.source.once.is_some()))
    }
}

/// The beginning of a Python module without the imported names that `code` does not use.
fn used(intro: &str, code: &str) -> String {
    let words: FxHashSet<&str> = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let mut text = String::new();
    for line in intro.lines() {
        let imports = line.starts_with("from ") || line.starts_with("import ");
        if let Some((before, names)) = line.split_once("import ").filter(|_| imports) {
            let names: Vec<&str> = names.split(", ").filter(|name| words.contains(name)).collect();
            if !names.is_empty() {
                let _ = writeln!(text, "{before}import {}", names.join(", "));
            }
        } else if !line.is_empty() || !text.ends_with("\n\n") {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

fn docstring(exported: &ExportedRow<'_>) -> String {
    let row = exported.row;
    let mut text = format!("{}.\n\n    {} {}\n", exported.source.doc.as_str(), row.op, row.sig);
    if let Some(dtypes) = &exported.source.dtypes {
        let _ = write!(text, "\n    Dtypes of T: {}.", dtypes.text.as_str());
    }
    for r in &row.require {
        let _ = write!(text, "\n    Refused unless `{}`: {}.", r.cond, r.message);
    }
    for gradient in &exported.gradients {
        let _ = write!(text, "\n    Gradient by {gradient}.");
    }
    let reasons = [
        ("No gradient", &exported.source.no_grad),
        ("The gradient is not the derivative of the values", &exported.source.deviates),
        ("A gradient has no gradient itself", &exported.source.once),
    ];
    for (what, reason) in reasons {
        if let Some(reason) = reason {
            let _ = write!(text, "\n    {what}: {}.", reason.as_str());
        }
    }
    text = text.replace('\\', "\\\\").replace("\"\"\"", "\\\"\\\"\\\"");
    format!("{}\n    ", text.trim_end())
}

/// The settings of a release build. Most of a library is code that runs once for each program, so that is compiled for
/// size; the kernels are compiled for speed. The generator, which runs at each edit, is compiled quickly.
/// There is no optimisation at link time: with `lto = "fat"` a wheel of ten rows was 1 % larger, and an edit took minutes.
const PROFILE: &str = r#"
[workspace]
resolver = "1"

[profile.release]
opt-level = "z"
codegen-units = 1

[profile.release.build-override]
opt-level = 1
codegen-units = 16
"#;

/// The crates with kernels, apart from the package itself and the crate that has its database.
const KERNELS: [&str; 5] = ["fulgurite-kernels", "fulgurite-row-kernels", "gemm-common", "gemm-f32", "gemm-f64"];
