//! Calls that take branches which no usual call takes.

use fulgurite_core::DType;
use fulgurite_core::row::Row;

use super::{Id, Ids};
use crate::check::cases::{self, Case};

/// For each branch so many calls are enough.
const ENOUGH: usize = 2;

/// Calls with more elements are too large to be run while checking.
pub const MOST_ELEMENTS: usize = 1 << 12;

/// What a search finds.
#[derive(Default)]
pub struct Found {
    /// Calls of which something can be told.
    pub cases: Vec<Case>,
    /// The branches that they take.
    pub taken: Ids,
    /// Those that other calls take.
    pub mute: Ids,
}

/// Calls of `row` that take branches of `missing`, where `T` is of `dtype`: of `first`, then of up to `tries` others. `taken`
/// says which branches a call takes, `counts` whether anything can be told of it.
pub fn search(
    row: &Row,
    dtype: DType,
    first: Vec<Case>,
    tries: usize,
    missing: &Ids,
    taken: &dyn Fn(&Case) -> Ids,
    counts: &dyn Fn(&Case) -> bool,
) -> Found {
    let mut found = Found::default();
    let mut met: Vec<(Id, usize)> = missing.iter().map(|id| (*id, 0)).collect();
    for case in first.into_iter().chain(cases::more(row, dtype, tries)) {
        if met.iter().all(|(_, n)| *n >= ENOUGH) {
            break;
        }
        if case.numel() > MOST_ELEMENTS {
            continue;
        }
        let takes = taken(&case);
        let new: Vec<&mut (Id, usize)> = met.iter_mut().filter(|(id, n)| *n < ENOUGH && takes.contains(id)).collect();
        if new.is_empty() {
            continue;
        }
        let told = counts(&case);
        for (id, n) in new {
            *n += usize::from(told);
            if told { &mut found.taken } else { &mut found.mute }.insert(*id);
        }
        if told {
            found.cases.push(case);
        }
    }
    found
}
