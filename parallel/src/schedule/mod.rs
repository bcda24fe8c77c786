//! Schedules of pipelines as data: each rank has a list of its work on micro-batches, in order.
//!
//! A model is cut into stages, a batch into micro-batches. The work on one micro-batch in one stage is its forward F
//! and its backward, which is whole (B) or cut into the gradient of the inputs (I) and that of the weights (W). A
//! [`Schedule`] has a list of actions for each rank, and one text form. A [`Generator`] makes the schedules of the
//! literature, [`check`] says whether a schedule can run and is complete, and [`simulate`] says how long it takes and
//! how much it keeps.

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

/// At most this many stages times micro-batches, because a schedule may come from an untrusted text.
pub(crate) const MOST_WORKS: usize = 1 << 22;

fulgurite_core::words! {
    /// The kind of work on a micro-batch.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
    pub enum Kind: word, from_word {
        /// The forward.
        F = "F",
        /// The whole backward.
        B = "B",
        /// The part of the backward that gives the gradients of the stage's inputs.
        I = "I",
        /// The part of the backward that gives the gradients of the weights.
        W = "W",
    }
}

/// Work on a micro-batch in a stage: `2F5` is the forward of stage 2 for micro-batch 5.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Work {
    /// The stage.
    pub stage: usize,
    /// The kind of the work.
    pub kind: Kind,
    /// The micro-batch.
    pub micro_batch: usize,
}

/// One entry of a rank's list.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// The rank does a work.
    Do(Work),
    /// The rank does two works at the same time: `(0F2;3B0)O`.
    Overlap(Work, Work),
    /// The rank sends the result of this work to the rank that needs it: `0F1>`.
    Send(Work),
    /// The rank receives, from another rank, the value that this work needs: `>1F1`.
    Receive(Work),
    /// The rank sums the gradients of the stage's weights over all holders of the weights: `R0`.
    Reduce(usize),
}

impl Action {
    /// The works of the action.
    pub fn works(&self) -> impl Iterator<Item = Work> + use<> {
        let (a, b) = match *self {
            Action::Do(work) => (Some(work), None),
            Action::Overlap(a, b) => (Some(a), Some(b)),
            _ => (None, None),
        };
        a.into_iter().chain(b)
    }
}

/// The lists of actions of all ranks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// The number of stages.
    pub stages: usize,
    /// The number of micro-batches of a batch.
    pub micro_batches: usize,
    /// For each stage, its rank.
    pub place: Vec<usize>,
    /// Groups of stages that share weights; each of these stages must reduce.
    pub ties: Vec<Vec<usize>>,
    /// For each rank, its actions.
    pub lists: Vec<Vec<Action>>,
}

impl Schedule {
    /// The number of ranks.
    pub fn ranks(&self) -> usize {
        self.lists.len()
    }

    /// The reason why the numbers of this schedule are refused, or `None`. Sizes are bounded, because a text may come
    /// from outside.
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

    /// The works on other ranks and stages that must be done before `work`: for F the forward of the stage before, for
    /// a backward the forward of its own stage and the backward of the stage after. Of that backward only I is needed
    /// where it is cut; `split` has the stages and micro-batches whose backward is cut into I and W.
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
