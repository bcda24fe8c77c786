//! Runs a function on handles, eagerly or while it is traced.

use super::{Arg, Function, How, Region, Step, View};
use crate::rng::Rng;
use crate::{bound, bridge};
use fulgurite::ops::Slice;
use fulgurite::prelude::*;
use fulgurite::symbol::{Port, SymbolRef};
use fulgurite::{Error, Key, api, subclass};
use fulgurite_core::eval::loop_nest::Array;
use fulgurite_core::loc::Loc;
use fulgurite_core::{DType, Value};
use std::cell::RefCell;

/// The values of a function during a run.
struct Values {
    all: Vec<Tensor>,
    key: Key,
    child: Key,
    near: Nudge,
}

impl Function {
    /// Runs the function: returns its results for these arguments, and writes to the arguments and captured tensors.
    ///
    /// # Errors
    /// The first error of an operator.
    pub fn run(&self, args: &[Tensor], captured: &[Tensor], key: &Key) -> Result<Vec<Tensor>, Error> {
        let all = args.iter().chain(captured).cloned().collect();
        let dice = (self.nudge > 0).then(|| RefCell::new(Rng::new(self.nudge)));
        let near = Nudge { by: 2.0 * bound::unit(self.coarsest), dice };
        let mut values = Values { all, key: key.clone(), child: key.clone(), near };
        for step in &self.steps {
            values.step(step)?;
        }
        self.outputs.iter().map(|at| values.get(*at).cloned()).collect()
    }
}

/// A call as a function of its tensors, keys and run-time numbers.
#[derive(Clone)]
struct Call {
    symbol: SymbolRef,
    /// The call's arguments, with the index of each operand in its place.
    form: Vec<Value<usize>>,
    /// Whether each operand is a float tensor.
    floats: Vec<bool>,
    /// Whether each operand is a tensor.
    tensors: Vec<bool>,
}

impl Call {
    fn within(&self, regions: &[Region], all: &[Tensor]) -> Result<Vec<Tensor>, Error> {
        let Some((outer, inner)) = regions.split_first() else {
            let args = self.form.iter().map(|a| a.map(&mut |at: &usize| all[*at].clone())).collect();
            return api::call(self.symbol, args, Loc::NOWHERE);
        };
        let call = || self.within(inner, all);
        match outer {
            Region::Checkpoint => checkpoint(call),
            Region::NoGrad => no_grad(call),
            Region::Named => named("part", call),
            Region::Jit => {
                let (own, inner) = (self.clone(), inner.to_vec());
                jit(move |all: Vec<Tensor>| poisoned(own.within(&inner, &all))).call(all.to_vec())
            }
            Region::Gradient => {
                let sum = |by: &Vec<Tensor>| Ok::<_, Error>(weighted(&self.at(by, inner, all)?));
                Ok(try_value_and_grad(&self.chosen(all), sum)?.1)
            }
            Region::Custom => checked(self.custom(inner, all, 1.0)),
            Region::Doubled => checked(self.custom(inner, all, 2.0)),
            Region::Replicated => whole(self.within(inner, &self.placed(all, 2, false))?),
            Region::Autocast => autocast(DType::BF16, call),
            // A batch without tensors has no size.
            Region::Batched if !self.tensors.contains(&true) => call(),
            Region::Batched => {
                let tensors = |all: &[Tensor], f: &mut dyn FnMut(&Tensor) -> Tensor| -> Vec<Tensor> {
                    let one = |(x, tensor): (&Tensor, &bool)| if *tensor { f(x) } else { x.clone() };
                    all.iter().zip(&self.tensors).map(one).collect()
                };
                let batch: Vec<Tensor> = tensors(all, &mut |x| x.unsqueeze(0));
                let chosen: Vec<Tensor> =
                    batch.iter().zip(&self.tensors).filter(|(_, tensor)| **tensor).map(|(x, _)| x.clone()).collect();
                let outs = vmap(&chosen, |slices: &Vec<Tensor>| {
                    let mut slices = slices.iter();
                    poisoned(self.within(inner, &tensors(all, &mut |x| slices.next().unwrap_or(x).clone())))
                })?;
                checked(outs.iter().map(|out| out.select(0, 0)).collect())
            }
            Region::Chosen => {
                let holds = Tensor::scalar(1.0f64).gt(0.0);
                checked(cond(&holds, || poisoned(self.within(inner, all)), || poisoned(self.within(inner, all)))?)
            }
            Region::Scanned => {
                let last = |outs: Vec<Tensor>| outs.iter().map(|out| out.select(0, -1)).collect();
                let carries = self.chosen(all);
                let (_, outs) = scan_n(2, carries, |by: Vec<Tensor>| {
                    let outs = poisoned(self.at(&by, inner, all));
                    (by, outs)
                })?;
                checked(last(outs))
            }
            Region::Looped => {
                let first = (Tensor::scalar(0i64), self.within(inner, all)?);
                let next = |(n, _): (Tensor, Vec<Tensor>)| (n + 1, poisoned(self.within(inner, all)));
                checked(while_loop(Some(2), first, |(n, _)| n.lt(1), next)?.1)
            }
            Region::Masked => {
                let mut all = all.to_vec();
                if let Some(at) = self.floats.iter().position(|float| *float) {
                    all[at] = masked(&all[at])?;
                }
                whole(self.within(inner, &all)?)
            }
            Region::Sharded => {
                let first = |x: &Tensor| x.shape().first().map_or(0, |d| d.value());
                let ranks = all.iter().zip(&self.tensors).filter(|(_, t)| **t).map(|(x, _)| first(x)).max();
                let ranks = ranks.filter(|ranks| *ranks > 1).unwrap_or(2);
                whole(self.within(inner, &self.placed(all, ranks, true))?)
            }
        }
    }

