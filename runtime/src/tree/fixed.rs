//! Adds fixed parts to the fingerprint: by `Hash` if they implement it, floats by their bits, and other types by their
//! debug print.
//!
//! `#[derive(Tree)]` calls `(&&&FixedProbe(&self.field)).mark(…)`. The first of the three traits that applies is used,
//! because method lookup prefers fewer dereferences. This works for any type, without another trait for users to
//! implement.

use super::{Fingerprint, Leaves, Tree, Visitor, VisitorMut};
use std::fmt::{Debug, Write};
use std::hash::Hash;

/// A fixed part.
pub struct FixedProbe<'a, T: ?Sized>(pub &'a T);

/// Floats are added by their bits, so that NaN equals itself and 0.0 differs from -0.0.
pub trait ByBits {
    /// Adds the part to the fingerprint.
    fn mark(&self, f: &mut Fingerprint);
}
/// Types that can be hashed.
pub trait ByHash {
    /// Adds the part to the fingerprint.
    fn mark(&self, f: &mut Fingerprint);
}
/// Types that can be printed. This is slower, because it formats at every call.
pub trait ByDebug {
    /// Adds the part to the fingerprint.
    fn mark(&self, f: &mut Fingerprint);
}

impl ByBits for &&FixedProbe<'_, f64> {
    fn mark(&self, f: &mut Fingerprint) {
        f.add(self.0.to_bits());
    }
}
impl ByBits for &&FixedProbe<'_, f32> {
    fn mark(&self, f: &mut Fingerprint) {
        f.add(self.0.to_bits() as u64);
    }
}
impl<T: Hash + ?Sized> ByHash for &FixedProbe<'_, T> {
    fn mark(&self, f: &mut Fingerprint) {
        self.0.hash(f);
    }
}
impl<T: Debug + ?Sized> ByDebug for FixedProbe<'_, T> {
    fn mark(&self, f: &mut Fingerprint) {
        // only a Debug implementation that fails by itself fails here; the text that it wrote counts
        let _ = write!(f, "{:?}", self.0);
        f.add(0);
    }
}

/// An argument of a compiled function that is not a tensor; the function is compiled again for another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Fixed<T>(pub T);

impl<T: Debug + Clone> Tree for Fixed<T> {
    fn visit<'a>(&'a self, v: &mut Visitor<'a>) {
        v.fixed("", &self.0, |f| ByDebug::mark(&FixedProbe(&self.0), f));
    }
    fn visit_mut<'a>(&'a mut self, v: &mut VisitorMut<'a>) {
        v.fixed(|f| ByDebug::mark(&FixedProbe(&self.0), f));
    }
    fn rebuild(&self, _: &mut Leaves) -> Fixed<T> {
        self.clone()
    }
}
