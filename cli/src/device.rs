//! Where programs run.

use crate::fault::Fault;
use fulgurite::executors::cuda::{Cuda, device};
use fulgurite::executors::{self, ExecError};
use std::sync::Arc;

/// Programs of the whole process run on this device from now on.
///
/// # Errors
/// E809: there is no such device, with what was looked for.
pub fn set(wanted: Option<&str>) -> Result<(), Fault> {
    let Some(name) = wanted.filter(|name| *name != "cpu") else { return Ok(()) };
    let device = device::named(name).map_err(fault)?;
    let mut all = executors::default();
    all.insert(0, Arc::new(Cuda::on(device)));
    executors::set_default(all);
    Ok(())
}

fn fault(e: ExecError) -> Fault {
    let fault = Fault::usage(e.code, e.message);
    match e.help {
        Some(help) => fault.help(help),
        None => fault,
    }
}
