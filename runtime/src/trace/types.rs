//! What a trace is made of: proxies, bound symbols, regions.
//!
//! **Invariant:** bound symbols are immutable once in a trace; the Rewriter makes new traces, sharing what it keeps.

use super::tag::{Tag, TagSet};
use crate::error::Error;
use crate::symbol::{SubclassRef, SymbolRef};
use fulgurite_core::loc::Loc;
use fulgurite_core::sig::{ArgTy, OutTy, Solved};
use fulgurite_core::subclass::Cotangent;
use fulgurite_core::{DType, Name, TensorTy, Value};
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

/// A value of a trace, by number within its arena.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ProxyId(pub u32);

/// A bound symbol, by number within its arena.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BoundSymbolId(pub u32);

/// A region, by number within its arena; 0 is the root.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct RegionId(pub u32);

/// Where tensors live.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Device {
    /// Host memory.
    #[default]
    Cpu,
    /// A CUDA device, by ordinal.
    Cuda(u32),
}

/// The type of a tensor proxy.
#[derive(Clone, PartialEq, Debug)]
pub struct TensorType {
    /// dtype and sizes.
    pub ty: TensorTy,
    /// Where it lives.
    pub device: Device,
    /// Whether a gradient is wanted through it.
    pub requires_grad: bool,
    /// Layout of a tensor subclass; plain tensors have none.
    pub subclass: Option<Arc<SubclassLayout>>,
}

/// What a tensor of a subclass is made of.
#[derive(Clone, PartialEq, Debug)]
pub struct SubclassLayout {
    /// The subclass.
    pub class: SubclassRef,
    /// Its tensor fields; those of a list are called `local.0`, `local.1`, …
    pub fields: Vec<(Name, TensorType)>,
    /// Its metadata, as its signature normalised them.
    pub meta: Vec<(Name, Value<ProxyId>)>,
}

/// The type of a proxy.
#[derive(Clone, PartialEq, Debug)]
pub enum ProxyTy {
    /// A tensor.
    Tensor(TensorType),
    /// A run-time number (stored as a tensor of rank 0).
    Number(DType),
    /// A random key.
    Key,
}

impl ProxyTy {
    /// A plain CPU tensor.
    pub fn tensor(ty: TensorTy) -> ProxyTy {
        ProxyTy::Tensor(TensorType { ty, device: Device::Cpu, requires_grad: false, subclass: None })
    }
    /// What signatures see.
    pub fn arg_ty(&self) -> ArgTy {
        match self {
            ProxyTy::Tensor(t) => ArgTy::Tensor(t.ty.clone()),
            ProxyTy::Number(d) => ArgTy::Number(*d),
            ProxyTy::Key => ArgTy::Key,
        }
    }
    /// The plain tensor that programs see.
    pub fn plain(&self) -> ProxyTy {
        match self {
            ProxyTy::Tensor(t) => ProxyTy::Tensor(TensorType { subclass: None, ..t.clone() }),
            other => other.clone(),
        }
    }
    /// The type of its cotangent, as its class says.
    pub fn cotangent(&self) -> ProxyTy {
        match self.subclass() {
            Some(layout) if layout.class.rules().cotangent == Cotangent::Plain => self.plain(),
            _ => self.clone(),
        }
    }
    /// The layout, if it is a tensor of a subclass.
    pub fn subclass(&self) -> Option<&Arc<SubclassLayout>> {
        match self {
            ProxyTy::Tensor(t) => t.subclass.as_ref(),
            _ => None,
        }
    }
    /// The tensor type, if it is a tensor.
    pub fn as_tensor(&self) -> Option<&TensorTy> {
        match self {
            ProxyTy::Tensor(t) => Some(&t.ty),
            _ => None,
        }
    }
}

/// A typed value.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// Its number.
    pub id: ProxyId,
    /// Its unique name within the arena.
    pub name: Rc<str>,
    /// Its type.
    pub ty: ProxyTy,
    /// Its tags.
    pub tags: TagSet,
}

