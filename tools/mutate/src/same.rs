//! Finds mutants that are equivalent to their rows, with the reason in words.
//!
//! A changed signature or dtype rule is equivalent if it accepts equal calls with equal types: every dtype at every
//! place, in every form, on every shape of the family. A changed body is equivalent if it lowers to equal loops on all
//! of these.

use std::collections::BTreeMap;
use std::sync::Arc;

use fulgurite_codegen::check::cases::{self, Case, Family};
use fulgurite_codegen::check::dtypes;
use fulgurite_codegen::check::gradients::{Grade, Graded, samples};
use fulgurite_codegen::check::rows::{RowSet, ty};
use fulgurite_codegen::check::rules;
use fulgurite_codegen::schema::RowSource;
use fulgurite_core::builtins::Builtin;
use fulgurite_core::derive::walk;
use fulgurite_core::lang::ast::Red;
use fulgurite_core::lang::{BinOp, Block, Expr, Node};
use fulgurite_core::loop_nest::{LoopExpr, Nest, SOp, SOutside};
use fulgurite_core::lower::{Rows, lower_with};
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::signature::{self, ArgTy, Solved};
use fulgurite_core::{DType, Name, Scalar, Value};

use super::Mutant;
use super::kinds::Kind;
use super::terms::Terms;

/// The number of calls of a family that are tried with the numbers in the bodies.
const FEW: usize = 4;

/// A row with its text.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    /// The row as it is written.
    pub source: &'a RowSource,
    /// The row as `check` completes it.
    pub row: &'a Arc<Row>,
}

/// The reason why the mutant is equivalent to its row, if it is. `graded` are its written gradients that are right.
pub(super) fn reason(
    mutant: &Mutant,
    right: Side,
    wrong: Side,
    graded: &[Graded],
    rows: &(dyn Rows + Sync),
) -> Option<String> {
    if let Some((way, arg)) = mutant.key.split_once('.') {
        let proved = |g: &&Graded| g.op == mutant.row && g.arg == arg && g.grade == Grade::Proved;
        let normal = graded.iter().find(proved).map(|_| "the rule has the normal form of the derived one".to_owned());
        return normal.or_else(|| {
            let rule = |row: &Row| {
                let rules = if way == "grad" { &row.vjp } else { &row.jvp };
                rules.iter().find(|(name, _)| *name == arg).map(|(_, rule)| rule.clone())
            };
            let (own, other) = (rule(right.row)?, rule(wrong.row)?);
            same_rules(right.row, (&own, &other), arg, rows).then(|| "the rule makes the same calls".to_owned())
        });
    }
    let body = |row: &Row| row.index_body().cloned();
    if shares(right.row) != shares(wrong.row) {
        return None;
    }
    match mutant.key.as_str() {
        "expr" | "view" | "decomp" if mutant.kind == Kind(11) && right.source.deviates.is_none() => {
            Some("a detached value is the same value, and no result has a derivative by it (E405)".to_owned())
        }
        "deviates" => {
            Some("the row means the same: what its gradient deviates by stands in rows that it calls".to_owned())
        }
        "skip_vjp" => Some("the claim is true: no result moves with the argument (E501)".to_owned()),
        "expr" | "view" => (body(right.row).is_some() && same_loops(right.row, wrong.row, rows))
            .then(|| "the same loops on every call of the family".to_owned()),
        "decomp" => (same_program(right.row, wrong.row) || same_terms(right.row, wrong.row, rows))
            .then(|| "the same program, up to the order of operands that commute".to_owned()),
        "require" => same_conditions(right.row, wrong.row)
            .then(|| "the same conditions, up to the order of operands that commute".to_owned()),
        "promote" | "dtypes" | "sig" => same_calls(right.row, wrong.row, rows)
            .then(|| "the same calls are accepted with the same types, every dtype at every place".to_owned()),
        _ => None,
    }
}

/// Whether results share the storage of an argument: a write to one is visible in the other, whatever the values are.
pub(super) fn shares(row: &Row) -> bool {
    matches!(row.meaning, Meaning::View(_))
}

