//! Trees: values made of tensors, such as models, optimiser states and batches.
//!
//! A tree has *leaves* (tensors and keys), in an order that its type and shape decide, and *fixed parts* (a number of
//! heads, the length of a list, which variant of an enum): what is compiled in. Compiled functions flatten their
//! arguments, compare the leaves' types and a fingerprint of the fixed parts with what they were compiled for, and
//! rebuild the result around new leaves.
//!
//! A plain number is no tree on purpose: an `f64` that took part by its value would compile a function again at every
//! step of a schedule. It is either fixed, which is said (`#[tree(fixed)]`, [`Fixed`]), or a run-time value
//! (`Tensor::from(x)`).

mod containers;
mod fingerprint;
mod fixed;

pub use fingerprint::Fingerprint;
pub use fixed::Fixed;
#[doc(hidden)]
pub use fixed::{ByBits, ByDebug, ByHash, Probe};
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
/// An implementation shows its parts in one order, the same in all three methods.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not made of tensors",
    label = "neither a tensor nor a tree of tensors",
    note = "a part that is the same in every call is marked `#[tree(fixed)]`, an argument is wrapped in `Fixed(…)`; another value then compiles the function again",
    note = "a number that changes from call to call is made a tensor: `Tensor::from(x)`",
    note = "a type of your own needs `#[derive(Tree)]`"
)]
pub trait Tree: Sized {
    /// Shows every leaf and every fixed part.
    fn visit<'a>(&'a self, v: &mut Visitor<'a>);

    /// The same with access to the leaves.
    fn visit_mut<'a>(&'a mut self, v: &mut VisitorMut<'a>);

    /// This tree around other leaves; the fixed parts are cloned.
    fn rebuild(&self, leaves: &mut Leaves) -> Self;
}

/// A leaf of a tree that is borrowed mutably.
pub enum LeafMut<'a> {
    /// A leaf that nothing else reaches: its data may be taken and replaced.
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

/// Collects the leaves of a tree and the fingerprint of its fixed parts; on request paths and texts too.
#[derive(Default)]
pub struct Visitor<'a> {
    leaves: SmallVec<[&'a Tensor; 24]>,
    mark: Fingerprint,
    detail: Option<Box<Detail>>,
    /// Whether the fields of tensors of subclasses are the leaves, as programs take them.
    apart: bool,
}

/// As [`Visitor`], for a tree that is borrowed mutably.
#[derive(Default)]
pub struct VisitorMut<'a> {
    leaves: SmallVec<[LeafMut<'a>; 24]>,
    mark: Fingerprint,
}

/// What only messages and traces need.
#[derive(Clone, Debug, Default)]
pub struct Detail {
    path: String,
    /// The path of every leaf, `blocks.2.qkv.w`.
    pub paths: Vec<Arc<str>>,
    /// The path and the debug print of every fixed part.
    pub fixed: Vec<(String, String)>,
}

impl<'a> Visitor<'a> {
    /// One that also notes paths and prints.
    pub fn detailed() -> Visitor<'a> {
        Visitor { detail: Some(Box::default()), ..Visitor::default() }
    }

    /// The same, in which the fields of tensors of subclasses are leaves and their class and metadata fixed parts.
    pub(crate) fn apart(self) -> Visitor<'a> {
        Visitor { apart: true, ..self }
    }

    /// The leaves so far.
    pub fn leaves(&self) -> &[&'a Tensor] {
        &self.leaves
    }
    /// What the fixed parts so far amount to.
    pub fn fingerprint(&self) -> Fingerprint {
        self.mark
    }
    /// The paths and prints, if they were asked for.
    pub fn into_detail(self) -> Detail {
        self.detail.map_or_else(Detail::default, |d| *d)
    }

    /// A leaf.
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

    /// A part of the tree, by its name or number.
    pub fn part<T: Tree>(&mut self, name: impl Display, part: &'a T) {
        self.inside(name, |v| part.visit(v));
    }

    /// What `f` shows stands under this name.
    pub fn inside(&mut self, name: impl Display, f: impl FnOnce(&mut Self)) {
        let Some(detail) = &mut self.detail else { return f(self) };
        let length = detail.enter(name);
        f(self);
        if let Some(detail) = &mut self.detail {
            detail.path.truncate(length);
        }
    }

    /// The length of a list.
    pub fn length(&mut self, n: usize) {
        self.mark.add(n as u64);
        if let Some(detail) = &mut self.detail {
            detail.fixed.push((detail.path.clone(), counted(n, "entry", "entries")));
        }
    }

    /// The variant of an enum, by number and name.
    pub fn variant(&mut self, number: usize, name: &str) {
        self.mark.add(number as u64);
        if let Some(detail) = &mut self.detail {
            detail.fixed.push((detail.path.clone(), name.to_owned()));
        }
    }

    /// A fixed part: `mark` adds it to the fingerprint.
    pub fn fixed<T: Debug + ?Sized>(&mut self, name: impl Display, part: &T, mark: impl FnOnce(&mut Fingerprint)) {
        mark(&mut self.mark);
        if let Some(detail) = &mut self.detail {
            let length = detail.enter(name);
            detail.fixed.push((detail.path.clone(), format!("{part:?}")));
            detail.path.truncate(length);
        }
    }
}

