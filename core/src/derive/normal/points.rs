//! Points at which terms are compared, and which decide conditions.

use crate::Name;
use crate::builtins::{Builtin, eval_f64};
use crate::derive::term::{Op, T, Terms};
use crate::lang::ast::BinOp;
use std::collections::HashMap;

/// Numbers for names, words for options, answers to questions about presence.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// Arguments, options, the cotangent.
    pub numbers: Vec<(Name, f64)>,
    /// Options with words.
    pub words: Vec<(Name, Name)>,
    /// Answers, by the question's text: `some(lo)`.
    pub answers: Vec<(String, bool)>,
}

impl Point {
    /// The number called `n`.
    pub fn number(&self, n: Name) -> Option<f64> {
        self.numbers.iter().find(|(m, _)| *m == n).map(|(_, x)| *x)
    }

    /// The word of option `n`.
    pub fn word(&self, n: Name) -> Option<Name> {
        self.words.iter().find(|(m, _)| *m == n).map(|(_, w)| *w)
    }

    /// The answer to a question about an argument.
    pub fn question(&self, terms: &Terms<'_>, f: Name, args: &[T]) -> bool {
        let text = ask(terms, f, args);
        self.answers.iter().find(|(q, _)| *q == text).is_some_and(|(_, a)| *a)
    }

    /// The value of `t` here; NaN where it has none.
    pub fn value(&self, terms: &Terms<'_>, t: T) -> f64 {
        self.value_in(terms, t, &mut HashMap::new())
    }

    fn value_in(&self, terms: &Terms<'_>, t: T, known: &mut HashMap<T, f64>) -> f64 {
        if let Some(x) = known.get(&t) {
            return *x;
        }
        let mut sub = |t: T| self.value_in(terms, t, known);
        let x = match terms.op(t) {
            Op::Const(x, _) => x.value(),
            Op::Name(n) => match self.number(*n) {
                Some(x) => x,
                None => crate::sig::statics::constant(*n).map_or(f64::NAN, |s| s.as_f64()),
            },
            Op::Atom(_) => f64::NAN,
            Op::Neg(a) => -sub(*a),
            Op::Not(a) => f64::from(sub(*a) == 0.0),
            Op::Cast(a, text) => match text.as_str() {
                "i64" | "i32" | "i16" | "i8" | "u8" => sub(*a).trunc(),
                "bool" => f64::from(sub(*a) != 0.0),
                _ => sub(*a),
            },
            Op::Bin(op, a, b) => eval_f64(builtin(*op), &[sub(*a), sub(*b)]),
            Op::If(c, a, b) => {
                let side = if sub(*c) != 0.0 { *a } else { *b };
                sub(side)
            }
            Op::Match(on, arms) => match arms.iter().find(|(w, _)| self.word(*on) == Some(*w)) {
                Some((_, a)) => sub(*a),
                None => f64::NAN,
            },
            Op::Call(f, args) if *f == "detach" => sub(args[0]),
            Op::Call(f, args) => match Builtin::from_name(f.as_str()) {
                Some(b) => {
                    let values: Vec<f64> = args.iter().map(|a| sub(*a)).collect();
                    eval_f64(b, &values)
                }
                None => f64::from(self.question(terms, *f, args)),
            },
            Op::Sum(items) => items.iter().map(|(c, a)| c.value() * sub(*a)).sum(),
            Op::Prod(c, nums, dens) => {
                let up = nums.iter().fold(c.value(), |p, a| p * sub(*a));
                dens.iter().fold(up, |p, a| p / sub(*a))
            }
        };
        known.insert(t, x);
        x
    }
}

/// The text of a question.
pub fn ask(terms: &Terms<'_>, f: Name, args: &[T]) -> String {
    let names: Vec<String> = args.iter().map(|a| terms.written(*a).to_string()).collect();
    format!("{f}({})", names.join(", "))
}

/// The builtin of an operator.
pub fn builtin(op: BinOp) -> Builtin {
    match op {
        BinOp::Or => Builtin::Or,
        BinOp::And => Builtin::And,
        BinOp::Eq => Builtin::Eq,
        BinOp::Ne => Builtin::Ne,
        BinOp::Lt => Builtin::Lt,
        BinOp::Le => Builtin::Le,
        BinOp::Gt => Builtin::Gt,
        BinOp::Ge => Builtin::Ge,
        BinOp::Add => Builtin::Add,
        BinOp::Sub => Builtin::Sub,
        BinOp::Mul => Builtin::Mul,
        BinOp::Div => Builtin::Div,
        BinOp::Rem => Builtin::RemFloor,
    }
}

/// Deterministic points over `names`: simple ones first, then small, wide, and close to one another.
pub fn points(names: &[Name], count: usize) -> Vec<Vec<(Name, f64)>> {
    const SIMPLE: [f64; 8] = [1.0, 0.5, -1.0, 2.0, -0.5, 0.25, 3.0, -2.0];
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..count)
        .map(|i| {
            let draw = |k: usize, next: &mut dyn FnMut() -> f64| match i {
                0 => 1.0,
                1..8 => SIMPLE[(i + 3 * k) % SIMPLE.len()],
                _ => match i % 5 {
                    0 => 0.05 + 0.9 * next(),
                    1 => 1.05 + 2.0 * next(),
                    2 => 8.0 * next() - 4.0,
                    3 => 60.0 * next() - 30.0,
                    _ => 4.0 * next() - 2.0,
                },
            };
            names.iter().enumerate().map(|(k, n)| (*n, draw(k, &mut next))).collect()
        })
        .collect()
}