fn same_program(right: &Row, wrong: &Row) -> bool {
    let text = |row: &Row| match &row.meaning {
        Meaning::Decomp(body) => Some(walk::map_block(body, &mut |e| Some(ordered(e))).to_string()),
        _ => None,
    };
    text(right).is_some() && text(right) == text(wrong)
}

fn same_conditions(right: &Row, wrong: &Row) -> bool {
    let text = |row: &Row| -> Vec<String> { row.require.iter().map(|r| ordered(&r.cond).to_string()).collect() };
    text(right) == text(wrong)
}

/// Whether two programs make equal calls, in every dtype in which widening matters.
fn same_terms(right: &Arc<Row>, wrong: &Arc<Row>, rows: &(dyn Rows + Sync)) -> bool {
    let (Meaning::Decomp(own), Meaning::Decomp(other)) = (&right.meaning, &wrong.meaning) else { return false };
    let set = RowSet::new(rows, [], &[]);
    let wide = [DType::F16, DType::F64].map(|d| cases::family(right, d));
    let families = families(right, wrong).into_iter().chain(wide);
    let mut terms = Terms::new(&set);
    comparable(right, wrong)
        && families.into_iter().flat_map(|family| family.cases).all(|case| {
            let (a, b) = (
                terms.of(right, own, &case.solved, &case.args, &[]),
                terms.of(wrong, other, &case.solved, &case.args, &[]),
            );
            a.is_ok() && a.ok() == b.ok()
        })
}

/// Whether two gradient rules for `arg` make equal calls, in every float dtype in which widening matters.
fn same_rules(row: &Arc<Row>, (own, other): (&Block, &Block), arg: &str, rows: &(dyn Rows + Sync)) -> bool {
    let set = RowSet::new(rows, [], &[]);
    let at = row.sig.params.iter().position(|param| param.name.name == arg);
    let mut terms = Terms::new(&set);
    [DType::F16, DType::F32, DType::F64].iter().flat_map(|d| cases::family(row, *d).cases).all(|case| {
        let mut names = rules::names(row, &case, &set);
        if let Some(tangent) = at.and_then(|at| case.args.get(at)) {
            names.extend([(Name::new("t"), tangent.clone()), (Name::new(&format!("t_{arg}")), tangent.clone())]);
        }
        let (a, b) = (
            terms.of(row, own, &case.solved, &case.args, &names),
            terms.of(row, other, &case.solved, &case.args, &names),
        );
        a.is_ok() && a.ok() == b.ok()
    })
}

/// The expression with commuting operands in a fixed order.
fn ordered(e: &Expr) -> Expr {
    let mut own = true;
    let inner = walk::map(e, &mut |part| if std::mem::take(&mut own) { None } else { Some(ordered(part)) });
    let span = inner.span;
    let node = match inner.into_node() {
        Node::Binary(op @ (BinOp::Add | BinOp::Mul | BinOp::Eq | BinOp::Ne), a, b) if a.to_string() > b.to_string() => {
            Node::Binary(op, b, a)
        }
        Node::Binary(BinOp::Gt, a, b) => Node::Binary(BinOp::Lt, b, a),
        Node::Binary(BinOp::Ge, a, b) => Node::Binary(BinOp::Le, b, a),
        // `max` and `min` of sizes commute; other commuting rows are found by running them.
        Node::Call(f, mut args) if f.name == "max" || f.name == "min" => {
            args.sort_by_key(|arg| arg.value.to_string());
            Node::Call(f, args)
        }
        node => node,
    };
    Expr::new(node, span)
}

/// The calls of both rows to try, in some dtypes.
fn families(right: &Row, wrong: &Row) -> Vec<Family> {
    let dtypes = [DType::F32, DType::I64, DType::Bool];
    dtypes.iter().flat_map(|d| [cases::family(right, *d), cases::family(wrong, *d)]).collect()
}

pub(super) fn comparable(right: &Row, wrong: &Row) -> bool {
    let names = |row: &Row| -> Vec<_> {
        row.sig.params.iter().map(|p| p.name.name).chain(row.sig.opts.iter().map(|o| o.name.name)).collect()
    };
    names(right) == names(wrong)
}

