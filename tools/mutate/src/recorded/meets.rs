//! Holds recorded calls against rows: results, refusals and gradients.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use fulgurite_codegen::check::gradient_rules;
use fulgurite_codegen::check::gradients::arrays::dense::{Dense, Library, Stop, V};
use fulgurite_codegen::check::gradients::arrays::instance::{Instance, elements};
use fulgurite_codegen::check::gradients::arrays::numbers::Numbers;
use fulgurite_codegen::check::recorded::{Callee, Case, RunCall, Runner, Want, Wrt, compare};
use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::row::Row;
use fulgurite_core::{Name, Value, derive};

/// Compares recorded calls with those of a runner.
pub struct Comparer<'a> {
    runner: Runner<'a>,
    /// Derived rules, made once for each row.
    derived: RefCell<HashMap<Name, Rc<derive::Derived>>>,
}

impl<'a> Comparer<'a> {
    /// Compares with the calls of `runner`.
    pub fn new(runner: Runner<'a>) -> Comparer<'a> {
        Comparer { runner, derived: RefCell::default() }
    }

    fn derived(&self, row: &Arc<Row>) -> Rc<derive::Derived> {
        let made = || Rc::new(derive::derive(row, self.runner.set));
        self.derived.borrow_mut().entry(row.op).or_insert_with(made).clone()
    }

    /// Whether the call has the recorded outcome.
    pub fn meets(&self, case: &Case) -> bool {
        match (self.runner.call(&case.callee), &case.want) {
            (Err(_), None) => true,
            (Ok(made), Some(want)) => made.outs().is_some_and(|outs| {
                // PyTorch may give fewer results than the row; further results are not compared.
                outs.len() >= want.len()
                    && want.iter().zip(&outs).all(|(want, got)| match got {
                        Some(got) => compare::agrees(got, want, case.strict, 1.0),
                        None => want.array.is_none(),
                    })
                    && self.gradients(case, &made)
            }),
            (Ok(_), None) | (Err(_), Some(_)) => false,
        }
    }

    fn gradients(&self, case: &Case, made: &RunCall) -> bool {
        if case.gradients.is_empty() {
            return true;
        }
        let Some(cotangents) = cotangents(case, made) else { return true };
        let derived = self.derived(&made.row);
        let mut library = Library::new(self.runner.set);
        library.extend(derived.rows.iter().cloned());
        let instance =
            Instance { row: &made.row, case: &made.case, args: made.args.clone(), results: made.results.clone() };
        case.gradients.iter().all(|(wrt, want)| {
            let Some(at) = position(made, wrt) else { return true };
            let arg = made.row.sig.params.get(at).map(|param| param.name.name);
            let Some(arg) = arg else { return true };
            match gradient_rules::holding(&made.row, &derived, arg) {
                Some(rule) if made.row.no_grad.is_none() => match instance.vjp(&library, rule, at, &cotangents) {
                    Ok(got) => whole(&got, want, case.strict),
                    Err(_) => false,
                },
                Some(_) => false,
                None if made.row.no_grad.is_some() => false,
                None => self.along(&instance, &library, at, &cotangents, want, case.strict),
            }
        })
    }

    /// Compares the derivative in one direction with the product of the recorded gradient and this direction. This
    /// serves programs of rows, which have no rule of their own.
    fn along(
        &self,
        instance: &Instance,
        library: &Library,
        at: usize,
        cotangents: &[Value<V<f64>>],
        want: &[Want],
        strict: bool,
    ) -> bool {
        let gradient: Vec<f64> = want.iter().flat_map(values).collect();
        let mut numbers = Numbers::new(gradient.len() as u64);
        let direction: Vec<f64> = gradient.iter().map(|_| numbers.weight()).collect();
        let Ok(got) =
            instance.along(&mut Dense::new(library), at, &|e| direction.get(e).copied().unwrap_or(0.0), cotangents)
        else {
            return false;
        };
        let dtype = want.iter().find_map(|want| want.array.as_ref()).map_or(fulgurite_core::DType::F64, |a| a.dtype);
        let wanted: f64 = gradient.iter().zip(&direction).map(|(g, d)| g * d).sum();
        let size: f64 = gradient.iter().map(|g| g.abs()).sum();
        let noise = want
            .iter()
            .fold((0.0, 0.0f64), |n: (f64, f64), w| (n.0 + w.noise.0 * gradient.len() as f64 + w.noise.1 * size, n.1));
        let slack = (noise.0 + if strict { 1e-9 } else { 1e-6 } * size, 0.0);
        compare::numbers(&[got], &[wanted], dtype, slack, strict, 2.0)
    }
}

/// The floats of a recorded result.
fn values(want: &Want) -> Vec<f64> {
    match want.array.as_ref().map(|array| &array.data) {
        Some(Data::Float(values)) => values.clone(),
        _ => Vec::new(),
    }
}

fn whole(got: &[f64], want: &[Want], strict: bool) -> bool {
    let mut at = 0;
    want.iter().all(|want| {
        let Some(array) = &want.array else { return got.iter().all(|x| *x == 0.0) };
        let part = got.get(at..at + array.len()).unwrap_or_default();
        at += array.len();
        compare::numbers(part, &values(want), array.dtype, want.noise, strict, 2.0)
    })
}

/// Whether two sets of rows give one outcome for a call, and whether either accepts it. `None` if the call takes
/// too long.
pub fn agrees(one: &Runner, other: &Runner, callee: &Callee) -> Option<(bool, bool)> {
    let values = |made: &RunCall| made.outs().unwrap_or_default();
    match (one.call(callee), other.call(callee)) {
        (Err(Stop::TooLong(_)), _) | (_, Err(Stop::TooLong(_))) => None,
        (Err(_), Err(_)) => Some((true, false)),
        (Ok(a), Ok(b)) => {
            let (a, b) = (values(&a), values(&b));
            // Texts are compared, because NaN does not equal itself.
            Some((format!("{a:?}") == format!("{b:?}"), true))
        }
        _ => Some((false, true)),
    }
}

/// The position of the argument that a gradient belongs to; `None` unless exactly one argument is that tensor.
fn position(made: &RunCall, wrt: &Wrt) -> Option<usize> {
    match wrt {
        Wrt::Name(name) => made.row.sig.params.iter().position(|param| param.name.name == *name),
        Wrt::Tensor(V::Array(tensor)) => {
            let same = |v: &Value<V<f64>>| matches!(v, Value::Tensor(V::Array(a)) if Arc::ptr_eq(a, tensor));
            let mut found = made.args.iter().enumerate().filter(|(_, v)| same(v)).map(|(at, _)| at);
            found.next().filter(|_| found.next().is_none())
        }
        Wrt::Tensor(V::Key(_)) => None,
    }
}

/// The cotangents of the row's results: zeros where none was recorded.
fn cotangents(case: &Case, made: &RunCall) -> Option<Vec<Value<V<f64>>>> {
    let mut given = case.cotangents.iter();
    let outs = made.results.iter().take(made.row.sig.outs.len());
    let all = outs.map(|result| {
        if elements(result).is_empty() {
            // Integers have no cotangents, but each of them has its place in the record.
            result.for_each(&mut |_| _ = given.next());
            return Value::Absent;
        }
        result.map(&mut |v| match (v, given.next()) {
            (V::Array(a), Some(Some(g))) if a.shape == g.shape => V::Array(Arc::new(g.clone())),
            (V::Array(a), _) => V::Array(Arc::new(Array::float(a.dtype, &a.shape, vec![0.0; a.len()]))),
            (key, _) => key.clone(),
        })
    });
    Some(all.collect())
}
