//! The storages of dense values: their lifetimes, their places, and values that take over the
//! memory of others.

use super::plan::{self, Request};
use super::step::Step;
use crate::executors::fusion::graph::ValueId;
use crate::executors::fusion::graph::piece::Values;
use fulgurite_core::DType;
use rustc_hash::{FxHashMap, FxHashSet};

/// The place of a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// The storage is an input of the program.
    Input(u32),
    /// The storage is a block that leaves the program.
    Block(u32),
    /// The storage is at this offset in the arena.
    Arena(usize),
    /// The storage takes over the memory of this other storage.
    Same(u32),
    /// The storage is in a device's memory.
    Device,
    /// The storage is the prepared copy of an input, which may not exist.
    Kept,
}

/// The storage of a dense value.
#[derive(Clone, Copy, Debug)]
pub struct Storage {
    /// The number of bytes.
    pub bytes: usize,
    pub place: Where,
    /// The element type.
    pub dtype: DType,
}

/// Collects the lifetimes of values, step by step.
pub struct Layout<'a> {
    values: &'a Values,
    inputs: &'a [ValueId],
    outputs: &'a [ValueId],
    number: FxHashMap<ValueId, u32>,
    roots: Vec<ValueId>,
    /// For each value, the first and the last step that uses it.
    life: Vec<(usize, usize)>,
    /// Triples of a step, a written value and a read value, of which the written one may take the memory of the read
    /// one.
    alias: Vec<(usize, u32, u32)>,
    /// The accumulators of programs: (step, bytes).
    scratch: Vec<(usize, usize)>,
    /// The last step that elements can stop.
    stops: Option<usize>,
    on_device: FxHashSet<ValueId>,
    /// The values that a step uses in host memory.
    here: FxHashSet<ValueId>,
}

/// The storages of a program, with their places.
pub struct Placed {
    /// The storage of each dense value.
    pub number: FxHashMap<ValueId, u32>,
    /// The dense value of each storage; accumulators come after them.
    pub roots: Vec<ValueId>,
    /// For each storage, whether a step uses it in host memory.
    pub here: Vec<bool>,
    /// Values on devices whose last use is within the program: (last step, storage).
    pub last: Vec<(usize, u32)>,
    /// All storages.
    pub storages: Vec<Storage>,
    /// The storage of the accumulators of a step.
    pub scratch: FxHashMap<usize, u32>,
    /// The storages that a step is the first to write, by step: (step, storage).
    pub fresh: Vec<(usize, u32)>,
    /// The steps that write over a value that they read.
    pub inplace: FxHashSet<usize>,
    /// The bytes of the arena.
    pub arena: usize,
    /// The most bytes of the arena that are in use at once.
    pub peak: usize,
    /// The bytes of each block that leaves the program.
    pub blocks: Vec<usize>,
    /// Pairs (input, block): the block may be the memory of the input, if the caller donates it.
    pub donations: Vec<(u32, u32)>,
}

/// For each storage, the one whose memory it uses and whether it takes over a value's memory; and pairs (donated input,
/// output).
type Successions = (Vec<usize>, Vec<bool>, Vec<(u32, usize)>);

impl Placed {
    /// Adds the storage of a prepared copy of an input.
    pub fn add_kept(&mut self, bytes: usize) -> u32 {
        self.storages.push(Storage { bytes, place: Where::Kept, dtype: DType::U8 });
        self.storages.len() as u32 - 1
    }
}

