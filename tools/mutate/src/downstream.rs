//! Databases downstream of the mutated one. Their rows call its rows, so their points and their recorded values are
//! evidence against wrong rows of it.

use std::sync::Arc;

use fulgurite_codegen::check::rows::{self, RowSet};
use fulgurite_codegen::check::{self, Checked, closure, walk};
use fulgurite_codegen::diag::{Diagnostics, Level};
use fulgurite_codegen::pipeline::Table;
use fulgurite_codegen::schema::{Database, RowSource};
use fulgurite_core::Name;
use fulgurite_core::lang::Node;
use fulgurite_core::lower::Rows;
use fulgurite_core::row::Row;
use rustc_hash::{FxHashMap, FxHashSet};

/// A database without faults, downstream of the mutated one.
pub(super) struct Downstream<'a> {
    pub(super) database: &'a Database,
    /// For each row upstream, the rows of this database that call it, directly or not.
    callers: FxHashMap<Name, FxHashSet<Name>>,
}

impl<'a> Downstream<'a> {
    /// The database with its `checked` rows, which it also adds to `table`, the rows upstream of it.
    pub(super) fn new(database: &'a Database, checked: &Checked, table: &mut Table) -> Downstream<'a> {
        let own: Vec<Arc<Row>> = RowSet::new(table, checked.rows.iter().cloned(), &[]).own().cloned().collect();
        own.into_iter().for_each(|row| table.insert(row));
        let set = RowSet::new(table, [], &[]);
        let mut callers: FxHashMap<Name, FxHashSet<Name>> = FxHashMap::default();
        for caller in database.rows.iter().map(RowSource::name) {
            for called in reach(caller, &set) {
                callers.entry(called).or_default().insert(caller);
            }
        }
        Downstream { database, callers }
    }

    /// The error that `check` reports about this database if it uses `row` in the place of the row of that name in
    /// `table`, with the caller that has the error.
    pub(super) fn refutes(&self, row: &Arc<Row>, table: &Table) -> Option<String> {
        let callers = self.callers.get(&row.op)?;
        let mut table = table.clone();
        table.insert(row.clone());
        let mut diags = Diagnostics::new();
        check::some(self.database, &table, callers, &mut diags);
        let error = diags.sorted().into_iter().find(|diag| diag.level == Level::Error)?;
        let caller = self.database.rows.iter().find(|row| row.holds(error.primary.place));
        let of = caller.map_or(String::new(), |caller| format!(" of `{}`", caller.op.as_str()));
        Some(format!("{}{of}", error.code))
    }
}

/// The row, and all rows that its bodies and rules call, directly or not.
pub(super) fn reach(root: Name, set: &RowSet) -> FxHashSet<Name> {
    let mut all = FxHashSet::default();
    let mut open = vec![root];
    while let Some(name) = open.pop() {
        let Some(row) = set.row(name) else { continue };
        if !all.insert(name) {
            continue;
        }
        let mut calls: Vec<Name> = closure::calls(&row).into_iter().map(|call| call.op).collect();
        for (_, rule) in row.vjp.iter().chain(&row.jvp) {
            walk::block(rule, &mut |e| {
                if let Node::Call(f, _) = &*e.node {
                    calls.push(f.name);
                }
            });
        }
        for call in calls {
            // `conv.vjp.x` is derived from `conv`.
            let named = call.as_str().split(".vjp.").next().map_or(call, Name::new);
            open.extend(set.candidates(rows::base(named).unwrap_or(named)).iter().map(|row| row.op));
        }
    }
    all
}
