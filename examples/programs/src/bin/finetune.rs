//! Fine-tuning of an imported model: the head of a net that PyTorch trained is trained further, and the rest is frozen.
//!
//! `cargo run -p fulgurite-programs --bin finetune` does it with the net that reads digits in `compat/models/data`.
//! `docs/guide` explains it (page 12).

use fulgurite::checkpoint;
use fulgurite::prelude::*;
use fulgurite_models::{Model, import};
use std::collections::BTreeMap;
use std::path::Path;

/// Parameters by name.
type Params = BTreeMap<String, Tensor>;

/// The losses of all steps, the parameters before and after, and the model with the latter.
struct Report {
    losses: Vec<f32>,
    before: Params,
    model: Model,
}

/// Trains the parameters whose names begin with `part` on images whose labels are shifted by one.
fn finetune(folder: &Path, part: &str, steps: usize) -> Result<Report> {
    let model = import(folder.join("digits.pt2"))?;
    let values = checkpoint::tensors(folder.join("digits.values.safetensors"))?;
    let images = values["images"].clone();
    let labels = (&values["labels"] + 1).remainder(10); // a task that the net does not know

    let before = model.params().clone();
    let (trained, frozen): (Params, Params) = before.clone().into_iter().partition(|(name, _)| name.starts_with(part));
    let with = |trained: &Params, frozen: &Params| -> Params {
        trained.iter().chain(frozen).map(|(name, w)| (name.clone(), w.clone())).collect()
    };

    let base = model.clone();
    let step = jit(move |(trained, optimiser): (Params, AdamW<Params>), (images, labels): (Tensor, Tensor)| {
        let (loss, grads) = try_value_and_grad(&trained, |trained| {
            let logits = base.with(&with(trained, &frozen)).call([&images])?;
            Ok::<_, Error>(logits[0].cross_entropy(&labels, None))
        })?;
        Ok::<_, Error>((optimiser.step(trained, grads, 0.01), loss))
    });
    let optimiser = AdamW::new(&trained).decay(0.0);
    let mut state = (trained, optimiser);
    let mut losses = Vec::new();
    for _ in 0..steps {
        losses.push(step.update(&mut state, (images.clone(), labels.clone()))?.item::<f32>()?);
    }
    let mut after = before.clone();
    after.extend(state.0);
    let model = model.with(&after);
    Ok(Report { losses, before, model })
}

fn main() -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compat/models/data");
    let report = finetune(&folder, "head.", 60)?;
    let (first, last) = (report.losses.first().copied().unwrap_or(0.0), report.losses.last().copied().unwrap_or(0.0));
    println!("{} parameters, of which {} changed", report.before.len(), changed(&report)?);
    println!("the loss fell from {first:.3} to {last:.3}");
    Ok(())
}

/// The number of parameters that training changed.
fn changed(report: &Report) -> Result<usize> {
    let pairs = report.before.iter().zip(report.model.params());
    let differ = pairs.map(|((_, old), (_, new))| Ok::<_, Error>(old.to_f64()? != new.to_f64()?));
    Ok(differ.collect::<Result<Vec<bool>>>()?.into_iter().filter(|d| *d).count())
}

#[cfg(test)]
mod tests {
    use super::{changed, finetune};
    use fulgurite::checkpoint;
    use std::path::Path;

    #[test]
    fn the_head_learns_and_the_rest_stays() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compat/models/data");
        let report = finetune(&folder, "head.", 60).expect("it runs");
        let (first, last) = (report.losses[0], report.losses[59]);
        assert!(first > 1.0 && last < first / 3.0, "from {first} to {last}");
        assert_eq!(changed(&report).expect("numbers"), 2);
        // the file has the names of PyTorch's `state_dict`
        let file = std::env::temp_dir().join(format!("fulgurite-finetune-{}.safetensors", std::process::id()));
        report.model.save(&file).expect("it is written");
        let saved = checkpoint::tensors(&file).expect("it is read");
        std::fs::remove_file(&file).expect("it is there");
        assert!(saved.contains_key("head.weight"), "{:?}", saved.keys());
    }
}
