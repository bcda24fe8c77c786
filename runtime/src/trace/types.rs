//! The parts of a trace: proxies, bound symbols, regions.
//!
//! **Invariant:** bound symbols are immutable once they are in a trace; the Rewriter makes new traces that share them.

use super::tag::{Tag, TagSet};
use crate::error::Error;
use crate::symbol::{SubclassRef, SymbolRef};
use fulgurite_core::loc::Loc;
use fulgurite_core::signature::{ArgTy, OutTy, Solved};
use fulgurite_core::subclass::Cotangent;
use fulgurite_core::{DType, Name, Named, TensorTy, Value};
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

/// The number of a value within its arena.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ProxyId(pub u32);

/// The number of a bound symbol within its arena.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BoundSymbolId(pub u32);

/// The number of a region within its arena; 0 is the root.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct RegionId(pub u32);

/// The memory in which a tensor is.
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
    /// The dtype and sizes.
    pub ty: TensorTy,
    /// The memory in which the tensor is.
    pub device: Device,
    /// Whether a gradient is wanted through the tensor.
    pub requires_grad: bool,
    /// The layout of a tensor of a subclass; plain tensors have none.
    pub subclass: Option<Arc<SubclassLayout>>,
}

/// The parts of which a tensor of a subclass is made.
#[derive(Clone, PartialEq, Debug)]
pub struct SubclassLayout {
    /// The subclass.
    pub class: SubclassRef,
    /// The tensor fields; those of a list are called `local.0`, `local.1`, ….
    pub fields: Vec<(Name, TensorType)>,
    /// The metadata, as the class's signature normalised them.
    pub meta: Vec<Named<ProxyId>>,
}

/// The type of a proxy.
#[derive(Clone, PartialEq, Debug)]
pub enum ProxyTy {
    /// A tensor.
    Tensor(TensorType),
    /// A run-time number, which is stored as a tensor of rank 0.
    Number(DType),
    /// A random key.
    Key,
}

impl ProxyTy {
    /// A plain CPU tensor.
    pub fn tensor(ty: TensorTy) -> ProxyTy {
        ProxyTy::Tensor(TensorType { ty, device: Device::Cpu, requires_grad: false, subclass: None })
    }
    /// The type in the form that signatures take.
    pub fn arg_ty(&self) -> ArgTy {
        match self {
            ProxyTy::Tensor(t) => ArgTy::Tensor(t.ty.clone()),
            ProxyTy::Number(d) => ArgTy::Number(*d),
            ProxyTy::Key => ArgTy::Key,
        }
    }
    /// The type of the plain tensor that programs see.
    pub fn plain(&self) -> ProxyTy {
        match self {
            ProxyTy::Tensor(t) => ProxyTy::Tensor(TensorType { subclass: None, ..t.clone() }),
            other => other.clone(),
        }
    }
    /// The type of the cotangent, which the class decides.
    pub fn cotangent(&self) -> ProxyTy {
        match self.subclass() {
            Some(layout) if layout.class.rules().cotangent == Cotangent::Plain => self.plain(),
            _ => self.clone(),
        }
    }
    /// The layout, if the value is a tensor of a subclass.
    pub fn subclass(&self) -> Option<&Arc<SubclassLayout>> {
        match self {
            ProxyTy::Tensor(t) => t.subclass.as_ref(),
            _ => None,
        }
    }
    /// The tensor type, if the value is a tensor.
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
    /// The number of the proxy.
    pub id: ProxyId,
    /// The name of the proxy, which is unique within the arena.
    pub name: Rc<str>,
    /// The type of the proxy.
    pub ty: ProxyTy,
    /// The tags of the proxy.
    pub tags: TagSet,
}

/// The part of a program that a bound symbol belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Role {
    /// The user wrote it.
    #[default]
    Forward,
    /// It computes the gradient of a bound symbol.
    Backward,
    /// It is a forward bound symbol that runs again in the backward.
    Recompute,
    /// It adds two cotangents.
    Accumulate,
}

/// A place with its role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The user's call.
    pub loc: Loc,
    /// The role.
    pub role: Role,
}

/// The effects of a bound symbol besides computing its results.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Effects {
    /// The inputs that it writes, by their position among its arguments.
    pub writes: Vec<usize>,
    /// Whether it draws random numbers.
    pub random: bool,
}

/// One application of a symbol: a line of the trace.
#[derive(Clone, Debug)]
pub struct BoundSymbol {
    /// The number of the line.
    pub id: BoundSymbolId,
    /// The symbol that is applied.
    pub symbol: SymbolRef,
    /// One value per parameter and option, in signature order. Arguments that were not given are `Absent`, and defaults
    /// apply.
    pub args: Vec<Value<ProxyId>>,
    /// One result per result of the signature, with lists flattened; then the new version of each written argument that
    /// was given, in the order of [`Effects::writes`].
    pub outs: Vec<ProxyId>,
    /// Bit `i` says that result `i` has no reader; `dce` finds them, and they print as `_`. Results beyond 64 count as
    /// read.
    pub dead: u64,
    /// The auxiliary results, present only if a transform requested them.
    pub aux: Vec<ProxyId>,
    /// The sizes, dtypes and options that the signature bound.
    pub solved: Arc<Solved>,
    /// The scope in which the line was recorded.
    pub region: RegionId,
    /// The line's own tags.
    pub own_tags: TagSet,
    /// The user's call, and the role.
    pub place: Place,
    /// The user's calls of lines that were merged into this one.
    pub merged: Vec<Loc>,
    /// The bound symbol from which a transform made this one.
    pub origin: Option<BoundSymbolId>,
    /// The executor that claimed the line.
    pub claimed_by: Option<&'static str>,
    /// The owner of the rule that the line is part of: a class, or an executor that brought a gradient.
    pub ruled_by: Option<&'static str>,
    /// The effects besides computing results.
    pub effects: Effects,
    /// The body on fields, if an argument or a result is of a subclass.
    pub dispatch: Option<Rc<Body>>,
    /// The decomposition on these arguments, made when it is first needed.
    pub body: OnceCell<Option<Rc<Body>>>,
}

