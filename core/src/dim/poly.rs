//! The expression of a symbolic size: a polynomial over atoms in normal form, so that `2*n` and `n+n` are equal.
//!
//! Polynomials are interned: equal ones are one allocation that lives as long as the process. Programs have few.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::hash::Hash;
use std::sync::{LazyLock, Mutex};

/// At most this many terms of a sum, or factors of a product: a larger expression becomes a constant.
const MOST_TERMS: usize = 64;

/// A sum of products with integer coefficients.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Poly {
    /// Coefficients by product, without zeros; the empty product holds the constant.
    terms: BTreeMap<Product, i64>,
}

/// Factors in order, repeated for powers.
type Product = Vec<&'static Factor>;

/// An indivisible factor of a product.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Factor {
    /// A size of an input, by name; never negative.
    Atom(String),
    /// A floored quotient that is not a polynomial.
    Div(&'static Poly, &'static Poly),
    /// The remainder of a floored division.
    Rem(&'static Poly, &'static Poly),
}

/// Interned values.
static POLYS: LazyLock<Mutex<HashSet<&'static Poly>>> = LazyLock::new(Mutex::default);
static FACTORS: LazyLock<Mutex<HashSet<&'static Factor>>> = LazyLock::new(Mutex::default);

fn intern<T: Eq + Hash>(table: &Mutex<HashSet<&'static T>>, value: T) -> &'static T {
    let mut table = table.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(known) = table.get(&value) {
        return known;
    }
    let kept: &'static T = Box::leak(Box::new(value));
    table.insert(kept);
    kept
}

impl Poly {
    /// No terms.
    pub const ZERO: Poly = Poly { terms: BTreeMap::new() };

    pub fn constant(value: i64) -> Poly {
        let mut p = Poly::ZERO;
        p.add_term(Vec::new(), value);
        p
    }

    pub fn atom(name: &str) -> Poly {
        Poly::factor(Factor::Atom(name.to_owned()))
    }

    fn factor(factor: Factor) -> Poly {
        Poly { terms: BTreeMap::from([(vec![intern(&FACTORS, factor)], 1)]) }
    }

    /// The shared copy of this polynomial.
    pub fn interned(self) -> &'static Poly {
        intern(&POLYS, self)
    }

    /// The value, if the polynomial is a constant.
    pub fn as_constant(&self) -> Option<i64> {
        match self.terms.len() {
            0 => Some(0),
            1 => self.terms.get(&Vec::new()).copied(),
            _ => None,
        }
    }

    pub fn constant_term(&self) -> i64 {
        self.terms.get(&Vec::new()).copied().unwrap_or(0)
    }

    /// The coefficients except the constant term.
    pub fn coefficients(&self) -> impl Iterator<Item = i64> + '_ {
        self.terms.iter().filter(|(p, _)| !p.is_empty()).map(|(_, c)| *c)
    }

    /// The polynomial without its constant, divided by `by`, which divides every coefficient.
    pub fn direction(&self, by: i64) -> Poly {
        let terms = self.terms.iter().filter(|(p, _)| !p.is_empty());
        Poly { terms: terms.map(|(p, c)| (p.clone(), c / by)).collect() }
    }

    /// The positive terms, and the negated negative terms.
    pub fn sides(&self) -> (Poly, Poly) {
        let part = |sign: i64| {
            let terms = self.terms.iter().filter(|(_, c)| **c * sign > 0);
            Poly { terms: terms.map(|(p, c)| (p.clone(), c * sign)).collect() }
        };
        (part(1), part(-1))
    }

    /// Whether the polynomial is never negative, whatever the values of atoms.
    pub fn never_negative(&self) -> bool {
        self.terms.iter().all(|(p, c)| *c >= 0 && p.iter().all(|f| f.never_negative()))
    }

    fn add_term(&mut self, product: Product, by: i64) -> bool {
        let entry = self.terms.entry(product.clone()).or_insert(0);
        let Some(sum) = entry.checked_add(by) else { return false };
        *entry = sum;
        if sum == 0 {
            self.terms.remove(&product);
        }
        true
    }

    /// Whether the polynomial can be kept: it has few terms, and every coefficient can be negated.
    fn fits(&self) -> bool {
        self.terms.len() <= MOST_TERMS && self.terms.values().all(|c| *c != i64::MIN)
    }

    /// `self + by * other`; `None` if it has too many terms or too large coefficients.
    pub fn plus(&self, by: i64, other: &Poly) -> Option<Poly> {
        let mut sum = self.clone();
        for (product, c) in &other.terms {
            if !sum.add_term(product.clone(), c.checked_mul(by)?) {
                return None;
            }
        }
        sum.fits().then_some(sum)
    }

    /// `self * other`, with the limits of [`Poly::plus`].
    pub fn times(&self, other: &Poly) -> Option<Poly> {
        let mut out = Poly::ZERO;
        for (p, c) in &self.terms {
            for (q, d) in &other.terms {
                let mut product: Product = p.iter().chain(q).copied().collect();
                product.sort_unstable();
                if product.len() > MOST_TERMS || !out.add_term(product, c.checked_mul(*d)?) {
                    return None;
                }
            }
        }
        out.fits().then_some(out)
    }

    /// Quotient and remainder by terms: `self = quotient * by + rest`, where no term of the rest is divisible by the
    /// leading term of `by`. The floored quotient of `self` is the quotient plus the floored quotient of the rest.
    fn divided(&self, by: &Poly) -> Option<(Poly, Poly)> {
        let (lead, factor) = by.terms.iter().max_by_key(|(p, _)| (p.len(), *p))?;
        let (mut quotient, mut rest) = (Poly::ZERO, self.clone());
        for _ in 0..MOST_TERMS {
            let next = rest.terms.iter().rev().find_map(|(p, c)| {
                let left = without(p, lead).filter(|_| c.checked_rem(*factor) == Some(0))?;
                Some(Poly { terms: BTreeMap::from([(left, c.checked_div(*factor)?)]) })
            });
            let Some(term) = next else { return Some((quotient, rest)) };
            quotient = quotient.plus(1, &term)?;
            rest = rest.plus(-1, &term.times(by)?)?;
        }
        None
    }

    /// Divides both by the factors that all their terms share; returns the two and the shared product.
    fn reduced(&self, by: &Poly) -> (Poly, Poly, Poly) {
        let mut terms = self.terms.iter().chain(&by.terms);
        let (mut product, mut content) = match terms.next() {
            Some((p, c)) => (p.clone(), c.unsigned_abs()),
            None => (Vec::new(), 1),
        };
        for (p, c) in terms {
            let mut rest = p.clone();
            product.retain(|f| rest.iter().position(|g| g == f).map(|at| rest.swap_remove(at)).is_some());
            content = gcd(content, c.unsigned_abs());
        }
        let content = i64::try_from(content).unwrap_or(1).max(1);
        let over = |p: &Poly| {
            let terms = p.terms.iter().map(|(p, c)| (without(p, &product).unwrap_or_default(), c / content));
            Poly { terms: terms.collect() }
        };
        let (a, b) = (over(self), over(by));
        (a, b, Poly { terms: BTreeMap::from([(product, content)]) })
    }

    /// `self / by`, floored; `by` is not zero.
    pub fn floor_div(&self, by: &Poly) -> Option<Poly> {
        let (numerator, by, _) = self.reduced(by);
        let by = &by;
        let (quotient, rest) = numerator.split(by)?;
        if let (Some(a), Some(b)) = (rest.as_constant(), by.as_constant()) {
            return quotient.plus(a.checked_div_euclid(b).filter(|_| b > 0)?, &Poly::constant(1));
        }
        match rest == Poly::ZERO {
            true => Some(quotient),
            false => quotient.plus(1, &Poly::factor(Factor::Div(rest.interned(), by.clone().interned()))),
        }
    }

    /// The remainder of [`Poly::floor_div`].
    pub fn floor_rem(&self, by: &Poly) -> Option<Poly> {
        let (numerator, by, common) = self.reduced(by);
        let (_, rest) = numerator.split(&by)?;
        if let (Some(a), Some(b)) = (rest.as_constant(), by.as_constant()) {
            return common.times(&Poly::constant(a.checked_rem_euclid(b).filter(|_| b > 0)?));
        }
        match rest == Poly::ZERO {
            true => Some(rest),
            false => common.times(&Poly::factor(Factor::Rem(rest.interned(), by.interned()))),
        }
    }

    /// Quotient and remainder; a division by several terms counts only where the remainder is 0.
    fn split(&self, by: &Poly) -> Option<(Poly, Poly)> {
        let whole = || (Poly::ZERO, self.clone());
        match self.divided(by) {
            Some((quotient, rest)) if by.terms.len() == 1 || rest == Poly::ZERO => Some((quotient, rest)),
            _ => Some(whole()),
        }
    }

    /// The atom's name, if the polynomial is one atom.
    pub fn as_atom(&self) -> Option<&'static str> {
        match self.alone() {
            Some(Factor::Atom(name)) => Some(name),
            _ => None,
        }
    }

    /// Substitutes polynomials for atoms; `None` where the result cannot be represented.
    pub fn with(&self, atoms: &dyn Fn(&str) -> Option<Poly>) -> Option<Poly> {
        let mut out = Poly::ZERO;
        for (product, c) in &self.terms {
            let mut term = Poly::constant(*c);
            for factor in product {
                let made = match factor {
                    Factor::Atom(name) => atoms(name).unwrap_or_else(|| Poly::atom(name)),
                    Factor::Div(a, b) => a.with(atoms)?.floor_div(&b.with(atoms).filter(|b| *b != Poly::ZERO)?)?,
                    Factor::Rem(a, b) => a.with(atoms)?.floor_rem(&b.with(atoms).filter(|b| *b != Poly::ZERO)?)?,
                };
                term = term.times(&made)?;
            }
            out = out.plus(1, &term)?;
        }
        Some(out)
    }

    /// The value where `at` gives those of atoms; `None` if an atom has none or the result is not a size.
    pub fn value(&self, at: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        let mut sum = 0i64;
        for (product, c) in &self.terms {
            let mut term = *c;
            for factor in product {
                term = term.checked_mul(factor.value(at)?)?;
            }
            sum = sum.checked_add(term)?;
        }
        Some(sum)
    }
}

