//! Arithmetic of sizes.

use super::Refusal;
use super::val::{Static, Stop};
use crate::Dim;
use crate::lang::ast::BinOp;

/// The sum, difference or product of two sizes, which must be a size again: one that wrapped would pass conditions that
/// it breaks.
pub fn fits(op: BinOp, a: Dim, b: Dim) -> Static<Dim> {
    // for other sizes this is asked again, when the program is planned for them
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

/// How many windows of `span` elements, `stride` apart, lie in `n` elements with `pad` more at each side; `ceil`: also
/// one that leaves them, unless it starts behind the last element and the left padding.
pub fn windows(n: Dim, span: Dim, stride: Dim, pad: Dim, ceil: bool) -> Static<Dim> {
    let (zero, one) = (Dim::from(0), Dim::from(1));
    let padded = fits(BinOp::Add, fits(BinOp::Add, n, pad)?, pad)?;
    let room = fits(BinOp::Sub, padded, span)?;
    let whole = room / stride + one;
    if !ceil || room % stride == zero {
        return Ok(whole);
    }
    // `whole * stride` is where one more window starts
    Ok(if fits(BinOp::Mul, whole, stride)? >= n + pad { whole } else { whole + one })
}

/// The size to which two broadcast. Of symbolic sizes it asks as little as it can: what 1 joins is itself, whatever it
/// is.
pub fn joined(a: Dim, b: Dim) -> Option<Dim> {
    if a.is_unit() {
        Some(b)
    } else if b.is_unit() || a == b || b.is(1) {
        Some(a)
    } else {
        a.is(1).then_some(b)
    }
}
