//! Trees in files: safetensors files are written as a whole or not at all, and every claim of a file is checked on
//! reading.
//!
//! The name of a leaf is its path (`blocks.2.qkv.w`), so other programs find it. Fixed parts are texts in the metadata
//! and are compared when a file is loaded. Keys are `i64[2]`.
//!
//! **Invariant:** [`load`] changes nothing unless everything fits. A file's sizes are used only after they agree with
//! each other and with the file's length, and nothing is allocated before that.

mod header;
mod read;
mod write;

#[cfg(test)]
mod tests;

pub use header::{Entry, Header};

use crate::buffer::Buffer;
use crate::error::{Error, ErrorKind};
use crate::tensor::{CellKind, Tensor, View};
use crate::tree::{Detail, Tree, describe_apart, rebuild_apart};
use fulgurite_core::{DType, TensorTy};
use std::collections::BTreeMap;
use std::path::Path;

/// The version of the metadata that this crate writes, `fulgurite.format`.
const FORMAT: &str = "1";
/// The key of the fixed parts in the metadata: one JSON object from path to debug print.
const FIXED: &str = "fulgurite.fixed";

/// Texts stored with the tensors: a step, a configuration, the name of the data.
pub type Metadata = BTreeMap<String, String>;

/// Options of [`load_with`] for differences.
#[derive(Clone, Debug)]
pub struct Load {
    /// Whether fixed parts (such as a number of heads) must be those of the file; otherwise the tree keeps its own.
    pub fixed: bool,
}

impl Default for Load {
    fn default() -> Load {
        Load { fixed: true }
    }
}

/// Writes a tree to a file and replaces an old file atomically: a reader sees the old file or the new one.
///
/// # Errors
/// The error of a poisoned leaf; E742 for a traced one; E904 if the file can't be written (an old file stays).
#[track_caller]
pub fn save<T: Tree>(path: impl AsRef<Path>, tree: &T) -> Result<(), Error> {
    save_with(path, tree, &Metadata::new())
}

/// Like [`save`], with metadata. Names that start with `fulgurite.` are reserved.
///
/// # Errors
/// Reports the errors of [`save`].
#[track_caller]
pub fn save_with<T: Tree>(path: impl AsRef<Path>, tree: &T, metadata: &Metadata) -> Result<(), Error> {
    let (leaves, detail) = describe_apart(tree);
    let mut parts = Vec::with_capacity(leaves.len());
    for (leaf, path) in leaves.iter().zip(&detail.paths) {
        let buffer = leaf.buffer().map_err(|e| e.note(format!("while saving `{}`", name_of(path))))?;
        parts.push((name_of(path).to_owned(), buffer));
    }
    let mut all = metadata.clone();
    all.insert("fulgurite.format".into(), FORMAT.into());
    all.insert(FIXED.into(), header::object(&fixed_parts(&detail)));
    write::write(path.as_ref(), parts, &all)
}

/// Reads a tree of the structure of `tree` from a file, and returns the metadata.
///
/// # Errors
/// E901 if the file is truncated, E902 if it is not a safetensors file or contradicts itself, E904 if it can't be read,
/// E905 if its tensors or fixed parts are not those of the tree. After an error the tree is unchanged.
pub fn load<T: Tree>(path: impl AsRef<Path>, tree: &mut T) -> Result<Metadata, Error> {
    load_with(path, tree, &Load::default())
}

/// Like [`load`], with options.
///
/// # Errors
/// Reports the errors of [`load`].
pub fn load_with<T: Tree>(path: impl AsRef<Path>, tree: &mut T, options: &Load) -> Result<Metadata, Error> {
    let path = path.as_ref();
    let (mut file, header) = read::File::open(path)?;
    let (leaves, detail) = describe_apart(tree);
    let mut wanted = Vec::with_capacity(leaves.len());
    for (leaf, path) in leaves.iter().zip(&detail.paths) {
        let ty = stored_type(leaf)?;
        wanted.push((name_of(path), TensorTy { dtype: header::held_as(ty.dtype), ..ty }));
    }
    let mut differences = header.differences(&wanted);
    if options.fixed {
        differences.extend(fixed_differences(&header.metadata, &detail));
    }
    if !differences.is_empty() {
        return Err(mismatch(path, &differences));
    }
    let entries = header.by_name();
    let mut fresh = Vec::with_capacity(leaves.len());
    for (leaf, (name, _)) in leaves.iter().zip(&wanted) {
        let entry = entries.get(name).ok_or_else(|| file_error("E904", path, format!("has no tensor `{name}`")))?;
        let kind = match leaf.view() {
            View::Cell(cell) => cell.kind(),
            _ => CellKind::Tensor,
        };
        fresh.push(Tensor::from_kind(kind, held(file.tensor(entry)?, leaf.dtype())?));
    }
    *tree = rebuild_apart(tree, &mut fresh.into_iter());
    let own = |name: &String| name.starts_with("fulgurite.");
    Ok(header.metadata.into_iter().filter(|(name, _)| !own(name)).collect())
}

