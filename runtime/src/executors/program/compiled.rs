//! Compiled programs: a run checks the inputs, finds memory for the results, and executes the steps
//! in order.

use super::device_step::Held;
use super::host_step::{Fault, Memory, Stopped};
use super::kept::{Keep, KeptInputs};
use super::layout::{Placed, Storage, Where};
use super::poison::{self, Pattern};
use super::step::Step;
use super::threads;
use crate::buffer::pool::{Block, OutOfMemory};
use crate::buffer::{Buffer, Sizes};
use crate::executors::ExecError;
use crate::executors::fusion::fuse::Separate;
use crate::executors::transfer::unfetched;
use crate::trace::BoundSymbolId;
use fulgurite_core::{DType, counted};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::fmt;
use std::time::{Duration, Instant};

/// A result: a dense storage with a shape.
pub(crate) struct Output {
    pub storage: u32,
    pub dtype: DType,
    pub shape: Sizes,
}

/// The parts of which a program is made.
pub(crate) struct Parts {
    pub inputs: Vec<(DType, Sizes)>,
    pub outputs: Vec<Output>,
    /// The names of the storages, for messages.
    pub labels: Vec<Option<String>>,
    pub steps: Vec<Step>,
    pub infos: Vec<StepInfo>,
    /// For each step and storage, the line that picks elements of the storage by an index tensor.
    pub blame: FxHashMap<(usize, u32), BoundSymbolId>,
    pub apart: Vec<(BoundSymbolId, BoundSymbolId, Separate)>,
    pub layout: Placed,
    /// The operands of which steps can use prepared copies.
    pub keeps: Vec<Keep>,
    pub threads: usize,
}

/// A program for inputs of fixed types. Several threads may run it at once.
pub struct Compiled {
    parts: Parts,
    kept: KeptInputs,
    /// The bytes of each storage.
    sizes: Vec<usize>,
    /// The storage of each step's accumulators.
    scratch: Vec<Option<u32>>,
    /// Whether some step has enough work for several threads.
    shares: bool,
    /// Whether some step runs on a device.
    holds: bool,
}

/// The time of one run of a step.
#[derive(Clone, Copy)]
pub(crate) struct StepTime {
    pub start: Instant,
    pub time: Duration,
}

/// A description of a step, for users.
#[derive(Clone, Debug)]
pub struct StepInfo {
    /// The executor that runs the step.
    pub executor: &'static str,
    /// The name of the step.
    pub what: String,
    /// The parts of the step in order, a line each, if it has several.
    pub steps: Vec<String>,
    /// The lines that the step runs.
    pub lines: Vec<BoundSymbolId>,
    /// The rows of these lines.
    pub rows: Vec<&'static str>,
    /// The bytes that the step moves.
    pub bytes: usize,
    /// The floating-point operations of a product; 0 for other steps.
    pub flops: f64,
    /// The estimated nanoseconds on one thread.
    pub nanos: f64,
}

/// A description of a program, for users.
#[derive(Clone, Debug)]
pub struct Description {
    /// The steps, in order.
    pub steps: Vec<StepInfo>,
    /// The bytes of the arena.
    pub arena: usize,
    /// The most bytes of the arena that are in use at once.
    pub peak: usize,
    /// The bytes of the results.
    pub outputs: usize,
    /// Lines that read a result of another line and are not fused with it, if [`CompileOptions::explain`] is set.
    ///
    /// [`CompileOptions::explain`]: crate::executors::CompileOptions::explain
    pub apart: Vec<(BoundSymbolId, BoundSymbolId, Separate)>,
}

/// The blocks that leave a program, and for each whether it is a donated input.
type Blocks = (SmallVec<[Block; 8]>, SmallVec<[bool; 8]>);

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}, arena {} bytes (in use at most {}), results {} bytes",
            counted(self.steps.len(), "step", "steps"),
            self.arena,
            self.peak,
            self.outputs
        )?;
        for (i, s) in self.steps.iter().enumerate() {
            let rows = s.rows.iter().filter(|r| !r.is_empty()).copied().collect::<Vec<_>>().join(" ");
            let rows = if rows.is_empty() { rows } else { format!("  [{rows}]") };
            writeln!(f, "{i:4}  {:7} {}{rows}", s.executor, s.what)?;
            s.steps.iter().try_for_each(|step| writeln!(f, "              {step}"))?;
        }
        Ok(())
    }
}

