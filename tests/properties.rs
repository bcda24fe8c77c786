//! Every row × every property: tests that nobody writes when a row is added.
//!
//! Each is named `row::property`, so `cargo test --test properties softmax::` runs those of a row; `Class.row::property`
//! is one of a row on a tensor subclass. A failure prints the smallest failing call that was found and the line that
//! repeats it; calls are drawn anew with `PROPTEST_RNG_SEED=1`, and more of them with `PROPTEST_CASES=200`
//! ([`fulgurite_tests::draws`]).

#[path = "properties/alive.rs"]
mod alive;
#[path = "properties/batching.rs"]
mod batching;
#[path = "properties/cases.rs"]
mod cases;
#[path = "properties/derivatives.rs"]
mod derivatives;
#[path = "properties/determinism.rs"]
mod determinism;
#[path = "properties/fallbacks.rs"]
mod fallbacks;
#[path = "properties/halves.rs"]
mod halves;
#[path = "properties/higher.rs"]
mod higher;
#[path = "properties/late.rs"]
mod late;
#[path = "properties/layout.rs"]
mod layout;
#[path = "properties/meaning.rs"]
mod meaning;
#[path = "properties/numbers.rs"]
mod numbers;
#[path = "properties/orders.rs"]
mod orders;
#[path = "properties/points.rs"]
mod points;
#[path = "properties/refusals.rs"]
mod refusals;
#[path = "properties/symbolic.rs"]
mod symbolic;
#[path = "properties/types.rs"]
mod types;
#[path = "properties/weak.rs"]
mod weak;
#[path = "properties/writes.rs"]
mod writes;

use fulgurite_tests::rows::{TestRow, rows};
use libtest_mimic::{Arguments, Failed, Trial};

/// A property of rows.
struct Property {
    /// The second half of the test's name.
    name: &'static str,
    /// Whether it says anything about this row.
    applies: fn(&TestRow) -> bool,
    /// Holds it; told the name of the test.
    check: fn(&'static TestRow, &str) -> Result<(), Failed>,
}

const PROPERTIES: &[Property] = &[
    Property { name: "p01_executors_give_the_meaning", applies: every, check: meaning::executors },
    Property { name: "p02_meta_is_what_runs", applies: every, check: types::meta },
    Property { name: "p03_dtypes_promote", applies: types::promotes, check: types::promotion },
    Property { name: "p04_vjp_is_the_derivative", applies: derivatives::applies, check: derivatives::vjp },
    Property { name: "p05_jvp_is_the_transpose", applies: derivatives::has_f64, check: derivatives::transpose },
    Property { name: "p07_second_derivative", applies: higher::applies, check: higher::second },
    Property { name: "p20_third_derivative", applies: higher::applies, check: higher::third },
    Property { name: "p08_vjp_is_linear", applies: derivatives::has_f64, check: derivatives::linear },
    Property { name: "p09_broadcasting_is_undone", applies: derivatives::broadcasts, check: derivatives::broadcast },
    Property { name: "p10_special_points", applies: points::applies, check: points::check },
    Property { name: "p11_refusals", applies: every, check: refusals::check },
    Property { name: "p12_same_bits", applies: every, check: determinism::check },
    Property { name: "p13_layouts", applies: layout::applies, check: layout::check },
    Property { name: "p15_in_place_is_functional", applies: writes::applies, check: writes::check },
    Property { name: "p17_symbolic_sizes", applies: every, check: symbolic::sizes },
    Property { name: "p21_halves_round_once", applies: halves::applies, check: halves::check },
    Property { name: "p22_weaker_arguments", applies: weak::applies, check: weak::check },
    Property { name: "p23_numbers_too_large", applies: numbers::applies, check: numbers::check },
    Property { name: "p24_late_numbers", applies: late::applies, check: late::check },
    Property { name: "p19_gradients_are_of_the_same_order", applies: orders::applies, check: orders::check },
    Property { name: "p14_batches_are_slices", applies: batching::applies, check: batching::check },
    Property { name: "p16_refusals_are_alive", applies: alive::applies, check: alive::check },
    Property { name: "p14_derivatives_of_batches", applies: derivatives::applies, check: batching::derivatives },
];

fn every(_: &TestRow) -> bool {
    true
}

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for row in &rows().source {
        for property in PROPERTIES.iter().filter(|p| (p.applies)(row)) {
            let name = format!("{}::{}", row.row.op, property.name);
            trials.push(Trial::test(name.clone(), move || (property.check)(row, &name)));
        }
    }
    for law in fulgurite_tests::classes::laws(&|_| true) {
        trials.push(Trial::test(law.name.clone(), move || law.of("--test properties").check().map_err(Failed::from)));
    }
    trials.extend(meaning::other_instruction_sets());
    trials.push(fallbacks::trial());
    libtest_mimic::run(&arguments, trials).exit();
}
