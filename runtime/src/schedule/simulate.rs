//! How long a schedule takes, who waits, and what is kept.

use super::{Kind, Schedule, Work};
use crate::error::Error;
use std::collections::{HashMap, VecDeque};

/// What works cost, per stage. Times are integers of any unit.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    /// F.
    pub forward: Vec<u64>,
    /// I.
    pub input: Vec<u64>,
    /// W.
    pub weight: Vec<u64>,
    /// B; `None`: I and W together.
    pub backward: Option<Vec<u64>>,
    /// Two works at the same time take so many percent of their sum.
    pub overlap: u64,
    /// From the end of a work until another rank has what it gave.
    pub delay: u64,
    /// Bytes that a micro-batch keeps behind F.
    pub kept: Vec<u64>,
    /// Bytes that it keeps behind I.
    pub handed: Vec<u64>,
}

impl Costs {
    /// The same for every stage, in this order: F, I, W; nothing gained by overlapping.
    pub fn even(stages: usize, forward: u64, input: u64, weight: u64) -> Costs {
        let all = |x: u64| vec![x; stages];
        Costs {
            forward: all(forward),
            input: all(input),
            weight: all(weight),
            overlap: 100,
            kept: all(0),
            handed: all(0),
            ..Costs::default()
        }
    }

    fn of(&self, work: Work) -> u64 {
        let at = |list: &[u64]| list.get(work.stage).copied().unwrap_or(0);
        match (work.kind, &self.backward) {
            (Kind::F, _) => at(&self.forward),
            (Kind::I, _) => at(&self.input),
            (Kind::W, _) => at(&self.weight),
            (Kind::B, Some(whole)) => at(whole),
            (Kind::B, None) => at(&self.input) + at(&self.weight),
        }
    }
}

/// An action of a rank, from `start` to `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Its position in the rank's list.
    pub position: usize,
    /// When it starts.
    pub start: u64,
    /// When it ends.
    pub end: u64,
}

/// What a rank does with its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rank {
    /// Time that it works.
    pub busy: u64,
    /// Time that it waits, until the last rank is done.
    pub idle: u64,
    /// Of that, between its first and its last action.
    pub inside: u64,
    /// Most micro-batches (times stages) that it keeps at once.
    pub peak: usize,
    /// Most bytes that these keep.
    pub bytes: u64,
}

/// A schedule in time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timeline {
    /// Per rank, its actions that take time.
    pub spans: Vec<Vec<Span>>,
    /// When the last rank is done.
    pub makespan: u64,
    /// Per rank.
    pub ranks: Vec<Rank>,
}

/// Runs a schedule: each rank its list in order, an action when the rank is free and what it needs is there.
///
/// # Errors
/// E751 if the ranks wait for each other: `check` says more.
pub fn simulate(schedule: &Schedule, costs: &Costs) -> Result<Timeline, Error> {
    let m = schedule.micro_batches;
    let at = |w: Work| (w.stage * m + w.micro_batch) * 4 + w.kind as usize;
    let mut split = vec![false; schedule.stages * m];
    let works = || schedule.lists.iter().flatten().flat_map(|a| a.works());
    if let Some(work) = works().find(|w| w.stage >= schedule.stages || w.micro_batch >= m) {
        return Err(Error::new(
            "E751",
            format!("`{work}` is out of range: {} stages, {m} micro-batches", schedule.stages),
        ));
    }
    works().filter(|w| w.kind == Kind::I).for_each(|w| split[w.stage * m + w.micro_batch] = true);
    let mut ends: Vec<Option<u64>> = vec![None; schedule.stages * m * 4];
    let mut next = vec![0; schedule.ranks()];
    let mut half = vec![0; schedule.ranks()];
    let mut free = vec![0u64; schedule.ranks()];
    let mut busy = vec![0u64; schedule.ranks()];
    let mut spans: Vec<Vec<Span>> = vec![Vec::new(); schedule.ranks()];
    let mut waiting: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut ready: VecDeque<usize> = (0..schedule.ranks()).collect();
    while let Some(rank) = ready.pop_front() {
        while let Some(action) = schedule.lists[rank].get(next[rank]) {
            // the halves of an overlap start one after the other, each when its own needs are there
            let Some(work) = action.works().nth(half[rank]) else {
                next[rank] += 1;
                half[rank] = 0;
                continue;
            };
            let (mut start, mut missing) = (free[rank], None);
            for need in schedule.needs(work, |s, mb| split[s * m + mb]) {
                let delay = if schedule.place[need.stage] == rank { 0 } else { costs.delay };
                match ends[at(need)] {
                    Some(end) => start = start.max(end + delay),
                    None => _ = missing.get_or_insert(at(need)),
                }
            }
            if let Some(missing) = missing {
                waiting.entry(missing).or_default().push(rank);
                break;
            }
            let end = start + costs.of(work);
            match (half[rank], spans[rank].last_mut()) {
                (1, Some(span)) => span.end = end,
                _ => spans[rank].push(Span { position: next[rank], start, end }),
            }
            busy[rank] += end - start;
            half[rank] += 1;
            // the other half may begin before this one ends
            let other = action.works().nth(half[rank]).map_or(0, |other| costs.of(other));
            let gain = if other == 0 { 0 } else { (costs.of(work) + other) * (100 - costs.overlap.min(100)) / 100 };
            free[rank] = end - gain.min(costs.of(work));
            busy[rank] -= gain.min(costs.of(work));
            ends[at(work)] = Some(end);
            ready.extend(waiting.remove(&at(work)).into_iter().flatten());
        }
    }
    if let Some(rank) = (0..schedule.ranks()).find(|r| next[*r] < schedule.lists[*r].len()) {
        let action = schedule.lists[rank][next[rank]];
        return Err(Error::new("E751", format!("rank {rank} waits for ever at `{action}`")).help("check the schedule"));
    }
    let makespan = spans.iter().flatten().map(|s| s.end).max().unwrap_or(0);
    let of = |(rank, (spans, busy)): (usize, (&Vec<Span>, &u64))| {
        let whole = spans.last().map_or(0, |s| s.end) - spans.first().map_or(0, |s| s.start);
        let (peak, bytes) = kept(schedule, costs, rank);
        Rank { busy: *busy, idle: makespan - busy, inside: whole - busy, peak, bytes }
    };
    let ranks = spans.iter().zip(&busy).enumerate().map(of).collect();
    Ok(Timeline { spans, makespan, ranks })
}

/// The most micro-batches and bytes that a rank keeps at once.
fn kept(schedule: &Schedule, costs: &Costs, rank: usize) -> (usize, u64) {
    let (mut most, mut most_bytes) = (0, 0);
    let (mut live, mut bytes) = (0usize, 0u64);
    let size = |list: &[u64], w: Work| list.get(w.stage).copied().unwrap_or(0);
    for action in &schedule.lists[rank] {
        for w in action.works().filter(|w| w.kind == Kind::F) {
            live += 1;
            bytes += size(&costs.kept, w);
        }
        most = most.max(live);
        most_bytes = most_bytes.max(bytes);
        for w in action.works() {
            match w.kind {
                Kind::F => {}
                Kind::I => {
                    bytes = bytes.saturating_sub(size(&costs.kept, w)) + size(&costs.handed, w);
                    most_bytes = most_bytes.max(bytes);
                }
                Kind::B => {
                    live = live.saturating_sub(1);
                    bytes = bytes.saturating_sub(size(&costs.kept, w));
                }
                Kind::W => {
                    live = live.saturating_sub(1);
                    bytes = bytes.saturating_sub(size(&costs.handed, w));
                }
            }
        }
    }
    (most, most_bytes)
}
