//! CUDA C from the same expressions: pointwise kernels, and reductions with one team of threads per result.
//!
//! A unit stands on `core::builtins::CUDA_PRELUDE`, in front of which `FG` is defined as `__device__ __forceinline__`.

mod instance;
mod pointwise;
mod reduction;

use super::{Emitted, names};
use crate::check::walk;
use fulgurite_core::Name;
use fulgurite_core::lang::ast::Node;
use fulgurite_core::lower::Rows;
use fulgurite_core::nest::{SExpr, SOp};
use fulgurite_core::row::Meaning;
use serde::Serialize;
use std::sync::Arc;

/// A tensor of a kernel's head.
#[derive(Clone, PartialEq, Serialize)]
struct Tensor {
    ty: &'static str,
    rank: usize,
}

/// The CUDA C of each kernel of a row.
///
/// # Errors
/// Why the row has none: never a part of its kernels.
pub fn kernels(row: &Emitted, rows: &dyn Rows) -> Result<Vec<String>, String> {
    match &row.row.meaning {
        Meaning::Host(_) => Err("a primitive of the runtime".into()),
        Meaning::Decomp(_) => Err("a composite: the rows that it calls have kernels".into()),
        Meaning::Expr(_) | Meaning::View(_) if row.row.is_pointwise() => pointwise::kernels(row, rows),
        Meaning::Expr(_) | Meaning::View(_) if row.row.takes_key() => Err("it draws random numbers".into()),
        Meaning::Expr(body) | Meaning::View(body) => {
            let mut reduces = false;
            walk::block(body, &mut |e| reduces |= matches!(&*e.node, Node::Reduce(_)));
            if reduces {
                reduction::kernels(row, rows)
            } else {
                Err("neither pointwise nor a reduction: it moves elements".into())
            }
        }
    }
}

/// The CUDA C of a row.
///
/// # Errors
/// As [`kernels`].
pub fn unit(row: &Emitted, rows: &dyn Rows) -> Result<String, String> {
    Ok(names::head(&row.file) + &kernels(row, rows)?.join("\n"))
}

/// The rows for which there is no CUDA C, and why.
pub fn left_out(emitted: &[Emitted], rows: &dyn Rows) -> Vec<(Name, String)> {
    emitted.iter().filter_map(|row| Some((row.row.op, kernels(row, rows).err()?))).collect()
}

/// The text of a kernel from its template.
fn render(template: &str, kernel: &impl Serialize) -> Result<String, String> {
    let context = tera::Context::from_serialize(kernel).map_err(|e| e.to_string())?;
    tera::Tera::default().render_str(template, &context, false).map_err(|e| e.to_string())
}

/// `gelu_approximate_tanh_f32`
fn kernel_name(op: Name, variant: &str, dtype: &str) -> String {
    let variant: String = variant.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let parts = [names::stem(op), variant, dtype.to_owned()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("_")
}

/// The reductions of `e` that stand in no other, in the order in which they are met; each once.
fn reductions<'e>(e: &'e SExpr, found: &mut Vec<&'e SExpr>) {
    match e.op() {
        SOp::Reduce { .. } if found.iter().any(|other| Arc::ptr_eq(&other.0, &e.0)) => {}
        SOp::Reduce { .. } => found.push(e),
        _ => super::scalar::children(e).into_iter().for_each(|child| reductions(child, found)),
    }
}
