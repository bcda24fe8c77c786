//! Instances: a call of a row with data, its derivative in a direction, and its rules' values there.

use fulgurite_core::eval::nest::{Array, Data, Field};
use fulgurite_core::lang::{Block, Elem};
use fulgurite_core::row::Row;
use fulgurite_core::sig::{ArgTy, Size};
use fulgurite_core::{DType, Name, Value};
use std::sync::Arc;

use super::dense::{Dense, Library, Stop, V};
use super::dual::{Dual, Probe};
use crate::check::cases::Case;

/// A fixed sequence of numbers in 0..1.
#[derive(Clone, Copy, Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    /// The next one (splitmix64).
    pub fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// What elements are drawn from.
#[derive(Clone, Debug)]
pub struct Domain {
    /// Per argument, an interval for its elements.
    pub intervals: Vec<(Name, (f64, f64))>,
    /// For all others.
    pub other: (f64, f64),
    /// Whole numbers only: ties, and points at kinks.
    pub whole: bool,
}

/// A call with data in f64.
pub struct Instance<'a> {
    /// The row.
    pub row: &'a Row,
    /// The call.
    pub case: &'a Case,
    /// One value per argument and option.
    pub args: Vec<Value<V<f64>>>,
    /// Results, then auxiliary results.
    pub results: Vec<Value<V<f64>>>,
}

type Grad = Vec<Vec<f64>>;

impl<'a> Instance<'a> {
    /// Data for `case`; indices are below `most`, or below what keeps them in range. `None` where the row has no value
    /// on any data that were tried.
    pub fn new(
        library: &Library<'_>,
        row: &'a Row,
        case: &'a Case,
        domain: &Domain,
        seed: u64,
        mut most: i64,
    ) -> Option<Instance<'a>> {
        loop {
            let mut numbers = Numbers::new(seed);
            let args: Vec<Value<V<f64>>> = row
                .sig
                .params
                .iter()
                .map(Some)
                .chain(std::iter::repeat(None))
                .zip(&case.args)
                .map(|(param, arg)| {
                    let name = param.map(|p| p.name.name);
                    let index = param.is_some_and(|p| p.ty.elem.contains(&Elem::Index));
                    fill(arg, name, index, most, domain, &mut numbers)
                })
                .collect();
            match Dense::new(library).meaning(row, &case.solved, &args) {
                Ok(results) => return Some(Instance { row, case, args, results }),
                Err(Stop::Data(_)) if most > 1 => most -= 1,
                Err(_) => return None,
            }
        }
    }

    /// Whether a result is not a number: the data lie outside the domain.
    pub fn has_nan(&self) -> bool {
        let mut found = false;
        for r in &self.results {
            r.for_each(&mut |v| {
                if let V::Array(a) = v
                    && let Data::Float(x) = &a.data
                {
                    found |= x.iter().any(|x| !x.is_finite());
                }
            });
        }
        found
    }

    /// The arguments in another field.
    pub fn lift<F: Field>(&self, f: &dyn Fn(usize, usize, usize, f64) -> F) -> Vec<Value<V<F>>> {
        self.args
            .iter()
            .enumerate()
            .map(|(p, v)| {
                let mut item = 0;
                v.map(&mut |v| {
                    let lifted = match v {
                        V::Key(k) => V::Key(*k),
                        V::Array(a) => V::Array(Arc::new(Array {
                            dtype: a.dtype,
                            shape: a.shape.clone(),
                            data: match &a.data {
                                Data::Float(x) => {
                                    Data::Float(x.iter().enumerate().map(|(e, x)| f(p, item, e, *x)).collect())
                                }
                                Data::Int(x) => Data::Int(x.clone()),
                            },
                        })),
                    };
                    item += 1;
                    lifted
                })
            })
            .collect()
    }

    /// Numbers in the shape of every float result.
    pub fn cotangents(&self, numbers: &mut Numbers) -> Vec<Value<V<f64>>> {
        let outs = self.row.sig.outs.len();
        let mut draw = |v: &V<f64>| match v {
            V::Key(k) => V::Key(*k),
            V::Array(a) => {
                let x = (0..a.len()).map(|_| 2.0 * numbers.next() - 1.0).collect();
                V::Array(Arc::new(Array::float(a.dtype, &a.shape, x)))
            }
        };
        self.results.iter().take(outs).map(|r| if floats(r) { r.map(&mut draw) } else { Value::Absent }).collect()
    }

    /// What a rule may read besides arguments and options.
    pub fn names(&self, cotangents: &[Value<V<f64>>]) -> Vec<(Name, Value<V<f64>>)> {
        let sig = &self.row.sig;
        let mut names: Vec<(Name, Value<V<f64>>)> =
            sig.outs.iter().chain(&sig.aux).zip(&self.results).map(|(o, v)| (o.name.name, v.clone())).collect();
        for (o, g) in sig.outs.iter().zip(cotangents) {
            names.push((fulgurite_core::derive::cotangent(self.row, o.name.name), g.clone()));
        }
        if let ([o], Some(v)) = (sig.outs.as_slice(), self.results.first())
            && o.name.name != "out"
        {
            names.push((Name::new("out"), v.clone()));
        }
        names
    }

    /// The value of a VJP rule: one list of numbers per tensor of the argument. `None`: zero.
    ///
    /// # Errors
    /// What the rule's calls refuse.
    pub fn rule(
        &self,
        library: &Library<'_>,
        rule: &Block,
        cotangents: &[Value<V<f64>>],
    ) -> Result<Option<Grad>, Stop> {
        let names = self.names(cotangents);
        let values = Dense::new(library).rule(self.row, rule, &self.case.solved, &self.args, &names)?;
        let value = match values.as_slice() {
            [one] => one.clone(),
            several => Value::List(several.to_vec()),
        };
        if value.is_absent() {
            return Ok(None);
        }
        Ok(Some(elements(&value)))
    }

    /// ⟨g, J u⟩ where `u` says how much each element of argument `at` moves.
    ///
    /// # Errors
    /// What the meaning's calls refuse.
    pub fn along(
        &self,
        library: &Library<'_>,
        at: usize,
        u: &dyn Fn(usize, usize) -> f64,
        cotangents: &[Value<V<f64>>],
    ) -> Result<f64, Stop> {
        let args = self.lift(&|p, item, e, value| Dual { value, slope: if p == at { u(item, e) } else { 0.0 } });
        let results = Dense::new(library).meaning(self.row, &self.case.solved, &args)?;
        let mut sum = 0.0;
        for (r, g) in results.iter().zip(cotangents) {
            let weights: Vec<f64> = elements(g).concat();
            let mut i = 0;
            r.for_each(&mut |v| {
                if let V::Array(a) = v
                    && let Data::Float(x) = &a.data
                {
                    for x in x {
                        sum += weights.get(i).copied().unwrap_or(0.0) * x.slope;
                        i += 1;
                    }
                }
            });
        }
        Ok(sum)
    }

    /// ⟨g, (f(x + h u) - f(x - h u)) / 2h⟩
    ///
    /// # Errors
    /// What the meaning's calls refuse.
    pub fn central(
        &self,
        library: &Library<'_>,
        at: usize,
        u: &dyn Fn(usize, usize) -> f64,
        cotangents: &[Value<V<f64>>],
    ) -> Result<f64, Stop> {
        const H: f64 = 6e-6;
        let side = |h: f64| -> Result<f64, Stop> {
            let args = self.lift(&|p, item, e, x| if p == at { x + h * u(item, e) * x.abs().max(1.0) } else { x });
            let results = Dense::new(library).meaning(self.row, &self.case.solved, &args)?;
            let pairs = results.iter().zip(cotangents);
            Ok(pairs.map(|(r, g)| dot(&elements(r).concat(), &elements(g).concat())).sum())
        };
        let scale = match elements(&self.args[at]).concat().as_slice() {
            [x] => x.abs().max(1.0),
            _ => 1.0,
        };
        Ok((side(H)? - side(-H)?) / (2.0 * H * scale))
    }

    /// Whether a result depends on a value that is detached.
    ///
    /// # Errors
    /// What the meaning's calls refuse.
    pub fn leaks(&self, library: &Library<'_>) -> Result<bool, Stop> {
        let args = self.lift(&|_, _, _, x| Probe::constant(x));
        let results = Dense::new(library).meaning(self.row, &self.case.solved, &args)?;
        let mut leak = false;
        for r in results.iter().take(self.row.sig.outs.len()) {
            r.for_each(&mut |v| {
                if let V::Array(a) = v
                    && let Data::Float(x) = &a.data
                {
                    leak |= x.iter().any(|x| x.0.slope.abs() > 1e-9 * (1.0 + x.0.value.abs()));
                }
            });
        }
        Ok(leak)
    }
}

