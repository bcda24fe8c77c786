//! Hoare's selection with a median of three (Numerical Recipes, `select`), which PyTorch's `kthvalue` runs.

use super::item::Item;

/// Brings the item there that a sort would put at `nth`.
pub(super) fn select<T: Item>(items: &mut [T], nth: usize) {
    let (mut left, mut right) = (0, items.len() - 1);
    while right > left {
        let swap = |items: &mut [T], i: usize, j: usize| {
            if items[j].before(items[i]) {
                items.swap(i, j);
            }
        };
        if right == left + 1 {
            swap(items, left, right);
            return;
        }
        items.swap((left + right) / 2, left + 1);
        swap(items, left + 1, right);
        swap(items, left, right);
        swap(items, left + 1, left);
        let pivot = items[left];
        let (mut i, mut j) = (left + 1, right);
        loop {
            i += 1;
            while items[i].before(pivot) {
                i += 1;
            }
            j -= 1;
            while pivot.before(items[j]) {
                j -= 1;
            }
            if j < i {
                break;
            }
            items.swap(i, j);
        }
        items.swap(left, j);
        match j.cmp(&nth) {
            std::cmp::Ordering::Less => left = i,
            std::cmp::Ordering::Greater => right = j - 1,
            std::cmp::Ordering::Equal => return,
        }
    }
}