impl Compiled {
    pub(crate) fn new(mut parts: Parts) -> Compiled {
        let kept = KeptInputs::new(std::mem::take(&mut parts.keeps));
        let sizes = parts.layout.storages.iter().map(|s| s.bytes).collect();
        let scratch = (0..parts.steps.len()).map(|i| parts.layout.scratch.get(&i).copied()).collect();
        let shares = parts.infos.iter().any(|i| i.nanos >= threads::WORTH_SHARING);
        let holds = parts.steps.iter().any(|s| matches!(s, Step::Device(_)));
        Compiled { parts, kept, sizes, scratch, shares, holds }
    }

    /// Runs the program. Returns the trace's outputs, then the values of its epilogue's writes.
    ///
    /// # Errors
    /// E803 for inputs of other types than it was compiled for, E804 and E805 for indices out of range and division by
    /// zero, E806 without memory, and errors of kernels.
    pub fn run(&self, inputs: &[Buffer]) -> Result<Vec<Buffer>, ExecError> {
        self.check(inputs)?;
        self.execute(inputs, &[], None, &mut false)
    }

    /// Like [`Compiled::run`], with donated inputs: a result may take the memory of a donated input that is not shared.
    /// Donated inputs are empty afterwards, whether or not their memory was taken.
    ///
    /// # Errors
    /// Reports the errors of [`Compiled::run`]; the inputs are then unchanged.
    pub fn run_donating(&self, inputs: &mut [Buffer], donated: &[bool]) -> Result<Vec<Buffer>, ExecError> {
        self.donating(inputs, donated, None)
    }

    /// Like [`Compiled::run_donating`], and writes the time of each step to `times`.
    ///
    /// # Errors
    /// Reports the errors of [`Compiled::run`]; the inputs are then unchanged.
    pub(crate) fn run_timed(
        &self,
        inputs: &mut [Buffer],
        donated: &[bool],
        times: &mut Vec<StepTime>,
    ) -> Result<Vec<Buffer>, ExecError> {
        self.donating(inputs, donated, Some(times))
    }

    fn donating(
        &self,
        inputs: &mut [Buffer],
        donated: &[bool],
        times: Option<&mut Vec<StepTime>>,
    ) -> Result<Vec<Buffer>, ExecError> {
        self.check(inputs)?;
        // requested first, so that a run that has overwritten its inputs does not fail
        let empty = |(input, given): (&Buffer, &bool)| given.then(|| Buffer::stale(input.dtype(), &[0])).transpose();
        let empty: Result<SmallVec<[Option<Buffer>; 16]>, _> = inputs.iter().zip(donated).map(empty).collect();
        let empty = empty.map_err(|e| no_memory(e, "an empty tensor"))?;
        let mut begun = false;
        let results = match self.execute(inputs, donated, times, &mut begun) {
            Ok(results) => results,
            Err(e) => {
                // steps that can refuse run before memory is taken over; any step can lack memory for its workspace
                if begun && e.code == "E806" {
                    self.spoil(inputs, donated);
                }
                return Err(e);
            }
        };
        for (input, empty) in inputs.iter_mut().zip(empty) {
            if let Some(empty) = empty {
                *input = empty;
            }
        }
        Ok(results)
    }

    /// Empties the donated inputs over which steps may have written, so that values that are half old and half new
    /// are not taken for those of the caller.
    #[cold]
    fn spoil(&self, inputs: &mut [Buffer], donated: &[bool]) {
        for &(i, _) in &self.parts.layout.donations {
            let input = &mut inputs[i as usize];
            if donated.get(i as usize) == Some(&true) && input.is_unique() {
                *input = input.emptied();
            }
        }
    }

    fn check(&self, inputs: &[Buffer]) -> Result<(), ExecError> {
        let types = &self.parts.inputs;
        if inputs.len() != types.len() {
            return Err(ExecError::new(
                "E803",
                format!("the program takes {} inputs, {} were given", types.len(), inputs.len()),
            ));
        }
        for (i, (b, (dtype, shape))) in inputs.iter().zip(types).enumerate() {
            if b.dtype() != *dtype || b.shape() != shape.as_slice() {
                let (have, want) = (b.shape(), shape.as_slice());
                return Err(ExecError::new(
                    "E803",
                    format!("input {i} is {}{have:?}, the program takes {dtype}{want:?}", b.dtype()),
                ));
            }
        }
        Ok(())
    }

