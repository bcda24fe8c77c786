//! Affine index expressions over the dims of a graph, and sets of dims.

use smallvec::SmallVec;
use std::borrow::Borrow;
use std::cmp::Reverse;

/// The number of a dim of a graph, which is a loop.
pub type Dim = u8;

/// At most this many dims in a graph, because a set of dims is a `u32`.
pub const MAX_DIMS: usize = 32;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DimSet(pub u32);

impl DimSet {
    /// The empty set.
    pub const EMPTY: DimSet = DimSet(0);

    /// The set of `d` alone.
    pub fn one(d: Dim) -> DimSet {
        DimSet(1 << d)
    }
    /// Whether `d` is in the set.
    pub fn has(self, d: Dim) -> bool {
        self.0 & (1 << d) != 0
    }
    /// The dims of either set.
    pub fn union(self, other: DimSet) -> DimSet {
        DimSet(self.0 | other.0)
    }
    /// The dims of both sets.
    pub fn meet(self, other: DimSet) -> DimSet {
        DimSet(self.0 & other.0)
    }
    /// The dims that are not in `other`.
    pub fn minus(self, other: DimSet) -> DimSet {
        DimSet(self.0 & !other.0)
    }
    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Whether the set is a subset of `other`.
    pub fn within(self, other: DimSet) -> bool {
        self.0 & !other.0 == 0
    }
    /// The dims of the set, ascending.
    pub fn iter(self) -> impl Iterator<Item = Dim> {
        (0..MAX_DIMS as Dim).filter(move |d| self.has(*d))
    }
    /// The number of dims.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }
}

impl FromIterator<Dim> for DimSet {
    fn from_iter<I: IntoIterator<Item = Dim>>(iter: I) -> DimSet {
        iter.into_iter().fold(DimSet::EMPTY, |s, d| s.union(DimSet::one(d)))
    }
}

impl std::fmt::Debug for DimSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// An index expression `base + Σ coefficient · dim`. Terms are sorted by dim, and no coefficient is 0.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Affine {
    /// The constant.
    pub base: i64,
    /// Dims with their coefficients.
    pub terms: SmallVec<[(Dim, i64); 2]>,
}

