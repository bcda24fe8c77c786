//! A model as the stages of a pipeline.

use crate::model::Model;
use fulgurite::pipeline::{Cut, StagedModel};
use fulgurite::prelude::Subclassed;
use fulgurite::{Error, Tensor, Tree};
use std::collections::BTreeMap;

impl Model {
    /// The program of the model, cut into stages of a pipeline ([`fulgurite::pipeline`]): into `Cut::Balanced(n)` of
    /// about equal work, or where modules of the model begin, `Cut::At(&["layers.3"])`. The stages are recorded for inputs
    /// of these types. A micro-batch is the inputs as a `Vec`, and the parameters are [`Model::params`].
    ///
    /// # Errors
    /// E756 if the model can't be cut this way, and the errors of [`Model::run`].
    pub fn stages<'a>(&self, inputs: impl IntoIterator<Item = &'a Tensor>, cut: Cut) -> Result<StagedModel, Error> {
        let inputs: Vec<Tensor> = inputs.into_iter().cloned().collect();
        self.stages_of(&inputs, cut, |model, inputs: Vec<Tensor>| model.call(&inputs))
    }

    /// Like [`Model::stages`], for a function of the model and a micro-batch, such as a loss: pipelines train the stages
    /// of a function whose result is one number.
    ///
    /// # Errors
    /// Reports the errors of [`Model::stages`] and those of `f`.
    pub fn stages_of<X: Tree, O: Tree + Send + Sync + 'static>(
        &self,
        batch: &X,
        cut: Cut,
        f: impl Fn(Model, X) -> Result<O, Error>,
    ) -> Result<StagedModel, Error> {
        if let Some((name, class)) = self.params().iter().find_map(|(name, w)| Some((name, w.class()?))) {
            let claim = format!("a stage takes plain tensors, and the parameter `{name}` is a `{}`", class.name());
            return Err(Error::new("E756", claim).help("cut the model with the weights that it had before `quantise`"));
        }
        let of = |params: BTreeMap<String, Tensor>, batch: X| f(self.with(&params), batch);
        StagedModel::cut("model", of, self.params(), batch, cut)
    }
}
