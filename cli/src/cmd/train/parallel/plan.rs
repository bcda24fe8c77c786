//! The division of the work: the schedule, and the examples of each copy.

use super::super::task::Task;
use crate::args::Processes;
use crate::fault::{Fault, USAGE};
use fulgurite::buffer::Buffer;
use fulgurite::core::counted;
use fulgurite::pipeline::{Cut, StagedModel};
use fulgurite::prelude::*;
use fulgurite::schedule::{Action, Generator, KINDS, Kind, Limits, Schedule, Work, check};
use std::fmt;
use std::path::Path;

/// Stages of a rank that has the whole model. While the gradients of one stage are summed over the copies, the
/// backward of the stage before it runs.
const STAGES: usize = 4;
/// At most this many stages, because there are no tags for the messages of more.
pub const MOST: usize = 64;

/// The division of the work of a step.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The works of each rank of a copy.
    pub schedule: Schedule,
    /// Number of copies of the model.
    pub copies: usize,
    /// The name of the schedule.
    kind: String,
    /// Examples of a micro-batch.
    rows: usize,
}

impl Plan {
    /// The plan that the options give for `size` ranks and a batch of `batch` examples.
    ///
    /// # Errors
    /// E923: the numbers do not divide. E751: the schedule is not defined for these numbers, or can't run. E910: its
    /// file can't be read.
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
        let (kind, schedule) = schedule(args, ranks)?;
        let (stages, micro_batches) = (schedule.stages, schedule.micro_batches);
        let shares = copies.saturating_mul(micro_batches);
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

    /// Cuts the model into stages for micro-batches of this batch. The stages are balanced by the costs of their
    /// rows.
    ///
    /// # Errors
    /// E756: the model can't be cut so. Errors of the model.
    pub fn cut<T: Task>(&self, model: &T::Model, (x, y): (&Tensor, &Tensor)) -> Result<StagedModel, Fault> {
        let batch = (self.examples(x, 0, 0)?, self.examples(y, 0, 0)?);
        let loss = |model: T::Model, (x, y): (Tensor, Tensor)| T::loss(&model, &x, &y);
        let made = StagedModel::cut("model", loss, model, &batch, Cut::Balanced(self.schedule.stages));
        made.map_err(usage)
    }

    /// Number of ranks of a copy.
    pub fn ranks(&self) -> usize {
        self.schedule.ranks()
    }

    /// The copy for which a rank works.
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

    /// Number of micro-batches of a copy.
    pub fn micro_batches(&self) -> usize {
        self.schedule.micro_batches
    }

    /// The kind of work in which a stage computes the gradients of its inputs: B, or I where the schedule splits B.
    pub fn backward(&self, stage: usize, micro_batch: usize) -> Kind {
        let split = Work { stage, kind: Kind::I, micro_batch };
        let mut works = self.schedule.lists[self.schedule.place[stage]].iter().flat_map(Action::works);
        if works.any(|work| work == split) { Kind::I } else { Kind::B }
    }

    /// The examples of one micro-batch of a copy: a range of the first axis.
    ///
    /// # Errors
    /// Errors of the tensor.
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

/// The schedule of a copy, and its name.
fn schedule(args: &Processes, ranks: usize) -> Result<(String, Schedule), Fault> {
    let default = if ranks == 1 { "interleaved" } else { "1f1b" };
    let name = args.pipeline.as_deref().unwrap_or(default);
    let Some(kind) = KINDS.iter().find(|kind| **kind == name) else {
        return Ok((name.to_owned(), of_file(args, name.as_ref(), ranks)?));
    };
    let chunks = args.stages_per_rank.unwrap_or(match *kind {
        "gpipe" | "1f1b" | "zb1p" => 1,
        "zbv" | "dualpipev" => 2,
        _ if ranks == 1 => STAGES,
        _ => 2,
    });
    let micro_batches = args.micro_batches.unwrap_or(if ranks == 1 { 1 } else { 2 * ranks });
    Ok((name.to_owned(), Generator { kind, ranks, micro_batches, chunks }.make().map_err(usage)?))
}

/// A schedule from a file.
fn of_file(args: &Processes, path: &Path, ranks: usize) -> Result<Schedule, Fault> {
    if args.micro_batches.is_some() || args.stages_per_rank.is_some() {
        let claim = format!("`{}` says itself how many stages and micro-batches there are", path.display());
        return Err(Fault::usage("E923", claim).help("leave --micro-batches and --stages-per-rank out"));
    }
    let text = std::fs::read_to_string(path).map_err(|e| {
        Fault::unreadable(path, &e).help(format!("--pipeline takes such a file, or one of {}", KINDS.join(", ")))
    })?;
    let schedule: Schedule = text.parse().map_err(usage)?;
    let found = check(&schedule, &Limits::default());
    if let Some(first) = found.first() {
        return Err(Fault::usage("E751", format!("{} things are wrong with the schedule", found.len()))
            .note(first.to_string())
            .help(format!("all of them: fulgurite schedule --check {}", path.display())));
    }
    if schedule.ranks() != ranks {
        let claim = format!("the schedule is one for {} ranks, a copy of the model has {ranks}", schedule.ranks());
        return Err(Fault::usage("E923", claim).help("other --ranks or --data-parallel"));
    }
    Ok(schedule)
}

/// An error of the library, as one about the user's options.
fn usage(e: fulgurite::Error) -> Fault {
    Fault { status: USAGE, ..e.into() }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ranks, stages, m) = (self.ranks(), self.schedule.stages, self.micro_batches());
        let (copies, batches) = (counted(self.copies, "copy", "copies"), counted(m, "micro-batch", "micro-batches"));
        let (ranks_each, stages) = (counted(ranks, "rank", "ranks"), counted(stages, "stage", "stages"));
        write!(f, "{copies} of the model · {ranks_each} each · {stages} · {batches} of {}", self.rows)?;
        if ranks > 1 { write!(f, " · schedule {}", self.kind) } else { Ok(()) }
    }
}
