//! Numbers of a call that the dtype of its tensors can't hold.
//!
//! A number adapts to the dtype of the tensors beside it: `x + 300` is computed in the dtype of `x`. Sums, differences
//! and products are taken modulo the size of the dtype in any case, so it does no harm there that 300 becomes 44. In all
//! other places it would give a wrong value: a u8 is never more than 44 because it is less than 300. There the call
//! computes in i64, if its results fit into the dtype for all elements (`clamp(x, 0, 300)`, and every comparison), and
//! is refused otherwise. A number that is known only when the program runs can't be refused; it is taken to fit.
//!
//! As in PyTorch, a negative number is also the unsigned one that has its bits where it fills a tensor or is equal to an
//! element: a u8 that is filled with -1 holds 255, and is equal to -1. It is not less than 0.
//!
//! A finite number that is too large for a float dtype is refused where it would be an element as it is: a tensor of f16
//! that is filled with 70000 would be infinite. A computed one is infinite, as it is everywhere in floats.

use super::Refusal;
use super::const_eval::{self, At, Val};
use super::env::{Env, Item};
use crate::lang::ast::*;
use crate::promote::Kind;
use crate::row::Row;
use crate::{DType, Dim, Name, Scalar};

/// The dtype in which a call computes whose arguments join to `joined`, which is computed in `compute` otherwise.
///
/// # Errors
/// E704: a number that `joined` can't hold, where it matters.
pub(super) fn computes(
    row: &Row,
    env: &Env,
    kind: Option<Kind>,
    joined: DType,
    compute: DType,
) -> Result<DType, Refusal> {
    if joined.is_float() {
        return check_floats(row, env, kind, joined).map(|()| compute);
    }
    if !joined.is_int() || !compute.is_int() {
        return Ok(compute);
    }
    let params = row.sig.params.iter().filter(|p| p.ty.elem.first() == Some(&Elem::Var(Name::new("T"))));
    let given = params.map(|p| (p.name.name, true)).chain(options(row).map(|name| (name, false)));
    let Some(body) = row.index_body() else { return Ok(compute) };
    let mut wide = compute;
    for (name, is_param) in given {
        let Some(number) = outlier(env, name, joined) else { continue };
        let uses = Uses::of(env, name, is_param, body);
        let computed = kind.is_some_and(|kind| kind != Kind::Keep);
        let Outlier::Known(number) = number else {
            if computed && (uses.element || uses.operand || uses.equal) {
                wide = DType::I64;
            }
            continue;
        };
        let compared = uses.operand || uses.equal && !has_bits(joined, number);
        let fits = || Ranges { env, joined, lets: Vec::new() }.block(body).is_some_and(|range| holds(joined, range));
        match number {
            _ if !(uses.element || compared && matches!(number, Scalar::Int(_))) => {}
            // comparisons with a float are made in floats, and it is an element of no result
            Scalar::Float(_) if computed && fits() => {}
            _ if computed && (!uses.element || fits()) => wide = DType::I64,
            _ if !compared && has_bits(joined, number) => {}
            _ => return Err(unheld(row, name, number, joined)),
        }
    }
    Ok(wide)
}

/// The options of a row that are numbers.
fn options(row: &Row) -> impl Iterator<Item = Name> {
    row.sig.opts.iter().filter(|o| matches!(o.ty, OptType::Num | OptType::F64)).map(|o| o.name.name)
}

/// Refuses a number that would be an element of floats which can't hold it: an option, or an argument of a row whose
/// arguments must have one dtype. Elsewhere a number stands for a tensor of its own dtype, which is infinite after a cast.
fn check_floats(row: &Row, env: &Env, kind: Option<Kind>, joined: DType) -> Result<(), Refusal> {
    let Some(body) = row.index_body() else { return Ok(()) };
    let names: Vec<Name> = match kind {
        None | Some(Kind::Keep) => options(row).collect(),
        Some(Kind::Equal) => row.sig.params.iter().map(|p| p.name.name).collect(),
        _ => return Ok(()),
    };
    for name in names {
        let number = match env.item(name) {
            Some(Item::Num(number)) => *number,
            Some(Item::Int(size)) => Scalar::Int(size.value()),
            _ => continue,
        };
        let large = number.as_f64().is_finite() && number.as_f64().abs() > joined.largest();
        if large && Uses::of(env, name, false, body).element {
            return Err(unheld(row, name, number, joined));
        }
    }
    Ok(())
}