fn same_loops(right: &Arc<Row>, wrong: &Arc<Row>, rows: &(dyn Rows + Sync)) -> bool {
    // A body may depend on the range of its dtype, and on whether an argument is a number.
    let more = [DType::F16, DType::BF16, DType::F64].map(|d| cases::family(right, d));
    let families: Vec<Family> = families(right, wrong).into_iter().chain(more).collect();
    let numbers: Vec<f64> = [right, wrong].iter().flat_map(|row| samples::written(row)).flat_map(|x| [x, -x]).collect();
    let same = |solved: &Solved| {
        let (a, b) = (loops(right, solved, rows), loops(wrong, solved, rows));
        a.is_some() && a == b
    };
    comparable(right, wrong)
        && families.iter().flat_map(|family| &family.cases).all(|case| same(&case.solved))
        && families.iter().flat_map(|family| family.cases.iter().take(FEW)).all(|case| {
            let mut with = with_numbers(right, case, &numbers);
            with.all(|solved| same(&solved))
        })
}

/// The bindings of the call with each of these numbers, in each place that has or may have a number.
fn with_numbers(row: &Row, case: &Case, numbers: &[f64]) -> impl Iterator<Item = Solved> {
    let may = |at: usize| row.sig.params.get(at).is_some_and(|p| p.ty.dims.is_none() && p.ty.list.is_none());
    let places =
        (0..case.args.len()).filter(move |at| may(*at) || matches!(case.args[*at], Value::Num(Scalar::Float(_))));
    places.flat_map(move |at| {
        numbers.iter().filter_map(move |x| {
            let mut args = case.args.clone();
            args[at] = Value::Num(Scalar::Float(*x));
            signature::solve_types(row, &args).ok()
        })
    })
}

fn same_calls(right: &Arc<Row>, wrong: &Arc<Row>, rows: &(dyn Rows + Sync)) -> bool {
    if !comparable(right, wrong) {
        return false;
    }
    let calls = |row: &Row| -> Vec<Vec<Value<ArgTy>>> {
        families(right, wrong).iter().flat_map(|family| dtypes::calls(row, family)).collect()
    };
    let all: Vec<Vec<Value<ArgTy>>> = calls(right).into_iter().chain(calls(wrong)).collect();
    if right.meaning != wrong.meaning {
        return false;
    }
    let Meaning::Decomp(body) = &right.meaning else {
        return all.iter().all(|args| match (signature::solve(right, args, &ty), signature::solve(wrong, args, &ty)) {
            (Ok(a), Ok(b)) => types(&a) == types(&b) && binds(right, &a, rows) == binds(wrong, &b, rows),
            (Err(_), Err(_)) => true,
            _ => false,
        });
    };
    let set = RowSet::new(rows, [], &[]);
    let mut terms = Terms::new(&set);
    // A call that the body refuses counts as refused.
    let mut meant = |row: &Row, args: &[Value<ArgTy>]| {
        signature::solve(row, args, &ty).and_then(|solved| terms.of(row, body, &solved, args, &[])).ok()
    };
    all.iter().all(|args| meant(right, args) == meant(wrong, args))
}

fn types(solved: &Solved) -> String {
    format!("{:?} {:?} {:?} {:?}", solved.outs, solved.aux, solved.compute, solved.joined)
}

/// The lowered form of a call: loops, or the bindings for a primitive of the runtime.
fn binds(row: &Arc<Row>, solved: &Solved, rows: &(dyn Rows + Sync)) -> String {
    if row.index_body().is_some() {
        return loops(row, solved, rows).unwrap_or_default();
    }
    let env = &solved.env;
    let mut lines: Vec<String> = env.sizes.iter().map(|s| format!("{s:?}")).collect();
    lines.extend(env.items.iter().map(|i| format!("{i:?}")));
    lines.sort();
    lines.join("\n")
}

