//! The derivative of a term along a seed: the chain rule over the table's partials.

use super::NotDerivable;
use super::term::{Op, T, Terms};
use crate::Name;
use crate::builtins::{Builtin, Partial};
use crate::lang::ast::{BinOp, Elem};
use rustc_hash::FxHashMap;

/// Derivatives of terms in one direction.
pub struct Along<'t, 'r> {
    /// The arena.
    pub terms: &'t mut Terms<'r>,
    /// Terms whose derivatives are known: the seeds.
    pub known: FxHashMap<T, T>,
}

type Res = Result<T, NotDerivable>;

impl Along<'_, '_> {
    /// The derivative of `t`.
    pub fn of(&mut self, t: T) -> Res {
        if let Some(&d) = self.known.get(&t) {
            return Ok(d);
        }
        let d = self.fresh(t)?;
        self.known.insert(t, d);
        Ok(d)
    }

    fn fresh(&mut self, t: T) -> Res {
        let zero = self.terms.num(0.0);
        Ok(match self.terms.op(t).clone() {
            Op::Const(..) | Op::Name(_) | Op::Atom(_) | Op::Not(_) => zero,
            Op::Neg(a) => match self.of(a)? {
                // A negated zero would not be recognised as a structural zero.
                d if self.terms.is_zero(d) => zero,
                d => self.terms.negate(d),
            },
            Op::Bin(op, a, b) => self.binary(op, t, a, b)?,
            Op::Cast(a, text) => match self.terms.elem(text) {
                Elem::Class(c)
                    if !crate::DType::from_name(c.as_str()).is_some_and(|d| d.is_float()) && c != "float" =>
                {
                    zero
                }
                Elem::Index | Elem::Key => zero,
                _ => self.of(a)?,
            },
            Op::If(c, a, b) => {
                let (a, b) = (self.of(a)?, self.of(b)?);
                self.terms.branch(c, a, b)
            }
            Op::Match(on, arms) => {
                let arms =
                    arms.into_iter().map(|(w, a)| Ok((w, self.of(a)?))).collect::<Result<Vec<_>, NotDerivable>>()?;
                self.terms.choice(on, arms)
            }
            Op::Call(f, args) => self.call(f, t, &args)?,
            Op::Sum(items) => {
                let items = items
                    .into_iter()
                    .map(|(c, a)| Ok((c.value(), self.of(a)?)))
                    .collect::<Result<Vec<_>, NotDerivable>>()?;
                self.terms.sum(&items)
            }
            Op::Prod(c, nums, dens) => {
                let coef = self.terms.num(c.value());
                let mut parts = Vec::new();
                for i in 0..nums.len() {
                    let d = self.of(nums[i])?;
                    let mut n = nums.clone();
                    n[i] = d;
                    n.push(coef);
                    parts.push((1.0, self.terms.product(&n, &dens)));
                }
                for i in 0..dens.len() {
                    let d = self.of(dens[i])?;
                    let mut n = nums.clone();
                    n.extend([d, coef]);
                    let mut down = dens.clone();
                    down.push(dens[i]);
                    parts.push((-1.0, self.terms.product(&n, &down)));
                }
                self.terms.sum(&parts)
            }
        })
    }

    fn binary(&mut self, op: BinOp, out: T, a: T, b: T) -> Res {
        if op.is_arithmetic() { self.chain(op.builtin(), out, &[a, b]) } else { Ok(self.terms.num(0.0)) }
    }

    fn call(&mut self, f: Name, out: T, args: &[T]) -> Res {
        match Builtin::from_name(f.as_str()) {
            Some(b) => self.chain(b, out, args),
            // `detach`, and tests of arguments, have derivative zero.
            None => Ok(self.terms.num(0.0)),
        }
    }

    /// The chain rule for one builtin; `out` stands for its value.
    pub fn chain(&mut self, b: Builtin, out: T, args: &[T]) -> Res {
        let mut parts = Vec::new();
        for i in 0..args.len() {
            let d = self.of(args[i])?;
            if self.terms.is_zero(d) {
                continue;
            }
            if let Some(p) = partial(self.terms, b, i, args, out)? {
                parts.push((1.0, self.terms.product(&[d, p], &[])));
            }
        }
        Ok(self.terms.sum(&parts))
    }
}

/// The partial derivative of `b` in argument `i`; `None`: zero.
pub fn partial(terms: &mut Terms<'_>, b: Builtin, i: usize, args: &[T], out: T) -> Result<Option<T>, NotDerivable> {
    let record = b.record();
    if args.len() != record.arity() {
        return Err(NotDerivable::new(format!("`{}` takes {} arguments", record.name, record.arity())));
    }
    match record.partials.get(i) {
        Some(Partial::Text(text)) => {
            let names: Vec<(&str, T)> =
                record.args.iter().copied().zip(args.iter().copied()).chain([("out", out)]).collect();
            let usual = terms.text(text, &names)?;
            let Some(against) = record.partials_against_number.get(i) else { return Ok(Some(usual)) };
            let against = terms.text(against, &names)?;
            let other = args[1 - i];
            match all_numbers(terms, other) {
                Numbers::Never => Ok(Some(usual)),
                Numbers::If(c) => Ok(Some(terms.branch(c, against, usual))),
            }
        }
        Some(Partial::Branch) => {
            let (one, zero) = (terms.num(1.0), terms.num(0.0));
            Ok(Some(if i == 1 { terms.branch(args[0], one, zero) } else { terms.branch(args[0], zero, one) }))
        }
        Some(Partial::Cast) => Ok(Some(terms.num(1.0))),
        Some(Partial::Zero | Partial::None) | None => Ok(None),
    }
}

enum Numbers {
    /// Some element always takes part.
    Never,
    /// No element takes part where the condition holds.
    If(T),
}

/// The condition under which `t` reads only numbers and options, no elements.
fn all_numbers(terms: &mut Terms<'_>, t: T) -> Numbers {
    if terms.any(t, &|op| matches!(op, Op::Atom(_))) {
        return Numbers::Never;
    }
    let names = terms.names(t);
    let mut cond = terms.bool(true);
    for p in terms.params.clone() {
        if !names.contains(p.as_str()) {
            continue;
        }
        if terms.wrt == Some(p) {
            return Numbers::Never;
        }
        let p = terms.name(p);
        let c = terms.add_op(Op::Call(Name::new("is_number"), vec![p]));
        cond = terms.logic(BinOp::And, cond, c);
    }
    Numbers::If(cond)
}
