//! The rules for structure and types in choices and loops.

use super::super::derivatives::types;
use crate::error::Error;
use crate::tensor::Tensor;
use crate::trace::ProxyTy;
use crate::tree::{Tree, describe, flatten};
use fulgurite_core::Dim;
use fulgurite_core::loc::Loc;

/// The size of the first axis of tensors.
///
/// # Errors
/// E758 if there is no such size.
pub(super) fn first_axis(xs: &[&Tensor], loc: Loc) -> Result<Dim, Error> {
    let mut first: Option<Dim> = None;
    for x in xs {
        let size = x.shape().first().copied().filter(|_| matches!(x.ty(), Some(ProxyTy::Tensor(_))));
        let agrees = match (size, first) {
            (Some(size), Some(first)) => size.same(first),
            (size, _) => size.is_some(),
        };
        if !agrees {
            let (ty, wanted) = (x.type_text(), first.map_or("a first axis".to_owned(), |n| format!("{n} slices")));
            return Err(Error::new("E758", format!("a `scan` is given {ty}"))
                .note(format!("expected {wanted}, found {ty}"))
                .help("all tensors that a scan slices have one first axis; capture what every step reads whole")
                .at(loc));
        }
        first = first.or(size);
    }
    first.ok_or_else(|| {
        Error::new("E758", "a `scan` is given nothing to slice").help("use `scan_n`, which takes the number").at(loc)
    })
}

/// The error of a condition of this type.
pub(super) fn no_truth(ty: &str, loc: Loc) -> Error {
    Error::new("E758", format!("a condition is {ty}, and must be bool[]"))
        .help("reduce it to one truth value: `all` or `any`")
        .at(loc)
}

/// Refuses trees of different structure.
///
/// # Errors
/// E748.
pub(super) fn same_structure<T: Tree>(a: &T, b: &T, what: &str, loc: Loc) -> Result<(), Error> {
    let ((_, a), (_, b)) = (describe(a), describe(b));
    if a.paths == b.paths {
        return Ok(());
    }
    let text = |paths: &[std::sync::Arc<str>]| format!("{} tensors [{}]", paths.len(), paths.join(", "));
    let claim = format!("{what} differ in structure: {} and {}", text(&a.paths), text(&b.paths));
    Err(Error::new("E748", claim).help("return the same tree from both").at(loc))
}

/// Refuses carries that a step changes in structure or types.
///
/// # Errors
/// E748 and E758.
pub(super) fn steady<T: Tree>(before: &T, after: &T, name: &str, loc: Loc) -> Result<(), Error> {
    same_structure(before, after, &format!("the carries of a `{name}`, before and after a step,"), loc)?;
    keeps_types(&types(flatten(before).leaves()), after, name, loc)
}

/// Refuses carries of other types than those before a step.
///
/// # Errors
/// E748 and E758.
pub(super) fn keeps_types<T: Tree>(before: &[Option<ProxyTy>], after: &T, name: &str, loc: Loc) -> Result<(), Error> {
    let (leaves, detail) = describe(after);
    if leaves.len() != before.len() {
        let claim = format!("a `{name}` has {} carries, and a step makes {}", before.len(), leaves.len());
        return Err(Error::new("E748", claim).help("return the same tree").at(loc));
    }
    let same = |a: &ProxyTy, b: &ProxyTy| match (a, b) {
        (ProxyTy::Tensor(a), ProxyTy::Tensor(b)) => {
            let axes = || a.ty.shape.iter().zip(&b.ty.shape).all(|(a, b)| a.same(*b));
            a.ty.dtype == b.ty.dtype && a.ty.rank() == b.ty.rank() && axes()
        }
        (a, b) => a == b,
    };
    for ((want, leaf), path) in before.iter().zip(&leaves).zip(&detail.paths) {
        let (Some(want), Some(have)) = (want, leaf.ty()) else { continue };
        if !same(want, &have) {
            let of = if path.is_empty() { "the carry".to_owned() } else { format!("the carry `{path}`") };
            return Err(Error::new("E758", format!("{of} of a `{name}` is {want}, and a step makes it {have}"))
                .note(format!("expected {want}, found {have}"))
                .help("a carry keeps its dtype and its sizes: cast or reshape one of the two")
                .at(loc));
        }
    }
    Ok(())
}
