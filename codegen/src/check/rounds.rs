//! E209: a program of rows, and each of its rules, rounds to the half precision of its arguments once, where a result is
//! stored.
//!
//! Each call of the family is made in f16 and its lines are followed: what a line rounded must not be computed with by
//! another. Moves, selections and comparisons round nothing.

use fulgurite_core::autocast::{self, Class};
use fulgurite_core::builtins::Builtin;
use fulgurite_core::eval::tensor::{self, Machine};
use fulgurite_core::lang::{Block, Red, Span};
use fulgurite_core::lower::lower_with;
use fulgurite_core::nest::{SExpr, SOp};
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::sig::{self, ArgTy, OutTy, Refusal, Solved, solve_types};
use fulgurite_core::{DType, Name, TensorTy, Value};
use rustc_hash::FxHashSet;

use super::cases::{Case, Family};
use super::report::{self, Rule};
use super::resolved::{Key, Outcome};
use super::rows::{RowSet, ty};
use super::{machine, rules};
use crate::diag::Diag;
use crate::schema::RowSource;

/// Calls that are followed, those of bodies within bodies too, at most: a program that doubles at each level has no end.
const MOST_LINES: usize = 1 << 12;

/// Rows within rows within rows are followed so deep, because each is a frame of the stack.
const DEEPEST: usize = 24;

/// The first line of the body, or of a rule, that computes with what another line rounded.
pub fn check(source: &RowSource, row: &Row, rows: &RowSet, family: &Family) -> Option<Diag> {
    // a rule of one operation is held by the tests: p18 compares every gradient in half precision
    let Meaning::Decomp(body) = &row.meaning else { return None };
    let (_, text) = report::body(source)?;
    let cases = halves(row, family);
    let rule = Rule { source, what: "`decomp`", text };
    if let Some(diag) = cases.iter().find_map(|case| follow(&rule, row, body, rows, case, &[])) {
        return Some(diag);
    }
    [("grad", &source.grad), ("jvp", &source.jvp)].into_iter().find_map(|(key, declared)| {
        declared.iter().find_map(|(arg, text)| {
            let what = format!("`{key}` in `{}`", arg.as_str());
            let rule = Rule { source, what: &what, text: &text.text };
            let at = row.sig.params.iter().position(|param| param.name.name == arg.as_str())?;
            cases.iter().find_map(|case| {
                let mut names = rules::names(row, case, rows);
                if key == "jvp" {
                    let tangent = case.args.get(at)?.clone();
                    names.extend([
                        (Name::new("t"), tangent.clone()),
                        (Name::new(&format!("t_{}", arg.as_str())), tangent),
                    ]);
                }
                follow(&rule, row, &text.tree, rows, case, &names)
            })
        })
    })
}

/// The calls of the family with f16 for each float.
fn halves(row: &Row, family: &Family) -> Vec<Case> {
    let mut met = FxHashSet::default();
    let narrow = |arg: &ArgTy| match arg {
        ArgTy::Tensor(t) if t.dtype.is_float() => ArgTy::Tensor(TensorTy { dtype: DType::F16, ..t.clone() }),
        other => other.clone(),
    };
    let narrowed = family.cases.iter().filter_map(|case| {
        let args: Vec<Value<ArgTy>> = case
            .args
            .iter()
            .map(|arg| match arg {
                Value::Type(t) if t.dtype.is_float() => Value::Type(TensorTy { dtype: DType::F16, ..t.clone() }),
                // an option: the dtype of a result
                Value::DType(d) if d.is_float() => Value::DType(DType::F16),
                other => other.map(&mut |ty| narrow(ty)),
            })
            .collect();
        let solved = solve_types(row, &args).ok()?;
        Key::of(&args, &[], &ty).is_none_or(|key| met.insert(key)).then_some(Case { args, solved })
    });
    narrowed.filter(|case| machine::floats(&case.args).contains(&DType::F16)).collect()
}

