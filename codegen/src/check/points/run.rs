//! Runs a call on data: its results, and the gradient of their sum.

use std::cell::OnceCell;
use std::sync::Arc;

use fulgurite_core::Value;
use fulgurite_core::derive::Derived;
use fulgurite_core::eval::loop_nest::Field;
use fulgurite_core::lang::Block;
use fulgurite_core::row::Row;
use fulgurite_core::signature;

use crate::check::cases::Case;
use crate::check::gradient_rules;
use crate::check::gradients::arrays::declared::Way;
use crate::check::gradients::arrays::dense::{Dense, Library, Stop, V, ty, types};
use crate::check::gradients::arrays::instance::{Instance, elements, lifted};
use crate::check::gradients::arrays::tape;
use crate::check::rows::RowSet;

/// A call with its computed results.
pub struct Ran<'a> {
    row: &'a Arc<Row>,
    args: Vec<Value<V<f64>>>,
    case: Case,
    /// Results, then auxiliary results.
    pub results: Vec<Value<V<f64>>>,
}

impl<'a> Ran<'a> {
    /// Runs the meaning of `row` on `args`, which are in the order of the signature.
    ///
    /// # Errors
    /// The refusal of the call.
    pub fn new(row: &'a Arc<Row>, args: Vec<Value<V<f64>>>, set: &RowSet) -> Result<Ran<'a>, Stop> {
        let solved = signature::solve(row, &args, &ty)?;
        let results = Dense::new(&Library::new(set)).meaning(row, &solved, &args)?;
        let types = types(&args, &ty);
        Ok(Ran { row, args, case: Case { args: types, solved }, results })
    }

    fn instance(&self) -> Instance<'_> {
        let (args, results) = (self.args.clone(), self.results.clone());
        Instance { row: self.row, case: &self.case, args, results }
    }

    /// The derivative of the sum of all results along one fixed direction of argument `at`. It is computed from the
    /// meaning, independent of rules.
    ///
    /// # Errors
    /// A refusal by a call in the meaning.
    pub fn moves(&self, set: &RowSet, at: usize) -> Result<f64, Stop> {
        let library = Library::new(set);
        let moves = self.instance().moves(&mut Dense::new(&library), at, &|element| 1.0 + 0.37 * element as f64)?;
        Ok(moves.iter().sum())
    }

    /// The gradients of the sum of all results.
    pub fn slopes<'r>(&'r self, set: &'r RowSet<'r>) -> Slopes<'r> {
        self.weighted(set, self.results.iter().take(self.row.sig.outs.len()).map(ones).collect())
    }

    /// The gradients for these cotangents of the results.
    pub fn weighted<'r>(&'r self, set: &'r RowSet<'r>, cotangents: Vec<Value<V<f64>>>) -> Slopes<'r> {
        let derived = set.derived(self.row);
        let mut library = Library::new(set);
        library.extend(derived.rows.iter().cloned());
        Slopes { instance: self.instance(), library, derived, cotangents, taped: OnceCell::new() }
    }
}

/// The derivatives of a call.
pub struct Slopes<'a> {
    instance: Instance<'a>,
    library: Library<'a>,
    derived: Arc<Derived>,
    cotangents: Vec<Value<V<f64>>>,
    /// The gradients of a program by argument, once they are computed.
    taped: OnceCell<Option<Vec<Vec<f64>>>>,
}

impl Slopes<'_> {
    /// Whether there is a rule, written or derived, for the gradient of argument `at`.
    pub fn has_rule(&self, at: usize) -> bool {
        self.rule(at).is_some()
    }

    fn rule(&self, at: usize) -> Option<&Block> {
        let row = self.instance.row;
        let name = row.sig.params[at].name.name;
        gradient_rules::holding(row, &self.derived, name)
    }

    /// The tangent of the results by the row's own `jvp`, for a tangent of ones of argument `at`. `None` without a
    /// `jvp`, because other tangents are transposed gradients.
    ///
    /// # Errors
    /// A refusal by a call in the rule.
    pub fn tangent(&self, at: usize) -> Result<Option<Vec<f64>>, Stop> {
        let row = self.instance.row;
        let name = row.sig.params[at].name.name;
        let Some((_, rule)) = row.jvp.iter().find(|(arg, _)| *arg == name) else { return Ok(None) };
        self.instance.jvp(&self.library, rule, at, &ones(&self.instance.args[at])).map(Some)
    }

    /// The derivative of the meaning with respect to argument `at`, independent of rules: the gradient, or the tangent
    /// of the results for a tangent of ones. The second list is the derivative at a moved point: every float is moved
    /// by about `by` relative to its magnitude, and 0 by about `by` itself.
    ///
    /// # Errors
    /// A refusal by a call in the meaning.
    pub fn meant(&self, way: Way, at: usize, by: f64) -> Result<[Vec<f64>; 2], Stop> {
        let step = |p: usize, e: usize, x: f64| {
            let of = if x == 0.0 || x.is_infinite() { 1.0 } else { x.abs() };
            by * of * (1.0 + 0.37 * p as f64 + 0.11 * e as f64)
        };
        let moved = self.instance.moved(&step, &self.library);
        let moved = moved.ok_or_else(|| Stop::Data("there is no call beside this one".to_owned()))?;
        let of = |instance: &Instance| match way {
            Way::Jvp => instance.moves(&mut Dense::new(&self.library), at, &|_| 1.0),
            Way::Vjp => self.each(instance, at),
        };
        Ok([of(&self.instance)?, of(&moved)?])
    }

    /// One derivative per element of the argument.
    fn each(&self, instance: &Instance, at: usize) -> Result<Vec<f64>, Stop> {
        // All runs share one interpreter, and thereby its budget of steps.
        let mut dense = Dense::new(&self.library);
        let mut one =
            |element: usize| instance.along(&mut dense, at, &|e| f64::from(u8::from(e == element)), &self.cotangents);
        (0..instance.numel_of(at)).map(&mut one).collect()
    }

    /// The gradient for argument `at`, rounded to the argument's dtypes, to which gradients are cast. It comes from the
    /// row's rule, or, for a program, from the rules of the rows that it calls. Otherwise the meaning is differentiated
    /// for each element.
    ///
    /// # Errors
    /// A refusal by a call in the rule.
    pub fn of(&self, at: usize) -> Result<Vec<f64>, Stop> {
        let (instance, library) = (&self.instance, &self.library);
        match self.rule(at) {
            Some(rule) => {
                let mut slopes = instance.vjp(library, rule, at, &self.cotangents)?.into_iter();
                let mut kept = Vec::new();
                instance.args[at].for_each(&mut |v| {
                    if let V::Array(a) = v
                        && a.dtype.is_float()
                    {
                        kept.extend(slopes.by_ref().take(a.len()).map(|slope| slope.kept_as(a.dtype)));
                    }
                });
                Ok(kept)
            }
            None => {
                if self.taped.get().is_none() {
                    _ = self.taped.set(tape::gradients(instance, &mut tape::Rules::new(library), &self.cotangents)?);
                }
                if let Some(Some(taped)) = self.taped.get() {
                    let mut of = taped[at].clone();
                    of.resize(instance.numel_of(at), 0.0);
                    return Ok(of);
                }
                self.each(instance, at)
            }
        }
    }
}

fn ones(value: &Value<V<f64>>) -> Value<V<f64>> {
    if elements(value).is_empty() {
        return Value::Absent;
    }
    lifted(value, &mut |_| 1.0)
}
