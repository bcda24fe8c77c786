//! The files of a package for JAX.

use super::PackageFile;
use super::operator::Operator;
use super::package::{ExportedPackage, FrameworkHalf};
use fulgurite_codegen::check::rows::RowSet;

/// The beginning of the module of functions.
const INTRO: &str = r#""""Operators of `ops.yaml` for JAX.

Every function has derivatives of every order in both modes (`jax.grad`, `jax.jvp`) and batches (`jax.vmap`), and works
under `jax.jit` and `jax.export`. Made by `cargo ops export jax`.
"""

import os
from collections.abc import Sequence
from typing import Literal

from jax import Array
from jax.typing import ArrayLike, DTypeLike

from ._runtime import Operators
"#;

/// The files of the package; `set` has all rows, for the calls of its tests.
pub fn files(package: &ExportedPackage<'_>, set: &RowSet<'_>) -> Vec<PackageFile> {
    let name = &package.name;
    let setup = format!("\n_rows = Operators(\"{name}\", os.path.join(os.path.dirname(__file__), \"lib{name}.so\"))\n");
    let half = FrameworkHalf {
        title: "JAX",
        requires: "jax>=0.10",
        modules: vec![
            ("__init__.py", package.functions(INTRO, &setup, call)),
            ("_runtime.py", include_str!("_jax_runtime.py").to_owned()),
        ],
        checks: include_str!("jax_checks.py"),
    };
    package.files(half, set, |row| row.facts())
}

/// The call of a row by its function.
fn call(o: &Operator) -> String {
    let arguments: String = o.arguments.iter().map(|a| format!(", {}", a.name)).collect();
    let results = format!("_rows.call(\"{}\", \"{}\"{arguments})", o.row, o.letters());
    match o.results.as_str() {
        "Tensor" => results + "[0]",
        "Tensor[]" => results,
        _ => format!("tuple({results})"),
    }
}
