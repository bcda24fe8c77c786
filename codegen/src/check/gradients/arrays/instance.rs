//! Instances: a call of a row with data, its directional derivatives, and the values of the row's rules there.

use fulgurite_core::eval::loop_nest::{Array, Data, Field};
use fulgurite_core::lang::Block;
use fulgurite_core::row::Row;
use fulgurite_core::signature::Refusal;
use fulgurite_core::{Name, Named, Scalar, Value, counted, derive};
use std::sync::Arc;

use crate::check::cases::Case;
use crate::check::gradient_rules;
use crate::check::gradients::arrays::dense::{Dense, Library, Stop, V};
use crate::check::gradients::arrays::dual::{Dual, Probe};
use crate::check::gradients::arrays::numbers::Numbers;

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
    /// Whether every element of the float results is finite, that is, whether the data lie inside the domain.
    pub fn is_finite(&self) -> bool {
        self.results.iter().all(|r| elements(r).iter().flatten().all(|x| x.is_finite()))
    }

    /// This call with each float moved by `by(argument, position, float)`. If no two floats move by the same amount, no
    /// tie is left.
    pub fn moved(&self, by: &Lift<f64>, library: &Library<'_>) -> Option<Self> {
        self.with(&|p, e, x| x + by(p, e, x), library)
    }

    /// This call with each float moved by at most `step`, in a direction of its own.
    pub fn shaken(&self, step: f64, numbers: &mut Numbers, library: &Library<'_>) -> Option<Self> {
        let most = (0..self.args.len()).map(|at| self.numel_of(at)).max()?;
        let by: Vec<f64> = (0..most * self.args.len()).map(|_| step * numbers.weight()).collect();
        self.moved(&|p, e, _| by[p * most + e], library)
    }

    /// This call with each float replaced by `of(argument, position, float)`.
    pub fn with(&self, of: &Lift<f64>, library: &Library<'_>) -> Option<Self> {
        let args = self.lift(of);
        let results = Dense::new(library).meaning(self.row, &self.case.solved, &args).ok()?;
        Some(Instance { row: self.row, case: self.case, args, results })
    }

    /// The number of float elements in all arguments.
    pub fn numel(&self) -> usize {
        self.args.iter().flat_map(elements).map(|e| e.len()).sum()
    }

    /// The number of float elements in argument `at`.
    pub fn numel_of(&self, at: usize) -> usize {
        elements(&self.args[at]).iter().map(Vec::len).sum()
    }

    /// Lifts the arguments into another field.
    pub fn lift<F: Field>(&self, f: &Lift<F>) -> Vec<Value<V<F>>> {
        let lift = |(p, v): (usize, &Value<V<f64>>)| {
            let mut next = 0;
            lifted(v, &mut |x| {
                next += 1;
                f(p, next - 1, x)
            })
        };
        self.args.iter().enumerate().map(lift).collect()
    }

    /// Draws a cotangent for every float result; the other results have none.
    pub fn cotangents(&self, numbers: &mut Numbers) -> Vec<Value<V<f64>>> {
        let outs = self.row.sig.outs.len();
        let results = self.results.iter().take(outs);
        results.map(|r| if has_floats(r) { weights(r, numbers) } else { Value::Absent }).collect()
    }

    /// Draws a tangent for argument `at`.
    pub fn tangent(&self, at: usize, numbers: &mut Numbers) -> Value<V<f64>> {
        weights(&self.args[at], numbers)
    }

    /// Runs a rule that reads `seeds` by name.
    fn rule(&self, library: &Library<'_>, rule: &Block, seeds: Values) -> Result<Vec<Value<V<f64>>>, Stop> {
        let names = [gradient_rules::results(self.row, &self.results), seeds].concat();
        Dense::new(library).rule(self.row, rule, &self.case.solved, &self.args, &names)
    }

    /// The value of a VJP rule for argument `at`: one number per element. An absent value counts as zero.
    ///
    /// # Errors
    /// A [`Stop`] if a call of the rule fails.
    pub fn vjp(
        &self,
        library: &Library<'_>,
        rule: &Block,
        at: usize,
        cotangents: &[Value<V<f64>>],
    ) -> Result<Vec<f64>, Stop> {
        let names = self.row.sig.outs.iter().map(|out| derive::cotangent(self.row, out.name.name));
        let values = self.rule(library, rule, names.zip(cotangents.iter().cloned()).collect())?;
        let like = elements(&self.args[at]);
        // for a list argument the value is a list, or several values
        let items = match values.as_slice() {
            [Value::List(items)] => items.clone(),
            several => several.to_vec(),
        };
        Ok(aligned(&items, &like))
    }

    /// The value of a JVP rule: one number per element of every float result.
    ///
    /// # Errors
    /// A [`Stop`] if a call of the rule fails.
    pub fn jvp(
        &self,
        library: &Library<'_>,
        rule: &Block,
        at: usize,
        tangent: &Value<V<f64>>,
    ) -> Result<Vec<f64>, Stop> {
        let arg = self.row.sig.params[at].name.name;
        let names = [Name::new("t"), Name::new(&format!("t_{arg}"))];
        let values = self.rule(library, rule, names.map(|name| (name, tangent.clone())).to_vec())?;
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

    /// The results, then the auxiliary ones, over the field into which `f` lifts the arguments.
    ///
    /// # Errors
    /// A [`Stop`] if a call of the meaning fails.
    pub fn results_in<F: Field>(&self, dense: &mut Dense<'_>, f: &Lift<F>) -> Result<Vec<Value<V<F>>>, Stop> {
        dense.meaning(self.row, &self.case.solved, &self.lift(f))
    }

    /// The float elements of all results but auxiliary ones, over the field into which `f` lifts the arguments.
    ///
    /// # Errors
    /// A [`Stop`] if a call of the meaning fails.
    pub fn numbers_in<F: Field>(&self, dense: &mut Dense<'_>, f: &Lift<F>) -> Result<Vec<F>, Stop> {
        let mut results = self.results_in(dense, f)?;
        results.truncate(self.row.sig.outs.len());
        Ok(numbers(&results))
    }

    /// The values of a rule over the field into which `f` lifts the arguments. The results that the rule reads are
    /// computed from the lifted arguments.
    ///
    /// # Errors
    /// A [`Stop`] if a call of the meaning or of the rule fails.
    pub fn rule_in<F: Field>(
        &self,
        library: &Library<'_>,
        rule: &Block,
        seeds: Vec<Named<V<F>>>,
        f: &Lift<F>,
    ) -> Result<Vec<Value<V<F>>>, Stop> {
        let args = self.lift(f);
        let results = Dense::new(library).meaning(self.row, &self.case.solved, &args)?;
        let names = [gradient_rules::results(self.row, &results), seeds].concat();
        Dense::new(library).rule(self.row, rule, &self.case.solved, &args, &names)
    }

    /// J u, the Jacobian-vector product: how much every element of every float result moves if argument `at` moves by
    /// `u`, a number for each of its elements.
    ///
    /// # Errors
    /// A [`Stop`] if a call of the meaning fails.
    pub fn moves(&self, dense: &mut Dense<'_>, at: usize, u: &dyn Fn(usize) -> f64) -> Result<Vec<f64>, Stop> {
        let slope = |p: usize, e: usize| if p == at { u(e) } else { 0.0 };
        let results = self.numbers_in(dense, &|p, e, value| Dual { value, slope: slope(p, e) })?;
        Ok(results.into_iter().map(|x| x.slope).collect())
    }

    /// ⟨g, J u⟩, where g are the `cotangents`.
    ///
    /// # Errors
    /// A [`Stop`] if a call of the meaning fails.
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

    /// Whether a result depends on a detached value.
    ///
    /// # Errors
    /// A [`Stop`] if a call of the meaning fails.
    pub fn leaks(&self, library: &Library<'_>) -> Result<bool, Stop> {
        let results = self.numbers_in(&mut Dense::new(library), &|_, _, x| Probe::constant(x))?;
        Ok(results.iter().any(|x| x.slope.abs() > 1e-9 * (1.0 + x.value.abs())))
    }
}

