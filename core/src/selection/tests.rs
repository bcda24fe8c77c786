//! Tests of selections: by their definition, and by PyTorch's answers for lines with many equal elements.

use super::*;

fn positions(order: Order, descending: bool, x: &[f64]) -> Vec<usize> {
    let mut out = Vec::new();
    Selection { order, descending, dim: 0 }.line(x, |e| e, |at| out.push(at));
    // keys of 32 bits give the same
    let mut narrow = Vec::new();
    Selection { order, descending, dim: 0 }.line(x, |e| e as f32, |at| narrow.push(at));
    assert_eq!(out, narrow);
    out
}

/// Numbers below `below`, from a fixed generator.
fn numbers(seed: u64, n: usize, below: u64) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 33
    };
    (0..n).map(|_| (next() % below) as f64).collect()
}

/// Numbers with many ties and some NaN.
fn with_nan(seed: u64, n: usize) -> Vec<f64> {
    numbers(seed, n, 8).into_iter().map(|x| if x == 7.0 { f64::NAN } else { x - 3.0 }).collect()
}

/// The definition of the stable order.
fn sorted(descending: bool, x: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..x.len()).collect();
    match descending {
        false => order.sort_by_key(|at| x[*at].key()),
        true => order.sort_by_key(|at| std::cmp::Reverse(x[*at].key())),
    }
    order
}

#[test]
fn sorts_are_stable_at_any_length() {
    for (seed, n) in [0, 1, 2, 15, 255, 256, 300, 3000].into_iter().enumerate() {
        for descending in [false, true] {
            let x = with_nan(seed as u64 + 1, n);
            assert_eq!(positions(Order::Sort, descending, &x), sorted(descending, &x), "{n}");
            let wide: Vec<f64> =
                numbers(seed as u64 + 1, n, 1 << 30).into_iter().map(|x| (x - 5e8) as f32 as f64).collect();
            assert_eq!(positions(Order::Sort, descending, &wide), sorted(descending, &wide), "{n}");
        }
    }
}

#[test]
fn integers_of_any_span_are_sorted() {
    for span in [1, 7, 2_048, 100_000, 1 << 31] {
        let mut x: Vec<i64> = numbers(3, 600, span).into_iter().map(|x| x as i64).collect();
        if span > 100_000 {
            x.extend([i64::MIN, i64::MAX, 0, -1]);
        }
        let mut got = Vec::new();
        Selection { order: Order::Sort, descending: false, dim: 0 }.line(&x, |e| e, |at| got.push(at));
        let mut want: Vec<usize> = (0..x.len()).collect();
        want.sort_by_key(|at| x[*at]);
        assert_eq!(got, want, "of {span}");
    }
}

#[test]
fn selections_bring_the_kth_to_its_place() {
    for seed in 1..400 {
        let n = 1 + seed as usize % 141;
        let (x, descending, in_order) = (with_nan(seed, n), seed % 2 == 0, seed % 3 == 0);
        let all = sorted(descending, &x);
        for k in 1..=n {
            let got = positions(Order::Intro { k, sorted: in_order }, descending, &x);
            let key = |at: &usize| x[*at].key();
            let keys = |of: &[usize]| of.iter().map(key).collect::<Vec<u64>>();
            let (mut mine, mut firsts) = (keys(&got), keys(&all[..k]));
            assert_eq!(mine.last(), firsts.last(), "{x:?} {k}: {got:?}");
            if in_order {
                assert_eq!(mine, firsts, "{x:?} {k}: {got:?}");
            }
            mine.sort_unstable();
            firsts.sort_unstable();
            assert_eq!(mine, firsts, "{x:?} {k}: {got:?}");
            let mut once = got.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), k, "each position once: {got:?}");
            let [at] = positions(Order::Quick { k }, false, &x)[..] else { panic!("one position") };
            assert_eq!(key(&at), key(&sorted(false, &x)[k - 1]), "{x:?} {k}");
        }
    }
}

/// The seed, length and bound of [`numbers`], and the positions of their largest and their smallest.
type Topk = ((u64, usize, u64), &'static [usize], &'static [usize]);

