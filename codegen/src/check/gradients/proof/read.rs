//! From terms to normal forms, within one region.
//!
//! A condition, a sign or a word of an option divides the values of arguments into regions. The path to a region
//! answers such questions. An open question stops the reader, and its caller then goes down every answer.

use std::cmp::Ordering;
use std::collections::HashMap;

use fulgurite_core::Name;
use fulgurite_core::builtins::{Builtin, ResultRule};
use fulgurite_core::derive::term::{Op, T, Terms};
use fulgurite_core::lang::{BinOp, Elem};
use fulgurite_core::{DType, signature::const_eval};

use super::coef::{Coef, Rat};
use super::forms::{Forms, Kind};
use super::poly::{Atom, Poly};

/// A question whose answers divide the values of arguments into regions.
#[derive(Clone, Debug)]
pub enum Question {
    /// The sign of a polynomial.
    Sign(Poly),
    /// Whether a condition holds.
    Truth(T),
    /// The word of an option, among these.
    Word(Name, Vec<Name>),
}

/// The answer to a question in a region.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// The answer to [`Question::Sign`].
    Sign(Ordering),
    /// The answer to [`Question::Truth`].
    Truth(bool),
    /// The answer to [`Question::Word`].
    Word(Name),
}

/// The questions answered so far, which lead to a region.
pub type Path = Vec<(Question, Answer)>;

/// Why there is no normal form.
pub enum Stop {
    /// The region must be divided by this question.
    Ask(Question),
    /// The term is too long, or is not understood.
    GaveUp,
}

impl Question {
    /// Every answer.
    pub fn answers(&self) -> Vec<Answer> {
        match self {
            Question::Sign(_) => [Ordering::Less, Ordering::Equal, Ordering::Greater].map(Answer::Sign).to_vec(),
            Question::Truth(_) => [true, false].map(Answer::Truth).to_vec(),
            Question::Word(_, words) => words.iter().copied().map(Answer::Word).collect(),
        }
    }
}

/// Reads terms in one region.
pub struct Reader<'a, 'r> {
    terms: &'a Terms<'r>,
    /// The atoms that all regions share.
    pub forms: &'a mut Forms,
    path: &'a Path,
    known: HashMap<T, Poly>,
    /// Variables that the region fixes: where `x == y`, `x` is `y`.
    fixed: Vec<(Atom, Poly)>,
}

type Res<X> = Result<X, Stop>;

fn some<X>(x: Option<X>) -> Res<X> {
    x.ok_or(Stop::GaveUp)
}

impl<'a, 'r> Reader<'a, 'r> {
    /// A reader of the region that `path` leads to.
    pub fn new(terms: &'a Terms<'r>, forms: &'a mut Forms, path: &'a Path) -> Reader<'a, 'r> {
        let mut reader = Reader { terms, forms, path, known: HashMap::new(), fixed: Vec::new() };
        for (question, answer) in path {
            if let (Question::Sign(p), Answer::Sign(Ordering::Equal)) = (question, answer) {
                reader.fix(p);
            }
        }
        reader
    }

    /// Solves `p == 0` for a variable, if there is one to solve it for.
    fn fix(&mut self, p: &Poly) {
        let solved = p.terms.iter().find_map(|(m, c)| {
            let (atom, e) = m.iter().next().filter(|_| m.len() == 1)?;
            let mut rest = p.clone();
            rest.terms.remove(m);
            let variable = matches!(self.forms.kind(*atom), Kind::Variable(_)) && *e == Rat::ONE;
            let free = !self.forms.mentions(&rest, *atom)
                && !self.fixed.iter().any(|(known, value)| known == atom || self.forms.mentions(value, *atom));
            (variable && free).then(|| Some((*atom, rest.scale(c.inverse()?.neg())))).flatten()
        });
        self.fixed.extend(solved);
    }

    /// The normal form of `t`.
    pub fn read(&mut self, t: T) -> Res<Poly> {
        if let Some(p) = self.known.get(&t) {
            return Ok(p.clone());
        }
        let p = self.form(t)?;
        self.known.insert(t, p.clone());
        Ok(p)
    }

