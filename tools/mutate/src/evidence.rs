//! Recorded cases by the rows that they depend on.

use std::collections::BTreeSet;
use std::sync::Arc;

use fulgurite_codegen::check::recorded::{Case, Forms, Runner};
use fulgurite_codegen::check::rows::RowSet;
use fulgurite_codegen::pipeline::Table;
use fulgurite_codegen::schema::{Database, RowSource, Rule};
use fulgurite_core::Name;
use fulgurite_core::lang::Alias;
use fulgurite_core::lower::Rows;
use fulgurite_core::row::Row;
use rustc_hash::{FxHashMap, FxHashSet};

use super::downstream::{Downstream, reach};
use super::recorded::{Comparer, Near, facts, near};

/// At most this many cases that depend on a row through others: further ones refute no more mutants.
const MOST_FAR: usize = 2000;

/// PyTorch's values, with the cases in which the right rows agree with them.
pub(super) struct Evidence {
    cases: Vec<Case>,
    /// The right rows, with those downstream.
    table: Table,
    forms: Forms,
    /// The cases that depend on a row; those that call it directly come first.
    of_row: FxHashMap<Name, Vec<usize>>,
    met: usize,
    /// The facts in which the forms of each row agree with the signatures.
    facts: Vec<BTreeSet<String>>,
}

impl Evidence {
    /// `table` has the rows of `database`, of those upstream and of those `downstream`.
    pub(super) fn new(cases: Vec<Case>, database: &Database, downstream: &[Downstream], table: Table) -> Evidence {
        let lowered: Vec<Arc<Row>> = database.rows.iter().filter_map(|row| table.row(row.name())).collect();
        let set = RowSet::new(&table, [], &[]);
        let forms = all_forms(database, downstream, &set);
        let cases: Vec<Case> = cases.into_iter().filter(|case| is_known(case, &forms, &set)).collect();
        let met: Vec<bool> = {
            let half = cases.len() / 2;
            let meets = |cases: &[Case]| -> Vec<bool> {
                let set = RowSet::new(&table, [], &[]);
                let comparer = Comparer::new(Runner::new(&set, &forms, None));
                cases.iter().map(|case| comparer.meets(case)).collect()
            };
            let (first, second) = cases.split_at(half);
            std::thread::scope(|scope| {
                let later = scope.spawn(|| meets(second));
                let mut all = meets(first);
                match later.join() {
                    Ok(more) => all.extend(more),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
                all
            })
        };
        let mut reached: FxHashMap<Name, FxHashSet<Name>> = FxHashMap::default();
        let mut of_row: FxHashMap<Name, Vec<(usize, usize)>> = FxHashMap::default();
        for (at, case) in cases.iter().enumerate().filter(|(at, _)| met[*at]) {
            let (row, name) = case.callee();
            let called = if row { vec![name] } else { forms.rows(name) };
            let direct: FxHashSet<Name> =
                called.iter().flat_map(|name| set.candidates(*name)).map(|row| row.op).collect();
            for root in &direct {
                let all = reached.entry(*root).or_insert_with(|| reach(*root, &set));
                for name in all.iter() {
                    let far = usize::from(!direct.contains(name));
                    of_row.entry(*name).or_default().push((far, at));
                }
            }
        }
        let sorted = |mut all: Vec<(usize, usize)>| {
            all.sort_unstable();
            all.dedup();
            let near = all.iter().take_while(|(far, _)| *far == 0).count();
            all.into_iter().map(|(_, at)| at).take(near + MOST_FAR).collect()
        };
        let of_row = of_row.into_iter().map(|(name, all)| (name, sorted(all))).collect();
        let met = met.iter().filter(|met| **met).count();
        let facts = database.rows.iter().zip(&lowered).map(|(source, row)| facts(source, row)).collect();
        drop(set);
        Evidence { cases, table, forms, of_row, met, facts }
    }

    /// The number of cases in which the right rows agree, and the number of all cases.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.met, self.cases.len())
    }

    /// Calls near recorded ones, by the names whose forms differ between `source` and `own`; `None` if no case calls
    /// them.
    pub(super) fn near(&self, at: usize, own: &RowSource, source: &RowSource, row: &Arc<Row>) -> Option<Near> {
        let texts = |source: &RowSource| -> Vec<(Name, String, Vec<Name>)> {
            let form = |(library, alias): &(&'static str, Rule<Alias>)| {
                let params = alias.tree.given.iter().flatten().map(|given| given.name.name).collect();
                (alias.tree.full(library), alias.text.as_str().to_owned(), params)
            };
            source.aliases.iter().map(form).collect()
        };
        let (before, after) = (texts(own), texts(source));
        let (name, _, params) = after.iter().find(|new| !before.contains(new))?;
        let set = RowSet::new(&self.table, [row.clone()], &[]);
        let right = Runner::new(&set, &self.forms, None);
        let wrong = Runner::new(&set, &self.forms, Some((at, Forms::of([(at, source, &**row)].into_iter()))));
        let cases: Vec<&Case> = self.of_row.get(&row.op)?.iter().map(|at| &self.cases[*at]).collect();
        match near(*name, params, &cases, &right, &wrong) {
            Near::Same(0, _) => None,
            found => Some(found),
        }
    }

    /// The first case in which this row, in place of the right row, disagrees.
    pub(super) fn refutes(&self, at: usize, source: &RowSource, row: &Arc<Row>) -> Option<&str> {
        let facts = facts(source, row);
        if let Some(lost) = self.facts.get(at).and_then(|own| own.iter().find(|fact| !facts.contains(*fact))) {
            return Some(lost);
        }
        let set = RowSet::new(&self.table, [row.clone()], &[]);
        let changed = Some((at, Forms::of([(at, source, &**row)].into_iter())));
        let comparer = Comparer::new(Runner::new(&set, &self.forms, changed));
        let cases = self.of_row.get(&row.op)?;
        cases.iter().map(|at| &self.cases[*at]).find(|case| !comparer.meets(case)).map(|case| case.name.as_str())
    }
}

/// The call forms of a database and of those `downstream`, in this order. A database may list the calls of its rows that
/// one downstream lists as well; then its own forms count, because mutants change these.
fn all_forms(database: &Database, downstream: &[Downstream], set: &RowSet) -> Forms {
    let databases: Vec<&Database> = [database].into_iter().chain(downstream.iter().map(|one| one.database)).collect();
    let mut forms = Forms::default();
    let mut first = 0;
    for database in databases {
        let lowered: Vec<Arc<Row>> = database.rows.iter().filter_map(|row| set.row(row.name())).collect();
        let rows =
            database.rows.iter().zip(&lowered).enumerate().map(|(at, (source, row))| (first + at, source, &**row));
        forms = forms.or(Forms::upstream(&database.calls, set)).with(rows);
        first += lowered.len();
    }
    forms
}

/// Whether the database, or one upstream, has a row that the case calls. Databases share the recorded values.
fn is_known(case: &Case, forms: &Forms, set: &RowSet) -> bool {
    let (row, name) = case.callee();
    if row { !set.candidates(name).is_empty() } else { !forms.rows(name).is_empty() }
}
