//! Checks E007, E305 and E414 for other libraries' calls of upstream rows.

use fulgurite_core::Name;
use fulgurite_core::lower::Rows;

use super::aliases::{self, Called};
use super::names;
use super::recorded::{self, Forms};
use super::rows::RowSet;
use crate::diag::Diag;
use crate::nearest::near;
use crate::parallel;
use crate::schema::{Calls, Database, Rule};
use crate::yaml::Text;

/// The faults of other libraries' calls: rows that no upstream database has, forms that do not fit the row or PyTorch's
/// signature, and values that differ from PyTorch's.
pub fn check(db: &Database, set: &RowSet, forms: &Forms) -> Vec<Diag> {
    parallel::map(&db.calls, |calls| of_row(calls, set, forms)).into_iter().flatten().collect()
}

fn of_row(calls: &Calls, set: &RowSet, forms: &Forms) -> Vec<Diag> {
    let op = calls.op.as_str();
    let Some(row) = set.row(Name::new(op)) else {
        let diag = Diag::error("E007", calls.op.place, format!("no database upstream has a row `{op}`"));
        return vec![match near(op, set.names().iter().map(|name| name.as_str())).first() {
            Some(near) => diag.help(format!("did you mean `{near}`?")),
            None => diag.help("each key is the name of a row, which an overload has in full: `matmul.mv`"),
        }];
    };
    // The signature stands in another file, so a fault in it is shown at the row's name.
    let sig = Rule { tree: row.sig.clone(), text: Text::made(row.sig.to_string(), calls.op.place) };
    let mut faults = names::libraries(op, &calls.aliases);
    if faults.is_empty() {
        faults = aliases::check_forms(&Called { op, sig: &sig, aliases: &calls.aliases });
    }
    if faults.is_empty() {
        faults = recorded::check_calls(calls, &row, set, forms);
    }
    faults
}
