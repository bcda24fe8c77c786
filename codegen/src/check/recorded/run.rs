//! Runs recorded calls on a set of rows.

use std::collections::HashMap;
use std::sync::Arc;

use fulgurite_core::eval::loop_nest::Array;
use fulgurite_core::foreign::{self, Form, Given, Operand};
use fulgurite_core::foreign::{library, spellings};
use fulgurite_core::lang::{Alias, Gives};
use fulgurite_core::lower::Rows;
use fulgurite_core::row::Row;
use fulgurite_core::signature::{self, ArgTy, Refusal};
use fulgurite_core::{Dim, Name, Scalar, Value};

use super::{Callee, Case, Want, compare};
use crate::check::cases;
use crate::check::gradients::arrays::dense::{Dense, Library, Stop, V, ty};
use crate::check::rows::RowSet;
use crate::libraries::owner;
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
            V::Array(a) if a.shape.len() == 1 => Some(a.scalars()),
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
            if let Some(library) = library(row.op.as_str()) {
                self.by_name.entry(row.op).or_insert_with(|| vec![(Some(at), row.op, Form::own(row, library))]);
            }
        }
        self
    }

    /// These forms, and those of `others` whose names have none here.
    pub fn or(mut self, others: Forms) -> Forms {
        for (name, forms) in others.by_name {
            self.by_name.entry(name).or_insert(forms);
        }
        self
    }

    fn add(&mut self, at: Option<usize>, row: &Row, aliases: &[(&'static str, Rule<Alias>)]) {
        for (library, alias) in aliases {
            let form = (at, row.op, Form::new(row, library, &alias.tree));
            self.by_name.entry(alias.tree.full(library)).or_default().push(form);
        }
    }

    /// The name under which a call of `name` is listed.
    fn listed(&self, name: Name) -> Name {
        let names = spellings(name.as_str()).into_iter().map(|name| Name::new(&name));
        names.into_iter().find(|name| self.by_name.contains_key(name)).unwrap_or(name)
    }

    /// The rows that a call of `name` may mean.
    pub fn rows(&self, name: Name) -> Vec<Name> {
        self.by_name.get(&self.listed(name)).into_iter().flatten().map(|(_, row, _)| *row).collect()
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
}

/// An accepted call.
pub struct RunCall {
    /// The row that accepts it.
    pub row: Arc<Row>,
    /// The types of its arguments, and the bindings of the signature.
    pub case: cases::Case,
    /// One value for each argument and option.
    pub args: Vec<Value<V<f64>>>,
    /// The results, auxiliary ones last.
    pub results: Vec<Value<V<f64>>>,
    /// Which results the call asks for; `None`: all.
    pub mask: Option<Vec<bool>>,
}

impl RunCall {
    /// The results in one list; those that a mask leaves out are `None`.
    pub fn outs(&self) -> Option<Vec<Option<Array<f64>>>> {
        let mut outs = Vec::new();
        for value in self.results.iter().take(self.row.sig.outs.len()) {
            value.for_each(&mut |v| {
                outs.push(match v {
                    V::Array(a) => Some(Array::clone(a)),
                    V::Key(_) => None,
                })
            });
        }
        if let Some(mask) = &self.mask {
            outs.iter_mut().zip(mask).filter(|(_, wanted)| !**wanted).for_each(|(out, _)| *out = None);
        }
        Some(outs)
    }
}

impl<'a> Runner<'a> {
    /// A runner on the rows of `set`, called by `forms`; `changed` replaces the forms of one row.
    pub fn new(set: &'a RowSet<'a>, forms: &'a Forms, changed: Option<(usize, Forms)>) -> Runner<'a> {
        Runner { set, forms, changed }
    }

    /// The row that takes a call, and the difference between its values and the recorded ones, if any. `None` if all
    /// rows refuse the call, or if the library did that the values are of.
    pub fn differs(&self, case: &Case) -> Option<(Name, Option<String>)> {
        let (Ok(made), Some(want)) = (self.call(&case.callee), &case.want) else { return None };
        let outs = made.outs()?;
        let library = owner(case.callee().1.as_str());
        let wrong = |(want, got): (&Want, &Option<Array<f64>>)| {
            let got = got.as_ref()?;
            (!compare::agrees(got, want, case.strict, 1.0)).then(|| compare::told(got, want, library)).flatten()
        };
        let told = match outs.len() < want.len() {
            true => Some(format!("it gives {} results, {library} {}", outs.len(), want.len())),
            false => want.iter().zip(&outs).find_map(wrong),
        };
        Some((made.row.op, told.map(|told| format!("for {}: {told}", made.case.show(&made.row)))))
    }

    /// Makes a call.
    ///
    /// # Errors
    /// The refusal of the first row that could take the call, or the limit of work.
    pub fn call(&self, callee: &Callee) -> Result<RunCall, Stop> {
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
    ) -> Result<RunCall, Stop> {
        let name = self.forms.listed(name);
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
    ) -> Result<RunCall, Stop> {
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
                    return Ok(RunCall { row, case, args, results, mask });
                }
                Err(stop) => _ = first.get_or_insert(stop),
            }
        }
        Err(first.unwrap_or_else(|| Refusal::new("E007", format!("there is no row `{op}`")).into()))
    }
}
