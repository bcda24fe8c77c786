//! The files of a package for PyTorch.

use super::PackageFile;
use super::calls;
use super::operator::{Operator, OperatorArgument};
use fulgurite_codegen::check::rows::RowSet;
use fulgurite_codegen::schema::RowSource;
use fulgurite_core::row::{Class, Meaning, Row};
use rustc_hash::FxHasher;
use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

/// A package to be written.
pub struct TorchPackage<'a> {
    /// Its name in Python, which is also the namespace of its operators.
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

const RUNTIME: &str = include_str!("_runtime.py");
const BACKEND: &str = include_str!("build_backend.py");
const CHECKS: &str = include_str!("checks.py");

impl TorchPackage<'_> {
    /// The files of the package; `set` has all rows, for the calls of its tests.
    pub fn files(&self, set: &RowSet<'_>) -> Vec<PackageFile> {
        let name = &self.name;
        let mut files = vec![
            ("pyproject.toml".to_owned(), self.pyproject()),
            ("Cargo.toml".to_owned(), self.manifest()),
            ("src/lib.rs".to_owned(), self.library()),
            ("build_backend.py".to_owned(), BACKEND.to_owned()),
            (format!("{name}/__init__.py"), self.functions()),
            (format!("{name}/_ops.py"), self.operators()),
            (format!("{name}/_runtime.py"), RUNTIME.to_owned()),
            (format!("{name}/py.typed"), String::new()),
            ("tests/checks.py".to_owned(), CHECKS.to_owned()),
            ("tests/test_ops.py".to_owned(), self.tests(set)),
            (".gitignore".to_owned(), "/target\n/dist\n*.so\n__pycache__\n".to_owned()),
        ];
        if let RowOrigin::Files(database) = &self.origin {
            files.extend(database.iter().cloned());
            files.push(("build.rs".to_owned(), self.build_script()));
        }
        files.into_iter().map(|(path, text)| PackageFile { path, text }).collect()
    }

    fn pyproject(&self) -> String {
        format!(
            "[build-system]\nrequires = []\nbuild-backend = \"build_backend\"\nbackend-path = [\".\"]\n\n[project]\nname = \"{}\"\nversion = \"0.1.0\"\ndescription = \"Operators of a database, for PyTorch\"\nrequires-python = \">=3.10\"\ndependencies = [\"torch>=2.13\"]\n",
            self.name
        )
    }

    fn manifest(&self) -> String {
        let crates = [("fulgurite", "generated"), ("fulgurite-torch", "compat/torch")];
        let from = |(krate, folder): (&str, &str)| match &self.sources {
            Some(sources) => format!("{krate} = {{ path = {:?} }}\n", sources.join(folder)),
            None => format!("{krate} = \"{}\"\n", env!("CARGO_PKG_VERSION")),
        };
        let mut text = format!(
            "[package]\nname = \"{}\"\nversion = \"0.1.0\"\nedition = \"2024\"\npublish = false\n\n[lib]\ncrate-type = [\"cdylib\"]\n\n[dependencies]\n",
            self.name
        );
        crates.into_iter().for_each(|krate| text += &from(krate));
        match &self.origin {
            RowOrigin::Files(_) => {
                text += &format!("\n[build-dependencies]\n{}", from(("fulgurite-codegen", "codegen")))
            }
            RowOrigin::Crate(name, _) if name == "fulgurite" => {}
            RowOrigin::Crate(name, folder) => text += &format!("{name} = {{ path = {folder:?} }}\n"),
        }
        text + PROFILE
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

    /// The operators with their schemas.
    fn operators(&self) -> String {
        let mut text = format!(
            "\"\"\"The operators of the package, as PyTorch's dispatcher knows them.\n\nMade by `cargo ops export torch`. A name ends with a hash of its row, because compilers keep what they made of an\noperator by its name.\n\"\"\"\n\nimport os\n\nfrom ._runtime import Library, Operators\n\noperators = Operators(\"{name}\", Library(os.path.join(os.path.dirname(__file__), \"lib{name}.so\")))\n\n",
            name = self.name
        );
        for exported in &self.rows {
            let o = &exported.operator;
            let mut facts = String::new();
            if !o.differentiable {
                facts += ", differentiable=False";
            }
            if let Some(class) = autocast(o.autocast) {
                let _ = write!(facts, ", autocast=\"{class}\"");
            }
            let _ = writeln!(
                text,
                "{} = operators.row(\"{}\", \"{}_{}\", '{}', \"{}\"{facts})",
                o.name,
                o.row,
                o.name,
                hash(exported),
                o.schema(),
                o.letters(),
            );
        }
        text
    }

    /// The functions of the package.
    fn functions(&self) -> String {
        let mut text = format!(
            "\"\"\"Operators of `ops.yaml` for PyTorch.\n\nEvery function has derivatives of every order in both modes and batches (`torch.func`), and works under `torch.compile`\nand `torch.export`. Made by `cargo ops export torch`.\n\"\"\"\n\nfrom collections.abc import Sequence\nfrom typing import Literal\n\nimport torch\nfrom torch import Tensor\n\nfrom . import _ops\nfrom ._runtime import ints, tensor\n\n__all__ = [{}]\n",
            self.rows.iter().map(|r| format!("\"{}\"", r.operator.name)).collect::<Vec<_>>().join(", ")
        );
        for exported in &self.rows {
            let o = &exported.operator;
            let passed = |a: &OperatorArgument| match a.through {
                Some(function) => format!("{function}({})", a.name),
                None => a.name.clone(),
            };
            let arguments: Vec<String> = o.arguments.iter().map(passed).collect();
            let _ = write!(
                text,
                "\n\ndef {}({}) -> {}:\n    \"\"\"{}\"\"\"\n    return _ops.{}({})\n",
                o.name,
                o.parameters(),
                o.returns,
                docstring(exported),
                o.name,
                arguments.join(", ")
            );
        }
        text
    }

    fn tests(&self, set: &RowSet<'_>) -> String {
        let mut text = format!(
            "\"\"\"Tests of the operators: calls that were drawn when the package was made.\n\nRun `pytest`, or `python tests/test_ops.py [ROW ...]`.\n\"\"\"\n\nimport {name}\nfrom checks import Facts, run, t, tests, torch_dtype\n\nCALLS = {{\n",
            name = self.name
        );
        for exported in &self.rows {
            let (o, source) = (&exported.operator, exported.source);
            let smooth = o.differentiable && source.deviates.is_none();
            let _ = writeln!(
                text,
                "    \"{}\": (Facts(differentiable={}, once={}, autocast={}), [",
                o.name,
                if smooth { "True" } else { "False" },
                if source.once.is_some() { "True" } else { "False" },
                autocast(o.autocast).map_or("None".to_owned(), |class| format!("\"{class}\""))
            );
            for call in calls::drawn(source, exported.row, set) {
                let _ = writeln!(text, "        {call},");
            }
            text += "    ]),\n";
        }
        text + &format!(
            "}}\n\nglobals().update(tests({name}, CALLS))\n\nif __name__ == \"__main__\":\n    run({name}, CALLS)\n",
            name = self.name
        )
    }
}

