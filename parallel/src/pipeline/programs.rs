//! The programs of a stage: its forward, and for each set of cotangents a backward, whole and cut.

use super::slot::Slot;
use crate::backward_split::{BackwardSplit, Handover, Slots, backward_split};
use fulgurite_runtime::Error;
use fulgurite_runtime::executors::Executor;
use fulgurite_runtime::parts::{self, CompiledPart, cut, whole_forward};
use fulgurite_runtime::tensor::Cell;
use fulgurite_runtime::trace::{ProxyId, Trace};
use fulgurite_runtime::transforms::{self, Pipeline, Seed, Split};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// A stage's trace, the options of the stage, and the programs made from them.
pub(super) struct Programs {
    /// The trace of the stage. Its inputs are parameters, inputs of the stage, captured cells.
    pub trace: Trace,
    pub cells: Vec<Arc<Cell>>,
    pub params: Vec<Slot>,
    pub inputs: Vec<Slot>,
    pub outputs: Vec<Slot>,
    pub executors: Vec<Arc<dyn Executor>>,
    pub pipeline: Pipeline,
    pub policy: Handover,
    forward: OnceCell<Forward>,
    /// One backward for each set of cotangents.
    backwards: RefCell<Vec<Rc<Backward>>>,
}

struct Forward {
    trace: Trace,
    program: OnceCell<parts::ForwardPart>,
    /// The values that the forward keeps; they stand after its results.
    kept: Vec<ProxyId>,
    /// The forward before it was simplified, from which each backward is made.
    base: Trace,
    /// The values by which the forward is differentiated.
    wrt: Vec<ProxyId>,
    slots: Slots,
}

/// A backward for the cotangents of some outputs.
pub(super) struct Backward {
    mask: Vec<bool>,
    pub split: Split,
    /// For each value of the forward that the backward reads, its position among the kept ones.
    pub from: Vec<usize>,
    backward_split: OnceCell<BackwardSplit>,
    whole: OnceCell<CompiledPart>,
    input: OnceCell<CompiledPart>,
    weight: OnceCell<Vec<CompiledPart>>,
}

impl Programs {
    pub fn new(
        trace: Trace,
        cells: Vec<Arc<Cell>>,
        params: Vec<Slot>,
        inputs: Vec<Slot>,
        outputs: Vec<Slot>,
    ) -> Programs {
        Programs {
            trace,
            cells,
            params,
            inputs,
            outputs,
            executors: Vec::new(),
            pipeline: Pipeline::default(),
            policy: Handover::default(),
            forward: OnceCell::new(),
            backwards: RefCell::default(),
        }
    }

    /// Drops the compiled programs.
    pub fn forget(&mut self) {
        self.forward = OnceCell::new();
        self.backwards = RefCell::default();
    }

    /// The outputs that may have a cotangent.
    pub fn mask(&self) -> Vec<bool> {
        self.outputs.iter().map(|s| s.needs_grad).collect()
    }

    /// The number of sets of cotangents for which a backward was compiled.
    pub fn masks(&self) -> usize {
        self.backwards.borrow().len()
    }

    /// The traces of the forward, made once.
    fn forward(&self) -> Result<&Forward, Error> {
        if let Some(forward) = self.forward.get() {
            return Ok(forward);
        }
        let trace = &self.trace;
        let mut wrt = Vec::new();
        let mut number = |slots: &[Slot], from: usize| -> Vec<Option<usize>> {
            let one = |(i, slot): (usize, &Slot)| {
                slot.needs_grad.then(|| {
                    wrt.push(trace.inputs()[from + i].proxy);
                    wrt.len() - 1
                })
            };
            slots.iter().enumerate().map(one).collect()
        };
        let params = number(&self.params, 0);
        let inputs = number(&self.inputs, self.params.len());
        let captured = self.params.len() + self.inputs.len()..trace.inputs().len();
        let slots = Slots { inputs, params, lasting: (0..self.params.len()).chain(captured).collect() };
        let mask = self.mask();
        let joint = transforms::joint(trace, &wrt, &seeds(&mask))?;
        let base = whole_forward(&joint);
        let split = cut(joint, &self.pipeline, &self.executors)?;
        let trace = split.forward.clone();
        let kept: Vec<ProxyId> = split.plan.tensors.iter().chain(&split.plan.numbers).copied().collect();
        let from = (0..kept.len()).collect();
        let backward = Backward::new(mask, split, from);
        self.backwards.borrow_mut().push(Rc::new(backward));
        Ok(self.forward.get_or_init(|| Forward { trace, program: OnceCell::new(), kept, base, wrt, slots }))
    }

