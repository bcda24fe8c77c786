//! W12: AdamW on a hundred tensors.

use crate::serve::Checked;
use crate::work::{Made, Stateful, fill};
use fulgurite::optim::AdamW;
use fulgurite::prelude::*;

/// The number of tensors.
const TENSORS: u32 = 100;
const LR: f64 = 1e-3;

/// The workloads of this file.
pub fn make(name: &str) -> Option<Made> {
    let size = match name {
        "W12.small" => 1024,
        "W12.large" => 65536,
        _ => return None,
    };
    let tensors = move |seed: u32| (0..TENSORS).map(|k| fill(seed + k, [size], 1.0, 0.0)).collect::<Vec<Tensor>>();
    let grads = tensors(300);
    let run = jit(|(p, o): (Vec<Tensor>, AdamW<Vec<Tensor>>), g: Vec<Tensor>| (o.step(p, g, LR), ()));
    let make = move || {
        let params = tensors(100);
        let optimiser = AdamW::new(&params);
        (params, optimiser)
    };
    Some(Stateful::work(make, Checked::After(5), 1, move |state| {
        run.update(state, grads.clone())?;
        Ok(state.0.first().into_iter().chain(state.0.last()).cloned().collect())
    }))
}
