//! A stable sort by digits. Its time grows with the number of elements, and with the logarithm of the span between the
//! least and the largest key, which is a size for indices.

use super::item::Item;

/// Bits of a digit: its 2,048 counts fit the first-level cache.
const BITS: u32 = 11;

/// Below this many elements, a comparison sort is as fast.
const LEAST: usize = 256;

/// The elements, of which position i stands at place i, in the order of their keys; equal ones keep their order.
pub(super) fn sort<T: Item>(mut items: Vec<T>) -> Vec<T> {
    if items.len() < LEAST {
        // equal keys are in the order of their positions
        items.sort_unstable();
        return items;
    }
    let (least, largest) = items.iter().fold((u64::MAX, 0), |(a, b), i| (a.min(i.key()), b.max(i.key())));
    let bits = u64::BITS - (largest - least).leading_zeros();
    let mut to = items.clone();
    for shift in (0..bits).step_by(BITS as usize) {
        let digit = |item: &T| ((item.key() - least) >> shift) as usize & ((1 << BITS) - 1);
        let mut places = [0usize; 1 << BITS];
        items.iter().for_each(|item| places[digit(item)] += 1);
        if places.contains(&items.len()) {
            continue;
        }
        let mut before = 0;
        for place in &mut places {
            before += std::mem::replace(place, before);
        }
        for item in &items {
            let place = &mut places[digit(item)];
            to[*place] = *item;
            *place += 1;
        }
        std::mem::swap(&mut items, &mut to);
    }
    items
}
