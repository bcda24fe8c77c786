//! Trees: values made of tensors, such as models, optimiser states and batches.
//!
//! A tree has *leaves* (tensors and keys), in an order that its type and shape decide, and *fixed parts* (a number of
//! heads, the length of a list, the variant of an enum), which become constants of a compiled program. Compiled
//! functions flatten their arguments, compare the leaves' types and a fingerprint of the fixed parts with those that
//! they were compiled for, and rebuild the result around new leaves.
//!
//! A plain number is deliberately not a tree: an `f64` that took part by its value would compile a function again at
//! every step of a schedule. A number is either fixed, which must be declared (`#[tree(fixed)]`, [`Fixed`]), or a
//! run-time value (`Tensor::from(x)`).

mod containers;
mod fingerprint;
mod fixed;

pub use fingerprint::Fingerprint;
pub use fixed::Fixed;
#[doc(hidden)]
pub use fixed::{ByBits, ByDebug, ByHash, FixedProbe};
pub use fulgurite_core::loc::Loc;

use crate::error::Error;
use crate::tensor::{Key, Tensor, View, Wrapped};
use fulgurite_core::counted;
use smallvec::SmallVec;
use std::fmt::{Debug, Display, Write};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A value made of tensors; `#[derive(Tree)]` implements it.
///
/// An implementation visits its parts in one order, which all three methods share.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not made of tensors",
    label = "neither a tensor nor a tree of tensors",
    note = "a part that is the same in every call is marked `#[tree(fixed)]`, an argument is wrapped in `Fixed(…)`; another value then compiles the function again",
    note = "a number that changes from call to call is made a tensor: `Tensor::from(x)`",
    note = "a type of your own needs `#[derive(Tree)]`"
)]
pub trait Tree: Sized {
    /// Visits every leaf and every fixed part.
    fn visit<'a>(&'a self, v: &mut Visitor<'a>);

    /// Visits every leaf and every fixed part, with write access to the leaves.
    fn visit_mut<'a>(&'a mut self, v: &mut VisitorMut<'a>);

    /// Makes this tree around other leaves; the fixed parts are cloned.
    fn rebuild(&self, leaves: &mut Leaves) -> Self;
}

/// A leaf of a tree that is borrowed mutably.
pub enum LeafMut<'a> {
    /// A leaf that is not shared: its data may be taken and replaced.
    Owned(&'a mut Tensor),
    /// A leaf behind a shared pointer.
    Shared(&'a Tensor),
}

impl LeafMut<'_> {
    /// The leaf.
    pub fn get(&self) -> &Tensor {
        match self {
            LeafMut::Owned(t) => t,
            LeafMut::Shared(t) => t,
        }
    }
}

/// Collects the leaves of a tree and the fingerprint of its fixed parts, and on request paths and texts.
#[derive(Default)]
pub struct Visitor<'a> {
    leaves: SmallVec<[&'a Tensor; 24]>,
    mark: Fingerprint,
    detail: Option<Box<Detail>>,
    /// Whether the fields of tensors of subclasses are the leaves, in the form of programs.
    apart: bool,
}

/// Like [`Visitor`], for a tree that is borrowed mutably.
#[derive(Default)]
pub struct VisitorMut<'a> {
    leaves: SmallVec<[LeafMut<'a>; 24]>,
    mark: Fingerprint,
}

/// Paths and texts, which only messages and traces need.
#[derive(Clone, Debug, Default)]
pub struct Detail {
    path: String,
    /// The path of every leaf, such as `blocks.2.qkv.w`.
    pub paths: Vec<Arc<str>>,
    /// The path and the debug print of every fixed part.
    pub fixed: Vec<(String, String)>,
}

