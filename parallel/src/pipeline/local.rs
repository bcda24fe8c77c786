//! Runs all ranks of a schedule in one thread: each action runs as soon as its inputs have arrived.

use super::chain::Chain;
use super::rank::{Done, Edge, Feed, Rank, Transport, at};
use super::sums::Accumulate;
use crate::schedule::{Limits, Schedule, check, play};
use fulgurite_runtime::Error;
use fulgurite_runtime::tensor::Tensor;
use fulgurite_runtime::trace::ProxyTy;
use std::collections::BTreeMap;

/// Messages that wait in a map until they are received.
#[derive(Default)]
struct Waiting(BTreeMap<Edge, Vec<Tensor>>);

impl Transport for Waiting {
    fn send(&mut self, edge: Edge, values: Vec<Tensor>) -> Result<(), Error> {
        self.0.insert(edge, values);
        Ok(())
    }

    fn receive(&mut self, edge: Edge, _: &[ProxyTy]) -> Result<Vec<Tensor>, Error> {
        // a legal schedule has sent before it receives
        self.0.remove(&edge).ok_or_else(|| Error::bug("E709", format!("no stage sent {edge:?}")))
    }
}

/// Runs a schedule in this thread, and returns the results of each rank.
///
/// # Errors
/// E751 with every violation if the schedule is not legal, and errors of actions.
pub fn run(
    chain: &Chain,
    schedule: &Schedule,
    params: impl Fn(usize) -> Vec<Tensor>,
    order: Accumulate,
    feed: &mut Feed,
) -> Result<Vec<Done>, Error> {
    let found = check(schedule, &Limits::default());
    if !found.is_empty() {
        let error = Error::new("E751", "the schedule can't run, or is not complete");
        return Err(found.iter().fold(error, |e, violation| e.note(violation.to_string())));
    }
    let mut ranks = (0..schedule.ranks())
        .map(|rank| Rank::new(chain, schedule, rank, &params, order))
        .collect::<Result<Vec<_>, _>>()?;
    let mut waiting = Waiting::default();
    let mut failed = None;
    play(schedule, |rank, position, _, work| {
        if failed.is_none() {
            let done = ranks[rank].work(work, feed, &mut waiting);
            failed = done.err().map(|e| at(e, rank, position, schedule.lists[rank][position]));
        }
    });
    if let Some(e) = failed {
        return Err(e);
    }
    for rank in &mut ranks {
        rank.reduce_all(&mut waiting)?;
    }
    ranks.into_iter().map(|rank| rank.finish(&mut waiting)).collect()
}
