//! Weights in integers: finds the matrices of a model that all of their calls accept as integers.

use crate::model::Model;
use fulgurite::core::DType;
use fulgurite::ops::{ToInt4Groups, ToInt8Groups};
use fulgurite::prelude::Subclassed;
use fulgurite::{Error, Key, Tensor, TensorOps, parts};
use std::collections::BTreeMap;

/// The integers in which [`Model::quantise`] keeps weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WeightIntegers {
    /// Eight bits, and a factor for each group of numbers.
    Int8,
    /// Four bits, a factor and an offset for each group of numbers.
    Int4,
}

/// The numbers of a group, where that divides the length of a row. Otherwise a row is one group.
const GROUP: usize = 32;

impl Model {
    /// The model with matrices in integers: those of its parameters that are read only by calls
    /// with a rule for such weights, which are products. Tables of embeddings, weights of
    /// convolutions and tied weights with another reader stay as they are; [`Subclassed::class`] of
    /// a parameter tells which class it has.
    ///
    /// The weights are found by recording the program with them. A call that has no rule refuses its weight then, so no
    /// call gets a weight that it does not know. Weights in integers are frozen: gradients flow through products to the
    /// other factor, and a gradient by such a weight is refused.
    ///
    /// # Errors
    /// E936 with the first refusal if no weight can be kept in integers; the errors of [`Model::example_inputs`], and of
    /// recording the model as it is.
    pub fn quantise(&self, integers: WeightIntegers) -> Result<Model, Error> {
        let inputs = self.example_inputs()?;
        record(self, &inputs)?;
        let mut trials = Trials { model: self, inputs, params: self.params().clone(), refusal: None };
        for layout in [Layout::Rows, Layout::Columns] {
            let left = self.params().iter().filter(|(name, w)| is_matrix(w) && trials.params[*name].class().is_none());
            let made = left.filter_map(|(name, w)| Some((name.clone(), layout.rounded(w, integers)?)));
            let made: Vec<(String, Tensor)> = made.collect();
            trials.accept(&made);
        }
        let Trials { params, refusal, .. } = trials;
        if params.values().all(|w| w.class().is_none()) {
            let why = refusal.map_or_else(|| "it has no matrix of floats".to_owned(), |e| e.to_string());
            return Err(Error::new("E936", "no weight of the model can be kept in integers").note(why));
        }
        Ok(self.with(&params))
    }
}

/// The axis along which a matrix is summed over in a product, which is that of its groups.
#[derive(Clone, Copy)]
enum Layout {
    /// The last axis, as in `torch.nn.Linear`.
    Rows,
    /// The first axis, as in ONNX's products.
    Columns,
}

impl Layout {
    /// The weight in integers; `None` if its sizes don't allow it.
    fn rounded(self, w: &Tensor, integers: WeightIntegers) -> Option<Tensor> {
        let rows = |w: &Tensor| {
            let length = usize::try_from(w.shape().last()?.value()).ok().filter(|length| *length > 0)?;
            let group = if length.is_multiple_of(GROUP) { GROUP } else { length }.into();
            let made = match integers {
                WeightIntegers::Int8 => w.to_int8_groups_with(ToInt8Groups { group }),
                WeightIntegers::Int4 => w.to_int4_groups_with(ToInt4Groups { group }),
            };
            made.check().is_ok().then_some(made)
        };
        match self {
            Layout::Rows => rows(w),
            Layout::Columns => rows(&w.t()).map(|made| made.t()),
        }
    }
}

/// A matrix of floats that a factor in f32 can scale without losing bits that products use.
fn is_matrix(w: &Tensor) -> bool {
    w.rank() == 2 && matches!(w.dtype(), DType::F32 | DType::F16 | DType::BF16)
}

/// The search for weights that every call accepts.
struct Trials<'m> {
    model: &'m Model,
    inputs: Vec<Tensor>,
    /// The parameters with the weights that were accepted up to now.
    params: BTreeMap<String, Tensor>,
    /// The first refusal of a single weight.
    refusal: Option<Error>,
}

impl Trials<'_> {
    /// Accepts those of the weights with which the program can be recorded. All are tried together; if a call refuses,
    /// each half is tried by itself.
    fn accept(&mut self, weights: &[(String, Tensor)]) {
        if weights.is_empty() {
            return;
        }
        let mut params = self.params.clone();
        params.extend(weights.iter().cloned());
        match record(&self.model.with(&params), &self.inputs) {
            Ok(()) => self.params = params,
            Err(e) if weights.len() == 1 => _ = self.refusal.get_or_insert(e),
            Err(_) => {
                let (first, second) = weights.split_at(weights.len() / 2);
                self.accept(first);
                self.accept(second);
            }
        }
    }
}

/// Records the program of the model, without running it.
fn record(model: &Model, inputs: &[Tensor]) -> Result<(), Error> {
    // a model that draws random numbers needs a key
    let model = model.with_key(Key::new(0));
    parts::traced("model", &[], |_| model.call(inputs)).map(|_| ())
}
