//! The device on which programs run.

use fulgurite::Tree;
use fulgurite::executors::{self, ExecError, cuda};
use std::sync::OnceLock;

/// The device on which programs run, if it is not the processor.
static CHOSEN: OnceLock<String> = OnceLock::new();

/// Sets the device on which all programs of the process run.
///
/// # Errors
/// E809: there is no such device, with the places that were searched.
pub fn set(wanted: Option<&str>) -> Result<(), ExecError> {
    let Some(name) = wanted.filter(|name| *name != "cpu") else { return Ok(()) };
    executors::set_default(cuda::first(name)?);
    CHOSEN.get_or_init(|| name.to_owned());
    Ok(())
}

/// Moves a tree to the memory of the device on which programs run.
///
/// # Errors
/// E806, E807: the device has no memory for it, or fails.
pub fn hold<T: Tree>(tree: T) -> fulgurite::Result<T> {
    match CHOSEN.get() {
        Some(name) => fulgurite::to_device(&tree, name),
        None => Ok(tree),
    }
}
