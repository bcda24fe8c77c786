//! A program on a device: its memory, and its actions in order.

use super::device::{Address, Device, Memory, Report};
use super::emit::{Action, Arg, Kernel, Site};
use super::forms::{Form, Loaded, Policy, Units};
use super::memory;
use super::replay::Replays;
use crate::buffer::Buffer;
use crate::executors::fusion::graph::ValueId;
use crate::executors::fusion::graph::piece::ValueTy;
use crate::executors::program::plan::{self, Request};
use crate::executors::transfer::unfetched;
use crate::executors::{self, ExecError, OnDevice, TensorMut, TensorRef, TransferSource, Works};
use crate::trace::BoundSymbolId;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, OnceLock};

/// A step of a program.
pub(super) enum Run {
    /// An action on the device.
    Device(Action),
    /// A loop over actions, with values that move by some bytes in each iteration.
    Rounds {
        /// The number of iterations.
        count: usize,
        /// The actions, each with the bytes by which its values move.
        actions: Vec<(Action, Vec<(ValueId, i64)>)>,
    },
    /// A kernel on the CPU: its inputs are fetched from the device, its results sent there.
    Host {
        kernel: Arc<dyn executors::Kernel>,
        /// The inputs, in the shapes that the kernel sees.
        inputs: Vec<(ValueId, ValueTy)>,
        /// The results.
        outs: Vec<(ValueId, ValueTy)>,
    },
}

/// The parts of which a program is made.
pub(super) struct Parts {
    pub device: Arc<dyn Device>,
    pub policy: Policy,
    pub types: Vec<ValueTy>,
    pub inputs: Vec<ValueId>,
    pub outputs: Vec<ValueId>,
    /// The steps, each with the line that it belongs to.
    pub runs: Vec<(Run, Option<usize>)>,
    pub sites: Arc<Sites>,
    pub lines: Vec<BoundSymbolId>,
}

/// The accesses and divisions of a program that may fail.
pub(super) struct Sites {
    pub sites: Vec<Site>,
    /// The names of values, for messages.
    pub labels: FxHashMap<ValueId, String>,
}

/// The place of a value.
#[derive(Clone, Copy)]
enum Place {
    /// The value is in an input's memory.
    Input(usize),
    /// The value has memory of its own, which leaves the program.
    Output(usize),
    /// The value is in the arena.
    Arena(usize),
    /// The value is in a block of its own, for devices that check where each value ends.
    Block(usize),
}

/// A part of a trace on a device.
pub struct DeviceProgram {
    parts: Parts,
    units: Units,
    places: FxHashMap<ValueId, Place>,
    /// The bytes of the arena.
    arena: usize,
    /// The bytes of each block.
    blocks: Vec<usize>,
    /// The results that have memory of their own.
    made: Vec<ValueId>,
    /// Whether all steps run on the device, so that they can be recorded.
    records: bool,
    /// Whether a kernel may note a fault.
    faults: bool,
    /// The place in the device's notes; none if the program waits for its faults. The first call takes it.
    note: OnceLock<Option<Address>>,
    whole: Mutex<Whole>,
}

impl Run {
    fn touches(&self) -> Vec<ValueId> {
        match self {
            Run::Device(action) => touches(action),
            Run::Rounds { actions, .. } => actions.iter().flat_map(|(a, _)| touches(a)).collect(),
            Run::Host { inputs, outs, .. } => inputs.iter().chain(outs).map(|v| v.0).collect(),
        }
    }

    fn actions(&self) -> Box<dyn Iterator<Item = &Action> + '_> {
        match self {
            Run::Device(action) => Box::new(std::iter::once(action)),
            Run::Rounds { actions, .. } => Box::new(actions.iter().map(|(a, _)| a)),
            Run::Host { .. } => Box::new(std::iter::empty()),
        }
    }

    fn kernels(&self) -> Vec<&Kernel> {
        self.actions().filter_map(|a| if let Action::Launch(k) = a { Some(k) } else { None }).collect()
    }
}

fn touches(action: &Action) -> Vec<ValueId> {
    match action {
        Action::Launch(k) => {
            k.args.iter().filter_map(|a| if let Arg::Value(v) = a { Some(*v) } else { None }).collect()
        }
        Action::Multiply { values, .. } => values.to_vec(),
        Action::Zero(v) => vec![*v],
        Action::Copy { to, from } => vec![*to, *from],
    }
}