/// What of a tensor of a subclass is fixed. Put together once: trees are read at every call.
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
    /// A fixed part.
    fn note(&mut self, name: impl Display, text: String) {
        let length = self.enter(name);
        self.fixed.push((self.path.clone(), text));
        self.path.truncate(length);
    }

    /// Goes into a part; gives the length to come back to.
    fn enter(&mut self, name: impl Display) -> usize {
        let length = self.path.len();
        let _ = match length {
            0 => write!(self.path, "{name}"),
            _ => write!(self.path, ".{name}"),
        };
        if self.path.ends_with('.') {
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
    /// How many leaves there are so far.
    pub fn len(&self) -> usize {
        self.leaves.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }
    /// What the fixed parts so far amount to: as [`Visitor::fingerprint`].
    pub fn fingerprint(&self) -> Fingerprint {
        self.mark
    }

    /// A leaf.
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

    /// A part of the tree.
    pub fn part<T: Tree>(&mut self, part: &'a mut T) {
        part.visit_mut(self);
    }

    /// A part that others may reach too.
    pub fn shared<T: Tree>(&mut self, part: &'a T) {
        let mut inner = Visitor { mark: self.mark, apart: true, ..Visitor::default() };
        part.visit(&mut inner);
        self.mark = inner.mark;
        self.leaves.extend(inner.leaves.into_iter().map(LeafMut::Shared));
    }

    /// The length of a list, or the number of an enum's variant.
    pub fn form(&mut self, n: usize) {
        self.mark.add(n as u64);
    }

    /// A fixed part.
    pub fn fixed(&mut self, mark: impl FnOnce(&mut Fingerprint)) {
        mark(&mut self.mark);
    }
}

/// New leaves for [`Tree::rebuild`], in order.
pub struct Leaves<'l>(&'l mut dyn Iterator<Item = Tensor>);

impl<'l> Leaves<'l> {
    /// These.
    pub fn new(leaves: &'l mut dyn Iterator<Item = Tensor>) -> Leaves<'l> {
        Leaves(leaves)
    }

    /// The next one; a poisoned one after the last, which only an implementation of [`Tree`] that shows its parts in
    /// different orders meets.
    pub fn next_leaf(&mut self) -> Tensor {
        self.0
            .next()
            .unwrap_or_else(|| Tensor::poisoned(Error::new("E748", "a `Tree` shows fewer leaves than it takes")))
    }
}

/// As [`flatten`], for programs: the fields of tensors of subclasses are the leaves.
pub(crate) fn flatten_apart<T: Tree>(tree: &T) -> Visitor<'_> {
    let mut v = Visitor::default().apart();
    tree.visit(&mut v);
    v
}

/// As [`describe`], for programs: the fields of tensors of subclasses are the leaves.
pub(crate) fn describe_apart<T: Tree>(tree: &T) -> (Vec<Tensor>, Detail) {
    let mut v = Visitor::detailed().apart();
    tree.visit(&mut v);
    (v.leaves.iter().map(|t| (*t).clone()).collect(), v.into_detail())
}

/// A tree around other leaves, where those of tensors of subclasses are their fields.
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

/// The same tree with `f` of each leaf.
pub fn map<T: Tree>(tree: &T, f: impl FnMut(&Tensor) -> Tensor) -> T {
    let v = flatten(tree);
    tree.rebuild(&mut Leaves(&mut v.leaves.iter().copied().map(f)))
}

/// A tree with `f` of each pair of leaves; where the second tree has no such leaf, a poisoned one (E748).
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
