//! Finds what decides that an element of a reduction has the neutral value, such as the 0 that `x[i else 0]` gives to a
//! sum outside of `x`.

use crate::DType;
use crate::builtins::{Builtin, cast_scalar, eval_bool, eval_f64, eval_int};
use crate::eval::loop_nest::neutral;
use crate::lang::ast::Red;
use crate::loop_nest::{LoopExpr, SOp, SOutside};
use crate::scalar::Scalar;
use smallvec::SmallVec;

/// An element is neutral unless this holds.
pub(super) enum Guard<'a> {
    /// The access lies in its tensor.
    Access {
        /// Position among the call's tensors.
        tensor: usize,
        /// One index for each axis.
        idx: &'a [LoopExpr],
    },
    /// The condition holds.
    Condition(&'a LoopExpr),
}

/// The guard of a reduction's elements, if they have one.
pub(super) fn guard(red: Red, body: &LoopExpr) -> Option<Guard<'_>> {
    // a mean counts its elements, and a position says which of them it was
    if !matches!(red, Red::Sum | Red::Prod | Red::Max | Red::Min | Red::Any | Red::All) {
        return None;
    }
    let neutral = cast_scalar(neutral(red, body.ty()), body.ty());
    if let SOp::Select(condition, _, otherwise) = body.op()
        && constant(otherwise)? == neutral
        && !reads(condition)
    {
        return Some(Guard::Condition(condition));
    }
    let (mut access, mut one) = (None, true);
    accesses(body, &mut |e| one &= *access.get_or_insert(e) == e);
    match access?.op() {
        SOp::Load { tensor, idx, outside: SOutside::Value(_) } if one && constant(body)? == neutral => {
            Some(Guard::Access { tensor: *tensor, idx })
        }
        _ => None,
    }
}

/// Whether an expression reads elements.
pub(super) fn reads(e: &LoopExpr) -> bool {
    let mut any = matches!(e.op(), SOp::Load { .. } | SOp::Elem(_));
    e.op().parts(&mut |part| any |= reads(part));
    any
}

/// Calls `f` on every access that is in no index of another one.
fn accesses<'a>(e: &'a LoopExpr, f: &mut dyn FnMut(&'a LoopExpr)) {
    match e.op() {
        SOp::Load { .. } => f(e),
        op => op.parts(&mut |part| accesses(part, f)),
    }
}

/// The value of an expression whose accesses all lie outside of their tensors, if that is known now.
fn constant(e: &LoopExpr) -> Option<Scalar> {
    let ty = e.ty();
    match e.op() {
        SOp::Const(s) => Some(cast_scalar(*s, ty)),
        SOp::Load { outside: SOutside::Value(value), .. } => Some(cast_scalar(constant(value)?, ty)),
        SOp::Cast(x) | SOp::Detach(x) => Some(cast_scalar(constant(x)?, ty)),
        SOp::Call(builtin, args) => {
            let args = args.iter().map(|x| Some((constant(x)?, x.ty()))).collect::<Option<SmallVec<[_; 3]>>>()?;
            called(*builtin, &args, ty)
        }
        _ => None,
    }
}

/// A builtin of constants of one kind. The evaluation of floats is that of f64, which is exact for the neutral elements.
fn called(builtin: Builtin, args: &[(Scalar, DType)], ty: DType) -> Option<Scalar> {
    let all = |kind: fn(DType) -> bool| args.iter().all(|(_, ty)| kind(*ty));
    if all(DType::is_float) && ty.is_float() {
        let args: SmallVec<[f64; 3]> = args.iter().map(|(x, _)| x.as_f64()).collect();
        return Some(cast_scalar(Scalar::Float(eval_f64(builtin, &args)), ty));
    }
    if all(DType::is_int) && ty.is_int() {
        let args: SmallVec<[i64; 3]> = args.iter().map(|(x, _)| x.as_i64()).collect();
        return eval_int(builtin, &args, ty).ok().map(|x| cast_scalar(Scalar::Int(x), ty));
    }
    if all(|ty| ty == DType::Bool) && ty == DType::Bool {
        let args: SmallVec<[bool; 3]> = args.iter().map(|(x, _)| x.as_bool()).collect();
        return eval_bool(builtin, &args).map(Scalar::Bool);
    }
    None
}
