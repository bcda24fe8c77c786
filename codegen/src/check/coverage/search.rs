//! Calls that take branches which no usual call takes.

use fulgurite_core::DType;
use fulgurite_core::row::Row;

use crate::check::branches::{Id, Ids};
use crate::check::cases::{self, Case};

/// For each branch so many calls are enough, and so many of which nothing can be told.
const ENOUGH: usize = 2;
const MUTE: usize = 2;

/// Calls with more elements are too large to be run while checking.
pub const MOST_ELEMENTS: usize = 1 << 12;

/// No size of those is larger.
const LARGEST: i64 = 4096;

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
