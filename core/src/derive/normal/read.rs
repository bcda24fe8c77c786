//! From a term to a polynomial over atoms, where every condition is decided.
//!
//! Hyperbolic functions and the sigmoid become exponentials, roots become powers, `abs` and `max` become the side that
//! is taken, so that two spellings of a derivative meet in one form.

use super::coef::{Coef, Rat};
use super::points::Point;
use super::poly::{Atom, Monomial, Poly, TooLarge};
use crate::Name;
use crate::builtins::Builtin;
use crate::derive::term::{Op, T, Terms};
use crate::lang::ast::BinOp;
use std::collections::HashMap;

/// What an atom is.
#[derive(Clone, Debug)]
enum Kind {
    /// A variable.
    Variable,
    /// `ln` of this.
    Ln(Poly),
    /// A function without rules.
    Function,
    /// `exp` of this monomial.
    Exp(Monomial),
    /// A sum: below a fraction line or under a root.
    Sum(Poly),
}

/// Reads terms at one region.
pub struct Reader<'a, 'r> {
    terms: &'a Terms<'r>,
    /// Decides conditions.
    at: &'a Point,
    kinds: Vec<Kind>,
    names: HashMap<String, Atom>,
    known: HashMap<T, Poly>,
}

type Res = Result<Poly, TooLarge>;

impl<'a, 'r> Reader<'a, 'r> {
    /// A reader that decides conditions as `at` does.
    pub fn new(terms: &'a Terms<'r>, at: &'a Point) -> Reader<'a, 'r> {
        Reader { terms, at, kinds: Vec::new(), names: HashMap::new(), known: HashMap::new() }
    }

    fn atom(&mut self, name: String, kind: Kind) -> Atom {
        if let Some(&a) = self.names.get(&name) {
            return a;
        }
        let a = self.kinds.len() as Atom;
        self.kinds.push(kind);
        self.names.insert(name, a);
        a
    }

    /// `t` as a polynomial.
    ///
    /// # Errors
    /// It grew too large.
    pub fn read(&mut self, t: T) -> Res {
        if let Some(p) = self.known.get(&t) {
            return Ok(p.clone());
        }
        let p = self.fresh(t)?;
        self.known.insert(t, p.clone());
        Ok(p)
    }

    fn fresh(&mut self, t: T) -> Res {
        let number = |x: f64| Poly::constant(Coef::of(x));
        match self.terms.op(t).clone() {
            Op::Const(x, _) => Ok(number(x.value())),
            Op::Name(n) => match crate::sig::statics::constant(n).map(|s| s.as_f64()).filter(|x| x.is_finite()) {
                Some(x) => Ok(number(x)),
                None => self.variable(n.to_string()),
            },
            Op::Atom(text) => self.variable(format!("[{text}]")),
            Op::Neg(a) => Ok(self.read(a)?.scale(Coef::of(-1.0))),
            Op::Not(_) => self.truth(t),
            Op::Cast(a, _) => self.read(a),
            Op::Bin(op, a, b) => match op {
                BinOp::Add => self.read(a)?.add(&self.read(b)?),
                BinOp::Sub => self.read(a)?.add(&self.read(b)?.scale(Coef::of(-1.0))),
                BinOp::Mul => self.read(a)?.mul(&self.read(b)?),
                BinOp::Div => {
                    let below = self.read(b)?;
                    let below = self.power(&below, Rat::int(-1))?;
                    self.read(a)?.mul(&below)
                }
                BinOp::Rem => self.call(Name::new("rem_floor"), &[a, b]),
                _ => self.truth(t),
            },
            Op::If(c, a, b) => {
                let side = if self.at.value(self.terms, c) != 0.0 { a } else { b };
                self.read(side)
            }
            Op::Match(on, arms) => match arms.iter().find(|(w, _)| self.at.word(on) == Some(*w)) {
                Some((_, a)) => self.read(*a),
                None => self.variable(format!("{t:?}")),
            },
            Op::Call(f, args) => self.call(f, &args),
            Op::Sum(items) => {
                let mut sum = Poly::default();
                for (c, a) in items {
                    sum = sum.add(&self.read(a)?.scale(Coef::of(c.value())))?;
                }
                Ok(sum)
            }
            Op::Prod(c, nums, dens) => {
                let mut product = number(c.value());
                for n in nums {
                    product = product.mul(&self.read(n)?)?;
                }
                for d in dens {
                    let below = self.read(d)?;
                    product = product.mul(&self.power(&below, Rat::int(-1))?)?;
                }
                Ok(product)
            }
        }
    }

