//! Arithmetic of sizes.

use super::Refusal;
use super::val::{Static, Stop};
use crate::Dim;
use crate::lang::ast::BinOp;

/// The sum, difference or product of two sizes, which must be a size again: a wrapped one would pass conditions that it
/// violates.
pub fn fits(op: BinOp, a: Dim, b: Dim) -> Static<Dim> {
    // Planning for other sizes repeats this check.
    let (x, y) = (a.hint(), b.hint());
    let (within, result, sign) = match op {
        BinOp::Add => (x.checked_add(y), a + b, '+'),
        BinOp::Sub => (x.checked_sub(y), a - b, '-'),
        _ => (x.checked_mul(y), a * b, '*'),
    };
    match within {
        Some(_) => Ok(result),
        None => Err(Stop::Refused(Refusal::new("E704", format!("{x} {sign} {y} is larger than any size")))),
    }
}

/// The number of windows of `span` elements at distance `stride` in `n` elements with `pad` more at each side. With
/// `ceil`, a last window may extend beyond the end, unless it starts after the last element and the left padding.
pub fn windows(n: Dim, span: Dim, stride: Dim, pad: Dim, ceil: bool) -> Static<Dim> {
    let (zero, one) = (Dim::from(0), Dim::from(1));
    let padded = fits(BinOp::Add, fits(BinOp::Add, n, pad)?, pad)?;
    let room = fits(BinOp::Sub, padded, span)?;
    let whole = room / stride + one;
    if !ceil || room % stride == zero {
        return Ok(whole);
    }
    // `whole * stride` is the start of one more window.
    Ok(if fits(BinOp::Mul, whole, stride)? >= n + pad { whole } else { whole + one })
}

/// How two sizes broadcast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meeting {
    /// The sizes are equal.
    Equal,
    /// The first is 1, and the second may be another size.
    FirstIsOne,
    /// The second is 1, and the first may be another size.
    SecondIsOne,
    /// The sizes do not broadcast.
    Apart,
}

/// How two sizes broadcast, with as few guards on symbolic sizes as possible: a constant 1 meets any size without one,
/// and of sizes that differ in this call, the guard says which is 1, so that it serves all other sizes.
pub fn meet(a: Dim, b: Dim) -> Meeting {
    if a.same(b) {
        Meeting::Equal
    } else if a.is_unit() {
        Meeting::FirstIsOne
    } else if b.is_unit() {
        Meeting::SecondIsOne
    } else if a.hint() == b.hint() && a == b {
        Meeting::Equal
    } else if b.hint() == 1 && b.is(1) {
        Meeting::SecondIsOne
    } else if a.is(1) {
        Meeting::FirstIsOne
    } else {
        Meeting::Apart
    }
}

/// The broadcast of two sizes.
pub fn joined(a: Dim, b: Dim) -> Option<Dim> {
    match meet(a, b) {
        Meeting::Equal | Meeting::SecondIsOne => Some(a),
        Meeting::FirstIsOne => Some(b),
        Meeting::Apart => None,
    }
}
