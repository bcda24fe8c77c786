//! Runs a program on trees: takes buffers from leaves, and puts results into leaves.

use super::cache::{Entry, Ready};
use super::tracing::rebuild;
use crate::buffer::Buffer;
use crate::error::Error;
use crate::tensor::{Cell, CellKind, Key, Tensor, View};
use crate::tree::{LeafMut, Tree, VisitorMut, flatten_apart, rebuild_apart};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// Lists of buffers that the next call reuses; a nested call takes another list.
    static SCRATCH: RefCell<Vec<Vec<Buffer>>> = const { RefCell::new(Vec::new()) };
}

/// The buffers of a call's arguments.
pub(super) struct Inputs {
    buffers: Vec<Buffer>,
    /// The cells of arguments that the program writes and that other handles share.
    cells: SmallVec<[(usize, Arc<Cell>); 2]>,
    /// For a program that writes, the arguments that are views or have views.
    shared: Vec<Arc<Cell>>,
}

impl Drop for Inputs {
    fn drop(&mut self) {
        let mut list = std::mem::take(&mut self.buffers);
        list.clear();
        SCRATCH.with_borrow_mut(|free| {
            if free.len() < 4 {
                free.push(list);
            }
        });
    }
}

impl Inputs {
    fn new() -> Inputs {
        let buffers = SCRATCH.with_borrow_mut(Vec::pop).unwrap_or_default();
        Inputs { buffers, cells: SmallVec::new(), shared: Vec::new() }
    }

    /// Shares of the data of these leaves, which fit the entry.
    pub fn shares(entry: &Entry, leaves: &[&Tensor]) -> Inputs {
        let mut inputs = Inputs::new();
        inputs.add(leaves);
        inputs.keep_written(entry, 0, leaves);
        inputs
    }

    fn add(&mut self, leaves: &[&Tensor]) {
        // leaves that fit an entry are cells
        self.buffers.extend(leaves.iter().filter_map(|leaf| match leaf.view() {
            View::Cell(cell) => Some(cell.buffer()),
            _ => None,
        }));
    }

    /// Notes the cells among arguments `from..` that the program writes, and those with elements that other cells
    /// share.
    fn keep_written(&mut self, entry: &Entry, from: usize, leaves: &[&Tensor]) {
        if entry.program.written().next().is_some() {
            self.note_shared(leaves);
        }
        for at in entry.program.written_arguments() {
            if let Some(leaf) = at.checked_sub(from).and_then(|i| leaves.get(i))
                && let View::Cell(cell) = leaf.view()
            {
                self.cells.push((at, cell.clone()));
            }
        }
    }

    fn note_shared(&mut self, leaves: &[&Tensor]) {
        self.shared.extend(leaves.iter().filter_map(|leaf| match leaf.view() {
            View::Cell(cell) if cell.is_shared() => Some(cell.clone()),
            _ => None,
        }));
    }

    /// Runs the program.
    pub fn run(mut self, ready: &Ready) -> Result<Vec<Buffer>, Error> {
        self.run_here(ready)
    }

    fn run_here(&mut self, ready: &Ready) -> Result<Vec<Buffer>, Error> {
        let Inputs { buffers, cells, shared } = self;
        let cell = |i: usize| cells.iter().find(|(at, _)| *at == i).map(|(_, cell)| cell.clone());
        ready.entry.program.run(ready.plan.as_deref(), buffers, cell, shared)
    }
}

/// The leaves of a state whose data were taken out, to be replaced or returned.
struct Loan<'s> {
    leaves: SmallVec<[LeafMut<'s>; 24]>,
    inputs: Inputs,
    /// Whether leaf `i` has lent its data: bit `i % 64` of word `i / 64`.
    lent: SmallVec<[u64; 4]>,
}

