//! Runs one stage for a step: keeps the state of each micro-batch, the values kept for it, and the gradients so far.

use super::cotangents::{self, Cotangents};
use super::errors::{self, At};
use super::programs::Backward;
use super::stage::{Stage, cell_of};
use super::sums::{Accumulate, Arithmetic, Sums};
use super::traced::apart;
use crate::schedule::MOST_WORKS;
use fulgurite_core::loc::Loc;
use fulgurite_runtime::Error;
use fulgurite_runtime::buffer::Buffer;
use fulgurite_runtime::parts::{self, data, same_types};
use fulgurite_runtime::tensor::{Cell, Tensor};
use fulgurite_runtime::trace::ProxyTy;
use fulgurite_runtime::tree::{Tree, flatten};
use rustc_hash::FxHashSet;
use std::rc::Rc;
use std::sync::Arc;

/// The state of a micro-batch, with the values that are kept for its further work.
enum State {
    Empty,
    Forwarded {
        kept: Vec<Buffer>,
        versions: Vec<u64>,
    },
    InputDone {
        backward: Rc<Backward>,
        /// The hand-over; each value is dropped after its last reader.
        held: Vec<Option<Buffer>>,
        versions: Vec<u64>,
        /// For each unit of W, the step at which it ran.
        units: Vec<Option<usize>>,
    },
    Done,
}

impl State {
    fn name(&self) -> &'static str {
        match self {
            State::Empty => "Empty",
            State::Forwarded { .. } => "Forwarded",
            State::InputDone { .. } => "InputDone",
            State::Done => "Done",
        }
    }

    fn next(&self) -> &'static str {
        match self {
            State::Empty => "F",
            State::Forwarded { .. } => "I or B",
            State::InputDone { .. } => "W",
            State::Done => "nothing more",
        }
    }
}

/// A stage during one step. It is made anew for each step, with the parameters of that step.
///
/// Each micro-batch goes from F to B, or to I and W; another order is E752. The stage run owns the values that are kept
/// for a micro-batch, and frees them as the micro-batch goes on.
pub struct StageRun<'s> {
    stage: &'s Stage,
    number: usize,
    params: Vec<Tensor>,
    states: Vec<(State, usize)>,
    sums: Sums,
    arithmetic: Arithmetic,
    /// For each input of the forward, how often the stage's own programs wrote it.
    written: Vec<u64>,
    step: usize,
    reduced: Option<usize>,
}