    fn variable(&mut self, name: String) -> Res {
        Ok(Poly::power(self.atom(name, Kind::Variable), Rat::ONE))
    }

    fn truth(&mut self, t: T) -> Res {
        Ok(Poly::constant(Coef::of(f64::from(self.at.value(self.terms, t) != 0.0))))
    }

    fn call(&mut self, f: Name, args: &[T]) -> Res {
        if f == "detach" {
            return self.read(args[0]);
        }
        let Some(builtin) = Builtin::from_name(f.as_str()) else { return self.truth_of_question(f, args) };
        let mut ps = args.iter().map(|a| self.read(*a)).collect::<Result<Vec<Poly>, TooLarge>>()?;
        let one = Poly::constant(Coef::one());
        let minus = |p: &Poly| p.scale(Coef::of(-1.0));
        let u = ps.first().cloned().unwrap_or_default();
        Ok(match builtin {
            Builtin::Exp => self.exp(&u)?,
            Builtin::Expm1 => self.exp(&u)?.add(&minus(&one))?,
            Builtin::Sinh | Builtin::Cosh => {
                let sign = if builtin == Builtin::Sinh { -0.5 } else { 0.5 };
                let (up, down) = (self.exp(&u)?, self.exp(&minus(&u))?);
                up.scale(Coef::of(0.5)).add(&down.scale(Coef::of(sign)))?
            }
            Builtin::Tanh => {
                let e = self.exp(&u.scale(Coef::of(2.0)))?;
                let below = self.power(&e.add(&one)?, Rat::int(-1))?;
                e.add(&minus(&one))?.mul(&below)?
            }
            Builtin::Sigmoid => {
                let e = self.exp(&u)?;
                let below = self.power(&e.add(&one)?, Rat::int(-1))?;
                e.mul(&below)?
            }
            Builtin::Ln => self.ln(&u)?,
            Builtin::Log1p => self.ln(&u.add(&one)?)?,
            Builtin::Log2 => self.ln(&u)?.scale(Coef::of(std::f64::consts::LOG2_E)),
            Builtin::Log10 => self.ln(&u)?.scale(Coef::of(std::f64::consts::LOG10_E)),
            Builtin::Exp2 => self.exp(&u.scale(Coef::of(std::f64::consts::LN_2)))?,
            Builtin::Sqrt => self.power(&u, Rat::new(1, 2).unwrap_or(Rat::ONE))?,
            Builtin::Rsqrt => self.power(&u, Rat::new(-1, 2).unwrap_or(Rat::ONE))?,
            Builtin::Reciprocal => self.power(&u, Rat::int(-1))?,
            Builtin::Hypot => {
                let squares = u.mul(&u)?.add(&ps[1].mul(&ps[1])?)?;
                self.power(&squares, Rat::new(1, 2).unwrap_or(Rat::ONE))?
            }
            Builtin::Pow => match ps[1].number().and_then(Coef::exact) {
                Some(r) => self.power(&u, r)?,
                None => {
                    let l = self.ln(&u)?;
                    self.exp(&ps[1].mul(&l)?)?
                }
            },
            Builtin::Tan => {
                let (s, c) = (self.function("sin", &u), self.function("cos", &u));
                s.mul(&self.power(&c, Rat::int(-1))?)?
            }
            Builtin::Erfc => one.add(&minus(&self.function("erf", &u)))?,
            Builtin::Abs => if self.at.value(self.terms, args[0]) < 0.0 { minus(&u) } else { u },
            Builtin::Sign | Builtin::Floor | Builtin::Ceil | Builtin::Round | Builtin::Trunc => {
                // constant within a region
                let value = crate::builtins::eval_f64(builtin, &[self.at.value(self.terms, args[0])]);
                Poly::constant(Coef::of(value))
            }
            Builtin::Max | Builtin::Min => {
                let (a, b) = (self.at.value(self.terms, args[0]), self.at.value(self.terms, args[1]));
                ps.swap_remove(usize::from((a < b) == (builtin == Builtin::Max)))
            }
            Builtin::Copysign => {
                let (a, b) = (self.at.value(self.terms, args[0]), self.at.value(self.terms, args[1]));
                if (a < 0.0) == (b < 0.0) { u } else { minus(&u) }
            }
            Builtin::DivFloor | Builtin::DivTrunc => {
                let values: Vec<f64> = args.iter().map(|a| self.at.value(self.terms, *a)).collect();
                Poly::constant(Coef::of(crate::builtins::eval_f64(builtin, &values)))
            }
            Builtin::RemFloor | Builtin::RemTrunc => {
                let values: Vec<f64> = args.iter().map(|a| self.at.value(self.terms, *a)).collect();
                let whole = if builtin == Builtin::RemFloor { Builtin::DivFloor } else { Builtin::DivTrunc };
                let quotient = crate::builtins::eval_f64(whole, &values);
                u.add(&ps[1].scale(Coef::of(-quotient)))?
            }
            other if other.record().result == crate::builtins::ResultRule::Bool => {
                let values: Vec<f64> = args.iter().map(|a| self.at.value(self.terms, *a)).collect();
                Poly::constant(Coef::of(crate::builtins::eval_f64(other, &values)))
            }
            other => {
                let text: Vec<String> = ps.iter().map(key).collect();
                let name = format!("{}({})", other.name(), text.join(", "));
                Poly::power(self.atom(name, Kind::Function), Rat::ONE)
            }
        })
    }

