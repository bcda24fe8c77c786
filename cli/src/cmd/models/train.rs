//! `fulgurite train --model`: trains an imported model on a file of samples.

use super::{open, tensors};
use crate::args;
use crate::cmd::eval;
use crate::fault::{FAILED, Fault};
use crate::threads;
use crate::ui::live::Live;
use crate::ui::{Mode, Ui};
use fulgurite::buffer::Buffer;
use fulgurite::core::loc::Loc;
use fulgurite::core::{Name, Value};
use fulgurite::optim::{AdamW, clip};
use fulgurite::prelude::{Error, Tensor, jit, try_value_and_grad};
use fulgurite::{Key, api, checkpoint, symbol};
use fulgurite_models::Model;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

type Params = BTreeMap<String, Tensor>;
type State = (Model, AdamW<Params>);
/// The inputs and the target of a step, and the learning rate.
type Batch = (Vec<Tensor>, Tensor, Tensor);

/// The usual numbers, where an option does not say otherwise.
const STEPS: u64 = 200;
const BATCH: usize = 32;
const RATE: f64 = 1e-3;
const DECAY: f64 = 0.01;

/// Runs the command. Returns the exit status: 1 if the loss is not finite.
///
/// # Errors
/// E930 to E936: the model. E901 to E905, E913: files of tensors. The refusals of the loss.
pub fn run(args: &args::Train, model: &Path, ui: &Ui) -> Result<u8, Fault> {
    threads::set(args.threads, 1)?;
    let model = open(model, args.weights.as_deref())?.with_key(Key::new(args.seed));
    let (Some(data), Some(loss)) = (&args.data, args.loss.clone()) else {
        return Err(Fault::usage("E935", "a model is trained on `--data FILE` by `--loss ROW`"));
    };
    if symbol::candidates(Name::new(&loss)).is_empty() {
        let fault = Fault::usage("E903", format!("there is no row `{loss}` for the loss"));
        return Err(eval::suggest(fault, &loss));
    }
    let samples = Samples::read(&model, data, args.target.as_deref())?;
    let (steps, batch) = (args.steps.unwrap_or(STEPS), args.batch.unwrap_or(BATCH).clamp(1, samples.count));
    let (rate, limit) = (Tensor::scalar(args.lr.unwrap_or(RATE) as f32), args.clip);
    let optimiser = AdamW::new(model.params()).decay(args.decay.unwrap_or(DECAY));
    let step = jit(move |(model, optimiser): State, (inputs, target, rate): Batch| {
        let (value, gradients) = try_value_and_grad(model.params(), |params| {
            let outputs = model.with(params).call(&inputs)?;
            let output = outputs.first().cloned().ok_or_else(|| Error::new("E936", "the model has no output"))?;
            let args = vec![Value::Tensor(output), Value::Tensor(target.clone())];
            let results = api::call_named(&loss, args, Vec::new(), Loc::NOWHERE)?;
            results.into_iter().next().ok_or_else(|| Error::new("E936", format!("`{loss}` has no result")))
        })?;
        let gradients = limit.map_or_else(|| gradients.clone(), |limit| clip(&gradients, limit).0);
        let (params, optimiser) = optimiser.step(model.params().clone(), gradients, rate);
        Ok::<_, Error>(((model.with(&params), optimiser), value))
    });
    let mut state = (model, optimiser);
    let (mut order, live) = (Order::new(samples.count, args.seed), Live::new(ui));
    let every = args.log_every.unwrap_or_else(|| (steps / 10).max(1));
    let mut last = f64::NAN;
    for number in 1..=steps {
        let (inputs, target) = samples.batch(&order.next(batch))?;
        let value = step.update(&mut state, (inputs, target, rate.clone()))?;
        if number % every == 0 || number == steps || live.due() {
            last = f64::from(value.item::<f32>()?);
            report(ui, &live, number, steps, last, number % every == 0 || number == steps);
            if !last.is_finite() {
                return Err(Fault::failed("E918", format!("the loss is {last} at step {number}"))
                    .help("lower `--lr`, or bound the gradient with `--clip 1`"));
            }
        }
    }
    live.clear();
    let folder = args.out.clone().unwrap_or_else(|| "runs/model".into());
    std::fs::create_dir_all(&folder).map_err(|e| Fault::unwritable(&folder, &e))?;
    let path = folder.join("weights.safetensors");
    checkpoint::save(&path, &state.0.with_key(None))?;
    ui.status("Wrote", &format!("{}", path.display()));
    Ok(if last.is_finite() { 0 } else { FAILED })
}