/// The refusal of a number that would be an element of a dtype which can't hold it.
fn unheld(row: &Row, name: Name, number: Scalar, joined: DType) -> Refusal {
    let range = if joined.is_float() {
        format!("{}..={}, and infinities", joined.lowest(), joined.largest())
    } else {
        let (least, most) = joined.integers();
        format!("{least}..={most}")
    };
    let claim = format!("`{}`: `{name}` is {number}, which {joined} can't hold", row.op);
    let help = format!("{joined} has {range}; cast the tensors to a wider dtype first");
    Refusal::new("E704", claim).arg(name).help(help)
}

/// A number that a dtype can't hold.
enum Outlier {
    Known(Scalar),
    /// It may be one: it is known when the program runs.
    Runtime,
}

/// The number of this name, if the integer dtype `joined` can't hold it.
fn outlier(env: &Env, name: Name, joined: DType) -> Option<Outlier> {
    let (least, most) = joined.integers();
    // a u64 is held as the i64 of its bits
    let least = if joined == DType::U64 { i64::MIN } else { least };
    match env.item(name)? {
        Item::Num(number @ Scalar::Int(i)) => (!(least..=most).contains(i)).then_some(Outlier::Known(*number)),
        Item::Num(number @ Scalar::Float(x)) => {
            let above = if joined == DType::U64 { joined.largest() } else { most as f64 };
            // 2^63 - 1 has no f64 of its own
            let fits = x.trunc() >= joined.lowest() && x.trunc() <= above && x.trunc() != 9_223_372_036_854_775_808.0;
            (!fits).then_some(Outlier::Known(*number))
        }
        Item::Int(size) if joined != DType::I64 => {
            let fits = *size >= Dim::from(least) && *size <= Dim::from(most);
            (!fits).then(|| Outlier::Known(Scalar::Int(size.value())))
        }
        Item::Runtime(_, dtype) => (dtype.is_int() && joined != DType::I64).then_some(Outlier::Runtime),
        _ => None,
    }
}

fn holds(joined: DType, (low, high): (i64, i64)) -> bool {
    let (least, most) = joined.integers();
    least <= low && high <= most
}

/// Whether a negative number stands for the unsigned one with its bits.
fn has_bits(joined: DType, number: Scalar) -> bool {
    let (least, most) = joined.integers();
    matches!(number, Scalar::Int(i) if least == 0 && i < 0 && i >= -most)
}

/// What becomes of a value of a body.
#[derive(Clone, Copy, PartialEq)]
enum Context {
    /// It is an element of the result.
    Element,
    /// Only its low bits matter.
    LowBits,
    /// All of it matters.
    Operand,
    /// It is a number of another dtype, into which an option is converted as it is.
    Other,
}

/// The places in which a number stands in a body.
struct Uses<'a> {
    env: &'a Env,
    name: Name,
    /// Whether it stands for a tensor, so that it has the dtype of one everywhere.
    is_param: bool,
    lets: Vec<(Name, &'a Expr)>,
    /// The definitions that were looked at in a context.
    seen: Vec<(Name, Context)>,
    element: bool,
    equal: bool,
    operand: bool,
}