impl<'a> Layout<'a> {
    /// Starts the layout of a program with these inputs and (dense) outputs.
    pub fn new(values: &'a Values, inputs: &'a [ValueId], outputs: &'a [ValueId]) -> Layout<'a> {
        let mut layout = Layout {
            values,
            inputs,
            outputs,
            number: FxHashMap::default(),
            roots: Vec::new(),
            life: Vec::new(),
            alias: Vec::new(),
            scratch: Vec::new(),
            stops: None,
            on_device: FxHashSet::default(),
            here: FxHashSet::default(),
        };
        inputs.iter().for_each(|v| _ = layout.touch(*v, 0));
        layout
    }

    fn touch(&mut self, v: ValueId, step: usize) -> u32 {
        match self.number.get(&v) {
            Some(&n) => {
                let life = &mut self.life[n as usize];
                *life = (life.0.min(step), life.1.max(step));
                n
            }
            None => {
                let n = self.roots.len() as u32;
                self.number.insert(v, n);
                self.roots.push(v);
                self.life.push((step, step));
                n
            }
        }
    }

    /// Adds step number `at`.
    pub(crate) fn step(&mut self, at: usize, step: &Step) {
        let step = match step {
            Step::Host(step) => step,
            Step::Device(step) => {
                step.touches().for_each(|v| _ = self.touch(v, at));
                self.on_device.extend(step.makes());
                self.stops = Some(at);
                return;
            }
        };
        let touched = step.touches();
        touched.iter().for_each(|v| _ = self.touch(*v, at));
        self.here.extend(touched);
        if step.may_stop() {
            self.stops = Some(at);
        }
        for (w, r) in step.alias() {
            if let (Some(&w), Some(&r)) = (self.number.get(w), self.number.get(r)) {
                self.alias.push((at, w, r));
            }
        }
        if step.scratch() > 0 {
            self.scratch.push((at, step.scratch()));
        }
    }

    /// Decides the place of every storage.
    pub fn place(mut self) -> Placed {
        for v in self.outputs {
            // Values that leave the program stay in use.
            self.touch(*v, usize::MAX);
        }
        let n = self.roots.len();
        let bytes: Vec<usize> = self.roots.iter().map(|v| self.values.ty(*v).bytes()).collect();
        let mut places: FxHashMap<ValueId, u32> = FxHashMap::default();
        for (i, v) in self.inputs.iter().enumerate() {
            places.entry(*v).or_insert(i as u32);
        }
        let input: Vec<Option<u32>> = self.roots.iter().map(|v| places.get(v).copied()).collect();
        let outputs: FxHashSet<ValueId> = self.outputs.iter().copied().collect();
        let on_device: Vec<bool> = self.roots.iter().map(|v| self.on_device.contains(v)).collect();
        let leaves: Vec<bool> =
            (0..n).map(|i| input[i].is_none() && !on_device[i] && outputs.contains(&self.roots[i])).collect();
        let (home, inherits, donors) = self.successions(&bytes, &input, &leaves);
        // A chain of successors uses its first memory from its first step to its last.
        let mut life = self.life.clone();
        for (i, &h) in home.iter().enumerate() {
            life[h] = (life[h].0.min(self.life[i].0), life[h].1.max(self.life[i].1));
        }
        let mut requests: Vec<Request> = (0..n)
            .map(|i| {
                let fixed = input[i].is_some() || leaves[i] || on_device[i] || home[i] != i;
                Request { bytes: bytes[i], from: life[i].0, to: life[i].1, fixed }
            })
            .collect();
        requests.extend(self.scratch.iter().map(|&(at, bytes)| Request { bytes, from: at, to: at, fixed: false }));
        let plan = plan::place(&requests);
        let (mut storages, mut blocks, mut block_of) = (Vec::new(), Vec::new(), vec![0u32; n]);
        for i in 0..n {
            let place = match (input[i], leaves[i]) {
                (Some(k), _) => Where::Input(k),
                (None, true) => {
                    block_of[i] = blocks.len() as u32;
                    blocks.push(bytes[i]);
                    Where::Block(block_of[i])
                }
                _ if on_device[i] => Where::Device,
                _ if home[i] != i => Where::Same(home[i] as u32),
                _ => Where::Arena(plan.offsets[i].unwrap_or(0)),
            };
            storages.push(Storage { bytes: bytes[i], place, dtype: self.values.ty(self.roots[i]).dtype });
        }
        let mut scratch = FxHashMap::default();
        for (k, &(at, bytes)) in self.scratch.iter().enumerate() {
            scratch.insert(at, storages.len() as u32);
            // accumulators, which only their step uses
            let place = Where::Arena(plan.offsets[n + k].unwrap_or(0));
            storages.push(Storage { bytes, place, dtype: DType::U8 });
        }
        let donations = donors.into_iter().map(|(i, w)| (i, block_of[w])).collect();
        let here = self.roots.iter().map(|v| self.here.contains(v)).collect();
        let gone = |i: usize| if on_device[i] && self.life[i].1 != usize::MAX { Some(self.life[i].1) } else { None };
        let last = (0..n).filter_map(|i| Some((gone(i)?, i as u32))).collect();
        let fresh = |i: &usize| input[*i].is_none() && !on_device[*i] && !inherits[*i];
        let mut fresh: Vec<(usize, u32)> = (0..n).filter(fresh).map(|i| (self.life[i].0, i as u32)).collect();
        fresh.sort_unstable();
        let inplace = (0..n).filter(|i| inherits[*i]).map(|i| self.life[i].0).collect();
        let Layout { number, roots, .. } = self;
        Placed {
            number,
            roots,
            here,
            last,
            fresh,
            inplace,
            storages,
            scratch,
            arena: plan.bytes,
            peak: plan.peak,
            blocks,
            donations,
        }
    }

    /// For each storage, the one whose memory it uses and whether it takes over another value's memory; and the donated
    /// inputs that could become outputs.
    fn successions(&self, bytes: &[usize], input: &[Option<u32>], leaves: &[bool]) -> Successions {
        let n = bytes.len();
        let mut home: Vec<usize> = (0..n).collect();
        let mut succeeded = vec![false; n];
        let mut inherits = vec![false; n];
        let mut donors: Vec<(u32, usize)> = Vec::new();
        for &(at, w, r) in &self.alias {
            let (w, r) = (w as usize, r as usize);
            let hands_over = self.life[r].1 == at && self.life[w].0 == at && bytes[w] == bytes[r];
            if !hands_over || inherits[w] || succeeded[r] {
                continue;
            }
            match input[r] {
                // Donation is known only at run time; several inputs may be offered for one output.
                Some(i) => {
                    if leaves[w] {
                        donors.push((i, w));
                    }
                    continue;
                }
                None if leaves[w] => {
                    // The whole chain so far moves into the block that leaves.
                    let chain = home[r];
                    home.iter_mut().filter(|h| **h == chain).for_each(|h| *h = w);
                }
                None => home[w] = home[r],
            }
            inherits[w] = true;
            succeeded[r] = true;
        }
        // A block that is used before its output is written can't be an input that is still read.
        donors.retain(|(_, w)| !inherits[*w]);
        // A program that stops leaves its inputs unchanged.
        donors.retain(|(_, w)| self.stops.is_none_or(|at| at < self.life[*w].0));
        (home, inherits, donors)
    }
}
