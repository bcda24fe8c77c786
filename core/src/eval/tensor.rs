//! The interpreter of the tensor language over a machine: it runs decompositions, gradient rules and dispatch rules.
//!
//! A machine defines tensors and calls of rows: a trace binds bound symbols, build-time checks compute arrays, tapes
//! record. Numbers, sizes, `let`, static `if` and `match`, and the listed helpers are evaluated here.

pub mod helpers;

use crate::lang::ast::*;
use crate::row::Row;
use crate::signature::const_eval::{self, At, Stop, Val};
use crate::signature::{ArgTy, Item, Refusal, Size, Solved};
use crate::{DType, Dim, Name, Named, Scalar, TensorTy, Value};

/// The results of a call on a machine, or its error.
pub type Called<M> = Result<Vec<Value<<M as Machine>::V>>, <M as Machine>::Error>;

/// A machine that runs rows.
pub trait Machine: Sized {
    /// A tensor (or key, or run-time number).
    type V: Clone;
    /// The machine's error.
    type Error: From<Refusal>;

    /// Calls a row; returns results, then auxiliary results (a `List` result is one [`Value::List`]).
    fn call(&mut self, op: Name, positional: Vec<Value<Self::V>>, named: Vec<Named<Self::V>>) -> Called<Self>;

    /// The type of a value.
    fn ty(&self, v: &Self::V) -> ArgTy;

    /// `name <- value` of the row being run.
    fn write(&mut self, name: Name, value: Value<Self::V>) -> Result<(), Self::Error>;

    /// `error` arose at this part of the rule's text. Errors are located from the inside out, so the first call names
    /// the smallest part. Checks show the place; a trace ignores it.
    fn located(&self, error: Self::Error, _part: Span) -> Self::Error {
        error
    }

    /// Reports the branch that an `if` or `match` takes (both, if the condition has elements). Checks use it to find
    /// untested branches.
    fn took(&mut self, _branch: &Expr) {}

    /// `unbroadcast(value, like)`: `value` summed to the shape of the tensor `like`. JVP rules are VJP rules with
    /// tangents for cotangents, under a machine that returns `value` here.
    fn unbroadcast(&mut self, value: Value<Self::V>, like: &TensorTy) -> Result<Value<Self::V>, Self::Error> {
        helpers::sum_to(self, value, like)
    }
}

/// Runs `block`, a rule of `row` called with `args` (in signature order), whose call was solved as `solved`. `extra`
/// binds further names: outputs, auxiliary outputs, cotangents. Returns the value of the block; a tuple gives several.
///
/// # Errors
/// The errors of the machine's calls; E706 where the rule itself has no meaning (a fault of the row).
pub fn run<M: Machine>(
    machine: &mut M,
    row: &Row,
    block: &Block,
    solved: &Solved,
    args: &[Value<M::V>],
    extra: &[Named<M::V>],
) -> Called<M> {
    let names = row.sig.params.iter().map(|p| p.name.name).chain(row.sig.opts.iter().map(|o| o.name.name));
    // The capacity covers the names of the text.
    let mut vars: Vec<(Name, Bound<M::V>)> = Vec::with_capacity(args.len() + extra.len() + block.stmts.len());
    vars.extend(names.zip(args).map(|(n, v)| (n, Bound::Value(v.clone()))));
    // Options get their normalised values; a tensor or run-time number stays as it was given.
    for (name, bound) in &mut vars {
        if let (Bound::Value(v), Some(item)) = (&*bound, solved.env.item(*name))
            && !matches!(v, Value::Tensor(_) | Value::Type(_))
            && let Some(value) = from_item(item)
        {
            *bound = Bound::Value(value);
        }
    }
    vars.extend(extra.iter().map(|(n, v)| (*n, Bound::Value(v.clone()))));
    let cotangents = !extra.is_empty();
    let mut run = Run { machine, row, solved, vars, cotangents };
    Ok(match run.block(block)? {
        Bound::Value(v) => vec![v],
        Bound::Tuple(vs) => vs,
    })
}

