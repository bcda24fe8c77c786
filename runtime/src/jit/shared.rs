//! Writes to tensors in memory, which every view of the written elements sees.
//!
//! A view that is taken outside of traces has a buffer of its own. A write to it goes to the tensor at the root of the
//! view, and every other view of that tensor is taken again. The elements of a view are found by taking the view of the
//! positions 0, 1, 2, …, as a trace does.

use crate::buffer::Buffer;
use crate::error::Error;
use crate::tensor::{Cell, ViewCall, shows_twice};
use std::sync::Arc;

/// Takes a view again, of another base.
pub(crate) type Retake<'a> = &'a dyn Fn(&ViewCall, Buffer) -> Result<Buffer, Error>;

/// Runs code that writes to these cells while no other thread writes them, and stores its results: a value to return,
/// and a value for each cell. `read` are other cells that the program has as inputs.
///
/// # Errors
/// E749 if two of the cells, or one of them and one that is read, show the same elements; E714 if a view shows an
/// element twice; errors of `run`. Nothing is written then.
pub(crate) fn write<T>(
    cells: &[Arc<Cell>],
    read: &[Arc<Cell>],
    retake: Retake<'_>,
    run: impl FnOnce() -> Result<(T, Vec<Buffer>), Error>,
) -> Result<T, Error> {
    apart(cells, read)?;
    let mut roots: Vec<&Arc<Cell>> = cells.iter().map(Cell::root).collect();
    // all threads lock in one order
    roots.sort_by_key(|root| Arc::as_ptr(root));
    roots.dedup_by(|a, b| Arc::ptr_eq(a, b));
    exclusively(&roots, || {
        let (result, values) = run()?;
        let mut found = Vec::new();
        for (cell, value) in cells.iter().zip(values) {
            family(cell, value, retake, &mut found)?;
        }
        found.into_iter().for_each(|(cell, value)| _ = cell.replace(value));
        Ok(result)
    })
}

fn exclusively<T>(roots: &[&Arc<Cell>], f: impl FnOnce() -> T) -> T {
    match roots {
        [] => f(),
        [first, rest @ ..] => first.exclusively(|| exclusively(rest, f)),
    }
}

/// Refuses a program that writes a cell and has another one of the written elements as input, because they are two
/// tensors to the program.
fn apart(cells: &[Arc<Cell>], read: &[Arc<Cell>]) -> Result<(), Error> {
    for (i, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.is_shared()) {
        let others = cells[i + 1..].iter().chain(read);
        let clash = |other: &&Arc<Cell>| !Arc::ptr_eq(other, cell) && Arc::ptr_eq(other.root(), cell.root());
        if others.into_iter().any(|other| clash(&other)) {
            let claim = "a compiled function writes a tensor, and has a view of the same elements as another input";
            return Err(Error::new("E749", claim)
                .note("inside of the function they are two tensors, so the one would not see what is written to the other")
                .help("pass the tensor alone, and take the view inside of the function"));
        }
    }
    Ok(())
}

/// Collects the new values of every cell that shows elements of a written cell.
fn family(
    cell: &Arc<Cell>,
    value: Buffer,
    retake: Retake<'_>,
    found: &mut Vec<(Arc<Cell>, Buffer)>,
) -> Result<(), Error> {
    let start = found.len();
    let (mut at, mut value) = (cell.clone(), value);
    while let Some((alias, base)) = at.origin() {
        let whole = replaced(alias, base.buffer(), &value, retake)?;
        let base = base.clone();
        found.push((at, value));
        (at, value) = (base, whole);
    }
    views(&at, &value, retake, found, start)?;
    found.push((at, value));
    Ok(())
}

/// Collects the views of a base that has this value now, except for those that are known from `start` on.
fn views(
    base: &Arc<Cell>,
    value: &Buffer,
    retake: Retake<'_>,
    found: &mut Vec<(Arc<Cell>, Buffer)>,
    start: usize,
) -> Result<(), Error> {
    let mut open = vec![(base.clone(), value.clone())];
    while let Some((base, value)) = open.pop() {
        for view in base.live_views() {
            let known = found[start..].iter().find(|(cell, _)| Arc::ptr_eq(cell, &view));
            let own = match (known.map(|(_, value)| value.clone()), view.origin()) {
                (Some(value), _) => value,
                (None, Some((alias, _))) => {
                    let value = retake(alias, value.clone())?;
                    found.push((view.clone(), value.clone()));
                    value
                }
                (None, None) => continue,
            };
            open.push((view, own));
        }
    }
    Ok(())
}

/// The tensor `whole`, in which the elements that a view shows are replaced by `part`.
fn replaced(alias: &ViewCall, whole: Buffer, part: &Buffer, retake: Retake<'_>) -> Result<Buffer, Error> {
    let failed = |e: &dyn std::fmt::Display| Error::new("E743", e.to_string());
    let count: Vec<i64> = (0..whole.len() as i64).collect();
    let positions = Buffer::from_slice(&count, whole.shape()).map_err(|e| failed(&e))?;
    let shown = retake(alias, positions)?;
    let shown = shown.as_slice::<i64>().unwrap_or_default();
    let mut seen = vec![false; whole.len()];
    if shown.iter().any(|at| std::mem::replace(&mut seen[*at as usize], true)) {
        return Err(shows_twice(alias.symbol.name()));
    }
    let mut bytes = whole.as_bytes().to_vec();
    let size = whole.dtype().size();
    for (at, element) in shown.iter().zip(part.as_bytes().chunks_exact(size)) {
        let at = *at as usize * size;
        bytes[at..at + size].copy_from_slice(element);
    }
    Buffer::from_bytes(whole.dtype(), whole.shape(), &bytes).map_err(|e| failed(&e))
}
