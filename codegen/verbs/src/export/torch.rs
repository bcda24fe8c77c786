//! The files of a package for PyTorch.

use super::PackageFile;
use super::operator::{Operator, OperatorArgument};
use super::package::{ExportedPackage, ExportedRow, FrameworkHalf};
use fulgurite_codegen::check::rows::RowSet;
use fulgurite_core::row::{Class, Meaning};
use rustc_hash::FxHasher;
use std::fmt::Write;
use std::hash::{Hash, Hasher};

/// The beginning of the module of functions.
const INTRO: &str = r#""""Operators of `ops.yaml` for PyTorch.

Every function has derivatives of every order in both modes and batches (`torch.func`), and works under `torch.compile`
and `torch.export`. Made by `cargo ops export torch`.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from . import _ops
from ._runtime import ints, tensor
"#;

/// The files of the package; `set` has all rows, for the calls of its tests.
pub fn files(package: &ExportedPackage<'_>, set: &RowSet<'_>) -> Vec<PackageFile> {
    let half = FrameworkHalf {
        title: "PyTorch",
        requires: "torch>=2.13",
        modules: vec![
            ("__init__.py", package.functions(INTRO, "", call)),
            ("_ops.py", operators(package)),
            ("_runtime.py", include_str!("_runtime.py").to_owned()),
        ],
        checks: include_str!("checks.py"),
    };
    let class = |row: &ExportedRow<'_>| {
        autocast(row.operator.autocast).map_or("None".to_owned(), |class| format!("\"{class}\""))
    };
    package.files(half, set, |row| format!("{}, autocast={}", row.facts(), class(row)))
}

/// The call of an operator by its function.
fn call(o: &Operator) -> String {
    let passed = |a: &OperatorArgument| match a.through {
        Some(function) => format!("{function}({})", a.name),
        None => a.name.clone(),
    };
    let arguments: Vec<String> = o.arguments.iter().map(passed).collect();
    format!("_ops.{}({})", o.name, arguments.join(", "))
}

/// The operators with their schemas.
fn operators(package: &ExportedPackage<'_>) -> String {
    let mut text = format!(
        "\"\"\"The operators of the package, as PyTorch's dispatcher knows them.\n\nMade by `cargo ops export torch`. A name ends with a hash of its row, because compilers keep what they made of an\noperator by its name.\n\"\"\"\n\nimport os\n\nfrom ._runtime import Operators, TorchLibrary\n\n_rows = Operators(\"{name}\", TorchLibrary(os.path.join(os.path.dirname(__file__), \"lib{name}.so\")))\n\n",
        name = package.name
    );
    for exported in &package.rows {
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
            "{} = _rows.row(\"{}\", \"{}_{}\", '{}', \"{}\"{facts})",
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
