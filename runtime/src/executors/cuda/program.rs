//! A program on a device: its memory, and what is done in order.

use super::device::{Address, Device, Memory, Module, Unit};
use super::emit::{Action, Arg, Kernel, Site};
use crate::buffer::Buffer;
use crate::executors::cpu::graph::ValueId;
use crate::executors::cpu::graph::piece::ValueTy;
use crate::executors::cpu::plan::{self, Request};
use crate::executors::{self, ExecError, TensorMut, TensorRef};
use crate::trace::BoundSymbolId;
use rustc_hash::FxHashMap;
use std::sync::{Arc, OnceLock};

/// One thing to do.
pub(super) enum Run {
    /// On the device.
    Device(Action),
    /// Several times, with values that move by so many bytes from time to time.
    Rounds {
        /// How often.
        count: usize,
        /// What, and by how many bytes each value moves.
        actions: Vec<(Action, Vec<(ValueId, i64)>)>,
    },
    /// On the CPU: what it reads is fetched, what it gives is sent.
    Host {
        /// What runs.
        kernel: Arc<dyn executors::Kernel>,
        /// What it reads, in the shapes that it sees.
        inputs: Vec<(ValueId, ValueTy)>,
        /// What it writes.
        outs: Vec<(ValueId, ValueTy)>,
    },
}

/// What a program is made of.
pub(super) struct Parts {
    pub device: Arc<dyn Device>,
    /// Types of the values.
    pub types: Vec<ValueTy>,
    pub inputs: Vec<ValueId>,
    pub outputs: Vec<ValueId>,
    /// What is done, and the line that it is for.
    pub runs: Vec<(Run, Option<usize>)>,
    pub sites: Vec<Site>,
    /// Names of values, for messages.
    pub labels: FxHashMap<ValueId, String>,
    pub lines: Vec<BoundSymbolId>,
}

/// A part of a trace on a device.
pub struct Program {
    parts: Parts,
    unit: Unit,
    module: OnceLock<Result<Arc<dyn Module>, ExecError>>,
    /// Bytes of the arena, and where values lie in it.
    arena: usize,
    offsets: FxHashMap<ValueId, usize>,
}

impl Run {
    fn touches(&self) -> Vec<ValueId> {
        match self {
            Run::Device(action) => touches(action),
            Run::Rounds { actions, .. } => actions.iter().flat_map(|(a, _)| touches(a)).collect(),
            Run::Host { inputs, outs, .. } => inputs.iter().chain(outs).map(|v| v.0).collect(),
        }
    }

    fn kernels(&self) -> Vec<&Kernel> {
        let actions: Vec<&Action> = match self {
            Run::Device(action) => vec![action],
            Run::Rounds { actions, .. } => actions.iter().map(|(a, _)| a).collect(),
            Run::Host { .. } => Vec::new(),
        };
        let kernel = |a: &&Action| matches!(a, Action::Launch(_));
        actions
            .into_iter()
            .filter(kernel)
            .filter_map(|a| if let Action::Launch(k) = a { Some(k) } else { None })
            .collect()
    }
}

fn touches(action: &Action) -> Vec<ValueId> {
    match action {
        Action::Launch(k) => {
            k.args.iter().filter_map(|a| if let Arg::Value(v) = a { Some(*v) } else { None }).collect()
        }
        Action::Zero(v) => vec![*v],
        Action::Copy { to, from } => vec![*to, *from],
    }
}

impl Program {
    /// Plans its memory.
    pub(super) fn new(parts: Parts) -> Program {
        let mut life: FxHashMap<ValueId, (usize, usize)> = FxHashMap::default();
        for (at, (run, _)) in parts.runs.iter().enumerate() {
            for v in run.touches() {
                let life = life.entry(v).or_insert((at, at));
                life.1 = at;
            }
        }
        for v in parts.inputs.iter().chain(&parts.outputs) {
            life.entry(*v).or_insert((0, 0));
        }
        for v in &parts.inputs {
            life.entry(*v).and_modify(|l| l.0 = 0);
        }
        for v in &parts.outputs {
            life.entry(*v).and_modify(|l| l.1 = usize::MAX);
        }
        let mut values: Vec<(ValueId, (usize, usize))> = life.into_iter().collect();
        values.sort_unstable();
        let request = |(v, life): &(ValueId, (usize, usize))| {
            // what kernels read several elements of at once begins where they may
            let bytes = parts.types[*v as usize].bytes().next_multiple_of(ALIGN).max(ALIGN);
            Request { bytes, from: life.0, to: life.1, fixed: false }
        };
        let plan = plan::place(&values.iter().map(request).collect::<Vec<_>>());
        let offsets = values.iter().zip(&plan.offsets).map(|((v, _), at)| (*v, at.unwrap_or(0))).collect();
        let mut unit = Unit::default();
        parts.runs.iter().flat_map(|(run, _)| run.kernels()).for_each(|k| unit.add(&k.name, &k.text));
        parts.device.announce(&unit);
        Program { unit, module: OnceLock::new(), arena: plan.bytes, offsets, parts }
    }

