//! Runs the lists of a schedule: each rank runs its own in order, and a work runs once the works that it needs are
//! done.

use super::{Kind, Schedule, Work};
use std::collections::{HashMap, HashSet, VecDeque};

/// Calls `run` with each work that can be done, with its rank, its position, and the number of its half in an overlap.
/// The halves of an overlap come one after the other, each once its own needs are done. Returns the position at which
/// each rank stopped: the end of its list, unless it waits for ever.
pub(crate) fn play(s: &Schedule, mut run: impl FnMut(usize, usize, usize, Work)) -> Vec<usize> {
    let split = split(s);
    let mut done: HashSet<Work> = HashSet::new();
    let (mut next, mut half) = (vec![0; s.ranks()], vec![0; s.ranks()]);
    let mut waiting: HashMap<Work, Vec<usize>> = HashMap::new();
    let mut ready: VecDeque<usize> = (0..s.ranks()).collect();
    while let Some(rank) = ready.pop_front() {
        while let Some(action) = s.lists[rank].get(next[rank]) {
            let Some(work) = action.works().nth(half[rank]) else {
                next[rank] += 1;
                half[rank] = 0;
                continue;
            };
            if let Some(missing) = s.needs(work, &split).find(|need| !done.contains(need)) {
                waiting.entry(missing).or_default().push(rank);
                break;
            }
            run(rank, next[rank], half[rank], work);
            half[rank] += 1;
            done.insert(work);
            ready.extend(waiting.remove(&work).into_iter().flatten());
        }
    }
    next
}

/// The stages and micro-batches whose backward is cut into I and W.
pub(super) fn split(s: &Schedule) -> HashSet<(usize, usize)> {
    let works = s.lists.iter().flatten().flat_map(|a| a.works());
    works.filter(|w| w.kind == Kind::I).map(|w| (w.stage, w.micro_batch)).collect()
}