    fn execute(
        &self,
        inputs: &[Buffer],
        donated: &[bool],
        times: Option<&mut Vec<StepTime>>,
        begun: &mut bool,
    ) -> Result<Vec<Buffer>, ExecError> {
        let p = &self.parts;
        let arena = Block::new(p.layout.arena).map_err(|e| no_memory(e, "the values inside of the program"))?;
        let threads = if p.threads > 0 { p.threads } else { threads::threads() };
        // before blocks of donated inputs are looked for, because one that is kept is not free
        let kept = self.kept.lend(inputs, donated, &|keep, from, to| self.prepare(keep, (from, to), threads));
        let (blocks, given) = self.blocks(inputs, donated)?;
        let mut held: SmallVec<[Option<Buffer>; 32]> = SmallVec::new();
        let mut pointers: SmallVec<[*mut u8; 32]> = SmallVec::with_capacity(p.layout.storages.len());
        for (at, s) in p.layout.storages.iter().enumerate() {
            pointers.push(match s.place {
                Where::Input(i) => {
                    let input = &inputs[i as usize];
                    if self.holds {
                        held.resize(at + 1, None);
                        held[at] = Some(input.clone());
                    }
                    match p.layout.here[at] || !self.holds {
                        true => input.block().map_err(unfetched)?.data(),
                        false => std::ptr::null_mut(),
                    }
                }
                Where::Block(b) => blocks[b as usize].data(),
                // SAFETY: the plan's offsets lie within the arena.
                Where::Arena(at) => unsafe { arena.data().add(at) },
                Where::Same(_) | Where::Device | Where::Kept => std::ptr::null_mut(),
            });
        }
        kept.iter().for_each(|(storage, copy)| pointers[*storage as usize] = copy.data());
        for (i, s) in p.layout.storages.iter().enumerate() {
            if let Where::Same(other) = s.place {
                pointers[i] = pointers[other as usize];
            }
        }
        if self.holds {
            held.resize(p.layout.storages.len(), None);
        }
        let memory = Memory(&pointers);
        *begun = true;
        self.steps(memory, &given, &mut held, if self.shares { threads } else { 1 }, times)?;
        let result = |o: &Output| match p.layout.storages[o.storage as usize].place {
            Where::Input(i) => Ok(inputs[i as usize].retyped(o.dtype, &o.shape)),
            Where::Block(b) => Ok(Buffer::from_block(blocks[b as usize].clone(), o.dtype, &o.shape)),
            Where::Device => match &held[o.storage as usize] {
                Some(buffer) => Ok(buffer.retyped(o.dtype, &o.shape)),
                None => Err(ExecError::new("E807", "a result was not made")),
            },
            // invariant: an output's storage is an input, a block or on a device
            Where::Arena(_) | Where::Same(_) | Where::Kept => Ok(Buffer::from_block(arena.clone(), o.dtype, &o.shape)),
        };
        p.outputs.iter().map(result).collect()
    }

    /// Writes the copy of an input for a step.
    fn prepare(&self, keep: &Keep, (from, to): (*mut u8, *mut u8), threads: usize) {
        let Step::Host(host) = &self.parts.steps[keep.step] else { return };
        let place = |s: (usize, &Storage)| match s.1.place {
            Where::Input(i) if i as usize == keep.input => from,
            Where::Kept if s.0 == keep.storage as usize => to,
            _ => std::ptr::null_mut(),
        };
        let pointers: SmallVec<[*mut u8; 32]> = self.parts.layout.storages.iter().enumerate().map(place).collect();
        // SAFETY: the input was checked, and the copy has the bytes that the step asked for.
        unsafe { host.prepare(Memory(&pointers), threads) };
    }

