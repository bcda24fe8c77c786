//! Search for calls that take branches which no usual call takes.

use fulgurite_core::DType;
use fulgurite_core::row::Row;

use crate::check::branches::{Id, Ids};
use crate::check::cases::{self, Case};

/// Conclusive calls that are enough for a branch, and inconclusive ones after which its search ends.
const ENOUGH: usize = 2;
const MUTE: usize = 2;

/// At most this many elements per call, because larger calls are too slow to run while checking.
pub const MOST_ELEMENTS: usize = 1 << 12;

/// The largest size in the calls of a search.
const LARGEST: i64 = 4096;

/// Result of a search.
#[derive(Default)]
pub struct Found {
    /// Conclusive calls.
    pub cases: Vec<Case>,
    /// The branches that these calls take.
    pub taken: Ids,
    /// The branches that inconclusive calls take.
    pub mute: Ids,
}

/// Calls of `row` with `T` of `dtype` that take branches of `missing`: calls of `first`, then of up to `tries`
/// others. `taken` gives the branches that a call takes. `counts` says whether a call is conclusive, so that a check
/// can judge it.
pub fn search(
    row: &Row,
    dtype: DType,
    first: &mut dyn Iterator<Item = Case>,
    tries: usize,
    missing: &Ids,
    taken: &dyn Fn(&Case) -> Ids,
    counts: &dyn Fn(&Case) -> bool,
) -> Found {
    let mut found = Found::default();
    let mut open: Vec<(Id, usize, usize)> = missing.iter().map(|id| (*id, ENOUGH, MUTE)).collect();
    for case in first.chain(cases::more(row, dtype, tries, LARGEST)) {
        open.retain(|(_, told, mute)| *told > 0 && *mute > 0);
        if open.is_empty() {
            break;
        }
        if case.numel() > MOST_ELEMENTS || case.results() > 4 * MOST_ELEMENTS {
            continue;
        }
        let takes = taken(&case);
        let mut new = open.iter_mut().filter(|(id, ..)| takes.contains(id)).peekable();
        if new.peek().is_none() {
            continue;
        }
        let tells = counts(&case);
        for (id, told, mute) in new {
            let (left, ids) = if tells { (told, &mut found.taken) } else { (mute, &mut found.mute) };
            *left -= 1;
            ids.insert(*id);
        }
        if tells {
            found.cases.push(case);
        }
    }
    found
}