    fn truth_of_question(&mut self, f: Name, args: &[T]) -> Res {
        let value = self.at.question(self.terms, f, args);
        Ok(Poly::constant(Coef::of(f64::from(value))))
    }

    fn function(&mut self, f: &str, u: &Poly) -> Poly {
        // sin(-u) = -sin(u), cos(-u) = cos(u), erf(-u) = -erf(u)
        let negative = u.terms.values().next().is_some_and(|c| c.value() < 0.0);
        let inner = if negative { u.scale(Coef::of(-1.0)) } else { u.clone() };
        let atom = self.atom(format!("{f}({})", key(&inner)), Kind::Function);
        let p = Poly::power(atom, Rat::ONE);
        if negative && f != "cos" { p.scale(Coef::of(-1.0)) } else { p }
    }

    fn exp(&mut self, u: &Poly) -> Res {
        let mut product = Poly::constant(Coef::one());
        for (m, c) in &u.terms {
            let factor = match (m.is_empty(), c.exact()) {
                (true, _) => Poly::constant(Coef::of(c.value().exp())),
                (_, Some(r)) => match self.ln_of(m) {
                    // exp(c ln v) = v^c
                    Some(v) => self.power(&v, r)?,
                    None => {
                        let name = format!("exp({})", monomial_key(m));
                        Poly::power(self.atom(name, Kind::Exp(m.clone())), r)
                    }
                },
                (_, None) => {
                    let name = format!("exp({})", key(&Poly::term(m.clone(), *c)));
                    Poly::power(self.atom(name, Kind::Function), Rat::ONE)
                }
            };
            product = product.mul(&factor)?;
        }
        Ok(product)
    }

    /// `v` where the monomial is `ln v`.
    fn ln_of(&self, m: &Monomial) -> Option<Poly> {
        let mut items = m.iter();
        let (atom, e) = items.next()?;
        match (&self.kinds[*atom as usize], *e == Rat::ONE, items.next()) {
            (Kind::Ln(v), true, None) => Some(v.clone()),
            _ => None,
        }
    }

    fn ln(&mut self, u: &Poly) -> Res {
        if let Some((m, c)) = u.single()
            && m.len() == 1
            && let Some((atom, e)) = m.iter().next()
            && let Kind::Exp(inner) = &self.kinds[*atom as usize]
            && c == Coef::one()
        {
            return Ok(Poly::term(inner.clone(), Coef::rat(*e)));
        }
        Ok(Poly::power(self.atom(format!("ln({})", key(u)), Kind::Ln(u.clone())), Rat::ONE))
    }