    /// The tensors on a mesh: sharded along the first axis, if `pieces` asks for it and the axis has one element per
    /// rank; else replicated.
    fn placed(&self, all: &[Tensor], ranks: i64, pieces: bool) -> Vec<Tensor> {
        let one =
            |(x, tensor): (&Tensor, &bool)| match (tensor, pieces && x.shape().first().is_some_and(|n| n.is(ranks))) {
                (false, _) => x.clone(),
                (true, true) => x.shard(ranks),
                (true, false) => x.replicate(ranks),
            };
        all.iter().zip(&self.tensors).map(one).collect()
    }

    /// The tensors with respect to which gradients are taken.
    fn chosen(&self, all: &[Tensor]) -> Vec<Tensor> {
        all.iter().zip(&self.floats).filter(|(_, float)| **float).map(|(x, _)| x.clone()).collect()
    }

    /// The call with a custom backward, which is `times` times the derivative of the call. The backward captures the
    /// arguments that have no cotangent, and the key.
    fn custom(&self, regions: &[Region], all: &[Tensor], times: f64) -> Vec<Tensor> {
        let run = |by: &Vec<Tensor>| poisoned(self.at(by, regions, all));
        let floats = |outs: &[Tensor]| outs.iter().filter(|t| t.dtype().is_float()).cloned().collect::<Vec<_>>();
        let backward =
            |by: Vec<Tensor>, cotangents: &Vec<Tensor>| match vjp(&by, &floats(cotangents), |by| floats(&run(by))) {
                Ok((_, grads)) if times == 1.0 => grads,
                Ok((_, grads)) => grads.iter().map(|grad| grad * times).collect(),
                Err(e) => vec![Tensor::poisoned(e); by.len()],
            };
        custom_vjp(&self.chosen(all), |by| (run(by), by.clone()), backward)
    }

    /// The call with other tensors in place of the float ones.
    fn at(&self, by: &[Tensor], regions: &[Region], all: &[Tensor]) -> Result<Vec<Tensor>, Error> {
        let mut by = by.iter();
        let chosen = |(x, float): (&Tensor, &bool)| if *float { by.next().unwrap_or(x) } else { x }.clone();
        let all: Vec<Tensor> = all.iter().zip(&self.floats).map(chosen).collect();
        self.within(regions, &all)
    }
}

/// The weighted sum of all float results.
pub(super) fn weighted(outs: &[Tensor]) -> Tensor {
    let one = |out: &Tensor| {
        let n = out.numel().value();
        let weights: Vec<f64> = (0..n).map(|i| 1.0 + (i as f64 * 0.7).sin()).collect();
        (as_dtype(&out.reshape(-1), DType::F64) * Tensor::from(weights)).sum()
    };
    let floats = outs.iter().filter(|t| t.dtype().is_float());
    floats.fold(Tensor::scalar(0.0f64), |sum, out| sum + one(out))
}

/// The tensor cast to another dtype, or itself.
fn as_dtype(x: &Tensor, dtype: DType) -> Tensor {
    if x.dtype() == dtype { x.clone() } else { x.cast(dtype) }
}

/// The tensors, or the error of one that is poisoned.
fn checked(outs: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
    outs.iter().try_for_each(Tensor::check)?;
    Ok(outs)
}

