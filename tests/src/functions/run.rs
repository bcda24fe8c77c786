//! Running a function on handles, at once or while it is traced.

use super::{Arg, Function, How, Region, Step, View};
use crate::bridge;
use fulgurite::ops::Slice;
use fulgurite::prelude::*;
use fulgurite::{Error, Key, api};
use fulgurite_core::eval::nest::{Array, Data};
use fulgurite_core::loc::Loc;
use fulgurite_core::{DType, Value};

/// The values of a function as they come up.
struct Values {
    all: Vec<Tensor>,
    key: Key,
    child: Key,
}

impl Function {
    /// What it gives for these arguments, and what it does to them and to the captured tensors.
    ///
    /// # Errors
    /// The first one that an operator reports.
    pub fn run(&self, args: &[Tensor], captured: &[Tensor], key: &Key) -> Result<Vec<Tensor>, Error> {
        let all = args.iter().chain(captured).cloned().collect();
        let mut values = Values { all, key: key.clone(), child: key.clone() };
        for step in &self.steps {
            values.step(step)?;
        }
        self.outputs.iter().map(|at| values.get(*at).cloned()).collect()
    }
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
            Step::Call { row, args, region } => {
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
                let call = || api::call(symbol, handles, Loc::NOWHERE);
                let outs = match region {
                    Region::Plain => call(),
                    Region::Checkpoint => checkpoint(call),
                    Region::NoGrad => no_grad(call),
                    Region::Named => named("part", call),
                }?;
                self.all.extend(outs);
            }
            Step::Made(a) => self.all.push(Tensor::from_buffer(bridge::buffer(a))),
            Step::View(of, view) => {
                let made = take(self.get(*of)?, *view);
                made.check()?;
                self.all.push(made);
            }
            Step::Write(to, how, from) => {
                let to = self.get(*to)?.clone();
                let sizes: Vec<usize> = to.dims_vec();
                let like = Array::float(DType::F64, &sizes, vec![]);
                let value = fit(self.get(*from)?, &like, -1.5, 1.5)?;
                match how {
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
            Arg::Made(a) => Ok(Tensor::from_buffer(bridge::buffer(a))),
            Arg::Value(at, like) => {
                let (low, high) = range(like);
                fit(self.get(*at)?, like, low, high)
            }
            Arg::Number(d, s) => Ok(bridge::tensor(&crate::oracle::Operand::Number(*d, *s))),
            Arg::Key(child) => Ok(if *child { &self.child } else { &self.key }.handle().clone()),
        }
    }
}

/// The least and the largest element.
fn range(a: &Array<f64>) -> (f64, f64) {
    match &a.data {
        Data::Float(v) => v.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(*x), h.max(*x))),
        Data::Int(_) => (0.0, 1.0),
    }
}

/// The elements of `x` over and over in the shape of `like`, a little moved, smoothly between `low` and `high`.
fn fit(x: &Tensor, like: &Array<f64>, low: f64, high: f64) -> Result<Tensor, Error> {
    let (have, want) = (x.numel().value(), like.shape.iter().product::<usize>() as i64);
    let places: Vec<i64> = (0..want).map(|i| i % have.max(1)).collect();
    // no two elements are the same: what a row makes of constants, variances of 0, is another matter
    let apart: Vec<f64> = (0..want).map(|i| 0.3 * (i as f64 * 1.7).sin()).collect();
    let flat = x.reshape(-1).index_select(&Tensor::from(places), 0) + Tensor::from(apart);
    let fits = (flat.sigmoid() * (high - low) + low).reshape(like.shape.iter().map(|n| *n as i64).collect::<Vec<_>>());
    fits.check()?;
    Ok(fits)
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
