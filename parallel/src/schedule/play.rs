//! Running the lists of a schedule: each rank its own in order, a work when what it needs is done.

use super::{Kind, Schedule, Work};
use std::collections::{HashMap, HashSet, VecDeque};

/// Calls `run` with each work that can be done, with its rank, its position, and which half of an overlap it is. The
/// backward_split come one after the other, each when its own needs are done. Gives the position at which each rank stopped:
/// the end of its list, unless it waits for ever.
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

/// The stages and micro-batches whose backward is I and W.
pub(super) fn split(s: &Schedule) -> HashSet<(usize, usize)> {
    let works = s.lists.iter().flatten().flat_map(|a| a.works());
    works.filter(|w| w.kind == Kind::I).map(|w| (w.stage, w.micro_batch)).collect()
}
