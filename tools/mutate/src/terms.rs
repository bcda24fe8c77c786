//! The computation of a program of rows as terms: calls, on arguments, of rows that are not programs.
//!
//! Two programs with equal terms on every call of the family are equivalent. Calls of programs are expanded completely.
//! Terms do not depend on the names of sizes, on where a negative axis is wrapped, on the order of commuting operands,
//! on the sign of a difference of which only the square matters, or on whether an operand is widened by a cast or by a
//! call with a wider operand. A reshape of a tensor to its own shape is the tensor, a detached integer is the integer,
//! a function of detached values alone is detached, and arguments of which a row reads only the sizes are
//! interchangeable.

use std::collections::HashMap;
use std::sync::Arc;

use fulgurite_codegen::check::rows::RowSet;
use fulgurite_codegen::check::walk;
use fulgurite_core::eval::frame;
use fulgurite_core::eval::tensor::{self, Called, Machine};
use fulgurite_core::lang::{Block, Elem, Opt, OptType};
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::signature::{ArgTy, Item, OutTy, Refusal, Solved};
use fulgurite_core::{DType, Name, Named, TensorTy, Value};

use super::turn::{self, Turn};

/// The limit of nested calls of rows.
const DEEPEST: usize = 24;

/// A value, as its type and the number of its term.
#[derive(Clone, Debug)]
pub(super) struct Term(pub ArgTy, usize);

/// The machine that computes terms.
pub(super) struct Terms<'a> {
    rows: &'a RowSet<'a>,
    depth: usize,
    known: HashMap<String, usize>,
    /// Cast values, with the original term and its dtype.
    casts: HashMap<usize, (usize, DType)>,
    /// Detached values, with the original term.
    detached: HashMap<usize, usize>,
    /// Negated terms, such as a difference with exchanged operands and values computed from it, with the term that each
    /// negates.
    turned: HashMap<usize, usize>,
    writes: Vec<(Name, String)>,
    /// The effect of exchanging the operands, by row.
    exchanged: HashMap<Name, Turn>,
}

