//! Algebra with literal numbers: removes lines that return an argument, and keeps filled tensors filled.
//!
//! Every rule holds for all values: NaN, infinities and the sign of a zero. `x + 0.0` is not folded, because it makes
//! 0.0 of -0.0, while `x - 0.0` and `x + -0.0` keep every float. A value is replaced only if its type stays, and, as
//! long as a gradient may follow, never across gradient modes.

use crate::bind::Rewriter;
use crate::error::Error;
use crate::trace::tag::SplitSide;
use crate::trace::*;
use fulgurite_core::facts::Neutral;
use fulgurite_core::promote::promote;
use fulgurite_core::signature::Item;
use fulgurite_core::{DType, Scalar, TensorTy, Value};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Folds lines: `x * 1`, `x / 1`, `x + 0` of integers, `x + -0.0`, `x - 0`, `-(-x)`; casts, reshapes, expansions,
/// permutations and sums that change nothing; casts of casts whose inner one is exact; and lines that move a filled
/// tensor.
///
/// # Errors
/// Reports errors of binding, and E730 in debug builds.
pub fn fold(trace: &Trace, side: SplitSide) -> Result<Trace, Error> {
    let mut known = Known::default();
    Rewriter::each(trace, "fold", |rw, line| {
        let fixed = side == SplitSide::Before && trace.arena.no_grad_region(line.region, trace.root).is_some();
        // a line that may refuse has an effect, whatever its result is
        let apart = line.dispatch.is_some() || line.symbol.port().is_some() || line.symbol.may_refuse();
        let step = if fixed || apart || line.outs.len() != 1 { Step::Keep } else { known.step(rw, line) };
        match step {
            Step::Keep => rw.keep()?,
            // tags on which the two must agree keep them apart
            Step::Same(p) if !rw.may_bind(line.outs[0], p) => rw.keep()?,
            Step::Same(p) => rw.bind(line.outs[0], p)?,
            Step::Fill(ty, number) => {
                let filled = rw.builder().full(&ty, number)?;
                rw.bind(line.outs[0], filled)?;
            }
            Step::Cast(p, dtype) => {
                let cast = rw.builder().cast(p, dtype)?;
                rw.bind(line.outs[0], cast)?;
            }
        }
        known.remember(rw, line);
        Ok(())
    })
}

/// The outcome of folding a line.
enum Step {
    Keep,
    /// The result is this value.
    Same(ProxyId),
    /// The result is a tensor filled with a number.
    Fill(TensorTy, Scalar),
    /// The result is a cast of this value.
    Cast(ProxyId, DType),
}

/// Facts about the lines so far, by the proxies of the new trace.
#[derive(Default)]
struct Known {
    filled: FxHashMap<ProxyId, Scalar>,
    made_by: FxHashMap<ProxyId, Rc<BoundSymbol>>,
}

impl Known {
    fn remember(&mut self, rw: &mut Rewriter, line: &Rc<BoundSymbol>) {
        let [out] = line.outs[..] else { return };
        if rw.get(out) != out {
            return;
        }
        // the line that was recorded in place of this one makes its result now
        let Some(made) = rw.builder().lines().last().cloned() else { return };
        if let Some(with) = made.symbol.facts().fills
            && let Some(Value::Num(number)) = made.args.get(with)
        {
            self.filled.insert(out, *number);
        }
        self.made_by.insert(out, made);
    }

    fn step(&self, rw: &mut Rewriter, line: &BoundSymbol) -> Step {
        let arena = rw.builder().arena().clone();
        let Some(out) = arena.tensor_ty(line.outs[0]) else { return Step::Keep };
        let arg = |i: usize| match line.args.get(i) {
            Some(Value::Tensor(p)) => Value::Tensor(rw.get(*p)),
            Some(other) => other.clone(),
            None => Value::Absent,
        };
        let a = arg(0);
        // the value `p`, if it has the type of the result
        let same = |v: &Value<ProxyId>| match v {
            Value::Tensor(p) if arena.tensor_ty(*p).is_some_and(|ty| ty.same(&out)) => Step::Same(*p),
            _ => Step::Keep,
        };
        let is = |v: &Value<ProxyId>, wanted: f64| self.constant(v).is_some_and(|s| s.as_f64() == wanted);
        let float = out.dtype.is_float();
        // whether a value is a zero of this sign; integers have no sign of zero
        let zero = |v: &Value<ProxyId>, negative: bool| {
            let number = self.constant(v).map(|s| s.as_f64());
            number.is_some_and(|x| x == 0.0 && (!float || x.is_sign_negative() == negative))
        };
        let facts = line.symbol.facts();
        let keeps = |unit: &Neutral| match unit.value {
            0.0 => zero(&arg(unit.number), unit.value.is_sign_negative()),
            wanted => is(&arg(unit.number), wanted),
        };
        let kept = facts.neutral.iter().find(|unit| keeps(unit)).map(|unit| same(&arg(unit.kept)));
        let folded = match kept {
            Some(step) => step,
            None if facts.involution => self.twice(line, &a).map_or(Step::Keep, |inner| same(&inner)),
            None if facts.converts => self.cast(&arena, &a, &out),
            None if facts.reduces || facts.reshapes || is_ordered(line, facts.permutes) => same(&a),
            None => Step::Keep,
        };
        let moved = facts.moves.map(arg).filter(|moved| matches!(moved, Value::Tensor(_)));
        match (folded, moved.and_then(|moved| self.constant(&moved))) {
            (Step::Keep, Some(number)) => {
                convert(number, out.dtype).map_or(Step::Keep, |number| Step::Fill(out, number))
            }
            (step, _) => step,
        }
    }

