//! Witness search: finds a call that distinguishes a wrong row from the right one, which the row's points lack.
//!
//! Calls are drawn near those of both rows' families (`calls`), with data at ties, at extreme numbers and in between
//! (`data`). Rows differ if one refuses a call that the other accepts, in types, in values, or in gradients. A
//! witness is written as a point of the right row (`point`). An unsuccessful search proves nothing.

mod calls;
mod data;
pub(super) mod point;
mod simple;

use std::sync::Arc;

use fulgurite_codegen::check::gradients::arrays::dense::{Stop, V};
use fulgurite_codegen::check::gradients::arrays::numbers::Numbers;
use fulgurite_codegen::check::points::{self, run::Ran};
use fulgurite_codegen::check::rows::{RowSet, ty};
use fulgurite_core::Value;
use fulgurite_core::eval::loop_nest::Data;
use fulgurite_core::lower::Rows;
use fulgurite_core::row::Row;
use fulgurite_core::signature::{self, ArgTy, OutTy};

/// At most this many calls are compared by their types, because each signature is solved twice.
const MOST_TYPES: usize = 12_000;

/// At most this many calls are run on data, because each runs both rows.
const MOST_RUNS: usize = 400;

/// At most this many calls of these have their gradients compared, because gradients cost several runs.
const MOST_SLOPES: usize = 60;

/// At most this many elements of a call that is run, because each element is evaluated.
const MOST_ELEMENTS: usize = 300;

/// The number of witnesses from which the shortest is taken.
const ENOUGH: usize = 6;

/// A call with data.
type Call = Vec<Value<V<f64>>>;

/// The result of a search.
pub enum Found {
    /// A point of the right row that the wrong one does not meet; `None` if a point cannot express the call.
    Point(Option<String>),
    /// No difference was found.
    Nothing {
        /// Calls that were compared by their types.
        typed: usize,
        /// The accepted ones among them.
        accepted: usize,
        /// Calls that were run.
        ran: usize,
    },
}

/// Searches for a call on which the rows differ. Their arguments must have equal names.
pub fn search(right: &Arc<Row>, wrong: &Arc<Row>, rows: &(dyn Rows + Sync)) -> Found {
    let (own, other) = (RowSet::new(rows, [], &[]), RowSet::new(rows, [wrong.clone()], &[]));
    let compare = Compare { right, wrong, own: &own, other: &other };
    let mut numbers = Numbers::new(17);
    let mut found: Vec<Call> = Vec::new();
    let bases = calls::bases(right, wrong);
    let (mut typed, mut accepted, mut ran) = (0, 0, 0);
    let mut runnable: Vec<Vec<Value<ArgTy>>> = Vec::new();
    for n in 0..if bases.is_empty() { 0 } else { MOST_TYPES } {
        let mut call = bases[n % bases.len()].clone();
        for _ in 0..(n / bases.len()).min(1 + n % 3) {
            calls::change(right, &mut call, &mut numbers);
        }
        typed += 1;
        let (a, b) = (signature::solve(right, &call, &ty), signature::solve(wrong, &call, &ty));
        match (a, b) {
            (Err(_), Err(_)) => continue,
            (Ok(a), Ok(b)) if shown(&a.outs) == shown(&b.outs) => {
                accepted += 1;
                if calls::numel(&call) <= MOST_ELEMENTS {
                    runnable.push(call);
                }
            }
            // The body may refuse a call that the signature accepts.
            _ => {
                accepted += 1;
                let filled = data::fill(&call, n, &mut numbers);
                if compare.differ(&filled, false).is_some() {
                    found.push(filled);
                }
                if found.len() >= ENOUGH {
                    break;
                }
            }
        }
    }
    for n in 0..if found.is_empty() && !runnable.is_empty() { MOST_RUNS } else { 0 } {
        let call = &runnable[calls::below(&mut numbers, runnable.len())];
        ran += 1;
        let filled = data::fill(call, n, &mut numbers);
        if compare.differ(&filled, n < MOST_SLOPES).is_some() {
            found.push(filled);
        }
        if found.len() >= ENOUGH {
            break;
        }
    }
    if found.is_empty() {
        return Found::Nothing { typed, accepted, ran };
    }
    let points = found.into_iter().filter_map(|call| {
        let call = simple::shrink(right, call, &mut |call| compare.differ(call, true).is_some());
        compare.differ(&call, true).flatten()
    });
    Found::Point(points.min_by_key(String::len))
}

fn shown(outs: &[OutTy]) -> String {
    format!("{outs:?}")
}

struct Compare<'a> {
    right: &'a Arc<Row>,
    wrong: &'a Arc<Row>,
    own: &'a RowSet<'a>,
    other: &'a RowSet<'a>,
}

impl Compare<'_> {
    /// A point for the call, if the rows differ on it; the inner `None` means that a point cannot express it.
    fn differ(&self, call: &Call, slopes: bool) -> Option<Option<String>> {
        let (a, b) = (Ran::new(self.right, call.clone(), self.own), Ran::new(self.wrong, call.clone(), self.other));
        match (a, b) {
            (Err(Stop::TooLong(_)), _) | (_, Err(Stop::TooLong(_))) | (Err(_), Err(_)) => None,
            (Err(_), Ok(_)) => Some(point::refused(self.right, call)),
            (Ok(a), Err(_)) => Some(point::accepted(self.right, call, &a.results, &[])),
            (Ok(a), Ok(b)) if !same(&a.results, &b.results, self.right.sig.outs.len()) => {
                Some(point::accepted(self.right, call, &a.results, &[]))
            }
            (Ok(a), Ok(b)) if slopes && self.right.no_grad.is_none() => {
                let (own, other) = (a.slopes(self.own), b.slopes(self.other));
                (0..self.right.sig.params.len()).find_map(|at| {
                    let (own, other) = (own.of(at).ok()?, other.of(at).ok()?);
                    let equal = own.len() == other.len() && own.iter().zip(&other).all(|(a, b)| close(*a, *b));
                    let name = self.right.sig.params[at].name.name;
                    (!equal).then(|| point::accepted(self.right, call, &a.results, &[(name, own)]))
                })
            }
            _ => None,
        }
    }
}

/// Whether a point that states one of the numbers accepts the other.
fn close(a: f64, b: f64) -> bool {
    points::close(a, b) || points::close(a, 0.0) && points::close(b, 0.0)
}

/// Whether results are equal in type, and in value within the precision of points.
fn same(a: &[Value<V<f64>>], b: &[Value<V<f64>>], outs: usize) -> bool {
    let arrays = |values: &[Value<V<f64>>]| {
        let mut all = Vec::new();
        values.iter().take(outs).for_each(|value| {
            value.for_each(&mut |v| {
                if let V::Array(a) = v {
                    all.push(a.clone());
                }
            });
        });
        all
    };
    let (a, b) = (arrays(a), arrays(b));
    a.len() == b.len()
        && a.iter().zip(&b).all(|(a, b)| {
            a.dtype == b.dtype
                && a.shape == b.shape
                && match (&a.data, &b.data) {
                    (Data::Float(a), Data::Float(b)) => a.iter().zip(b).all(|(a, b)| close(*a, *b)),
                    (a, b) => a == b,
                }
        })
}