impl<'a> Terms<'a> {
    pub(super) fn new(rows: &'a RowSet<'a>) -> Terms<'a> {
        let (casts, detached, turned) = (HashMap::new(), HashMap::new(), HashMap::new());
        let (known, exchanged) = (HashMap::new(), HashMap::new());
        Terms { rows, depth: 0, known, casts, detached, turned, writes: Vec::new(), exchanged }
    }

    /// The terms and types that `block` of `row` yields, and its writes, for arguments of these types; `extra` binds
    /// further names.
    pub(super) fn of(
        &mut self,
        row: &Row,
        block: &Block,
        solved: &Solved,
        args: &[Value<ArgTy>],
        extra: &[Named<ArgTy>],
    ) -> Result<String, Refusal> {
        let named = row.sig.params.iter().map(|param| param.name.name);
        let named = named.chain(row.sig.opts.iter().map(|opt| opt.name.name));
        let args: Vec<Value<Term>> = named.zip(args).map(|(name, arg)| self.leaf(name, arg)).collect();
        let extra: Vec<Named<Term>> = extra.iter().map(|(name, v)| (*name, self.leaf(*name, v))).collect();
        self.writes.clear();
        let results = tensor::run(self, row, block, solved, &args, &extra)?;
        let results: Vec<String> = results.iter().map(|value| format!("{}{}", show(value), types(value))).collect();
        Ok(format!("{} {:?}", results.join("; "), self.writes))
    }

    fn leaf(&mut self, name: Name, value: &Value<ArgTy>) -> Value<Term> {
        let mut at = 0;
        value.map(&mut |ty| {
            at += 1;
            Term(ty.clone(), self.number(format!("{name}.{at}")))
        })
    }

    fn number(&mut self, text: String) -> usize {
        let next = self.known.len();
        *self.known.entry(text).or_insert(next)
    }

    /// The term as a row that computes in `dtype` reads it.
    fn widened(&mut self, term: &Term, dtype: DType) -> usize {
        match &term.0 {
            ArgTy::Tensor(t) => self.cast(term.1, t.dtype, dtype),
            _ => term.1,
        }
    }

    fn cast(&mut self, term: usize, from: DType, to: DType) -> usize {
        if from == to {
            return term;
        }
        let cast = self.number(format!("cast {term} {to}"));
        self.casts.insert(cast, (term, from));
        cast
    }

    /// A call of a row that is not a program, in which `b - a` counts as the negative of `a - b`, so that functions of
    /// the square or the magnitude are equal. Both have equal digits; a zero may have the other sign.
    fn signed_call(&mut self, row: &Arc<Row>, solved: &Solved, args: &[Value<Term>]) -> Vec<Value<Term>> {
        let mut args = args.to_vec();
        let mut negative = false;
        if let [Value::Tensor(a), Value::Tensor(b)] = args.as_slice()
            && a.1 > b.1
            && solved.compute.is_float()
            && self.exchanged(row) == Turn::Negative
        {
            args.swap(0, 1);
            negative = true;
        }
        for at in 0..args.len() {
            let Value::Tensor(Term(_, id)) = &args[at] else { continue };
            let Some(of) = self.turned.get(id).copied() else { continue };
            let types: Vec<Value<ArgTy>> = args.iter().map(|arg| arg.map(&mut |term| term.0.clone())).collect();
            let turn = turn::negated(row, &types, at, self.rows);
            if let (Value::Tensor(term), Turn::Same | Turn::Negative) = (&mut args[at], turn) {
                term.1 = of;
                negative ^= turn == Turn::Negative;
            }
        }
        let made = self.leaf_call(row, solved, &args);
        if !negative {
            return made;
        }
        let mut turn = |term: &Term| {
            let negative = self.number(format!("turned {}", term.1));
            self.turned.insert(negative, term.1);
            Term(term.0.clone(), negative)
        };
        made.iter().map(|value| value.map(&mut turn)).collect()
    }

    /// The effect of exchanging the operands of a row.
    fn exchanged(&mut self, row: &Arc<Row>) -> Turn {
        *self.exchanged.entry(row.op).or_insert_with(|| turn::exchanged(row, self.rows))
    }

    /// A call of a row that is not a program, with its operands in order.
    fn leaf_call(&mut self, row: &Arc<Row>, solved: &Solved, args: &[Value<Term>]) -> Vec<Value<Term>> {
        if row.op == "cast"
            && let (Some(Value::Tensor(term @ Term(ArgTy::Tensor(t), _))), Some(OutTy::Tensor(out))) =
                (args.first(), solved.outs.first())
        {
            let id = self.cast(term.1, t.dtype, out.dtype);
            return vec![Value::Tensor(Term(ArgTy::Tensor(out.clone()), id))];
        }
        // The tensor already has this shape.
        if matches!(row.op.as_str(), "reshape" | "expand" | "crop")
            && let (Some(Value::Tensor(term @ Term(ArgTy::Tensor(t), _))), Some(OutTy::Tensor(out))) =
                (args.first(), solved.outs.first())
            && t == out
        {
            return vec![Value::Tensor(term.clone())];
        }
        // The whole tensor is overwritten.
        if row.op == "paste"
            && let [Value::Tensor(x), Value::Tensor(y)] = args
            && x.0 == y.0
        {
            return vec![Value::Tensor(y.clone())];
        }
        // Moved elements can be cast before or after the move.
        let moves = matches!(row.meaning, Meaning::View(_)) && row.sig.params.len() == 1 || row.op == "reshape";
        if let (true, Some(Value::Tensor(Term(ArgTy::Tensor(t), id))), [OutTy::Tensor(out)]) =
            (moves, args.first(), solved.outs.as_slice())
        {
            let moving = self.detached.get(id).copied();
            let id = moving.unwrap_or(*id);
            let (source, dtype) = self.casts.get(&id).copied().unwrap_or((id, t.dtype));
            let sizes = format!("{:?} {:?}", solved.env.sizes, solved.env.items);
            let moved = self.number(format!("{} [%{source}] {dtype} {:?} {sizes}", row.op, out.shape));
            let moved = Term(ArgTy::Tensor(out.clone()), self.cast(moved, dtype, out.dtype));
            return vec![Value::Tensor(if moving.is_some() { self.constant(&moved) } else { moved })];
        }
        if row.op == "detach"
            && let Some(Value::Tensor(term)) = args.first()
        {
            return vec![Value::Tensor(self.constant(term))];
        }
        // Results without floats have no gradient, so a detached value is the value.
        let exact =
            solved.outs.iter().chain(&solved.aux).all(|out| matches!(out, OutTy::Tensor(t) if !t.dtype.is_float()));
        let (mut floats, mut moving) = (0, 0);
        args.iter().for_each(|arg| {
            arg.for_each(&mut |term: &Term| {
                floats += usize::from(is_float(term));
                moving += usize::from(is_float(term) && !self.detached.contains_key(&term.1));
            });
        });
        let constant = !exact && floats > 0 && moving == 0;
        let whole = |id: usize| self.detached.get(&id).copied().filter(|_| exact || constant).unwrap_or(id);
        let args: Vec<Value<Term>> =
            args.iter().map(|arg| arg.map(&mut |term: &Term| Term(term.0.clone(), whole(term.1)))).collect();
        let mut read = Vec::new();
        for (at, arg) in args.iter().enumerate() {
            if row.sig.params.get(at).is_some_and(|param| is_unread(row, param.name.name)) {
                read.push(types(arg));
                continue;
            }
            let joins = row
                .sig
                .params
                .get(at)
                .is_some_and(|p| p.ty.elem.iter().any(|e| matches!(e, Elem::Var(n) if *n == "T")));
            let arg = arg.map(&mut |term: &Term| {
                Term(term.0.clone(), if joins { self.widened(term, solved.compute) } else { term.1 })
            });
            let typed = if joins { String::new() } else { types(&arg) };
            read.push(format!("{}{typed}", show(&arg)));
        }
        let commutes = self.exchanged(row) == Turn::Same;
        if commutes {
            read.sort();
        }
        let bounded = row.op == "clamp" && is_bounded_below(&args);
        if bounded {
            read[..2].sort();
        }
        let env = &solved.env;
        // The sizes of commuting operands are in the types of the results.
        let sizes =
            if commutes || bounded { String::new() } else { format!("{:?} {:?}", env.sizes, items(row, solved)) };
        let text = format!("{} {:?} {} {:?} {sizes}", row.op, read, solved.compute, solved.joined);
        let mut at = 0;
        let mut result = |t: &TensorTy| {
            at += 1;
            Term(ArgTy::Tensor(t.clone()), self.number(format!("{text} {t} #{at}")))
        };
        let made = solved.values(&mut result);
        if !constant {
            return made;
        }
        made.iter().map(|value| value.map(&mut |term: &Term| self.constant(term))).collect()
    }

    /// The detached term.
    fn constant(&mut self, term: &Term) -> Term {
        if !is_float(term) || self.detached.contains_key(&term.1) {
            return term.clone();
        }
        let detached = self.number(format!("detached {}", term.1));
        self.detached.insert(detached, term.1);
        Term(term.0.clone(), detached)
    }
}

