//! The parameters and buffers of a model in a file.

use crate::model::Model;
use fulgurite::{Error, Tensor, checkpoint};
use std::collections::BTreeMap;
use std::path::Path;

impl Model {
    /// Writes the parameters and buffers to a safetensors file, under the names that PyTorch's `state_dict` gives them. A
    /// tied parameter is written once, under its first name; a weight in integers is written by its fields.
    ///
    /// # Errors
    /// E904 if the file can't be written (an old file stays); E935 if a buffer has the name of a parameter; E742 for a
    /// model in a trace.
    #[track_caller]
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        checkpoint::save(path, &self.state()?)
    }

    /// The model with the parameters and buffers of a file that [`Model::save`] or PyTorch has written. They are read
    /// into memory of their own.
    ///
    /// # Errors
    /// E905 with the differences if the file has other names, dtypes or sizes; E901, E902 and E904 for a file that can't
    /// be read.
    pub fn load(&self, path: impl AsRef<Path>) -> Result<Model, Error> {
        let mut state = self.state()?;
        checkpoint::load(path, &mut state)?;
        let (params, buffers) = state.into_iter().partition(|(name, _)| self.params().contains_key(name));
        Ok(self.with(&params).with_buffers(&buffers))
    }

    /// The parameters and buffers as one tree.
    fn state(&self) -> Result<BTreeMap<String, Tensor>, Error> {
        if let Some(name) = self.buffers().keys().find(|name| self.params().contains_key(*name)) {
            let claim = format!("a parameter and a buffer of the model are called `{name}`, which a file can't hold");
            return Err(Error::new("E935", claim).help("save `params()` and `buffers()` with `checkpoint::save`"));
        }
        Ok(self.params().iter().chain(self.buffers()).map(|(name, x)| (name.clone(), x.clone())).collect())
    }
}