/// An option's value, normalised by its signature; `None` for one that was given as a tensor.
pub fn from_item<V>(item: &Item) -> Option<Value<V>> {
    Some(match item {
        Item::Absent => Value::Absent,
        Item::Num(s) => Value::Num(*s),
        Item::Int(d) => Value::size(*d),
        Item::Ints(l) => Value::List(l.iter().map(|&d| Value::size(d)).collect()),
        Item::DType(d) => Value::DType(*d),
        Item::Word(w) => Value::Word(*w),
        Item::Str(s) => Value::Str(s.clone()),
        Item::Labels(l) => Value::Str(l.text.clone()),
        Item::Tensor(_) | Item::Tensors(..) | Item::Runtime(..) => return None,
    })
}

#[derive(Clone)]
enum Bound<V> {
    Value(Value<V>),
    Tuple(Vec<Value<V>>),
}

struct Run<'a, M: Machine> {
    machine: &'a mut M,
    row: &'a Row,
    solved: &'a Solved,
    vars: Vec<(Name, Bound<M::V>)>,
    /// Whether the block is a gradient rule, whose cotangents may be absent.
    cotangents: bool,
}

type Out<M> = Result<Value<<M as Machine>::V>, <M as Machine>::Error>;

impl<M: Machine> Run<'_, M> {
    fn fault(&self, message: impl std::fmt::Display) -> M::Error {
        Refusal::new("E706", format!("a rule of `{}`: {message}", self.row.op)).into()
    }

    fn stop(&self, stop: Stop) -> M::Error {
        match stop {
            Stop::Refused(r) => r.into(),
            Stop::NotStatic => self.fault("this must be known while tracing"),
        }
    }

    fn block(&mut self, block: &Block) -> Result<Bound<M::V>, M::Error> {
        let depth = self.vars.len();
        for stmt in &block.stmts {
            match stmt {
                Stmt::Let(Pattern::Name(id), e) => {
                    let v = self.any(e)?;
                    self.vars.push((id.name, v));
                }
                Stmt::Let(Pattern::Tuple(ids), e) => {
                    let values = match self.any(e)? {
                        Bound::Tuple(vs) => vs,
                        Bound::Value(Value::List(vs)) => vs,
                        Bound::Value(v) => vec![v],
                    };
                    if values.len() < ids.len() {
                        return Err(self.fault(format!("{} names for {} values", ids.len(), values.len())));
                    }
                    self.vars.extend(ids.iter().zip(values).map(|(id, v)| (id.name, Bound::Value(v))));
                }
                Stmt::Let(Pattern::Axes(..), _) => return Err(self.fault("indices stand in `expr` only")),
                Stmt::Write(id, e) => {
                    let v = self.expr(e)?;
                    if !matches!(self.lookup(id.name), Some(Bound::Value(Value::Absent))) {
                        self.machine.write(id.name, v)?;
                    }
                }
            }
        }
        let value = self.any(&block.value)?;
        self.vars.truncate(depth);
        Ok(value)
    }

    fn lookup(&self, name: Name) -> Option<Bound<M::V>> {
        self.vars.iter().rev().find(|(n, _)| *n == name).map(|(_, v)| v.clone())
    }

    fn any(&mut self, e: &Expr) -> Result<Bound<M::V>, M::Error> {
        self.any_inside(e).map_err(|error| self.machine.located(error, e.span))
    }

    fn any_inside(&mut self, e: &Expr) -> Result<Bound<M::V>, M::Error> {
        match &*e.node {
            Node::Tuple(items) => Ok(Bound::Tuple(items.iter().map(|i| self.expr(i)).collect::<Result<_, _>>()?)),
            Node::If(c, a, b) => {
                let cond = self.cond(c)?;
                match cond {
                    Value::Num(s) => {
                        let taken = if s.as_bool() { a } else { b };
                        self.machine.took(&taken.value);
                        self.block(taken)
                    }
                    cond => {
                        self.machine.took(&a.value);
                        self.machine.took(&b.value);
                        let (a, b) = (self.block(a)?, self.block(b)?);
                        let (Bound::Value(a), Bound::Value(b)) = (a, b) else {
                            return Err(self.fault("an `if` over elements yields one value"));
                        };
                        self.call1("where", vec![cond, a, b]).map(Bound::Value)
                    }
                }
            }
            Node::Match(on, arms) => {
                let Some(Bound::Value(Value::Word(word))) = self.lookup(on.name) else {
                    return Err(self.fault("`match` needs an option with words"));
                };
                match arms.iter().find(|(w, _)| w.name == word) {
                    Some((_, e)) => {
                        self.machine.took(e);
                        self.any(e)
                    }
                    None => Err(self.fault(format!("no arm for `{word}`"))),
                }
            }
            Node::Name(n) => match self.lookup(*n) {
                Some(v) => Ok(v),
                None => self.name(*n).map(Bound::Value),
            },
            Node::Call(f, args) => self.call(f.name, args),
            _ => self.expr(e).map(Bound::Value),
        }
    }

    fn expr(&mut self, e: &Expr) -> Out<M> {
        self.expr_inside(e).map_err(|error| self.machine.located(error, e.span))
    }

    fn expr_inside(&mut self, e: &Expr) -> Out<M> {
        match &*e.node {
            Node::Int(i) => Ok(Value::Num(Scalar::Int(*i))),
            Node::Float(f) => Ok(Value::Num(Scalar::Float(*f))),
            Node::Str(s) => Ok(Value::Str(s.clone())),
            Node::Unary(op, a) => {
                let v = self.expr(a)?;
                match (op, v) {
                    (UnOp::Neg, Value::Num(Scalar::Int(i))) => Ok(Value::Num(Scalar::Int(i.wrapping_neg()))),
                    (UnOp::Neg, Value::Num(s)) => Ok(Value::Num(Scalar::Float(-s.as_f64()))),
                    (UnOp::Neg, Value::Size(d)) => Ok(Value::size(-d)),
                    (UnOp::Neg, Value::Absent) => Ok(Value::Absent),
                    (UnOp::Neg, v) => self.call1("neg", vec![v]),
                    (UnOp::Not, Value::Num(s)) => Ok(Value::Num(Scalar::Bool(!s.as_bool()))),
                    (UnOp::Not, v) => self.call1("logical_not", vec![v]),
                }
            }
            Node::Binary(BinOp::And | BinOp::Or, ..) => self.cond(e),
            Node::Binary(op, a, b) => {
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                self.binary(*op, a, b)
            }
            Node::Cast(a, elem) => {
                let v = self.expr(a)?;
                let d = const_eval::elem_dtype(&self.solved.env, elem).map_err(|s| self.stop(s))?;
                self.cast(v, d)
            }
            Node::List(items) => {
                let mut out = Vec::new();
                for item in items {
                    match item {
                        ListItem::One(e) => out.push(self.expr(e)?),
                        ListItem::Spread(list) => match self.expr(list)? {
                            Value::List(l) => out.extend(l),
                            other => out.push(other),
                        },
                    }
                }
                Ok(Value::List(out))
            }
            Node::Access(_) | Node::Reduce(_) | Node::Zip(_) => self.size_expr(e),
            _ => match self.any(e)? {
                Bound::Value(v) => Ok(v),
                Bound::Tuple(mut vs) if vs.len() == 1 => Ok(vs.remove(0)),
                Bound::Tuple(_) => Err(self.fault("several values where one is needed")),
            },
        }
    }

    /// `M[i]`, `S[dim]` and the like, evaluated as size expressions of signatures.
    fn size_expr(&mut self, e: &Expr) -> Out<M> {
        let mut env = std::borrow::Cow::Borrowed(&self.solved.env);
        // Sizes, and lists of them, that `let`s name.
        for (name, bound) in self.vars.iter().filter(|(name, _)| self.solved.env.item(*name).is_none()) {
            let Bound::Value(value) = bound else { continue };
            let item = match value {
                Value::List(_) => value.as_dims().map(|dims| Item::Ints(dims.into())),
                Value::Num(Scalar::Int(_)) | Value::Size(_) => value.as_dim().map(Item::Int),
                _ => None,
            };
            if let Some(item) = item {
                env.to_mut().items.insert(0, (*name, item));
            }
        }
        let v = const_eval::eval(&env, e, At::default()).map_err(|s| self.stop(s))?;
        Ok(from_val(v))
    }

    fn name(&mut self, n: Name) -> Out<M> {
        if let Some(Bound::Value(v)) = self.lookup(n) {
            return Ok(v);
        }
        if let Some(size) = self.solved.env.size(n) {
            return Ok(match size {
                Size::One(d) => Value::size(*d),
                Size::List(l) => Value::List(l.iter().map(|&d| Value::size(d)).collect()),
                Size::Each(l) => Value::List(l.iter().map(|&d| Value::size(d)).collect()),
                Size::EachList(_) => return Err(self.fault(format!("`{n}` differs between items"))),
            });
        }
        if let Some(c) = const_eval::constant(n) {
            return Ok(Value::Num(c));
        }
        if let Some(d) = self.solved.env.dtype(n).or_else(|| DType::from_name(n.as_str())) {
            return Ok(Value::DType(d));
        }
        // A word for the called row's option: `reduction = mean`.
        Ok(Value::Word(n))
    }

    /// A condition; `&&` and `||` first decide by a static side.
    fn cond(&mut self, e: &Expr) -> Out<M> {
        if let Node::Binary(op @ (BinOp::And | BinOp::Or), a, b) = &*e.node {
            let decides = *op == BinOp::Or;
            let left = self.cond(a)?;
            if let Value::Num(s) = left {
                return if s.as_bool() == decides { Ok(left) } else { self.cond(b) };
            }
            return match self.cond(b)? {
                Value::Num(s) if s.as_bool() == decides => Ok(Value::Num(Scalar::Bool(decides))),
                Value::Num(_) => Ok(left),
                right => self.call1(if decides { "logical_or" } else { "logical_and" }, vec![left, right]),
            };
        }
        self.expr(e)
    }

    fn binary(&mut self, op: BinOp, a: Value<M::V>, b: Value<M::V>) -> Out<M> {
        use BinOp::*;
        // An absent cotangent is zero; an absent argument has no such default.
        match (op, &a, &b) {
            (_, Value::Absent, _) | (_, _, Value::Absent) if !self.cotangents => {
                return Err(self.fault("an absent argument is no number: ask `some(…)` first"));
            }
            (Add, Value::Absent, _) => return Ok(b),
            (Add | Sub, _, Value::Absent) => return Ok(a),
            (Sub, Value::Absent, Value::Tensor(_)) => return self.call1("neg", vec![b]),
            (Mul, Value::Absent, _) | (Mul, _, Value::Absent) | (Div, Value::Absent, _) => return Ok(Value::Absent),
            _ => {}
        }
        if let (Some(x), Some(y)) = (Val::of(&a), Val::of(&b)) {
            let v = const_eval::apply_binary(op, x, y).map_err(|s| self.stop(s))?;
            return Ok(from_val(v));
        }
        self.call1(op.row(), vec![a, b])
    }

    fn cast(&mut self, v: Value<M::V>, d: DType) -> Out<M> {
        match v {
            Value::Num(s) => Ok(Value::Num(match d {
                DType::Bool => Scalar::Bool(s.as_bool()),
                d if d.is_float() => Scalar::Float(s.as_f64()),
                _ => Scalar::Int(s.as_i64()),
            })),
            Value::Size(s) if d == DType::Bool => Ok(Value::Num(Scalar::Bool(!s.is(0)))),
            Value::Size(s) if d.is_int() => Ok(Value::Size(s)),
            Value::Size(s) => Ok(Value::Num(Scalar::Float(s.value() as f64))),
            Value::Tensor(v) => match self.machine.ty(&v) {
                ArgTy::Tensor(t) if t.dtype == d => Ok(Value::Tensor(v)),
                _ => self.call1("cast", vec![Value::Tensor(v), Value::DType(d)]),
            },
            Value::Absent => Ok(Value::Absent),
            _ => Err(self.fault("only tensors and numbers can be cast")),
        }
    }

    fn call1(&mut self, op: &str, args: Vec<Value<M::V>>) -> Out<M> {
        helpers::call1(self.machine, op, args)
    }

    fn call(&mut self, f: Name, args: &[Arg]) -> Result<Bound<M::V>, M::Error> {
        if let Some(v) = self.presence(f, args)? {
            return Ok(Bound::Value(v));
        }
        let mut positional = Vec::with_capacity(args.len());
        let mut named = Vec::new();
        for a in args {
            let v = self.expr(&a.value)?;
            match a.name {
                Some(id) => named.push((id.name, v)),
                None => positional.push(v),
            }
        }
        if named.is_empty()
            && let Some(v) = helpers::helper(self.machine, f, &positional, self.row)?
        {
            return Ok(Bound::Value(v));
        }
        let mut results = self.machine.call(f, positional, named)?;
        Ok(if results.len() == 1 { Bound::Value(results.remove(0)) } else { Bound::Tuple(results) })
    }

    /// `some`, `is_tensor`, …: tests of arguments that do not read their values.
    fn presence(&mut self, f: Name, args: &[Arg]) -> Result<Option<Value<M::V>>, M::Error> {
        let answer = |b: bool| Ok(Some(Value::Num(Scalar::Bool(b))));
        let [Arg { name: None, value }] = args else { return Ok(None) };
        let Node::Name(n) = &*value.node else { return Ok(None) };
        // The lookup is lazy, because most calls are not tests.
        let v = || match self.lookup(*n) {
            Some(Bound::Value(v)) => Some(v),
            _ => None,
        };
        let dtype = || match v() {
            Some(Value::Tensor(t)) => match self.machine.ty(&t) {
                ArgTy::Tensor(t) => Some(t.dtype),
                ArgTy::Number(d) => Some(d),
                ArgTy::Key => None,
            },
            Some(Value::Type(t)) => Some(t.dtype),
            Some(Value::DType(d)) => Some(d),
            Some(Value::Num(s)) => Some(s.dtype()),
            Some(Value::Size(_)) => Some(DType::I64),
            _ => self.solved.env.dtype(*n),
        };
        match f.as_str() {
            "some" => answer(!matches!(v(), Some(Value::Absent))),
            "is_tensor" => {
                answer(matches!(v(), Some(Value::Tensor(t)) if matches!(self.machine.ty(&t), ArgTy::Tensor(_))))
            }
            "is_number" => answer(match v() {
                Some(Value::Num(_)) | Some(Value::Size(_)) => true,
                Some(Value::Tensor(t)) => matches!(self.machine.ty(&t), ArgTy::Number(_)),
                _ => false,
            }),
            "is_int" => answer(dtype().is_some_and(DType::is_int)),
            "is_float" => answer(dtype().is_some_and(DType::is_float)),
            "dtype" => Ok(dtype().map(Value::DType)),
            "is_bool" => answer(dtype() == Some(DType::Bool)),
            _ => Ok(None),
        }
    }
}

fn from_val<V>(v: Val) -> Value<V> {
    match v {
        Val::Int(d) => Value::size(d),
        Val::Float(f) => Value::Num(Scalar::Float(f)),
        Val::Bool(b) => Value::Num(Scalar::Bool(b)),
        Val::Word(w) => Value::Word(w),
        Val::DType(d) => Value::DType(d),
        Val::Str(s) => Value::Str(s),
        Val::List(l) => Value::List(l.into_iter().map(Value::size).collect()),
        Val::Absent => Value::Absent,
    }
}

/// The value as an axis or size.
fn dim_of<V>(v: &Value<V>) -> Option<Dim> {
    v.as_dim()
}