/// The greatest common divisor.
pub fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// `product` without the factors of `by`, if it has them all.
fn without(product: &Product, by: &Product) -> Option<Product> {
    let mut left = product.clone();
    for f in by {
        left.remove(left.iter().position(|g| g == f)?);
    }
    Some(left)
}

impl Factor {
    fn never_negative(&self) -> bool {
        match self {
            Factor::Atom(_) => true,
            Factor::Div(a, b) => a.never_negative() && b.never_negative(),
            Factor::Rem(_, b) => b.never_negative(),
        }
    }

    fn value(&self, at: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        match self {
            Factor::Atom(name) => at(name),
            Factor::Div(a, b) => floor_div(a.value(at)?, b.value(at)?),
            Factor::Rem(a, b) => floor_rem(a.value(at)?, b.value(at)?),
        }
    }
}

/// Division that floors.
pub fn floor_div(a: i64, b: i64) -> Option<i64> {
    let q = a.checked_div(b)?;
    Some(q - i64::from(a % b != 0 && (a < 0) != (b < 0)))
}

/// The remainder of [`floor_div`], which has the sign of `b`.
pub fn floor_rem(a: i64, b: i64) -> Option<i64> {
    a.checked_sub(b.checked_mul(floor_div(a, b)?)?)
}

impl fmt::Display for Poly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(alone) = self.alone() {
            return alone.fmt_open(f);
        }
        // The constant is printed last.
        let mut terms: Vec<_> = self.terms.iter().collect();
        terms.sort_by(|(p, _), (q, _)| match (p.is_empty(), q.is_empty()) {
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            _ => q.len().cmp(&p.len()).then_with(|| p.cmp(q)),
        });
        if terms.is_empty() {
            return f.write_str("0");
        }
        for (i, (product, c)) in terms.into_iter().enumerate() {
            match (i, *c < 0) {
                (0, true) => f.write_str("-")?,
                (0, false) => {}
                (_, true) => f.write_str(" - ")?,
                (_, false) => f.write_str(" + ")?,
            }
            let size = c.unsigned_abs();
            if size != 1 || product.is_empty() {
                write!(f, "{size}{}", if product.is_empty() { "" } else { "*" })?;
            }
            for (i, factor) in product.iter().enumerate() {
                write!(f, "{}{factor}", if i > 0 { "*" } else { "" })?;
            }
        }
        Ok(())
    }
}

impl Poly {
    /// The factor, if the polynomial is one factor.
    fn alone(&self) -> Option<&'static Factor> {
        match self.terms.first_key_value() {
            Some((product, 1)) if self.terms.len() == 1 && product.len() == 1 => Some(product[0]),
            _ => None,
        }
    }
}

/// Prints in parentheses, unless it is a name or a number.
struct Closed<'p>(&'p Poly);

impl fmt::Display for Closed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.alone(), self.0.as_constant()) {
            (Some(Factor::Atom(name)), _) => f.write_str(name),
            (_, Some(c)) if c >= 0 => write!(f, "{c}"),
            _ => write!(f, "({})", self.0),
        }
    }
}

impl Factor {
    fn fmt_open(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Factor::Atom(name) => f.write_str(name),
            Factor::Div(a, b) => write!(f, "{} / {}", Closed(a), Closed(b)),
            Factor::Rem(a, b) => write!(f, "{} % {}", Closed(a), Closed(b)),
        }
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Factor::Atom(name) => f.write_str(name),
            _ => {
                f.write_str("(")?;
                self.fmt_open(f)?;
                f.write_str(")")
            }
        }
    }
}
