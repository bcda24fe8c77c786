//! Random functions of a user, run in every way. `PROPTEST_CASES` says how many, `PROPTEST_RNG_SEED` draws others; a
//! failure prints the line that repeats it ([`fulgurite_tests::draws`]).

use fulgurite_tests::draws::{self, Property, Verdict};
use fulgurite_tests::functions::{draw, ways};
use std::cell::Cell;

/// Functions in a run that says nothing else.
const FUNCTIONS: usize = 1500;

#[test]
fn a_function_means_one_thing_however_it_is_run() {
    let name = "a_function_means_one_thing_however_it_is_run";
    let property = Property { name, test: "--test functions", cases: FUNCTIONS, shrinks: true };
    let counts: [Cell<usize>; 5] = Default::default();
    let held = draws::hold(
        &property,
        |_, rng| Some(draw::function(rng)),
        |function, _| {
            let compared = ways::check(function)?;
            let kinds = [compared.values, compared.gradient, compared.slopes, compared.slice, compared.moved];
            counts.iter().zip(kinds).for_each(|(count, held)| count.set(count.get() + usize::from(held)));
            Ok(Verdict::Held)
        },
    );
    let held = held.unwrap_or_else(|fault| panic!("{fault}"));
    let [values, gradients, slopes, slices, moved] = counts.map(|count| count.get());
    if let Some(draws::Counts { asked, .. }) = held {
        println!(
            "{asked} functions: {values} with values, {gradients} with gradients, {slopes} held against differences, \
             {slices} batched, {moved} as near as roundings move them"
        );
        // what is never compared, or with whatever roundings make of it, holds nothing
        assert!(moved * 4 < asked);
        assert!(values * 2 > asked && gradients * 3 > asked && slopes * 10 > asked && slices * 3 > asked);
    }
}
