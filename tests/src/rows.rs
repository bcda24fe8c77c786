//! The databases under test, read in the way of the build.

use crate::oracle::Operand;
use fulgurite_codegen::check::gradients::arrays::dense::V;
use fulgurite_codegen::check::points;
use fulgurite_codegen::diag::render::{self, Style};
use fulgurite_codegen::files::Files;
use fulgurite_codegen::pipeline::{self, Compiled, Table};
use fulgurite_codegen::schema::{RowSource, interval};
use fulgurite_core::eval::loop_nest::Array;
use fulgurite_core::foreign::library;
use fulgurite_core::lang::ast::{Elem, Node};
use fulgurite_core::lang::walk;
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::signature::{Env, const_eval};
use fulgurite_core::{DType, DTypeSet, Name, Value};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, LazyLock, OnceLock};

/// A row, compiled, with its author's test hints.
pub struct TestRow {
    /// The compiled row, with derived rules.
    pub row: Arc<Row>,
    /// Intervals of test values by argument (the row's `tests: domain`).
    pub domain: Vec<(Name, (f64, f64))>,
    /// The arguments of its points, in the order of the signature.
    pub points: Vec<Vec<Value<Operand<f64>>>>,
    /// Whether the row is one of an importer: such rows are mostly programs of rows that are tested themselves, so a few
    /// calls show whether they are put together rightly.
    pub imports: bool,
    /// Whether calls of the row are found by drawing, once that was tried.
    pub drawn: OnceLock<bool>,
}

impl TestRow {
    /// A row of any linked database, without hints.
    pub fn of(row: &Row) -> TestRow {
        let (domain, points) = (Vec::new(), Vec::new());
        TestRow { row: Arc::new(row.clone()), domain, points, imports: false, drawn: OnceLock::new() }
    }

    /// Whether its signature names storage dtypes, for which devices have no kernels.
    pub fn names_storage(&self) -> bool {
        let storage = |e: &Elem| matches!(e, Elem::Class(c) if DTypeSet::from_class(c.as_str()).is_some_and(|s| s.iter().all(DType::is_storage)));
        let sig = &self.row.sig;
        let types = sig.params.iter().map(|p| &p.ty).chain(sig.outs.iter().map(|o| &o.ty));
        types.flat_map(|ty| &ty.elem).any(storage)
    }

    /// Whether some call may refuse at run time.
    pub fn may_refuse(&self) -> bool {
        fulgurite::symbol::find(self.row.op).is_some_and(|symbol| symbol.may_refuse())
    }

    /// Whether its meaning detaches a value from the gradient.
    pub fn detaches(&self) -> bool {
        let mut found = false;
        if let Meaning::Decomp(block) | Meaning::Expr(block) | Meaning::View(block) = &self.row.meaning {
            walk::block(block, &mut |e| found |= matches!(&*e.node, Node::Call(f, _) if f.name == "detach"));
        }
        found
    }

    /// Whether calls in `dtype` may be accepted; options can still exclude it.
    pub fn takes(&self, dtype: DType) -> bool {
        let set = self.row.dtypes.as_ref().and_then(|e| const_eval::dtype_set(&Env::default(), e).ok());
        set.is_none_or(|set| set.contains(dtype))
    }

    /// `dtype`, or `None` (any dtype) if the row does not take it.
    pub fn preferred(&self, dtype: DType) -> Option<DType> {
        self.takes(dtype).then_some(dtype)
    }
}

/// Every row of the databases.
pub struct Rows {
    /// The rows of the files, in their order.
    pub source: Vec<TestRow>,
    /// These rows and the derived ones, by name.
    pub table: Table,
    by_name: HashMap<Name, usize>,
}

impl Rows {
    /// The row called `name`, if a file has it.
    pub fn get(&self, name: &str) -> Option<&TestRow> {
        self.by_name.get(&Name::new(name)).map(|&i| &self.source[i])
    }

