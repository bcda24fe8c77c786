//! Checks the derivatives that a point states: `grad: {x: 1}`, `tangent: {x: 1}`.

use std::sync::Arc;

use fulgurite_core::Name;
use fulgurite_core::row::Row;
use fulgurite_core::signature::Refusal;

use super::run::{Ran, Slopes};
use super::{Point, Written, is_stated};
use crate::check::gradients::arrays::dense::Stop;
use crate::check::rows::RowSet;
use crate::diag::Diag;
use crate::source::Place;

/// A kind of derivative: its name in messages, and its computation for an argument.
type Way = (&'static str, fn(&Slopes, usize) -> Result<Option<Vec<f64>>, Stop>);

const GRADIENT: Way = ("gradient", |slopes, at| slopes.of(at).map(Some));
const TANGENT: Way = ("tangent", |slopes, at| slopes.tangent(at));

/// The fault of the first stated derivative that differs from the computed one.
pub fn check(row: &Arc<Row>, set: &RowSet, ran: &Ran, point: &Point) -> Option<Diag> {
    if point.gradients.is_empty() && point.tangents.is_empty() {
        return None;
    }
    let slopes = ran.slopes(set);
    let gradients = point.gradients.iter().map(|stated| (GRADIENT, stated));
    let tangents = point.tangents.iter().map(|stated| (TANGENT, stated));
    gradients.chain(tangents).find_map(|(way, stated)| one(row, set, &slopes, way, stated))
}

fn one(
    row: &Row,
    set: &RowSet,
    slopes: &Slopes,
    (what, find): Way,
    (name, stated, place): &(Name, Written, Place),
) -> Option<Diag> {
    let at = row.sig.params.iter().position(|param| param.name.name == *name)?;
    let error = |says: &str| Diag::error("E301", *place, format!("the {what} of `{}` for `{name}` {says}", row.op));
    let found = match find(slopes, at) {
        Ok(Some(found)) => found,
        Ok(None) => {
            let diag = error("is that of its gradient").note(format!("the row has no `jvp` for `{name}`"));
            return Some(diag.help("write what `grad` is at the point"));
        }
        Err(Stop::Refused(refusal)) if set.may_hide(&refusal) => return None,
        Err(Stop::TooLong(why)) => {
            let diag = error("can't be found while checking").note(why);
            return Some(diag.help("delete it from the point, or make the sizes of the point small"));
        }
        Err(Stop::Refused(Refusal { message: why, .. }) | Stop::Data(why)) => {
            let diag = error("has no value, though the row has one").note(why);
            return Some(
                diag.help("mend the rule (`explain` shows it) or the body: its gradient refuses what the row takes"),
            );
        }
    };
    let Some(wanted) = stated.tree.numbers() else { return Some(error("is no list of numbers")) };
    let wanted: Vec<f64> = wanted.iter().map(|s| s.as_f64()).collect();
    let agrees = found.len() == wanted.len() && found.iter().zip(&wanted).all(|(a, b)| is_stated(*a, *b));
    (!agrees).then(|| {
        let shown = found.iter().map(|x| format!("{x}")).collect::<Vec<_>>().join(", ");
        error("is not what its `points` says")
            .here(format!("it is {shown}"))
            .help("mend the rule or the convention, or the point")
    })
}
