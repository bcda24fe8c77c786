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
use fulgurite::{Key, api, symbol};
use fulgurite_models::Model;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

type Params = BTreeMap<String, Tensor>;
type State = (Model, AdamW<Params>);
/// The inputs and the target of a step, and the learning rate. A model that computes its loss itself has no target.
type Batch = (Vec<Tensor>, Option<Tensor>, Tensor);

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
    let Some(data) = &args.data else {
        return Err(Fault::usage("E935", "a model is trained on `--data FILE`"));
    };
    if let Some(loss) = args.loss.as_ref().filter(|loss| symbol::candidates(Name::new(loss)).is_empty()) {
        let fault = Fault::usage("E903", format!("there is no row `{loss}` for the loss"));
        return Err(eval::suggest(fault, loss));
    }
    let samples = Samples::read(&model, data, args.loss.as_ref().map(|_| args.target.as_deref()))?;
    let (steps, batch) = (args.steps.unwrap_or(STEPS), args.batch.unwrap_or(BATCH).clamp(1, samples.count));
    let (rate, limit) = (Tensor::scalar(args.lr.unwrap_or(RATE)), args.clip);
    let loss = args.loss.clone();
    let optimiser = AdamW::new(model.params()).decay(args.decay.unwrap_or(DECAY));
    let step = jit(move |(model, optimiser): State, (inputs, target, rate): Batch| {
        let (value, gradients) = try_value_and_grad(model.params(), |params| {
            let outputs = model.with(params).call(&inputs)?;
            let output = outputs.first().cloned().ok_or_else(|| Error::new("E936", "the model has no output"))?;
            let (Some(loss), Some(target)) = (&loss, &target) else { return own_loss(output) };
            let args = vec![Value::Tensor(output), Value::Tensor(target.clone())];
            let results = api::call_named(loss, args, Vec::new(), Loc::NOWHERE)?;
            results.into_iter().next().ok_or_else(|| Error::new("E936", format!("`{loss}` has no result")))
        })?;
        let gradients = limit.map_or_else(|| gradients.clone(), |limit| clip(&gradients, limit).0);
        let (params, optimiser) = optimiser.step(model.params().clone(), gradients, rate);
        Ok::<_, Error>(((model.with(&params), optimiser), value))
    });
    // before the time of the training is spent
    let folder = args.out.clone().unwrap_or_else(|| "runs/model".into());
    std::fs::create_dir_all(&folder).map_err(|e| Fault::unwritable(&folder, &e))?;
    let mut state = (model, optimiser);
    let seed = (!args.in_order).then_some(args.seed);
    let (mut order, live) = (Order::new(samples.count, seed), Live::new(ui));
    let every = args.log_every.unwrap_or_else(|| (steps / 10).max(1));
    let mut last = f64::NAN;
    for number in 1..=steps {
        let (inputs, target) = samples.batch(&order.next(batch))?;
        let value = step.update(&mut state, (inputs, target, rate.clone()))?;
        if number % every == 0 || number == steps || live.due() {
            last = value.to_f64()?.first().copied().unwrap_or(f64::NAN);
            report(ui, &live, number, steps, last, number % every == 0 || number == steps);
            if !last.is_finite() {
                return Err(Fault::failed("E918", format!("the loss is {last} at step {number}"))
                    .help("lower `--lr`, or bound the gradient with `--clip 1`"));
            }
        }
    }
    live.clear();
    let path = folder.join("weights.safetensors");
    state.0.save(&path)?;
    ui.status("Wrote", &format!("{}", path.display()));
    Ok(if last.is_finite() { 0 } else { FAILED })
}

/// The first output as the loss.
fn own_loss(output: Tensor) -> Result<Tensor, Error> {
    if output.rank() == 0 && output.dtype().is_float() {
        return Ok(output);
    }
    let ty = output.ty().map_or_else(|| "no tensor".to_owned(), |ty| ty.to_string());
    let claim = format!("the first output of the model is {ty}, and a loss is one number");
    Err(Error::new("E936", claim).help("name a row that makes a loss of it and a target, with `--loss ROW`"))
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
    target: Option<Buffer>,
    count: usize,
}

impl Samples {
    /// Reads the inputs, and the target if there is to be one: under its name, or as the one other tensor.
    fn read(model: &Model, path: &Path, target: Option<Option<&str>>) -> Result<Samples, Fault> {
        let mut all = tensors(path)?;
        let missing = |name: &str| Fault::usage("E935", format!("`{}` has no tensor `{name}`", path.display()));
        let mut inputs = Vec::new();
        for input in model.inputs() {
            inputs.push(all.remove(&input.name).ok_or_else(|| missing(&input.name))?.buffer()?);
        }
        let target = match target {
            Some(name) => {
                let name = target_name(&all, name, path)?;
                Some(all.get(&name).ok_or_else(|| missing(&name))?.buffer()?)
            }
            None => None,
        };
        let count = inputs.iter().chain(&target).next().and_then(|x| x.shape().first().copied()).unwrap_or(0);
        if count == 0 || inputs.iter().chain(&target).any(|x| x.shape().first() != Some(&count)) {
            let claim = format!("the tensors of `{}` have different numbers of samples, or none", path.display());
            return Err(Fault::usage("E935", claim).help("the first axis of each tensor counts the samples"));
        }
        Ok(Samples { inputs, target, count })
    }

    fn batch(&self, chosen: &[usize]) -> Result<(Vec<Tensor>, Option<Tensor>), Fault> {
        let inputs = self.inputs.iter().map(|x| pick(x, chosen)).collect::<Result<_, _>>()?;
        Ok((inputs, self.target.as_ref().map(|target| pick(target, chosen)).transpose()?))
    }
}

/// The name of the target: the given one, or that of the one tensor that is not an input.
fn target_name(rest: &BTreeMap<String, Tensor>, given: Option<&str>, path: &Path) -> Result<String, Fault> {
    let names: Vec<&String> = rest.keys().collect();
    match (given, names.as_slice()) {
        (Some(name), _) => Ok(name.to_owned()),
        (None, [name]) => Ok((*name).clone()),
        _ => {
            let claim = format!("`{}` has {} tensors beside the inputs", path.display(), names.len());
            Err(Fault::usage("E935", claim).help("name the target with `--target NAME`"))
        }
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

/// Samples in the order of the file, or in a random one; each once before the first comes again.
struct Order {
    places: Vec<usize>,
    at: usize,
    /// The state of the random numbers; `None` for the order of the file.
    state: Option<u64>,
}

impl Order {
    fn new(count: usize, seed: Option<u64>) -> Order {
        Order { places: (0..count).collect(), at: count, state: seed.map(|seed| seed ^ 0x9e37_79b9_7f4a_7c15) }
    }

    /// Numbers of SplitMix64 (Steele, Lea and Flood, 2014).
    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn next(&mut self, batch: usize) -> Vec<usize> {
        if self.at + batch > self.places.len() {
            if let Some(state) = &mut self.state {
                for n in (1..self.places.len()).rev() {
                    let other = Order::random(state) as usize % (n + 1);
                    self.places.swap(n, other);
                }
            }
            self.at = 0;
        }
        self.at += batch;
        self.places[self.at - batch..self.at].to_vec()
    }
}