impl<'a> Uses<'a> {
    fn of(env: &'a Env, name: Name, is_param: bool, body: &'a Block) -> Uses<'a> {
        let (lets, seen) = (Vec::new(), Vec::new());
        let mut uses = Uses { env, name, is_param, lets, seen, element: false, equal: false, operand: false };
        uses.block(body, Context::Element);
        uses
    }

    fn block(&mut self, block: &'a Block, context: Context) {
        let outer = self.lets.len();
        for stmt in &block.stmts {
            match stmt {
                Stmt::Let(Pattern::Name(name), value) => self.lets.push((name.name, value)),
                Stmt::Let(_, value) | Stmt::Write(_, value) => self.expr(value, Context::Operand),
            }
        }
        self.expr(&block.value, context);
        self.lets.truncate(outer);
    }

    fn expr(&mut self, e: &'a Expr, context: Context) {
        let inner = if context == Context::Other { Context::Other } else { Context::Operand };
        let low = if context == Context::Element { Context::LowBits } else { context };
        match &*e.node {
            Node::Name(name) if *name == self.name => match context {
                Context::Element => self.element = true,
                Context::Operand => self.operand = true,
                Context::Other => self.operand |= self.is_param,
                Context::LowBits => {}
            },
            Node::Name(name) => {
                let found = self.lets.iter().rev().find(|(n, _)| n == name).map(|(_, value)| *value);
                if let Some(value) = found
                    && !self.seen.contains(&(*name, context))
                {
                    self.seen.push((*name, context));
                    self.expr(value, context);
                }
            }
            Node::Unary(UnOp::Neg, a) => self.expr(a, low),
            Node::Unary(UnOp::Not, a) => self.expr(a, inner),
            Node::Binary(BinOp::Eq | BinOp::Ne, a, b) if context != Context::Other => {
                for side in [a, b] {
                    match &*side.node {
                        Node::Name(name) if *name == self.name => self.equal = true,
                        _ => self.expr(side, Context::Operand),
                    }
                }
            }
            Node::Binary(op, a, b) => {
                let of = if matches!(op, BinOp::Add | BinOp::Sub | BinOp::Mul) { low } else { inner };
                self.expr(a, of);
                self.expr(b, of);
            }
            Node::Cast(a, Elem::Var(t) | Elem::Acc(t)) if t.as_str() == "T" => {
                self.expr(a, if context == Context::Other { Context::Operand } else { context });
            }
            Node::Cast(a, _) => self.expr(a, Context::Other),
            Node::If(c, a, b) => match const_eval::eval(self.env, c, At::default()) {
                Ok(Val::Bool(holds)) => self.block(if holds { a } else { b }, context),
                _ => {
                    self.expr(c, Context::Operand);
                    self.block(a, context);
                    self.block(b, context);
                }
            },
            Node::Match(on, arms) => {
                let chosen = |word: &Ident| matches!(self.env.item(on.name), Some(Item::Word(w)) if *w == word.name);
                let arms: Vec<&Expr> = arms.iter().filter(|(word, _)| chosen(word)).map(|(_, arm)| arm).collect();
                arms.into_iter().for_each(|arm| self.expr(arm, context));
            }
            Node::Call(f, args) => {
                let bits = matches!(f.name.as_str(), "bitand" | "bitor" | "bitxor" | "bitnot");
                let chooses = matches!(f.name.as_str(), "max" | "min" | "detach");
                let of = if bits {
                    low
                } else if chooses {
                    context
                } else {
                    inner
                };
                args.iter().for_each(|arg| self.expr(&arg.value, of));
            }
            Node::Access(access) => {
                for place in &access.places {
                    if let Place::One(e) | Place::Zip(e) | Place::Unravel(e) | Place::BroadcastZip(e) = place {
                        self.expr(e, Context::Other);
                    }
                }
                if let Outside::Value(e) = &access.outside {
                    self.expr(e, context);
                }
            }
            Node::Reduce(r) => {
                let of = match r.red {
                    Red::First | Red::Last | Red::Only => context,
                    Red::Sum | Red::Prod => low,
                    _ => inner,
                };
                self.expr(&r.body, of);
                r.filter.iter().for_each(|e| self.expr(e, Context::Operand));
                r.otherwise.iter().for_each(|e| self.expr(e, context));
            }
            Node::Tuple(items) => items.iter().for_each(|item| self.expr(item, context)),
            Node::Zip(e) | Node::Spread(e) => self.expr(e, context),
            Node::Int(_) | Node::Float(_) | Node::Str(_) | Node::List(_) => {}
        }
    }
}

