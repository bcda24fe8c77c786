//! Replacing the data of a tensor in memory.

use super::immediate::retake;
use super::shared;
use crate::error::Error;
use crate::tensor::{Tensor, View};
use fulgurite_core::loc::Loc;

impl Tensor {
    /// Replaces its data by that of `value`; every clone of the handle and every view of the same elements sees it, and so
    /// does every compiled function that captured the tensor.
    ///
    /// # Errors
    /// The error of a poisoned tensor; E742 where one of them is traced; E714 if the types differ, or where this is a view
    /// that shows an element several times.
    #[track_caller]
    pub fn set(&self, value: &Tensor) -> Result<(), Error> {
        let loc = Loc::caller();
        if let (View::Wrapped(to), View::Wrapped(from)) = (self.view(), value.view())
            && to.layout().class == from.layout().class
        {
            return to.fields().iter().zip(from.fields()).try_for_each(|(to, from)| to.set(from));
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