    fn power(&mut self, u: &Poly, e: Rat) -> Res {
        if let Some((m, c)) = u.single() {
            let mut out = Monomial::new();
            for (atom, k) in m {
                out.insert(*atom, k.mul(e).ok_or(TooLarge)?);
            }
            let coef = match e.as_int() {
                Some(-1) => c.inverse(),
                Some(n) if n.unsigned_abs() <= 8 => {
                    let c = if n < 0 { c.inverse() } else { Some(c) };
                    c.map(|c| (0..n.unsigned_abs()).fold(Coef::one(), |p, _| p.mul(c)))
                }
                _ => Some(if c == Coef::one() { c } else { Coef::of(c.value().powf(e.value())) }),
            };
            return Ok(Poly::term(out, coef.unwrap_or(Coef::of(f64::NAN))));
        }
        if let Some(n) = e.as_int().filter(|n| (0..=8).contains(n)) {
            let mut product = Poly::constant(Coef::one());
            for _ in 0..n {
                product = product.mul(u)?;
            }
            return Ok(product);
        }
        // sums that differ by a factor are one atom
        let Some(lead) = u.terms.values().next().copied() else {
            return Ok(Poly::constant(Coef::of(if e.value() < 0.0 { f64::NAN } else { 0.0 })));
        };
        // under a root only positive factors move out
        let lead = if e.as_int().is_some() { lead } else { Coef::of(lead.value().abs()) };
        let base = u.scale(lead.inverse().unwrap_or(Coef::one()));
        let atom = self.atom(format!("({})", key(&base)), Kind::Sum(base));
        let scale = match e.as_int() {
            Some(-1) => lead.inverse().unwrap_or(Coef::one()),
            _ => Coef::of(lead.value().powf(e.value())),
        };
        Ok(Poly::power(atom, e).scale(scale))
    }

    /// Whether `p` is zero, after fractions are cleared and squares of cosines replaced.
    ///
    /// # Errors
    /// It grew too large.
    pub fn vanishes(&mut self, p: &Poly) -> Result<bool, TooLarge> {
        let mut p = p.clone();
        // a sum was made after everything in it
        for atom in (0..self.kinds.len() as Atom).rev() {
            if let Kind::Sum(base) = self.kinds[atom as usize].clone() {
                p = clear(&p, atom, &base)?;
            }
        }
        let names: Vec<(Atom, String)> = self.names.iter().map(|(n, a)| (*a, n.clone())).collect();
        for (cos, name) in &names {
            let Some(inner) = name.strip_prefix("cos") else { continue };
            let sin = self.atom(format!("sin{inner}"), Kind::Function);
            p = squares(&p, *cos, sin)?;
        }
        Ok(p.is_zero())
    }
}

/// `p` times the power of `atom` that leaves no negative exponent, whole powers multiplied out.
fn clear(p: &Poly, atom: Atom, base: &Poly) -> Res {
    let exponent = |m: &Monomial| m.get(&atom).copied().unwrap_or(Rat::ZERO);
    let Some(least) = p.terms.keys().map(exponent).min_by(|a, b| a.value().total_cmp(&b.value())) else {
        return Ok(p.clone());
    };
    let mut out = Poly::default();
    for (m, c) in &p.terms {
        let e = exponent(m).add(least.neg()).ok_or(TooLarge)?;
        let mut rest = m.clone();
        rest.remove(&atom);
        let whole = e.value().floor() as i64;
        let left = e.add(Rat::int(-whole)).ok_or(TooLarge)?;
        if left != Rat::ZERO {
            rest.insert(atom, left);
        }
        let mut term = Poly::term(rest, *c);
        for _ in 0..whole {
            term = term.mul(base)?;
        }
        out = out.add(&term)?;
    }
    Ok(out)
}

/// `cos²` is `1 - sin²`.
fn squares(p: &Poly, cos: Atom, sin: Atom) -> Res {
    let mut out = Poly::default();
    for (m, c) in &p.terms {
        let pairs = m.get(&cos).and_then(|e| e.as_int()).map_or(0, |e| e.max(0) / 2);
        let mut rest = m.clone();
        if pairs > 0 {
            let left = m.get(&cos).and_then(|e| e.add(Rat::int(-2 * pairs))).unwrap_or(Rat::ZERO);
            rest.insert(cos, left);
        }
        let mut term = Poly::term(rest, *c);
        let one = Poly::constant(Coef::one());
        let circle = one.add(&Poly::power(sin, Rat::int(2)).scale(Coef::of(-1.0)))?;
        for _ in 0..pairs {
            term = term.mul(&circle)?;
        }
        out = out.add(&term)?;
    }
    Ok(out)
}

fn monomial_key(m: &Monomial) -> String {
    m.iter().map(|(a, e)| format!("a{a}^{:.12}", e.value())).collect::<Vec<_>>().join("*")
}

/// A text that equal polynomials share.
fn key(p: &Poly) -> String {
    p.terms.iter().map(|(m, c)| format!("{:.11e} {}", c.value(), monomial_key(m))).collect::<Vec<_>>().join(" + ")
}