fn follow(
    rule: &Rule,
    row: &Row,
    block: &Block,
    rows: &RowSet,
    case: &Case,
    names: &[(Name, Value<ArgTy>)],
) -> Option<Diag> {
    let mut lines = Lines { rows, left: MOST_LINES, depth: 0 };
    let args: Vec<Value<Kept>> = case.args.iter().map(given).collect();
    let names: Vec<(Name, Value<Kept>)> = names.iter().map(|(name, value)| (*name, given(value))).collect();
    let Err(Halt::Twice { at, by, after }) = tensor::run(&mut lines, row, block, &case.solved, &args, &names) else {
        return None;
    };
    let place = at.map_or(rule.text.place, |span| rule.text.at(span));
    let message = format!("{} rounds to f16 between its parts", rule.name());
    let diag = Diag::warning("E209", place, message).here(format!("`{by}` computes with what `{after}` rounded"));
    let diag = diag.note(format!("for {}", case.show(row)));
    Some(diag.help("widen the arguments first, `x as acc(T)`, and round the result once: `(…) as T`; in f32 and f64 both are nothing"))
}

fn given(value: &Value<ArgTy>) -> Value<Kept> {
    value.map(&mut |ty: &ArgTy| Kept { ty: ty.clone(), rounded: None })
}

/// A value: its type, and the row that rounded it to f16, if one did.
#[derive(Clone)]
struct Kept {
    ty: ArgTy,
    rounded: Option<Name>,
}

/// Why a program is followed no further.
enum Halt {
    /// `by` computes with what `after` rounded.
    Twice { at: Option<Span>, by: Name, after: Name },
    /// It has no meaning for these types, which is reported elsewhere.
    Other,
}

impl From<Refusal> for Halt {
    fn from(_: Refusal) -> Halt {
        Halt::Other
    }
}

/// The machine.
struct Lines<'a> {
    rows: &'a RowSet<'a>,
    left: usize,
    depth: usize,
}

impl Machine for Lines<'_> {
    type V = Kept;
    type Error = Halt;

    fn call(
        &mut self,
        op: Name,
        positional: Vec<Value<Kept>>,
        named: Vec<(Name, Value<Kept>)>,
    ) -> Result<Vec<Value<Kept>>, Halt> {
        self.left = self.left.checked_sub(1).ok_or(Halt::Other)?;
        let Outcome::Accepted(of) = self.rows.outcome(op, &positional, &named, &|kept: &Kept| kept.ty.clone()) else {
            return Err(Halt::Other);
        };
        let (row, solved) = (&of.row, &of.solved);
        let args = sig::arrange(row, positional, named)?;
        let mut after = None;
        args.iter().for_each(|arg| arg.for_each(&mut |kept: &Kept| after = after.or(kept.rounded)));
        match &row.meaning {
            Meaning::Decomp(_) if self.depth > DEEPEST => Err(Halt::Other),
            Meaning::Decomp(body) => match self.inside(row, body, solved, &args) {
                Ok(mut results) => {
                    results.truncate(row.sig.outs.len() + row.sig.aux.len());
                    Ok(results)
                }
                Err(Halt::Twice { .. }) => match after {
                    Some(after) => Err(Halt::Twice { at: None, by: row.op, after }),
                    // its own fault, and told there
                    None => self.promised(row, solved, &args, Some(row.op)),
                },
                Err(Halt::Other) => Err(Halt::Other),
            },
            Meaning::Expr(body) | Meaning::View(body) => {
                let nest = lower_with(row, body, solved, self.rows)?;
                let mut tensors: Vec<Option<Name>> = Vec::new();
                for arg in &args[..row.sig.params.len().min(args.len())] {
                    match arg {
                        Value::Type(_) => tensors.push(None),
                        arg => arg.for_each(&mut |kept: &Kept| {
                            if !matches!(kept.ty, ArgTy::Number(_)) {
                                tensors.push(kept.rounded);
                            }
                        }),
                    }
                }
                let mut parts: Vec<Part> = nest.outs.iter().map(|out| Part::of(&out.expr, &tensors)).collect();
                if let Some(after) = parts.iter().find_map(|part| part.reads.filter(|_| part.computes)) {
                    return Err(Halt::Twice { at: None, by: row.op, after });
                }
                // a product of matrices is stored as its operands are: no library makes another
                let product = autocast::class(row, self.rows).0 == Class::Lower;
                parts.reverse();
                let mut put = |t: &TensorTy| {
                    let part = parts.pop();
                    let computed = !product && part.as_ref().is_some_and(|part| part.computes);
                    let rounded =
                        if computed && t.dtype == DType::F16 { Some(row.op) } else { part.and_then(|p| p.reads) };
                    Value::Tensor(Kept {
                        ty: ArgTy::Tensor(t.clone()),
                        rounded: rounded.filter(|_| t.dtype.is_float()),
                    })
                };
                Ok(solved
                    .outs
                    .iter()
                    .chain(&solved.aux)
                    .map(|out| match out {
                        OutTy::Tensor(t) => put(t),
                        OutTy::List(ts) => Value::List(ts.iter().map(&mut put).collect()),
                        OutTy::FromBody => Value::Absent,
                    })
                    .collect())
            }
            Meaning::Host(_) => self.promised(row, solved, &args, after),
        }
    }

    fn ty(&self, v: &Kept) -> ArgTy {
        v.ty.clone()
    }

    fn write(&mut self, _: Name, _: Value<Kept>) -> Result<(), Halt> {
        Ok(())
    }

    fn located(&self, error: Halt, part: Span) -> Halt {
        match error {
            Halt::Twice { at, by, after } => Halt::Twice { at: at.or(Some(part)), by, after },
            Halt::Other => Halt::Other,
        }
    }
}

