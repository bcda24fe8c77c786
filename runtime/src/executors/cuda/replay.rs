//! Programs that are launched whole: what a program asks of its device at the same addresses again is recorded once.
//!
//! A training step finds its tensors where one of the last steps left theirs, for devices give memory out again in the
//! order in which they got it back; so a few recordings serve all steps.

use super::device::Replay;
use std::collections::VecDeque;

/// Recordings that a program keeps, and calls that it remembers.
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

    /// Whether a call at these addresses was seen before; from now on it was.
    pub fn repeats(&mut self, at: &[u64]) -> bool {
        if self.seen.iter().any(|seen| seen == at) {
            return true;
        }
        self.seen.truncate(MOST - 1);
        self.seen.push_front(at.to_vec());
        false
    }

    /// Keeps a recording, the oldest is given up for it.
    pub fn keep(&mut self, at: Vec<u64>, replay: Box<dyn Replay>) -> &dyn Replay {
        self.kept.truncate(MOST - 1);
        self.kept.push_front((at, replay));
        &*self.kept[0].1
    }
}
