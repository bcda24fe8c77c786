//! Random programs of several lines on the cpu executor ([`fulgurite_tests::draws`]).

use fulgurite_tests::draws::{self, Property, Verdict};
use fulgurite_tests::layers::RandomLayers;
use fulgurite_tests::products::RandomProducts;
use fulgurite_tests::programs::Random;
use std::cell::Cell;
use std::sync::Arc;

const PROGRAMS: usize = 400;

/// Programs of products, which take longer.
const PRODUCTS: usize = 100;

/// Networks, which run in many ways.
const NETWORKS: usize = 40;

/// Programs that Miri runs in some minutes.
const SMALL_PROGRAMS: usize = 10;

fn agree(name: &str, cases: usize, sizes: &[usize]) {
    let property = Property { name, test: "--test programs", cases, shrinks: true };
    let held = draws::hold(
        &property,
        |_, rng| Some(Random::draw(rng, sizes)),
        |program, _| program.agrees("cpu").map(|()| Verdict::Held),
    );
    held.unwrap_or_else(|fault| panic!("{fault}"));
}

#[test]
fn fused_programs_give_what_their_lines_give() {
    agree("fused_programs_give_what_their_lines_give", PROGRAMS, &[1, 2, 3, 5, 33]);
}

/// Programs of products in blocks of rows. Half of them or more must have a step that runs so.
fn products_agree(name: &str, cases: usize, (sizes, inner, lines): (&[usize], &[usize], usize)) {
    let property = Property { name, test: "--test programs", cases, shrinks: true };
    let blocks = Cell::new(0);
    let held = draws::hold(
        &property,
        |_, rng| Some(RandomProducts::draw(rng, sizes, inner, lines)),
        |program, _| {
            blocks.set(blocks.get() + usize::from(program.agrees()? > 0));
            Ok(Verdict::Held)
        },
    );
    let counts = held.unwrap_or_else(|fault| panic!("{fault}"));
    let (blocks, cases) = (blocks.get(), counts.map_or(0, |counts| counts.asked));
    assert!(2 * blocks >= cases, "{blocks} of {cases} programs run in blocks of rows");
}

/// The sizes make several blocks of a thread, blocks that are shorter than others, and work for several threads.
#[test]
fn products_in_blocks_of_rows_give_exact_results() {
    let name = "products_in_blocks_of_rows_give_exact_results";
    products_agree(name, PRODUCTS, (&[64, 16, 40, 33, 100, 136], &[16, 1, 3, 20], 12));
}

#[test]
fn networks_give_exact_results_in_every_way() {
    let name = "networks_give_exact_results_in_every_way";
    let property = Property { name, test: "--test programs", cases: NETWORKS, shrinks: true };
    let held = draws::hold(
        &property,
        |_, rng| Some(Arc::new(RandomLayers::draw(rng, 8))),
        |network, _| network.agrees().map(|()| Verdict::Held),
    );
    held.unwrap_or_else(|fault| panic!("{fault}"));
}

#[test]
#[ignore = "Miri runs it: docs/reliability.md"]
fn small_products_in_blocks_of_rows_give_exact_results() {
    let name = "small_products_in_blocks_of_rows_give_exact_results";
    products_agree(name, SMALL_PROGRAMS, (&[16, 33], &[1, 3], 4));
}

#[test]
#[ignore = "Miri runs it: docs/reliability.md"]
fn small_programs_give_what_their_lines_give() {
    agree("small_programs_give_what_their_lines_give", SMALL_PROGRAMS, &[1, 2, 3]);
}
