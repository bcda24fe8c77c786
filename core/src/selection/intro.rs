//! `partial_sort`, `nth_element` and `sort` as GNU libstdc++ has them, because the places of equal elements in PyTorch's
//! `topk` and `mode` follow from its algorithms. `mode` takes `sort`. `topk` takes a partial sort if 64 k is at most the
//! size of the axis, and otherwise `nth_element`, with `sort` for the part before the k-th.

use super::item::{self, Item};

/// Up to this many elements are sorted by insertion.
const FEW: usize = 16;
/// PyTorch takes a partial sort if this many times k is at most the size of the axis.
const PARTIAL: usize = 64;

/// The `k` first items of a line, the k-th at its place, the others before it; in order if `sorted`.
pub(super) fn first<E: Copy, T: Item>(k: usize, sorted: bool, line: &[E], key: impl Fn(E) -> u64) -> Vec<T> {
    if k.saturating_mul(PARTIAL) <= line.len() {
        let (front, back) = line.split_at(k);
        let mut heap: Vec<T> = item::all(front, &key);
        smallest(&mut heap, (back, k), key);
        sort_heap(&mut heap);
        return heap;
    }
    let mut items: Vec<T> = item::all(line, key);
    if let Some(nth) = k.checked_sub(1) {
        nth_element(&mut items, nth);
        if sorted {
            sort(&mut items[..nth]);
        }
    }
    items.truncate(k);
    items
}

/// The items of a line in order.
pub(super) fn all<E: Copy, T: Item>(line: &[E], key: impl Fn(E) -> u64) -> Vec<T> {
    let mut items = item::all(line, key);
    sort(&mut items);
    items
}

/// The number of keys that are compared without a branch, because few items enter a heap of the
/// smallest ones.
const TOGETHER: usize = 32;

/// Makes a heap of the smallest items: of those in `heap`, and of `more` from this position on.
fn smallest<E: Copy, T: Item>(heap: &mut [T], (more, first): (&[E], usize), key: impl Fn(E) -> u64) {
    make_heap(heap);
    let Some(mut largest) = heap.first().copied() else { return };
    for (some, first) in more.chunks(TOGETHER).zip((first..).step_by(TOGETHER)) {
        if !some.iter().fold(false, |any, e| any | largest.exceeds(key(*e))) {
            continue;
        }
        for (e, at) in some.iter().zip(first..) {
            let item = T::new(key(*e), at);
            if item.before(largest) {
                sift(heap, 0, item);
                largest = heap[0];
            }
        }
    }
}

fn make_heap<T: Item>(heap: &mut [T]) {
    for parent in (0..heap.len() / 2).rev() {
        sift(heap, parent, heap[parent]);
    }
}

fn sort_heap<T: Item>(heap: &mut [T]) {
    for last in (1..heap.len()).rev() {
        let (item, largest) = (heap[last], heap[0]);
        heap[last] = largest;
        sift(&mut heap[..last], 0, item);
    }
}