    fn module(&self) -> Result<&Arc<dyn Module>, ExecError> {
        let made = self.module.get_or_init(|| self.parts.device.load(&self.unit));
        made.as_ref().map_err(Clone::clone)
    }
}

/// Values begin at multiples of this.
const ALIGN: usize = 256;

/// Bytes of a fault: the number of its site, and what was found.
const FAULT: usize = 16;

/// Memory of a running program.
struct Running<'p> {
    program: &'p Program,
    device: &'p dyn Device,
    module: Option<&'p Arc<dyn Module>>,
    /// The arena, or a block for each value.
    blocks: Vec<Memory<'p>>,
    at: FxHashMap<ValueId, Address>,
    fault: Memory<'p>,
}

impl executors::Kernel for Program {
    fn name(&self) -> String {
        let launches: usize = self.parts.runs.iter().map(|(run, _)| run.kernels().len()).sum();
        format!("{launches} kernels, {} bytes on {}", self.arena, self.parts.device.name())
    }

    fn run(&self, inputs: &[TensorRef<'_>], outs: &mut [TensorMut<'_>]) -> Result<(), ExecError> {
        let device = &*self.parts.device;
        let module = if self.unit.is_empty() { None } else { Some(self.module()?) };
        let mut running = Running {
            program: self,
            device,
            module,
            blocks: Vec::new(),
            at: FxHashMap::default(),
            fault: Memory::new(device, FAULT)?,
        };
        running.place()?;
        for (v, t) in self.parts.inputs.iter().zip(inputs) {
            running.send(*v, t.bytes())?;
        }
        // SAFETY: the fault has so many bytes.
        unsafe { device.zero(running.fault.address(), FAULT)? };
        for (run, line) in &self.parts.runs {
            running.run(run).map_err(|e| self.blame(e, *line))?;
        }
        for (v, t) in self.parts.outputs.iter().zip(outs) {
            running.fetch(*v, t.bytes_mut())?;
        }
        running.faults()
    }
}

impl Program {
    fn blame(&self, mut e: ExecError, line: Option<usize>) -> ExecError {
        e.line = e.line.or_else(|| line.and_then(|l| self.parts.lines.get(l).copied()));
        e
    }

    /// The same error with the largest values of the plan.
    fn largest(&self, e: ExecError) -> ExecError {
        let bytes = |v: &ValueId| self.parts.types[*v as usize].bytes();
        let mut values: Vec<ValueId> = self.offsets.keys().copied().collect();
        values.sort_by_key(|v| (std::cmp::Reverse(bytes(v)), *v));
        let show = |v: &ValueId| {
            let ty = &self.parts.types[*v as usize];
            let name = self.parts.labels.get(v).map_or("a value between kernels", String::as_str);
            format!("{name}: {}{:?}, {} bytes", ty.dtype, ty.shape.as_slice(), ty.bytes())
        };
        let all: Vec<String> = values.iter().take(5).map(show).collect();
        e.help(format!(
            "the largest of {} values: {}; smaller batches or checkpointing need less",
            values.len(),
            all.join("; ")
        ))
    }

    /// The error of a site.
    fn fault(&self, site: u64, found: i64) -> ExecError {
        match self.parts.sites.get(site as usize - 1) {
            Some(Site::Index { value, axis, size }) => {
                let of = self.parts.labels.get(value).map_or("a value".to_owned(), |l| format!("`{l}`"));
                let message = format!("index {found} is out of range for axis {axis} of {of}, whose size is {size}");
                ExecError::new("E804", message)
            }
            Some(Site::Divisor(b)) => ExecError::new("E805", format!("`{}`: division of an integer by zero", b.name())),
            None => ExecError::new("E807", format!("a kernel reports fault {site}, which it does not have")),
        }
    }
}

