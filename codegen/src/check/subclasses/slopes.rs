//! E605: the gradients that a class declares are the derivatives, up to the error of its tensors.

use std::sync::Arc;

use fulgurite_core::derive;
use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::lang::ast::Block;
use fulgurite_core::row::Row;
use fulgurite_core::signature;
use fulgurite_core::subclass::{self, Cotangent};
use fulgurite_core::{Name, Named, Value, counted};

use super::draw::{self, Operand};
use super::meaning::{self, Slot, likes};
use super::world::{Made, Tensor, World};
use crate::check::cases::Family;
use crate::check::gradients::arrays::dense::{Stop, V, floats};
use crate::check::gradients::arrays::numbers::Numbers;
use crate::check::gradients::{samples, show};
use crate::check::points::run::Ran;

/// The distance from the derivative that a gradient may have, as a share of its norm, if the class is exact. [`COARSE`]
/// is that of other classes, because cotangents may be rounded to fewer bits than tensors.
const EXACT: f64 = 1e-5;
const COARSE: f64 = 0.3;

/// The step of a difference quotient. [`OF_STEP`] is the distance that it may have from the derivative.
const STEP: f64 = 1e-4;
const OF_STEP: f64 = 1e-3;

/// Differences are taken for at most this many shapes, because each element takes one.
const FEW: usize = 2;

/// The number of right comparisons after which no further call of a row is tried.
const COMPARED: usize = 2;

/// Checks a class's rule for the gradient of a row. Returns the fault and the call.
pub fn of_row(
    world: &World,
    class: usize,
    row: &Arc<Row>,
    arg: Name,
    rule: &Block,
    family: &Family,
) -> Option<[String; 2]> {
    let at = row.sig.params.iter().position(|param| param.name.name == arg)?;
    let mut right = 0;
    for (n, case) in meaning::tried(family) {
        let Some(drawn) = samples::usual(world.library, row, case, n) else { continue };
        let all = meaning::slots(&drawn.args, row);
        // a tensor without elements has no scales
        let empty = |slot: &Slot| meaning::get(&drawn.args, *slot).is_none_or(|a| a.is_empty());
        if drawn.args[at].is_absent() || all.iter().any(empty) {
            continue;
        }
        let (before, mut refused) = (right, None);
        for choice in meaning::choices(&all) {
            let operand = |(i, slot): (usize, &Slot)| {
                let like = meaning::get(&drawn.args, *slot)?;
                draw::operands(world, class, &like, (n + 31 * i) as u64).into_iter().next()
            };
            let Some(operands) = choice.iter().enumerate().map(operand).collect::<Option<Vec<_>>>() else { continue };
            match on(world, class, (row, at, rule), &drawn.args, &choice, &operands) {
                Ok(None) => right += 1,
                Ok(Some(claim)) => return Some([claim, format!("for {}", case.show(row))]),
                // the rule may serve other choices
                Err(Stop::Refused(refusal)) => refused = Some(refusal.message),
                Err(_) => {}
            }
        }
        // a call that the class takes has a gradient, whichever of its arguments are of the class
        if let (true, Some(why)) = (right == before, refused) {
            return Some(["refuses a call that the class takes".to_owned(), format!("for {}: {why}", case.show(row))]);
        }
        if right >= COMPARED {
            break;
        }
    }
    None
}

fn on(
    world: &World,
    class: usize,
    (row, at, rule): (&Arc<Row>, usize, &Block),
    data: &[Value<V<f64>>],
    choice: &[Slot],
    operands: &[Operand],
) -> Result<Option<String>, Stop> {
    let (args, plain) = meaning::given(data, choice, operands);
    let solved = signature::solve(row, &args, &Tensor::ty)?;
    if let Err(stop) = world.run(row, &solved, &args) {
        return Err(Stop::Data(format!("{stop:?}")));
    }
    let ran = Ran::new(row, plain, world.library.set)?;
    let mut numbers = cotangents();
    let outs = || row.sig.outs.iter().zip(&ran.results);
    let given: Vec<Value<V<f64>>> = outs().map(|(_, result)| result.map(&mut |v| drawn(v, &mut numbers))).collect();
    let want = ran.weighted(world.library.set, given.clone()).of(at)?;
    let seeds = outs().zip(&given).flat_map(|((out, result), g)| {
        let plain = |value: &Value<V<f64>>| value.map(&mut |v| Tensor::Plain(v.clone()));
        [(derive::cotangent(row, out.name.name), plain(g)), (out.name.name, plain(result))]
    });
    let extra: Vec<Named<Tensor>> = seeds.collect();
    let told = world.told((row, &solved, &args), class, rule, &extra)?;
    let Some(Value::Tensor(told)) = told.first() else { return Ok(None) };
    let V::Array(have) = world.plain(told)? else { return Ok(None) };
    let exact = operands.iter().all(|operand| operand.far.iter().all(|far| *far == 0.0));
    Ok(apart(&floats(&have), &want, "its argument", if exact { EXACT } else { COARSE }))
}

