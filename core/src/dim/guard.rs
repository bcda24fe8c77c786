//! Guards: the comparisons of symbolic sizes that a trace relied on, recorded as they are made.

use super::poly::{Poly, floor_div, gcd};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;

/// How two sizes compare.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum Is {
    Equal,
    Unequal,
    Above,
    NotAbove,
    Below,
    NotBelow,
}

/// A comparison that must hold again before a program serves another call.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DimGuard {
    left: Poly,
    is: Is,
    right: Poly,
}

impl DimGuard {
    /// Compares `difference` with 0; its negative terms move to the right side.
    fn new(difference: &Poly, is: Is) -> DimGuard {
        let (left, right) = difference.sides();
        DimGuard { left, is, right }
    }

    /// Whether the guard holds for the values of atoms that `at` gives.
    pub fn holds(&self, at: &dyn Fn(&str) -> Option<i64>) -> bool {
        let Some((left, right)) = self.values(at) else { return false };
        match self.is {
            Is::Equal => left == right,
            Is::Unequal => left != right,
            Is::Above => left > right,
            Is::NotAbove => left <= right,
            Is::Below => left < right,
            Is::NotBelow => left >= right,
        }
    }

    /// The values of both sides.
    pub fn values(&self, at: &dyn Fn(&str) -> Option<i64>) -> Option<(i64, i64)> {
        Some((self.left.value(at)?, self.right.value(at)?))
    }
}

impl fmt::Display for DimGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is = match self.is {
            Is::Equal => "==",
            Is::Unequal => "!=",
            Is::Above => ">",
            Is::NotAbove => "<=",
            Is::Below => "<",
            Is::NotBelow => ">=",
        };
        write!(f, "{} {is} {}", self.left, self.right)
    }
}

#[derive(Default)]
struct List {
    /// Guards in the order of their first recording; polynomials are interned, so the address identifies them.
    made: Vec<(&'static Poly, Is)>,
    known: HashSet<(*const Poly, Is)>,
    muted: usize,
}

thread_local! {
    static LIST: RefCell<List> = RefCell::default();
}

/// Records how `difference` compares with 0.
pub(super) fn record(difference: Poly, is: Is) {
    if LIST.with_borrow(|l| l.muted > 0) {
        return;
    }
    let difference = difference.interned();
    LIST.with_borrow_mut(|l| {
        if l.known.insert((difference, is)) {
            l.made.push((difference, is));
        }
    });
}

/// Collects the guards that this thread records, separately from any enclosing recording.
pub struct Recording {
    outer: Option<List>,
}

impl Recording {
    /// Starts a recording.
    pub fn start() -> Recording {
        Recording { outer: Some(LIST.take()) }
    }

    /// Discards the guards recorded up to now.
    pub fn restart(&mut self) {
        LIST.set(List::default());
    }

