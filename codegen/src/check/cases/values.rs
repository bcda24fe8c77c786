//! Calls with every value of an option that names an axis or a place, and more values of a count. A rule that is
//! right at both ends, or up to a count of 3, may be wrong in between or beyond.

use fulgurite_core::lang::{Opt, OptType};
use fulgurite_core::row::Row;
use fulgurite_core::signature::{ArgTy, Env, Size};
use fulgurite_core::{Dim, Name, Value};

use super::options::{self, Tried, int, ints};
use super::{Case, Family};

/// At most this many elements in the arguments of a call, because few elements suffice to show a wrong place.
const ELEMENTS: usize = 160;

/// At most this many calls of equal ranks are varied, one after the other, so that the other options vary as well.
const BASES: usize = 6;

/// At most this many calls for each option and combination of ranks, and for a row.
const MOST: usize = 16;
const MOST_OF_ALL: usize = 16;

/// Rank combinations tried, highest first; the ordinary family already covers low ranks.
const RANKS: usize = 3;

/// The longest axis of which all places are tried, and the highest rank of which all choices of axes are tried.
const SHORT: i64 = 7;
const FEW: i64 = 3;

/// Calls like those of `family` with other values of each option that names an axis, a place or a count. Their sizes
/// are larger than 1 and pairwise distinct.
pub fn valued(row: &Row, family: &Family) -> Vec<Case> {
    let asked: Vec<(usize, &Opt)> = row.sig.opts.iter().enumerate().filter(|(_, opt)| is_asked(opt)).collect();
    if asked.is_empty() {
        return Vec::new();
    }
    let tried = Tried::of(row);
    let first = row.sig.params.len();
    let mut more = Vec::new();
    for cases in &mut groups(family) {
        cases.sort_by_key(|case| case.numel());
        for (at, opt) in &asked {
            let met: Vec<&Value<ArgTy>> = cases.iter().map(|case| &case.args[first + at]).collect();
            let values = every(row, &tried[*at], &cases[0].solved.env, opt).unwrap_or_default().into_iter();
            let other = |(turn, value): (usize, Value<ArgTy>)| {
                let bases = cases.len().min(BASES);
                (0..bases).find_map(|n| cases[(turn + n) % bases].with(row, [(first + at, value.clone())]))
            };
            more.extend(values.filter(|value| !met.contains(&value)).enumerate().filter_map(other).take(MOST));
        }
    }
    more.truncate(MOST_OF_ALL);
    more
}

/// Whether the values of an option are axes, places or counts.
fn is_asked(opt: &Opt) -> bool {
    match &opt.ty {
        OptType::Dim(_) | OptType::Gap(_) | OptType::Perm(_) | OptType::Pos(_) | OptType::Bound(_) => true,
        OptType::Dims { .. } | OptType::I64 => true,
        OptType::Ints { list, broadcast, .. } => *list != "_" && !*broadcast,
        _ => false,
    }
}

/// Small calls of a family with pairwise distinct sizes, grouped by their ranks, highest ranks first.
fn groups(family: &Family) -> Vec<Vec<&Case>> {
    let mut groups: Vec<(Vec<usize>, Vec<&Case>)> = Vec::new();
    for case in family.cases.iter().filter(|case| (2..=ELEMENTS).contains(&case.numel())) {
        let Some(ranks) = ranks(&case.solved.env) else { continue };
        match groups.iter_mut().find(|(of, _)| *of == ranks) {
            Some((_, cases)) => cases.push(case),
            None => groups.push((ranks, vec![case])),
        }
    }
    groups.sort_by_key(|(ranks, _)| std::cmp::Reverse(ranks.iter().sum::<usize>()));
    groups.into_iter().take(RANKS).map(|(_, cases)| cases).collect()
}

/// The ranks of a call, if all its sizes are larger than 1 and no two are equal.
fn ranks(env: &Env) -> Option<Vec<usize>> {
    let (mut ranks, mut met) = (Vec::new(), Vec::new());
    let mut is_new = |d: &Dim| {
        let n = d.value();
        let new = n > 1 && !met.contains(&n);
        met.push(n);
        new
    };
    for (_, size) in &env.sizes {
        let plain = match size {
            Size::One(d) => is_new(d),
            Size::List(l) => {
                ranks.push(l.len());
                l.iter().all(&mut is_new)
            }
            Size::Each(l) => l.iter().all(&mut is_new),
            Size::EachList(_) => true,
        };
        if !plain {
            return None;
        }
    }
    Some(ranks)
}

/// The values of an option to try: all of them where there are few.
fn every(row: &Row, tried: &Tried, env: &Env, opt: &Opt) -> Option<Vec<Value<ArgTy>>> {
    let one = |size: Name| match env.size(size) {
        Some(Size::One(d)) => Some(d.value()),
        _ => None,
    };
    let rank = |list: Name| options::rank(env, list).map(|n| n as i64);
    let usual = || options::candidates(row, tried, env, opt);
    Some(match &opt.ty {
        OptType::Gap(list) => (-rank(*list)? - 1..=rank(*list)?).map(int).collect(),
        OptType::Perm(list) if rank(*list)? <= FEW => orders(rank(*list)?).into_iter().map(ints).collect(),
        OptType::Pos(size) if one(*size)? <= SHORT => (0..one(*size)?).chain([-1, -2]).map(int).collect(),
        OptType::Bound(size) if one(*size)? <= SHORT => (0..=one(*size)?).chain([-1, -2]).map(int).collect(),
        OptType::Dims { list, .. } if rank(*list)? <= FEW => {
            // single axes are also counted from the end, pairs come in either order
            let n = rank(*list)?;
            let mut all: Vec<Vec<i64>> = vec![vec![]];
            all.extend((0..n).flat_map(|a| [vec![a], vec![a - n]]));
            all.extend((0..n).flat_map(|a| (0..n).filter(move |b| *b != a).map(move |b| vec![a, b])));
            all.extend((n > 2).then(|| [(0..n).collect(), (0..n).rev().collect()]).into_iter().flatten());
            all.into_iter().map(ints).collect()
        }
        OptType::I64 => [4, 5, 7, -2, -3].map(int).into_iter().chain(usual()?).collect(),
        OptType::Ints { list, axes: None, .. } => {
            let n = rank(*list)?;
            let turned = (0..n).map(|i| 1 + (i + 1) % n);
            [int(3), int(4), ints(turned), ints((0..n).map(|i| 2 * i))].into_iter().chain(usual()?).collect()
        }
        OptType::Ints { .. } => [int(2), int(3), int(-1), int(5)].into_iter().chain(usual()?).collect(),
        _ => usual()?,
    })
}

/// All orders of `n` axes.
fn orders(n: i64) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for axis in 0..n {
        let put =
            |order: &Vec<i64>| (0..=order.len()).map(|at| [&order[..at], &[axis], &order[at..]].concat()).collect();
        all = all.iter().flat_map(|order| -> Vec<Vec<i64>> { put(order) }).collect();
    }
    all
}