/// The body of a bound symbol: its lines, and its results in them.
#[derive(Debug)]
pub struct Body {
    /// Whether it is the operator's decomposition rather than the rule of a class.
    pub decomposed: bool,
    /// The lines.
    pub lines: Vec<Rc<BoundSymbol>>,
    /// One proxy per entry of the line's `outs`, then one per auxiliary result that the body yields.
    pub outs: Vec<ProxyId>,
}

/// A body, and the line for which it was made.
pub(crate) struct KnownBody {
    /// The solved signature of the line, which is held so that its address is not reused.
    pub _solved: Arc<Solved>,
    /// The arguments of the line.
    pub args: Vec<Value<ProxyId>>,
    pub body: Rc<Body>,
}

/// The custom backward of a function, as it was recorded where the function was called.
#[derive(Debug)]
pub struct OwnRule {
    /// The inputs of the backward, with their kinds.
    pub inputs: Vec<(ProxyId, OwnInput)>,
    /// The lines.
    pub lines: Vec<Rc<BoundSymbol>>,
    /// For each argument of the function, its cotangent; `None` if that is zero.
    pub grads: Vec<Option<ProxyId>>,
    /// The variables that the backward writes, with their last values.
    pub writes: Vec<(usize, ProxyId)>,
    /// The region in which it was recorded.
    pub root: RegionId,
    /// The user's call of the function.
    pub loc: Loc,
    /// The error, if the backward could not be recorded; it becomes the error of a gradient, if one is taken.
    pub failed: Option<Error>,
}

/// An input of a custom backward.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnInput {
    /// A value that the forward kept, by number.
    Kept(usize),
    /// The cotangent of a result, by number.
    Cotangent(usize),
    /// An input of the program, by number, read when the backward runs.
    Variable(usize),
}

/// A scope: autocast, checkpoint, no-grad, a module path.
#[derive(Clone, Debug)]
pub struct Region {
    /// The number of the region.
    pub id: RegionId,
    /// The scope around the region.
    pub parent: Option<RegionId>,
    /// The kind of the region.
    pub kind: RegionKind,
    /// The tags of the region.
    pub tags: TagSet,
    /// The place where the region was opened.
    pub loc: Loc,
}

/// Kinds of scopes.
#[derive(Clone, Debug, PartialEq)]
pub enum RegionKind {
    /// The whole program.
    Root,
    /// A module or function of the user, by name.
    Named(Rc<str>),
    /// Gradients are off.
    NoGrad,
    /// Gradients are on again.
    EnableGrad,
    /// Lines are recomputed in the backward.
    Checkpoint,
    /// Lines compute in this dtype; with `None`, autocast is off.
    Autocast(Option<DType>),
    /// A region with a tag that a user declared.
    Tagged(Tag),
}

impl BoundSymbol {
    /// The positions of the results in [`BoundSymbol::outs`], one range per result of the signature. The new versions
    /// of written arguments follow the last range.
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

    /// The results in the form of the tensor language: a `List` result is one list.
    pub fn results(&self) -> Vec<Value<ProxyId>> {
        let groups = self.out_groups().into_iter().zip(&self.solved.outs);
        groups
            .map(|(range, ty)| match ty {
                OutTy::List(_) => Value::List(self.outs[range].iter().map(|p| Value::Tensor(*p)).collect()),
                _ => Value::Tensor(self.outs[range.start]),
            })
            .collect()
    }

    /// Calls `f` on every proxy among the arguments, in order.
    pub fn for_each_arg(&self, mut f: impl FnMut(ProxyId)) {
        self.args.iter().for_each(|a| a.for_each(&mut |p| f(*p)));
    }

    /// Whether result `i` has no reader.
    pub fn is_dead(&self, i: usize) -> bool {
        i < 64 && self.dead >> i & 1 == 1
    }

    /// The line over other proxies, including its body.
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
    /// The body over other proxies.
    pub fn remap(&self, f: &mut dyn FnMut(ProxyId) -> ProxyId) -> Body {
        let lines = self.lines.iter().map(|l| Rc::new(l.remap(f))).collect();
        let outs = self.outs.iter().map(|p| f(*p)).collect();
        Body { lines, outs, ..*self }
    }

    /// The values that the lines of the body make, those inside of their own bodies apart.
    pub fn made(&self) -> impl Iterator<Item = ProxyId> {
        self.lines.iter().flat_map(|l| l.outs.iter().chain(&l.aux)).copied()
    }
}
