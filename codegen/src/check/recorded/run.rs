//! Runs recorded calls on a set of rows.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use fulgurite_core::derive;
use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::foreign::{self, Form, Given, Operand};
use fulgurite_core::lang::{Alias, Gives};
use fulgurite_core::lower::Rows;
use fulgurite_core::row::Row;
use fulgurite_core::signature::{self, ArgTy, Refusal};
use fulgurite_core::{DType, Dim, Name, Scalar, Value};

use super::{Callee, Case, Want, Wrt, compare};
use crate::check::cases;
use crate::check::gradient_rules;
use crate::check::gradients::arrays::dense::{Dense, Library, Stop, V, ty};
use crate::check::gradients::arrays::instance::{Instance, elements};
use crate::check::gradients::arrays::numbers::Numbers;
use crate::check::rows::RowSet;
use crate::pytorch::is_alias;
use crate::schema::{Calls, RowSource, Rule};

impl Operand for V<f64> {
    fn ty(&self) -> ArgTy {
        ty(self)
    }

    fn known(&self) -> Option<Scalar> {
        match self {
            V::Array(a) if a.shape.is_empty() => a.scalars().first().copied(),
            _ => None,
        }
    }

    fn known_list(&self) -> Option<Vec<Scalar>> {
        match self {
            V::Array(a) if a.dtype == DType::I64 && a.shape.len() == 1 => Some(a.scalars()),
            _ => None,
        }
    }

    fn reshaped(&self, shape: &[Dim]) -> V<f64> {
        match self {
            V::Array(a) => {
                let shape = shape.iter().map(|d| d.len()).collect();
                V::Array(Arc::new(Array { dtype: a.dtype, shape, data: a.data.clone() }))
            }
            key => key.clone(),
        }
    }
}

/// A call form: the place of its row in the file (`None` for an upstream row), the row's name, and the form.
type Entry = (Option<usize>, Name, Form<V<f64>>);

/// Call forms by the names of other libraries.
#[derive(Default)]
pub struct Forms {
    by_name: HashMap<Name, Vec<Entry>>,
}

impl Forms {
    /// The forms of these rows, each with its row's place in the file. A row whose own name belongs to PyTorch has a
    /// form of that name, unless a row above has one.
    pub fn of<'r>(rows: impl Iterator<Item = (usize, &'r RowSource, &'r Row)>) -> Forms {
        Forms::default().with(rows)
    }

    /// The forms of calls of upstream rows, which come before those of the database's own rows.
    pub fn upstream(calls: &[Calls], set: &RowSet) -> Forms {
        let mut forms = Forms::default();
        for calls in calls {
            if let Some(row) = set.row(Name::new(calls.op.as_str())) {
                forms.add(None, &row, &calls.aliases);
            }
        }
        forms
    }

    /// These forms, followed by those of further rows, as in [`Forms::of`].
    pub fn with<'r>(mut self, rows: impl Iterator<Item = (usize, &'r RowSource, &'r Row)>) -> Forms {
        for (at, source, row) in rows {
            self.add(Some(at), row, &source.aliases);
            if is_alias(row.op.as_str()) {
                self.by_name.entry(row.op).or_insert_with(|| vec![(Some(at), row.op, Form::own(row))]);
            }
        }
        self
    }

    fn add(&mut self, at: Option<usize>, row: &Row, aliases: &[(&'static str, Rule<Alias>)]) {
        for (library, alias) in aliases {
            let form = (at, row.op, Form::new(row, &alias.tree));
            self.by_name.entry(alias.tree.full(library)).or_default().push(form);
        }
    }

    /// The rows that a call of `name` may mean.
    pub fn rows(&self, name: Name) -> Vec<Name> {
        self.by_name.get(&name).into_iter().flatten().map(|(_, row, _)| *row).collect()
    }
}

/// Runs recorded calls on rows.
pub struct Runner<'a> {
    /// The rows.
    pub set: &'a RowSet<'a>,
    /// The forms of the right rows.
    pub forms: &'a Forms,
    /// The place of one row in the file, and the forms that replace those of this row.
    pub changed: Option<(usize, Forms)>,
    /// Derived rules, made once for each row.
    derived: RefCell<HashMap<Name, Rc<derive::Derived>>>,
}

/// An accepted call.
struct Made {
    row: Arc<Row>,
    case: cases::Case,
    args: Vec<Value<V<f64>>>,
    results: Vec<Value<V<f64>>>,
    mask: Option<Vec<bool>>,
}