    fn form(&mut self, t: T) -> Res<Poly> {
        match self.terms.op(t).clone() {
            Op::Const(x, _) => self.literal(x.value()),
            Op::Name(n) => self.name(t, n),
            Op::Atom(_) => self.variable(t),
            Op::Neg(a) => Ok(self.read(a)?.neg()),
            Op::Not(_) => self.truth_value(t),
            Op::Cast(a, text) => match self.terms.elem(text) {
                Elem::Var(_) | Elem::Acc(_) | Elem::Real(_) => self.read(a),
                Elem::Class(c) if DType::from_name(c.as_str()).is_some_and(|d| d.is_float()) => self.read(a),
                _ => Err(Stop::GaveUp),
            },
            Op::Bin(op, a, b) => self.binary(t, op, a, b),
            Op::If(c, a, b) => {
                let side = if self.truth(c)? { a } else { b };
                self.read(side)
            }
            Op::Match(on, arms) => {
                let arm = self.arm(on, &arms)?;
                self.read(arm)
            }
            // `detach` equals its argument in value, but not in its derivative
            Op::Call(f, args) if f == "detach" => {
                let inner = self.read(args[0])?;
                some(self.forms.function("detach", vec![inner]))
            }
            Op::Call(f, args) => match Builtin::from_name(f.as_str()) {
                Some(builtin) if builtin.record().result != ResultRule::Bool => self.builtin(builtin, &args),
                _ => self.truth_value(t),
            },
            Op::Sum(items) => {
                let mut sum = Poly::default();
                for (c, a) in items {
                    let item = self.read(a)?.scale(Coef::of(c.value()));
                    sum = some(self.forms.add(&sum, &item))?;
                }
                Ok(sum)
            }
            Op::Prod(c, nums, dens) => {
                let mut product = self.literal(c.value())?;
                for n in nums {
                    let n = self.read(n)?;
                    product = some(self.forms.mul(&product, &n))?;
                }
                for d in dens {
                    let d = self.read(d)?;
                    product = some(self.forms.div(&product, &d))?;
                }
                Ok(product)
            }
        }
    }

    fn variable(&mut self, t: T) -> Res<Poly> {
        let p = some(self.forms.variable(t))?;
        let fixed = self.fixed.iter().find(|(atom, _)| p.single().is_some_and(|(m, _)| m.contains_key(atom)));
        Ok(fixed.map_or(p.clone(), |(_, value)| value.clone()))
    }

