//! Instances: a call of a row with data, its derivative in a direction, and its rules' values there.

use fulgurite_core::eval::nest::{Array, Data, Field};
use fulgurite_core::lang::Block;
use fulgurite_core::row::Row;
use fulgurite_core::sig::Refusal;
use fulgurite_core::{Name, Scalar, Value, counted};
use std::sync::Arc;

use super::dense::{Dense, Library, Stop, V};
use super::dual::{Dual, Probe};
use super::numbers::Numbers;
use crate::check::cases::Case;

/// A call with data in f64.
#[derive(Clone)]
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

impl Instance<'_> {
    /// Whether every float result is a number: the data lie inside the domain.
    pub fn is_finite(&self) -> bool {
        self.results.iter().all(|r| elements(r).iter().flatten().all(|x| x.is_finite()))
    }

    /// The same call where each float moves by what `by` says of its argument, its place in it, and itself. Where no two
    /// move by the same, no tie is left.
    pub fn moved(&self, by: &dyn Fn(usize, usize, f64) -> f64, library: &Library<'_>) -> Option<Self> {
        self.with(&|p, e, x| x + by(p, e, x), library)
    }

    /// The same call where each float is what `of` says of its argument, its place in it, and itself.
    pub fn with(&self, of: &dyn Fn(usize, usize, f64) -> f64, library: &Library<'_>) -> Option<Self> {
        let args = self.lift(&|p, e, x| of(p, e, x));
        let results = Dense::new(library).meaning(self.row, &self.case.solved, &args).ok()?;
        Some(Instance { row: self.row, case: self.case, args, results })
    }

    /// Elements of all arguments.
    pub fn numel(&self) -> usize {
        self.args.iter().flat_map(elements).map(|e| e.len()).sum()
    }

    /// Elements of argument `at`.
    pub fn numel_of(&self, at: usize) -> usize {
        elements(&self.args[at]).iter().map(Vec::len).sum()
    }

    /// The arguments in another field: `f` of argument, position among its elements, value.
    pub fn lift<F: Field>(&self, f: &dyn Fn(usize, usize, f64) -> F) -> Vec<Value<V<F>>> {
        let lift = |(p, v): (usize, &Value<V<f64>>)| {
            let mut next = 0;
            lifted(v, &mut |x| {
                next += 1;
                f(p, next - 1, x)
            })
        };
        self.args.iter().enumerate().map(lift).collect()
    }

    /// A cotangent for every float result.
    pub fn cotangents(&self, numbers: &mut Numbers) -> Vec<Value<V<f64>>> {
        let outs = self.row.sig.outs.len();
        let results = self.results.iter().take(outs);
        results.map(|r| if has_floats(r) { weights(r, numbers) } else { Value::Absent }).collect()
    }

    /// A tangent for argument `at`.
    pub fn tangent(&self, at: usize, numbers: &mut Numbers) -> Value<V<f64>> {
        weights(&self.args[at], numbers)
    }

    /// The value of a VJP rule for argument `at`: one number per element. What is absent is zero.
    ///
    /// # Errors
    /// What the rule's calls refuse.
    pub fn vjp(
        &self,
        library: &Library<'_>,
        rule: &Block,
        at: usize,
        cotangents: &[Value<V<f64>>],
    ) -> Result<Vec<f64>, Stop> {
        let mut names = named(self.row, &self.results);
        for (o, g) in self.row.sig.outs.iter().zip(cotangents) {
            names.push((fulgurite_core::derive::cotangent(self.row, o.name.name), g.clone()));
        }
        let values = Dense::new(library).rule(self.row, rule, &self.case.solved, &self.args, &names)?;
        let like = elements(&self.args[at]);
        // of a list argument: a list, or several values
        let items = match values.as_slice() {
            [Value::List(items)] => items.clone(),
            several => several.to_vec(),
        };
        Ok(aligned(&items, &like))
    }

    /// The value of a JVP rule: one number per element of every float result.
    ///
    /// # Errors
    /// What the rule's calls refuse.
    pub fn jvp(
        &self,
        library: &Library<'_>,
        rule: &Block,
        at: usize,
        tangent: &Value<V<f64>>,
    ) -> Result<Vec<f64>, Stop> {
        let arg = self.row.sig.params[at].name.name;
        let mut names = named(self.row, &self.results);
        names.extend([(Name::new("t"), tangent.clone()), (Name::new(&format!("t_{arg}")), tangent.clone())]);
        let values = Dense::new(library).rule(self.row, rule, &self.case.solved, &self.args, &names)?;
        let mut all = Vec::new();
        for (value, result) in values.iter().zip(self.results.iter().take(self.row.sig.outs.len())) {
            if has_floats(result) {
                let of = aligned(std::slice::from_ref(value), &elements(result));
                let (n, wants) = (of.len(), elements(result).concat().len());
                if n != wants {
                    let have = counted(n, "element", "elements");
                    let why = format!("the tangent has {have}, the result has {wants}");
                    return Err(Stop::Refused(Refusal::new("E402", why)));
                }
                all.extend(of);
            }
        }
        Ok(all)
    }

    /// J u: how much every element of every float result moves where `u` says how much each element of argument `at`
    /// does.
    ///
    /// # Errors
    /// What the meaning's calls refuse.
    pub fn moves(&self, dense: &mut Dense<'_>, at: usize, u: &dyn Fn(usize) -> f64) -> Result<Vec<f64>, Stop> {
        let args = self.lift(&|p, e, value| Dual { value, slope: if p == at { u(e) } else { 0.0 } });
        let results = dense.meaning(self.row, &self.case.solved, &args)?;
        let mut slopes = Vec::new();
        results.iter().take(self.row.sig.outs.len()).for_each(|r| floats(r, &mut |x: &Dual| slopes.push(x.slope)));
        Ok(slopes)
    }

    /// ⟨g, J u⟩
    ///
    /// # Errors
    /// What the meaning's calls refuse.
    pub fn along(
        &self,
        dense: &mut Dense<'_>,
        at: usize,
        u: &dyn Fn(usize) -> f64,
        cotangents: &[Value<V<f64>>],
    ) -> Result<f64, Stop> {
        let weights: Vec<f64> = cotangents.iter().flat_map(elements).flatten().collect();
        Ok(dot(&self.moves(dense, at, u)?, &weights))
    }

    /// Whether a result depends on a value that is detached.
    ///
    /// # Errors
    /// What the meaning's calls refuse.
    pub fn leaks(&self, library: &Library<'_>) -> Result<bool, Stop> {
        let args = self.lift(&|_, _, x| Probe::constant(x));
        let results = Dense::new(library).meaning(self.row, &self.case.solved, &args)?;
        let mut leak = false;
        for r in results.iter().take(self.row.sig.outs.len()) {
            floats(r, &mut |x: &Probe| leak |= x.0.slope.abs() > 1e-9 * (1.0 + x.0.value.abs()));
        }
        Ok(leak)
    }
}

