//! Compares gradients of operators on tensors of a class with those of the operators on the plain tensors.
//!
//! The runtime computes both: a property of rows tests that gradients of plain rows are derivatives. A class that
//! rounds may round cotangents as it rounds tensors. The transposed operator propagates that error; it is determined by
//! pulling back each unit cotangent.

use super::{Drawn, Law, TRIES, draw, draw_call, hinted, is_asked, note};
use crate::bound::unit;
use crate::bridge;
use crate::calls::{Values, Wish};
use crate::draws::{self, Verdict};
use crate::oracle::Operand;
use crate::rng::Rng;
use fulgurite::subclass::Subclassed;
use fulgurite::symbol::{SubclassRef, SymbolRef};
use fulgurite::{Error, Tensor, api};
use fulgurite_core::eval::loop_nest::Array;
use fulgurite_core::lang::ast::Elem;
use fulgurite_core::loc::Loc;
use fulgurite_core::subclass::Cotangent;
use fulgurite_core::{DType, Value};
use std::cell::RefCell;

/// Calls that are drawn for an operator whose gradient the class declares, and for others.
const CASES: usize = 6;
const FEW: usize = 2;

/// At most this many elements of a cotangent are pulled back one by one, because each is a run.
const MOST_RESULTS: usize = 48;

/// The relative difference, in roundings, of two programs with one meaning.
const ROUNDINGS: f64 = 512.0;

/// The bound is of first order; for errors of an eighth, the rest is less than this share.
const ORDER: f64 = 0.25;

/// Whether a row has a gradient to compare.
pub fn applies(symbol: SymbolRef) -> bool {
    let row = symbol.row();
    let float = |ty: &fulgurite_core::lang::ast::Type| ty.elem.iter().any(|e| matches!(e, Elem::Var(_) | Elem::Acc(_)));
    row.no_grad.is_none()
        && !row.takes_key()
        && row.sig.params.iter().any(|p| float(&p.ty))
        && row.sig.outs.iter().any(|o| float(&o.ty))
}

/// Compares the gradients of some calls.
///
/// # Errors
/// The smallest call found for which they differ.
pub fn check(law: &Law, symbol: SymbolRef) -> Result<(), String> {
    let (class, row) = (law.class, hinted(symbol));
    let refused = RefCell::new(None);
    let declared = class.rules().grads_for(symbol.row().op).is_some();
    let drawn = |case: usize, rng: &mut Rng| {
        // In f64 if the row takes it.
        let dtype = row.preferred(if case.is_multiple_of(2) { DType::F64 } else { DType::F32 });
        let wish = Wish { dtype, values: Values::Tame, numbers: false, empty: false, case };
        let drawn = draw_call(class, &row, symbol, &wish, if declared { TRIES } else { FEW }, rng);
        drawn.map_err(|e| note(&refused, e)).ok()
    };
    let cases = if declared { CASES } else { FEW };
    let held =
        draws::hold(&law.property(cases), drawn, |drawn, rng| match compare(class, symbol, drawn, law.part, rng) {
            Ok(None) => Ok(Verdict::Held),
            Ok(Some(fault)) => Err(fault),
            Err(e) => {
                note(&refused, e);
                Ok(Verdict::Discarded)
            }
        })?;
    match (is_asked(held), refused.into_inner()) {
        (false, Some(e)) if declared => Err(format!("the class declares a gradient, and none was taken: {e}")),
        _ => Ok(()),
    }
}

/// The float tensors of a call: those of the class as they are, and as the plain tensors that they stand for.
fn inputs(drawn: &Drawn) -> (Vec<Tensor>, Vec<Array<f64>>, Vec<bool>) {
    let (mut tensors, mut plain, mut of_class, mut at) = (Vec::new(), Vec::new(), Vec::new(), 0);
    drawn.call.args.iter().for_each(|arg| {
        arg.for_each(&mut |o| {
            at += 1;
            let Some(a) = o.array().filter(|a| a.dtype.is_float()) else { return };
            of_class.push(drawn.made[at - 1].is_some());
            match &drawn.made[at - 1] {
                Some(made) => {
                    tensors.push(made.tensor.clone());
                    // The plain tensor of the runtime: its rounding is not part of the gradient.
                    plain.push(
                        bridge::arrays(&[made.tensor.plain()]).map_or_else(|_| a.clone(), |mut all| all.swap_remove(0)),
                    );
                }
                None => {
                    tensors.push(bridge::tensor(o));
                    plain.push(a.clone());
                }
            }
        });
    });
    (tensors, plain, of_class)
}

