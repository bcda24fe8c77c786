//! Where programs run.

use crate::fault::Fault;
use fulgurite::executors::{self, ExecError, cuda};

/// Programs of the whole process run on this device from now on.
///
/// # Errors
/// E809: there is no such device, with what was looked for.
pub fn set(wanted: Option<&str>) -> Result<(), Fault> {
    let Some(name) = wanted.filter(|name| *name != "cpu") else { return Ok(()) };
    executors::set_default(cuda::first(name).map_err(fault)?);
    Ok(())
}

fn fault(e: ExecError) -> Fault {
    let fault = Fault::usage(e.code, e.message);
    match e.help {
        Some(help) => fault.help(help),
        None => fault,
    }
}
