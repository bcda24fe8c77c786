//! Lines in the form that executors see: inputs, results and meaning.

use super::{ExecError, meaning};
use crate::trace::{BoundSymbol, BoundSymbolId, ProxyId, ProxyTy};
use fulgurite_core::loop_nest::Nest;
use fulgurite_core::row::Meaning;
use fulgurite_core::signature::Item;
use fulgurite_core::signature::OutTy;
use fulgurite_core::{DType, Name, Value};
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

/// A bound symbol that is offered to executors.
pub struct Line {
    /// The line itself.
    pub symbol: Rc<BoundSymbol>,
    /// The tensors and keys, in the order in which the meaning counts them.
    pub tensors: Vec<ProxyId>,
    /// The run-time numbers.
    pub nums: Vec<ProxyId>,
    /// The results, then the auxiliary results that were requested.
    pub outs: Vec<ProxyId>,
    /// For each tensor of the meaning, its position in `tensors`. A tensor of which only the type is known has none.
    places: Vec<usize>,
    nest: OnceCell<Result<Arc<Nest>, ExecError>>,
}

impl Line {
    /// A line of a trace.
    pub fn new(symbol: Rc<BoundSymbol>) -> Line {
        let (mut tensors, mut nums) = (Vec::new(), Vec::new());
        let sig = &symbol.symbol.row().sig;
        let names = sig.params.iter().map(|p| p.name.name).chain(sig.opts.iter().map(|o| o.name.name));
        let put = |list: &mut Vec<Option<ProxyId>>, at: usize, p: ProxyId| {
            if list.len() <= at {
                list.resize(at + 1, None);
            }
            list[at] = Some(p);
        };
        for (name, value) in names.zip(&symbol.args) {
            match (symbol.solved.env.item(name), value) {
                (Some(Item::Tensor(slot)), Value::Tensor(p)) => put(&mut tensors, *slot, *p),
                (Some(Item::Tensors(first, _)), Value::List(items)) => {
                    for (i, item) in items.iter().enumerate() {
                        if let Value::Tensor(p) = item {
                            put(&mut tensors, first + i, *p);
                        }
                    }
                }
                (Some(Item::Runtime(k, _)), Value::Tensor(p)) => put(&mut nums, *k, *p),
                _ => {}
            }
        }
        let outs = symbol.outs.iter().chain(&symbol.aux).copied().collect();
        tensors.resize(symbol.solved.env.slots.len().max(tensors.len()), None);
        let mut passed = 0..;
        let places = tensors.iter().map(|t| t.map_or(usize::MAX, |_| passed.next().unwrap_or(usize::MAX))).collect();
        let (tensors, nums) = (tensors.into_iter().flatten().collect(), nums.into_iter().flatten().collect());
        Line { symbol, tensors, nums, outs, places, nest: OnceCell::new() }
    }

    /// The number of the line.
    pub fn id(&self) -> BoundSymbolId {
        self.symbol.id
    }

    /// The name of the row.
    pub fn name(&self) -> &'static str {
        self.symbol.symbol.name()
    }

    /// The inputs: tensors and keys, then run-time numbers.
    pub fn inputs(&self) -> Vec<ProxyId> {
        self.tensors.iter().chain(&self.nums).copied().collect()
    }

    /// The meaning as loops over scalar expressions, if the row has one.
    ///
    /// # Errors
    /// Reports refusals of lowering.
    pub fn nest(&self) -> Option<Result<Arc<Nest>, ExecError>> {
        let row = self.symbol.symbol.row();
        let block = row.index_body()?;
        let nest = self.nest.get_or_init(|| {
            let nest = meaning::nest(self.symbol.symbol, block, &self.symbol.solved, &self.places);
            nest.map_err(|r| ExecError { code: r.code, message: r.message, line: Some(self.id()), help: r.help })
        });
        Some(nest.clone())
    }

    /// A meaning on slots of the signature, renumbered to the tensors that are passed.
    pub(crate) fn renumbered(&self, nest: Nest) -> Nest {
        meaning::renumbered(nest, &self.places)
    }

    /// The position in `tensors` of a slot of the signature.
    pub(crate) fn place(&self, slot: usize) -> Option<usize> {
        self.places.get(slot).copied().filter(|p| *p != usize::MAX)
    }

    /// The primitive of the runtime that the line calls, if it calls one.
    pub fn host(&self) -> Option<Name> {
        match &self.symbol.symbol.row().meaning {
            Meaning::Host(name) => Some(*name),
            _ => None,
        }
    }

    /// The special kernel that the row names for an executor.
    pub(crate) fn kernel(&self, executor: &str) -> Option<&'static str> {
        self.symbol.symbol.text.kernels.iter().find(|(of, _)| *of == executor).map(|(_, kernel)| *kernel)
    }

    /// Whether `test` holds for the dtype of a tensor that the line reads or makes.
    pub(crate) fn involves(&self, test: impl Fn(DType) -> bool) -> bool {
        let slots = self.symbol.solved.env.slots.iter().flatten().map(|t| t.dtype);
        let outs = self.symbol.solved.outs.iter().flat_map(OutTy::tensors).map(|t| t.dtype);
        slots.chain(outs).any(test)
    }

    /// For each result of the meaning, the proxy if it is wanted. Results always are; auxiliary results are if the line
    /// has them.
    pub fn wanted(&self, results: usize) -> Vec<Option<ProxyId>> {
        (0..results).map(|i| self.outs.get(i).copied()).collect()
    }
}

/// The dtype and sizes by which a value is stored: numbers have rank 0, keys are i64\[2\].
pub(crate) fn stored(ty: &ProxyTy) -> (fulgurite_core::DType, crate::buffer::Sizes) {
    match ty {
        ProxyTy::Tensor(t) => (t.ty.dtype, t.ty.sizes().into_iter().collect()),
        ProxyTy::Number(d) => (*d, Default::default()),
        ProxyTy::Key => (fulgurite_core::DType::I64, smallvec::smallvec![2]),
    }
}
