//! Operands that slide: elements at `step · result + spread · term + base` of an axis, such as those of a convolution.

use super::{Affine, Dim, DimSet, Index, Load};
use smallvec::SmallVec;

/// An axis along which windows slide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slide {
    /// The axis of the operand.
    pub axis: usize,
    /// The dim of the result, and the distance from window to window.
    pub along: (Dim, i64),
    /// The summed dim, and the distance between its neighbouring terms; `None` for windows of one element.
    pub over: Option<(Dim, i64)>,
    /// Whether the terms lie in the opposite order of the summed dim, as in the gradient of a convolution's input.
    pub reversed: bool,
    /// The lowest position of a term of the first window.
    pub base: i64,
}

/// At least this many windows pay for the copy of an operand with room around it.
const LEAST: usize = 16;

/// At most this many terms of one row of the result, so that the places of their copy, which has at most eight times as
/// many elements, are 32 bits long.
const MOST_TERMS: usize = u32::MAX as usize / 16;
/// A copy may have this many elements more along an axis than twice those of the source.
const ROOM: i64 = 64;
/// At most this many axes slide, which are those of a volume.
pub const MOST: usize = 3;

impl Load {
    /// Whether the operand is strided memory in which every element occurs once.
    pub fn lies(&self, sizes: &[usize]) -> bool {
        let window = self.idx.iter().any(|i| match i {
            Index::Affine(a) => overlaps(&a.terms, sizes),
            Index::Node(_) => true,
        });
        !window && self.outside.is_none()
    }

    /// The axes along which the operand slides. There are none unless every axis slides or is
    /// plain, the operand reads zeros outside of its axes, and every dim belongs to one axis. `own`
    /// are the dims of the result that this operand alone has, `summed` the summed dims.
    pub fn slides(&self, own: DimSet, summed: DimSet, shape: &[usize], sizes: &[usize]) -> Option<Vec<Slide>> {
        if self.outside.is_some_and(|z| z.scalar().as_f64() != 0.0) {
            return None;
        }
        let (mut slides, mut seen) = (Vec::new(), DimSet::EMPTY);
        for (axis, (index, n)) in self.idx.iter().zip(shape).enumerate() {
            let Index::Affine(a) = index else { return None };
            if !seen.meet(a.dims()).is_empty() {
                return None;
            }
            seen = seen.union(a.dims());
            match slide(axis, a, own, summed, sizes) {
                Some(s) => slides.push(s),
                None if !plain(a, *n, sizes) => return None,
                None => {}
            }
        }
        let extent = |d: Dim| sizes[d as usize];
        let meets =
            |s: &Slide| s.over.is_some_and(|(d, spread)| spread.saturating_mul(extent(d) as i64 - 1) >= s.along.1);
        // A sum over more terms than there are windows, such as the gradient of weights, has other shapes.
        let narrow = |s: &Slide| s.over.is_none_or(|(d, _)| extent(d) <= extent(s.along.0)) || !meets(s);
        // The copy with room around it is not much larger than one with each window apart, and its elements can be counted.
        let fits = |s: &Slide| {
            let (n, (terms, spread)) = (extent(s.along.0) as i64, s.over.map_or((1, 1), |o| (extent(o.0) as i64, o.1)));
            let (apart, reach) = (n.checked_mul(2 * terms), (terms - 1).checked_mul(spread).map(|r| r / s.along.1));
            let room = reach.and_then(|r| n.checked_add(r)?.checked_mul(terms.min(s.along.1)));
            matches!((room, apart), (Some(room), Some(apart)) if room <= apart)
        };
        let windows: usize = slides.iter().map(|s| extent(s.along.0)).product();
        let terms = summed.iter().map(extent).fold(windows, usize::saturating_mul);
        if !slides.iter().all(fits) || terms > MOST_TERMS {
            return None;
        }
        // One axis of windows side by side is strided memory, which has fewer and longer lines if other dims join it.
        let alone = || own.iter().filter(|d| extent(*d) > 1).all(|d| slides.iter().any(|s| s.along.0 == d));
        if self.outside.is_none() && !slides.iter().any(meets) && slides.len() < 2 && !alone() {
            return None;
        }
        ((1..=MOST).contains(&slides.len()) && windows >= LEAST && slides.iter().all(narrow)).then_some(slides)
    }

