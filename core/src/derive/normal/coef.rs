//! Coefficients: rational as long as that is possible, with the float value beside.
//!
//! Literals such as 0.7978845608028654 are approximations of something, and rules write them with more or fewer digits.
//! A coefficient that left the rationals (too many digits) is zero if it vanishes against what it was made of.

/// A number that cancels or does not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coef {
    exact: Option<Rat>,
    value: f64,
    /// The size of what was added up: how much rounding is in `value`.
    size: f64,
}

/// A reduced fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rat {
    num: i128,
    den: i128,
}

/// How much two spellings of a constant may differ.
const SLACK: f64 = 1e-9;

fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i128::try_from(a).unwrap_or(1).max(1)
}

impl Rat {
    /// Zero.
    pub const ZERO: Rat = Rat { num: 0, den: 1 };
    /// One.
    pub const ONE: Rat = Rat { num: 1, den: 1 };

    /// `num / den`; `None` for a denominator of 0.
    pub fn new(num: i128, den: i128) -> Option<Rat> {
        if den == 0 {
            return None;
        }
        let g = gcd(num, den);
        let sign = if den < 0 { -1 } else { 1 };
        Some(Rat { num: sign * (num / g), den: sign * (den / g) })
    }

    /// An integer.
    pub fn int(i: i64) -> Rat {
        Rat { num: i.into(), den: 1 }
    }

    /// The number as it is written in decimal digits.
    pub fn of(x: f64) -> Option<Rat> {
        if !x.is_finite() {
            return None;
        }
        let text = format!("{x:e}");
        let (digits, exponent) = text.split_once('e')?;
        let exponent: i32 = exponent.parse().ok()?;
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let num: i128 = format!("{whole}{fraction}").parse().ok()?;
        let exponent = exponent - fraction.len() as i32;
        let power = 10i128.checked_pow(exponent.unsigned_abs())?;
        if exponent >= 0 { Rat::new(num.checked_mul(power)?, 1) } else { Rat::new(num, power) }
    }

    /// Its value.
    pub fn value(self) -> f64 {
        self.num as f64 / self.den as f64
    }

    /// Whether it is an integer.
    pub fn as_int(self) -> Option<i64> {
        (self.den == 1).then(|| i64::try_from(self.num).ok()).flatten()
    }

    /// The sum, unless it does not fit.
    pub fn add(self, o: Rat) -> Option<Rat> {
        let num = self.num.checked_mul(o.den)?.checked_add(o.num.checked_mul(self.den)?)?;
        Rat::new(num, self.den.checked_mul(o.den)?)
    }

    /// The product, unless it does not fit.
    pub fn mul(self, o: Rat) -> Option<Rat> {
        Rat::new(self.num.checked_mul(o.num)?, self.den.checked_mul(o.den)?)
    }

    /// The negative.
    pub fn neg(self) -> Rat {
        Rat { num: -self.num, den: self.den }
    }
}

impl Coef {
    /// A rational number.
    pub fn rat(r: Rat) -> Coef {
        Coef { exact: Some(r), value: r.value(), size: r.value().abs() }
    }

    /// A literal.
    pub fn of(x: f64) -> Coef {
        Coef { exact: Rat::of(x), value: x, size: x.abs() }
    }

    /// One.
    pub fn one() -> Coef {
        Coef::rat(Rat::ONE)
    }

    /// Its value.
    pub fn value(self) -> f64 {
        self.value
    }

    /// The rational that it is, if it is known as one.
    pub fn exact(self) -> Option<Rat> {
        self.exact
    }

    /// The sum.
    pub fn add(self, o: Coef) -> Coef {
        let exact = self.exact.zip(o.exact).and_then(|(a, b)| a.add(b));
        Coef { exact, value: self.value + o.value, size: self.size + o.size }
    }

    /// The product.
    pub fn mul(self, o: Coef) -> Coef {
        let exact = self.exact.zip(o.exact).and_then(|(a, b)| a.mul(b));
        Coef { exact, value: self.value * o.value, size: self.size * o.size }
    }

    /// The negative.
    pub fn neg(self) -> Coef {
        Coef { exact: self.exact.map(Rat::neg), value: -self.value, ..self }
    }

    /// The inverse of a number that is not 0.
    pub fn inverse(self) -> Option<Coef> {
        if self.is_zero() {
            return None;
        }
        let exact = self.exact.and_then(|r| Rat::new(r.den, r.num));
        Some(Coef { exact, value: 1.0 / self.value, size: (1.0 / self.value).abs() })
    }

    /// Whether it vanishes.
    pub fn is_zero(self) -> bool {
        match self.exact {
            Some(r) => r == Rat::ZERO,
            None => self.value.abs() <= SLACK * self.size,
        }
    }

    /// Whether it vanishes, or would if literals had more digits.
    pub fn vanishes(self) -> bool {
        self.is_zero() || self.value.abs() <= SLACK * self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        assert_eq!(Rat::of(0.044715), Rat::new(44715, 1_000_000));
        assert_eq!(Rat::of(-2.5e3), Rat::new(-2500, 1));
        assert_eq!(Rat::of(f64::NAN), None);
        assert_eq!(Rat::new(1, 0), None);
    }

    #[test]
    fn overflow_leaves_the_rationals_and_still_cancels() {
        let x = Coef::of(0.7978845608028654);
        let many = (0..5).fold(Coef::one(), |p, _| p.mul(x));
        assert_eq!(many.exact(), None);
        assert!(many.add(many.neg()).is_zero());
        assert!(!many.add(Coef::of(1e-3)).is_zero());
    }
}
