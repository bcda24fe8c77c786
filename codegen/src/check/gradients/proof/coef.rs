//! Coefficients: exact fractions, with a bound on the error of the literals from which they were made.
//!
//! 0.7978845608028654 stands for a number that no literal holds, and a derivation multiplies literals in f64. A literal
//! of that many digits is therefore exact up to one rounding only; a short one (`0.044715`, `3`) is exact.

/// A reduced fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rat {
    num: i128,
    den: i128,
}

fn gcd(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.abs().max(1)
}

impl Rat {
    /// Zero.
    pub const ZERO: Rat = Rat::int(0);
    pub const ONE: Rat = Rat::int(1);

    /// An integer.
    pub const fn int(i: i64) -> Rat {
        Rat { num: i as i128, den: 1 }
    }

    /// `num / den`; `None` for a denominator of 0 and for numbers that do not fit.
    pub fn new(num: i128, den: i128) -> Option<Rat> {
        if den == 0 || num == i128::MIN || den == i128::MIN {
            return None;
        }
        let g = gcd(num, den) * den.signum();
        Some(Rat { num: num / g, den: den / g })
    }

    /// The fraction that a number's decimal digits spell, and how many digits there are.
    pub fn of(x: f64) -> Option<(Rat, usize)> {
        let text = x.is_finite().then(|| format!("{x:e}"))?;
        let (digits, exponent) = text.split_once('e')?;
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let num: i128 = format!("{whole}{fraction}").parse().ok()?;
        let exponent = exponent.parse::<i32>().ok()? - fraction.len() as i32;
        let power = 10i128.checked_pow(exponent.unsigned_abs())?;
        let rat = if exponent >= 0 { Rat::new(num.checked_mul(power)?, 1)? } else { Rat::new(num, power)? };
        Some((rat, whole.trim_start_matches('-').len() + fraction.len()))
    }

    pub fn value(self) -> f64 {
        self.num as f64 / self.den as f64
    }

    /// Numerator and denominator.
    pub fn parts(self) -> (i128, i128) {
        (self.num, self.den)
    }

    /// The integer, if it is one.
    pub fn as_int(self) -> Option<i64> {
        (self.den == 1).then(|| i64::try_from(self.num).ok()).flatten()
    }

    /// The largest integer that is not larger.
    pub fn floor(self) -> Option<i64> {
        i64::try_from(self.num.div_euclid(self.den)).ok()
    }

    /// The sum, unless it does not fit.
    pub fn add(self, o: Rat) -> Option<Rat> {
        let g = gcd(self.den, o.den);
        let num = self.num.checked_mul(o.den / g)?.checked_add(o.num.checked_mul(self.den / g)?)?;
        Rat::new(num, self.den.checked_mul(o.den / g)?)
    }

    /// The product, unless it does not fit.
    pub fn mul(self, o: Rat) -> Option<Rat> {
        let (g, h) = (gcd(self.num, o.den), gcd(o.num, self.den));
        Rat::new((self.num / g).checked_mul(o.num / h)?, (self.den / h).checked_mul(o.den / g)?)
    }

    /// The negative.
    pub fn neg(self) -> Rat {
        Rat { num: -self.num, den: self.den }
    }
}

/// A coefficient of which the test for zero allows for rounded literals.
#[derive(Clone, Copy, Debug)]
pub struct Coef {
    /// The exact fraction, until it needs too many digits.
    exact: Option<Rat>,
    value: f64,
    /// A bound on the distance of the value from the number that was meant.
    slack: f64,
}

/// A literal of at least this many digits is a rounded number.
const ROUNDED: usize = 15;

impl Coef {
    /// A fraction.
    pub fn rat(r: Rat) -> Coef {
        Coef { exact: Some(r), value: r.value(), slack: 0.0 }
    }

    /// A number that was computed in f64.
    pub fn rounded(x: f64) -> Coef {
        Coef { exact: None, value: x, slack: x.abs() * f64::EPSILON }
    }

