//! A training loop of one's own: batches, a schedule of rates, validation, checkpoints, and resumption.
//!
//! `cargo run -p fulgurite-programs --bin training [FOLDER]` trains a small net that says on which of two spirals a
//! point lies. With a folder it saves the state there, and continues from the state that it finds. `docs/guide`
//! explains it (page 10).

use fulgurite::checkpoint::{Metadata, save_with};
use fulgurite::optim::clip;
use fulgurite::prelude::*;
use std::path::{Path, PathBuf};

/// The steps of a whole run.
const STEPS: u64 = 600;
/// Points in a batch.
const BATCH: usize = 64;
/// Steps between two checkpoints.
const SAVE_EVERY: u64 = 200;

/// Two hidden layers with dropout.
#[derive(Tree, Clone)]
struct Net {
    first: Linear,
    second: Linear,
    out: Linear,
    dropout: Dropout,
}

impl Net {
    fn new(mut key: Key) -> Net {
        Net {
            first: Linear::new(key.next(), 2, 32),
            second: Linear::new(key.next(), 32, 32),
            out: Linear::new(key.next(), 32, 2),
            dropout: Dropout::new(0.05),
        }
    }

    /// The logits of both classes; without a key nothing is dropped.
    fn at(&self, x: &Tensor, key: Option<&Key>) -> Tensor {
        let hidden = self.dropout.at(&self.first.at(x).gelu(), key);
        self.out.at(&self.second.at(&hidden).gelu())
    }
}

/// All that changes from step to step.
#[derive(Tree, Clone)]
struct State {
    net: Net,
    optimiser: AdamW<Net>,
    /// The key of dropout, which advances in each update.
    key: Key,
}

impl State {
    fn new() -> State {
        let net = Net::new(Key::new(1));
        State { optimiser: AdamW::new(&net), net, key: Key::new(2) }
    }
}

/// Points of two spirals, `f32[n, 2]`, and the spiral of each, `i64[n]`.
fn spirals(key: Key, n: usize) -> (Tensor, Tensor) {
    let [along, which, noise] = key.split();
    let t = ops::uniform(&along, n).sqrt() * 6.0;
    let class = ops::uniform(&which, n).lt(0.5).cast(DType::I64);
    let angle = &t + &class * std::f64::consts::PI;
    let points = ops::stack(&[&t * angle.cos(), &t * angle.sin()]).t();
    (points / 6.0 + ops::randn(&noise, (n, 2)) * 0.02, class)
}

/// Random rows of the data. They depend on the number of the step alone, so a run that is resumed sees the batches that
/// it would have seen.
fn batch(x: &Tensor, y: &Tensor, step: u64) -> (Tensor, Tensor) {
    let n = x.shape()[0];
    let rows = (ops::uniform(Key::new(1000 + step), BATCH) * n).floor().cast(DType::I64);
    (x.index_select(&rows, 0), y.index_select(&rows, 0))
}

/// The learning rate: a warm-up, then half a cosine to zero.
fn rate(step: u64) -> f64 {
    let warm = ((step + 1) as f64 / 30.0).min(1.0);
    0.02 * warm * 0.5 * (1.0 + (std::f64::consts::PI * step as f64 / STEPS as f64).cos())
}

/// What a run reports: the loss of each step, and the share of points that the net gets right at the end.
struct Report {
    losses: Vec<f32>,
    accuracy: f64,
}

/// Trains until `steps`, from the checkpoint in `folder` if there is one.
fn train(folder: Option<&Path>, steps: u64) -> Result<Report> {
    let (x, y) = spirals(Key::new(3), 1000);
    let held_out = spirals(Key::new(4), 500);

    let step = jit(|state: State, (x, y, lr): (Tensor, Tensor, Tensor)| {
        let (loss, grads) = value_and_grad(&state.net, |net| net.at(&x, Some(&state.key)).cross_entropy(&y, None));
        let (grads, _) = clip(&grads, 1.0);
        let (net, optimiser) = state.optimiser.step(state.net, grads, lr);
        (State { net, optimiser, key: state.key }, loss)
    });
    let right = jit(|net: Net, (x, y): (Tensor, Tensor)| {
        let best = net.at(&x, None).argmax_with(ops::Argmax { dim: [1].into(), ..d() });
        best.eq(&y).cast(DType::F32).mean()
    });

    let mut state = State::new();
    let mut start = 0;
    let file: Option<PathBuf> = folder.map(|folder| folder.join("state.safetensors"));
    if let Some(file) = file.as_ref().filter(|file| file.exists()) {
        let metadata = load(file, &mut state)?;
        start = metadata.get("step").and_then(|step| step.parse().ok()).unwrap_or(0);
    }
    let mut losses = Vec::new();
    for i in start..steps {
        let (x, y) = batch(&x, &y, i);
        let loss = step.update(&mut state, (x, y, rate(i).into()))?.item::<f32>()?;
        losses.push(loss);
        let done = i + 1;
        if done % SAVE_EVERY == 0 || done == steps {
            let accuracy = right.call((state.net.clone(), held_out.clone()))?.item::<f32>()?;
            println!("step {done}: loss {loss:.4}, {:.1} % of the held-out points are right", accuracy * 100.0);
            if let Some(file) = &file {
                save_with(file, &state, &Metadata::from([("step".to_owned(), done.to_string())]))?;
            }
        }
    }
    println!("{}", step.stats());
    let accuracy = right.call((state.net, held_out))?.item::<f32>()?;
    Ok(Report { losses, accuracy: f64::from(accuracy) })
}

fn main() -> Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    if let Some(folder) = &folder {
        std::fs::create_dir_all(folder).map_err(|e| Error::new("E904", format!("{}: {e}", folder.display())))?;
    }
    let report = train(folder.as_deref(), STEPS)?;
    println!("{} steps; {:.1} % of the held-out points are right", report.losses.len(), report.accuracy * 100.0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{STEPS, train};

    #[test]
    fn the_net_learns() {
        let report = train(None, STEPS).expect("it runs");
        assert!(report.losses[0] > 0.5 && report.accuracy > 0.95, "{}", report.accuracy);
    }

    #[test]
    fn a_resumed_run_has_the_losses_of_an_uninterrupted_one() {
        let folder = std::env::temp_dir().join(format!("fulgurite-training-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let whole = train(None, 60).expect("it runs");
        let first = train(Some(&folder), 25).expect("it runs");
        let rest = train(Some(&folder), 60).expect("it resumes");
        std::fs::remove_dir_all(&folder).expect("it is there");
        assert_eq!((first.losses.len(), rest.losses.len()), (25, 35));
        assert_eq!([first.losses, rest.losses].concat(), whole.losses);
    }
}
