//! Sums of products of powers of atoms.

use std::collections::BTreeMap;

use super::coef::{Coef, Rat};

/// An atom, by its number among the [`super::forms::Forms`].
pub type Atom = u32;

/// Powers of atoms, by atom; no exponent is 0.
pub type Monomial = BTreeMap<Atom, Rat>;

/// A sum of monomials with coefficients, none of which is 0.
#[derive(Clone, Debug, Default)]
pub struct Poly {
    /// The coefficients, by monomial.
    pub terms: BTreeMap<Monomial, Coef>,
}

impl Poly {
    pub fn number(c: Coef) -> Poly {
        Poly::term(Monomial::new(), c)
    }

    /// An integer.
    pub fn int(i: i64) -> Poly {
        Poly::number(Coef::rat(Rat::int(i)))
    }

    pub fn power(atom: Atom, exponent: Rat) -> Poly {
        Poly::term(Monomial::from([(atom, exponent)]), Coef::rat(Rat::ONE))
    }

    pub fn term(m: Monomial, c: Coef) -> Poly {
        let mut p = Poly::default();
        p.put(m, c);
        p
    }

    /// Adds one monomial.
    pub fn put(&mut self, mut m: Monomial, c: Coef) {
        m.retain(|_, e| *e != Rat::ZERO);
        let sum = self.terms.remove(&m).map_or(c, |old| old.add(c));
        if !sum.is_zero() {
            self.terms.insert(m, sum);
        }
    }

    /// The sum.
    pub fn add(&self, o: &Poly) -> Poly {
        let mut out = self.clone();
        o.terms.iter().for_each(|(m, c)| out.put(m.clone(), *c));
        out
    }

    /// The difference.
    pub fn sub(&self, o: &Poly) -> Poly {
        self.add(&o.neg())
    }

    /// The negative.
    pub fn neg(&self) -> Poly {
        self.scale(Coef::rat(Rat::int(-1)))
    }

    /// The multiple.
    pub fn scale(&self, c: Coef) -> Poly {
        let mut out = Poly::default();
        self.terms.iter().for_each(|(m, k)| out.put(m.clone(), k.mul(c)));
        out
    }

    /// The monomial and its coefficient, if there is only one.
    pub fn single(&self) -> Option<(&Monomial, Coef)> {
        let mut terms = self.terms.iter();
        terms.next().filter(|_| self.terms.len() == 1).map(|(m, c)| (m, *c))
    }

    /// The number, if the polynomial is constant.
    pub fn as_number(&self) -> Option<Coef> {
        match self.terms.len() {
            0 => Some(Coef::rat(Rat::ZERO)),
            _ => self.single().filter(|(m, _)| m.is_empty()).map(|(_, c)| c),
        }
    }

    /// Whether both have equal monomials with equal coefficients.
    pub fn same(&self, o: &Poly) -> bool {
        let pairs = || self.terms.iter().zip(&o.terms);
        self.terms.len() == o.terms.len() && pairs().all(|((m, c), (n, d))| m == n && c.add(d.neg()).is_zero())
    }

    /// The coefficient of the first monomial.
    pub fn lead(&self) -> Option<Coef> {
        self.terms.values().next().copied()
    }
}