/// The float results of the call on these float tensors.
fn apply(symbol: SymbolRef, drawn: &Drawn, floats: &[Tensor]) -> Vec<Tensor> {
    let (mut next, mut at) = (floats.iter(), 0);
    let mut one = |o: &Operand<f64>| {
        at += 1;
        match o.is_float_tensor() {
            true => next.next().cloned().unwrap_or_else(|| bridge::tensor(o)),
            false => drawn.made[at - 1].as_ref().map_or_else(|| bridge::tensor(o), |made| made.tensor.clone()),
        }
    };
    let args: Vec<Value<Tensor>> = drawn.call.args.iter().map(|a| a.map(&mut one)).collect();
    match api::call(symbol, args, Loc::NOWHERE) {
        Ok(outs) => outs.into_iter().filter(|t| t.dtype().is_float()).collect(),
        Err(e) => vec![Tensor::poisoned(e)],
    }
}

/// The difference, if any; an error if the class refuses the call or its gradient.
fn compare(
    class: SubclassRef,
    symbol: SymbolRef,
    drawn: &Drawn,
    part: f64,
    rng: &mut Rng,
) -> Result<Option<String>, Option<Error>> {
    let (tensors, plain, of_class) = inputs(drawn);
    if !of_class.contains(&true) {
        return Err(None);
    }
    let outs = apply(symbol, drawn, &tensors);
    let shown: Vec<Tensor> = outs.iter().map(Subclassed::plain).collect();
    let results = bridge::arrays(&shown).map_err(|_| shown.iter().find_map(|t| t.check().err()))?;
    if results.is_empty() || results.iter().map(Array::len).sum::<usize>() > MOST_RESULTS {
        return Err(None);
    }
    let own = class.rules().cotangent == Cotangent::Same;
    // Away from zero, since rounding is relative to the magnitude.
    let mut draw = |a: &Array<f64>| {
        let one = |_| if rng.one_in(2) { rng.float(0.5, 1.0) } else { -rng.float(0.5, 1.0) };
        Array::float(a.dtype, &a.shape, (0..a.len()).map(one).collect())
    };
    let mut cotangents = Vec::new();
    let mut seeds = Vec::new();
    for (out, result) in outs.iter().zip(&results) {
        let made = match own && out.class().is_some() {
            true => draw::made_of(out, &mut |name| {
                let field = draw::fields(out).ok().and_then(|all| all.into_iter().find(|(n, _)| *n == name));
                field.map_or_else(
                    || Tensor::poisoned(Error::new("E706", "no such field")),
                    |(_, a)| bridge::tensor(&Operand::Tensor(if a.dtype.is_float() { draw(&a) } else { a })),
                )
            })?,
            false => bridge::tensor(&Operand::Tensor(draw(result))),
        };
        seeds.push(bridge::arrays(&[made.plain()]).map_err(|_| None)?.swap_remove(0));
        cotangents.push(made);
    }
    // All float tensors; if one has no gradient, those of one kind.
    let choices = [vec![true; of_class.len()], of_class.iter().map(|c| !c).collect(), of_class.clone()];
    let mut refused = None;
    for active in choices.iter().filter(|active| active.contains(&true)) {
        let x: Vec<Tensor> = tensors.iter().zip(active).filter(|(_, a)| **a).map(|(t, _)| t.clone()).collect();
        let f = |x: &Vec<Tensor>| {
            let mut x = x.iter();
            let all: Vec<Tensor> = tensors
                .iter()
                .zip(active)
                .filter_map(|(t, a)| if *a { x.next().cloned() } else { Some(t.clone()) })
                .collect();
            let outs = apply(symbol, drawn, &all);
            if own { outs } else { outs.iter().map(Subclassed::plain).collect() }
        };
        let grads = match fulgurite::vjp(&x, &cotangents, f) {
            Ok((_, grads)) => grads,
            Err(e) => {
                refused = Some(e);
                continue;
            }
        };
        let grads: Vec<Tensor> = grads.iter().map(Subclassed::plain).collect();
        let have = bridge::arrays(&grads).map_err(|e| Some(Error::new(e.code, e.text)))?;
        return differ(part * rounds(class), drawn, &plain, active, &have, &seeds);
    }
    Err(refused)
}

