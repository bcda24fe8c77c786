//! The frame around a program that a machine enters.

use crate::Name;
use crate::signature::Refusal;

/// Runs `f`, which enters the program of the row `op`. `depth` counts the programs that `machine` is in. More than
/// `deepest` of them are refused, because each is a frame of the stack, and a circle of calls has no end.
///
/// # Errors
/// E010 for a call that is too deep, or the error of `f`.
pub fn one_deeper<M, R, E: From<Refusal>>(
    machine: &mut M,
    depth: impl Fn(&mut M) -> &mut usize,
    deepest: usize,
    op: Name,
    f: impl FnOnce(&mut M) -> Result<R, E>,
) -> Result<R, E> {
    if *depth(machine) > deepest {
        return Err(Refusal::new("E010", format!("`{op}` is called too deep")).into());
    }
    *depth(machine) += 1;
    let result = f(machine);
    *depth(machine) -= 1;
    result
}