/// The word for a class of autocast that changes dtypes.
fn autocast(class: Class) -> Option<&'static str> {
    (class != Class::None).then(|| class.word())
}

/// The hash of a row's signature, meaning and rules as they are printed.
fn hash(exported: &ExportedRow<'_>) -> String {
    let row = exported.row;
    let body = match &row.meaning {
        Meaning::Expr(body) | Meaning::View(body) | Meaning::Decomp(body) => body.to_string(),
        Meaning::Host(name) => name.to_string(),
    };
    let rules = row.vjp.iter().map(|(arg, rule)| format!("{arg}: {rule}"));
    let mut hasher = FxHasher::default();
    [row.sig.to_string(), body].into_iter().chain(rules).for_each(|text| text.hash(&mut hasher));
    format!("{:08x}", hasher.finish() as u32)
}

fn docstring(exported: &ExportedRow<'_>) -> String {
    let row = exported.row;
    let mut text = format!("{}.\n\n    {} {}\n", exported.source.doc.as_str(), row.op, row.sig);
    for r in &row.require {
        let _ = write!(text, "\n    Refused unless `{}`: {}.", r.cond, r.message);
    }
    for gradient in &exported.gradients {
        let _ = write!(text, "\n    Gradient by {gradient}.");
    }
    if let Some(reason) = &exported.source.no_grad {
        let _ = write!(text, "\n    No gradient: {}.", reason.as_str());
    }
    text = text.replace('\\', "\\\\").replace("\"\"\"", "\\\"\\\"\\\"");
    format!("{}\n    ", text.trim_end())
}

/// Profiles of the workspace of fulgurite, which cargo does not take over: without them path dependencies are compiled
/// with other settings.
const PROFILE: &str = "\n[workspace]\nresolver = \"1\"\n\n[profile.release]\ncodegen-units = 16\nstrip = true\n";
