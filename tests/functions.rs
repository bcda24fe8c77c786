//! Random functions of a user, run in every way. `PROPTEST_CASES` says how many, `PROPTEST_RNG_SEED` which;
//! `FULGURITE_FUNCTION=1,2,3` runs the one of these words, which a failure prints.

use fulgurite_tests::functions::{draw, ways};
use fulgurite_tests::rng::Rng;
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::cell::Cell;

/// Functions in a run that says nothing else.
const FUNCTIONS: u32 = 2000;
/// Words of a function: its steps and their choices. What comes behind, elements mostly, follows from them.
const WORDS: std::ops::Range<usize> = 1..48;
/// Attempts to make a failing function smaller.
const SHRINKS: u32 = 3000;

#[test]
fn a_function_means_one_thing_however_it_is_run() {
    if let Ok(words) = std::env::var("FULGURITE_FUNCTION") {
        let words: Vec<u64> = words.split(',').filter_map(|word| word.trim().parse().ok()).collect();
        let function = draw::function(&mut Rng::of(&words));
        println!("{:?}", ways::check(&function).unwrap_or_else(|what| panic!("{what}")));
        return;
    }
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let seeded = std::env::var_os("PROPTEST_RNG_SEED").is_some();
    let config = Config::default();
    let cases = if asked { config.cases } else { FUNCTIONS };
    let config = Config { cases, max_shrink_iters: SHRINKS, failure_persistence: None, ..config };
    // the same functions in each run, unless others are asked for
    let mut runner = match seeded {
        true => TestRunner::new(config),
        false => TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32])),
    };
    let counts: [Cell<u32>; 4] = Default::default();
    let done = runner.run(&vec(any::<u64>(), WORDS), |words| {
        let function = draw::function(&mut Rng::of(&words));
        let compared = ways::check(&function).map_err(TestCaseError::fail)?;
        let kinds = [compared.values, compared.gradient, compared.slopes, compared.slice];
        counts.iter().zip(kinds).for_each(|(count, held)| count.set(count.get() + u32::from(held)));
        Ok(())
    });
    match done {
        Ok(()) => {
            let [values, gradients, slopes, slices] = counts.map(|count| count.get());
            println!(
                "{cases} functions: {values} with values, {gradients} with gradients, {slopes} held against differences, {slices} batched"
            );
            // what is never compared holds nothing
            assert!(values * 2 > cases && gradients * 3 > cases && slopes * 10 > cases && slices * 3 > cases);
        }
        Err(TestError::Fail(what, words)) => {
            let words: Vec<String> = words.iter().map(u64::to_string).collect();
            panic!("{what}\nFULGURITE_FUNCTION={} cargo test --test functions", words.join(","));
        }
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}
