//! Sums of products of powers of atoms.
//!
//! An atom is a variable, a function that nothing is known about, the exponential of a monomial, or a sum that stands in
//! a denominator or under a root. Exponents are rational, so that `exp(u) exp(v)`, `sqrt(x) sqrt(x)` and `x / x` need no
//! rules of their own.

use super::coef::{Coef, Rat};
use std::collections::BTreeMap;

/// An atom, by its number in the [`super::Reader`].
pub type Atom = u32;

/// Powers of atoms, by atom.
pub type Monomial = BTreeMap<Atom, Rat>;

/// A sum of monomials with coefficients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Poly {
    /// No coefficient is zero.
    pub terms: BTreeMap<Monomial, Coef>,
}

/// More monomials than this are given up.
const MOST: usize = 3000;

/// The polynomial grew too large.
#[derive(Debug)]
pub struct TooLarge;

type Res = Result<Poly, TooLarge>;

impl Poly {
    /// A number.
    pub fn constant(c: Coef) -> Poly {
        Poly::term(Monomial::new(), c)
    }

    /// A power of an atom.
    pub fn power(atom: Atom, exponent: Rat) -> Poly {
        Poly::term(Monomial::from([(atom, exponent)]), Coef::one())
    }

    /// One monomial.
    pub fn term(m: Monomial, c: Coef) -> Poly {
        let mut p = Poly::default();
        p.put(m, c);
        p
    }

    fn put(&mut self, mut m: Monomial, c: Coef) {
        m.retain(|_, e| *e != Rat::ZERO);
        let sum = match self.terms.remove(&m) {
            Some(old) => old.add(c),
            None => c,
        };
        if !sum.is_zero() {
            self.terms.insert(m, sum);
        }
    }

    /// The sum.
    pub fn add(&self, o: &Poly) -> Res {
        let mut out = self.clone();
        for (m, c) in &o.terms {
            out.put(m.clone(), *c);
        }
        if out.terms.len() > MOST { Err(TooLarge) } else { Ok(out) }
    }

    /// The multiple.
    pub fn scale(&self, c: Coef) -> Poly {
        let mut out = Poly::default();
        for (m, k) in &self.terms {
            out.put(m.clone(), k.mul(c));
        }
        out
    }

    /// The product.
    pub fn mul(&self, o: &Poly) -> Res {
        let mut out = Poly::default();
        for (m, c) in &self.terms {
            for (n, d) in &o.terms {
                let mut product = m.clone();
                for (atom, e) in n {
                    let sum = product.get(atom).copied().unwrap_or(Rat::ZERO).add(*e).ok_or(TooLarge)?;
                    product.insert(*atom, sum);
                }
                out.put(product, c.mul(*d));
            }
            if out.terms.len() > MOST {
                return Err(TooLarge);
            }
        }
        Ok(out)
    }

    /// The one monomial that it is.
    pub fn single(&self) -> Option<(&Monomial, Coef)> {
        match self.terms.len() {
            1 => self.terms.iter().next().map(|(m, c)| (m, *c)),
            _ => None,
        }
    }

    /// The number that it is.
    pub fn number(&self) -> Option<Coef> {
        match self.terms.len() {
            0 => Some(Coef::rat(Rat::ZERO)),
            _ => self.single().filter(|(m, _)| m.is_empty()).map(|(_, c)| c),
        }
    }

    /// Whether nothing is left.
    pub fn is_zero(&self) -> bool {
        self.terms.values().all(|c| c.vanishes())
    }
}