    /// The number that a literal stands for.
    pub fn of(x: f64) -> Coef {
        match Rat::of(x) {
            Some((r, digits)) if digits < ROUNDED => Coef::rat(r),
            Some((r, _)) => Coef { exact: Some(r), ..Coef::rounded(x) },
            None => Coef::rounded(x),
        }
    }

    pub fn value(self) -> f64 {
        self.value
    }

    /// The fraction that its literals spell; `None` if it needs too many digits.
    pub fn exact(self) -> Option<Rat> {
        self.exact
    }

    fn made(exact: Option<Rat>, value: f64, slack: f64) -> Coef {
        match exact {
            Some(r) => Coef { exact, value: r.value(), slack },
            None => Coef { exact, value, slack: slack + value.abs() * f64::EPSILON },
        }
    }

    /// The sum.
    pub fn add(self, o: Coef) -> Coef {
        let exact = self.exact.zip(o.exact).and_then(|(a, b)| a.add(b));
        // a sum of two rounded numbers keeps their absolute errors, also if they cancel
        let lost = if exact.is_none() { self.value.abs().max(o.value.abs()) * f64::EPSILON } else { 0.0 };
        Coef::made(exact, self.value + o.value, self.slack + o.slack + lost)
    }

    /// The product.
    pub fn mul(self, o: Coef) -> Coef {
        let exact = self.exact.zip(o.exact).and_then(|(a, b)| a.mul(b));
        let slack = self.value.abs() * o.slack + o.value.abs() * self.slack;
        Coef::made(exact, self.value * o.value, slack)
    }

    /// The negative.
    pub fn neg(self) -> Coef {
        Coef { exact: self.exact.map(Rat::neg), value: -self.value, ..self }
    }

    /// The inverse; `None` for 0.
    pub fn inverse(self) -> Option<Coef> {
        let exact = self.exact.and_then(|r| Rat::new(r.den, r.num));
        (!self.is_zero()).then(|| Coef::made(exact, 1.0 / self.value, self.slack / self.value.powi(2)))
    }

    /// Whether it is zero, up to the rounding of its literals.
    pub fn is_zero(self) -> bool {
        match self.exact {
            Some(r) if self.slack == 0.0 || r == Rat::ZERO => r == Rat::ZERO,
            _ => self.slack.is_finite() && self.value.abs() <= 4.0 * self.slack,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        assert_eq!(Rat::of(0.044715), Some((Rat::new(44715, 1_000_000).unwrap(), 5)));
        assert_eq!(Rat::of(-2.5e3).map(|(r, _)| r), Rat::new(-2500, 1));
        assert_eq!(Rat::of(f64::NAN), None);
        assert_eq!(Rat::new(1, 0), None);
        assert_eq!(Rat::new(-7, 2).and_then(Rat::floor), Some(-4));
    }

    #[test]
    fn short_literals_have_no_slack() {
        let large = Coef::of(1e13);
        assert!(!large.add(Coef::of(1.0)).add(large.neg()).is_zero());
        assert!(Coef::of(0.1).add(Coef::of(0.2)).add(Coef::of(-0.3)).is_zero());
        assert!(!Coef::of(0.1).add(Coef::of(-0.100001)).is_zero());
    }

    #[test]
    fn long_ones_cancel_to_one_rounding() {
        let folded = Coef::of(3.0 * 0.044715);
        assert!(Coef::of(3.0).mul(Coef::of(0.044715)).add(folded.neg()).is_zero());
        let x = Coef::of(0.7978845608028654);
        let many = (0..5).fold(Coef::of(1.0), |p, _| p.mul(x));
        assert_eq!(many.exact(), None);
        assert!(many.add(many.neg()).is_zero());
        assert!(!many.add(Coef::of(1e-12)).add(many.neg()).is_zero());
    }
}