impl Lines<'_> {
    fn inside(
        &mut self,
        row: &Row,
        body: &Block,
        solved: &Solved,
        args: &[Value<Kept>],
    ) -> Result<Vec<Value<Kept>>, Halt> {
        self.depth += 1;
        let results = tensor::run(self, row, body, solved, args, &[]);
        self.depth -= 1;
        results
    }

    /// Results by their types alone, all rounded by one row or none.
    fn promised(
        &self,
        row: &Row,
        solved: &Solved,
        args: &[Value<Kept>],
        rounded: Option<Name>,
    ) -> Result<Vec<Value<Kept>>, Halt> {
        let types: Vec<Value<ArgTy>> = if solved.outs.contains(&OutTy::FromBody) {
            let Meaning::Decomp(body) = &row.meaning else { return Err(Halt::Other) };
            let args: Vec<Value<ArgTy>> = args.iter().map(|arg| arg.map(&mut |kept: &Kept| kept.ty.clone())).collect();
            machine::Types::new(self.rows).run(row, body, solved, &args, &[]).map_err(|_| Halt::Other)?
        } else {
            solved.outs.iter().chain(&solved.aux).map(machine::promised).collect()
        };
        let rounded = |ty: &ArgTy| rounded.filter(|_| matches!(ty, ArgTy::Tensor(t) if t.dtype == DType::F16));
        Ok(types.iter().map(|v| v.map(&mut |ty: &ArgTy| Kept { ty: ty.clone(), rounded: rounded(ty) })).collect())
    }
}

/// What the loops of a row do to the floats that become a result.
#[derive(Clone, Copy)]
struct Part {
    /// Whether they compute anything that may have to be rounded.
    computes: bool,
    /// Who rounded what they read for it.
    reads: Option<Name>,
}

impl Part {
    const NOTHING: Part = Part { computes: false, reads: None };

    fn of(e: &SExpr, tensors: &[Option<Name>]) -> Part {
        let tensor = |t: usize| Part { computes: false, reads: tensors.get(t).copied().flatten() };
        let of = |e: &SExpr| Part::of(e, tensors);
        if !e.ty().is_float() {
            return Part::NOTHING;
        }
        match e.op() {
            SOp::Elem(t) | SOp::Load { tensor: t, .. } => tensor(*t),
            SOp::Cast(inner) | SOp::Detach(inner) => of(inner),
            SOp::Select(_, a, b) => of(a).and(of(b)),
            SOp::Call(b, args) => {
                let all = args.iter().fold(Part::NOTHING, |all, arg| all.and(of(arg)));
                match b {
                    Builtin::Neg | Builtin::Abs | Builtin::Max | Builtin::Min | Builtin::Select => all,
                    Builtin::Copysign => args.first().map_or(Part::NOTHING, of),
                    // whole numbers and signs, exact of what they are given
                    Builtin::Sign | Builtin::Floor | Builtin::Ceil | Builtin::Round | Builtin::Trunc => Part::NOTHING,
                    _ => Part { computes: true, ..all },
                }
            }
            SOp::Reduce { red, body, otherwise, .. } => {
                let all = otherwise.iter().fold(of(body), |all, e| all.and(of(e)));
                Part { computes: all.computes || matches!(red, Red::Sum | Red::Prod | Red::Mean), ..all }
            }
            SOp::Const(_) | SOp::Num(_) | SOp::Var(_) | SOp::Uniform { .. } => Part::NOTHING,
        }
    }

    fn and(self, other: Part) -> Part {
        Part { computes: self.computes || other.computes, reads: self.reads.or(other.reads) }
    }
}
