//! Transfers between host memory and a device's memory, as lines of a program.

use super::partition::{Claimed, Partition, root};
use super::{ExecError, Kernel, TensorMut, TensorRef, Works};
use crate::buffer::BufferError;
use crate::trace::{BoundSymbolId, Device, ProxyId, ProxyTy, Trace};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

pub(super) fn unfetched(e: BufferError) -> ExecError {
    let code = if matches!(e, BufferError::OutOfMemory(_)) { "E806" } else { "E807" };
    ExecError::new(code, e.to_string())
}

/// A transfer; on host memory it is a copy.
enum Transfer {
    /// A transfer to the device of this kernel.
    To(Arc<dyn Kernel>),
    /// A transfer from this device.
    From(Device),
}

impl Kernel for Transfer {
    fn name(&self) -> String {
        match (self, self.works()) {
            (_, Works::Sends(to)) => format!("to {}", to.device()),
            (Transfer::From(device), _) => format!("from {device}"),
            // invariant: the kernel of `To` runs on a device
            _ => "to itself".to_owned(),
        }
    }

    fn nanos(&self) -> Option<f64> {
        Some(0.0)
    }

    fn works(&self) -> Works<'_> {
        match self {
            Transfer::From(_) => Works::Fetches,
            Transfer::To(kernel) => match kernel.works() {
                Works::There(device) => Works::Sends(device),
                _ => Works::Here,
            },
        }
    }

    fn run(&self, inputs: &[TensorRef<'_>], outs: &mut [TensorMut<'_>]) -> Result<(), ExecError> {
        for (from, to) in inputs.iter().zip(outs) {
            let copy = from.to_buffer().ok_or_else(|| ExecError::new("E806", "no memory for a copy"))?;
            to.copy_from(&copy)?;
        }
        Ok(())
    }
}

/// The places of values, while the lines are visited.
struct Placing<'t> {
    trace: &'t Trace,
    /// For each value and device, the proxy that stands for the value there.
    there: FxHashMap<(ProxyId, Device), ProxyId>,
    /// For each value that a device made, the proxy that stands for it, and the device.
    made: FxHashMap<ProxyId, (ProxyId, Device)>,
    fetched: FxHashSet<ProxyId>,
    claimed: Vec<Claimed>,
}

/// Adds transfers. Kernels on devices read and write values of their own, which a transfer makes once, before the first
/// reader.
pub(super) fn place(trace: &Trace, partition: Partition) -> Partition {
    let on_device =
        |c: &Claimed| matches!(c, Claimed::Kernel { kernel, .. } if matches!(kernel.works(), Works::There(_)));
    if !partition.claimed.iter().any(on_device) {
        return partition;
    }
    let Partition { claimed, same, .. } = partition;
    let root = |p| root(&same, p);
    let mut placing = Placing {
        trace,
        there: FxHashMap::default(),
        made: FxHashMap::default(),
        fetched: FxHashSet::default(),
        claimed: Vec::new(),
    };
    for entry in claimed {
        placing.entry(entry, &root);
    }
    // a result that a device made leaves the program on that device
    let at = placing.made.iter().map(|(p, (q, _))| (*p, *q)).collect();
    Partition { claimed: placing.claimed, same, at }
}

impl Placing<'_> {
    fn entry(&mut self, entry: Claimed, root: &dyn Fn(ProxyId) -> ProxyId) {
        match entry {
            Claimed::Kernel { lines, executor, kernel, inputs, outs, refuses } => {
                let device = if let Works::There(on) = kernel.works() { Some(on.device()) } else { None };
                let Some(device) = device else {
                    inputs.iter().for_each(|p| self.fetch(root(*p), lines[0]));
                    self.claimed.push(Claimed::Kernel { lines, executor, kernel, inputs, outs, refuses });
                    return;
                };
                let inputs = inputs.iter().map(|p| self.send(root(*p), device, &kernel, executor, lines[0])).collect();
                let outs = outs.iter().map(|p| self.make(*p, device)).collect();
                self.claimed.push(Claimed::Kernel { lines, executor, kernel, inputs, outs, refuses });
            }
            Claimed::Join(line, checks, executor) => {
                line.inputs().into_iter().for_each(|p| self.fetch(root(p), line.id()));
                self.claimed.push(Claimed::Join(line, checks, executor));
            }
            Claimed::Check(line, check) => {
                line.inputs().into_iter().for_each(|p| self.fetch(root(p), line.id()));
                self.claimed.push(Claimed::Check(line, check));
            }
        }
    }

    /// A new proxy of the same type on a device.
    fn twin(&self, p: ProxyId, device: Device) -> ProxyId {
        let arena = &self.trace.arena;
        let mut ty = arena.ty(p);
        if let ProxyTy::Tensor(t) = &mut ty {
            t.device = device;
        }
        arena.proxy(&arena.name(p), ty)
    }

    fn make(&mut self, p: ProxyId, device: Device) -> ProxyId {
        let q = self.twin(p, device);
        self.there.insert((p, device), q);
        self.made.insert(p, (q, device));
        q
    }

    fn send(
        &mut self,
        p: ProxyId,
        device: Device,
        kernel: &Arc<dyn Kernel>,
        executor: &'static str,
        line: BoundSymbolId,
    ) -> ProxyId {
        if let Some(q) = self.there.get(&(p, device)) {
            return *q;
        }
        let from = self.made.get(&p).map_or(p, |made| made.0);
        let q = self.twin(p, device);
        self.there.insert((p, device), q);
        let kernel = Arc::new(Transfer::To(kernel.clone()));
        self.claimed.push(Claimed::Kernel {
            lines: vec![line],
            executor,
            kernel,
            inputs: vec![from],
            outs: vec![q],
            refuses: false,
        });
        q
    }

    fn fetch(&mut self, p: ProxyId, line: BoundSymbolId) {
        let Some(&(from, device)) = self.made.get(&p) else { return };
        if !self.fetched.insert(p) {
            return;
        }
        let (kernel, executor) = (Arc::new(Transfer::From(device)), "cpu");
        self.claimed.push(Claimed::Kernel {
            lines: vec![line],
            executor,
            kernel,
            inputs: vec![from],
            outs: vec![p],
            refuses: false,
        });
    }
}