    /// The recorded guards, without redundant ones.
    pub fn finish(self) -> Vec<DimGuard> {
        simplified(&LIST.with_borrow_mut(|l| std::mem::take(&mut l.made)))
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        LIST.set(self.outer.take().unwrap_or_default());
    }
}

/// The guards that this thread has recorded up to now.
pub fn recorded() -> Vec<DimGuard> {
    LIST.with_borrow(|l| simplified(&l.made))
}

/// Runs `f` without recording guards. The result of `f` must not affect the meaning of a program: a cost, a message, a
/// check.
pub fn estimating<T>(f: impl FnOnce() -> T) -> T {
    struct Muted;
    impl Drop for Muted {
        fn drop(&mut self) {
            LIST.with_borrow_mut(|l| l.muted = l.muted.saturating_sub(1));
        }
    }
    LIST.with_borrow_mut(|l| l.muted += 1);
    let _muted = Muted;
    f()
}

/// The difference, negated if its first coefficient is negative.
fn upright(difference: &Poly) -> Poly {
    match difference.coefficients().next() {
        Some(c) if c < 0 => Poly::ZERO.plus(-1, difference).unwrap_or_else(|| difference.clone()),
        _ => difference.clone(),
    }
}

/// The known bounds of one direction (a polynomial without constant).
#[derive(Default)]
struct Range {
    low: Option<i64>,
    high: Option<i64>,
    not: BTreeSet<i64>,
}

/// Known equalities: an atom's name, with the smaller atom or the number that it equals.
#[derive(Default)]
struct Equal(BTreeMap<&'static str, Poly>);

impl Equal {
    /// The representative of an atom.
    fn of(&self, atom: &str) -> Option<Poly> {
        let mut found = self.0.get(atom)?;
        while let Some(next) = found.as_atom().and_then(|name| self.0.get(name)) {
            found = next;
        }
        Some(found.clone())
    }

    /// Learns an equation between atoms and numbers. Returns whether it followed from known ones; `None` if it has
    /// another form.
    fn learn(&mut self, difference: &Poly) -> Option<bool> {
        let (left, right) = difference.sides();
        let stands =
            |p: &Poly| p.as_atom().map_or_else(|| p.clone(), |name| self.of(name).unwrap_or_else(|| p.clone()));
        let simple = |p: &Poly| p.as_atom().is_some() || p.as_constant().is_some();
        if !simple(&left) || !simple(&right) {
            return None;
        }
        let (a, b) = (stands(&left), stands(&right));
        let (from, to) = if a.as_atom().is_some() && (b.as_constant().is_some() || b < a) { (a, b) } else { (b, a) };
        match from.as_atom() {
            _ if from == to => Some(true),
            Some(name) => {
                self.0.insert(name, to);
                Some(false)
            }
            None => None,
        }
    }
}

/// Equivalent guards in a short form: equations of atoms first, the rest in terms of one atom per class of equal ones,
/// with one interval per direction.
fn simplified(made: &[(&'static Poly, Is)]) -> Vec<DimGuard> {
    let mut equal = Equal::default();
    let (mut out, mut rest) = (Vec::new(), Vec::new());
    for (difference, is) in made {
        match (*is == Is::Equal).then(|| equal.learn(difference)).flatten() {
            Some(true) => {}
            Some(false) => out.push(DimGuard::new(&upright(difference), Is::Equal)),
            None => rest.push((*difference, *is)),
        }
    }
    out.extend(intervals(&rest, &equal));
    out
}

fn intervals(made: &[(&'static Poly, Is)], equal: &Equal) -> Vec<DimGuard> {
    let mut ranges: BTreeMap<Poly, Range> = BTreeMap::new();
    for (difference, is) in made {
        let difference = difference.with(&|name| equal.of(name)).unwrap_or_else(|| (*difference).clone());
        let gcd = difference.coefficients().fold(0u64, |a, c| gcd(a, c.unsigned_abs()));
        let Some(gcd) = i64::try_from(gcd).ok().filter(|g| *g > 0) else { continue };
        // The first coefficient is made positive.
        let by = if difference.coefficients().next().is_some_and(|c| c < 0) { -gcd } else { gcd };
        let constant = difference.constant_term();
        let range = ranges.entry(difference.direction(by)).or_default();
        let Some(floor) = constant.checked_neg().and_then(|c| floor_div(c, by)) else { continue };
        let exact = constant % by == 0;
        let ceil = if exact { floor } else { floor.saturating_add(1) };
        // The relation for the direction, which may point the other way.
        let is = match (is, by > 0) {
            (Is::Above, false) => Is::Below,
            (Is::Below, false) => Is::Above,
            (Is::NotAbove, false) => Is::NotBelow,
            (Is::NotBelow, false) => Is::NotAbove,
            (is, _) => *is,
        };
        match is {
            Is::Equal => range.at_least(ceil).at_most(floor),
            Is::Unequal if exact => _ = range.not.insert(floor),
            Is::Unequal => {}
            Is::Above => _ = range.at_least(floor.saturating_add(1)),
            Is::NotBelow => _ = range.at_least(ceil),
            Is::Below => range.at_most(ceil.saturating_sub(1)),
            Is::NotAbove => range.at_most(floor),
        }
    }
    let mut out = Vec::new();
    for (direction, mut range) in ranges {
        let known = if direction.never_negative() { Some(0) } else { None };
        range.low = range.low.max(known);
        range.tighten();
        // A bound outside of i64 excludes no size.
        let mut push = |at: Option<i64>, is: Is| {
            let difference = at.and_then(i64::checked_neg).and_then(|by| direction.plus(by, &Poly::constant(1)));
            out.extend(difference.map(|d| DimGuard::new(&d, is)));
        };
        if let (Some(low), true) = (range.low, range.low == range.high) {
            push(Some(low), Is::Equal);
            continue;
        }
        if let Some(low) = range.low.filter(|_| range.low != known) {
            // Bounds at 0 print as `n >= m`, others as `n > 3`.
            if low == 0 { push(Some(0), Is::NotBelow) } else { push(low.checked_sub(1), Is::Above) }
        }
        if let Some(high) = range.high {
            if high == 0 { push(Some(0), Is::NotAbove) } else { push(high.checked_add(1), Is::Below) }
        }
        range.not.iter().for_each(|not| push(Some(*not), Is::Unequal));
    }
    out
}

impl Range {
    fn at_least(&mut self, low: i64) -> &mut Range {
        self.low = Some(self.low.map_or(low, |l| l.max(low)));
        self
    }

    fn at_most(&mut self, high: i64) {
        self.high = Some(self.high.map_or(high, |h| h.min(high)));
    }

    /// An excluded value at an end of the interval moves the end; one outside of the interval is dropped.
    fn tighten(&mut self) {
        while self.low.is_some_and(|low| self.not.remove(&low)) {
            self.low = self.low.map(|low| low.saturating_add(1));
        }
        while self.high.is_some_and(|high| self.not.remove(&high)) {
            self.high = self.high.map(|high| high.saturating_sub(1));
        }
        let (low, high) = (self.low, self.high);
        self.not.retain(|not| low.is_none_or(|low| *not > low) && high.is_none_or(|high| *not < high));
    }
}
