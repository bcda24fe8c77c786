//! Who does what: the schedule, which examples a copy learns from.

use super::super::task::Task;
use crate::args::Processes;
use crate::fault::{Fault, USAGE};
use fulgurite::buffer::Buffer;
use fulgurite::pipeline::{Cut, Model};
use fulgurite::prelude::*;
use fulgurite::schedule::{Action, Generator, KINDS, Kind, Schedule, Work};
use std::fmt;

/// Stages of a rank that has the whole model: while the gradients of one are summed over the copies, the backward of the
/// one before it runs.
const STAGES: usize = 4;
/// More stages have no tags for their messages.
pub const MOST: usize = 64;

/// The work of a step, divided.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What each rank of a copy does.
    pub schedule: Schedule,
    /// How many copies of the model there are.
    pub copies: usize,
    /// The name of the schedule.
    pub kind: &'static str,
    /// Examples of a micro-batch.
    rows: usize,
}

impl Plan {
    /// What the options ask of `size` ranks, for a batch of so many examples.
    ///
    /// # Errors
    /// E923: that does not divide. E751: the schedule is not defined for these numbers.
    pub fn new(args: &Processes, size: usize, batch: usize) -> Result<Plan, Fault> {
        let copies = match (args.data_parallel, args.pipeline.is_some()) {
            (None, true) => 1,
            (None | Some(0), false) => size,
            (Some(0), true) => {
                return Err(Fault::usage("E923", "`--data-parallel` beside `--pipeline` does not say how many copies")
                    .help("as --data-parallel 2"));
            }
            (Some(n), _) => n,
        };
        if !size.is_multiple_of(copies) {
            return Err(Fault::usage("E923", format!("{size} ranks can't be {copies} copies of the model"))
                .help("make the number of ranks a multiple of --data-parallel"));
        }
        let ranks = size / copies;
        let named = args.pipeline.as_deref().and_then(|name| KINDS.iter().find(|k| **k == name));
        let kind = named.copied().unwrap_or(if ranks == 1 { "interleaved" } else { "1f1b" });
        let chunks = args.stages_per_rank.unwrap_or(match kind {
            "gpipe" | "1f1b" | "zb1p" => 1,
            "zbv" | "dualpipev" => 2,
            _ if ranks == 1 => STAGES,
            _ => 2,
        });
        let micro_batches = args.micro_batches.unwrap_or(if ranks == 1 { 1 } else { 2 * ranks });
        let schedule = Generator { kind, ranks, micro_batches, chunks }.make()?;
        let (stages, shares) = (schedule.stages, copies.saturating_mul(micro_batches));
        if stages > MOST {
            return Err(Fault::usage("E923", format!("{stages} stages are more than {MOST}"))
                .help("fewer ranks, or a smaller --stages-per-rank"));
        }
        if !batch.is_multiple_of(shares) {
            let claim = format!("a batch of {batch} can't be divided into {shares} micro-batches");
            return Err(Fault::usage("E923", claim)
                .note(format!("copies of the model: {copies}, micro-batches of each: {micro_batches}"))
                .help(format!("make --batch a multiple of {shares}, or give --micro-batches")));
        }
        Ok(Plan { schedule, copies, kind, rows: batch / shares })
    }

    /// The model in stages, for micro-batches of this batch: balanced by the costs of their rows.
    ///
    /// # Errors
    /// E756: it can't be cut so. What the model reports.
    pub fn cut<T: Task>(&self, model: &T::Model, (x, y): (&Tensor, &Tensor)) -> Result<Model, Fault> {
        let batch = (self.examples(x, 0, 0)?, self.examples(y, 0, 0)?);
        let loss = |model: T::Model, (x, y): (Tensor, Tensor)| T::loss(&model, &x, &y);
        let made = Model::cut("model", loss, model, &batch, Cut::Balanced(self.schedule.stages));
        made.map_err(|e| Fault { status: USAGE, ..e.into() })
    }

    /// Ranks of a copy.
    pub fn ranks(&self) -> usize {
        self.schedule.ranks()
    }

    /// Which copy a rank works for.
    pub fn copy(&self, rank: usize) -> usize {
        rank / self.ranks()
    }

    /// The rank that runs a stage of a copy.
    pub fn rank(&self, copy: usize, stage: usize) -> usize {
        copy * self.ranks() + self.schedule.place[stage]
    }

    /// The stages of a rank, in order.
    pub fn stages(&self, rank: usize) -> impl Iterator<Item = usize> + use<'_> {
        let place = rank % self.ranks();
        (0..self.schedule.stages).filter(move |stage| self.schedule.place[*stage] == place)
    }

    /// The ranks that run a stage, one for each copy.
    pub fn group(&self, stage: usize) -> Vec<usize> {
        (0..self.copies).map(|copy| self.rank(copy, stage)).collect()
    }

    /// How many micro-batches a copy has.
    pub fn micro_batches(&self) -> usize {
        self.schedule.micro_batches
    }

    /// The work by which a stage gives the gradients of its inputs: B, or I.
    pub fn backward(&self, stage: usize, micro_batch: usize) -> Kind {
        let split = Work { stage, kind: Kind::I, micro_batch };
        let mut works = self.schedule.lists[self.schedule.place[stage]].iter().flat_map(Action::works);
        if works.any(|work| work == split) { Kind::I } else { Kind::B }
    }

    /// The examples of one micro-batch of a copy: some of the first axis.
    ///
    /// # Errors
    /// What the tensor reports.
    pub fn examples(&self, batch: &Tensor, copy: usize, micro_batch: usize) -> Result<Tensor, fulgurite::Error> {
        let whole = batch.buffer()?;
        let mut shape = whole.shape().to_vec();
        let bytes = whole.byte_len() / shape.first().copied().unwrap_or(1).max(1) * self.rows;
        let from = (copy * self.micro_batches() + micro_batch) * bytes;
        shape[0] = self.rows;
        let part = Buffer::from_bytes(whole.dtype(), &shape, &whole.as_bytes()[from..from + bytes]);
        Ok(Tensor::from_buffer(part.map_err(|e| fulgurite::Error::new("E743", e.to_string()))?))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ranks, stages, m) = (self.ranks(), self.schedule.stages, self.micro_batches());
        let many = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let copies = if self.copies == 1 { "1 copy".to_owned() } else { format!("{} copies", self.copies) };
        write!(f, "{copies} of the model · {} each · {}", many(ranks, "rank"), many(stages, "stage"))?;
        write!(f, " · {} of {}", many(m, "micro-batch").replace("chs", "ches"), self.rows)?;
        if ranks > 1 { write!(f, " · schedule {}", self.kind) } else { Ok(()) }
    }
}
