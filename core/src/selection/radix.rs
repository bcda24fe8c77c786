//! A stable sort of integers by digits. Its time grows with the number of elements, and with the logarithm of the span
//! between the least and the largest one, which is a size for indices.

use crate::scalar::Scalar;

/// Bits of a digit: its 2,048 counts fit the first-level cache.
const BITS: u32 = 11;

/// Below this many elements, a comparison sort is as fast.
const LEAST: usize = 64;

/// The positions that sort the elements `element(0)`, …, `element(n - 1)`; equal elements keep their order. `None` for
/// few elements, or if one is not an integer.
pub fn positions(n: usize, element: &dyn Fn(usize) -> Scalar, descending: bool) -> Option<Vec<usize>> {
    if n < LEAST {
        return None;
    }
    let number = |at: usize| match element(at) {
        Scalar::Int(x) => Some(x),
        _ => None,
    };
    let numbers = (0..n).map(number).collect::<Option<Vec<i64>>>()?;
    let (least, largest) = (*numbers.iter().min()?, *numbers.iter().max()?);
    // The distance from the first element of the order; for two i64 it fits 64 bits.
    let key = |x: i64| if descending { largest.wrapping_sub(x) } else { x.wrapping_sub(least) } as u64;
    let bits = u64::BITS - (largest.wrapping_sub(least) as u64).leading_zeros();
    let mut from: Vec<(u64, usize)> = numbers.iter().enumerate().map(|(at, x)| (key(*x), at)).collect();
    let mut to = vec![(0, 0); n];
    for shift in (0..bits).step_by(BITS as usize) {
        let digit = |key: u64| (key >> shift) as usize & ((1 << BITS) - 1);
        let mut places = [0usize; 1 << BITS];
        from.iter().for_each(|(key, _)| places[digit(*key)] += 1);
        let mut before = 0;
        for place in &mut places {
            before += std::mem::replace(place, before);
        }
        for item in &from {
            let place = &mut places[digit(item.0)];
            to[*place] = *item;
            *place += 1;
        }
        std::mem::swap(&mut from, &mut to);
    }
    Some(from.into_iter().map(|(_, at)| at).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_sort_as_a_stable_sort_does() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state ^ (state >> 29)) as i64
        };
        for span in [1, 7, 2_048, 100_000, i64::MAX] {
            let mut numbers: Vec<i64> = (0..300).map(|_| next() % span).collect();
            if span == i64::MAX {
                numbers.extend([i64::MIN, i64::MAX, 0]);
            }
            let element = |at: usize| Scalar::Int(numbers[at]);
            for descending in [false, true] {
                let mut want: Vec<usize> = (0..numbers.len()).collect();
                match descending {
                    true => want.sort_by_key(|at| std::cmp::Reverse(numbers[*at])),
                    false => want.sort_by_key(|at| numbers[*at]),
                }
                assert_eq!(positions(numbers.len(), &element, descending), Some(want), "of {span}, {descending}");
            }
        }
        assert_eq!(positions(100, &|_| Scalar::Float(0.0), false), None, "floats are compared");
    }
}