impl<'s> Loan<'s> {
    /// Takes the data of leaves that are not shared, and shares of the others.
    fn take<S: Tree>(entry: &Entry, state: &'s mut S) -> Loan<'s> {
        let mut v = VisitorMut::default();
        state.visit_mut(&mut v);
        let mut loan = Loan { leaves: v.into_leaves(), inputs: Inputs::new(), lent: SmallVec::new() };
        loan.lent.resize(loan.leaves.len().div_ceil(64), 0);
        for (i, leaf) in loan.leaves.iter_mut().enumerate() {
            if let LeafMut::Owned(tensor) = leaf
                && let Some(cell) = tensor.cell_mut()
            {
                loan.inputs.buffers.push(cell.lend());
                loan.lent[i / 64] |= 1 << (i % 64);
            } else {
                loan.inputs.add(&[leaf.get()]);
            }
        }
        let kept: SmallVec<[(usize, Arc<Cell>); 2]> = entry
            .program
            .written_arguments()
            .filter_map(|at| match loan.leaves.get(at)?.get().view() {
                View::Cell(cell) if !loan.has_lent(at) => Some((at, cell.clone())),
                _ => None,
            })
            .collect();
        loan.inputs.cells = kept;
        if entry.program.written().next().is_some() {
            let leaves: Vec<&Tensor> = loan.leaves.iter().map(LeafMut::get).collect();
            loan.inputs.note_shared(&leaves);
        }
        loan
    }

    fn has_lent(&self, i: usize) -> bool {
        self.lent.get(i / 64).is_some_and(|word| word >> (i % 64) & 1 == 1)
    }

    /// Gives the error to the leaves over whose data the program had written when it failed: they have no value.
    #[cold]
    fn spoil(&mut self, error: &Error) {
        for i in 0..self.leaves.len() {
            let lent = self.has_lent(i);
            if let LeafMut::Owned(leaf) = &mut self.leaves[i]
                && let Some(cell) = leaf.cell_mut()
                && lent
                && self.inputs.buffers.get(i).is_some_and(|b| b.shape() != cell.sizes())
            {
                **leaf = Tensor::poisoned(error.clone().note("the state was half written: load a checkpoint"));
                self.lent[i / 64] &= !(1 << (i % 64));
            }
        }
    }

    /// Gives each leaf a new value.
    fn replace(mut self, values: &mut dyn Iterator<Item = (Buffer, CellKind)>) {
        for (leaf, (value, kind)) in self.leaves.iter_mut().zip(values) {
            let LeafMut::Owned(leaf) = leaf else { continue };
            match leaf.cell_mut() {
                Some(cell) => _ = cell.replace_mut(value),
                None => **leaf = Tensor::from_kind(kind, value),
            }
        }
        self.lent.clear();
    }
}

/// Lent data are returned, also if the program failed or panicked.
impl Drop for Loan<'_> {
    fn drop(&mut self) {
        for i in 0..self.leaves.len() {
            if self.has_lent(i)
                && let Some(buffer) = self.inputs.buffers.get(i).cloned()
                && let LeafMut::Owned(leaf) = &mut self.leaves[i]
                && let Some(cell) = leaf.cell_mut()
            {
                cell.give_back(buffer);
            }
        }
    }
}

/// Runs a program `(state, batch) → (state, result)` and replaces the old state by the new one.
pub(super) fn update<S, B, R>(ready: &Ready, state: &mut S, batch: B) -> Result<R, Error>
where
    S: Tree + 'static,
    B: Tree,
    R: Tree + 'static,
{
    let entry = &*ready.entry;
    let (next, rest) = entry.template::<(S, R)>()?;
    let mut loan = Loan::take(entry, state);
    let own = loan.leaves.len();
    {
        let v = flatten_apart(&batch);
        loan.inputs.add(v.leaves());
        loan.inputs.keep_written(entry, own, v.leaves());
    }
    drop(batch);
    let mut values = match loan.inputs.run_here(ready) {
        Ok(values) => values,
        Err(e) => {
            loan.spoil(&e);
            return Err(e);
        }
    };
    for &i in &entry.state.advance {
        let key = Key::from_handle(Tensor::from_kind(CellKind::Key, values[i].clone())).after();
        key.handle().check()?;
        if let View::Cell(cell) = key.handle().view() {
            values[i] = cell.buffer();
        }
    }
    let result = values.split_off(entry.state.leaves);
    let (kinds, result_kinds) = entry.kinds.split_at(entry.state.leaves);
    let mut values = values.into_iter().zip(kinds.iter().copied());
    if entry.state.in_place && loan.leaves.iter().all(|leaf| matches!(leaf, LeafMut::Owned(_))) {
        loan.replace(&mut values);
    } else {
        loan.lent.clear();
        drop(loan);
        let mut fresh = values.map(|(value, kind)| Tensor::from_kind(kind, value));
        *state = rebuild_apart(next, &mut fresh);
    }
    Ok(rebuild(rest, result_kinds, result.into_iter()))
}