fn report(ui: &Ui, live: &Live, step: u64, steps: u64, loss: f64, keep: bool) {
    match ui.mode() {
        Mode::Json if keep => ui.object(&json!({"v": 1, "event": "step", "step": step, "loss": loss})),
        Mode::Plain if keep => ui.result(&format!("step {step} of {steps}: loss {loss:.4}")),
        Mode::Pretty if keep => {
            live.clear();
            ui.result(&format!("step {step} of {steps}: loss {loss:.4}"));
        }
        Mode::Pretty => live.draw(&[format!("step {step} of {steps}: loss {loss:.4}")]),
        _ => {}
    }
}

/// The samples of a file: the inputs of the model and the target, with one entry for each sample along the first axis.
struct Samples {
    inputs: Vec<Buffer>,
    target: Buffer,
    count: usize,
}

impl Samples {
    fn read(model: &Model, path: &Path, target: Option<&str>) -> Result<Samples, Fault> {
        let mut all = tensors(path)?;
        let missing = |name: &str| Fault::usage("E935", format!("`{}` has no tensor `{name}`", path.display()));
        let mut inputs = Vec::new();
        for input in model.inputs() {
            inputs.push(all.remove(&input.name).ok_or_else(|| missing(&input.name))?.buffer()?);
        }
        let rest: Vec<&str> = all.keys().map(String::as_str).collect();
        let name = match (target, rest.as_slice()) {
            (Some(name), _) => name,
            (None, [name]) => name,
            _ => {
                let claim = format!("`{}` has {} tensors beside the inputs", path.display(), rest.len());
                return Err(Fault::usage("E935", claim).help("name the target with `--target NAME`"));
            }
        };
        let target = all.get(name).ok_or_else(|| missing(name))?.buffer()?;
        let count = target.shape().first().copied().unwrap_or(0);
        if count == 0 || inputs.iter().any(|x| x.shape().first() != Some(&count)) {
            let claim = format!("the tensors of `{}` have different numbers of samples, or none", path.display());
            return Err(Fault::usage("E935", claim).help("the first axis of each tensor counts the samples"));
        }
        Ok(Samples { inputs, target, count })
    }

    fn batch(&self, chosen: &[usize]) -> Result<(Vec<Tensor>, Tensor), Fault> {
        let inputs = self.inputs.iter().map(|x| pick(x, chosen)).collect::<Result<_, _>>()?;
        Ok((inputs, pick(&self.target, chosen)?))
    }
}

/// The entries at these places of the first axis.
fn pick(from: &Buffer, chosen: &[usize]) -> Result<Tensor, Fault> {
    let size = from.byte_len() / from.shape()[0];
    let bytes: Vec<u8> =
        chosen.iter().flat_map(|n| from.as_bytes()[n * size..(n + 1) * size].iter().copied()).collect();
    let shape: Vec<usize> = [chosen.len()].iter().chain(&from.shape()[1..]).copied().collect();
    let made = Buffer::from_bytes(from.dtype(), &shape, &bytes);
    Ok(Tensor::from_buffer(made.map_err(|e| Fault::usage("E904", e.to_string()))?))
}

/// Samples in a random order, each once before the first comes again.
struct Order {
    places: Vec<usize>,
    at: usize,
    state: u64,
}

impl Order {
    fn new(count: usize, seed: u64) -> Order {
        Order { places: (0..count).collect(), at: count, state: seed ^ 0x9e37_79b9_7f4a_7c15 }
    }

    /// Numbers of SplitMix64 (Steele, Lea and Flood, 2014).
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn next(&mut self, batch: usize) -> Vec<usize> {
        if self.at + batch > self.places.len() {
            for n in (1..self.places.len()).rev() {
                let other = self.random() as usize % (n + 1);
                self.places.swap(n, other);
            }
            self.at = 0;
        }
        self.at += batch;
        self.places[self.at - batch..self.at].to_vec()
    }
}
