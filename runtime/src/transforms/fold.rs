//! Algebra with literal numbers: lines that give back an argument go, filled tensors stay filled.
//!
//! Every rule holds for all values: NaN, infinities and the sign of a zero. `x + 0.0` is none of them, because it makes
//! 0.0 of -0.0; what keeps every float is `x - 0.0` and `x + -0.0`.
//! A value is replaced only where its type stays, and, as long as a gradient may follow, never across gradient modes.

use crate::bind::Rewriter;
use crate::error::Error;
use crate::trace::tag::SplitSide;
use crate::trace::*;
use fulgurite_core::facts::Neutral;
use fulgurite_core::promote::promote;
use fulgurite_core::sig::Item;
use fulgurite_core::{DType, Scalar, TensorTy, Value};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Folds lines: `x * 1`, `x / 1`, `x + 0` of integers, `x + -0.0`, `x - 0`, `-(-x)`, casts, reshapes, expansions,
/// permutations and sums that change nothing, casts of casts where the inner one is exact, and everything
/// that moves a filled tensor.
///
/// # Errors
/// What binding reports; E730 (debug builds).
pub fn fold(trace: &Trace, side: SplitSide) -> Result<Trace, Error> {
    let mut known = Known::default();
    Rewriter::each(trace, "fold", |rw, line| {
        let fixed = side == SplitSide::Before && trace.arena.no_grad_region(line.region, trace.root).is_some();
        // what may refuse is an effect, whatever its result is
        let apart = line.dispatch.is_some() || line.symbol.port().is_some() || line.symbol.may_refuse();
        let step = if fixed || apart || line.outs.len() != 1 { Step::Keep } else { known.step(rw, line) };
        match step {
            Step::Keep => rw.keep()?,
            // tags that the two must share keep them apart
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

/// What becomes of a line.
enum Step {
    Keep,
    /// Its result is this value.
    Same(ProxyId),
    /// Its result is a tensor filled with a number.
    Fill(TensorTy, Scalar),
    /// Its result is a cast of this value.
    Cast(ProxyId, DType),
}

/// What earlier lines made, by the proxy that stands for it in the new trace.
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
        // what was recorded in place of the line makes its result now
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
        // `p`, if it has the type of the result
        let same = |v: &Value<ProxyId>| match v {
            Value::Tensor(p) if arena.tensor_ty(*p).is_some_and(|ty| ty.same(&out)) => Step::Same(*p),
            _ => Step::Keep,
        };
        let is = |v: &Value<ProxyId>, wanted: f64| self.constant(v).is_some_and(|s| s.as_f64() == wanted);
        let float = out.dtype.is_float();
        // a zero of this sign, which integers do not have
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

    /// What a row that undoes itself was applied to before it is applied to `a`.
    fn twice(&self, line: &BoundSymbol, a: &Value<ProxyId>) -> Option<Value<ProxyId>> {
        let inner = self.maker(a)?;
        std::ptr::eq(inner.symbol, line.symbol).then(|| inner.args[0].clone())
    }

    /// A cast of a cast is one cast where the inner one loses nothing.
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

/// Whether a line orders the axes of its argument, and leaves each where it is.
fn is_ordered(line: &BoundSymbol, permutes: Option<usize>) -> bool {
    let dims = permutes.and_then(|option| line.solved.env.item(line.symbol.row().sig.opts[option].name.name));
    match dims {
        Some(Item::Ints(dims)) => dims.iter().enumerate().all(|(i, d)| d.value() == i as i64),
        _ => false,
    }
}

/// Whether every value of `from` is one of `to`.
fn is_exact(from: DType, to: DType) -> bool {
    use DType::*;
    if from == to || from == Bool {
        return true;
    }
    match (from.is_int(), to.is_float()) {
        // widths of significands: f16 11 bits, bf16 8, f32 24, f64 53
        (true, true) => match from {
            U8 | I8 => true,
            I16 => matches!(to, F32 | F64),
            I32 => to == F64,
            _ => false,
        },
        _ => from.category() == to.category() && promote(from, to) == to,
    }
}

/// The number as an element of `dtype`, where that changes nothing.
fn convert(number: Scalar, dtype: DType) -> Option<Scalar> {
    match (number, dtype) {
        (Scalar::Float(x), DType::F64) => Some(Scalar::Float(x)),
        (Scalar::Float(x), DType::F32) if f64::from(x as f32) == x => Some(number),
        // halves are exact for these; anything else is left to the kernel's rounding
        (Scalar::Float(x), DType::F16 | DType::BF16) if x == x.trunc() && x.abs() <= 256.0 => Some(number),
        (Scalar::Int(i), d) if d.is_float() && i.abs() <= 256 => Some(Scalar::Float(i as f64)),
        (Scalar::Int(_), DType::I64) | (Scalar::Bool(_), DType::Bool) => Some(number),
        _ => None,
    }
}
