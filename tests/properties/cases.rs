//! Checks properties on drawn calls of a row.

use fulgurite_tests::calls::{self, Call, Wish};
use fulgurite_tests::draws::{self, Counts, Property};
use fulgurite_tests::rng::Rng;
use fulgurite_tests::rows::TestRow;
use libtest_mimic::Failed;
use std::fmt::Display;

pub use fulgurite_tests::draws::Verdict;

/// A property draws a third of its calls for a row of a database of other libraries' operators, to save time.
const IMPORTS: usize = 3;
/// A property that draws fewer calls than this draws all of them for such a row too.
const MANY: usize = 12;

/// Checks `count` calls of a row. Fails with the smallest call found for which `check` fails, or if more than half of
/// the cases were discarded.
pub fn each(
    row: &TestRow,
    test: &str,
    count: usize,
    wish: impl Fn(usize) -> Wish,
    check: impl Fn(&Call, &mut Rng) -> Result<Verdict, String>,
) -> Result<(), Failed> {
    let step = if row.imports && count >= MANY { IMPORTS } else { 1 };
    of(test, count.div_ceil(step), |case, rng| calls::generate(row, &wish(case * step), rng), check)
}

/// Checks `count` values of any generator, as [`each`] checks calls.
pub fn of<T: Display>(
    test: &str,
    count: usize,
    make: impl Fn(usize, &mut Rng) -> Option<T>,
    check: impl Fn(&T, &mut Rng) -> Result<Verdict, String>,
) -> Result<(), Failed> {
    Ok(hold(test, count, make, check)?.map_or(Ok(()), Counts::enough)?)
}

/// Checks the cases without a limit on discarded ones, and returns the counts. Returns `None` if one case was selected
/// by its words.
pub fn hold<T: Display>(
    test: &str,
    count: usize,
    make: impl Fn(usize, &mut Rng) -> Option<T>,
    check: impl Fn(&T, &mut Rng) -> Result<Verdict, String>,
) -> Result<Option<Counts>, String> {
    let property =
        Property { name: test, test: concat!("--test ", env!("CARGO_CRATE_NAME")), cases: count, shrinks: true };
    draws::hold(&property, make, check)
}
