//! How fixed parts enter the fingerprint: by `Hash` where they have it, floats by their bits, anything else by its
//! debug print.
//!
//! `#[derive(Tree)]` calls `(&&&Probe(&self.field)).mark(…)`: of the three traits the first that fits is taken, because
//! method lookup prefers fewer dereferences. This works for any type, without asking users for another trait.

use super::{Fingerprint, Leaves, Tree, Visitor, VisitorMut};
use std::fmt::{Debug, Write};
use std::hash::Hash;

/// A fixed part.
pub struct Probe<'a, T: ?Sized>(pub &'a T);

/// Floats: by their bits, so that NaN equals itself and 0.0 differs from -0.0.
pub trait ByBits {
    /// Adds it to the fingerprint.
    fn mark(&self, f: &mut Fingerprint);
}
/// What can be hashed.
pub trait ByHash {
    /// Adds it to the fingerprint.
    fn mark(&self, f: &mut Fingerprint);
}
/// Anything that can be printed. Slower: it formats at every call.
pub trait ByDebug {
    /// Adds it to the fingerprint.
    fn mark(&self, f: &mut Fingerprint);
}

impl ByBits for &&Probe<'_, f64> {
    fn mark(&self, f: &mut Fingerprint) {
        f.add(self.0.to_bits());
    }
}
impl ByBits for &&Probe<'_, f32> {
    fn mark(&self, f: &mut Fingerprint) {
        f.add(self.0.to_bits() as u64);
    }
}
impl<T: Hash + ?Sized> ByHash for &Probe<'_, T> {
    fn mark(&self, f: &mut Fingerprint) {
        self.0.hash(f);
    }
}
impl<T: Debug + ?Sized> ByDebug for Probe<'_, T> {
    fn mark(&self, f: &mut Fingerprint) {
        // only a Debug implementation that fails by itself fails here; what it wrote counts
        let _ = write!(f, "{:?}", self.0);
        f.add(0);
    }
}

/// An argument of a compiled function that is not a tensor: the function is compiled again for another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Fixed<T>(pub T);

impl<T: Debug + Clone> Tree for Fixed<T> {
    fn visit<'a>(&'a self, v: &mut Visitor<'a>) {
        v.fixed("", &self.0, |f| ByDebug::mark(&Probe(&self.0), f));
    }
    fn visit_mut<'a>(&'a mut self, v: &mut VisitorMut<'a>) {
        v.fixed(|f| ByDebug::mark(&Probe(&self.0), f));
    }
    fn rebuild(&self, _: &mut Leaves) -> Fixed<T> {
        self.clone()
    }
}