    /// The compiled forward, F.
    pub fn program(&self) -> Result<&parts::ForwardPart, Error> {
        let forward = self.forward()?;
        once(&forward.program, || parts::ForwardPart::new(&forward.trace, self.cells.clone(), &self.executors))
    }

    /// The backward for cotangents of these outputs, made once for each such set. Such a backward may read values that
    /// the forward did not keep for the set of all cotangents, because a transform made them or a budget chose other
    /// ones. Then the backward for all cotangents runs instead, with zeros for the absent ones.
    ///
    /// # Errors
    /// E756 if that backward writes, because it must not write where no cotangent arrives; and errors of compiling.
    pub fn backward(&self, mask: &[bool]) -> Result<Rc<Backward>, Error> {
        let forward = self.forward()?;
        if let Some(known) = self.backwards.borrow().iter().find(|b| b.mask == mask) {
            return Ok(known.clone());
        }
        let joint = transforms::joint(&forward.base, &forward.wrt, &seeds(mask))?;
        let split = cut(joint, &self.pipeline, &self.executors)?;
        if let Some(from) = kept(&split, &forward.kept) {
            let made = Rc::new(Backward::new(mask.to_vec(), split, from));
            self.backwards.borrow_mut().push(made.clone());
            return Ok(made);
        }
        let whole = self.backwards.borrow()[0].clone();
        if whole.split.writes.is_empty() {
            return Ok(whole);
        }
        let claim = "a backward that writes can't be cut to these cotangents: it reads what the forward did not keep";
        Err(super::errors::misfit(claim)
            .help("pass all cotangents, or edit the stage at `At::Acquired`, without a budget"))
    }
}

/// For each value of the forward that a backward reads, its position among the kept ones.
fn kept(split: &Split, kept: &[ProxyId]) -> Option<Vec<usize>> {
    let reads = split.plan.tensors.iter().chain(&split.plan.numbers);
    reads.map(|p| kept.iter().position(|k| k == p)).collect()
}

fn seeds(mask: &[bool]) -> Vec<Seed> {
    mask.iter().map(|there| if *there { Seed::Input } else { Seed::Zero }).collect()
}

impl Backward {
    fn new(mask: Vec<bool>, split: Split, from: Vec<usize>) -> Backward {
        let (whole, input, weight) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Backward { mask, split, from, backward_split: OnceCell::new(), whole, input, weight }
    }

    /// The backward cut into I and W, as traces.
    pub fn backward_split(&self, of: &Programs) -> Result<&BackwardSplit, Error> {
        let slots = &of.forward()?.slots;
        once(&self.backward_split, || backward_split(&self.split, slots, of.policy))
    }

    /// The compiled whole backward, B.
    pub fn whole(&self, of: &Programs) -> Result<&CompiledPart, Error> {
        once(&self.whole, || CompiledPart::new(&self.split.backward, &of.executors))
    }

    /// The compiled part for inputs, I.
    pub fn input(&self, of: &Programs) -> Result<&CompiledPart, Error> {
        let backward_split = self.backward_split(of)?;
        once(&self.input, || CompiledPart::new(&backward_split.input, &of.executors))
    }

    /// The compiled units of W.
    pub fn weight(&self, of: &Programs) -> Result<&[CompiledPart], Error> {
        let backward_split = self.backward_split(of)?;
        let all = || backward_split.weight.iter().map(|u| CompiledPart::new(&u.trace, &of.executors)).collect();
        once(&self.weight, all).map(Vec::as_slice)
    }

    /// For each slot of the stage's inputs and for each of its parameters, the result of B that is its gradient.
    pub fn results(&self, of: &Programs) -> Result<[Vec<Option<usize>>; 2], Error> {
        let slots = &of.forward()?.slots;
        let at = |list: &Vec<Option<usize>>| list.iter().map(|slot| slot.and_then(|i| self.split.grads[i])).collect();
        Ok([&slots.inputs, &slots.params].map(at))
    }
}

fn once<T>(cell: &OnceCell<T>, make: impl FnOnce() -> Result<T, Error>) -> Result<&T, Error> {
    if let Some(made) = cell.get() {
        return Ok(made);
    }
    let made = make()?;
    Ok(cell.get_or_init(|| made))
}