impl<'p> Running<'p> {
    /// Memory for every value.
    fn place(&mut self) -> Result<(), ExecError> {
        if self.device.has_arena() {
            let arena = Memory::new(self.device, self.program.arena).map_err(|e| self.program.largest(e))?;
            let base = arena.address();
            self.at = self.program.offsets.iter().map(|(v, at)| (*v, Address(base.0 + *at as u64))).collect();
            self.blocks.push(arena);
            return Ok(());
        }
        for v in self.program.offsets.keys() {
            let block = Memory::new(self.device, self.program.parts.types[*v as usize].bytes())?;
            self.at.insert(*v, block.address());
            self.blocks.push(block);
        }
        Ok(())
    }

    fn address(&self, v: ValueId) -> Address {
        // invariant: the plan has every value that an action touches
        self.at.get(&v).copied().unwrap_or(Address(0))
    }

    fn bytes(&self, v: ValueId) -> usize {
        self.program.parts.types[v as usize].bytes()
    }

    fn send(&self, v: ValueId, bytes: &[u8]) -> Result<(), ExecError> {
        self.fits(v, bytes.len())?;
        // SAFETY: the value has so many bytes.
        unsafe { self.device.upload(self.address(v), bytes) }
    }

    fn fetch(&self, v: ValueId, bytes: &mut [u8]) -> Result<(), ExecError> {
        self.fits(v, bytes.len())?;
        // SAFETY: the value has so many bytes.
        unsafe { self.device.download(bytes, self.address(v)) }
    }

    fn fits(&self, v: ValueId, bytes: usize) -> Result<(), ExecError> {
        let own = self.bytes(v);
        match own == bytes {
            true => Ok(()),
            false => Err(ExecError::new("E803", format!("a value of {own} bytes was given {bytes}"))),
        }
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
                let args: Vec<u64> = (kernel.args.iter())
                    .map(|a| match a {
                        Arg::Value(v) => place(*v),
                        Arg::Fault => self.fault.address().0,
                    })
                    .collect();
                let Some(module) = self.module else { return Ok(()) };
                // SAFETY: the kernel was made for values of these types, and each has its memory.
                unsafe { module.launch(&kernel.name, kernel.grid, kernel.block, &args) }
            }
            // SAFETY: the value has so many bytes.
            Action::Zero(v) => unsafe { self.device.zero(Address(place(*v)), self.bytes(*v)) },
            Action::Copy { to, from } => {
                self.fits(*to, self.bytes(*from))?;
                // SAFETY: both values have so many bytes.
                unsafe { self.device.copy(Address(place(*to)), Address(place(*from)), self.bytes(*to)) }
            }
        }
    }

    fn host(
        &self,
        kernel: &dyn executors::Kernel,
        inputs: &[(ValueId, ValueTy)],
        outs: &[(ValueId, ValueTy)],
    ) -> Result<(), ExecError> {
        // what a kernel before this one got wrong is not to be computed with
        self.faults()?;
        let memory = |(_, ty): &(ValueId, ValueTy)| {
            Buffer::zeros(ty.dtype, &ty.shape).map_err(|e| ExecError::new("E806", e.to_string()))
        };
        let mut read: Vec<Buffer> = inputs.iter().map(memory).collect::<Result<_, _>>()?;
        for ((v, _), buffer) in inputs.iter().zip(&mut read) {
            self.fetch(*v, TensorMut::of(buffer).bytes_mut())?;
        }
        let mut made: Vec<Buffer> = outs.iter().map(memory).collect::<Result<_, _>>()?;
        let refs: Vec<TensorRef<'_>> = read.iter().map(TensorRef::of).collect();
        let mut muts: Vec<TensorMut<'_>> = made.iter_mut().map(TensorMut::of).collect();
        kernel.run(&refs, &mut muts)?;
        drop(muts);
        outs.iter().zip(&made).try_for_each(|((v, _), buffer)| self.send(*v, buffer.as_bytes()))
    }

    /// The first fault of the kernels so far, if there is one.
    fn faults(&self) -> Result<(), ExecError> {
        let mut bytes = [0u8; FAULT];
        // SAFETY: the fault has so many bytes.
        unsafe { self.device.download(&mut bytes, self.fault.address())? };
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
        match word(0) {
            0 => Ok(()),
            site => Err(self.program.fault(site, word(8) as i64)),
        }
    }
}