/// Puts `item` into the hole at `top`: the larger children move up until the hole has none, then the item rises from
/// there.
fn sift<T: Item>(heap: &mut [T], top: usize, item: T) {
    let mut hole = top;
    while 2 * hole + 1 < heap.len() {
        let right = 2 * hole + 2;
        let child = if right < heap.len() && !heap[right].before(heap[right - 1]) { right } else { right - 1 };
        heap[hole] = heap[child];
        hole = child;
    }
    while hole > top && heap[(hole - 1) / 2].before(item) {
        heap[hole] = heap[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    heap[hole] = item;
}

/// Brings the item there that a sort would put at `nth`, with no larger item before it.
fn nth_element<T: Item>(items: &mut [T], nth: usize) {
    let (mut first, mut last) = (0, items.len());
    let mut depth = most_cuts(items.len());
    while last - first > 3 {
        if depth == 0 {
            // after many bad pivots, a heap of the smallest items has the one that is sought on top
            let (heap, more) = items[first..last].split_at_mut(nth + 1 - first);
            make_heap(heap);
            for item in more {
                if item.before(heap[0]) {
                    let item = std::mem::replace(item, heap[0]);
                    sift(heap, 0, item);
                }
            }
            items.swap(first, nth);
            return;
        }
        depth -= 1;
        let cut = first + partition(&mut items[first..last]);
        if cut <= nth { first = cut } else { last = cut }
    }
    insertion_sort(&mut items[first..last]);
}

fn sort<T: Item>(items: &mut [T]) {
    cut_until_few(items, most_cuts(items.len()));
    insertion_sort(items);
}

/// Cuts the items at pivots until parts have few of them, and sorts parts by a heap after too many cuts.
fn cut_until_few<T: Item>(mut items: &mut [T], mut depth: u32) {
    while items.len() > FEW {
        if depth == 0 {
            make_heap(items);
            return sort_heap(items);
        }
        depth -= 1;
        let cut = partition(items);
        let (front, back) = items.split_at_mut(cut);
        cut_until_few(back, depth);
        items = front;
    }
}

/// At most this many cuts in a row, twice as many as good pivots need.
fn most_cuts(n: usize) -> u32 {
    2 * n.max(1).ilog2()
}

/// Inserts each item into those before it, after its equals. Among the first ones, an item that belongs before all of
/// them is compared with the first alone, which shows where some can't be compared.
fn insertion_sort<T: Item>(items: &mut [T]) {
    for i in 1..items.len() {
        let one = items[i];
        let to = match i < FEW && one.before(items[0]) {
            true => 0,
            false => items[..i].iter().rposition(|x| !one.before(*x)).map_or(0, |at| at + 1),
        };
        items.copy_within(to..i, to + 1);
        items[to] = one;
    }
}

/// Moves the median of the second, the middle and the last item to the front as the pivot; returns the start of the
/// items that are not before it. There are more than three.
fn partition<T: Item>(items: &mut [T]) -> usize {
    let (a, b, c) = (1, items.len() / 2, items.len() - 1);
    let is = |i: usize, j: usize| items[i].before(items[j]);
    let median = match (is(a, b), is(b, c), is(a, c)) {
        (true, true, _) | (false, false, false) => b,
        (true, false, true) | (false, true, false) => c,
        (true, false, false) | (false, _, true) => a,
    };
    items.swap(0, median);
    let pivot = items[0];
    let (mut low, mut high) = (1, items.len());
    loop {
        while items[low].before(pivot) {
            low += 1;
        }
        high -= 1;
        while pivot.before(items[high]) {
            high -= 1;
        }
        if low >= high {
            return low;
        }
        items.swap(low, high);
        low += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::item::Wide;
    use super::*;

    /// The cuts that a selection of the last element makes.
    fn cuts(keys: &[u64]) -> u32 {
        let mut items: Vec<Wide> = item::all(keys, |key| key);
        let mut rest = &mut items[..];
        let mut cuts = 0;
        while rest.len() > 3 {
            let cut = partition(rest);
            rest = &mut rest[cut..];
            cuts += 1;
        }
        cuts
    }

    /// Keys of which each median of three is one of the two smallest, found by looking for the places that it reads.
    fn with_bad_pivots(n: usize) -> Vec<u64> {
        let mut keys = vec![0; n];
        // the positions that are still to be cut, in the order in which they stand
        let mut left: Vec<usize> = (0..n).collect();
        let mut next = 0;
        while left.len() > 3 {
            // the second and the middle one are smaller than all others, and the middle one becomes the pivot
            let middle = left.len() / 2;
            (keys[left[1]], keys[left[middle]]) = (next, next + 1);
            next += 2;
            // the pivot is swapped to the front, and the first one to its place; both small ones leave
            let first = left[0];
            left[middle] = first;
            left.remove(1);
            left.remove(0);
        }
        for at in left {
            keys[at] = next;
            next += 1;
        }
        keys
    }

    #[test]
    fn after_many_bad_pivots_a_heap_sorts() {
        let n = 600;
        let keys = with_bad_pivots(n);
        assert!(cuts(&keys) > most_cuts(n), "{} cuts", cuts(&keys));
        let mut want = keys.clone();
        want.sort_unstable();
        for k in [n / 2, n - 3, n] {
            let got: Vec<Wide> = first(k, true, &keys, |key| key);
            assert_eq!(got.iter().map(|i| i.key()).collect::<Vec<_>>(), want[..k], "{k}");
        }
    }
}
