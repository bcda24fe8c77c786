//! E109: every row can be batched.

use fulgurite_core::batch;
use fulgurite_core::row::{Meaning, Row};

use super::report;
use crate::diag::Diag;
use crate::schema::RowSource;

/// The fault of a row that has no batched form.
pub fn check(source: &RowSource, row: &Row) -> Option<Diag> {
    let why = batch::way(row).err()?;
    let place = match report::body(source) {
        Some((_, body)) if why.inside => body.at(why.span),
        _ => source.sig.text.at(why.span),
    };
    let message = format!("no batched form of `{}` can be derived", source.op.as_str());
    let diag = Diag::error("E109", place, message).here(why.reason);
    Some(diag.help(match &row.meaning {
        Meaning::Host(_) => {
            "start every tensor with one list of axes, and let an option name the axis: `T[..P, N@dim, ..Q]`"
        }
        _ if row.sig.params.iter().any(|p| p.name.name == why.of && batch::is_key(p)) => {
            "draw at `ravel(s)` of a list of axes, or count indices of the results' axes, `n` or `b * C + c`: then every \
             slice has positions of its own; what a reduction reads is drawn in a row whose result has the reduced axes"
        }
        _ => "give it brackets: beside an argument with axes of its own nothing broadcasts",
    }))
}