impl DeviceProgram {
    /// Makes a program and plans its memory.
    pub(super) fn new(parts: Parts) -> DeviceProgram {
        let mut places: FxHashMap<ValueId, Place> = FxHashMap::default();
        parts.inputs.iter().enumerate().for_each(|(i, v)| _ = places.insert(*v, Place::Input(i)));
        let mut made: Vec<ValueId> = Vec::new();
        for v in &parts.outputs {
            places.entry(*v).or_insert_with(|| {
                made.push(*v);
                Place::Output(made.len() - 1)
            });
        }
        let mut life: FxHashMap<ValueId, (usize, usize)> = FxHashMap::default();
        for (at, (run, _)) in parts.runs.iter().enumerate() {
            for v in run.touches().into_iter().filter(|v| !places.contains_key(v)) {
                life.entry(v).or_insert((at, at)).1 = at;
            }
        }
        let mut values: Vec<(ValueId, (usize, usize))> = life.into_iter().collect();
        values.sort_unstable();
        let request = |(v, life): &(ValueId, (usize, usize))| {
            // a value from which kernels read several elements at once starts at an aligned address
            let bytes = parts.types[*v as usize].bytes().next_multiple_of(ALIGN).max(ALIGN);
            Request { bytes, from: life.0, to: life.1, fixed: false }
        };
        let (mut arena, mut blocks) = (0, Vec::new());
        if parts.device.has_arena() {
            let plan = plan::place(&values.iter().map(request).collect::<Vec<_>>());
            arena = plan.bytes;
            let offsets = plan.offsets.iter().map(|at| Place::Arena(at.unwrap_or(0)));
            places.extend(values.iter().map(|v| v.0).zip(offsets));
        } else {
            blocks.extend(values.iter().map(|v| parts.types[v.0 as usize].bytes()));
            places.extend(values.iter().enumerate().map(|(i, v)| (v.0, Place::Block(i))));
        }
        let kernels = parts.runs.iter().flat_map(|(run, _)| run.kernels());
        let units = Units::new(parts.policy, kernels, &*parts.device);
        let faults = parts.runs.iter().any(|(run, _)| run.kernels().iter().any(|k| k.args.contains(&Arg::Fault)));
        let records = parts.device.records() && !parts.runs.iter().any(|(run, _)| matches!(run, Run::Host { .. }));
        let whole = Mutex::default();
        DeviceProgram { units, places, arena, blocks, made, records, faults, note: OnceLock::new(), whole, parts }
    }
}

/// Values are aligned to this many bytes.
const ALIGN: usize = 256;

/// Results of at most this many bytes are copied out of recorded programs.
const FEW: usize = 256;

/// The bytes of a fault: the number of its site, and the index or divisor.
const FAULT: usize = 16;

/// The memory that a run uses and leaves behind.
struct Work {
    arena: Option<Memory>,
    blocks: Vec<Memory>,
    fault: Fault,
}

/// The place in which a run notes its first fault.
enum Fault {
    /// The fault is in memory that is read when the run ends.
    Memory(Memory),
    /// The fault is in the device's notes, which are read with a later call.
    Noted(Address),
    /// There is no fault, because no kernel may fail and the device does not wait.
    Never,
}

/// The recordings of a program, and the memory that they name.
#[derive(Default)]
struct Whole {
    replays: Replays,
    /// The form of the kernels that are recorded.
    form: Option<Form>,
    work: Option<Work>,
    /// Memory for small results, which callers keep (such as losses). The recording writes them here and they are
    /// copied out, so that their addresses may differ from run to run.
    few: Vec<(usize, Memory)>,
    /// Whether recording is off, because the device can't record or failed to.
    off: bool,
}

/// A running program.
struct Running<'p> {
    program: &'p DeviceProgram,
    kernels: (Form, Loaded<'p>),
    /// The addresses of the inputs, then of the results that are made.
    at: &'p [u64],
    work: &'p Work,
}

