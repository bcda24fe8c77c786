//! Primitives that rows name with `host:`. Their results are positions, so they need no gradient. An algorithm and not
//! a formula defines the results, down to the order of equal elements. The executor `host` and the checks both run this
//! code.
//!
//! | name | gives |
//! |---|---|
//! | `argsort` | positions that sort an axis, stable |
//! | `introselect` | positions in the order of GNU libstdc++'s `nth_element`, then a sort of the part before it |
//! | `quickselect` | positions in the order of Hoare's selection with a median of three (Numerical Recipes, `select`) |
//!
//! NaN counts as the largest element.

mod radix;

use crate::kernel::{HOST, Special};
use crate::name::Name;
use crate::scalar::Scalar;
use crate::signature::{Env, Item};
use std::cmp::Ordering;

/// Sizes and elements of an argument.
pub struct Keys {
    /// Sizes.
    pub shape: Vec<usize>,
    /// Elements in the order of the axes.
    pub elements: Vec<Scalar>,
}

/// The result of primitive `name`, in the order of the axes of its result. `env` has the options of the call; `args`
/// are its tensors, without absent ones.
///
/// # Errors
/// Refuses unknown names and arguments, and positions outside of the axis.
pub fn run(name: Name, env: &Env, args: &[Keys]) -> Result<Vec<i64>, &'static str> {
    const UNKNOWN: &str = "there is no such primitive";
    let order = match Special::named(HOST, name.as_str()).ok_or(UNKNOWN)? {
        Special::Argsort => Order::Sort { descending: flag(env, "descending") },
        Special::Introselect => {
            Order::Intro { k: int(env, "k"), descending: flag(env, "descending"), sorted: flag(env, "sorted") }
        }
        Special::Quickselect => Order::Quick { k: int(env, "k") },
        _ => return Err(UNKNOWN),
    };
    let [x] = args else { return Err("it takes one tensor") };
    let rank = x.shape.len() as i64;
    let dim = int(env, "dim");
    let axis = usize::try_from(if dim < 0 { dim + rank } else { dim }).unwrap_or(0);
    let n = x.shape.get(axis).copied().unwrap_or(1);
    let inner: usize = x.shape.iter().skip(axis + 1).product();
    let mut out = vec![0; x.elements.len()];
    for start in 0..x.elements.len() / n.max(1) {
        let base = start / inner * inner * n + start % inner;
        let element = |at: usize| x.elements[base + at * inner];
        let compare = |a: usize, b: usize| compare(element(a), element(b));
        let by_digits = match order {
            Order::Sort { descending } => radix::positions(n, &element, descending),
            _ => None,
        };
        let positions = by_digits.unwrap_or_else(|| order.positions(n, &compare));
        for (i, o) in positions.into_iter().enumerate() {
            out[base + i * inner] = o as i64;
        }
    }
    Ok(out)
}

fn int(env: &Env, option: &str) -> i64 {
    match env.item(Name::new(option)) {
        Some(Item::Int(d)) => d.value(),
        Some(Item::Num(s)) => s.as_i64(),
        Some(Item::Ints(l)) => l.first().map_or(0, |d| d.value()),
        _ => -1,
    }
}

fn flag(env: &Env, option: &str) -> bool {
    matches!(env.item(Name::new(option)), Some(Item::Num(s)) if s.as_bool())
}

/// Orders NaN as the largest element, equal to itself.
fn compare(a: Scalar, b: Scalar) -> Ordering {
    match (a, b) {
        (Scalar::Int(a), Scalar::Int(b)) => a.cmp(&b),
        _ => {
            let (a, b) = (a.as_f64(), b.as_f64());
            a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
        }
    }
}

/// How the positions of an axis are ordered.
enum Order {
    Sort { descending: bool },
    Intro { k: i64, descending: bool, sorted: bool },
    Quick { k: i64 },
}

impl Order {
    fn positions(&self, n: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        match *self {
            Order::Sort { descending: false } => order.sort_by(|a, b| compare(*a, *b)),
            Order::Sort { descending: true } => order.sort_by(|a, b| compare(*b, *a)),
            Order::Intro { k, descending, sorted } => {
                let before = |a: usize, b: usize| match descending {
                    true => compare(a, b).is_gt(),
                    false => compare(a, b).is_lt(),
                };
                let Some(nth) = place(k, n) else { return order };
                introselect(&mut order, nth, &before);
                if sorted {
                    // The library's sort is stable too, for up to 16 elements.
                    let by = |a: &usize, b: &usize| if descending { compare(*b, *a) } else { compare(*a, *b) };
                    order[..nth].sort_by(by);
                }
            }
            Order::Quick { k } => {
                if let Some(nth) = place(k, n) {
                    quickselect(&mut order, nth, &|a, b| compare(a, b).is_gt());
                }
            }
        }
        order
    }
}

/// The place of the `k`-th of `n`, counted from 1.
fn place(k: i64, n: usize) -> Option<usize> {
    usize::try_from(k).ok()?.checked_sub(1).filter(|nth| *nth < n)
}