/// The tensor with every third element masked out.
fn masked(x: &Tensor) -> Result<Tensor, Error> {
    let shape = x.dims_vec();
    let shown = (0..shape.iter().product()).map(|i: usize| f64::from(u8::from(i % 3 != 2))).collect();
    let mask = Tensor::from_buffer(bridge::buffer(&Array::float(DType::F64, &shape, shown))).ne(0.0);
    let make = subclass::named("MaskedTensor")?.port(Port::Unflatten);
    let made = api::call(make, vec![Value::Tensor(x.clone()), Value::Tensor(mask)], Loc::NOWHERE)?;
    made.into_iter().next().ok_or_else(|| Error::new("E706", "a mask makes no tensor"))
}

/// The plain tensors that these stand for.
fn whole(outs: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
    checked(outs.iter().map(Subclassed::plain).collect())
}

/// A list of tensors, or one tensor that carries the error.
pub(super) fn poisoned(outs: Result<Vec<Tensor>, Error>) -> Vec<Tensor> {
    outs.unwrap_or_else(|e| vec![Tensor::poisoned(e)])
}

impl Values {
    fn get(&self, at: usize) -> Result<&Tensor, Error> {
        let lost = || Error::new("E744", format!("there is no value {at}"));
        let value = self.all.get(at).ok_or_else(lost)?;
        value.check()?;
        Ok(value)
    }

    fn step(&mut self, step: &Step) -> Result<(), Error> {
        match step {
            Step::Call { row, args, regions } => {
                let symbol = bridge::symbol(*row).map_err(|e| Error::new(e.code, e.text))?;
                let mut failed = Ok(());
                let handles: Vec<Value<Tensor>> = args
                    .iter()
                    .map(|a| {
                        a.map(&mut |arg| {
                            self.argument(arg).unwrap_or_else(|e| {
                                failed = Err(e.clone());
                                Tensor::poisoned(e)
                            })
                        })
                    })
                    .collect();
                failed?;
                let (mut leaves, mut floats, mut tensors) = (Vec::new(), Vec::new(), Vec::new());
                handles.iter().for_each(|h| h.for_each(&mut |t| leaves.push(t.clone())));
                args.iter().for_each(|a| a.for_each(&mut |arg| floats.push(arg.float().is_some())));
                let is_tensor = |arg: &Arg| matches!(arg, Arg::Made(_) | Arg::Value(..));
                args.iter().for_each(|a| a.for_each(&mut |arg| tensors.push(is_tensor(arg))));
                let mut at = 0..;
                let form = args.iter().map(|a| a.map(&mut |_| at.next().unwrap_or(0))).collect();
                let call = Call { symbol, form, floats, tensors };
                self.all.extend(call.within(regions, &leaves)?);
            }
            Step::Made(a) => self.all.push(Tensor::from_buffer(bridge::buffer(a))),
            Step::View(of, view) => {
                let made = take(self.get(*of)?, *view);
                made.check()?;
                self.all.push(made);
            }
            Step::Write(to, how, from) => {
                let to = self.get(*to)?.clone();
                let dtype = to.dtype();
                let like = Like { dtype, shape: to.dims_vec(), low: -1.5, high: 1.5 };
                let value = self.near.fit(self.get(*from)?, &like)?;
                match how {
                    // Truth values are neither added nor multiplied in place.
                    _ if dtype == DType::Bool => to.copy_(&value),
                    How::Add => to.add_(&value),
                    How::Mul => to.mul_(&value),
                    How::Copy => to.copy_(&value),
                }
                .check()?;
            }
            Step::NextKey => self.child = self.key.next(),
        }
        Ok(())
    }

    fn argument(&self, arg: &Arg) -> Result<Tensor, Error> {
        match arg {
            Arg::Made(a) => {
                let made = Tensor::from_buffer(bridge::buffer(a));
                Ok(if a.dtype.is_float() { self.near.moved(&made, &a.shape) } else { made })
            }
            Arg::Value(at, like) => self.near.fit(self.get(*at)?, &Like::of(like)),
            Arg::Number(d, s) => Ok(bridge::tensor(&crate::oracle::Operand::Number(*d, *s))),
            Arg::Key(child) => Ok(if *child { &self.child } else { &self.key }.handle().clone()),
        }
    }
}

/// The type and the interval that a value is fitted to.
struct Like {
    dtype: DType,
    shape: Vec<usize>,
    low: f64,
    high: f64,
}