/// Which part of a program a bound symbol belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Role {
    /// Written by the user.
    #[default]
    Forward,
    /// The gradient of a bound symbol.
    Backward,
    /// A forward bound symbol run again in the backward.
    Recompute,
    /// The sum of two cotangents.
    Accumulate,
}

/// A place with its role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The user's call.
    pub loc: Loc,
    /// Why it stands here.
    pub role: Role,
}

/// What a bound symbol does besides computing its results.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Effects {
    /// Inputs that it writes (positions among its arguments).
    pub writes: Vec<usize>,
    /// Whether it draws random numbers.
    pub random: bool,
}

/// One application of a symbol: a line of the trace.
#[derive(Clone, Debug)]
pub struct BoundSymbol {
    /// Its number.
    pub id: BoundSymbolId,
    /// What is applied.
    pub symbol: SymbolRef,
    /// One value per parameter and option, in signature order; what was not given is `Absent` (defaults apply).
    pub args: Vec<Value<ProxyId>>,
    /// Results: one per result of the signature, lists flattened; then the new version of each `mut` argument that was
    /// given, in the order of [`Effects::writes`].
    pub outs: Vec<ProxyId>,
    /// Bit `i`: result `i` is read by nobody (found by `dce`; printed as `_`). Results beyond 64 count as read.
    pub dead: u64,
    /// Auxiliary results, present only where a transform asked for them.
    pub aux: Vec<ProxyId>,
    /// Sizes, dtypes and options as the signature bound them.
    pub solved: Arc<Solved>,
    /// The scope it was recorded in.
    pub region: RegionId,
    /// Its own tags.
    pub own_tags: TagSet,
    /// The user's call, and the role.
    pub place: Place,
    /// The calls of lines that were merged into this one.
    pub merged: Vec<Loc>,
    /// The bound symbol from which a transform made this one.
    pub origin: Option<BoundSymbolId>,
    /// The executor that claimed it.
    pub claimed_by: Option<&'static str>,
    /// Whose rule for an operator on a subclass it is part of: the class, or the executor that brought its gradient.
    pub ruled_by: Option<&'static str>,
    /// What it does besides.
    pub effects: Effects,
    /// What it is on the fields, where an argument or a result is of a subclass.
    pub dispatch: Option<Rc<Body>>,
    /// The decomposition on these very arguments, made on first need.
    pub body: OnceCell<Option<Rc<Body>>>,
}

/// The body of a bound symbol: lines, and what its results are in them.
#[derive(Debug)]
pub struct Body {
    /// Whether it is the operator's decomposition, and not the rule of a class.
    pub decomposed: bool,
    /// The lines.
    pub lines: Vec<Rc<BoundSymbol>>,
    /// One proxy per entry of the line's `outs`, then per auxiliary result that the body yields.
    pub outs: Vec<ProxyId>,
}

/// A body, and what it was made for.
pub(crate) struct KnownBody {
    /// What the line's signature bound: kept, so that nothing else gets its address.
    pub _solved: Arc<Solved>,
    /// The line's arguments.
    pub args: Vec<Value<ProxyId>>,
    /// The body.
    pub body: Rc<Body>,
}

/// The backward of a function that has one of its own, as it was recorded where the function was called.
#[derive(Debug)]
pub struct OwnRule {
    /// What it reads, and what that is.
    pub inputs: Vec<(ProxyId, OwnInput)>,
    /// Its lines.
    pub lines: Vec<Rc<BoundSymbol>>,
    /// Per argument of the function: its cotangent; `None`: it is zero.
    pub grads: Vec<Option<ProxyId>>,
    /// Variables that it writes, with their last values.
    pub writes: Vec<(usize, ProxyId)>,
    /// The region in which it was recorded.
    pub root: RegionId,
    /// The user's call of the function.
    pub loc: Loc,
    /// Why it could not be recorded: the error of a gradient, if one is taken.
    pub failed: Option<Error>,
}