/// The least and the largest value of a body whose tensors have any elements of a dtype. Only rows that limit, compare
/// and choose have one here.
struct Ranges<'a> {
    env: &'a Env,
    joined: DType,
    lets: Vec<(Name, (i64, i64))>,
}

impl Ranges<'_> {
    fn block(&mut self, block: &Block) -> Option<(i64, i64)> {
        let outer = self.lets.len();
        for stmt in &block.stmts {
            let Stmt::Let(Pattern::Name(name), value) = stmt else { return None };
            let range = self.expr(value)?;
            self.lets.push((name.name, range));
        }
        let range = self.expr(&block.value);
        self.lets.truncate(outer);
        range
    }

    fn expr(&mut self, e: &Expr) -> Option<(i64, i64)> {
        Some(match &*e.node {
            Node::Int(i) => (*i, *i),
            Node::Name(name) => match self.lets.iter().rev().find(|(n, _)| n == name) {
                Some((_, range)) => *range,
                None => match self.env.item(*name)? {
                    Item::Tensor(_) | Item::Runtime(..) => self.joined.integers(),
                    Item::Num(Scalar::Int(i)) => (*i, *i),
                    Item::Num(Scalar::Float(x)) if x.is_finite() => (x.floor() as i64, x.ceil() as i64),
                    Item::Int(size) => (size.value(), size.value()),
                    _ => return None,
                },
            },
            Node::Cast(a, Elem::Var(t) | Elem::Acc(t)) if t.as_str() == "T" => self.expr(a)?,
            Node::If(c, a, b) => match self.holds(c) {
                Some(holds) => self.block(if holds { a } else { b })?,
                None => {
                    let ((a, b), (c, d)) = (self.block(a)?, self.block(b)?);
                    (a.min(c), b.max(d))
                }
            },
            Node::Call(f, args) => {
                let [a, b] = &args[..] else { return None };
                let ((a, b), (c, d)) = (self.expr(&a.value)?, self.expr(&b.value)?);
                match f.name.as_str() {
                    "max" => (a.max(c), b.max(d)),
                    "min" => (a.min(c), b.min(d)),
                    _ => return None,
                }
            }
            _ => return None,
        })
    }

    /// Whether a condition holds for all elements, or for none.
    fn holds(&mut self, e: &Expr) -> Option<bool> {
        if let Ok(Val::Bool(holds)) = const_eval::eval(self.env, e, At::default()) {
            return Some(holds);
        }
        match &*e.node {
            Node::Unary(UnOp::Not, a) => Some(!self.holds(a)?),
            Node::Binary(op @ (BinOp::And | BinOp::Or), a, b) => {
                let decides = *op == BinOp::Or;
                match (self.holds(a), self.holds(b)) {
                    (Some(a), Some(b)) => Some(if decides { a || b } else { a && b }),
                    (Some(one), None) | (None, Some(one)) if one == decides => Some(decides),
                    _ => None,
                }
            }
            // an integer is equal to itself
            Node::Binary(BinOp::Ne, a, b) if a == b => Some(false),
            Node::Binary(op, a, b) => {
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                let less = |(_, most): (i64, i64), (least, _): (i64, i64)| (most < least).then_some(true);
                let not_less = |(least, _): (i64, i64), (_, most): (i64, i64)| (least >= most).then_some(false);
                match op {
                    BinOp::Lt => less(a, b).or_else(|| not_less(a, b)),
                    BinOp::Gt => less(b, a).or_else(|| not_less(b, a)),
                    BinOp::Le => less(b, a).or_else(|| not_less(b, a)).map(|greater| !greater),
                    BinOp::Ge => less(a, b).or_else(|| not_less(a, b)).map(|less| !less),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}