impl<'a> Visitor<'a> {
    /// A visitor that also notes paths and debug prints.
    pub fn detailed() -> Visitor<'a> {
        Visitor { detail: Some(Box::default()), ..Visitor::default() }
    }

    /// Makes the fields of tensors of subclasses leaves, and their class and metadata fixed parts.
    pub(crate) fn apart(self) -> Visitor<'a> {
        Visitor { apart: true, ..self }
    }

    /// The leaves so far.
    pub fn leaves(&self) -> &[&'a Tensor] {
        &self.leaves
    }
    /// The fingerprint of the fixed parts so far.
    pub fn fingerprint(&self) -> Fingerprint {
        self.mark
    }
    /// The paths and texts, if they were requested.
    pub fn into_detail(self) -> Detail {
        self.detail.map_or_else(Detail::default, |d| *d)
    }

    /// Adds a leaf.
    pub fn leaf(&mut self, leaf: &'a Tensor) {
        if self.apart
            && let View::Wrapped(wrapped) = leaf.view()
        {
            return self.wrapped(wrapped);
        }
        self.leaves.push(leaf);
        if let Some(detail) = &mut self.detail {
            detail.paths.push(detail.path.as_str().into());
        }
    }

    fn wrapped(&mut self, wrapped: &'a Wrapped) {
        mark_class(wrapped, &mut self.mark);
        // a tree that is one leaf has no path
        let root = self.detail.as_ref().is_some_and(|detail| detail.path.is_empty());
        self.inside(if root { "x" } else { "" }, |v| {
            if let Some(detail) = &mut v.detail {
                let layout = wrapped.layout();
                detail.note("class", layout.class.name().to_string());
                layout.meta_texts().for_each(|(name, text)| detail.note(name, text));
            }
            for (name, field) in wrapped.named() {
                v.inside(name, |v| v.leaf(field));
            }
        });
    }

    /// Visits a part of the tree, by its name or number.
    pub fn part<T: Tree>(&mut self, name: impl Display, part: &'a T) {
        self.inside(name, |v| part.visit(v));
    }

    /// Visits the parts that `f` visits under this name.
    pub fn inside(&mut self, name: impl Display, f: impl FnOnce(&mut Self)) {
        let Some(detail) = &mut self.detail else { return f(self) };
        let length = detail.enter(name);
        f(self);
        if let Some(detail) = &mut self.detail {
            detail.path.truncate(length);
        }
    }

    /// Adds the length of a list.
    pub fn length(&mut self, n: usize) {
        self.mark.add(n as u64);
        if let Some(detail) = &mut self.detail {
            detail.fixed.push((detail.path.clone(), counted(n, "entry", "entries")));
        }
    }

    /// Adds the variant of an enum, by number and name.
    pub fn variant(&mut self, number: usize, name: &str) {
        self.mark.add(number as u64);
        if let Some(detail) = &mut self.detail {
            detail.fixed.push((detail.path.clone(), name.to_owned()));
        }
    }

    /// Adds a fixed part; `mark` adds it to the fingerprint.
    pub fn fixed<T: Debug + ?Sized>(&mut self, name: impl Display, part: &T, mark: impl FnOnce(&mut Fingerprint)) {
        mark(&mut self.mark);
        if let Some(detail) = &mut self.detail {
            let length = detail.enter(name);
            detail.fixed.push((detail.path.clone(), format!("{part:?}")));
            detail.path.truncate(length);
        }
    }
}

/// Adds the fixed parts of a tensor of a subclass. They are computed once, because trees are visited at every call.
fn mark_class(wrapped: &Wrapped, mark: &mut Fingerprint) {
    let own = wrapped.mark(|layout| {
        let mut own = Fingerprint::default();
        own.add(std::ptr::from_ref(layout.class) as u64);
        own.add(layout.fields.len() as u64);
        for (name, value) in &layout.meta {
            name.hash(&mut own);
            own.write(format!("{value:?}").as_bytes());
        }
        own.words()
    });
    own.into_iter().for_each(|word| mark.add(word));
}

impl Detail {
    /// Notes a fixed part.
    fn note(&mut self, name: impl Display, text: String) {
        let length = self.enter(name);
        self.fixed.push((self.path.clone(), text));
        self.path.truncate(length);
    }

    /// Enters a part, and returns the length of the path to return to.
    fn enter(&mut self, name: impl Display) -> usize {
        let length = self.path.len();
        let _ = match length {
            0 => write!(self.path, "{name}"),
            _ => write!(self.path, ".{name}"),
        };
        // a part without a name adds no dot; a name may end with one
        if length > 0 && self.path.len() == length + 1 {
            self.path.truncate(length);
        }
        length
    }
}

impl<'a> VisitorMut<'a> {
    /// The leaves.
    pub fn into_leaves(self) -> SmallVec<[LeafMut<'a>; 24]> {
        self.leaves
    }
    /// The number of leaves so far.
    pub fn len(&self) -> usize {
        self.leaves.len()
    }
    /// Whether there are no leaves so far.
    pub fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }
    /// The fingerprint of the fixed parts so far; see [`Visitor::fingerprint`].
    pub fn fingerprint(&self) -> Fingerprint {
        self.mark
    }

    /// Adds a leaf.
    pub fn leaf(&mut self, leaf: &'a mut Tensor) {
        if leaf.wrapped().is_none() {
            return self.leaves.push(LeafMut::Owned(leaf));
        }
        if leaf.wrapped_mut().is_none() {
            return self.shared(leaf);
        }
        if let Some(wrapped) = leaf.wrapped_mut() {
            mark_class(wrapped, &mut self.mark);
            wrapped.fields_mut().iter_mut().for_each(|field| self.leaf(field));
        }
    }

    /// Visits a part of the tree.
    pub fn part<T: Tree>(&mut self, part: &'a mut T) {
        part.visit_mut(self);
    }

    /// Visits a part that may be shared.
    pub fn shared<T: Tree>(&mut self, part: &'a T) {
        let mut inner = Visitor { mark: self.mark, apart: true, ..Visitor::default() };
        part.visit(&mut inner);
        self.mark = inner.mark;
        self.leaves.extend(inner.leaves.into_iter().map(LeafMut::Shared));
    }

    /// Adds the length of a list, or the number of an enum's variant.
    pub fn form(&mut self, n: usize) {
        self.mark.add(n as u64);
    }

    /// Adds a fixed part.
    pub fn fixed(&mut self, mark: impl FnOnce(&mut Fingerprint)) {
        mark(&mut self.mark);
    }
}