/// The elements of a buffer that a file held as another dtype, such as integers of four bits, which are bytes there.
fn held(buffer: Buffer, dtype: DType) -> Result<Buffer, Error> {
    if buffer.dtype() == dtype || buffer.dtype() != header::held_as(dtype) {
        return Ok(buffer);
    }
    Buffer::from_bytes(dtype, buffer.shape(), buffer.as_bytes()).map_err(|e| Error::new("E904", e.to_string()))
}

/// A tensor of [`tensors`] as one of `dtype`, if a file holds numbers of that dtype as those of the tensor's: integers of
/// four bits stand in bytes. Any other tensor is returned as it is.
///
/// # Errors
/// Reports the errors of [`Tensor::buffer`].
pub fn as_held(tensor: &Tensor, dtype: DType) -> Result<Tensor, Error> {
    Ok(Tensor::from_buffer(held(tensor.buffer()?, dtype)?))
}

/// All tensors of a safetensors file by their names, for a program that has no tree of their structure.
///
/// # Errors
/// The errors of [`load`] except for E905.
pub fn tensors(path: impl AsRef<Path>) -> Result<BTreeMap<String, Tensor>, Error> {
    let (mut file, header) = read::File::open(path.as_ref())?;
    header
        .entries
        .into_iter()
        .map(|entry| Ok((entry.name.clone(), Tensor::from_buffer(file.tensor(&entry)?))))
        .collect()
}

/// The header of a file; its data are not read.
///
/// # Errors
/// The errors of [`load`] except for E905.
pub fn inspect(path: impl AsRef<Path>) -> Result<Header, Error> {
    Ok(read::File::open(path.as_ref())?.1)
}

/// The name of a leaf: its path; a tree that is one leaf has no path.
fn name_of(path: &str) -> &str {
    if path.is_empty() { "value" } else { path }
}

fn stored_type(leaf: &Tensor) -> Result<TensorTy, Error> {
    match leaf.view() {
        View::Cell(cell) => Ok(TensorTy::new(cell.dtype(), cell.sizes())),
        View::Poison(e) => Err(e.clone()),
        View::Wrapped(_) => Err(Error::bug("E709", "a tensor of a subclass is stored by its fields")),
        View::Traced(_) => match leaf.dtype() {
            // a traced key has the type of every key
            DType::I64 if leaf.rank() == 0 => Ok(TensorTy::new(DType::I64, &[2usize])),
            _ => Err(Error::new("E742", "a traced tree can't be loaded into")),
        },
    }
}

fn fixed_parts(detail: &Detail) -> Metadata {
    detail.fixed.iter().cloned().collect()
}

/// The fixed parts that differ. A file of another program has none, and fits.
fn fixed_differences(metadata: &Metadata, detail: &Detail) -> Vec<String> {
    let Some(theirs) = metadata.get(FIXED).and_then(|text| header::parse_object(text)) else { return Vec::new() };
    let ours = fixed_parts(detail);
    let differ = ours.iter().filter_map(|(path, here)| match theirs.get(path) {
        Some(there) if there != here => Some(format!("fixed part `{path}` is {there} in the file, {here} here")),
        _ => None,
    });
    differ.collect()
}

/// At most this many differences are listed in an error, because a tree may have very many leaves.
const LISTED: usize = 20;

fn mismatch(path: &Path, differences: &[String]) -> Error {
    let n = differences.len();
    let plural = if n == 1 { "difference" } else { "differences" };
    let mut error = file_error("E905", path, format!("holds another model: {n} {plural}"));
    for difference in differences.iter().take(LISTED) {
        error = error.note(difference.clone());
    }
    if n > LISTED {
        error = error.note(format!("and {} more", n - LISTED));
    }
    unchanged(error)
}

/// An error that begins with ``checkpoint `path` ``.
fn file_error(code: &'static str, path: &Path, what: impl std::fmt::Display) -> Error {
    let shown = path.display().to_string();
    Error::new(code, format!("checkpoint `{shown}` {what}")).kind_is(ErrorKind::File { path: shown })
}

fn unchanged(error: Error) -> Error {
    error.note("nothing was loaded; the model in memory is unchanged")
}

/// A number with grouped digits: 6291456 is `6,291,456`.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