    /// Whether the gradient of a row is the derivative of its meaning: neither the row nor one that it calls declares
    /// otherwise (`deviates`, `no_grad`, `detach`).
    pub fn is_derivative(&self, name: &str) -> bool {
        let Some(row) = self.get(name) else { return false };
        if row.row.deviates.is_some() || row.row.no_grad.is_some() || name == "detach" {
            return false;
        }
        let (Meaning::Decomp(block) | Meaning::Expr(block) | Meaning::View(block)) = &row.row.meaning else {
            return false;
        };
        let mut holds = true;
        walk::block(block, &mut |e| {
            if let Node::Call(f, _) = &*e.node
                && self.get(f.name.as_str()).is_some()
                && f.name != row.row.op
            {
                holds = holds && self.is_derivative(f.name.as_str());
            }
            holds &= !matches!(&*e.node, Node::Call(f, _) if f.name == "detach");
        });
        holds
    }
}

/// The databases of fulgurite, of PyTorch's calls and of ONNX's operators.
///
/// # Panics
/// If one does not compile: then nothing can be tested, and the report is the best message.
pub fn rows() -> &'static Rows {
    static ROWS: LazyLock<Rows> = LazyLock::new(|| {
        let own = files(env!("FULGURITE_DATABASE"), "ops.yaml");
        let upstream = pipeline::read_rows(&own.rows.text, "ops.yaml").unwrap_or_else(|report| panic!("{report}"));
        let pytorch = files(env!("FULGURITE_PYTORCH_DATABASE"), "compat/pytorch/ops.yaml");
        let onnx = files(env!("FULGURITE_ONNX_DATABASE"), "compat/onnx/ops.yaml");
        let own = compiled(&own, &Table::default());
        let downstream = [compiled(&pytorch, &upstream), compiled(&onnx, &upstream)];
        let mut source: Vec<TestRow> = [&own].into_iter().chain(&downstream).flat_map(collect).collect();
        source.iter_mut().for_each(|row| row.imports = library(row.row.op.as_str()) == Some("onnx"));
        let by_name = source.iter().enumerate().map(|(i, r)| (r.row.op, i)).collect();
        let mut table = own.table();
        downstream.iter().flat_map(|d| &d.rows).for_each(|row| table.insert(row.row.clone()));
        Rows { source, table, by_name }
    });
    &ROWS
}

/// The database at `path`. A published package has no files of points.
fn files(path: &str, shown: &str) -> Files {
    let files = Files::rows(Path::new(path), shown).and_then(|files| {
        if files.folder().is_some_and(|folder| folder.is_dir()) { files.with_points() } else { Ok(files) }
    });
    files.unwrap_or_else(|(path, e)| panic!("{}: {e}", path.display()))
}

fn compiled(files: &Files, upstream: &Table) -> Compiled {
    pipeline::compile_files(files, upstream).unwrap_or_else(|refused| {
        let style = Style { color: false, width: 100 };
        panic!("{}", render::text(&refused.diagnostics, &refused.sources, style))
    })
}

fn collect(compiled: &Compiled) -> Vec<TestRow> {
    let row = |hints: &RowSource| {
        let emitted = compiled.rows.iter().find(|r| r.row.op == hints.name())?;
        let (row, domain) = (emitted.row.clone(), domains(hints));
        let points = points::arguments(hints, &row).map(|args| args.iter().map(|arg| arg.map(&mut operand)).collect());
        let points = points.collect();
        Some(TestRow { row, domain, points, imports: false, drawn: OnceLock::new() })
    };
    compiled.database.rows.iter().filter_map(row).collect()
}

fn operand(value: &V<f64>) -> Operand<f64> {
    match value {
        V::Array(a) => Operand::Tensor(Array::clone(a)),
        V::Key(key) => Operand::Key(key.map(i64::cast_unsigned)),
    }
}

/// The hints `lo..hi` of a row.
fn domains(hints: &RowSource) -> Vec<(Name, (f64, f64))> {
    let stated = hints.tests.domain.iter();
    stated.filter_map(|(arg, text)| Some((Name::new(arg.as_str()), interval(text.as_str()).ok()?))).collect()
}
