//! The free list of blocks, with a limit of its own: no other test may run in this process.

use fulgurite_runtime::buffer::pool::{Block, cached_bytes, set_cache_limit};

/// Large enough for a mapping of its own.
const OLD: usize = 6 << 20;
const NEW: usize = 10 << 20;

/// How often the new size must be asked for before the old one is stale.
const REQUESTS: usize = 513;

fn block(bytes: usize) -> Block {
    Block::new(bytes).expect("memory")
}

#[test]
fn what_nobody_asks_for_makes_room() {
    set_cache_limit(20 << 20);
    drop([block(OLD), block(OLD)]);
    let full = cached_bytes();
    assert!(full >= 2 * OLD);
    // the list is full of what may be asked for again: that stays, and the new block goes
    drop(block(NEW));
    assert_eq!(cached_bytes(), full);
    for _ in 0..REQUESTS {
        drop(block(NEW));
    }
    // now one of the old has made room for it, no more than were needed
    assert!(cached_bytes() >= OLD + NEW, "{} of {full}", cached_bytes());
    let both = (block(OLD), block(NEW));
    assert_eq!(cached_bytes(), 0, "both come from the list");
    drop(both);
    set_cache_limit(0);
    assert_eq!(cached_bytes(), 0);
}
