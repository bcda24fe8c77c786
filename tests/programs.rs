//! Random programs of several lines on the cpu executor. The seed of a failing program is in its message;
//! `FULGURITE_PROGRAMS=N` runs more of them.

use fulgurite_tests::programs::compare;

const PROGRAMS: u64 = 400;

#[test]
fn fused_programs_give_what_their_lines_give() {
    let count = std::env::var("FULGURITE_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(PROGRAMS);
    let check = |seed| compare(seed, &[1, 2, 3, 5, 33], "cpu").err();
    let failed: Vec<String> = (0..count).filter_map(check).collect();
    assert!(failed.is_empty(), "{} of {count} programs differ; the first:\n{}", failed.len(), failed[0]);
}
