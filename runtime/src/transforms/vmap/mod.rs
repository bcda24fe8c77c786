//! Batching: makes the trace that runs on every slice of its inputs, from a trace for one slice.
//!
//! A value is batched (it has a slice per element of the batch, along a new first axis) or all slices share it. A line
//! without batched arguments stays a single line. Any other line becomes, by the kind of its row ([`Way`]), a call of
//! its row on aligned arguments, a call of the row with one more axis, or the lines of its body. No batching rule is
//! written by hand. If a call of the row itself provably is its batched form (`same`), that call is bound, because it
//! has a name, gradient rules and kernels.

mod args;
mod control;
mod custom_vjp;
mod line;
mod same;

use crate::bind::Builder;
use crate::error::Error;
use crate::trace::verify;
use crate::trace::*;
use fulgurite_core::batch::Way;
use fulgurite_core::{Dim, TensorTy};
use rustc_hash::{FxHashMap, FxHashSet};
use std::time::Instant;

/// Batches `trace` for `size` slices of the inputs with a flag. All tensors among its outputs have the new axis in
/// front. Keys with a flag stay keys, and give each slice draws of its own.
///
/// # Errors
/// E726 if a row has no batched form; E728 if a slice is written to a value that all slices share; errors of binding.
pub fn vmap(trace: &Trace, flags: &[bool], size: Dim) -> Result<Trace, Error> {
    batch(trace, flags, size, &|_| true)
}

/// Like [`vmap`], where only the outputs for which `wanted` says so have the new axis.
fn batch(trace: &Trace, flags: &[bool], size: Dim, wanted: &dyn Fn(usize) -> bool) -> Result<Trace, Error> {
    let started = Instant::now();
    let arena = trace.arena.clone();
    let mut sweep = Sweep {
        b: Builder::continuing(trace),
        size,
        values: FxHashMap::default(),
        keys: FxHashSet::default(),
        standing: FxHashMap::default(),
    };
    let mut inputs = trace.inputs.clone();
    for (input, _) in inputs.iter_mut().zip(flags).filter(|(_, flag)| **flag) {
        let proxy = input.proxy;
        match arena.ty(proxy) {
            ProxyTy::Tensor(t) => {
                let ty = ProxyTy::Tensor(TensorType { ty: sweep.lead(&t.ty), ..t });
                input.proxy = arena.proxy(&arena.name(proxy), ty);
                arena.set_tags(input.proxy, arena.tags(proxy));
                sweep.values.insert(proxy, input.proxy);
            }
            ProxyTy::Key => _ = sweep.keys.insert(proxy),
            ProxyTy::Number(_) => {}
        }
    }
    for line in &trace.lines {
        sweep.line(line)?;
    }
    let mut outputs = Vec::with_capacity(trace.outputs.len());
    for (i, out) in trace.outputs.iter().enumerate() {
        outputs.push(if wanted(i) { sweep.whole(*out)? } else { sweep.standing(*out) });
    }
    let mut epilogue = trace.epilogue.clone();
    for write in &mut epilogue {
        let input = &trace.inputs[write.input];
        write.value = match (sweep.values.contains_key(&input.proxy), sweep.values.get(&write.value)) {
            (true, _) => sweep.whole(write.value)?,
            (false, None) => sweep.standing(write.value),
            (false, Some(_)) => {
                return Err(line::shared_is_written(&input.path, trace.producer(write.value).map(|l| &**l)));
            }
        };
    }
    for input in &mut inputs {
        input.version = sweep.values.get(&input.version).copied().unwrap_or_else(|| sweep.standing(input.version));
    }
    *sweep.b.inputs_mut() = inputs;
    let mut made = sweep.b.finish(&outputs);
    made.epilogue = epilogue;
    made.adopt(trace, "vmap", started);
    verify::step(trace, &made)?;
    Ok(made)
}

struct Sweep {
    b: Builder,
    /// The number of slices.
    size: Dim,
    /// The batched values, by the value for one slice.
    values: FxHashMap<ProxyId, ProxyId>,
    /// The keys that give every slice draws of its own.
    keys: FxHashSet<ProxyId>,
    /// For each value that all slices share and that a body made, its replacement.
    standing: FxHashMap<ProxyId, ProxyId>,
}

impl Sweep {
    /// The replacement of a value that all slices share.
    fn standing(&self, p: ProxyId) -> ProxyId {
        self.standing.get(&p).copied().unwrap_or(p)
    }

    /// The type of all slices of a value of this type.
    fn lead(&self, slice: &TensorTy) -> TensorTy {
        let shape = std::iter::once(self.size).chain(slice.shape.iter().copied()).collect();
        TensorTy { dtype: slice.dtype, shape }
    }

    /// All slices of a value; a shared value is repeated for each. A value that is not a tensor is returned unchanged.
    fn whole(&mut self, p: ProxyId) -> Result<ProxyId, Error> {
        if let Some(all) = self.values.get(&p) {
            return Ok(*all);
        }
        let p = self.standing(p);
        match self.b.arena().tensor_ty(p) {
            Some(ty) => {
                let shape = self.lead(&ty).shape;
                self.b.expand(p, &shape)
            }
            None => Ok(p),
        }
    }
}