/// What a function's own backward reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnInput {
    /// What the forward kept, by number.
    Kept(usize),
    /// The cotangent of a result.
    Cotangent(usize),
    /// An input of the program, as it is when the backward runs.
    Variable(usize),
}

/// A scope: autocast, checkpoint, no-grad, a module path.
#[derive(Clone, Debug)]
pub struct Region {
    /// Its number.
    pub id: RegionId,
    /// The scope around it.
    pub parent: Option<RegionId>,
    /// What it says.
    pub kind: RegionKind,
    /// Its tags.
    pub tags: TagSet,
    /// Where it was opened.
    pub loc: Loc,
}

/// Kinds of scopes.
#[derive(Clone, Debug, PartialEq)]
pub enum RegionKind {
    /// The whole program.
    Root,
    /// A module or function of the user's, by name.
    Named(Rc<str>),
    /// Gradient off.
    NoGrad,
    /// Gradient on again.
    EnableGrad,
    /// Recompute in the backward.
    Checkpoint,
    /// Compute in this dtype; `None`: off.
    Autocast(Option<DType>),
    /// What has a tag of regions that a user declared.
    Tagged(Tag),
}

impl BoundSymbol {
    /// The positions of its results in [`BoundSymbol::outs`], one range per result of the signature; the new versions
    /// of written arguments stand after the last.
    pub fn out_groups(&self) -> Vec<std::ops::Range<usize>> {
        let mut at = 0;
        let lengths = self.solved.outs.iter().map(|out| match out {
            OutTy::List(items) => items.len(),
            OutTy::Tensor(_) | OutTy::FromBody => 1,
        });
        lengths
            .map(|n| {
                at += n;
                at - n..at
            })
            .collect()
    }

    /// Its results as the tensor language sees them: a `List` result is one list.
    pub fn results(&self) -> Vec<Value<ProxyId>> {
        let groups = self.out_groups().into_iter().zip(&self.solved.outs);
        groups
            .map(|(range, ty)| match ty {
                OutTy::List(_) => Value::List(self.outs[range].iter().map(|p| Value::Tensor(*p)).collect()),
                _ => Value::Tensor(self.outs[range.start]),
            })
            .collect()
    }

    /// Calls `f` on every proxy among its arguments, in order.
    pub fn for_each_arg(&self, mut f: impl FnMut(ProxyId)) {
        self.args.iter().for_each(|a| a.for_each(&mut |p| f(*p)));
    }

    /// Whether result `i` is read by nobody.
    pub fn is_dead(&self, i: usize) -> bool {
        i < 64 && self.dead >> i & 1 == 1
    }

    /// The same line over other proxies, its body included.
    pub fn remap(&self, f: &mut dyn FnMut(ProxyId) -> ProxyId) -> BoundSymbol {
        let mut line = self.clone();
        line.args = self.args.iter().map(|a| a.map(&mut |p| f(*p))).collect();
        line.outs.iter_mut().for_each(|p| *p = f(*p));
        line.aux.iter_mut().for_each(|p| *p = f(*p));
        if let Some(Some(body)) = self.body.get() {
            line.body = OnceCell::from(Some(Rc::new(body.remap(f))));
        }
        if let Some(body) = &self.dispatch {
            line.dispatch = Some(Rc::new(body.remap(f)));
        }
        line
    }
}

impl Body {
    /// The same over other proxies.
    pub fn remap(&self, f: &mut dyn FnMut(ProxyId) -> ProxyId) -> Body {
        let lines = self.lines.iter().map(|l| Rc::new(l.remap(f))).collect();
        let outs = self.outs.iter().map(|p| f(*p)).collect();
        Body { lines, outs, ..*self }
    }
}

/// The tensors of one result of a signature.
pub(crate) fn out_types(ty: &OutTy) -> &[TensorTy] {
    match ty {
        OutTy::Tensor(t) => std::slice::from_ref(t),
        OutTy::List(items) => items,
        OutTy::FromBody => &[],
    }
}