/// Puts the position there that a sort would put at `nth`, with no larger element before it.
fn introselect(order: &mut [usize], nth: usize, before: &dyn Fn(usize, usize) -> bool) {
    let (mut first, mut last) = (0, order.len());
    let mut depth = 2 * order.len().max(1).ilog2();
    while last - first > 3 {
        if depth == 0 {
            // After repeated bad pivots, a sort orders the rest; equal elements then keep their order.
            order[first..last].sort_by(|a, b| match (before(*a, *b), before(*b, *a)) {
                (true, _) => Ordering::Less,
                (_, true) => Ordering::Greater,
                _ => Ordering::Equal,
            });
            return;
        }
        depth -= 1;
        let cut = partition(order, first, last, before);
        if cut <= nth {
            first = cut;
        } else {
            last = cut;
        }
    }
    for i in first + 1..last {
        let one = order[i];
        let from = order[first..i].iter().rposition(|at| !before(one, *at)).map_or(first, |at| first + at + 1);
        order.copy_within(from..i, from + 1);
        order[from] = one;
    }
}

/// Moves the median of three to the front as the pivot; returns the start of the elements that are not before it.
fn partition(order: &mut [usize], first: usize, last: usize, before: &dyn Fn(usize, usize) -> bool) -> usize {
    let (a, b, c) = (first + 1, first + (last - first) / 2, last - 1);
    let is = |i: usize, j: usize| before(order[i], order[j]);
    let median = match (is(a, b), is(b, c), is(a, c)) {
        (true, true, _) | (false, false, false) => b,
        (true, false, true) | (false, true, false) => c,
        (true, false, false) | (false, _, true) => a,
    };
    order.swap(first, median);
    let pivot = order[first];
    let (mut low, mut high) = (first + 1, last);
    loop {
        while before(order[low], pivot) {
            low += 1;
        }
        high -= 1;
        while before(pivot, order[high]) {
            high -= 1;
        }
        if low >= high {
            return low;
        }
        order.swap(low, high);
        low += 1;
    }
}

fn quickselect(order: &mut [usize], nth: usize, after: &dyn Fn(usize, usize) -> bool) {
    let (mut left, mut right) = (0, order.len() - 1);
    while right > left {
        let swap = |order: &mut [usize], i: usize, j: usize| {
            if after(order[i], order[j]) {
                order.swap(i, j);
            }
        };
        if right == left + 1 {
            swap(order, left, right);
            return;
        }
        order.swap((left + right) / 2, left + 1);
        swap(order, left + 1, right);
        swap(order, left, right);
        swap(order, left + 1, left);
        let pivot = order[left];
        let (mut i, mut j) = (left + 1, right);
        loop {
            i += 1;
            while after(pivot, order[i]) {
                i += 1;
            }
            j -= 1;
            while after(order[j], pivot) {
                j -= 1;
            }
            if j < i {
                break;
            }
            order.swap(i, j);
        }
        order.swap(left, j);
        match j.cmp(&nth) {
            Ordering::Less => left = i,
            Ordering::Greater => right = j - 1,
            Ordering::Equal => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(order: &Order, x: &[f64]) -> Vec<usize> {
        order.positions(x.len(), &|a, b| compare(Scalar::Float(x[a]), Scalar::Float(x[b])))
    }

    /// Numbers with many ties and some NaN, from a fixed generator.
    fn numbers(seed: u64, n: usize) -> Vec<f64> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 33
        };
        (0..n).map(|_| if next() % 13 == 0 { f64::NAN } else { (next() % 7) as f64 }).collect()
    }

    #[test]
    fn selections_bring_the_kth_to_its_place() {
        for seed in 0..400 {
            let n = 1 + seed as usize % 41;
            let x = numbers(seed, n);
            for k in 1..=n {
                let key = |at: usize| Scalar::Float(x[at]);
                for order in [
                    Order::Intro { k: k as i64, descending: seed % 2 == 0, sorted: seed % 3 == 0 },
                    Order::Quick { k: k as i64 },
                ] {
                    let descending = matches!(order, Order::Intro { descending: true, .. });
                    let got = positions(&order, &x);
                    let mut all = got.clone();
                    all.sort_unstable();
                    assert_eq!(all, (0..n).collect::<Vec<_>>(), "each position once");
                    let right = positions(&Order::Sort { descending }, &x);
                    assert!(compare(key(got[k - 1]), key(right[k - 1])).is_eq(), "{x:?} {k}: {got:?}");
                    let (front, back) = got.split_at(k);
                    let ahead = |a: usize, b: usize| match descending {
                        true => compare(key(a), key(b)).is_ge(),
                        false => compare(key(a), key(b)).is_le(),
                    };
                    assert!(front.iter().all(|a| back.iter().all(|b| ahead(*a, *b))), "{x:?} {k}: {got:?}");
                    if matches!(order, Order::Intro { sorted: true, .. }) {
                        assert!(front.windows(2).all(|w| ahead(w[0], w[1])), "{x:?} {k}: {got:?}");
                    }
                }
            }
        }
    }
}