/// Describes the element at which the gradient of `of` is furthest from the derivative, if it is too far.
fn apart(have: &[f64], want: &[f64], of: &str, allowed: f64) -> Option<String> {
    if have.len() != want.len() {
        return Some(format!("has {}, {of} {}", counted(have.len(), "element", "elements"), want.len()));
    }
    let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    let apart = norm(&mut have.iter().zip(want).map(|(h, w)| h - w));
    if apart <= allowed * norm(&mut want.iter().copied()) + EXACT || apart.is_nan() {
        return None;
    }
    let far = |i: &usize| (have[*i] - want[*i]).abs();
    let i = (0..have.len()).max_by(|a, b| far(a).total_cmp(&far(b)))?;
    Some(format!("is {} at element {i}, the derivative {}", show::number(have[i]), show::number(want[i])))
}

/// The numbers from which cotangents are made. They are equal for every call.
fn cotangents() -> Numbers {
    Numbers::new(11)
}

/// Draws a cotangent of `v`. Its elements differ, because a rule that wrongly permutes or averages a cotangent is right
/// where all are equal. They have three bits, which every float holds.
fn drawn(v: &V<f64>, numbers: &mut Numbers) -> V<f64> {
    match v {
        V::Array(a) if a.dtype.is_float() => {
            let elements = (0..a.len()).map(|_| (numbers.weight() * 8.0).round() / 8.0).collect();
            V::Array(Arc::new(Array::float(a.dtype, &a.shape, elements)))
        }
        other => other.clone(),
    }
}

/// ⟨g, plain⟩, the dot product of a cotangent and a plain tensor.
fn weighted(g: &V<f64>, plain: &V<f64>) -> Option<f64> {
    let (V::Array(g), V::Array(plain)) = (g, plain) else { return None };
    Some(floats(g).iter().zip(floats(plain)).map(|(g, x)| g * x).sum())
}

/// Checks `cotangent` of a class: the plain tensor for which it stands must be the cotangent from which it is made.
pub fn of_cotangent(world: &World, class: usize) -> Option<String> {
    let Cotangent::Made(block) = &world.classes[class].cotangent else { return None };
    likes().iter().find_map(|like| {
        let operand = draw::operands(world, class, like, 1).into_iter().next()?;
        let g = Value::Tensor(Tensor::Plain(V::Array(like.clone())));
        let Value::Tensor(made) = world.of_with(&operand.made, block, &[(Name::new("g"), g)]).ok()? else {
            return None;
        };
        let V::Array(plain) = world.plain(&made).ok()? else { return None };
        let (have, want) = (floats(&plain), floats(like));
        let exact = operand.far.iter().all(|far| *far == 0.0);
        if have.len() != want.len() {
            return Some(format!(
                "has {} where the cotangent has {}",
                counted(have.len(), "element", "elements"),
                want.len()
            ));
        }
        let i = (0..have.len())
            .find(|i| (have[*i] - want[*i]).abs() > if exact { EXACT } else { COARSE } * (1.0 + want[*i].abs()))?;
        Some(format!("stands for {} where the cotangent is {}", show::number(have[i]), show::number(want[i])))
    })
}