    fn literal(&mut self, x: f64) -> Res<Poly> {
        use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};
        let square = match x {
            _ if !x.is_finite() => return Err(Stop::GaveUp),
            _ if x == FRAC_1_SQRT_2 => Coef::of(0.5),
            _ if x == SQRT_2 => Coef::of(2.0),
            _ => return Ok(Poly::number(Coef::of(x))),
        };
        some(self.forms.sqrt(&Poly::number(square)))
    }

    fn name(&mut self, t: T, n: Name) -> Res<Poly> {
        match const_eval::constant(n) {
            // infinity and NaN are atoms that equal themselves alone; a rule that computes with them, `inf - inf`, has
            // no value
            Some(x) if !x.as_f64().is_finite() => some(self.forms.function(n.as_str(), Vec::new())),
            Some(x) => self.literal(x.as_f64()),
            None => self.variable(t),
        }
    }

    fn truth_value(&mut self, t: T) -> Res<Poly> {
        Ok(Poly::int(self.truth(t)?.into()))
    }

    fn arm(&mut self, on: Name, arms: &[(Name, T)]) -> Res<T> {
        let answer = self.path.iter().find_map(|(question, answer)| match (question, answer) {
            (Question::Word(name, _), Answer::Word(word)) if *name == on => Some(*word),
            _ => None,
        });
        let Some(word) = answer else {
            return Err(Stop::Ask(Question::Word(on, arms.iter().map(|(word, _)| *word).collect())));
        };
        some(arms.iter().find(|(w, _)| *w == word).map(|(_, t)| *t))
    }

    fn binary(&mut self, t: T, op: BinOp, a: T, b: T) -> Res<Poly> {
        match op {
            BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div => {}
            BinOp::Rem => return self.builtin(Builtin::RemFloor, &[a, b]),
            _ => return self.truth_value(t),
        }
        // a division of integers rounds down
        if op == BinOp::Div && !self.terms.is_float(a) && !self.terms.is_float(b) {
            return Err(Stop::GaveUp);
        }
        let (a, b) = (self.read(a)?, self.read(b)?);
        some(match op {
            BinOp::Add => self.forms.add(&a, &b),
            BinOp::Sub => self.forms.add(&a, &b.neg()),
            BinOp::Mul => self.forms.mul(&a, &b),
            _ => self.forms.div(&a, &b),
        })
    }

    fn truth(&mut self, t: T) -> Res<bool> {
        match self.terms.op(t).clone() {
            Op::Name(n) if n == "true" => Ok(true),
            Op::Name(n) if n == "false" => Ok(false),
            Op::Not(a) => Ok(!self.truth(a)?),
            Op::Bin(BinOp::And, a, b) => Ok(self.truth(a)? && self.truth(b)?),
            Op::Bin(BinOp::Or, a, b) => Ok(self.truth(a)? || self.truth(b)?),
            Op::Bin(op, a, b) => match comparison(op) {
                Some(holds) => Ok(holds(self.order(a, b)?)),
                None => self.sign_of(t).map(Ordering::is_ne),
            },
            Op::If(c, a, b) => {
                let side = if self.truth(c)? { a } else { b };
                self.truth(side)
            }
            Op::Match(on, arms) => {
                let arm = self.arm(on, &arms)?;
                self.truth(arm)
            }
            Op::Call(f, args) if f == "some" && matches!(self.terms.op(args[0]), Op::Name(n) if *n == "absent") => {
                Ok(false)
            }
            Op::Const(..) | Op::Neg(_) | Op::Sum(_) | Op::Prod(..) => self.sign_of(t).map(Ordering::is_ne),
            // a truth value that is given, a test of an argument, or `isnan`
            _ => self.ask_truth(t),
        }
    }

    fn ask_truth(&self, t: T) -> Res<bool> {
        let answer = self.path.iter().find_map(|(question, answer)| match (question, answer) {
            (Question::Truth(known), Answer::Truth(holds)) if *known == t => Some(*holds),
            _ => None,
        });
        answer.ok_or(Stop::Ask(Question::Truth(t)))
    }

    fn order(&mut self, a: T, b: T) -> Res<Ordering> {
        let (a, b) = (self.read(a)?, self.read(b)?);
        self.sign(&a.sub(&b))
    }

    fn sign_of(&mut self, t: T) -> Res<Ordering> {
        let p = self.read(t)?;
        self.sign(&p)
    }

    /// Returns the sign of `p` in this region. A known sign of a polynomial that differs from a multiple of `p` by a
    /// number may decide it.
    fn sign(&mut self, p: &Poly) -> Res<Ordering> {
        let against = |c: Coef| if c.is_zero() { Ordering::Equal } else { c.value().total_cmp(&0.0) };
        if let Some(c) = p.as_number() {
            return Ok(against(c));
        }
        let lead = some(p.lead())?;
        let turn = |sign: Ordering| if lead.value() < 0.0 { sign.reverse() } else { sign };
        let unit = p.scale(some(lead.inverse())?);
        for (question, answer) in self.path {
            let (Question::Sign(known), Answer::Sign(sign)) = (question, answer) else { continue };
            let Some(more) = unit.sub(known).as_number().map(against) else { continue };
            if more == Ordering::Equal || *sign == more || *sign == Ordering::Equal {
                return Ok(turn(if *sign == Ordering::Equal { more } else { *sign }));
            }
        }
        Err(Stop::Ask(Question::Sign(unit)))
    }

    fn builtin(&mut self, builtin: Builtin, args: &[T]) -> Res<Poly> {
        let parts = args.iter().map(|a| self.read(*a)).collect::<Res<Vec<Poly>>>()?;
        let u = some(parts.first())?;
        match builtin {
            Builtin::Abs => Ok(if self.sign(u)? == Ordering::Less { u.neg() } else { u.clone() }),
            Builtin::Sign => Ok(Poly::int(self.sign(u)? as i64)),
            Builtin::Max | Builtin::Min => {
                let order = self.sign(&u.sub(&parts[1]))?;
                let second = order == if builtin == Builtin::Max { Ordering::Less } else { Ordering::Greater };
                Ok(parts[usize::from(second)].clone())
            }
            _ => some(self.function(builtin, &parts)),
        }
    }

    fn function(&mut self, builtin: Builtin, parts: &[Poly]) -> Option<Poly> {
        let (forms, u, one) = (&mut *self.forms, &parts[0], Poly::int(1));
        match builtin {
            Builtin::Neg => Some(u.neg()),
            Builtin::Add => forms.add(u, &parts[1]),
            Builtin::Sub => forms.add(u, &parts[1].neg()),
            Builtin::Mul => forms.mul(u, &parts[1]),
            Builtin::Div => forms.div(u, &parts[1]),
            Builtin::Exp => forms.exp(u),
            Builtin::Expm1 => Some(forms.exp(u)?.sub(&one)),
            Builtin::Exp2 => {
                let two = forms.ln(&Poly::int(2))?;
                let exponent = forms.mul(u, &two)?;
                forms.exp(&exponent)
            }
            Builtin::Sinh | Builtin::Cosh => {
                let (up, down) = (forms.exp(u)?, forms.exp(&u.neg())?);
                let down = if builtin == Builtin::Sinh { down.neg() } else { down };
                Some(up.add(&down).scale(Coef::of(0.5)))
            }
            Builtin::Tanh => {
                let two = Coef::rat(Rat::int(2));
                Some(forms.sigmoid(&u.scale(two))?.scale(two).sub(&one))
            }
            Builtin::Sigmoid => forms.sigmoid(u),
            Builtin::Ln => forms.ln(u),
            Builtin::Log1p => forms.ln(&u.add(&one)),
            Builtin::Log2 | Builtin::Log10 => {
                let base = forms.ln(&Poly::int(if builtin == Builtin::Log2 { 2 } else { 10 }))?;
                let ln = forms.ln(u)?;
                forms.div(&ln, &base)
            }
            Builtin::Sqrt => forms.sqrt(u),
            Builtin::Rsqrt => {
                let root = forms.sqrt(u)?;
                forms.power(&root, Rat::int(-1))
            }
            Builtin::Reciprocal => forms.power(u, Rat::int(-1)),
            Builtin::Hypot => {
                let squares = forms.mul(u, u)?.add(&forms.mul(&parts[1], &parts[1])?);
                forms.sqrt(&squares)
            }
            Builtin::Pow => match parts[1].as_number().and_then(Coef::exact) {
                Some(r) => forms.power(u, r),
                None => {
                    let ln = forms.ln(u)?;
                    let exponent = forms.mul(&parts[1], &ln)?;
                    forms.exp(&exponent)
                }
            },
            Builtin::Tan => {
                let (sin, cos) = (forms.symmetric("sin", u, true)?, forms.symmetric("cos", u, false)?);
                forms.div(&sin, &cos)
            }
            Builtin::Erfc => Some(one.sub(&forms.symmetric("erf", u, true)?)),
            Builtin::Sin | Builtin::Erf | Builtin::Atan | Builtin::Asin => forms.symmetric(builtin.name(), u, true),
            Builtin::Cos => forms.symmetric("cos", u, false),
            other => forms.function(other.name(), parts.to_vec()),
        }
    }
}

/// The test of an order that a comparison operator makes.
fn comparison(op: BinOp) -> Option<fn(Ordering) -> bool> {
    Some(match op {
        BinOp::Eq => Ordering::is_eq,
        BinOp::Ne => Ordering::is_ne,
        BinOp::Lt => Ordering::is_lt,
        BinOp::Le => Ordering::is_le,
        BinOp::Gt => Ordering::is_gt,
        BinOp::Ge => Ordering::is_ge,
        _ => return None,
    })
}
