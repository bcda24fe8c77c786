//! Random functions of a user, run in every way: 2,000 in a run that says nothing else. `PROPTEST_CASES` says how many of
//! each kind, `PROPTEST_RNG_SEED` draws others; a failure prints the line that repeats it ([`fulgurite_tests::draws`]).

use fulgurite_core::DType;
use fulgurite_tests::draws::{self, Counts, Property, Verdict};
use fulgurite_tests::functions::{draw, ways};
use std::cell::Cell;

/// Holds the property of `cases` functions with such floats. How many were asked, and how many gradients of these were held
/// against differences; nothing where a single one was asked for.
fn hold(name: &'static str, cases: usize, floats: &[&'static [DType]]) -> Option<(usize, usize)> {
    let property = Property { name, test: "--test functions", cases, shrinks: true };
    let counts: [Cell<usize>; 5] = Default::default();
    let held = draws::hold(
        &property,
        |_, rng| Some(draw::function(floats, rng)),
        |function, _| {
            let compared = ways::check(function)?;
            let kinds = [compared.values, compared.gradient, compared.slopes, compared.slice, compared.moved];
            counts.iter().zip(kinds).for_each(|(count, held)| count.set(count.get() + usize::from(held)));
            Ok(Verdict::Held)
        },
    );
    let Counts { asked: all, .. } = held.unwrap_or_else(|fault| panic!("{fault}"))?;
    let [values, gradients, slopes, slices, moved] = counts.map(|count| count.get());
    println!(
        "{all} functions: {values} with values, {gradients} with gradients, {slopes} held against differences, {slices} \
         batched, {moved} as near as roundings move them"
    );
    // a property that compares nothing, or allows most functions what roundings do to them, holds nothing
    assert!(values * 2 > all && gradients * 3 > all && slices * 3 > all && moved * 4 < all);
    Some((all, slopes))
}

#[test]
fn a_function_of_f64_means_one_thing_however_it_is_run() {
    let name = "a_function_of_f64_means_one_thing_however_it_is_run";
    let counts = hold(name, 1200, draw::DOUBLE);
    assert!(counts.is_none_or(|(all, slopes)| slopes * 4 > all));
}

#[test]
fn a_function_of_several_types_means_one_thing_however_it_is_run() {
    hold("a_function_of_several_types_means_one_thing_however_it_is_run", 800, draw::MIXED);
}