    /// The blocks that leave the program: donated inputs if possible, new blocks otherwise; and for each whether it is
    /// an input.
    fn blocks(&self, inputs: &[Buffer], donated: &[bool]) -> Result<Blocks, ExecError> {
        let p = &self.parts;
        let mut given: SmallVec<[bool; 16]> = SmallVec::from_elem(false, inputs.len());
        let mut donor: SmallVec<[Option<u32>; 16]> = SmallVec::from_elem(None, p.layout.blocks.len());
        if donated.contains(&true) {
            for &(i, b) in &p.layout.donations {
                let (input, block) = (i as usize, b as usize);
                let offered = donated.get(input) == Some(&true) && inputs[input].is_unique();
                if offered && !given[input] && donor[block].is_none() {
                    given[input] = true;
                    donor[block] = Some(i);
                }
            }
        }
        let block = |(at, (bytes, donor)): (usize, (&usize, Option<u32>))| {
            let block = match donor {
                // only an input in host memory can be unique
                Some(i) => inputs[i as usize].block().cloned().or_else(|_| Block::new(*bytes)),
                None => Block::new(*bytes),
            };
            block.map_err(|e| no_memory(e, &self.result_in(at)))
        };
        let inputs_given = donor.iter().map(Option::is_some).collect();
        let blocks: SmallVec<[Block; 8]> =
            p.layout.blocks.iter().zip(donor).enumerate().map(block).collect::<Result<_, _>>()?;
        Ok((blocks, inputs_given))
    }

    /// The result that a block holds, for a message.
    #[cold]
    fn result_in(&self, block: usize) -> String {
        let p = &self.parts;
        let holds =
            |storage: u32| matches!(p.layout.storages[storage as usize].place, Where::Block(b) if b as usize == block);
        let Some(output) = p.outputs.iter().find(|o| holds(o.storage)) else { return "a result".to_owned() };
        let label = p.labels.get(output.storage as usize).cloned().flatten().map(|l| format!(" `{l}`"));
        format!("the result{} {}{:?}", label.unwrap_or_default(), output.dtype, output.shape.as_slice())
    }

    fn steps(
        &self,
        memory: Memory,
        given: &[bool],
        held: Held<'_>,
        threads: usize,
        mut times: Option<&mut Vec<StepTime>>,
    ) -> Result<(), ExecError> {
        for (at, step) in self.parts.steps.iter().enumerate() {
            if cfg!(debug_assertions) {
                self.poison(at, memory, given, false);
            }
            let start = times.is_some().then(Instant::now);
            let mut run = || {
                let scratch = self.scratch[at].map_or(std::ptr::null_mut(), |s| memory.0[s as usize]);
                // SAFETY: inputs were checked, blocks and the arena have the planned sizes, and the plan lets no two
                // values share memory while both are in use, except for pairs that the program itself allows.
                let done = unsafe {
                    match step {
                        Step::Host(step) => step.run(memory, &self.sizes, scratch, threads),
                        Step::Device(step) => step.run(memory, held).map_err(Stopped::Kernel),
                    }
                };
                done.map_err(|stopped| self.error(stopped, at))
            };
            run()?;
            if cfg!(debug_assertions) {
                self.written(at, memory, given, &mut run)?;
            }
            if let (Some(times), Some(start)) = (&mut times, start) {
                times.push(StepTime { start, time: start.elapsed() });
            }
            for (_, storage) in self.parts.layout.last.iter().filter(|(last, _)| *last == at) {
                held[*storage as usize] = None;
            }
        }
        Ok(())
    }

    /// The storages that a step is the first to write, except for donated inputs, which `given`
    /// marks.
    fn fresh<'a>(&'a self, step: usize, given: &'a [bool]) -> impl Iterator<Item = u32> + 'a {
        let fresh = &self.parts.layout.fresh;
        let first = fresh.partition_point(|(at, _)| *at < step);
        let donated =
            |s: u32| matches!(self.parts.layout.storages[s as usize].place, Where::Block(b) if given[b as usize]);
        fresh[first..].iter().take_while(move |(at, _)| *at == step).map(|(_, s)| *s).filter(move |s| !donated(*s))
    }

    /// Fills the storages that a step is the first to write with a pattern, so that a missing write shows.
    fn poison(&self, step: usize, memory: Memory, given: &[bool], second: bool) {
        for storage in self.fresh(step, given) {
            let Storage { bytes, dtype, .. } = self.parts.layout.storages[storage as usize];
            if bytes > 0 {
                // SAFETY: the storage has that many bytes, and only this step uses it now.
                let bytes = unsafe { std::slice::from_raw_parts_mut(memory.at(storage), bytes) };
                Pattern::of(dtype, second).fill(bytes);
            }
        }
    }