    /// The axes along which the operand slides if the places of its windows are summed, as in the gradient of a
    /// convolution's weights: [`Slide::along`] is a summed dim, and [`Slide::over`] one of the result.
    pub fn sums_windows(&self, own: DimSet, summed: DimSet, shape: &[usize], sizes: &[usize]) -> Option<Vec<Slide>> {
        if self.outside.is_some_and(|z| z.scalar().as_f64() != 0.0) {
            return None;
        }
        let extent = |d: Dim| sizes[d as usize] as i64;
        let (mut slides, mut seen, mut copied) = (Vec::new(), DimSet::EMPTY, 1i64);
        for (axis, (index, n)) in self.idx.iter().zip(shape).enumerate() {
            let Index::Affine(a) = index else { return None };
            if !seen.meet(a.dims()).is_empty() {
                return None;
            }
            seen = seen.union(a.dims());
            let size = match slide(axis, a, summed, own, sizes) {
                Some(s) => {
                    let reach = |(d, step): (Dim, i64)| step.checked_mul(extent(d) - 1);
                    let size = reach(s.along)?.checked_add(s.over.map_or(Some(0), reach)?)?;
                    // The copy has little room around the source.
                    if s.reversed || size > (*n as i64).saturating_mul(2).saturating_add(ROOM) {
                        return None;
                    }
                    slides.push(s);
                    size.checked_add(1)?
                }
                None if !plain(a, *n, sizes) => return None,
                None => *n as i64,
            };
            copied = copied.checked_mul(size)?;
        }
        let places = summed.iter().fold(1, |all: i64, d| all.saturating_mul(extent(d)));
        let fits = copied <= MOST_TERMS as i64 && places >= LEAST as i64;
        let some = (1..=MOST).contains(&slides.len()) && slides.iter().any(|s| s.over.is_some());
        (some && fits).then_some(slides)
    }
}

/// Whether an index names elements of an axis of this size, each once.
fn plain(a: &Affine, n: usize, sizes: &[usize]) -> bool {
    let (lo, hi) = a.range(sizes);
    lo >= 0 && hi < n as i64 && a.terms.iter().all(|t| t.1 > 0) && !overlaps(&a.terms, sizes)
}

/// Whether two settings of the dims give one index, which makes a window and not a mixed-radix number.
fn overlaps(terms: &[(Dim, i64)], sizes: &[usize]) -> bool {
    let mut terms: SmallVec<[(u64, u64); 4]> =
        terms.iter().map(|&(d, c)| (c.unsigned_abs(), sizes[d as usize] as u64)).collect();
    terms.sort_unstable();
    terms.windows(2).any(|w| w[1].0 < w[0].0.saturating_mul(w[0].1))
}