type Values = Vec<Named<V<f64>>>;

/// A function that lifts an element into a field, by its argument, its position among that argument's elements, and its
/// value.
pub type Lift<'a, F> = dyn Fn(usize, usize, f64) -> F + 'a;

/// Lifts a value into another field.
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

/// One number per element of `like`, item by item. An absent item gives zeros, and a plain number is repeated.
fn aligned(items: &[Value<V<f64>>], like: &[Vec<f64>]) -> Vec<f64> {
    let item = |(i, like): (usize, &Vec<f64>)| match items.get(i) {
        Some(Value::Num(s)) => vec![Scalar::as_f64(*s); like.len()],
        Some(value) if !value.is_absent() => elements(value).concat(),
        _ => vec![0.0; like.len()],
    };
    like.iter().enumerate().flat_map(item).collect()
}

/// Draws numbers in the shape of a value, none of them near 0.
fn weights(v: &Value<V<f64>>, numbers: &mut Numbers) -> Value<V<f64>> {
    lifted(v, &mut |_| numbers.weight())
}

/// The float elements of these values.
pub fn numbers<F: Field>(values: &[Value<V<F>>]) -> Vec<F> {
    let mut all = Vec::new();
    values.iter().for_each(|value| floats(value, &mut |x: &F| all.push(x.clone())));
    all
}

/// Calls `f` on every float element of a value.
fn floats<F: Field>(v: &Value<V<F>>, f: &mut dyn FnMut(&F)) {
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

/// The dot product. Elements that one side lacks count as zero.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
