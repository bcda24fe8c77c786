//! Computes how long a schedule takes, how long each rank waits, and how much is kept.

use super::play::{play, split};
use super::{Kind, Schedule, Work};
use fulgurite_runtime::Error;
use std::collections::HashMap;

/// The cost of each kind of work, per stage. Times are integers of any unit.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    /// The time of F.
    pub forward: Vec<u64>,
    /// The time of I.
    pub input: Vec<u64>,
    /// The time of W.
    pub weight: Vec<u64>,
    /// The time of B; `None` means the sum of I and W.
    pub backward: Option<Vec<u64>>,
    /// Two works at the same time take this percentage of their sum.
    pub overlap: u64,
    /// The time from the end of a work until another rank has its result.
    pub delay: u64,
    /// Bytes that a micro-batch keeps after F.
    pub kept: Vec<u64>,
    /// Bytes that a micro-batch keeps after I.
    pub handed: Vec<u64>,
}

impl Costs {
    /// Equal costs for every stage: `forward` for F, `input` for I, `weight` for W. Overlapping gains nothing.
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
            (Kind::B, None) => at(&self.input).saturating_add(at(&self.weight)),
        }
    }
}

/// An action of a rank, from `start` to `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// The position of the action in the rank's list.
    pub position: usize,
    /// The time at which the action starts.
    pub start: u64,
    /// The time at which the action ends.
    pub end: u64,
}

/// The use of a rank's time, and the memory that it needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rank {
    /// The time during which the rank works.
    pub busy: u64,
    /// The time during which the rank waits, until the last rank is done.
    pub idle: u64,
    /// The part of `idle` between the rank's first and last action.
    pub inside: u64,
    /// The largest number of micro-batches, counted per stage, that the rank keeps at once.
    pub peak: usize,
    /// The most bytes that the rank keeps at once.
    pub bytes: u64,
}

/// A schedule in time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timeline {
    /// For each rank, its actions that take time.
    pub spans: Vec<Vec<Span>>,
    /// The time at which the last rank is done.
    pub makespan: u64,
    /// For each rank, the use of its time.
    pub ranks: Vec<Rank>,
}

/// Simulates a schedule: each rank runs its list in order, an action once the rank is free and its inputs have arrived.
///
/// # Errors
/// E751 if the ranks wait for each other; `check` gives the details.
pub fn simulate(schedule: &Schedule, costs: &Costs) -> Result<Timeline, Error> {
    let m = schedule.micro_batches;
    if let Some(why) = schedule.misshapen() {
        return Err(Error::new("E751", why));
    }
    let mut works = schedule.lists.iter().flatten().flat_map(|a| a.works());
    if let Some(work) = works.find(|w| w.stage >= schedule.stages || w.micro_batch >= m) {
        let claim = format!("`{work}` is out of range: {} stages, {m} micro-batches", schedule.stages);
        return Err(Error::new("E751", claim));
    }
    let split = split(schedule);
    let mut ends: HashMap<Work, u64> = HashMap::new();
    let mut free = vec![0u64; schedule.ranks()];
    let mut busy = vec![0u64; schedule.ranks()];
    let mut spans: Vec<Vec<Span>> = vec![Vec::new(); schedule.ranks()];
    let next = play(schedule, |rank, position, half, work| {
        let there = |need: Work| {
            let delay = if schedule.place[need.stage] == rank { 0 } else { costs.delay };
            ends.get(&need).copied().unwrap_or(0).saturating_add(delay)
        };
        let start = schedule.needs(work, &split).map(there).fold(free[rank], u64::max);
        let takes = costs.of(work);
        let end = start.saturating_add(takes);
        match (half, spans[rank].last_mut()) {
            (1, Some(span)) => span.end = end,
            _ => spans[rank].push(Span { position, start, end }),
        }
        // the other half may begin before this one ends
        let other = schedule.lists[rank][position].works().nth(half + 1).map_or(0, |other| costs.of(other));
        let share = 100 - costs.overlap.min(100);
        let both = if other == 0 { 0 } else { u128::from(takes) + u128::from(other) };
        let gain = u64::try_from(both * u128::from(share) / 100).unwrap_or(takes).min(takes);
        free[rank] = end - gain;
        busy[rank] = busy[rank].saturating_add(takes - gain);
        ends.insert(work, end);
    });
    if let Some(rank) = (0..schedule.ranks()).find(|r| next[*r] < schedule.lists[*r].len()) {
        let action = schedule.lists[rank][next[rank]];
        return Err(Error::new("E751", format!("rank {rank} waits for ever at `{action}`")).help("check the schedule"));
    }
    let makespan = spans.iter().flatten().map(|s| s.end).max().unwrap_or(0);
    let of = |(rank, (spans, busy)): (usize, (&Vec<Span>, &u64))| {
        let whole = spans.last().map_or(0, |s| s.end) - spans.first().map_or(0, |s| s.start);
        let (peak, bytes) = kept(schedule, costs, rank);
        Rank { busy: *busy, idle: makespan.saturating_sub(*busy), inside: whole.saturating_sub(*busy), peak, bytes }
    };
    let ranks = spans.iter().zip(&busy).enumerate().map(of).collect();
    Ok(Timeline { spans, makespan, ranks })
}

/// The most micro-batches and the most bytes that a rank keeps at once.
fn kept(schedule: &Schedule, costs: &Costs, rank: usize) -> (usize, u64) {
    let (mut most, mut most_bytes) = (0, 0);
    let (mut live, mut bytes) = (0usize, 0u64);
    let size = |list: &[u64], w: Work| list.get(w.stage).copied().unwrap_or(0);
    for action in &schedule.lists[rank] {
        for w in action.works().filter(|w| w.kind == Kind::F) {
            live += 1;
            bytes = bytes.saturating_add(size(&costs.kept, w));
        }
        most = most.max(live);
        most_bytes = most_bytes.max(bytes);
        for w in action.works() {
            match w.kind {
                Kind::F => {}
                Kind::I => {
                    bytes = bytes.saturating_sub(size(&costs.kept, w)).saturating_add(size(&costs.handed, w));
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