/// The index as windows, if it has a dim of the result that only this operand has.
fn slide(axis: usize, a: &Affine, own: DimSet, summed: DimSet, sizes: &[usize]) -> Option<Slide> {
    let of = |set: DimSet| a.terms.iter().copied().find(|t| set.has(t.0));
    let (along, over) = (of(own).filter(|t| t.1 > 0)?, of(summed));
    let reversed = over.is_some_and(|o| o.1 < 0);
    let base = match over.filter(|_| reversed) {
        Some((d, spread)) => a.base.checked_add(spread.checked_mul(sizes[d as usize] as i64 - 1)?)?,
        None => a.base,
    };
    let over = match over {
        Some((d, spread)) => Some((d, spread.checked_abs()?)),
        None => None,
    };
    let plain = base == 0 && along.1 == 1 && over.is_none();
    (!plain && a.terms.len() == 1 + over.is_some() as usize).then_some(Slide { axis, along, over, reversed, base })
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    fn affine(base: i64, terms: &[(Dim, i64)]) -> Index {
        Index::Affine(terms.iter().fold(Affine::constant(base), |s, &(d, c)| s.plus(&Affine::dim(d), c).unwrap()))
    }

    #[test]
    fn windows_slide_along_the_axes_of_a_convolution_and_of_the_gradient_of_its_input() {
        // channel, rows, columns, and the terms of a window
        let sizes = [4, 8, 9, 3, 3];
        let idx = smallvec![affine(0, &[(0, 1)]), affine(-1, &[(1, 1), (3, 1)]), affine(-1, &[(2, 2), (4, 1)])];
        let load =
            Load { value: 0, idx, outside: Some(fulgurite_core::Scalar::Float(0.0).into()), no_minus_zero: false };
        let (places, terms): (DimSet, DimSet) = ([1, 2].into_iter().collect(), [0, 3, 4].into_iter().collect());
        let slides = load.slides(places, terms, &[4, 8, 18], &sizes).unwrap();
        assert_eq!(slides[1], Slide { axis: 2, along: (2, 2), over: Some((4, 1)), reversed: false, base: -1 });
        // the gradient of the input walks the terms backwards
        let idx = smallvec![affine(0, &[(0, 1)]), affine(1, &[(1, 1), (3, -1)]), affine(1, &[(2, 1), (4, -1)])];
        let backwards = Load { value: 0, idx, outside: load.outside, no_minus_zero: false };
        let slides = backwards.slides(places, terms, &[4, 8, 9], &sizes).unwrap();
        assert_eq!(slides[0], Slide { axis: 1, along: (1, 1), over: Some((3, 1)), reversed: true, base: -1 });
        // Patches side by side, and heads of a matrix, of which the former are windows.
        let sizes = [4, 8, 9, 16, 16];
        let idx = smallvec![affine(0, &[(0, 1)]), affine(0, &[(1, 16), (3, 1)]), affine(0, &[(2, 16), (4, 1)])];
        let patches = Load { value: 0, idx, outside: None, no_minus_zero: false };
        assert!(patches.slides(places, terms, &[4, 128, 144], &sizes).is_some());
        let heads = Load {
            value: 0,
            idx: smallvec![affine(0, &[(0, 1)]), affine(0, &[(1, 64), (3, 1)])],
            outside: None,
            no_minus_zero: false,
        };
        assert_eq!(heads.slides([0, 1].into_iter().collect(), terms, &[4, 2048], &[4, 32, 9, 64, 1]), None);
        let sizes = [4, 8, 9, 3, 3];
        // A dilation that leaves most of the copy empty.
        let idx = smallvec![affine(0, &[(0, 1)]), affine(-1, &[(1, 1), (3, 1000)]), affine(-1, &[(2, 2), (4, 1)])];
        let wide = Load { value: 0, idx, outside: load.outside, no_minus_zero: false };
        assert_eq!(wide.slides(places, terms, &[4, 8, 18], &sizes), None);
        // The ends of i64, as the step of a window and beside it.
        let sizes = [4, 8, 9, 2, 2];
        for spread in [i64::MIN, i64::MAX] {
            let idx =
                smallvec![affine(0, &[(0, spread)]), affine(0, &[(1, 1), (3, spread)]), affine(0, &[(4, spread)])];
            let far = Load { value: 0, idx, outside: load.outside, no_minus_zero: false };
            assert_eq!(far.slides(places, terms, &[4, 8, 18], &sizes), None);
            assert_eq!(far.sums_windows(terms, places, &[4, 8, 18], &sizes), None);
        }
        let gradient = load.slides([0, 3, 4].into_iter().collect(), places, &[4, 8, 18], &sizes);
        assert_eq!(gradient, None);
    }
}
