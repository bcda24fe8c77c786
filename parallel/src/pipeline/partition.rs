//! Finds the lines of a trace at which stages begin.

use super::errors;
use fulgurite_runtime::Error;
use fulgurite_runtime::parts::bytes_of;
use fulgurite_runtime::trace::{RegionKind, Trace};
use rustc_hash::{FxHashMap, FxHashSet};

/// A cut that sends fewer bytes may be worse than the best balance by this factor.
const SLACK: f64 = 1.05;
/// At most 1024 places are considered, the best of each stretch of lines, because the search is quadratic in their
/// number.
const PLACES: usize = 1024;

/// Stages that begin with the first line of the trace and with the first line of each region with one of these names.
pub(super) fn starts(trace: &Trace, marks: &[&str]) -> Result<Vec<usize>, Error> {
    let arena = &trace.arena;
    let mut first: FxHashMap<String, usize> = FxHashMap::default();
    let mut order = Vec::new();
    for (at, line) in trace.lines().iter().enumerate() {
        for id in arena.region_chain(line.region, trace.root) {
            if let RegionKind::Named(name) = arena.region(id).kind {
                first.entry(name.to_string()).or_insert_with(|| {
                    order.push(name.to_string());
                    at
                });
            }
        }
    }
    let mut begins = vec![0];
    for mark in marks {
        let Some(at) = first.get(*mark) else {
            let error = errors::misfit(format!("no part of `{}` is called `{mark}`", trace.name));
            return Err(error.note(format!("there are {}", order.join(", "))).help("name parts by `named`"));
        };
        if begins.last().is_some_and(|last| at <= last) {
            let claim = format!("the part `{mark}` begins where, or before, the stage before does");
            return Err(errors::misfit(claim).help("name the parts in the order in which they run"));
        }
        begins.push(*at);
    }
    Ok(begins)
}

/// Finds the first lines of the stages: the largest cost is as small as possible up to [`SLACK`], and within that the
/// fewest bytes are sent.
pub(super) fn partition(trace: &Trace, costs: &[f64], stages: usize) -> Result<Vec<usize>, Error> {
    let lines = costs.len();
    if stages == 0 || stages > lines.max(1) {
        let claim = format!("{lines} lines of `{}` can't be cut into {stages} stages", trace.name);
        return Err(errors::misfit(claim).help("fewer stages"));
    }
    let sum: Vec<f64> = std::iter::once(0.0)
        .chain(costs.iter().scan(0.0, |sum, c| {
            *sum += c;
            Some(*sum)
        }))
        .collect();
    let crossing = crossing(trace);
    let places = places(&crossing, lines, stages);
    let bound = smallest(&sum, &places, stages);
    // for each number of stages and each place: the fewest bytes sent, and the first line of the last stage
    let mut best: Vec<Vec<Option<(u64, usize)>>> = vec![vec![None; places.len()]; stages + 1];
    best[0][0] = Some((0, 0));
    for stage in 1..=stages {
        for to in stage..places.len() {
            for from in (stage - 1..to).rev() {
                if sum[places[to]] - sum[places[from]] > bound * SLACK {
                    break;
                }
                let Some((sent, _)) = best[stage - 1][from] else { continue };
                let all = sent + if to + 1 < places.len() { crossing[places[to]] } else { 0 };
                if best[stage][to].is_none_or(|(least, _)| all < least) {
                    best[stage][to] = Some((all, from));
                }
            }
        }
    }
    let mut begins = vec![0; stages];
    let mut at = places.len() - 1;
    for stage in (1..=stages).rev() {
        let lost = || Error::bug("E709", "a balanced cut was not found again");
        at = best[stage][at].ok_or_else(lost)?.1;
        begins[stage - 1] = places[at];
    }
    Ok(begins)
}

/// For each place between two lines, the bytes of the values that are made before it and read after it.
fn crossing(trace: &Trace) -> Vec<u64> {
    let lines = trace.lines();
    let mut last: FxHashMap<_, usize> = FxHashMap::default();
    for (at, line) in lines.iter().enumerate() {
        line.for_each_arg(|p| _ = last.insert(p, at));
    }
    trace.outputs().iter().for_each(|p| _ = last.insert(*p, lines.len()));
    let inputs: FxHashSet<_> = trace.input_proxies().collect();
    let mut change = vec![0i64; lines.len() + 2];
    for (at, line) in lines.iter().enumerate() {
        for p in line.outs.iter().chain(&line.aux).filter(|p| !inputs.contains(p)) {
            if let Some(end) = last.get(p) {
                let bytes = bytes_of(&trace.arena, *p) as i64;
                change[at + 1] += bytes;
                change[*end + 1] -= bytes;
            }
        }
    }
    let running = change.iter().scan(0i64, |sum, c| {
        *sum += c;
        Some(u64::try_from(*sum).unwrap_or(0))
    });
    running.take(lines.len() + 1).collect()
}

/// The places where a stage may begin: all of them, or in a long trace the place of each stretch at which the fewest
/// bytes are sent; and both ends of the trace.
fn places(crossing: &[u64], lines: usize, stages: usize) -> Vec<usize> {
    let inner: Vec<usize> = (1..lines).collect();
    let stretch = inner.len().div_ceil(PLACES.max(2 * stages)).max(1);
    let least = |part: &[usize]| part.iter().copied().min_by_key(|at| crossing[*at]);
    let mut places = vec![0];
    places.extend(inner.chunks(stretch).filter_map(least));
    places.push(lines);
    places
}

/// The smallest possible cost of the largest stage.
fn smallest(sum: &[f64], places: &[usize], stages: usize) -> f64 {
    let n = places.len();
    let mut best: Vec<f64> = (0..n).map(|to| sum[places[to]]).collect();
    for _ in 1..stages {
        let mut next = vec![f64::INFINITY; n];
        for to in 1..n {
            for from in (1..to).rev() {
                let own = sum[places[to]] - sum[places[from]];
                next[to] = next[to].min(best[from].max(own));
                if own > next[to] {
                    break;
                }
            }
        }
        best = next;
    }
    best[n - 1]
}
