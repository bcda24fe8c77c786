//! One reduction, element by element.

use super::{Field, NestError, Stop, Val, malformed};
use crate::builtins::{Builtin, eval_bool, eval_int};
use crate::lang::ast::Red;
use crate::{DType, Scalar};

/// A reduction in progress.
pub(super) struct Acc<F> {
    red: Red,
    ty: DType,
    /// The body's dtype.
    dtype: DType,
    value: Option<Val<F>>,
    pub(super) count: i64,
    /// Flat position of the extremum.
    chosen: i64,
    /// Flat position of the next element, in the order of the loops.
    pub(super) flat: i64,
}

impl<F: Field> Acc<F> {
    /// A reduction to type `ty` over elements of type `dtype`.
    pub(super) fn new(red: Red, ty: DType, dtype: DType) -> Acc<F> {
        Acc { red, ty, dtype, value: None, count: 0, chosen: 0, flat: 0 }
    }

    /// Adds the next element; `false`: the result is decided.
    pub(super) fn add(&mut self, v: Val<F>, flat: i64) -> Result<bool, Stop> {
        self.count += 1;
        let Some(old) = self.value.take() else {
            self.chosen = flat;
            let v = if matches!(self.red, Red::ArgMax | Red::ArgMin) { v } else { v.cast(self.kept()) };
            self.value = Some(v);
            return Ok(!matches!(self.red, Red::First | Red::Only));
        };
        let wins = match self.red {
            Red::ArgMax => v.above(&old),
            Red::ArgMin => v.below(&old),
            Red::Last => true,
            _ => {
                let v = v.cast(self.kept());
                self.value = Some(self.combine(old, v)?);
                return Ok(true);
            }
        };
        if wins {
            self.chosen = flat;
        }
        self.value = Some(if wins { v } else { old });
        Ok(true)
    }

    /// The dtype in which partial results are kept.
    fn kept(&self) -> DType {
        if matches!(self.red, Red::Any | Red::All) { DType::Bool } else { self.ty }
    }

    fn combine(&self, a: Val<F>, b: Val<F>) -> Result<Val<F>, Stop> {
        let op = match self.red {
            Red::Sum | Red::Mean => Builtin::Add,
            Red::Prod => Builtin::Mul,
            Red::Max => Builtin::Max,
            Red::Min => Builtin::Min,
            Red::Any => return Ok(Val::Bool(a.as_bool() | b.as_bool())),
            Red::All => return Ok(Val::Bool(a.as_bool() & b.as_bool())),
            Red::ArgMax | Red::ArgMin | Red::First | Red::Last | Red::Only => return Ok(a),
        };
        Ok(match (a, b) {
            (Val::Float(a), Val::Float(b)) => Val::Float(F::call(op, &[a, b])),
            (Val::Int(a), Val::Int(b)) => Val::Int(eval_int(op, &[a, b], self.ty).map_err(|e| NestError::Int(op, e))?),
            (a, b) => match eval_bool(op, &[a.as_bool(), b.as_bool()]) {
                Some(v) => Val::Bool(v),
                None => return malformed(format!("`{}` is not defined on bool", op.name())),
            },
        })
    }

    /// The value of the elements that were added.
    pub(super) fn finish(self) -> Result<Val<F>, Stop> {
        let ty = self.ty;
        Ok(match (self.red, self.value) {
            (Red::ArgMax | Red::ArgMin, _) => Val::Int(self.chosen),
            (Red::Mean, Some(Val::Float(x))) => Val::Float(F::call(Builtin::Div, &[x, F::constant(self.count as f64)])),
            (Red::Mean, None) => Val::Float(F::constant(f64::NAN)).cast(ty),
            (_, Some(v)) => v.cast(ty),
            (Red::Only, None) => return malformed("no alternative is in range"),
            (red, None) => Val::<F>::from_scalar(neutral(red, self.dtype)).cast(ty),
        })
    }
}

/// The value of an empty reduction without `else`: the neutral element; for `max` and `min` the end of the dtype.
pub fn neutral(red: Red, dtype: DType) -> Scalar {
    let float = dtype.is_float();
    match red {
        Red::Prod | Red::All => Scalar::Int(1),
        Red::Max | Red::ArgMax if float => Scalar::Float(f64::NEG_INFINITY),
        Red::Min | Red::ArgMin if float => Scalar::Float(f64::INFINITY),
        Red::Max | Red::ArgMax => Scalar::Int(dtype.integers().0),
        Red::Min | Red::ArgMin => Scalar::Int(dtype.integers().1),
        _ => Scalar::Int(0),
    }
}