/// The loops of a call as text, with commuting operands in a fixed order.
fn loops(row: &Arc<Row>, solved: &Solved, rows: &(dyn Rows + Sync)) -> Option<String> {
    let nest: Nest = lower_with(row, row.index_body()?, solved, rows).ok()?;
    let out = |out: &fulgurite_core::loop_nest::NestOut| {
        format!("{:?} {:?} {} {}", out.axes, out.shape, out.dtype, stored(&out.expr, out.dtype))
    };
    Some(format!("{:?} {}", nest.vars, nest.outs.iter().map(out).collect::<Vec<_>>().join("; ")))
}

/// The stored value of a result of this dtype: storing casts to it.
fn stored(e: &LoopExpr, dtype: DType) -> String {
    let keeps = is_whole(e.ty()) && is_whole(dtype) && e.ty().size() >= dtype.size();
    match e.op() {
        SOp::Cast(inner) if e.ty() == dtype || keeps && is_whole(inner.ty()) => stored(inner, dtype),
        SOp::Select(c, a, b) if is_whole(dtype) => {
            let (a, b) = (stored(a, dtype), stored(b, dtype));
            if a == b { a } else { format!("if({}, {a}, {b})", text(c)) }
        }
        _ => text(e),
    }
}

fn text(e: &LoopExpr) -> String {
    if let Some(number) = number(e) {
        return format!("{number:?}:{}", e.ty());
    }
    let all = |items: &[LoopExpr]| items.iter().map(text).collect::<Vec<_>>();
    let of = match e.op() {
        SOp::Const(s) => format!("{s}"),
        SOp::Num(n) => format!("num{n}"),
        SOp::Var(v) => format!("var{v}"),
        SOp::Elem(n) => format!("elem{n}"),
        SOp::Load { tensor, idx, outside } => {
            let outside = match outside {
                SOutside::Value(v) => text(v),
                other => format!("{other:?}"),
            };
            format!("t{tensor}[{}; {outside}]", all(idx).join(", "))
        }
        SOp::Call(builtin, args) => {
            if let Some(sum) = Sum::of(e) {
                return sum.text(e.ty());
            }
            if let (Builtin::Abs, [of]) = (builtin, args.as_slice())
                && of.ty() != DType::U8
                && let Some(distance) = distance(of)
            {
                return format!("distance({distance}):{}", e.ty());
            }
            let mut args = all(args);
            let mut name = builtin.name();
            use Builtin::*;
            if matches!(builtin, Gt | Ge) {
                name = if *builtin == Gt { "lt" } else { "le" };
                args.reverse();
            }
            if matches!(
                builtin,
                Add | Mul | Max | Min | And | Or | Eq | Ne | Bitand | Bitor | Bitxor | Gcd | Lcm | Hypot
            ) {
                args.sort();
            }
            format!("{name}({})", args.join(", "))
        }
        SOp::Cast(a) => format!("cast({})", text(a)),
        SOp::Select(c, a, b) => {
            let (a, b) = (text(a), text(b));
            if a == b { a } else { format!("if({}, {a}, {b})", text(c)) }
        }
        SOp::Reduce { red, vars, filter, body, otherwise } => {
            let names: Vec<String> = vars.iter().map(|r| format!("var{}:", r.var)).collect();
            let vars: Vec<String> = vars.iter().map(|r| format!("{} {} {}", r.var, text(&r.lo), text(&r.hi))).collect();
            let (filter, otherwise) = (filter.as_ref().map(text), otherwise.as_ref().map(text));
            let body = text(body);
            // `last` over equal elements is `first`.
            let alike = |name: &str| !body.contains(name);
            let red = match red {
                Red::Last if names.iter().all(|name| alike(name)) => &Red::First,
                red => red,
            };
            format!("{red:?}[{}; {filter:?}]({body}; {otherwise:?})", vars.join(", "))
        }
        SOp::Uniform { key, position, draw } => format!("uniform({key}, {}, {draw})", text(position)),
        SOp::Detach(a) => format!("detach({})", text(a)),
    };
    format!("{of}:{}", e.ty())
}

