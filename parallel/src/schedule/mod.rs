//! Schedules of pipelines, as data: which rank does what to which micro-batch, in which order.
//!
//! A model is cut into stages, a batch into micro-batches. The work on one micro-batch in one stage is its forward F and
//! its backward: whole (B), or as the gradient of the inputs (I) and that of the weights (W). A [`Schedule`] has a list of
//! actions for each rank, and one text form. A [`Generator`] makes those of the literature, [`check`] says whether a list
//! can run and is complete, [`simulate`] how long it takes and what it keeps.

mod generate;
mod legal;
mod play;
mod simulate;
mod text;

pub use generate::{Generator, KINDS};
pub use legal::{Law, Limits, Violation, check};
pub(crate) use play::play;
pub use simulate::{Costs, Rank, Span, Timeline, simulate};

use std::collections::HashSet;

/// Stages times micro-batches, at most.
pub(crate) const MOST_WORKS: usize = 1 << 22;

/// What is done to a micro-batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// The forward.
    F,
    /// The whole backward.
    B,
    /// The part of the backward that gives the gradients of the stage's inputs.
    I,
    /// The rest of it: the gradients of the weights.
    W,
}

/// Work on a micro-batch in a stage: `2F5` is the forward of stage 2 for micro-batch 5.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Work {
    /// The stage.
    pub stage: usize,
    /// What is done.
    pub kind: Kind,
    /// The micro-batch.
    pub micro_batch: usize,
}

/// One entry of a rank's list.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Work.
    Do(Work),
    /// Two works at the same time: `(0F2;3B0)O`.
    Overlap(Work, Work),
    /// What this work gave goes to the rank that waits for it: `0F1>`.
    Send(Work),
    /// What this work waits for comes from another rank: `>1F1`.
    Receive(Work),
    /// The gradients of the stage's weights are summed over whatever shares them: `R0`.
    Reduce(usize),
}

impl Action {
    /// The work that it does.
    pub fn works(&self) -> impl Iterator<Item = Work> + use<> {
        let (a, b) = match *self {
            Action::Do(work) => (Some(work), None),
            Action::Overlap(a, b) => (Some(a), Some(b)),
            _ => (None, None),
        };
        a.into_iter().chain(b)
    }
}

/// What each rank does, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// How many stages there are.
    pub stages: usize,
    /// How many micro-batches a batch has.
    pub micro_batches: usize,
    /// Per stage: its rank.
    pub place: Vec<usize>,
    /// Stages that share weights: each of them must reduce.
    pub ties: Vec<Vec<usize>>,
    /// Per rank: its actions.
    pub lists: Vec<Vec<Action>>,
}

impl Schedule {
    /// How many ranks there are.
    pub fn ranks(&self) -> usize {
        self.lists.len()
    }

    /// Why its numbers are none, if they are none: sizes are bounded, because a text may come from anywhere.
    pub(crate) fn misshapen(&self) -> Option<String> {
        if self.place.len() != self.stages {
            return Some(format!("{} stages, but {} places", self.stages, self.place.len()));
        }
        let works = self.stages.checked_mul(self.micro_batches).filter(|works| *works <= MOST_WORKS);
        if works.is_none() || self.ranks() > MOST_WORKS {
            let (stages, m) = (self.stages, self.micro_batches);
            return Some(format!("{stages} stages times {m} micro-batches are more than {MOST_WORKS}"));
        }
        None
    }

    /// The works that must be done before `work`, beside what stands before it on its own rank: the forward of the stage
    /// before, the backward of the stage behind, the forward of its own. Of the backward of a stage behind it is enough
    /// that its inputs' gradients are known; `split` has the stages and micro-batches whose I and W are apart.
    fn needs(&self, work: Work, split: &HashSet<(usize, usize)>) -> impl Iterator<Item = Work> + use<> {
        let of = |stage: usize, kind: Kind| Work { stage, kind, micro_batch: work.micro_batch };
        let back = |stage: usize| {
            let apart = split.contains(&(stage, work.micro_batch));
            of(stage, if apart { Kind::I } else { Kind::B })
        };
        let (own, other) = match work.kind {
            Kind::F => (None, work.stage.checked_sub(1).map(|before| of(before, Kind::F))),
            Kind::B | Kind::I => {
                let behind = Some(work.stage + 1).filter(|s| *s < self.stages);
                (Some(of(work.stage, Kind::F)), behind.map(back))
            }
            Kind::W => (Some(of(work.stage, Kind::I)), None),
        };
        own.into_iter().chain(other)
    }
}
