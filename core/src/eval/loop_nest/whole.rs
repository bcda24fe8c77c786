//! Evaluates one builtin over whole float tensors, the most frequent call, without computing the position of any
//! element.

use super::{Array, Data, Field, Val, called};
use crate::loop_nest::{LoopExpr, NestOut, SOp};

/// An operand of the builtin.
enum Operand<'a, F> {
    /// One value per element.
    Each(&'a [F]),
    /// One value for all elements.
    Same(F),
}

impl<F: Field> Operand<'_, F> {
    /// The number of elements; `None` for a broadcast value, since only a tensor of that size shows that the result
    /// fits.
    fn count(&self) -> Option<usize> {
        match self {
            Operand::Each(elements) => Some(elements.len()),
            Operand::Same(_) => None,
        }
    }

    fn at(&self, flat: usize) -> F {
        match self {
            Operand::Each(elements) => elements[flat].clone(),
            Operand::Same(x) => x.clone(),
        }
    }
}

/// The elements of a result of this shape, paid for from `steps`; `None` for any other expression, or where the steps
/// do not suffice.
pub(super) fn floats<F: Field>(
    out: &NestOut,
    shape: &[usize],
    tensors: &[&Array<F>],
    steps: &mut u64,
) -> Option<Vec<F>> {
    let SOp::Call(builtin, args) = out.expr.op() else { return None };
    if !out.dtype.is_float() || !out.expr.ty().is_float() {
        return None;
    }
    let ty = out.expr.ty();
    let operand = |e: &LoopExpr| operand(e, shape, tensors);
    let mut spend = |n: usize| {
        *steps = steps.checked_sub(u64::from(out.expr.weight()).checked_mul(n as u64)?)?;
        Some(n)
    };
    match args.as_slice() {
        [x] => {
            let x = operand(x)?;
            let n = spend(x.count()?)?;
            Some((0..n).map(|flat| called(*builtin, &[x.at(flat)], ty)).collect())
        }
        [x, y] => {
            let (x, y) = (operand(x)?, operand(y)?);
            let n = spend(x.count().or(y.count())?)?;
            Some((0..n).map(|flat| called(*builtin, &[x.at(flat), y.at(flat)], ty)).collect())
        }
        _ => None,
    }
}

fn operand<'a, F: Field>(e: &LoopExpr, shape: &[usize], tensors: &[&'a Array<F>]) -> Option<Operand<'a, F>> {
    if !e.ty().is_float() {
        return None;
    }
    match e.op() {
        SOp::Const(s) => Some(Operand::Same(Val::<F>::from_scalar(*s).into_float())),
        SOp::Elem(tensor) => {
            let a = tensors.get(*tensor)?;
            let Data::Float(elements) = &a.data else { return None };
            match elements.as_slice() {
                [x] if a.shape.len() <= shape.len() => Some(Operand::Same(x.clone())),
                all if a.shape == shape => Some(Operand::Each(all)),
                _ => None,
            }
        }
        _ => None,
    }
}