impl<'a> Runner<'a> {
    /// A runner on the rows of `set`, called by `forms`; `changed` replaces the forms of one row.
    pub fn new(set: &'a RowSet<'a>, forms: &'a Forms, changed: Option<(usize, Forms)>) -> Runner<'a> {
        Runner { set, forms, changed, derived: RefCell::default() }
    }

    fn derived(&self, row: &Arc<Row>) -> Rc<derive::Derived> {
        let made = || Rc::new(derive::derive(row, self.set));
        self.derived.borrow_mut().entry(row.op).or_insert_with(made).clone()
    }

    /// Whether the call has the recorded outcome.
    pub fn meets(&self, case: &Case) -> bool {
        match (self.make(case), &case.want) {
            (Err(_), None) => true,
            (Ok(made), Some(want)) => outs(&made).is_some_and(|outs| {
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

    /// The row that takes a call, and the difference between its values and the recorded ones, if any. `None` if all
    /// rows refuse the call, or if PyTorch did.
    pub fn differs(&self, case: &Case) -> Option<(Name, Option<String>)> {
        let (Ok(made), Some(want)) = (self.make(case), &case.want) else { return None };
        let outs = outs(&made)?;
        let wrong = |(want, got): (&Want, &Option<Array<f64>>)| {
            let got = got.as_ref()?;
            (!compare::agrees(got, want, case.strict, 1.0)).then(|| compare::told(got, want)).flatten()
        };
        let told = match outs.len() < want.len() {
            true => Some(format!("it gives {} results, PyTorch {}", outs.len(), want.len())),
            false => want.iter().zip(&outs).find_map(wrong),
        };
        Some((made.row.op, told.map(|told| format!("for {}: {told}", made.case.show(&made.row)))))
    }

    /// Whether two sets of rows give one outcome for a call, and whether either accepts it. `None` if the call takes
    /// too long.
    pub(super) fn agrees(&self, other: &Runner, callee: &Callee) -> Option<(bool, bool)> {
        let values = |made: &Made| outs(made).unwrap_or_default();
        match (self.call(callee), other.call(callee)) {
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

    fn make(&self, case: &Case) -> Result<Made, Stop> {
        self.call(&case.callee)
    }

    fn call(&self, callee: &Callee) -> Result<Made, Stop> {
        match callee {
            Callee::Row(name, named) => {
                let arrange = |row: &Row| signature::arrange(row, Vec::new(), named.clone());
                self.first(*name, &arrange, None)
            }
            Callee::Foreign(name, positional, named) => self.foreign(*name, positional, named),
        }
    }

    fn foreign(
        &self,
        name: Name,
        positional: &[Given<V<f64>>],
        named: &[(String, Given<V<f64>>)],
    ) -> Result<Made, Stop> {
        let own = self.forms.by_name.get(&name).into_iter().flatten();
        let changed = self.changed.as_ref().map(|(at, _)| *at);
        let own: Vec<_> = own.collect();
        // A row above may have a form of this name; then the changed row does not answer to its own name.
        let hidden = |op: &Name| *op == name && !own.iter().any(|(_, right, _)| right == op);
        let changes = self.changed.iter().filter_map(|(_, forms)| forms.by_name.get(&name)).flatten();
        let mut all: Vec<_> = own.iter().copied().filter(|(at, ..)| at.is_none() || *at != changed).collect();
        all.extend(changes.filter(|(_, op, _)| !hidden(op)));
        all.sort_by_key(|(at, ..)| *at);
        let key = Given::Tensor(V::Key([0, 0]));
        let mut first: Option<Stop> = None;
        for (_, op, form) in all {
            let Some(row) = self.set.candidates(*op).into_iter().find(|row| row.op == *op) else { continue };
            let call = form.arrange(&row, positional, named);
            if form.gives == Gives::Nothing {
                match call {
                    Ok(_) => {
                        return Err(
                            Refusal::new("E710", format!("no row stands behind such a call of `{name}`")).into()
                        );
                    }
                    Err(_) => continue,
                }
            }
            let made = call.map_err(Stop::from).and_then(|call| {
                let arrange = |row: &Row| foreign::arguments(row, &call.args, &key);
                self.first(*op, &arrange, call.mask.clone())
            });
            match made {
                Ok(made) => return Ok(made),
                Err(stop) => {
                    let passed = |stop: &Stop| matches!(stop, Stop::Refused(refusal) if refusal.code == "E710");
                    if first.as_ref().is_none_or(passed) {
                        first = Some(stop);
                    }
                }
            }
        }
        Err(first.unwrap_or_else(|| Refusal::new("E710", format!("no row is called `{name}`")).into()))
    }

    /// Makes the call with the first overload of `op` that takes the arguments.
    #[allow(clippy::type_complexity)]
    fn first(
        &self,
        op: Name,
        arrange: &dyn Fn(&Row) -> Result<Vec<Value<V<f64>>>, Refusal>,
        mask: Option<Vec<bool>>,
    ) -> Result<Made, Stop> {
        let library = Library::new(self.set);
        let mut first: Option<Stop> = None;
        for row in self.set.candidates(op) {
            let solved = arrange(&row).and_then(|args| signature::solve(&row, &args, &ty).map(|solved| (args, solved)));
            let made = solved.map_err(Stop::from).and_then(|(args, solved)| {
                let results = Dense::new(&library).meaning(&row, &solved, &args)?;
                Ok((args, solved, results))
            });
            match made {
                Ok((args, solved, results)) => {
                    let types = args.iter().map(|arg| arg.map(&mut |v| ty(v))).collect();
                    let case = cases::Case { args: types, solved };
                    return Ok(Made { row, case, args, results, mask });
                }
                Err(stop) => _ = first.get_or_insert(stop),
            }
        }
        Err(first.unwrap_or_else(|| Refusal::new("E007", format!("there is no row `{op}`")).into()))
    }

    fn gradients(&self, case: &Case, made: &Made) -> bool {
        if case.gradients.is_empty() {
            return true;
        }
        let Some(cotangents) = cotangents(case, made) else { return true };
        let derived = self.derived(&made.row);
        let mut library = Library::new(self.set);
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

/// The results in one list; those that a mask leaves out are `None`.
fn outs(made: &Made) -> Option<Vec<Option<Array<f64>>>> {
    let mut outs = Vec::new();
    for value in made.results.iter().take(made.row.sig.outs.len()) {
        value.for_each(&mut |v| {
            outs.push(match v {
                V::Array(a) => Some(Array::clone(a)),
                V::Key(_) => None,
            })
        });
    }
    if let Some(mask) = &made.mask {
        outs.iter_mut().zip(mask).filter(|(_, wanted)| !**wanted).for_each(|(out, _)| *out = None);
    }
    Some(outs)
}

/// The position of the argument that a gradient belongs to; `None` unless exactly one argument is that tensor.
fn position(made: &Made, wrt: &Wrt) -> Option<usize> {
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
fn cotangents(case: &Case, made: &Made) -> Option<Vec<Value<V<f64>>>> {
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