    /// If `a` was made by this involution, the argument to which it was applied then.
    fn twice(&self, line: &BoundSymbol, a: &Value<ProxyId>) -> Option<Value<ProxyId>> {
        let inner = self.maker(a)?;
        std::ptr::eq(inner.symbol, line.symbol).then(|| inner.args[0].clone())
    }

    /// A cast of a cast is one cast if the inner one loses nothing.
    fn cast(&self, arena: &Arena, a: &Value<ProxyId>, out: &TensorTy) -> Step {
        let Value::Tensor(p) = a else { return Step::Keep };
        match arena.tensor_ty(*p) {
            Some(ty) if ty.same(out) => return Step::Same(*p),
            Some(middle) => {
                if let Some(inner) = self.maker(a).filter(|inner| inner.symbol.facts().converts)
                    && let Some(Value::Tensor(x)) = inner.args.first()
                    && let Some(first) = arena.tensor_ty(*x)
                    && is_exact(first.dtype, middle.dtype)
                {
                    return if first.same(out) { Step::Same(*x) } else { Step::Cast(*x, out.dtype) };
                }
            }
            None => {}
        }
        Step::Keep
    }

    fn maker(&self, v: &Value<ProxyId>) -> Option<&Rc<BoundSymbol>> {
        let Value::Tensor(p) = v else { return None };
        self.made_by.get(p)
    }

    fn constant(&self, v: &Value<ProxyId>) -> Option<Scalar> {
        match v {
            Value::Num(number) => Some(*number),
            Value::Tensor(p) => self.filled.get(p).copied(),
            _ => None,
        }
    }
}

/// Whether a line permutes the axes of its argument, and leaves each in its place.
fn is_ordered(line: &BoundSymbol, permutes: Option<usize>) -> bool {
    let dims = permutes.and_then(|option| line.solved.env.item(line.symbol.row().sig.opts[option].name.name));
    match dims {
        Some(Item::Ints(dims)) => dims.iter().enumerate().all(|(i, d)| d.value() == i as i64),
        _ => false,
    }
}

/// Whether `to` can represent every value of `from`.
fn is_exact(from: DType, to: DType) -> bool {
    use DType::*;
    if from == to {
        return true;
    }
    // f32 has every number of the floats of storage, and no dtype of storage has all those of another dtype
    if from.is_storage() || to.is_storage() {
        return from.is_float() && matches!(to, F32 | F64);
    }
    if from == Bool {
        return true;
    }
    match (from.is_int(), to.is_float()) {
        // the significands have 11 bits in f16, 8 in bf16, 24 in f32, 53 in f64
        (true, true) => match from {
            U8 | I8 => true,
            I16 => matches!(to, F32 | F64),
            I32 => to == F64,
            _ => false,
        },
        _ => from.category() == to.category() && promote(from, to) == to,
    }
}

/// The number as an element of `dtype`, if that does not change it.
fn convert(number: Scalar, dtype: DType) -> Option<Scalar> {
    match (number, dtype) {
        (Scalar::Float(x), DType::F64) => Some(Scalar::Float(x)),
        (Scalar::Float(x), DType::F32) if f64::from(x as f32) == x => Some(number),
        // halves represent these numbers exactly; other numbers are left to the kernel's rounding
        (Scalar::Float(x), DType::F16 | DType::BF16) if x == x.trunc() && x.abs() <= 256.0 => Some(number),
        (Scalar::Int(i), d) if d.is_float() && i.unsigned_abs() <= 256 => Some(Scalar::Float(i as f64)),
        (Scalar::Int(_), DType::I64) | (Scalar::Bool(_), DType::Bool) => Some(number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulgurite_core::builtins::cast_scalar;

    #[test]
    fn an_exact_cast_gives_every_number_back() {
        let numbers = (-140..140).flat_map(|e| [1.0, 1.125, 1.9375, -1.75].map(|x: f64| x * 2f64.powi(e)));
        let numbers: Vec<f64> = numbers.chain((-260..260).map(f64::from)).collect();
        let real = |d: &DType| d.is_int() || d.is_float();
        for from in DType::ALL.into_iter().filter(real) {
            for to in DType::ALL.into_iter().filter(|to| real(to) && is_exact(from, *to)) {
                for &x in &numbers {
                    let x = cast_scalar(Scalar::Float(x), from);
                    let back = cast_scalar(cast_scalar(x, to), from);
                    assert!(
                        back == x || x.as_f64().is_nan() && back.as_f64().is_nan(),
                        "{x:?} of {from} as {to}: {back:?}"
                    );
                }
            }
        }
        assert!(!is_exact(DType::F32, DType::F8E8M0FNU) && !is_exact(DType::I8, DType::F8E4M3FN));
        assert!(is_exact(DType::F8E5M2, DType::F32) && is_exact(DType::F16, DType::F32));
    }
}
