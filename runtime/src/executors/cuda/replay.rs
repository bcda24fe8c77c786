//! Recordings of programs: if a program runs at the same addresses again, its work is recorded once and then launched
//! as a whole.
//!
//! A training step finds its tensors where one of the last steps left theirs, because devices return freed memory in
//! order. So a few recordings serve all steps.

use super::device::Replay;
use std::collections::VecDeque;

/// At most this many recordings are kept and calls remembered, because training reuses only a few sets of addresses.
const MOST: usize = 8;

/// A program's recordings, by the addresses of its inputs and results.
#[derive(Default)]
pub(super) struct Replays {
    kept: VecDeque<(Vec<u64>, Box<dyn Replay>)>,
    seen: VecDeque<Vec<u64>>,
}

impl Replays {
    /// The recording for these addresses.
    pub fn find(&self, at: &[u64]) -> Option<&dyn Replay> {
        self.kept.iter().find(|(known, _)| known == at).map(|(_, replay)| &**replay)
    }

    /// Whether a call at these addresses was seen before; this call is remembered.
    pub fn repeats(&mut self, at: &[u64]) -> bool {
        if self.seen.iter().any(|seen| seen == at) {
            return true;
        }
        self.seen.truncate(MOST - 1);
        self.seen.push_front(at.to_vec());
        false
    }

    /// Keeps a recording, and drops the oldest one if there are too many.
    pub fn keep(&mut self, at: Vec<u64>, replay: Box<dyn Replay>) -> &dyn Replay {
        self.kept.truncate(MOST - 1);
        self.kept.push_front((at, replay));
        &*self.kept[0].1
    }
}