/// The results of a row, by the names under which rules read them.
pub fn named<F: Field>(row: &Row, results: &[Value<V<F>>]) -> Vec<(Name, Value<V<F>>)> {
    let sig = &row.sig;
    let mut names: Vec<(Name, Value<V<F>>)> =
        sig.outs.iter().chain(&sig.aux).zip(results).map(|(o, v)| (o.name.name, v.clone())).collect();
    if let ([o], Some(v)) = (sig.outs.as_slice(), results.first())
        && o.name.name != "out"
    {
        names.push((Name::new("out"), v.clone()));
    }
    names
}

/// A value in another field.
pub fn lifted<F: Field>(v: &Value<V<f64>>, f: &mut dyn FnMut(f64) -> F) -> Value<V<F>> {
    v.map(&mut |v| match v {
        V::Key(k) => V::Key(*k),
        V::Array(a) => {
            let data = match &a.data {
                Data::Float(x) => Data::Float(x.iter().map(|x| f(*x)).collect()),
                Data::Int(x) => Data::Int(x.clone()),
            };
            V::Array(Arc::new(Array { dtype: a.dtype, shape: a.shape.clone(), data }))
        }
    })
}

/// One number per element of `like`, item by item; zeros where an item is absent, the number where it is one.
fn aligned(items: &[Value<V<f64>>], like: &[Vec<f64>]) -> Vec<f64> {
    let item = |(i, like): (usize, &Vec<f64>)| match items.get(i) {
        Some(Value::Num(s)) => vec![Scalar::as_f64(*s); like.len()],
        Some(value) if !value.is_absent() => elements(value).concat(),
        _ => vec![0.0; like.len()],
    };
    like.iter().enumerate().flat_map(item).collect()
}

/// Numbers in the shape of a value, none of them small.
fn weights(v: &Value<V<f64>>, numbers: &mut Numbers) -> Value<V<f64>> {
    v.map(&mut |v| match v {
        V::Key(k) => V::Key(*k),
        V::Array(a) => {
            let x = (0..a.len()).map(|_| numbers.weight()).collect();
            V::Array(Arc::new(Array::float(a.dtype, &a.shape, x)))
        }
    })
}

/// Calls `f` on every float element of a value.
pub fn floats<F: Field>(v: &Value<V<F>>, f: &mut dyn FnMut(&F)) {
    v.for_each(&mut |v| {
        if let V::Array(a) = v
            && let Data::Float(x) = &a.data
        {
            x.iter().for_each(&mut *f);
        }
    });
}

/// The float elements of a value, tensor by tensor.
pub fn elements(v: &Value<V<f64>>) -> Vec<Vec<f64>> {
    let mut out = Vec::new();
    v.for_each(&mut |v| {
        if let V::Array(a) = v
            && let Data::Float(x) = &a.data
        {
            out.push(x.clone());
        }
    });
    out
}

fn has_floats(v: &Value<V<f64>>) -> bool {
    !elements(v).is_empty()
}

/// The sum of products; what one side lacks counts as nothing.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
