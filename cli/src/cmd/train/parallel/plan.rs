//! Who does what: the schedule, which parts of the model a stage has, which examples a copy learns from.

use crate::args::Processes;
use crate::fault::Fault;
use fulgurite::buffer::Buffer;
use fulgurite::prelude::*;
use fulgurite::schedule::{Generator, KINDS, Schedule};
use std::fmt;
use std::ops::Range;

/// Stages of a rank that has the whole model: while the gradients of one are summed over the copies, the backward of the
/// one before it runs.
const STAGES: usize = 4;
/// More stages have no tags for their messages.
const MOST: usize = 64;

/// The work of a step, divided.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What each rank of a copy does.
    pub schedule: Schedule,
    /// How many copies of the model there are.
    pub copies: usize,
    /// Per stage: which units of the model it has.
    pub cuts: Vec<Range<usize>>,
    /// The name of the schedule.
    pub kind: &'static str,
    /// Examples of a micro-batch.
    rows: usize,
}

impl Plan {
    /// What the options ask of `size` ranks, for a batch of so many examples and a model whose units have these costs.
    ///
    /// # Errors
    /// E923: that does not divide. E751: the schedule is not defined for these numbers.
    pub fn new(args: &Processes, size: usize, batch: usize, costs: &[u64]) -> Result<Plan, Fault> {
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
            _ if ranks == 1 => STAGES.min(costs.len()),
            _ => 2,
        });
        let micro_batches = args.micro_batches.unwrap_or(if ranks == 1 { 1 } else { 2 * ranks });
        let schedule = Generator { kind, ranks, micro_batches, chunks }.make()?;
        let (stages, shares) = (schedule.stages, copies.saturating_mul(micro_batches));
        if stages > costs.len() || stages > MOST {
            let most = costs.len().min(MOST);
            return Err(Fault::usage("E923", format!("the model can't be cut into {stages} stages, but into {most}"))
                .help("fewer ranks, a smaller --stages-per-rank, or a greater --depth"));
        }
        if !batch.is_multiple_of(shares) {
            let claim = format!("a batch of {batch} can't be divided into {shares} micro-batches");
            return Err(Fault::usage("E923", claim)
                .note(format!("copies of the model: {copies}, micro-batches of each: {micro_batches}"))
                .help(format!("make --batch a multiple of {shares}, or give --micro-batches")));
        }
        Ok(Plan { schedule, copies, cuts: cut(costs, stages), kind, rows: batch / shares })
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

/// Neighbours put together into so many stages, so that the dearest stage is as cheap as it can be.
fn cut(costs: &[u64], stages: usize) -> Vec<Range<usize>> {
    // the least bound under which the stages do, by bisection
    let fits = |bound: u64| {
        let (mut used, mut sum) = (1, 0u64);
        for cost in costs {
            if sum.saturating_add(*cost) > bound {
                used += 1;
                sum = 0;
            }
            sum = sum.saturating_add(*cost);
        }
        used <= stages
    };
    let all = costs.iter().fold(0u64, |a, b| a.saturating_add(*b));
    let (mut low, mut high) = (costs.iter().copied().max().unwrap_or(0), all);
    while low < high {
        let middle = low + (high - low) / 2;
        if fits(middle) { high = middle } else { low = middle + 1 }
    }
    let (mut cuts, mut start, mut sum) = (Vec::new(), 0, 0u64);
    for (i, cost) in costs.iter().enumerate() {
        let behind = stages - cuts.len() - 1;
        // each stage behind needs a unit too
        if i > start && (sum.saturating_add(*cost) > low || costs.len() - i == behind) && behind > 0 {
            cuts.push(start..i);
            (start, sum) = (i, 0);
        }
        sum = sum.saturating_add(*cost);
    }
    cuts.push(start..costs.len());
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_as_even_as_neighbours_allow() {
        let of = |costs: &[u64], stages| {
            cut(costs, stages).iter().map(|r| costs[r.clone()].iter().sum()).collect::<Vec<u64>>()
        };
        assert_eq!(of(&[1, 5, 5, 5, 5, 2], 2), [11, 12]);
        assert_eq!(of(&[1, 5, 5, 5, 5, 2], 4), [6, 5, 5, 7]);
        assert_eq!(of(&[1, 5, 5, 5, 5, 2], 6), [1, 5, 5, 5, 5, 2]);
        assert_eq!(of(&[9, 1, 1, 1], 3), [9, 2, 1]);
        assert_eq!(of(&[0, 0, 0], 3), [0, 0, 0]);
        assert_eq!(of(&[7], 1), [7]);
    }
}