/// A text for the absolute value of `e`, which is equal for `a - b` and `b - a`.
fn distance(e: &LoopExpr) -> Option<String> {
    if is_whole(e.ty()) {
        let sum = Sum::part(e);
        let negative = sum.terms.values().next().map_or(sum.rest, |n| *n) < 0;
        return Some(if negative { sum.times(-1) } else { sum }.text(e.ty()));
    }
    let SOp::Call(Builtin::Sub, operands) = e.op() else { return None };
    let mut operands: Vec<String> = operands.iter().map(text).collect();
    operands.sort();
    Some(operands.join(", "))
}

/// A float computed from constants alone, equal in every dtype: no intermediate result needs more digits than bf16 has.
fn number(e: &LoopExpr) -> Option<f64> {
    let value = match e.op() {
        SOp::Const(s) if e.ty().is_float() => s.as_f64(),
        SOp::Cast(of) if e.ty().is_float() => match of.op() {
            SOp::Const(s) if of.ty() == DType::Bool => f64::from(s.as_bool()),
            SOp::Const(s) if is_whole(of.ty()) => s.as_i64() as f64,
            _ => number(of)?,
        },
        SOp::Call(Builtin::Neg, a) => -number(&a[0])?,
        SOp::Call(op @ (Builtin::Add | Builtin::Sub | Builtin::Mul), ab) => {
            let (a, b) = (number(&ab[0])?, number(&ab[1])?);
            match op {
                Builtin::Add => a + b,
                Builtin::Sub => a - b,
                _ => a * b,
            }
        }
        _ => return None,
    };
    // A zero may have the other sign.
    ((4.0 * value).fract() == 0.0 && value.abs() <= 32.0).then_some(value + 0.0)
}

fn is_whole(dtype: DType) -> bool {
    !dtype.is_float() && dtype != DType::Bool
}

/// A sum of multiples of integers, which wrap around, in a normal form.
#[derive(Default)]
struct Sum {
    terms: BTreeMap<String, i64>,
    rest: i64,
}

impl Sum {
    /// The sum; `None` if `e` is not an integer or not a sum.
    fn of(e: &LoopExpr) -> Option<Sum> {
        if !is_whole(e.ty()) {
            return None;
        }
        let part = Sum::part;
        match e.op() {
            SOp::Call(Builtin::Add, ab) => Some(part(&ab[0]).plus(part(&ab[1]))),
            SOp::Call(Builtin::Sub, ab) => Some(part(&ab[0]).plus(part(&ab[1]).times(-1))),
            SOp::Call(Builtin::Neg, a) => Some(part(&a[0]).times(-1)),
            SOp::Call(Builtin::Mul, ab) => {
                let (a, b) = (part(&ab[0]), part(&ab[1]));
                match (a.terms.is_empty(), b.terms.is_empty()) {
                    (true, _) => Some(b.times(a.rest)),
                    (_, true) => Some(a.times(b.rest)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Any integer expression as a sum.
    fn part(e: &LoopExpr) -> Sum {
        match e.op() {
            SOp::Const(s) => Sum { rest: s.as_i64(), ..Sum::default() },
            _ => Sum::of(e).unwrap_or_else(|| Sum { terms: [(text(e), 1)].into(), rest: 0 }),
        }
    }

    fn plus(mut self, other: Sum) -> Sum {
        for (term, n) in other.terms {
            let sum = self.terms.entry(term).or_default();
            *sum = sum.wrapping_add(n);
        }
        self.terms.retain(|_, n| *n != 0);
        Sum { rest: self.rest.wrapping_add(other.rest), ..self }
    }

    fn times(mut self, by: i64) -> Sum {
        self.terms.values_mut().for_each(|n| *n = n.wrapping_mul(by));
        self.terms.retain(|_, n| *n != 0);
        Sum { rest: self.rest.wrapping_mul(by), ..self }
    }

    fn text(&self, dtype: DType) -> String {
        let mut terms = self.terms.iter();
        match (terms.next(), terms.next(), self.rest) {
            (None, _, rest) => format!("{rest}:{dtype}"),
            (Some((term, 1)), None, 0) => term.clone(),
            _ => {
                let terms: Vec<String> = self.terms.iter().map(|(term, n)| format!("{n} {term}")).collect();
                format!("sum({}; {}):{dtype}", terms.join(", "), self.rest)
            }
        }
    }
}