impl Like {
    /// The type of an array, with the interval from its least to its largest element.
    fn of(a: &Array<f64>) -> Like {
        let numbers = a.scalars();
        let bounds = |(low, high): (f64, f64), x: f64| (low.min(x), high.max(x));
        let (low, high) = numbers.iter().map(|x| x.as_f64()).fold((f64::INFINITY, f64::NEG_INFINITY), bounds);
        // Integers refuse division by 0; an argument that counts from 0 on has no negative numbers.
        let low = if a.dtype.is_int() && low < 0.0 && high >= 1.0 { 1.0 } else { low };
        Like { dtype: a.dtype, shape: a.shape.clone(), low, high }
    }
}

/// The size of the moves of values that steps use, if there are any.
struct Nudge {
    by: f64,
    dice: Option<RefCell<Rng>>,
}

impl Nudge {
    /// The elements of `x`, repeated in the shape and dtype of `like`, slightly moved, within its bounds. The map is
    /// smooth for floats.
    fn fit(&self, x: &Tensor, like: &Like) -> Result<Tensor, Error> {
        let (have, want) = (x.numel().value(), like.shape.iter().product::<usize>());
        let places: Vec<i64> = (0..want as i64).map(|i| i % have.max(1)).collect();
        let flat = x.reshape(-1).index_select(&Tensor::from(places), 0);
        let fits = match (x.dtype().is_float(), like.dtype) {
            (true, DType::Bool) => self.moved(&flat, &[want]).gt(0.3),
            (false, DType::Bool) => as_dtype(&flat, DType::Bool),
            (true, to) if to.is_float() => self.between(&as_dtype(&flat, to), want, like.low, like.high),
            // The upper end covers the interval of the largest integer almost completely.
            (true, to) => self.between(&flat, want, like.low, like.high + 0.9).floor().cast(to),
            (false, to) if to.is_float() => self.between(&flat.cast(to), want, like.low, like.high),
            (false, to) => {
                let (low, high) = (like.low as i64, like.high as i64);
                (as_dtype(&flat, DType::I64).remainder(high - low + 1) + low).cast(to)
            }
        };
        let fits = fits.reshape(like.shape.iter().map(|n| *n as i64).collect::<Vec<_>>());
        fits.check()?;
        Ok(fits)
    }

    /// Maps floats smoothly into an interval.
    fn between(&self, flat: &Tensor, count: usize, low: f64, high: f64) -> Tensor {
        // No two elements are equal: rows on constants (a variance of 0) are tested elsewhere.
        let apart: Vec<f64> = (0..count).map(|i| 0.3 * (i as f64 * 1.7).sin()).collect();
        let apart = as_dtype(&Tensor::from(apart), flat.dtype());
        // Rounding is relative to the width of the interval: near 0, the difference of its ends would have none.
        let fits = self.moved(&(flat + apart).sigmoid(), &[count]) * (high - low) + low;
        // Rounding is also relative to the number: a move that is small beside the lower bound is lost when that is
        // added. A single number is moved only where it is unlikely to be a bound of a function.
        match self.dice.is_some() {
            true if low == high && low.fract() != 0.0 => self.moved(&fits, &[count]),
            true => self.moved(&fits, &[count]).clamp(low, high),
            false => fits,
        }
    }

    /// Floats of this shape, moved up or down by some roundings.
    fn moved(&self, x: &Tensor, shape: &[usize]) -> Tensor {
        let Some(dice) = &self.dice else { return x.clone() };
        let mut dice = dice.borrow_mut();
        let factors = (0..shape.iter().product()).map(|_| 1.0 + self.by * dice.int(-1, 1) as f64).collect();
        x * Tensor::from_buffer(bridge::buffer(&Array::float(DType::F64, shape, factors))).cast(x.dtype())
    }
}

fn take(x: &Tensor, view: View) -> Tensor {
    let first = x.shape().first().map_or(0, |d| d.value());
    match view {
        View::Same => x.clone(),
        View::Select(i) if first > 0 => x.select(0, (i as i64) % first),
        View::Slice if first > 1 => x.slice_with(Slice { start: 1.into(), ..d() }),
        View::Transposed => x.permute((0..x.rank() as i64).rev().collect::<Vec<_>>()),
        View::Flat => x.reshape(-1),
        View::Strided if x.numel().value() > 1 => {
            let n = x.numel().value();
            x.as_strided([(n + 1) / 2], [2])
        }
        _ => x.clone(),
    }
}

/// Sizes as numbers.
trait Sizes {
    fn dims_vec(&self) -> Vec<usize>;
}

impl Sizes for Tensor {
    fn dims_vec(&self) -> Vec<usize> {
        self.shape().iter().map(|d| d.value().max(0) as usize).collect()
    }
}