/// Selections by PyTorch 2.15.
#[rustfmt::skip]
const TOPK: &[Topk] = &[
    ((1, 200, 7), &[13, 11, 5], &[28, 3, 19]),
    ((2, 640, 5), &[11, 4, 22, 10, 16, 33, 36, 46, 17, 2], &[18, 55, 64, 7, 40, 24, 71, 75, 48, 27]),
    ((3, 130, 3), &[6, 0], &[4, 1]),
    ((5, 100, 6), &[28, 71, 74, 77, 69, 25, 13, 79, 66, 21, 29, 31, 63, 92, 0, 81, 87, 9, 47, 88, 89, 20, 99, 94, 98, 14, 67, 24, 27, 30, 34, 43, 44, 46, 50, 90, 49, 85, 73, 78], &[58, 84, 26, 19, 82, 17, 76, 72, 39, 40, 11, 65, 64, 7, 60, 52, 68, 95, 15, 8, 10, 16, 12, 91, 18, 96, 86, 23, 1, 57, 83, 55, 54, 42, 51, 4, 48, 5, 41, 45]),
    ((6, 60, 4), &[10, 20, 22, 14, 26, 12, 28, 31, 34, 6, 36, 4, 38, 50, 0, 35, 29, 25, 24, 21, 18, 55, 13, 58, 19, 5, 7, 39, 48, 44, 43, 49, 41, 3, 37, 33, 8, 30, 52, 54, 23, 32, 46, 42, 45, 40, 16, 15, 11, 9, 2, 1, 17, 47, 53, 56, 59, 57, 51, 27], &[59, 1, 2, 9, 11, 15, 16, 17, 27, 32, 40, 42, 45, 46, 47, 51, 53, 56, 57, 52, 33, 37, 30, 8, 54, 39, 3, 49, 41, 23, 43, 44, 48, 29, 7, 5, 55, 25, 24, 21, 58, 19, 18, 13, 35, 0, 34, 6, 38, 10, 36, 12, 26, 22, 20, 14, 28, 50, 4, 31]),
    ((7, 300, 11), &[296, 104, 128, 24, 136, 157, 164, 165, 30, 31, 175, 180, 186, 81, 270, 218, 247, 97, 219, 204, 160, 295, 48, 101, 72, 88, 75, 83, 91, 222], &[105, 297, 256, 244, 239, 235, 229, 224, 250, 127, 111, 110, 109, 107, 106, 135, 103, 99, 82, 80, 79, 76, 68, 66, 60, 56, 54, 46, 43, 266]),
    ((8, 64, 2), &[0], &[1]),
];

#[test]
fn equal_elements_come_in_the_order_of_pytorch() {
    for ((seed, n, below), largest, smallest) in TOPK {
        let x = numbers(*seed, *n, *below);
        let order = Order::Intro { k: largest.len(), sorted: true };
        assert_eq!(&positions(order, true, &x), largest);
        assert_eq!(&positions(order, false, &x), smallest);
    }
}

/// The seed and length of [`with_nan`], and the positions in which `std::sort` of GNU libstdc++ 13 leaves its numbers.
#[rustfmt::skip]
const SORTED: &[(u64, usize, &[usize])] = &[
    (1, 16, &[13, 4, 2, 0, 1, 5, 9, 3, 6, 7, 8, 10, 11, 15, 12, 14]),
    (2, 40, &[1, 38, 31, 29, 28, 22, 20, 19, 11, 39, 37, 33, 32, 24, 34, 30, 4, 17, 9, 23, 5, 15, 10, 35, 12, 13, 7, 25, 14, 36, 8, 21, 27, 16, 18, 0, 26, 3, 2, 6]),
    (3, 64, &[3, 40, 22, 55, 23, 26, 27, 52, 43, 39, 30, 31, 34, 35, 1, 48, 53, 58, 62, 63, 19, 6, 12, 15, 57, 50, 47, 51, 44, 9, 5, 33, 14, 2, 24, 25, 59, 29, 32, 38, 54, 41, 7, 61, 45, 0, 4, 56, 21, 8, 49, 42, 46, 10, 11, 37, 36, 13, 28, 16, 60, 17, 18, 20]),
    (4, 17, &[14, 1, 16, 15, 13, 4, 12, 11, 9, 7, 5, 3, 0, 10, 6, 8, 2]),
    (9, 100, &[75, 83, 33, 7, 63, 64, 11, 27, 89, 30, 20, 84, 23, 82, 28, 53, 68, 78, 44, 70, 96, 48, 43, 77, 98, 46, 74, 35, 79, 5, 73, 29, 61, 52, 25, 24, 16, 17, 67, 4, 0, 3, 42, 76, 39, 38, 19, 36, 55, 93, 90, 65, 66, 81, 80, 50, 86, 87, 88, 94, 95, 99, 60, 1, 10, 21, 22, 40, 51, 32, 91, 12, 59, 58, 14, 9, 85, 26, 31, 97, 37, 56, 45, 47, 49, 72, 71, 69, 62, 6, 2, 8, 92, 13, 15, 18, 57, 34, 41, 54]),
];

#[test]
fn an_unstable_sort_leaves_elements_and_nan_where_the_library_does() {
    for (seed, n, want) in SORTED {
        assert_eq!(&positions(Order::Unstable, false, &with_nan(*seed, *n)), want);
    }
}