    /// The bytes of a storage that a step is the first to write.
    ///
    /// # Safety
    /// The storage was filled before the step ran, and no thread writes it now.
    unsafe fn bytes<'a>(&self, memory: Memory<'a>, storage: u32) -> &'a [u8] {
        match self.sizes[storage as usize] {
            0 => &[],
            // SAFETY: the storage has that many bytes; the caller upholds the rest.
            bytes => unsafe { std::slice::from_raw_parts(memory.at(storage), bytes) },
        }
    }

    /// Checks that a step which has run wrote every element of its results; `run` runs it again.
    ///
    /// # Errors
    /// E807 at the step's line.
    fn written(
        &self,
        step: usize,
        memory: Memory,
        given: &[bool],
        run: &mut dyn FnMut() -> Result<(), ExecError>,
    ) -> Result<(), ExecError> {
        let p = &self.parts;
        let dtype = |storage: u32| p.layout.storages[storage as usize].dtype;
        // (storage, element) of the first element that has the pattern of the first run
        let suspect = |storage: u32| {
            // SAFETY: `poison` filled the storage, and the step is done.
            let bytes = unsafe { self.bytes(memory, storage) };
            Pattern::of(dtype(storage), false).first(bytes).map(|at| (storage, at))
        };
        let suspects: SmallVec<[(u32, usize); 2]> = self.fresh(step, given).filter_map(suspect).collect();
        if suspects.is_empty() {
            return Ok(());
        }
        // a step whose results have the memory of what it reads can run once only
        let once =
            p.layout.inplace.contains(&step) || p.layout.donations.iter().any(|(_, block)| given[*block as usize]);
        let found = if once {
            suspects.into_iter().find(|(storage, _)| Pattern::of(dtype(*storage), false).certain)
        } else {
            // SAFETY: `poison` filled the storages, and the step is done.
            let kept = suspects.iter().map(|(s, _)| (*s, unsafe { self.bytes(memory, *s) }.to_vec()));
            let kept: SmallVec<[(u32, Vec<u8>); 2]> = kept.collect();
            self.poison(step, memory, given, true);
            run()?;
            kept.into_iter().find_map(|(storage, before)| {
                // SAFETY: `poison` filled the storage, and the step is done.
                let now = unsafe { self.bytes(memory, storage) };
                poison::unwritten(dtype(storage), &before, now).map(|at| (storage, at))
            })
        };
        let Some((storage, element)) = found else { return Ok(()) };
        let label = p.labels.get(storage as usize).cloned().flatten().map(|l| format!(" of `{l}`"));
        let info = &p.infos[step];
        let what = if info.what.is_empty() { info.executor } else { &info.what };
        let claim = format!("`{what}` did not write element {element}{}", label.unwrap_or_default());
        let e = ExecError { line: info.lines.last().copied(), ..ExecError::new("E807", claim) };
        Err(e.help("a kernel writes every element of its results, because their memory holds stale data before"))
    }

    #[cold]
    fn error(&self, stopped: Stopped, step: usize) -> ExecError {
        let info = &self.parts.infos[step];
        let mut line = info.lines.last().copied();
        let mut e = match stopped {
            Stopped::Kernel(e) => e,
            Stopped::Fault(Fault::OutOfRange { value, axis, index, size }) => {
                line = self.parts.blame.get(&(step, value)).copied().or(line);
                let label = self.parts.labels.get(value as usize).cloned().flatten();
                let of = label.map_or("a value".to_owned(), |l| format!("`{l}`"));
                ExecError::new(
                    "E804",
                    format!("index {index} is out of range for axis {axis} of {of}, whose size is {size}"),
                )
            }
            Stopped::Fault(Fault::DivisionByZero(b)) => {
                ExecError::new("E805", format!("`{}`: division of an integer by zero", b.name()))
            }
            Stopped::Fault(Fault::OutOfMemory(bytes)) => {
                no_memory(OutOfMemory { bytes }, &format!("the workspace of {}", info.what))
            }
        };
        e.line = e.line.or(line);
        e
    }

    /// A description of the steps and the memory that they need.
    pub fn describe(&self) -> Description {
        let p = &self.parts;
        let (steps, apart) = (p.infos.clone(), p.apart.clone());
        Description { steps, arena: p.layout.arena, peak: p.layout.peak, outputs: p.layout.blocks.iter().sum(), apart }
    }
}

#[cold]
fn no_memory(e: OutOfMemory, what: &str) -> ExecError {
    ExecError::new("E806", format!("{e} for {what}")).help("take smaller sizes or batches")
}

#[cfg(test)]
mod tests;