/// New leaves for [`Tree::rebuild`], in order.
pub struct Leaves<'l>(&'l mut dyn Iterator<Item = Tensor>);

impl<'l> Leaves<'l> {
    /// The leaves that this iterator returns.
    pub fn new(leaves: &'l mut dyn Iterator<Item = Tensor>) -> Leaves<'l> {
        Leaves(leaves)
    }

    /// The next leaf. After the last it is poisoned, which happens only if an implementation of [`Tree`] visits its
    /// parts in different orders.
    pub fn next_leaf(&mut self) -> Tensor {
        self.0
            .next()
            .unwrap_or_else(|| Tensor::poisoned(Error::new("E748", "a `Tree` shows fewer leaves than it takes")))
    }
}

/// Like [`flatten`], in the form of programs: the fields of tensors of subclasses are the leaves.
pub(crate) fn flatten_apart<T: Tree>(tree: &T) -> Visitor<'_> {
    let mut v = Visitor::default().apart();
    tree.visit(&mut v);
    v
}

/// Like [`describe`], in the form of programs: the fields of tensors of subclasses are the leaves.
pub(crate) fn describe_apart<T: Tree>(tree: &T) -> (Vec<Tensor>, Detail) {
    let mut v = Visitor::detailed().apart();
    tree.visit(&mut v);
    (v.leaves.iter().map(|t| (*t).clone()).collect(), v.into_detail())
}

/// A tree around other leaves, in which the leaves for tensors of subclasses are their fields.
pub(crate) fn rebuild_apart<T: Tree>(template: &T, leaves: &mut dyn Iterator<Item = Tensor>) -> T {
    let v = flatten(template);
    let mut whole = v.leaves.iter().map(|leaf| together(leaf, leaves));
    template.rebuild(&mut Leaves(&mut whole))
}

fn together(like: &Tensor, leaves: &mut dyn Iterator<Item = Tensor>) -> Tensor {
    let Some(wrapped) = like.wrapped() else { return Leaves(leaves).next_leaf() };
    let fields: Vec<Tensor> = wrapped.fields().iter().map(|field| together(field, leaves)).collect();
    Tensor::wrap_like(wrapped.layout(), &fields)
}

/// The leaves of a tree, with its fingerprint.
pub fn flatten<T: Tree>(tree: &T) -> Visitor<'_> {
    let mut v = Visitor::default();
    tree.visit(&mut v);
    v
}

/// The leaves of a tree with their paths, and its fixed parts as texts.
pub fn describe<T: Tree>(tree: &T) -> (Vec<Tensor>, Detail) {
    let mut v = Visitor::detailed();
    tree.visit(&mut v);
    (v.leaves.iter().map(|t| (*t).clone()).collect(), v.into_detail())
}

/// The tree with `f` of each leaf.
pub fn map<T: Tree>(tree: &T, f: impl FnMut(&Tensor) -> Tensor) -> T {
    let v = flatten(tree);
    tree.rebuild(&mut Leaves(&mut v.leaves.iter().copied().map(f)))
}

/// The tree with `f` of each pair of leaves; a leaf is poisoned if the second tree lacks it (E748).
pub fn zip<T: Tree>(a: &T, b: &T, mut f: impl FnMut(&Tensor, &Tensor) -> Tensor) -> T {
    let (va, vb) = (flatten(a), flatten(b));
    if va.mark != vb.mark || va.leaves.len() != vb.leaves.len() {
        let claim = format!("two trees differ in form: they have {} and {} leaves", va.leaves.len(), vb.leaves.len());
        let error = Error::new("E748", claim).note("their lists, options or fixed parts differ");
        return map(a, |_| Tensor::poisoned(error.clone()));
    }
    a.rebuild(&mut Leaves(&mut va.leaves.iter().zip(&vb.leaves).map(|(x, y)| f(x, y))))
}

impl Tree for Tensor {
    fn visit<'a>(&'a self, v: &mut Visitor<'a>) {
        v.leaf(self);
    }
    fn visit_mut<'a>(&'a mut self, v: &mut VisitorMut<'a>) {
        v.leaf(self);
    }
    fn rebuild(&self, leaves: &mut Leaves) -> Tensor {
        leaves.next_leaf()
    }
}

impl Tree for Key {
    fn visit<'a>(&'a self, v: &mut Visitor<'a>) {
        v.leaf(self.handle());
    }
    fn visit_mut<'a>(&'a mut self, v: &mut VisitorMut<'a>) {
        v.leaf(self.handle_mut());
    }
    fn rebuild(&self, leaves: &mut Leaves) -> Key {
        Key::from_handle(leaves.next_leaf())
    }
}

#[cfg(test)]
mod tests;
