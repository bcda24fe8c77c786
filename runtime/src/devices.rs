//! Tensors on devices: moves trees to a device and back.
//!
//! Programs leave their results where they were made, and fetch inputs that are elsewhere, so no tensor has to be moved
//! by hand. Moving pays for parameters that every call reads: they are sent once, and not at each call.

use crate::buffer::Buffer;
use crate::error::Error;
use crate::executors::cuda;
use crate::tensor::{Tensor, View};
use crate::tree::{self, Tree};

/// The tree with every tensor in the memory of the device with this name (`cuda`, `cuda:1`, `host`); a tensor that is
/// there already is shared.
///
/// # Errors
/// E809 if there is no such device; E806 or E807 if it has no memory or fails; the first error that a leaf carries;
/// E742 for a traced leaf.
#[track_caller]
pub fn to_device<T: Tree>(tree: &T, name: &str) -> Result<T, Error> {
    let device = cuda::device::named(name).map_err(cuda_error)?;
    moved(tree, |buffer| cuda::to_device(&device, buffer).map_err(cuda_error))
}

/// The tree with every tensor in host memory.
///
/// # Errors
/// E743 if a device can't return the data; the first error that a leaf carries; E742 for a traced leaf.
#[track_caller]
pub fn to_host<T: Tree>(tree: &T) -> Result<T, Error> {
    moved(tree, |buffer| buffer.here().map_err(|e| Error::new("E743", e.to_string())))
}

fn cuda_error(e: crate::executors::ExecError) -> Error {
    let error = Error::new(e.code, e.message);
    match e.help {
        Some(help) => error.help(help),
        None => error,
    }
}

#[track_caller]
fn moved<T: Tree>(tree: &T, to: impl Fn(&Buffer) -> Result<Buffer, Error>) -> Result<T, Error> {
    let v = tree::flatten_apart(tree);
    let one = |leaf: &&Tensor| match leaf.view() {
        View::Cell(cell) => Ok(Tensor::from_kind(cell.kind(), to(&cell.buffer())?)),
        _ => leaf.data().map(Tensor::from_buffer),
    };
    let leaves = v.leaves().iter().map(one).collect::<Result<Vec<_>, _>>()?;
    Ok(tree::rebuild_apart(tree, &mut leaves.into_iter()))
}