impl<'s> StageRun<'s> {
    /// Makes stage number `number` of a pipeline, for a batch of `micro_batches`. `params` has the structure of the
    /// parameters that the stage was traced with.
    ///
    /// # Errors
    /// E748 or E712 for parameters of another structure or other types.
    #[track_caller]
    pub fn new<P: Tree>(
        stage: &'s Stage,
        number: usize,
        params: &P,
        micro_batches: usize,
    ) -> Result<StageRun<'s>, Error> {
        let loc = Loc::caller();
        if micro_batches > MOST_WORKS {
            let claim = format!("a step of {micro_batches} micro-batches has more than {MOST_WORKS} works");
            return Err(Error::new("E751", claim).help("cut the batch into fewer micro-batches").at(loc));
        }
        let leaves = flatten(params);
        let wanted: Vec<Option<ProxyTy>> = stage.of.params.iter().map(|s| Some(s.ty.clone())).collect();
        same_types(&wanted, leaves.leaves(), "the parameter", loc)?;
        let params: Vec<Tensor> = leaves.leaves().iter().map(|t| (*t).clone()).collect();
        Ok(StageRun {
            stage,
            number,
            states: (0..micro_batches).map(|_| (State::Empty, 0)).collect(),
            sums: Sums::new(params.len(), Accumulate::default()),
            arithmetic: Arithmetic::default(),
            written: vec![0; stage.of.trace.inputs().len()],
            params,
            step: 0,
            reduced: None,
        })
    }

    /// Chooses the order in which gradients are added.
    pub fn accumulating(mut self, order: Accumulate) -> StageRun<'s> {
        self.sums = Sums::new(self.params.len(), order);
        self
    }

    // ------------------------------------------------------------ actions

    /// F: returns the outputs for a micro-batch's inputs, as tensors in order.
    ///
    /// # Errors
    /// E752 in another state, E748 or E712 for other inputs, and errors of running.
    #[track_caller]
    pub fn forward<X: Tree>(&mut self, micro_batch: usize, inputs: &X) -> Result<Vec<Tensor>, Error> {
        let loc = Loc::caller();
        self.expect("F", micro_batch, |state| matches!(state, State::Empty))?;
        let given = flatten(inputs);
        let wanted: Vec<Option<ProxyTy>> = self.stage.of.inputs.iter().map(|s| Some(s.ty.clone())).collect();
        same_types(&wanted, given.leaves(), "the input", loc)?;
        let arguments: Vec<&Tensor> = self.params.iter().chain(given.leaves().iter().copied()).collect();
        if self.stage.of.trace.writes() {
            let slots = self.stage.params().iter().chain(self.stage.inputs());
            let paths: Vec<&str> = slots.map(|s| &*s.path).collect();
            apart(self.stage.name(), &arguments, &paths)?;
        }
        let program = self.stage.of.program()?;
        let mut values = program.run(&arguments)?;
        for input in program.written() {
            self.written[input] += 1;
        }
        let kept = values.split_off(self.stage.of.outputs.len());
        let versions = self.versions()?;
        self.enter(micro_batch, State::Forwarded { kept, versions });
        let tensor = |(value, slot): (Buffer, &super::Slot)| parts::value(&slot.ty, value);
        Ok(values.into_iter().zip(&self.stage.of.outputs).map(tensor).collect())
    }

    /// B: returns the gradients of the inputs, one per slot. `None` means that there is no gradient.
    ///
    /// # Errors
    /// E752 in another state, E753 or E754 for other cotangents, and errors of running.
    pub fn backward(
        &mut self,
        micro_batch: usize,
        cotangents: impl Into<Cotangents>,
    ) -> Result<Vec<Option<Tensor>>, Error> {
        self.expect("B", micro_batch, |state| matches!(state, State::Forwarded { .. }))?;
        let (backward, all) = self.start(micro_batch, cotangents.into())?;
        let mut inputs = every(&all)?;
        let mut values = backward.whole(&self.stage.of)?.run(&mut inputs)?;
        let writes = values.split_off(values.len() - backward.split.writes.len());
        self.write(&backward.split.writes, writes)?;
        let [by_input, by_param] = backward.results(&self.stage.of)?;
        let take = |at: &Option<usize>| at.map(|at| Tensor::from_buffer(values[at].clone()));
        for (param, at) in by_param.iter().enumerate() {
            self.sums.add(&self.arithmetic, param, micro_batch, take(at))?;
        }
        self.enter(micro_batch, State::Done);
        Ok(by_input.iter().map(take).collect())
    }

    /// I: returns the gradients that B would, and keeps of the micro-batch only the values that W reads.
    ///
    /// # Errors
    /// Reports the errors of [`StageRun::backward`].
    pub fn input_backward(
        &mut self,
        micro_batch: usize,
        cotangents: impl Into<Cotangents>,
    ) -> Result<Vec<Option<Tensor>>, Error> {
        use crate::backward_split::Origin;
        self.expect("I", micro_batch, |state| matches!(state, State::Forwarded { .. }))?;
        let (backward, all) = self.start(micro_batch, cotangents.into())?;
        let backward_split = backward.backward_split(&self.stage.of)?;
        let mut inputs = every(backward_split.reads.iter().map(|at| &all[*at]))?;
        let mut values = backward.input(&self.stage.of)?.run(&mut inputs)?;
        let writes = values.split_off(values.len() - backward.split.writes.len());
        self.write(&backward.split.writes, writes)?;
        let held = backward_split.handover.iter().map(|entry| match entry.origin {
            Origin::Fresh(at) => values.get(at).cloned(),
            Origin::Saved(at) | Origin::Cotangent(at) => all[at].clone(),
        });
        let held: Vec<Option<Buffer>> = held.collect();
        let grads =
            backward_split.inputs.iter().map(|at| at.map(|at| Tensor::from_buffer(values[at].clone()))).collect();
        let units = vec![None; backward_split.weight.len()];
        let absent: Vec<usize> =
            (0..backward_split.params.len()).filter(|i| backward_split.params[*i].is_none()).collect();
        let State::Forwarded { versions, .. } = std::mem::replace(&mut self.states[micro_batch].0, State::Empty) else {
            return Err(Error::bug("E709", "a micro-batch changed its state while it ran"));
        };
        let state = State::InputDone { backward: backward.clone(), held, versions, units };
        self.enter(micro_batch, state);
        for param in absent {
            self.sums.add(&self.arithmetic, param, micro_batch, None)?;
        }
        Ok(grads)
    }

    /// W: runs every unit that did not run yet, and returns the gradients of the parameters, added up so far.
    ///
    /// # Errors
    /// E752 in another state, E755 if a value that it reads was written since F, and errors of running.
    pub fn weight_backward(&mut self, micro_batch: usize) -> Result<Vec<Option<Tensor>>, Error> {
        self.expect("W", micro_batch, |state| matches!(state, State::InputDone { .. }))?;
        let count = match &self.states[micro_batch].0 {
            State::InputDone { units, .. } => units.len(),
            _ => 0,
        };
        for unit in 0..count {
            let ran = match &self.states[micro_batch].0 {
                State::InputDone { units, .. } => units[unit].is_some(),
                _ => true,
            };
            if !ran {
                self.unit(micro_batch, unit)?;
            }
        }
        if count == 0 {
            self.enter(micro_batch, State::Done);
        }
        Ok(self.sums.values())
    }

    /// Runs one unit of W, by number, and returns the gradients of the parameters, added up so far.
    ///
    /// # Errors
    /// Reports the errors of [`StageRun::weight_backward`], and E752 for a unit that ran already or does not exist.
    pub fn weight_unit(&mut self, micro_batch: usize, unit: usize) -> Result<Vec<Option<Tensor>>, Error> {
        let action = format!("W[{unit}]");
        self.expect(&action, micro_batch, |state| matches!(state, State::InputDone { .. }))?;
        if let (State::InputDone { units, .. }, since) = &self.states[micro_batch] {
            let at = At { stage: self.number, micro_batch };
            let ran = match units.get(unit) {
                None => Some((*since, format!("of {} units", units.len()))),
                Some(Some(step)) => Some((*step, "again".to_owned())),
                Some(None) => None,
            };
            if let Some((since, why)) = ran {
                return Err(errors::order(&action, at, "InputDone", Some(since), "another unit", self.step, &why));
            }
        }
        self.unit(micro_batch, unit)?;
        Ok(self.sums.values())
    }

    /// REDUCE: returns the gradients of the batch, which are the sums divided by the number of micro-batches. `None`
    /// means that there is no gradient.
    ///
    /// # Errors
    /// E752 while a micro-batch is not done, and if this ran before.
    pub fn reduce(&mut self) -> Result<Vec<Option<Tensor>>, Error> {
        let undone: Vec<usize> =
            (0..self.states.len()).filter(|mb| !matches!(self.states[*mb].0, State::Done)).collect();
        if let Some(first) = undone.first() {
            let list: Vec<String> = undone.iter().map(|mb| format!("({}, {mb})", self.number)).collect();
            let (state, since) = &self.states[*first];
            let at = At { stage: self.number, micro_batch: *first };
            let why = format!("before {} is done", list.join(", "));
            return Err(errors::order("REDUCE", at, state.name(), Some(*since), state.next(), self.step, &why));
        }
        if let Some(since) = self.reduced {
            let at = At { stage: self.number, micro_batch: self.states.len().saturating_sub(1) };
            return Err(errors::order("REDUCE", at, "Reduced", Some(since), "nothing more", self.step, "again"));
        }
        self.reduced = Some(self.step);
        self.step += 1;
        let m = self.states.len();
        let mean = |sum: Option<Tensor>| sum.map(|sum| self.arithmetic.mean(sum, m)).transpose();
        self.sums.take().into_iter().map(mean).collect()
    }

    // ------------------------------------------------------------ state

    /// The stage that runs.
    pub fn stage(&self) -> &'s Stage {
        self.stage
    }

    /// The number of the stage in the pipeline.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The bytes that are kept for micro-batches under way. Each buffer counts once; the present buffers of parameters
    /// and of captured tensors do not count.
    pub fn bytes(&self) -> usize {
        // a buffer is identified by the address of its data
        let place = |b: &Buffer| b.as_bytes().as_ptr();
        let parameters = self.params.iter().filter_map(|t| data(t).ok());
        let captured = self.stage.of.cells.iter().map(|c| c.buffer());
        let mut seen: FxHashSet<*const u8> = parameters.chain(captured).map(|b| place(&b)).collect();
        let kept = self.states.iter().map(|(state, _)| match state {
            State::Forwarded { kept, .. } => (&kept[..], &[][..]),
            State::InputDone { held, .. } => (&[][..], &held[..]),
            State::Empty | State::Done => (&[][..], &[][..]),
        });
        let buffers = kept.flat_map(|(kept, held)| kept.iter().chain(held.iter().flatten()));
        buffers.filter(|b| seen.insert(place(b))).map(Buffer::byte_len).sum()
    }

    // ------------------------------------------------------------ helpers

    fn expect(&self, action: &str, micro_batch: usize, fits: impl Fn(&State) -> bool) -> Result<(), Error> {
        let at = At { stage: self.number, micro_batch };
        let Some((state, since)) = self.states.get(micro_batch) else {
            let why = format!("of {} micro-batches", self.states.len());
            return Err(errors::order(action, at, "missing", None, "another micro-batch", self.step, &why));
        };
        if fits(state) {
            return Ok(());
        }
        let why = match state {
            State::Empty => "before F".to_owned(),
            State::Forwarded { .. } if action == "F" => "again".to_owned(),
            State::Forwarded { .. } => "before I".to_owned(),
            State::InputDone { .. } if action == "I" => "again".to_owned(),
            State::InputDone { .. } => "after I".to_owned(),
            State::Done => "after the micro-batch was done".to_owned(),
        };
        let since = (!matches!(state, State::Empty)).then_some(*since);
        Err(errors::order(action, at, state.name(), since, state.next(), self.step, &why))
    }

    fn enter(&mut self, micro_batch: usize, state: State) {
        self.states[micro_batch] = (state, self.step);
        self.step += 1;
    }

    /// The backward for these cotangents, with its inputs by position.
    fn start(&self, micro_batch: usize, given: Cotangents) -> Result<(Rc<Backward>, Vec<Option<Buffer>>), Error> {
        let stage = self.stage;
        let types: Vec<ProxyTy> = stage.of.outputs.iter().map(|s| s.ty.clone()).collect();
        let mut leaves = cotangents::leaves(self.number, &stage.form, &types, given)?;
        // an output without a gradient has no cotangent
        leaves
            .iter_mut()
            .zip(&stage.of.outputs)
            .filter(|(_, slot)| !slot.needs_grad)
            .for_each(|(leaf, _)| *leaf = None);
        let mask: Vec<bool> = leaves.iter().map(Option::is_some).collect();
        let backward = stage.of.backward(&mask)?;
        let split = &backward.split;
        let State::Forwarded { kept, .. } = &self.states[micro_batch].0 else {
            return Err(Error::bug("E709", "a micro-batch is backward before it is forward"));
        };
        let mut all: Vec<Option<Buffer>> = vec![None; split.backward.inputs().len()];
        for (at, from) in backward.from.iter().enumerate() {
            all[at] = Some(kept[*from].clone());
        }
        for ((at, leaf), ty) in split.cotangents.iter().zip(&leaves).zip(&types) {
            let (Some(at), Some(of)) = (at, ty.as_tensor()) else { continue };
            all[*at] = Some(match leaf {
                Some(leaf) => data(leaf)?,
                None => Buffer::zeros(of.dtype, &of.sizes()).map_err(|e| Error::new("E743", e.to_string()))?,
            });
        }
        for (input, at) in &split.variables {
            all[*at] = Some(self.cell(*input)?.buffer());
        }
        Ok((backward, all))
    }

    fn unit(&mut self, micro_batch: usize, number: usize) -> Result<(), Error> {
        let (state, _) = &self.states[micro_batch];
        let State::InputDone { backward, held, versions, .. } = state else {
            return Err(Error::bug("E709", "a unit ran before I"));
        };
        let backward = backward.clone();
        let backward_split = backward.backward_split(&self.stage.of)?;
        let unit = &backward_split.weight[number];
        for at in &unit.reads {
            let entry = &backward_split.handover[*at];
            let Some(input) = entry.version_of else { continue };
            let (saved, now) = (versions[input], self.version(input)?);
            if saved != now {
                let captured = || self.stage.of.trace.arena.name(self.stage.of.trace.inputs()[input].proxy).to_string();
                let name = self.stage.of.params.get(input).map_or_else(captured, |slot| slot.path.to_string());
                return Err(errors::stale(At { stage: self.number, micro_batch }, &name, saved, now));
            }
        }
        let mut inputs = every(unit.reads.iter().map(|at| &held[*at]))?;
        let values = backward.weight(&self.stage.of)?[number].run(&mut inputs)?;
        for (param, value) in unit.params.iter().zip(values) {
            self.sums.add(&self.arithmetic, *param, micro_batch, Some(Tensor::from_buffer(value)))?;
        }
        let step = self.step;
        if let (State::InputDone { held, units, .. }, _) = &mut self.states[micro_batch] {
            units[number] = Some(step);
            for at in &unit.reads {
                if backward_split.handover[*at].readers.iter().all(|unit| units[*unit].is_some()) {
                    held[*at] = None;
                }
            }
            if units.iter().all(Option::is_some) {
                self.enter(micro_batch, State::Done);
            } else {
                self.step += 1;
            }
        }
        Ok(())
    }

    /// The cell of a parameter or of a captured tensor, by its number among the forward's inputs.
    fn cell(&self, input: usize) -> Result<&Arc<Cell>, Error> {
        let arguments = self.params.len() + self.stage.of.inputs.len();
        match (self.params.get(input), input.checked_sub(arguments)) {
            (Some(param), _) => cell_of(param),
            (None, Some(captured)) => Ok(&self.stage.of.cells[captured]),
            (None, None) => {
                let name = &self.stage.of.inputs[input - self.params.len()].path;
                let claim = format!("a backward of stage {} reads or writes its input `{name}`", self.number);
                Err(errors::misfit(claim).help("make it a parameter, or capture it"))
            }
        }
    }

    fn write(&mut self, inputs: &[usize], values: Vec<Buffer>) -> Result<(), Error> {
        let cells = inputs.iter().map(|i| self.cell(*i).cloned()).collect::<Result<Vec<_>, _>>()?;
        parts::write(&cells, values)?;
        inputs.iter().for_each(|i| self.written[*i] += 1);
        Ok(())
    }

    /// How often code other than the stage's programs wrote a parameter or a captured tensor.
    fn version(&self, input: usize) -> Result<u64, Error> {
        Ok(self.cell(input)?.version().saturating_sub(self.written[input]))
    }

    fn versions(&self) -> Result<Vec<u64>, Error> {
        let inputs = self.params.len()..self.params.len() + self.stage.of.inputs.len();
        let one = |i: usize| if inputs.contains(&i) { Ok(0) } else { self.version(i) };
        (0..self.stage.of.trace.inputs().len()).map(one).collect()
    }
}

/// The buffers, all of which must be present.
fn every<'b>(buffers: impl IntoIterator<Item = &'b Option<Buffer>>) -> Result<Vec<Buffer>, Error> {
    let lost = || Error::bug("E709", "a part of a backward lost an input");
    buffers.into_iter().map(|b| b.clone().ok_or_else(lost)).collect()
}