impl Affine {
    /// A constant expression.
    pub fn constant(base: i64) -> Affine {
        Affine { base, terms: SmallVec::new() }
    }
    /// The expression that is one dim.
    pub fn dim(d: Dim) -> Affine {
        Affine { base: 0, terms: SmallVec::from_slice(&[(d, 1)]) }
    }
    /// The value, if the expression is constant.
    pub fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.base)
    }
    /// The coefficient of `d`.
    pub fn coef(&self, d: Dim) -> i64 {
        self.terms.iter().find(|t| t.0 == d).map_or(0, |t| t.1)
    }
    /// The dims of the expression.
    pub fn dims(&self) -> DimSet {
        self.terms.iter().map(|t| t.0).collect()
    }

    /// Computes `self + k · other`; `None` if a number leaves i64.
    pub fn plus(&self, other: &Affine, k: i64) -> Option<Affine> {
        let mut sum = self.clone();
        sum.add(other, k)?;
        Some(sum)
    }

    fn add(&mut self, other: &Affine, k: i64) -> Option<()> {
        self.base = self.base.checked_add(other.base.checked_mul(k)?)?;
        other.terms.iter().try_for_each(|&(d, c)| self.add_term(d, c.checked_mul(k)?))
    }

    /// Computes `k · self`; `None` if a number leaves i64.
    pub fn times(&self, k: i64) -> Option<Affine> {
        Affine::constant(0).plus(self, k)
    }

    fn add_term(&mut self, d: Dim, c: i64) -> Option<()> {
        match self.terms.binary_search_by_key(&d, |t| t.0) {
            Ok(at) => {
                self.terms[at].1 = self.terms[at].1.checked_add(c)?;
                if self.terms[at].1 == 0 {
                    self.terms.remove(at);
                }
            }
            Err(at) if c != 0 => self.terms.insert(at, (d, c)),
            Err(_) => {}
        }
        Some(())
    }

    /// The least and the greatest value over `0..sizes[d]` of every dim; sizes are not 0.
    pub fn range(&self, sizes: &[usize]) -> (i64, i64) {
        self.terms.iter().fold((self.base, self.base), |(lo, hi), &(d, c)| {
            let reach = c.saturating_mul(sizes[d as usize] as i64 - 1);
            (lo.saturating_add(reach.min(0)), hi.saturating_add(reach.max(0)))
        })
    }

    /// The quotient and the remainder of floor division by `k > 0`, if both are affine: the terms that `k` does not
    /// divide must stay within `0..k`.
    pub fn div_rem(&self, k: i64, sizes: &[usize]) -> Option<(Affine, Affine)> {
        let (mut q, mut r) = (Affine::constant(self.base.div_euclid(k)), Affine::constant(self.base.rem_euclid(k)));
        for &(d, c) in &self.terms {
            if c % k == 0 { q.add_term(d, c / k)? } else { r.add_term(d, c)? }
        }
        let (lo, hi) = r.range(sizes);
        (lo >= 0 && hi < k).then_some((q, r))
    }

    /// Replaces every dim by the expression that `f` returns.
    pub fn substitute<A: Borrow<Affine>>(&self, f: &mut impl FnMut(Dim) -> A) -> Option<Affine> {
        let mut sum = Affine::constant(self.base);
        self.terms.iter().try_for_each(|&(d, c)| sum.add(f(d).borrow(), c))?;
        Some(sum)
    }

    /// The dims, slowest first, of a mixed-radix number `d0 · s1·s2… + d1 · s2… + …` that runs once through `0..size`,
    /// if the expression is one. A size of 1 has no dims.
    pub fn digits(&self, size: usize, sizes: &[usize]) -> Option<SmallVec<[Dim; 2]>> {
        if self.base != 0 {
            return None;
        }
        let mut terms: SmallVec<[(Dim, i64); 4]> =
            self.terms.iter().copied().filter(|t| sizes[t.0 as usize] != 1).collect();
        terms.sort_by_key(|t| Reverse(t.1));
        let mut stride = 1i64;
        for &(d, c) in terms.iter().rev() {
            if c != stride {
                return None;
            }
            stride = stride.checked_mul(sizes[d as usize] as i64)?;
        }
        (stride == size as i64).then(|| terms.iter().map(|t| t.0).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a(base: i64, terms: &[(Dim, i64)]) -> Affine {
        terms.iter().fold(Affine::constant(base), |s, &(d, c)| s.plus(&Affine::dim(d), c).unwrap())
    }

    #[test]
    fn arithmetic_cancels() {
        let x = a(3, &[(0, 2), (1, 5)]);
        assert_eq!(x.plus(&a(1, &[(1, 5)]), -1), Some(a(2, &[(0, 2)])));
        assert_eq!(x.range(&[3, 2]), (3, 12));
        assert_eq!(a(0, &[(0, -1)]).range(&[4]), (-3, 0));
        assert_eq!(Affine::constant(i64::MAX).plus(&Affine::constant(1), 1), None);
    }

    #[test]
    fn division_of_mixed_radix_numbers() {
        let sizes = [5, 4, 3];
        let flat = a(0, &[(0, 12), (1, 3), (2, 1)]);
        assert_eq!(flat.div_rem(3, &sizes), Some((a(0, &[(0, 4), (1, 1)]), a(0, &[(2, 1)]))));
        assert_eq!(flat.div_rem(12, &sizes), Some((a(0, &[(0, 1)]), a(0, &[(1, 3), (2, 1)]))));
        assert_eq!(flat.div_rem(2, &sizes), None);
        assert_eq!(flat.digits(60, &sizes).unwrap().as_slice(), &[0, 1, 2]);
        assert_eq!(flat.digits(61, &sizes), None);
        assert_eq!(a(0, &[(0, 12), (2, 1)]).digits(15, &sizes), None);
        assert_eq!(a(0, &[(0, i64::MIN), (2, 1)]).digits(15, &sizes), None);
        assert_eq!(a(0, &[(0, 1 << 40), (1, 1)]).digits(15, &[1 << 40, 1 << 40, 3]), None);
    }
}
