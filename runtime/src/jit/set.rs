//! Replaces the data of a tensor in memory.

use super::eager::retake;
use super::shared;
use crate::error::Error;
use crate::tensor::{Tensor, View};
use fulgurite_core::loc::Loc;

impl Tensor {
    /// Replaces the tensor's data by that of `value`. Every clone of the handle, every view of these elements and every
    /// compiled function that captured the tensor sees the new data.
    ///
    /// # Errors
    /// The error of a poisoned tensor; E742 if one of the tensors is traced; E714 if the types differ, or if this
    /// tensor is a view that shows an element several times.
    #[track_caller]
    pub fn set(&self, value: &Tensor) -> Result<(), Error> {
        self.set_at(value, Loc::caller())
    }

    /// Like [`Tensor::set`], called at `loc`.
    pub(crate) fn set_at(&self, value: &Tensor, loc: Loc) -> Result<(), Error> {
        if let (View::Wrapped(to), View::Wrapped(from)) = (self.view(), value.view())
            && to.layout().class == from.layout().class
        {
            return to.fields().iter().zip(from.fields()).try_for_each(|(to, from)| to.set_at(from, loc));
        }
        let new = value.data()?;
        self.data()?;
        let View::Cell(cell) = self.view() else { return Ok(()) };
        if new.dtype() != cell.dtype() || new.shape() != cell.sizes() {
            let (old, new) = (self.type_text(), value.type_text());
            let claim = format!("{old} can't be set to {new}: a tensor keeps its type for life");
            return Err(Error::new("E714", claim).at(loc));
        }
        shared::write(std::slice::from_ref(cell), &[], &retake, || Ok(((), vec![new]))).map_err(|e| e.at(loc))
    }
}
