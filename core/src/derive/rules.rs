//! The named rules by which derived terms are made short and stable, applied as terms are built.
//!
//! | rule | does |
//! |---|---|
//! | `fold` | arithmetic on literals |
//! | `zero` | a structural zero ends a product: nothing flows through an unselected branch |
//! | `branch` | a factor goes into an `if` that has a zero side: branches select, they never multiply |
//! | `double negation` | `-(-x)` is `x` |
//! | `like terms` | `a x + b x` is `(a + b) x` |
//! | `common factor` | `g a + g b` is `g (a + b)` |
//! | `cancel` | `u / u` is 1 where `u` is never 0: exponentials and terms built on them |
//! | `exponents` | `exp(u) exp(v)` is `exp(u + v)` |
//! | `logistic` | `exp(u) / (1 + exp(u))` is `sigmoid(u)`, which does not overflow |
//! | `half` | the square of `FRAC_1_SQRT_2` is one half |
//! | `pow` | `pow(x, 1)` is `x`, `pow(x, 0)` is 1 |
//! | `known condition` | inside `if c`, a further `if c` is decided |

use super::term::{Op, T, Terms};
use crate::Name;
use crate::lang::ast::BinOp;
use rustc_hash::FxHashMap;

impl Terms<'_> {
    fn fire(&mut self, rule: &'static str) {
        self.fired.insert(rule);
    }

    /// `-a`
    pub fn negate(&mut self, a: T) -> T {
        match self.op(a).clone() {
            Op::Const(x, float) => self.add_op(Op::Const((-x.value()).into(), float || x.value() == 0.0)),
            Op::Neg(b) => {
                self.fire("double negation");
                b
            }
            Op::Prod(c, n, d) => self.add_op(Op::Prod((-c.value()).into(), n, d)),
            Op::Sum(items) => self.add_op(Op::Sum(items.into_iter().map(|(c, t)| ((-c.value()).into(), t)).collect())),
            _ => self.add_op(Op::Neg(a)),
        }
    }

    /// `!a`
    pub fn not(&mut self, a: T) -> T {
        match self.op(a).clone() {
            Op::Not(b) => b,
            _ => match self.truth(a) {
                Some(b) => self.bool(!b),
                None => self.add_op(Op::Not(a)),
            },
        }
    }

    pub(super) fn logic(&mut self, op: BinOp, a: T, b: T) -> T {
        let and = op == BinOp::And;
        match (self.truth(a), self.truth(b)) {
            (Some(x), _) => {
                if x == and {
                    b
                } else {
                    a
                }
            }
            (_, Some(y)) => {
                if y == and {
                    a
                } else {
                    b
                }
            }
            _ if a == b => a,
            _ => self.add_op(Op::Bin(op, a, b)),
        }
    }

    /// A comparison of literals.
    pub(super) fn fold_comparison(&mut self, op: BinOp, a: T, b: T) -> Option<T> {
        let (x, y) = (self.value(a)?, self.value(b)?);
        let holds = match op {
            BinOp::Eq => x == y,
            BinOp::Ne => x != y,
            BinOp::Lt => x < y,
            BinOp::Le => x <= y,
            BinOp::Gt => x > y,
            BinOp::Ge => x >= y,
            _ => return None,
        };
        self.fire("fold");
        Some(self.bool(holds))
    }

    /// `if c { a } else { b }`
    pub fn branch(&mut self, c: T, a: T, b: T) -> T {
        if let Some(holds) = self.truth(c) {
            return if holds { a } else { b };
        }
        let (a, b) = (self.assume(a, c, true), self.assume(b, c, false));
        if a == b {
            return a;
        }
        if let Op::Not(c) = *self.op(c) {
            return self.add_op(Op::If(c, b, a));
        }
        self.add_op(Op::If(c, a, b))
    }

    /// `match on { … }`
    pub fn choice(&mut self, on: Name, arms: Vec<(Name, T)>) -> T {
        match arms.first() {
            Some((_, first)) if arms.iter().all(|(_, t)| t == first) => *first,
            _ => self.add_op(Op::Match(on, arms)),
        }
    }

    /// `t` under the assumption that `c` is `holds`.
    fn assume(&mut self, t: T, c: T, holds: bool) -> T {
        let mut memo = FxHashMap::default();
        self.assume_in(t, c, holds, &mut memo)
    }

    fn assume_in(&mut self, t: T, c: T, holds: bool, memo: &mut FxHashMap<T, T>) -> T {
        if let Some(&known) = memo.get(&t) {
            return known;
        }
        let new = match self.op(t).clone() {
            Op::If(d, a, b) if d == c => {
                self.fire("known condition");
                let taken = if holds { a } else { b };
                self.assume_in(taken, c, holds, memo)
            }
            _ => {
                let old = self.children(t);
                let new: Vec<T> = old.iter().map(|&x| self.assume_in(x, c, holds, memo)).collect();
                if new == old { t } else { self.rebuild(t, &new) }
            }
        };
        memo.insert(t, new);
        new
    }

    /// `t` with its parts replaced.
    pub(super) fn rebuild(&mut self, t: T, parts: &[T]) -> T {
        match (self.op(t).clone(), parts) {
            (Op::Neg(_), [a]) => self.negate(*a),
            (Op::Not(_), [a]) => self.not(*a),
            (Op::Cast(_, elem), [a]) => self.add_op(Op::Cast(*a, elem)),
            (Op::Bin(op @ (BinOp::And | BinOp::Or), ..), [a, b]) => self.logic(op, *a, *b),
            (Op::Bin(op, ..), [a, b]) => match self.fold_comparison(op, *a, *b) {
                Some(t) => t,
                None => self.add_op(Op::Bin(op, *a, *b)),
            },
            (Op::If(..), [c, a, b]) => self.branch(*c, *a, *b),
            (Op::Match(on, arms), _) => self.choice(on, arms.iter().zip(parts).map(|((w, _), t)| (*w, *t)).collect()),
            (Op::Call(f, _), _) => self.builtin(f, parts.to_vec()),
            (Op::Sum(items), _) => {
                let items: Vec<(f64, T)> = items.iter().zip(parts).map(|((c, _), t)| (c.value(), *t)).collect();
                self.sum(&items)
            }
            (Op::Prod(c, nums, _), _) => {
                let coef = self.num(c.value());
                let (up, down) = parts.split_at(nums.len());
                let up: Vec<T> = std::iter::once(coef).chain(up.iter().copied()).collect();
                self.product(&up, down)
            }
            _ => t,
        }
    }

    /// A builtin call.
    pub fn builtin(&mut self, f: Name, args: Vec<T>) -> T {
        if f == "pow"
            && let [x, y] = args.as_slice()
        {
            match self.value(*y) {
                Some(1.0) => {
                    self.fire("pow");
                    return *x;
                }
                Some(0.0) => {
                    self.fire("pow");
                    return self.num(1.0);
                }
                _ => {}
            }
        }
        self.add_op(Op::Call(f, args))
    }

    /// The product of `nums` over that of `dens`.
    pub fn product(&mut self, nums: &[T], dens: &[T]) -> T {
        let mut p = Factors { coef: 1.0, zero: false, nums: Vec::new(), dens: Vec::new() };
        nums.iter().for_each(|&t| self.flatten(t, false, &mut p));
        dens.iter().for_each(|&t| self.flatten(t, true, &mut p));
        if p.zero {
            self.fire("zero");
            return self.num(0.0);
        }
        if let Some(at) = p.nums.iter().position(|&t| self.has_zero_side(t)) {
            self.fire("branch");
            let chosen = p.nums.remove(at);
            return self.push_into_branches(chosen, &p);
        }
        self.logistic(&mut p);
        self.reflect(&mut p);
        self.exponents(&mut p);
        self.cancel(&mut p);
        self.half(&mut p);
        match (p.nums.as_slice(), p.dens.as_slice()) {
            ([], []) => self.num(p.coef),
            ([t], []) if p.coef == 1.0 => *t,
            _ => self.add_op(Op::Prod(p.coef.into(), p.nums, p.dens)),
        }
    }

    fn flatten(&mut self, t: T, inverse: bool, p: &mut Factors) {
        match self.op(t).clone() {
            Op::Const(x, _) if !inverse => {
                p.coef *= x.value();
                p.zero |= self.is_zero(t);
            }
            Op::Const(x, _) if x.value() != 0.0 => p.coef /= x.value(),
            Op::Neg(a) => {
                p.coef = -p.coef;
                self.flatten(a, inverse, p);
            }
            Op::Bin(BinOp::Mul, a, b) => {
                self.flatten(a, inverse, p);
                self.flatten(b, inverse, p);
            }
            // `/` of sizes rounds down, so it is not a quotient.
            Op::Bin(BinOp::Div, a, b) if self.is_float(t) => {
                self.flatten(a, inverse, p);
                self.flatten(b, !inverse, p);
            }
            Op::Prod(c, n, d) => {
                if inverse {
                    p.coef /= c.value();
                } else {
                    p.coef *= c.value();
                }
                let (up, down) = if inverse { (d, n) } else { (n, d) };
                p.nums.extend(up);
                p.dens.extend(down);
            }
            Op::Bin(BinOp::Add | BinOp::Sub, ..) if self.is_float(t) => match self.sum(&[(1.0, t)]) {
                s if s == t || matches!(self.op(s), Op::Sum(_)) => {
                    if inverse {
                        p.dens.push(s)
                    } else {
                        p.nums.push(s)
                    }
                }
                s => self.flatten(s, inverse, p),
            },
            _ if inverse => p.dens.push(t),
            _ => p.nums.push(t),
        }
    }

    fn has_zero_side(&self, t: T) -> bool {
        match self.op(t) {
            Op::If(_, a, b) => [a, b].into_iter().any(|&s| self.is_zero(s) || self.has_zero_side(s)),
            Op::Match(_, arms) => arms.iter().any(|(_, s)| self.is_zero(*s) || self.has_zero_side(*s)),
            _ => false,
        }
    }

    fn push_into_branches(&mut self, t: T, p: &Factors) -> T {
        let coef = self.num(p.coef);
        let times = |terms: &mut Self, side: T| {
            let nums: Vec<T> = std::iter::once(coef).chain(p.nums.iter().copied()).chain([side]).collect();
            terms.product(&nums, &p.dens)
        };
        match self.op(t).clone() {
            Op::If(c, a, b) => {
                let (a, b) = (times(self, a), times(self, b));
                self.branch(c, a, b)
            }
            Op::Match(on, arms) => {
                let arms = arms.into_iter().map(|(w, side)| (w, times(self, side))).collect();
                self.choice(on, arms)
            }
            _ => t,
        }
    }

    fn logistic(&mut self, p: &mut Factors) {
        let exp = Name::new("exp");
        let mut at = 0;
        while at < p.dens.len() {
            let Some(u) = self.one_plus_exp(p.dens[at]) else {
                at += 1;
                continue;
            };
            self.fire("logistic");
            p.dens.remove(at);
            let e = self.add_op(Op::Call(exp, vec![u]));
            let arg = match p.nums.iter().position(|&t| t == e) {
                Some(i) => {
                    p.nums.remove(i);
                    u
                }
                None => self.negate(u),
            };
            let s = self.add_op(Op::Call(Name::new("sigmoid"), vec![arg]));
            p.nums.push(s);
        }
    }

    /// `exp(u) * sigmoid(-u)` is `sigmoid(u)`.
    fn reflect(&mut self, p: &mut Factors) {
        let mut at = 0;
        while at < p.nums.len() {
            let found = match self.op(p.nums[at]).clone() {
                Op::Call(f, args) if f == "exp" => {
                    let minus = self.negate(args[0]);
                    let mirror = self.add_op(Op::Call(Name::new("sigmoid"), vec![minus]));
                    p.nums.iter().position(|&t| t == mirror).map(|i| (i, args[0]))
                }
                _ => None,
            };
            let Some((mirror, u)) = found else {
                at += 1;
                continue;
            };
            self.fire("logistic");
            p.nums[mirror] = self.add_op(Op::Call(Name::new("sigmoid"), vec![u]));
            p.nums.remove(at);
            at = 0;
        }
    }

    /// The square of `FRAC_1_SQRT_2` becomes one half; a single one joins a coefficient other than ±1.
    fn half(&mut self, p: &mut Factors) {
        let half = self.name(Name::new("FRAC_1_SQRT_2"));
        let count = p.nums.iter().filter(|t| **t == half).count();
        let joins = count % 2 == 1 && p.coef.abs() != 1.0;
        if count < 2 && !joins {
            return;
        }
        self.fire("half");
        p.nums.retain(|t| *t != half);
        (0..count / 2).for_each(|_| p.coef *= 0.5);
        match (count % 2 == 1, joins) {
            (true, true) => p.coef *= std::f64::consts::FRAC_1_SQRT_2,
            (true, false) => p.nums.push(half),
            _ => {}
        }
    }

    /// `u` where `t` is `1 + exp(u)`.
    fn one_plus_exp(&self, t: T) -> Option<T> {
        let (a, b) = match self.op(t) {
            Op::Bin(BinOp::Add, a, b) => (*a, *b),
            Op::Sum(items) => match items.as_slice() {
                [(x, a), (y, b)] if x.value() == 1.0 && y.value() == 1.0 => (*a, *b),
                _ => return None,
            },
            _ => return None,
        };
        let exp = |t: T| match self.op(t) {
            Op::Call(f, args) if *f == "exp" => args.first().copied(),
            _ => None,
        };
        match (self.value(a), self.value(b)) {
            (Some(1.0), _) => exp(b),
            (_, Some(1.0)) => exp(a),
            _ => None,
        }
    }

    fn exponents(&mut self, p: &mut Factors) {
        let is_exp = |terms: &Self, t: T| matches!(terms.op(t), Op::Call(f, _) if *f == "exp");
        let (up, down) =
            (p.nums.iter().filter(|t| is_exp(self, **t)).count(), p.dens.iter().filter(|t| is_exp(self, **t)).count());
        if up + down < 2 && down == 0 {
            return;
        }
        self.fire("exponents");
        let mut exponent = Vec::new();
        let mut place = None;
        for (list, sign) in [(&mut p.nums, 1.0), (&mut p.dens, -1.0)] {
            let mut i = 0;
            list.retain(|&t| {
                let at = i;
                i += 1;
                match self.op(t) {
                    Op::Call(f, args) if *f == "exp" => {
                        exponent.push((sign, args[0]));
                        if sign > 0.0 {
                            place.get_or_insert(at);
                        }
                        false
                    }
                    _ => true,
                }
            });
        }
        let u = self.sum(&exponent);
        if self.is_zero(u) {
            return;
        }
        let e = self.add_op(Op::Call(Name::new("exp"), vec![u]));
        let at = place.unwrap_or(p.nums.len()).min(p.nums.len());
        p.nums.insert(at, e);
    }

    fn cancel(&mut self, p: &mut Factors) {
        let mut at = 0;
        while at < p.dens.len() {
            let d = p.dens[at];
            let safe = matches!(self.op(d), Op::Call(f, _) if matches!(f.as_str(), "exp" | "cosh" | "sigmoid"));
            match p.nums.iter().position(|&n| n == d).filter(|_| safe) {
                Some(i) => {
                    self.fire("cancel");
                    p.nums.remove(i);
                    p.dens.remove(at);
                }
                None => at += 1,
            }
        }
    }

    /// The sum of coefficients times terms.
    pub fn sum(&mut self, items: &[(f64, T)]) -> T {
        let mut flat: Vec<(f64, T)> = Vec::new();
        for &(c, t) in items {
            self.flatten_sum(c, t, &mut flat);
        }
        flat.retain(|(c, _)| *c != 0.0);
        match flat.as_slice() {
            [] => return self.num(0.0),
            [(c, t)] => {
                let c = self.num(*c);
                return self.product(&[c, *t], &[]);
            }
            _ => {}
        }
        if let Some(t) = self.common_factor(&flat) {
            return t;
        }
        self.add_op(Op::Sum(flat.into_iter().map(|(c, t)| (c.into(), t)).collect()))
    }

    fn flatten_sum(&mut self, c: f64, t: T, flat: &mut Vec<(f64, T)>) {
        let (c, t) = match self.op(t).clone() {
            Op::Sum(items) => {
                for (k, t) in items {
                    self.flatten_sum(c * k.value(), t, flat);
                }
                return;
            }
            Op::Bin(op @ (BinOp::Add | BinOp::Sub), a, b) if self.is_float(t) => {
                self.flatten_sum(c, a, flat);
                return self.flatten_sum(if op == BinOp::Add { c } else { -c }, b, flat);
            }
            Op::Const(x, _) => (c * x.value(), self.num(1.0)),
            Op::Neg(a) => return self.flatten_sum(-c, a, flat),
            Op::Prod(k, n, d) if k.value() != 1.0 => {
                let bare = match (n.as_slice(), d.as_slice()) {
                    ([one], []) => *one,
                    _ => self.add_op(Op::Prod(1.0.into(), n, d)),
                };
                (c * k.value(), bare)
            }
            _ => (c, t),
        };
        match flat.iter_mut().find(|(_, u)| *u == t) {
            Some((k, _)) => {
                *k += c;
                self.fire("like terms");
            }
            None => flat.push((c, t)),
        }
    }

    fn common_factor(&mut self, flat: &[(f64, T)]) -> Option<T> {
        /// Numerators, denominators.
        type Fraction = (Vec<T>, Vec<T>);
        let parts: Vec<Fraction> = flat
            .iter()
            .map(|(_, t)| match self.op(*t) {
                Op::Prod(_, n, d) => (n.clone(), d.clone()),
                Op::Const(..) => (Vec::new(), Vec::new()),
                _ => (vec![*t], Vec::new()),
            })
            .collect();
        let shared = |pick: &dyn Fn(&Fraction) -> Vec<T>| {
            let mut rest: Vec<Vec<T>> = parts[1..].iter().map(pick).collect();
            let mut common = Vec::new();
            for t in pick(&parts[0]) {
                if rest.iter().all(|r| r.contains(&t)) {
                    for r in &mut rest {
                        if let Some(at) = r.iter().position(|x| *x == t) {
                            r.remove(at);
                        }
                    }
                    common.push(t);
                }
            }
            common
        };
        let nums = shared(&|p| p.0.clone());
        if nums.is_empty() {
            return None;
        }
        let mut rest = Vec::new();
        for ((c, _), (n, d)) in flat.iter().zip(&parts) {
            let mut n = n.clone();
            for t in &nums {
                if let Some(at) = n.iter().position(|x| x == t) {
                    n.remove(at);
                }
            }
            let r = self.product(&n, d);
            // Integers of sizes and options would divide as integers once they stand alone.
            if self.value(r).is_none() && !self.is_float(r) {
                return None;
            }
            rest.push((*c, r));
        }
        self.fire("common factor");
        let inner = self.sum(&rest);
        let factors: Vec<T> = nums.into_iter().chain([inner]).collect();
        Some(self.product(&factors, &[]))
    }
}

struct Factors {
    coef: f64,
    /// Whether a structural zero is among the factors.
    zero: bool,
    nums: Vec<T>,
    dens: Vec<T>,
}