/// The float elements of a value, tensor by tensor.
pub fn elements(v: &Value<V<f64>>) -> Grad {
    let mut out = Vec::new();
    v.for_each(&mut |v| {
        if let V::Array(a) = v {
            out.push(match &a.data {
                Data::Float(x) => x.clone(),
                Data::Int(x) => x.iter().map(|x| *x as f64).collect(),
            });
        }
    });
    out
}

/// The sum of products; what one side lacks counts as nothing.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn floats(v: &Value<V<f64>>) -> bool {
    let mut float = false;
    v.for_each(&mut |v| float |= matches!(v, V::Array(a) if a.dtype.is_float()));
    float
}

/// The smallest and largest size of a call: what indices may be below.
pub fn sizes(case: &Case) -> (i64, i64) {
    let sizes: Vec<i64> = case
        .solved
        .env
        .sizes
        .iter()
        .flat_map(|(_, s)| match s {
            Size::One(d) => vec![d.value()],
            Size::List(l) => l.iter().map(|d| d.value()).collect(),
            Size::Each(l) => l.iter().map(|d| d.value()).collect(),
            Size::EachList(_) => vec![],
        })
        .collect();
    let least = sizes.iter().copied().filter(|n| *n > 0).min().unwrap_or(1);
    (least, sizes.into_iter().max().unwrap_or(1).clamp(1, 12))
}

fn fill(
    arg: &Value<ArgTy>,
    name: Option<Name>,
    index: bool,
    most: i64,
    domain: &Domain,
    numbers: &mut Numbers,
) -> Value<V<f64>> {
    let own = domain.intervals.iter().find(|(n, _)| Some(*n) == name).map(|(_, i)| *i);
    let (lo, hi) = own.unwrap_or(domain.other);
    arg.map(&mut |t| match t {
        ArgTy::Key => V::Key([7, 11]),
        ArgTy::Number(_) => V::Key([0, 0]),
        ArgTy::Tensor(t) => {
            let shape: Vec<usize> = t.sizes().to_vec();
            let n: usize = shape.iter().product();
            let mut draw = || lo + (hi - lo) * numbers.next();
            V::Array(Arc::new(match t.dtype {
                d if d.is_float() => {
                    let x = (0..n).map(|_| if domain.whole { draw().round() } else { draw() }).collect();
                    Array::float(d, &shape, x)
                }
                DType::Bool => Array::int(t.dtype, &shape, (0..n).map(|_| i64::from(numbers.next() < 0.5)).collect()),
                d => {
                    let top = if index { most } else { 3 };
                    Array::int(d, &shape, (0..n).map(|_| (numbers.next() * top as f64) as i64).collect())
                }
            }))
        }
    })
}