/// Checks the cotangent that `grad: {unflatten: …}` gives a field.
pub fn of_field(world: &World, class: usize, field: Name, rule: &Block) -> Option<String> {
    let of = &world.classes[class];
    let at = of.fields().position(|name| name == field)?;
    likes().iter().take(FEW).find_map(|like| {
        let made = draw::operands(world, class, like, 1).into_iter().next()?.made;
        let Value::Tensor(Tensor::Plain(V::Array(value))) = &made.fields[at] else { return None };
        let Data::Float(x) = &value.data else { return None };
        let weights = drawn(&world.plain(&Tensor::Made(made.clone())).ok()?, &mut cotangents());
        let g = Tensor::Plain(weights.clone());
        let whole = match &of.cotangent {
            Cotangent::Made(block) => match world.of_with(&made, block, &[("g".into(), Value::Tensor(g))]).ok()? {
                Value::Tensor(whole) => whole,
                _ => return None,
            },
            Cotangent::Plain | Cotangent::Same => g,
        };
        let mut extra = vec![(Name::new("g"), Value::Tensor(whole.clone()))];
        if let Tensor::Made(whole) = &whole {
            let parts = of.fields().zip(&whole.fields).chain(of.meta().zip(&whole.meta));
            extra.extend(parts.map(|(part, value)| (subclass::part("g".into(), part), value.clone())));
        }
        let Value::Tensor(told) = world.of_with(&made, rule, &extra).ok()? else { return None };
        let V::Array(have) = world.plain(&told).ok()? else { return None };
        let want: Vec<f64> = (0..x.len()).map(|e| difference(world, &made, at, e, &weights)).collect::<Option<_>>()?;
        apart(&floats(&have), &want, "the field", OF_STEP)
    })
}

/// Checks the gradient of a row that makes tensors of the class, for its first argument.
pub fn of_maker(world: &World, class: usize, row: &Arc<Row>, rule: &Block) -> Option<String> {
    likes().iter().take(FEW).find_map(|like| {
        let args = draw::calls(row, like).into_iter().find(|args| plain_of(world, row, args).is_some())?;
        let solved = signature::solve(row, &args, &Tensor::ty).ok()?;
        let weights = drawn(&V::Array(plain_of(world, row, &args)?), &mut cotangents());
        let g = Value::Tensor(Tensor::Plain(weights.clone()));
        let told = world.told((row, &solved, &args), class, rule, &[(Name::new("g"), g)]).ok()?;
        let Some(Value::Tensor(Tensor::Plain(V::Array(have)))) = told.first() else { return None };
        let sum = |e: usize, step: f64| -> Option<f64> {
            let mut args = args.clone();
            args[0] = Value::Tensor(Tensor::Plain(meaning::moved(like, e, step)));
            weighted(&weights, &V::Array(plain_of(world, row, &args)?))
        };
        let slope = |e: usize| Some(rounded((sum(e, STEP)? - sum(e, -STEP)?) / (2.0 * STEP)));
        let want: Vec<f64> = (0..like.len()).map(slope).collect::<Option<_>>()?;
        apart(&floats(have), &want, "its argument", OF_STEP)
    })
}

/// The plain tensor for which the result of a row stands.
fn plain_of(world: &World, row: &Row, args: &[Value<Tensor>]) -> Option<Arc<Array<f64>>> {
    let solved = signature::solve(row, args, &Tensor::ty).ok()?;
    let results = world.run(row, &solved, args).ok()?;
    let Some(Value::Tensor(made)) = results.first() else { return None };
    match world.plain(made).ok()? {
        V::Array(plain) => Some(plain),
        V::Key(_) => None,
    }
}

/// The derivative of ⟨g, plain⟩ with respect to an element of a field, by a difference quotient.
fn difference(world: &World, made: &Made, field: usize, element: usize, g: &V<f64>) -> Option<f64> {
    let sum = |step: f64| -> Option<f64> {
        let mut parts: Vec<Value<Tensor>> = made.fields.iter().chain(&made.meta).cloned().collect();
        let Value::Tensor(Tensor::Plain(V::Array(value))) = &parts[field] else { return None };
        parts[field] = Value::Tensor(Tensor::Plain(meaning::moved(value, element, step)));
        let whole = world.make(made.class, parts).ok()?;
        weighted(g, &world.plain(&Tensor::Made(whole)).ok()?)
    };
    Some(rounded((sum(STEP)? - sum(-STEP)?) / (2.0 * STEP)))
}

/// Rounds a difference quotient to the digits that it has.
fn rounded(x: f64) -> f64 {
    (x * 1e6).round() / 1e6
}
