//! f64 that records branches, to decide whether two evaluations took equal paths through a row.
//!
//! A difference quotient across a kink is meaningless. Every decision (a comparison, the sign of an `abs`, the integer
//! of a `floor`) enters a hash; points with different hashes lie on different sides of a kink or jump.

use crate::oracle::Domain;
use fulgurite_core::builtins::{Builtin, eval_f64};
use fulgurite_core::eval::loop_nest::Field;
use std::cell::Cell;

thread_local! {
    static HASH: Cell<u64> = const { Cell::new(0) };
    /// The first of two compared values.
    static PENDING: Cell<Option<f64>> = const { Cell::new(None) };
}

/// A number whose decisions are recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guarded(pub f64);

/// The result of `f`, with the hash of all its decisions.
pub fn decisions<T>(f: impl FnOnce() -> T) -> (T, u64) {
    HASH.set(0xcbf2_9ce4_8422_2325);
    PENDING.set(None);
    let result = f();
    (result, HASH.get())
}

fn note(bits: u64) {
    HASH.set((HASH.get() ^ bits).wrapping_mul(0x0000_0100_0000_01b3));
}

fn order(a: f64, b: f64) -> u64 {
    a.partial_cmp(&b).map_or(3, |o| (o as i8 + 1) as u64)
}

impl Field for Guarded {
    fn constant(x: f64) -> Guarded {
        Guarded(x)
    }

    /// Comparisons and branches read two values, one after the other.
    fn value(&self) -> f64 {
        match PENDING.take() {
            Some(first) => note(order(first, self.0)),
            None => PENDING.set(Some(self.0)),
        }
        self.0
    }

    fn call(builtin: Builtin, args: &[Guarded]) -> Guarded {
        PENDING.set(None);
        let values: Vec<f64> = args.iter().map(|a| a.0).collect();
        let value = eval_f64(builtin, &values);
        match (builtin, values.as_slice()) {
            (Builtin::Abs | Builtin::Sign | Builtin::Pow | Builtin::Hypot, [x, ..]) => note(order(*x, 0.0)),
            (Builtin::Floor | Builtin::Ceil | Builtin::Round | Builtin::Trunc, _) => note(value.to_bits()),
            (Builtin::DivFloor | Builtin::DivTrunc, _) => note(value.to_bits()),
            (Builtin::RemFloor, [x, y]) => note((x / y).floor().to_bits()),
            (Builtin::RemTrunc, [x, y]) => note((x / y).trunc().to_bits()),
            (Builtin::Max | Builtin::Min, [x, y]) => note(order(*x, *y)),
            (Builtin::Copysign | Builtin::Atan2, [x, y]) => note(order(*x, 0.0) << 2 | order(*y, 0.0)),
            _ => {}
        }
        Guarded(value)
    }

    fn detach(self) -> Guarded {
        self
    }
}

impl Domain for Guarded {}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(x: f64) -> u64 {
        decisions(|| Guarded::call(Builtin::Abs, &[Guarded(x)])).1
    }

    #[test]
    fn sides_of_a_kink_differ() {
        assert_eq!(hash(1.0), hash(2.0));
        assert_ne!(hash(1.0), hash(-1.0));
        assert_ne!(hash(1.0), hash(0.0));
    }
}
