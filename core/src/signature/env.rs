//! The names that a solved signature binds.

use super::labels::Labels;
use crate::lang::ast::Sig;
use crate::{DType, Dim, Name, Scalar};
use smallvec::SmallVec;

/// A size or a list of sizes.
#[derive(Clone, Debug, PartialEq)]
pub enum Size {
    /// `N`
    One(Dim),
    /// `..S`
    List(SmallVec<[Dim; 4]>),
    /// `N[i]`: one size per item of a `List` argument.
    Each(Vec<Dim>),
    /// `..S` inside a `List` argument whose items differ.
    EachList(Vec<SmallVec<[Dim; 4]>>),
}

/// An option's (or number argument's) value after normalisation: axes wrapped, defaults filled.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// Not given.
    Absent,
    /// A tensor argument, by the position of its first tensor among the call's tensors.
    Tensor(usize),
    /// A list of tensors, by the position of the first, with its length.
    Tensors(usize, usize),
    /// A number that is known while tracing.
    Num(Scalar),
    /// A run-time number: position among the call's run-time numbers, and its dtype.
    Runtime(usize, DType),
    /// An integer that may be symbolic.
    Int(Dim),
    /// Integers, one per axis, or normalised axes.
    Ints(SmallVec<[Dim; 4]>),
    /// A dtype.
    DType(DType),
    /// A word of an `enum`.
    Word(Name),
    /// A text.
    Str(String),
    /// A text of labels.
    Labels(Box<Labels>),
}

/// Names bound by a solved signature.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Env {
    /// Sizes and lists of sizes.
    pub sizes: Vec<(Name, Size)>,
    /// The dtype variables `T`, `U`, `V`.
    pub dtypes: SmallVec<[(Name, DType); 4]>,
    /// Arguments and options.
    pub items: Vec<(Name, Item)>,
    /// Types of the call's tensors in order, items of lists one by one; a key is `None`.
    pub slots: Vec<Option<crate::TensorTy>>,
    /// The broadcast parts of arguments, by argument and list.
    pub broadcast: Vec<Broadcast>,
    /// Arguments (and items of list arguments) of rank 0 that are taken to have an axis `N@dim` of size 1.
    pub scalar_axis: Vec<(Name, usize)>,
}

/// The part of an argument's shape that broadcasts.
#[derive(Clone, Debug, PartialEq)]
pub struct Broadcast {
    /// The argument.
    pub param: Name,
    /// The item of a list argument.
    pub item: usize,
    /// The list that it broadcasts to.
    pub list: Name,
    /// The argument's own sizes, right-aligned.
    pub own: SmallVec<[Dim; 4]>,
}

impl Env {
    /// The part of an argument's shape that broadcasts, or of the shape of this item of a list.
    pub fn part(&self, param: Name, item: Option<usize>) -> Option<&Broadcast> {
        self.broadcast.iter().find(|b| b.param == param && item.is_none_or(|item| b.item == item))
    }

    /// An empty environment, with capacity for the names of this signature.
    pub fn of(sig: &Sig) -> Env {
        let params = sig.params.len();
        let broadcasting = sig.params.iter().filter(|param| param.ty.dims.is_none()).count();
        Env {
            // Most signatures name one or two sizes.
            sizes: Vec::with_capacity(2),
            items: Vec::with_capacity(params + sig.opts.len()),
            slots: Vec::with_capacity(params),
            broadcast: Vec::with_capacity(broadcasting),
            ..Env::default()
        }
    }
    /// The size called `name`.
    #[inline]
    pub fn size(&self, name: Name) -> Option<&Size> {
        self.sizes.iter().find(|(n, _)| *n == name).map(|(_, s)| s)
    }
    /// The size bound to `name`, to be changed in place.
    pub(super) fn size_mut(&mut self, name: Name) -> Option<&mut Size> {
        self.sizes.iter_mut().find(|(n, _)| *n == name).map(|(_, s)| s)
    }
    /// The argument or option called `name`.
    #[inline]
    pub fn item(&self, name: Name) -> Option<&Item> {
        self.items.iter().find(|(n, _)| *n == name).map(|(_, s)| s)
    }
    /// The dtype bound to `name`.
    pub fn dtype(&self, name: Name) -> Option<DType> {
        self.dtypes.iter().find(|(n, _)| *n == name).map(|(_, d)| *d)
    }
    /// Binds or rebinds a size.
    pub fn bind_size(&mut self, name: Name, size: Size) {
        match self.size_mut(name) {
            Some(bound) => *bound = size,
            None => self.sizes.push((name, size)),
        }
    }
    /// The shapes of the items in the first list of tensors.
    pub fn items_of_list(&self) -> Option<Vec<&[Dim]>> {
        let (slot, n) = self.items.iter().find_map(|(_, i)| match i {
            Item::Tensors(slot, n) => Some((*slot, *n)),
            _ => None,
        })?;
        let types = self.slots.get(slot..slot + n)?;
        types.iter().map(|t| t.as_ref().map(|t| t.shape.as_slice())).collect()
    }
    /// The type of the tensor argument called `name`, or of the first item if it is a list.
    pub fn tensor(&self, name: Name) -> Option<&crate::TensorTy> {
        let slot = self.items.iter().find_map(|(n, item)| match item {
            Item::Tensor(slot) if *n == name => Some(*slot),
            Item::Tensors(slot, items) if *n == name && *items > 0 => Some(*slot),
            _ => None,
        })?;
        self.slots.get(slot)?.as_ref()
    }
}
