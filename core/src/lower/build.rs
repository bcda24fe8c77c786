//! Smart constructors: constants fold and neutral elements vanish, so that affine indices stay recognisable.

use crate::builtins::{Builtin, cast_scalar};
use crate::loop_nest::*;
use crate::{DType, Dim, Scalar};

/// `a op b` on i64 indices, for `Add`, `Sub`, `Mul`, `DivFloor`, `RemFloor`, `Max`, `Min`.
pub fn int_op(op: Builtin, a: LoopExpr, b: LoopExpr) -> LoopExpr {
    use Builtin::*;
    match (op, a.as_int(), b.as_int()) {
        (_, Some(x), Some(y)) => {
            let folded = match op {
                Add => x.checked_add(y),
                Sub => x.checked_sub(y),
                Mul => x.checked_mul(y),
                DivFloor if y != 0 => {
                    x.checked_div_euclid(y).map(|q| q - ((y < 0) && x.wrapping_rem_euclid(y) != 0) as i64)
                }
                RemFloor if y > 0 => Some(x.rem_euclid(y)),
                Max => Some(x.max(y)),
                Min => Some(x.min(y)),
                _ => None,
            };
            match folded {
                Some(v) => LoopExpr::int(v),
                None => LoopExpr::new(SOp::Call(op, vec![a, b]), DType::I64),
            }
        }
        (Add, Some(0), _) => b,
        (Add | Sub, _, Some(0)) => a,
        (Mul, Some(1), _) => b,
        (Mul | DivFloor, _, Some(1)) => a,
        (Mul, Some(0), _) | (Mul, _, Some(0)) => LoopExpr::int(0),
        (RemFloor, _, Some(1)) => LoopExpr::int(0),
        // Constants move to the right.
        (Add | Mul, Some(_), None) => int_op(op, b, a),
        (Add, None, Some(y)) => match a.op() {
            SOp::Call(Add, xs) if xs[1].as_int().is_some() => {
                int_op(Add, xs[0].clone(), LoopExpr::int(xs[1].as_int().unwrap_or(0).wrapping_add(y)))
            }
            SOp::Call(Sub, xs) if xs[1].as_int().is_some() => {
                int_op(Add, xs[0].clone(), LoopExpr::int(y.wrapping_sub(xs[1].as_int().unwrap_or(0))))
            }
            _ => LoopExpr::new(SOp::Call(op, vec![a, b]), DType::I64),
        },
        (Sub, None, Some(y)) => int_op(Add, a, LoopExpr::int(y.wrapping_neg())),
        _ => LoopExpr::new(SOp::Call(op, vec![a, b]), DType::I64),
    }
}

/// `e` cast to `ty`.
pub fn cast(e: LoopExpr, ty: DType) -> LoopExpr {
    if e.ty() == ty {
        return e;
    }
    match e.as_const().filter(|s| holds(ty, *s)) {
        Some(s) => LoopExpr::new(SOp::Const(cast_scalar(s, ty)), ty),
        None => LoopExpr::new(SOp::Cast(e), ty),
    }
}

/// The float of a u64, which computes as the i64 of the same bits. Half of a large one, with its last bit kept so that it
/// rounds in the same way, is an i64 that is not negative.
pub fn float_of_u64(e: LoopExpr, ty: DType) -> LoopExpr {
    let word = |x: i64| LoopExpr::new(SOp::Const(Scalar::Int(x)), DType::I64);
    let two = |b: Builtin, x: LoopExpr, y: LoopExpr| LoopExpr::new(SOp::Call(b, vec![x, y]), DType::I64);
    let half = two(Builtin::Bitand, two(Builtin::Shr, e.clone(), word(1)), word(i64::MAX));
    let half = cast(two(Builtin::Bitor, half, two(Builtin::Bitand, e.clone(), word(1))), ty);
    let doubled = LoopExpr::new(SOp::Call(Builtin::Add, vec![half.clone(), half]), ty);
    let large = LoopExpr::new(SOp::Call(Builtin::Lt, vec![e.clone(), word(0)]), DType::Bool);
    LoopExpr::new(SOp::Select(large, doubled, cast(e, ty)), ty)
}

/// The i64 with the bits of the u64 that a float truncates to, as `builtins::cast_f64` defines it.
pub fn u64_of_float(e: LoopExpr) -> LoopExpr {
    let (float, word) = (e.ty(), DType::I64);
    let limit = LoopExpr::new(SOp::Const(Scalar::Float(9_223_372_036_854_775_808.0)), float);
    let rest = LoopExpr::new(SOp::Call(Builtin::Sub, vec![e.clone(), limit.clone()]), float);
    let top = LoopExpr::new(SOp::Const(Scalar::Int(i64::MIN)), word);
    let above = LoopExpr::new(SOp::Call(Builtin::Bitxor, vec![cast(rest, word), top]), word);
    let large = LoopExpr::new(SOp::Call(Builtin::Ge, vec![e.clone(), limit]), DType::Bool);
    LoopExpr::new(SOp::Select(large, above, cast(e, word)), word)
}

