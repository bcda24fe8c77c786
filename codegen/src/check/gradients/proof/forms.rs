//! Normal forms: polynomials over atoms, and functions applied to them.
//!
//! An atom is a variable, an uninterpreted function, the exponential of a monomial, a logarithm, or a sum in a
//! denominator or under a root. Hyperbolic functions and the sigmoid become exponentials, and roots become powers, so
//! that equal expressions get one form. Exponents are fractions, so `exp(u) exp(v)`, `sqrt(x) sqrt(x)` and `x / x` need
//! no rules of their own.
//!
//! Every step may give up (`None`), if a number does not fit, or if a form grows beyond the budget.

use fulgurite_core::Name;
use fulgurite_core::derive::term::T;

use super::coef::{Coef, Rat};
use super::poly::{Atom, Monomial, Poly};

/// The kinds of atoms.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A variable, or a term that is not interpreted.
    Variable(T),
    /// A positive integer, under a root.
    Number(i128),
    Exp(Monomial),
    /// `ln` of this polynomial.
    Ln(Poly),
    /// An uninterpreted function of these arguments.
    Function(Name, Vec<Poly>),
    /// A sum in a denominator or under a root, or a product of unknown sign under a root.
    Sum(Poly),
}

/// One proof takes at most this many products of monomials, because they take some hundredths of a second.
const FUEL: usize = 60_000;
/// One proof makes at most this many atoms, because they are compared with one another.
const MOST_ATOMS: usize = 200;
/// Powers of sums are multiplied out up to this exponent at most, because higher ones have too many terms.
const HIGHEST: i64 = 16;

/// The atoms of a proof, and its budget.
pub struct Forms {
    kinds: Vec<Kind>,
    /// For each atom, whether it is positive wherever it has a value.
    positive: Vec<bool>,
    fuel: usize,
    /// The polynomials that must not be 0, or not be negative, for the forms made so far to have a value.
    pub needs: Vec<Poly>,
}

fn half() -> Rat {
    Rat::new(1, 2).unwrap_or(Rat::ONE)
}

impl Forms {
    /// Starts without atoms.
    pub fn new() -> Forms {
        Forms { kinds: Vec::new(), positive: Vec::new(), fuel: FUEL, needs: Vec::new() }
    }

    pub fn kind(&self, atom: Atom) -> &Kind {
        &self.kinds[atom as usize]
    }

    /// The sum.
    pub fn add(&mut self, a: &Poly, b: &Poly) -> Option<Poly> {
        self.burn(a.terms.len() + b.terms.len())?;
        Some(a.add(b))
    }

    fn burn(&mut self, amount: usize) -> Option<()> {
        self.fuel = self.fuel.checked_sub(amount)?;
        Some(())
    }

    /// Returns the one atom of this kind, and makes it if it is new. Arguments of different forms are compared, because
    /// normal forms do not join all spellings.
    pub fn atom(&mut self, kind: Kind) -> Option<Atom> {
        if let Some(known) = self.find(&kind)? {
            return Some(known);
        }
        for at in 0..self.kinds.len() {
            let differences: Vec<Poly> = match (&self.kinds[at], &kind) {
                (Kind::Ln(a), Kind::Ln(b)) | (Kind::Sum(a), Kind::Sum(b)) => vec![a.sub(b)],
                (Kind::Function(f, a), Kind::Function(g, b)) if f == g && a.len() == b.len() => {
                    a.iter().zip(b).map(|(a, b)| a.sub(b)).collect()
                }
                _ => continue,
            };
            let mut one = true;
            for difference in &differences {
                one = one && self.vanishes(difference)?;
            }
            if one {
                return Some(at as Atom);
            }
        }
        self.add_atom(kind)
    }