/// Whether these are arguments of `clamp` for the maximum of a tensor and a number: at a tie neither has a gradient,
/// whichever one is the bound.
fn is_bounded_below(args: &[Value<Term>]) -> bool {
    let tensor = |arg: &Value<Term>| matches!(arg, Value::Tensor(Term(ArgTy::Tensor(_), _)));
    match args {
        [x, lo, hi, ..] => hi.is_absent() && !lo.is_absent() && tensor(x) != tensor(lo),
        _ => false,
    }
}

/// Arguments and options; axes are sorted if no other list is paired with them.
fn items(row: &Row, solved: &Solved) -> Vec<(Name, Item)> {
    let axes = |opt: &&Opt| matches!(opt.ty, OptType::Dims { .. });
    let lists = |opt: &&Opt| matches!(opt.ty, OptType::Ints { .. } | OptType::Shape { .. } | OptType::Perm(_));
    let alone = row.sig.params.iter().all(|param| param.ty.list.is_none())
        && row.sig.opts.iter().filter(axes).count() == 1
        && row.sig.opts.iter().filter(lists).count() == 0;
    let set = row.sig.opts.iter().find(axes).filter(|_| alone).map(|opt| opt.name.name);
    let mut items = solved.env.items.clone();
    for (name, item) in &mut items {
        if let Item::Ints(axes) = item
            && set == Some(*name)
        {
            axes.sort_by_key(|axis| axis.value());
        }
    }
    items
}

fn is_float(term: &Term) -> bool {
    matches!(&term.0, ArgTy::Tensor(t) if t.dtype.is_float())
}

/// Whether the row's body and conditions read no element of an argument.
fn is_unread(row: &Row, param: Name) -> bool {
    let Some(body) = row.index_body() else { return false };
    let mut read = walk::in_condition(row, param);
    walk::names(body, &mut |name| read |= name == param);
    !read
}

fn show(value: &Value<Term>) -> String {
    match value {
        Value::Tensor(term) => format!("%{}", term.1),
        Value::List(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", ")),
        other => format!("{other:?}"),
    }
}

fn types(value: &Value<Term>) -> String {
    let mut text = String::new();
    value.for_each(&mut |term| text += &format!(" {:?}", term.0));
    text
}

impl Machine for Terms<'_> {
    type V = Term;
    type Error = Refusal;

    fn call(&mut self, op: Name, positional: Vec<Value<Self::V>>, named: Vec<Named<Self::V>>) -> Called<Self> {
        let outcome = self.rows.outcome(op, &positional, &named, &|term: &Term| term.0.clone());
        let call = outcome.call(op, positional, named)?;
        let (row, solved) = (&call.of.row, &call.of.solved);
        let Meaning::Decomp(body) = &row.meaning else { return Ok(self.signed_call(row, solved, &call.args)) };
        let run = |terms: &mut Self| tensor::run(terms, row, body, solved, &call.args, &[]);
        let mut results = frame::one_deeper(self, |terms| &mut terms.depth, DEEPEST, row.op, run)?;
        results.truncate(row.sig.outs.len());
        Ok(results)
    }

    fn ty(&self, term: &Term) -> ArgTy {
        term.0.clone()
    }

    fn write(&mut self, name: Name, value: Value<Term>) -> Result<(), Refusal> {
        self.writes.push((name, show(&value)));
        Ok(())
    }
}