/// Whether this dtype can represent `s`: an integer does not wrap, a float becomes neither 0 nor infinite. A constant
/// that is not representable stays a cast, so that checks see it.
pub fn holds(ty: DType, s: Scalar) -> bool {
    match (s, cast_scalar(s, ty)) {
        // -1 as a u8 has all bits set.
        (Scalar::Int(-128..=-1), _) if ty == DType::U8 => true,
        (Scalar::Int(i), Scalar::Int(kept)) => i == kept,
        (Scalar::Float(x), Scalar::Float(kept)) => x == 0.0 || !x.is_finite() || kept != 0.0 && kept.is_finite(),
        _ => true,
    }
}

/// `if c { a } else { b }` for branches of one dtype.
pub fn select(c: LoopExpr, a: LoopExpr, b: LoopExpr) -> LoopExpr {
    match c.as_const() {
        Some(s) => {
            if s.as_bool() {
                a
            } else {
                b
            }
        }
        None if a == b => a,
        None => {
            let ty = a.ty();
            LoopExpr::new(SOp::Select(c, a, b), ty)
        }
    }
}

pub fn logic(and: bool, a: LoopExpr, b: LoopExpr) -> LoopExpr {
    match (a.as_const(), b.as_const()) {
        (Some(s), _) => {
            if s.as_bool() == and {
                b
            } else {
                a
            }
        }
        (_, Some(s)) => {
            if s.as_bool() == and {
                a
            } else {
                b
            }
        }
        _ => LoopExpr::new(SOp::Call(if and { Builtin::And } else { Builtin::Or }, vec![a, b]), DType::Bool),
    }
}

/// A truth constant.
pub fn truth(b: bool) -> LoopExpr {
    LoopExpr::new(SOp::Const(Scalar::Bool(b)), DType::Bool)
}

/// A comparison of two i64 indices.
pub fn compare(op: Builtin, a: LoopExpr, b: LoopExpr) -> LoopExpr {
    if let (Some(x), Some(y)) = (a.as_int(), b.as_int()) {
        return truth(match op {
            Builtin::Lt => x < y,
            Builtin::Le => x <= y,
            Builtin::Gt => x > y,
            Builtin::Ge => x >= y,
            Builtin::Eq => x == y,
            _ => x != y,
        });
    }
    LoopExpr::new(SOp::Call(op, vec![a, b]), DType::Bool)
}

/// The flat row-major position of `indices` in `sizes`.
pub fn ravel(indices: &[LoopExpr], sizes: &[Dim]) -> LoopExpr {
    let mut flat = LoopExpr::int(0);
    for (e, d) in indices.iter().zip(sizes) {
        flat = int_op(Builtin::Add, int_op(Builtin::Mul, flat, LoopExpr::int(d.value())), e.clone());
    }
    flat
}

/// The indices in `sizes` of the flat position `flat`.
pub fn unravel(flat: &LoopExpr, sizes: &[Dim]) -> Vec<LoopExpr> {
    let mut stride = 1i64;
    let mut out = vec![LoopExpr::int(0); sizes.len()];
    for (i, d) in sizes.iter().enumerate().rev() {
        let n = d.value();
        let e = int_op(Builtin::DivFloor, flat.clone(), LoopExpr::int(stride));
        // the slowest index needs no remainder: a flat position is within the tensor
        let slowest = sizes[..i].iter().all(|d| d.value() == 1);
        out[i] = if n == 1 {
            LoopExpr::int(0)
        } else if slowest {
            e
        } else {
            int_op(Builtin::RemFloor, e, LoopExpr::int(n))
        };
        stride = stride.saturating_mul(n.max(1));
    }
    out
}

/// The two indices of a composite axis `G * C`.
pub fn split(e: LoopExpr, g: Dim, c: Dim) -> (LoopExpr, LoopExpr) {
    if g.value() == 1 {
        return (LoopExpr::int(0), e);
    }
    let fast = LoopExpr::int(c.value());
    if c.value() == 1 {
        return (e, LoopExpr::int(0));
    }
    (int_op(Builtin::DivFloor, e.clone(), fast.clone()), int_op(Builtin::RemFloor, e, fast))
}

/// The positions (i64, row-major) of the elements that a view of one tensor with these sizes shows, as a nest. `None`
/// where a result is not an access.
pub fn positions(view: &Nest, sizes: &[usize]) -> Option<Nest> {
    let outs = view.outs.iter().map(|out| {
        let SOp::Load { idx, .. } = out.expr.op() else { return None };
        let mut at = LoopExpr::int(0);
        for (index, size) in idx.iter().zip(sizes) {
            at = int_op(Builtin::Mul, at, LoopExpr::int(*size as i64));
            at = int_op(Builtin::Add, at, index.clone());
        }
        Some(NestOut { dtype: DType::I64, expr: at, ..out.clone() })
    });
    Some(Nest { outs: outs.collect::<Option<_>>()?, ..view.clone() })
}