    fn find(&mut self, kind: &Kind) -> Option<Option<Atom>> {
        let same = |known: &Kind| match (known, kind) {
            (Kind::Variable(a), Kind::Variable(b)) => a == b,
            (Kind::Number(a), Kind::Number(b)) => a == b,
            (Kind::Exp(a), Kind::Exp(b)) => a == b,
            (Kind::Ln(a), Kind::Ln(b)) | (Kind::Sum(a), Kind::Sum(b)) => a.same(b),
            (Kind::Function(f, a), Kind::Function(g, b)) => {
                f == g && a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b))
            }
            _ => false,
        };
        let at = self.kinds.iter().position(same);
        self.burn(1 + at.unwrap_or(self.kinds.len()))?;
        Some(at.map(|at| at as Atom))
    }

    fn add_atom(&mut self, kind: Kind) -> Option<Atom> {
        let at = self.kinds.len();
        self.positive.push(match &kind {
            Kind::Exp(_) | Kind::Number(_) => true,
            Kind::Sum(base) => self.positive(base),
            _ => false,
        });
        self.kinds.push(kind);
        (at < MOST_ATOMS).then_some(at as Atom)
    }

    /// The form of a variable, or of a term that counts as one.
    pub fn variable(&mut self, t: T) -> Option<Poly> {
        Some(Poly::power(self.atom(Kind::Variable(t))?, Rat::ONE))
    }

    /// The form of an uninterpreted function.
    pub fn function(&mut self, f: &str, args: Vec<Poly>) -> Option<Poly> {
        Some(Poly::power(self.atom(Kind::Function(Name::new(f), args))?, Rat::ONE))
    }

    /// The form of an odd or even function. Its argument gets a positive leading coefficient, because f(-u) is -f(u) or
    /// f(u).
    pub fn symmetric(&mut self, f: &str, u: &Poly, odd: bool) -> Option<Poly> {
        let negative = u.lead().is_some_and(|c| c.value() < 0.0);
        let value = self.function(f, vec![if negative { u.neg() } else { u.clone() }])?;
        Some(if negative && odd { value.neg() } else { value })
    }

    /// The product.
    pub fn mul(&mut self, a: &Poly, b: &Poly) -> Option<Poly> {
        self.burn(a.terms.len() * b.terms.len() + 1)?;
        let mut out = Poly::default();
        for (m, c) in &a.terms {
            for (n, d) in &b.terms {
                let (mut product, mut c) = (m.clone(), c.mul(*d));
                for (atom, e) in n {
                    let sum = product.get(atom).map_or(Some(*e), |old| old.add(*e))?;
                    product.insert(*atom, sum);
                    // whole powers of a number are numbers
                    if let Kind::Number(base) = self.kind(*atom) {
                        let whole = sum.floor()?;
                        product.insert(*atom, sum.add(Rat::int(-whole))?);
                        c = c.mul(power_of(Coef::rat(Rat::new(*base, 1)?), whole)?);
                    }
                }
                out.put(product, c);
            }
        }
        Some(out)
    }

    fn is_positive(&self, atom: Atom) -> bool {
        self.positive[atom as usize]
    }

    /// Whether `p` is known to be positive wherever it has a value.
    fn positive(&self, p: &Poly) -> bool {
        let even = |e: &Rat| e.as_int().is_some_and(|e| e > 0 && e % 2 == 0);
        p.terms.iter().all(|(m, c)| c.value() > 0.0 && m.iter().all(|(atom, e)| self.is_positive(*atom) || even(e)))
            && p.terms.keys().any(|m| m.keys().all(|atom| self.is_positive(*atom)))
    }

    fn need(&mut self, p: Poly) {
        if !self.positive(&p) {
            self.needs.push(p);
        }
    }

    /// Whether every polynomial in `needs` is one of `allowed`, up to its sign. `needs` is emptied.
    pub fn needs_within(&mut self, allowed: &[Poly]) -> bool {
        let one = |forms: &mut Forms, p: &Poly, q: &Poly| p.same(q) || forms.vanishes(&p.sub(q)) == Some(true);
        std::mem::take(&mut self.needs)
            .iter()
            .all(|p| allowed.iter().any(|q| one(self, p, q) || one(self, p, &q.neg())))
    }

    pub fn power(&mut self, u: &Poly, e: Rat) -> Option<Poly> {
        if let Some(c) = u.as_number() {
            return self.power_of_number(c, e);
        }
        if let Some((m, c)) = u.single() {
            return self.power_of_product(m.clone(), c, e);
        }
        if let Some(n) = e.as_int().filter(|n| (0..=HIGHEST).contains(n)) {
            return self.whole_power(u, n);
        }
        // sums that differ by a factor, or by exponentials in all terms, are one atom; only positive factors move out
        // from under a root
        let shared = self.shared(u)?;
        let inverse = shared.iter().map(|(atom, k)| (*atom, k.neg())).collect();
        let base = self.mul(u, &Poly::term(inverse, Coef::rat(Rat::ONE)))?;
        let lead = base.lead()?;
        let lead = if e.as_int().is_none() && lead.value() < 0.0 { lead.neg() } else { lead };
        let base = base.scale(lead.inverse()?);
        self.need(base.clone());
        let root = Poly::power(self.atom(Kind::Sum(base))?, e);
        let outside = self.power_of_product(shared, lead, e)?;
        self.mul(&root, &outside)
    }

    /// The exponentials in `u`, each at its least power in any term.
    fn shared(&self, u: &Poly) -> Option<Monomial> {
        let mut shared = Monomial::new();
        for atom in u.terms.keys().flat_map(Monomial::keys).filter(|atom| matches!(self.kind(**atom), Kind::Exp(_))) {
            let powers = u.terms.keys().map(|m| m.get(atom).copied().unwrap_or(Rat::ZERO));
            let least = powers.min_by(|a, b| a.value().total_cmp(&b.value()))?;
            shared.insert(*atom, least);
        }
        shared.retain(|_, e| *e != Rat::ZERO);
        Some(shared)
    }

    fn whole_power(&mut self, u: &Poly, n: i64) -> Option<Poly> {
        (0..n).try_fold(Poly::int(1), |p, _| self.mul(&p, u))
    }

    fn power_of_number(&mut self, c: Coef, e: Rat) -> Option<Poly> {
        if let Some(n) = e.as_int() {
            return Some(Poly::number(power_of(c, n)?));
        }
        if c.value() <= 0.0 {
            return None;
        }
        let whole = |x: i128| (x as f64).sqrt().round() as i128;
        match c.exact().map(Rat::parts) {
            // sqrt(n / d) is sqrt(n d) / d
            Some((n, d)) if e.mul(Rat::int(2)).and_then(Rat::as_int).is_some() && n.checked_mul(d)? < 1 << 40 => {
                let root = whole(n * d);
                let root = if root * root == n * d {
                    Poly::number(Coef::rat(Rat::new(root, 1)?))
                } else {
                    Poly::power(self.atom(Kind::Number(n * d))?, half())
                };
                let root = root.scale(Coef::rat(Rat::new(1, d)?));
                let twice = e.mul(Rat::int(2)).and_then(Rat::as_int)?;
                if twice > 0 {
                    return (twice <= HIGHEST).then(|| self.whole_power(&root, twice)).flatten();
                }
                let inverse = self.power(&Poly::number(c.inverse()?), half())?;
                (twice >= -HIGHEST).then(|| self.whole_power(&inverse, -twice)).flatten()
            }
            _ => Some(Poly::number(Coef::rounded(c.value().powf(e.value())))),
        }
    }

    fn power_of_product(&mut self, m: Monomial, c: Coef, e: Rat) -> Option<Poly> {
        let rest: Monomial = m.iter().filter(|(atom, _)| !self.is_positive(**atom)).map(|(a, k)| (*a, *k)).collect();
        let root = e.as_int().is_none();
        // under a root (x^k)^e is x^(k e) only if x is not negative, which follows if k is odd or a fraction
        let odd = |k: &Rat| k.as_int().is_none_or(|k| k % 2 != 0);
        let apart = !root || (c.value() > 0.0 && (rest.is_empty() || (rest.len() == 1 && rest.values().all(odd))));
        if apart {
            if root || e.value() < 0.0 {
                for atom in rest.keys() {
                    let need = match self.kind(*atom) {
                        Kind::Sum(base) => base.clone(),
                        _ => Poly::power(*atom, Rat::ONE),
                    };
                    self.needs.push(need);
                }
            }
            let raised = m.iter().map(|(atom, k)| Some((*atom, k.mul(e)?))).collect::<Option<Monomial>>()?;
            let factor = self.power_of_number(c, e)?;
            return self.mul(&factor, &Poly::term(raised, Coef::rat(Rat::ONE)));
        }
        let sign = Coef::rat(Rat::int(if c.value() < 0.0 { -1 } else { 1 }));
        let positive: Monomial = m.into_iter().filter(|(atom, _)| !rest.contains_key(atom)).collect();
        let base = Poly::term(rest, sign);
        self.needs.push(base.clone());
        let root = Poly::power(self.atom(Kind::Sum(base))?, e);
        let outside = self.power_of_product(positive, c.mul(sign), e)?;
        self.mul(&root, &outside)
    }

    pub fn sqrt(&mut self, u: &Poly) -> Option<Poly> {
        self.power(u, half())
    }

    pub fn div(&mut self, a: &Poly, b: &Poly) -> Option<Poly> {
        let inverse = self.power(b, Rat::int(-1))?;
        self.mul(a, &inverse)
    }

    /// `sigmoid(u)` as `1 / (1 + exp(-u))` if `u` begins with a negative coefficient, else as `1 - 1 / (1 + exp(u))`.
    pub fn sigmoid(&mut self, u: &Poly) -> Option<Poly> {
        let negative = u.lead().is_some_and(|c| c.value() < 0.0);
        let one = Poly::int(1);
        let below = self.exp(&if negative { u.neg() } else { u.clone() })?.add(&one);
        let fraction = self.power(&below, Rat::int(-1))?;
        Some(if negative { fraction } else { one.sub(&fraction) })
    }

    /// `exp(u)`, a product of exponentials.
    pub fn exp(&mut self, u: &Poly) -> Option<Poly> {
        let mut product = Poly::int(1);
        for (m, c) in &u.terms {
            // an inexact coefficient is read back from its digits, which are equal on both sides if it is
            let exponent = c.exact().or_else(|| Rat::of(c.value()).map(|(r, _)| r))?;
            let logarithm = match (m.iter().next(), m.len()) {
                (Some((atom, e)), 1) if *e == Rat::ONE => match self.kind(*atom) {
                    Kind::Ln(v) => Some(v.clone()),
                    _ => None,
                },
                _ => None,
            };
            let factor = match logarithm {
                // exp(c ln v) is v^c
                Some(v) => self.power(&v, exponent)?,
                None => Poly::power(self.atom(Kind::Exp(m.clone()))?, exponent),
            };
            product = self.mul(&product, &factor)?;
        }
        Some(product)
    }

    pub fn ln(&mut self, u: &Poly) -> Option<Poly> {
        if let Some((m, c)) = u.single()
            && c.add(Coef::rat(Rat::int(-1))).is_zero()
            && let (Some((atom, e)), true) = (m.iter().next(), m.len() <= 1)
            && let Kind::Exp(inner) = self.kind(*atom)
        {
            return Some(Poly::term(inner.clone(), Coef::rat(*e)));
        }
        if u.as_number().is_some_and(|c| c.add(Coef::rat(Rat::int(-1))).is_zero()) {
            return Some(Poly::default());
        }
        self.need(u.clone());
        Some(Poly::power(self.atom(Kind::Ln(u.clone()))?, Rat::ONE))
    }

    /// Whether `p` is zero, once fractions are cleared, squares of cosines replaced and functions of numbers computed.
    pub fn vanishes(&mut self, p: &Poly) -> Option<bool> {
        let mut p = p.clone();
        // the parts of an atom were made before it
        for atom in (0..self.kinds.len() as Atom).rev() {
            if let Kind::Sum(base) = self.kind(atom).clone() {
                p = self.clear(&p, atom, &base)?;
            }
        }
        for cos in 0..self.kinds.len() as Atom {
            if let Kind::Function(f, args) = self.kind(cos).clone()
                && f == "cos"
            {
                let sin = Kind::Function(Name::new("sin"), args);
                let known = self.find(&sin)?;
                let sin = Poly::power(known.map_or_else(|| self.add_atom(sin), Some)?, Rat::int(2));
                p = self.reduce(&p, cos, 2, &Poly::int(1).sub(&sin))?;
            }
        }
        let mut rest = Poly::default();
        for (m, c) in &p.terms {
            let (mut m, mut c) = (m.clone(), *c);
            m.retain(|atom, e| match self.value(*atom) {
                Some(x) => {
                    c = c.mul(Coef::rounded(x.powf(e.value())));
                    false
                }
                None => true,
            });
            rest.put(m, c);
        }
        Some(rest.terms.is_empty())
    }

    /// The value of an atom that is a number.
    fn value(&self, atom: Atom) -> Option<f64> {
        match self.kind(atom) {
            Kind::Number(n) => Some(*n as f64),
            Kind::Ln(u) => u.as_number().map(|c| c.value().ln()).filter(|x| x.is_finite()),
            Kind::Exp(m) if m.is_empty() => Some(std::f64::consts::E),
            _ => None,
        }
    }

    /// Multiplies `p` by the power of `atom` that leaves no negative exponent, and multiplies out its whole powers.
    fn clear(&mut self, p: &Poly, atom: Atom, base: &Poly) -> Option<Poly> {
        let least = p.terms.keys().map(|m| m.get(&atom).copied().unwrap_or(Rat::ZERO));
        let Some(least) = least.min_by(|a, b| a.value().total_cmp(&b.value())) else { return Some(Poly::default()) };
        let mut raised = Poly::default();
        for (m, c) in &p.terms {
            let mut m = m.clone();
            let e = m.get(&atom).copied().unwrap_or(Rat::ZERO).add(least.neg())?;
            m.insert(atom, e);
            raised.put(m, *c);
        }
        self.reduce(&raised, atom, 1, base)
    }

    /// Replaces power `n` of `atom` by `value` in `p`.
    fn reduce(&mut self, p: &Poly, atom: Atom, n: i64, value: &Poly) -> Option<Poly> {
        let mut out = Poly::default();
        for (m, c) in &p.terms {
            let e = m.get(&atom).copied().unwrap_or(Rat::ZERO);
            let times = e.floor()?.max(0) / n;
            let mut rest = m.clone();
            rest.insert(atom, e.add(Rat::int(-n * times))?);
            rest.retain(|_, e| *e != Rat::ZERO);
            let factor = (times <= HIGHEST).then(|| self.whole_power(value, times)).flatten()?;
            let term = self.mul(&Poly::term(rest, *c), &factor)?;
            out = out.add(&term);
            self.burn(out.terms.len())?;
        }
        Some(out)
    }

    /// Whether `p` depends on a variable.
    pub fn mentions(&self, p: &Poly, variable: Atom) -> bool {
        let mut depends: Vec<bool> = Vec::with_capacity(self.kinds.len());
        for (atom, kind) in self.kinds.iter().enumerate() {
            // the parts of an atom were made before it
            let product = |m: &Monomial| m.keys().any(|inner| depends[*inner as usize]);
            let sum = |u: &Poly| u.terms.keys().any(product);
            let depends_on_it = match kind {
                Kind::Variable(_) | Kind::Number(_) => atom == variable as usize,
                Kind::Exp(inner) => product(inner),
                Kind::Ln(u) | Kind::Sum(u) => sum(u),
                Kind::Function(_, args) => args.iter().any(sum),
            };
            depends.push(depends_on_it);
        }
        p.terms.keys().any(|m| m.keys().any(|atom| depends[*atom as usize]))
    }
}

/// A whole power of a number; `None` for an inverse of zero, and for an exponent above 64.
fn power_of(c: Coef, n: i64) -> Option<Coef> {
    let base = if n < 0 { c.inverse()? } else { c };
    (n.abs() <= 64).then(|| (0..n.abs()).fold(Coef::rat(Rat::ONE), |p, _| p.mul(base)))
}
