//! E009: every branch of a meaning is taken by some call. For branches that no call of the family takes, other calls
//! are searched, so that the checks see these branches as well.

use std::sync::Arc;

use fulgurite_core::DType;
use fulgurite_core::lang::Block;
use fulgurite_core::row::{Meaning, Row};

use super::of_index;
use crate::check::branches::{self, Branch, Ids, id, needless, of_all};
use crate::check::cases::{self, Case, Family};
use crate::check::machine::Types;
use crate::check::report::Rule;
use crate::check::rows::RowSet;
use crate::check::{dtypes, walk};
use crate::diag::Diag;

/// Attempts with sizes and numbers near those of the text, after those with each combination of words.
const TRIES: usize = 400;

/// The largest size in these calls. Nothing is run on them, so only their types need room.
const LARGEST: i64 = 1 << 20;

/// The branches of a meaning that no call has taken so far.
pub struct Open {
    left: Vec<Branch>,
}

impl Open {
    /// All branches of the meaning of `row`.
    pub fn new(row: &Row) -> Open {
        let body = walk::body(row).filter(|body| branches::any(body));
        Open { left: body.map(|body| of_all(row, body)).unwrap_or_default() }
    }

    /// Removes the branches that were taken.
    pub fn took(&mut self, taken: &Ids) {
        if !self.left.is_empty() {
            self.left.retain(|branch| !taken.contains(&branch.id));
        }
    }

    /// Removes the branches that the loops of a call contain.
    pub fn index(&mut self, body: &Block, case: &Case) {
        if !self.left.is_empty() {
            let mut taken = Ids::default();
            of_index(body, &case.solved.env, &mut |branch| _ = taken.insert(id(branch)));
            self.took(&taken);
        }
    }

    /// Removes all branches. A call stopped at the fault of another row, so nothing is known of the branches beyond
    /// it.
    pub fn close(&mut self) {
        self.left.clear();
    }

    /// Calls that take remaining branches: calls of `family`, of `points`, then others.
    pub fn search(
        &mut self,
        row: &Arc<Row>,
        rows: &RowSet,
        dtype: DType,
        family: &Family,
        points: &dyn Fn() -> Vec<Case>,
    ) -> Vec<Case> {
        if self.left.is_empty() {
            return Vec::new();
        }
        let known = family.cases.iter().cloned().chain(points());
        let mut found = self.of(row, rows, known.chain(cases::each(row, dtype)));
        // only arms for words that the row refuses remain
        if self.first().is_none() {
            return found;
        }
        // dtypes decide about branches as well
        let forms = std::iter::once_with(|| dtypes::calls(row, family)).flatten();
        let forms = forms.filter_map(|args| Case::of(row, args));
        found.extend(self.of(row, rows, cases::more(row, dtype, TRIES, LARGEST).chain(forms)));
        found
    }

    /// The calls among `calls` that take a remaining branch.
    fn of(&mut self, row: &Arc<Row>, rows: &RowSet, calls: impl Iterator<Item = Case>) -> Vec<Case> {
        let mut found = Vec::new();
        for case in calls {
            let before = self.left.len();
            match &row.meaning {
                Meaning::Expr(body) | Meaning::View(body) => self.index(body, &case),
                Meaning::Decomp(body) => {
                    let mut types = Types::new(rows);
                    // a refused call has taken the branches up to its refusal
                    _ = types.run(row, body, &case.solved, &case.args, &[]);
                    self.took(&types.taken);
                }
                Meaning::Host(_) => {}
            }
            if self.left.len() < before {
                found.push(case);
            }
            if self.left.is_empty() {
                break;
            }
        }
        found
    }

    fn first(&self) -> Option<&Branch> {
        needless(&self.left.iter().collect::<Vec<_>>())
    }

    /// Reports the first remaining branch that can be deleted.
    pub fn refuse(&self, rule: &Rule) -> Option<Diag> {
        let branch = self.first()?;
        let claim = format!("{} has a branch that no call takes", rule.name());
        let diag = Diag::error("E009", rule.text.at(branch.span), claim);
        let (here, help) = match branch.finite {
            true => ("none of its options, and no rank, leads here", "delete it, or mend its condition"),
            false => (
                "none that was tried comes here",
                "delete it, or mend its condition; if there is a call that comes here, state it in `tests: points`",
            ),
        };
        Some(diag.here(here).help(help))
    }
}