impl executors::Kernel for DeviceProgram {
    fn name(&self) -> String {
        let launches: usize = self.parts.runs.iter().map(|(run, _)| run.kernels().len()).sum();
        let products = |run: &Run| run.actions().filter(|a| matches!(a, Action::Multiply { .. })).count();
        let products = match self.parts.runs.iter().map(|(run, _)| products(run)).sum::<usize>() {
            0 => String::new(),
            n => format!("{n} products, "),
        };
        format!("{launches} kernels, {products}{} bytes on {}", self.arena, self.parts.device.name())
    }

    fn steps(&self) -> Vec<String> {
        let name = |v: &ValueId| self.parts.sites.labels.get(v).cloned().unwrap_or_else(|| format!("_{v}"));
        let names = |values: &[ValueId]| values.iter().map(name).collect::<Vec<_>>().join(", ");
        let form = self.parts.policy.first();
        let action = |action: &Action| match action {
            Action::Launch(k) => {
                format!("{} <{:?} x {:?}> {}", form.of(k).0.name, k.grid, k.block, names(&touches(action)))
            }
            Action::Multiply { gemm: g, values, .. } => {
                format!("multiply {} x {} x {} x {}  {}", g.count, g.m, g.n, g.k, names(values))
            }
            Action::Zero(v) => format!("zero {}", name(v)),
            Action::Copy { to, from } => format!("copy {}", names(&[*to, *from])),
        };
        let run = |run: &Run| match run {
            Run::Device(a) => vec![action(a)],
            Run::Rounds { count, actions } => {
                actions.iter().map(|(a, _)| format!("{count} times {}", action(a))).collect()
            }
            Run::Host { kernel, .. } => vec![format!("on the processor: {}", kernel.name())],
        };
        self.parts.runs.iter().flat_map(|(r, _)| run(r)).collect()
    }

    fn works(&self) -> Works<'_> {
        Works::There(self)
    }

    fn run(&self, inputs: &[TensorRef<'_>], outs: &mut [TensorMut<'_>]) -> Result<(), ExecError> {
        let there = inputs.iter().map(|t| self.send(TransferSource::Here(*t))).collect::<Result<Vec<_>, _>>()?;
        let made = self.launch(&there)?;
        made.iter().zip(outs).try_for_each(|(made, out)| out.copy_from(made))
    }
}

impl OnDevice for DeviceProgram {
    fn device(&self) -> crate::trace::Device {
        crate::trace::Device::Cuda(self.parts.device.ordinal())
    }

    fn send(&self, from: TransferSource<'_>) -> Result<Buffer, ExecError> {
        memory::send(&self.parts.device, from)
    }

    fn launch(&self, inputs: &[Buffer]) -> Result<Vec<Buffer>, ExecError> {
        let device = &self.parts.device;
        if let Some(notes) = device.notes() {
            notes.check(&|| finished(&**device))?;
        }
        let kernels = self.units.next(&**device)?;
        let new = |v: &ValueId| Memory::new(device, self.bytes(*v)).map_err(|e| self.largest(e));
        let made: Vec<Memory> = self.made.iter().map(new).collect::<Result<_, _>>()?;
        let at = |(v, b): (&ValueId, &Buffer)| match memory::of(device, b) {
            Some(memory) if b.byte_len() == self.bytes(*v) => Ok(memory.address()),
            _ => Err(ExecError::new("E803", format!("{b:?} is not a value of {} bytes on the device", self.bytes(*v)))),
        };
        let sent = self.parts.inputs.iter().zip(inputs).map(at).collect::<Result<Vec<_>, _>>()?;
        let at: Vec<u64> = sent.into_iter().chain(made.iter().map(Memory::address)).map(|a| a.0).collect();
        // while this runs, no other code has the addresses of the results
        let whole = if self.records && !self.made.is_empty() { self.whole.try_lock().ok() } else { None };
        match whole {
            Some(mut whole) => self.run_whole(&mut whole, &at, kernels)?,
            // another thread runs the recording now
            None => self.run_apart(&at, kernels, &self.work()?)?,
        }
        let made: Vec<Buffer> = self
            .made
            .iter()
            .zip(made)
            .map(|(v, memory)| memory::buffer(memory, &self.parts.types[*v as usize]))
            .collect();
        let output = |v: &ValueId| match self.places.get(v) {
            Some(Place::Input(i)) => inputs.get(*i).cloned(),
            Some(Place::Output(o)) => made.get(*o).cloned(),
            _ => None,
        };
        // invariant: an output is an input or is made
        Ok(self.parts.outputs.iter().filter_map(output).collect())
    }
}