/// Compares the gradients of the operator at the plain tensors with `have`.
fn differ(
    rel: f64,
    drawn: &Drawn,
    plain: &[Array<f64>],
    active: &[bool],
    have: &[Array<f64>],
    seeds: &[Array<f64>],
) -> Result<Option<String>, Option<Error>> {
    let pull = |seeds: &[Array<f64>]| -> Result<Vec<Array<f64>>, Option<Error>> {
        let (_, grads) = bridge::vjp(&drawn.call, plain, seeds).map_err(|e| Some(Error::new(e.code, e.text)))?;
        Ok(grads.into_iter().zip(active).filter(|(_, a)| **a).map(|(g, _)| g).collect())
    };
    let want = pull(seeds)?;
    let mut far: Vec<Vec<f64>> = want.iter().map(|w| vec![0.0; w.len()]).collect();
    let mut size = far.clone();
    for (at, seed) in seeds.iter().enumerate() {
        for (e, g) in bridge::values(seed).iter().enumerate() {
            let one: Vec<Array<f64>> = (seeds.iter().enumerate())
                .map(|(i, s)| {
                    bridge::with_values(s, (0..s.len()).map(|j| f64::from(u8::from(i == at && j == e))).collect())
                })
                .collect();
            for (k, column) in pull(&one)?.iter().enumerate() {
                for (i, m) in bridge::values(column).iter().enumerate() {
                    far[k][i] += (1.0 + ORDER) * rel * (m * g).abs();
                    size[k][i] += (m * g).abs();
                }
            }
        }
    }
    for (k, (have, want)) in have.iter().zip(&want).enumerate() {
        if have.shape != want.shape {
            return Ok(Some(format!("gradient {k} has shape {:?}, should have {:?}", have.shape, want.shape)));
        }
        for (i, (h, w)) in bridge::values(have).iter().zip(bridge::values(want)).enumerate() {
            let allowed = far[k][i] + ROUNDINGS * unit(want.dtype) * (size[k][i] + w.abs() + 1e-3);
            let same = (h - w).abs() <= allowed || h.is_nan() && w.is_nan() || h == w || !w.is_finite();
            if !same {
                return Ok(Some(format!(
                    "gradient {k} has {h:e} as element {i}, on the plain tensors {w:e}; {allowed:.1e} is allowed"
                )));
            }
        }
    }
    Ok(None)
}

/// The largest relative error that the class states, over drawn tensors: cotangents may have other dtypes than tensors.
fn rounds(class: SubclassRef) -> f64 {
    let Some(text) = &class.rules().error.rel else { return 0.0 };
    let mut rng = Rng::new(7);
    let like = Array::float(DType::F32, &[2, 4], (0..8).map(f64::from).collect());
    let drawn = (0..16).filter_map(|_| draw::tensor(class, &like, true, &mut rng));
    let rel = drawn.filter_map(|made| match draw::value::<f64>(class, &made.tensor, text)? {
        Value::Num(s) => Some(s.as_f64()),
        Value::Tensor(Operand::Tensor(a)) => Some(a.scalars().iter().map(|s| s.as_f64()).fold(0.0, f64::max)),
        _ => None,
    });
    rel.fold(0.0, f64::max)
}