impl DeviceProgram {
    fn bytes(&self, v: ValueId) -> usize {
        self.parts.types[v as usize].bytes()
    }

    fn work(&self) -> Result<Work, ExecError> {
        let device = &self.parts.device;
        let arena = (self.arena > 0).then(|| Memory::new(device, self.arena).map_err(|e| self.largest(e)));
        Ok(Work {
            arena: arena.transpose()?,
            blocks: self.blocks.iter().map(|b| Memory::new(device, *b)).collect::<Result<_, _>>()?,
            fault: match (device.notes().is_some(), self.faults, self.note()) {
                (true, false, _) => Fault::Never,
                (true, true, Some(at)) => Fault::Noted(at),
                _ => Fault::Memory(Memory::new(device, FAULT)?),
            },
        })
    }

    /// Runs the program step by step.
    fn run_apart(&self, at: &[u64], kernels: (Form, Loaded<'_>), work: &Work) -> Result<(), ExecError> {
        let running = Running { program: self, kernels, at, work };
        running.all()?;
        running.faults()
    }

    /// Runs the program as a recording, if it ran at these addresses before; the second run records it.
    fn run_whole(&self, whole: &mut Whole, at: &[u64], kernels: (Form, Loaded<'_>)) -> Result<(), ExecError> {
        if whole.form.replace(kernels.0) != Some(kernels.0) {
            whole.replays = Replays::default();
        }
        let Whole { replays, work, few, off, .. } = whole;
        if *off {
            return self.run_apart(at, kernels, &self.work()?);
        }
        let (device, first) = (&self.parts.device, self.parts.inputs.len());
        if few.is_empty() {
            let small = |(o, v): (usize, &ValueId)| {
                let bytes = self.bytes(*v);
                (bytes <= FEW).then(|| Ok((first + o, Memory::new(device, bytes)?)))
            };
            *few = self.made.iter().enumerate().filter_map(small).collect::<Result<_, ExecError>>()?;
        }
        let mut fixed = at.to_vec();
        few.iter().for_each(|(at, memory)| fixed[*at] = memory.address().0);
        if replays.find(&fixed).is_none() && !replays.repeats(&fixed) {
            // recordings may share their arena with this run, because this run is enqueued after theirs
            return match work {
                Some(work) => self.run_apart(at, kernels, work),
                None => self.run_apart(at, kernels, &self.work()?),
            };
        }
        let work = match work {
            Some(work) => &*work,
            None => work.insert(self.work()?),
        };
        let running = Running { program: self, kernels, at: &fixed, work };
        let replay = match replays.find(&fixed) {
            Some(replay) => replay,
            None => match device.record(&mut || running.all()) {
                Ok(Some(replay)) => replays.keep(fixed.clone(), replay),
                Ok(None) | Err(_) => {
                    *off = true;
                    return self.run_apart(at, kernels, work);
                }
            },
        };
        // SAFETY: inputs and results are at the addresses of the recording, and all other memory that it names is kept
        // with it.
        unsafe { replay.run()? };
        running.faults()?;
        for (o, memory) in few {
            // SAFETY: both hold the result.
            unsafe { device.copy(Address(at[*o]), memory.address(), self.bytes(self.made[*o - first]))? };
        }
        Ok(())
    }

    fn blame(&self, mut e: ExecError, line: Option<usize>) -> ExecError {
        e.line = e.line.or_else(|| line.and_then(|l| self.parts.lines.get(l).copied()));
        e
    }

    /// Adds the largest values of the plan to an error.
    fn largest(&self, e: ExecError) -> ExecError {
        let bytes = |v: &ValueId| self.parts.types[*v as usize].bytes();
        let mut values: Vec<ValueId> = self.places.keys().copied().collect();
        values.sort_by_key(|v| (std::cmp::Reverse(bytes(v)), *v));
        let show = |v: &ValueId| {
            let ty = &self.parts.types[*v as usize];
            let name = self.parts.sites.labels.get(v).map_or("a value between kernels", String::as_str);
            format!("{name}: {}{:?}, {} bytes", ty.dtype, ty.shape.as_slice(), ty.bytes())
        };
        let all: Vec<String> = values.iter().take(5).map(show).collect();
        e.help(format!(
            "the largest of {} values: {}; smaller batches or checkpointing need less",
            values.len(),
            all.join("; ")
        ))
    }

    /// The program's place in the device's notes.
    fn note(&self) -> Option<Address> {
        let notes = self.parts.device.notes().filter(|_| self.faults)?;
        let sites = Arc::clone(&self.parts.sites);
        let report: Report = Box::new(move |site, found| sites.fault(site, found));
        *self.note.get_or_init(|| notes.take(report))
    }
}

impl Drop for DeviceProgram {
    fn drop(&mut self) {
        if let (Some(notes), Some(Some(at))) = (self.parts.device.notes(), self.note.get()) {
            // the work of this program may still note a fault
            let _ = finished(&*self.parts.device);
            notes.give_back(*at);
        }
    }
}

/// Waits for all work so far.
fn finished(device: &dyn Device) -> Result<(), ExecError> {
    // SAFETY: no byte is copied.
    unsafe { device.download(&mut [], Address(0)) }
}

impl Sites {
    fn fault(&self, site: u64, found: i64) -> ExecError {
        match self.sites.get((site as usize).wrapping_sub(1)) {
            Some(Site::Index { value, axis, size }) => {
                let of = self.labels.get(value).map_or("a value".to_owned(), |l| format!("`{l}`"));
                let message = format!("index {found} is out of range for axis {axis} of {of}, whose size is {size}");
                ExecError::new("E804", message)
            }
            Some(Site::Divisor(b)) => ExecError::new("E805", format!("`{}`: division of an integer by zero", b.name())),
            None => ExecError::new("E807", format!("a kernel reports fault {site}, which it does not have")),
        }
    }
}

impl Running<'_> {
    fn device(&self) -> &dyn Device {
        &*self.program.parts.device
    }

    fn address(&self, v: ValueId) -> Address {
        // invariant: the plan has every value that an action accesses
        match self.program.places.get(&v) {
            Some(Place::Input(i)) => Address(self.at[*i]),
            Some(Place::Output(o)) => Address(self.at[self.program.parts.inputs.len() + *o]),
            Some(Place::Arena(at)) => {
                Address(self.work.arena.as_ref().map_or(0, |arena| arena.address().0) + *at as u64)
            }
            Some(Place::Block(b)) => self.work.blocks[*b].address(),
            None => Address(0),
        }
    }

    fn bytes(&self, v: ValueId) -> usize {
        self.program.bytes(v)
    }

    fn send(&self, v: ValueId, bytes: &[u8]) -> Result<(), ExecError> {
        self.fits(v, bytes.len())?;
        // SAFETY: the value has at least that many bytes.
        unsafe { self.device().upload(self.address(v), bytes) }
    }

    fn fetch(&self, v: ValueId, bytes: &mut [u8]) -> Result<(), ExecError> {
        self.fits(v, bytes.len())?;
        // SAFETY: the value has at least that many bytes.
        unsafe { self.device().download(bytes, self.address(v)) }
    }

    fn fits(&self, v: ValueId, bytes: usize) -> Result<(), ExecError> {
        let own = self.bytes(v);
        match own == bytes {
            true => Ok(()),
            false => Err(ExecError::new("E803", format!("a value of {own} bytes was given {bytes}"))),
        }
    }

    /// Runs all steps in order.
    fn all(&self) -> Result<(), ExecError> {
        if let Fault::Memory(fault) = &self.work.fault {
            // SAFETY: the fault has this many bytes.
            unsafe { self.device().zero(fault.address(), FAULT)? };
        }
        let of = self.program;
        of.parts.runs.iter().try_for_each(|(run, line)| self.run(run).map_err(|e| of.blame(e, *line)))
    }

    fn run(&self, run: &Run) -> Result<(), ExecError> {
        match run {
            Run::Device(action) => self.act(action, &[], 0),
            Run::Rounds { count, actions } => (0..*count).try_for_each(|round| {
                actions.iter().try_for_each(|(action, steps)| self.act(action, steps, round as i64))
            }),
            Run::Host { kernel, inputs, outs } => self.host(&**kernel, inputs, outs),
        }
    }

    fn act(&self, action: &Action, steps: &[(ValueId, i64)], round: i64) -> Result<(), ExecError> {
        let place = |v: ValueId| {
            let moved = steps.iter().find(|s| s.0 == v).map_or(0, |s| s.1 * round);
            self.address(v).0.wrapping_add_signed(moved)
        };
        match action {
            Action::Launch(kernel) => {
                let (form, module) = self.kernels;
                let (function, numbers) = form.of(kernel);
                let args: Vec<u64> = (kernel.args.iter())
                    .map(|a| match a {
                        Arg::Value(v) => place(*v),
                        Arg::Fault => match &self.work.fault {
                            Fault::Memory(fault) => fault.address().0,
                            Fault::Noted(at) => at.0,
                            // invariant: no kernel of such a program has this argument
                            Fault::Never => 0,
                        },
                    })
                    .chain(numbers.iter().copied())
                    .collect();
                let Some(module) = module else { return Ok(()) };
                // SAFETY: the kernel was made for values of these types, and each has its memory.
                unsafe { module.launch(&function.name, kernel.grid, kernel.block, &args) }
            }
            Action::Multiply { gemm, values, offsets } => {
                let at = std::array::from_fn(|i| Address(place(values[i]).wrapping_add_signed(offsets[i])));
                // SAFETY: the product was made for values of these types, and each has its memory; the result is not an
                // operand.
                unsafe { self.device().multiply(gemm, at) }
            }
            // SAFETY: the value has this many bytes.
            Action::Zero(v) => unsafe { self.device().zero(Address(place(*v)), self.bytes(*v)) },
            Action::Copy { to, from } => {
                self.fits(*to, self.bytes(*from))?;
                // SAFETY: both values have this many bytes.
                unsafe { self.device().copy(Address(place(*to)), Address(place(*from)), self.bytes(*to)) }
            }
        }
    }

    fn host(
        &self,
        kernel: &dyn executors::Kernel,
        inputs: &[(ValueId, ValueTy)],
        outs: &[(ValueId, ValueTy)],
    ) -> Result<(), ExecError> {
        // the CPU must not compute with values that an earlier kernel got wrong
        if let (Fault::Noted(_), Some(notes)) = (&self.work.fault, self.device().notes()) {
            finished(self.device())?;
            notes.check(&|| Ok(()))?;
        }
        self.faults()?;
        let memory = |(_, ty): &(ValueId, ValueTy)| {
            Buffer::zeros(ty.dtype, &ty.shape).map_err(|e| ExecError::new("E806", e.to_string()))
        };
        let mut read: Vec<Buffer> = inputs.iter().map(memory).collect::<Result<_, _>>()?;
        for ((v, _), buffer) in inputs.iter().zip(&mut read) {
            self.fetch(*v, TensorMut::of(buffer).map_err(unfetched)?.bytes_mut())?;
        }
        let mut made: Vec<Buffer> = outs.iter().map(memory).collect::<Result<_, _>>()?;
        let refs: Vec<TensorRef<'_>> = read.iter().map(TensorRef::of).collect::<Result<_, _>>().map_err(unfetched)?;
        let mut muts: Vec<TensorMut<'_>> =
            made.iter_mut().map(TensorMut::of).collect::<Result<_, _>>().map_err(unfetched)?;
        kernel.run(&refs, &mut muts)?;
        drop(muts);
        outs.iter().zip(&made).try_for_each(|((v, _), buffer)| self.send(*v, buffer.as_bytes()))
    }

    /// The first fault of the kernels so far, if there is one.
    fn faults(&self) -> Result<(), ExecError> {
        let Fault::Memory(fault) = &self.work.fault else { return Ok(()) };
        let mut bytes = [0u8; FAULT];
        // SAFETY: the fault has this many bytes.
        unsafe { self.device().download(&mut bytes, fault.address())? };
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
        match word(0) {
            0 => Ok(()),
            site => Err(self.program.parts.sites.fault(site, word(8) as i64)),
        }
    }
}
