//! E209: a program of rows, and each of its rules, rounds to the half precision of its arguments once, where a result
//! is stored, unless the row says in `rounds` why it rounds earlier. E009: `rounds` of a row that does not round
//! earlier.
//!
//! Each call of the family is made in f16 and its lines are followed. No line may compute with a value that another
//! line rounded. Moves, selections and comparisons round nothing.

use fulgurite_core::lang::{Block, Elem, Param, Span};
use fulgurite_core::lower::lower_with;
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::signature::{ArgTy, Refusal};
use fulgurite_core::{DType, Dim, Name, Named, Scalar, TensorTy, Value};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::call_cache::{Key, Resolved};
use super::cases::{Case, Family};
use super::expanded::{self, Expanded, Look, Marked, Results};
use super::parts::Part;
use super::report::Rule;
use super::rows::{RowSet, ty};
use super::{gradient_rules, machine, rules};
use crate::diag::Diag;
use crate::schema::RowSource;

/// At most this many calls of the family are repeated with each argument as a tensor of rank 0, because the first
/// ones have the most usual ranks.
const SCALARS: usize = 4;

/// The first line of the body, or of a rule, that computes with a value that another line rounded.
pub fn check(source: &RowSource, row: &Row, rows: &RowSet, family: &Family) -> Option<Diag> {
    let found = first(source, row, rows, family);
    let Some(why) = &source.rounds else { return found };
    if found.is_some() {
        return None;
    }
    let message = format!("`rounds` of `{}` decides nothing: no line computes with what another one rounded", row.op);
    Some(Diag::error("E009", why.place, message).help("delete it"))
}

fn first(source: &RowSource, row: &Row, rows: &RowSet, family: &Family) -> Option<Diag> {
    // the tests cover rules of one operation: p21 compares every gradient in half precision
    let Meaning::Decomp(body) = &row.meaning else { return None };
    let cases = halves(row, family);
    let rule = Rule::body(source)?;
    if let Some(diag) = cases.iter().find_map(|case| follow(&rule, row, body, rows, case, &[])) {
        return Some(diag);
    }
    gradient_rules::of(source).iter().find_map(|declared| {
        let (rule, tree) = (declared.named(source), &declared.rule.tree);
        cases.iter().find_map(|case| follow(&rule, row, tree, rows, case, &rules::names_of(row, case, rows, declared)))
    })
}

/// The calls of the family with f16 for each float. Rounding depends on dtypes, ranks, presence, words and numbers,
/// so one call is enough of those that differ only in sizes, or in the axis that an option names. Sizes of 0 and 1
/// are kept apart, because conditions test them.
fn halves(row: &Row, family: &Family) -> Vec<Case> {
    let mut met = FxHashSet::default();
    // an argument with a dtype of its own may hold integers beside halves
    let own = |param: &Param| matches!(param.ty.elem.as_slice(), [Elem::Var(name)] if *name != "T");
    let own: Vec<bool> = row.sig.params.iter().map(own).collect();
    let ways = if own.contains(&true) { vec![false, true] } else { vec![false] };
    let tried = ways.into_iter().flat_map(|whole| {
        let called = family.cases.iter().map(move |case| (whole, None, case));
        // a tensor of rank 0 has no say in the dtype beside one with axes
        let scalars = (0..own.len()).filter(|_| own.len() > 1).map(Some);
        let first = family.cases.iter().take(SCALARS);
        called.chain(first.flat_map(move |case| scalars.clone().map(move |at| (whole, at, case))))
    });
    let narrowed = tried.filter_map(|(whole, scalar, case)| {
        let args = case.args.iter().enumerate().map(|(at, arg)| match own.get(at) {
            Some(_) if scalar == Some(at) => of_rank_0(arg),
            Some(true) if whole => with_dtype(arg, DType::I64),
            _ => narrow(arg),
        });
        let args: Vec<Value<ArgTy>> = args.collect();
        // the call has another float dtype, or none: nothing is rounded to f16
        if !machine::floats(&args).contains(&DType::F16) {
            return None;
        }
        let kind: Vec<Value<ArgTy>> = args.iter().map(alike).collect();
        if !Key::of(&kind, &[], &ty).is_none_or(|key| met.insert(key)) {
            return None;
        }
        Case::of(row, args)
    });
    narrowed.collect()
}

/// A tensor of floats as one of rank 0 in f16.
fn of_rank_0(arg: &Value<ArgTy>) -> Value<ArgTy> {
    match arg {
        Value::Tensor(ArgTy::Tensor(t)) if t.dtype.is_float() => {
            Value::Tensor(ArgTy::Tensor(TensorTy { dtype: DType::F16, shape: SmallVec::new() }))
        }
        other => narrow(other),
    }
}

/// An argument with f16 for each float. An option that is the dtype of a result becomes f16 too.
fn narrow(arg: &Value<ArgTy>) -> Value<ArgTy> {
    match arg {
        Value::DType(d) if d.is_float() => Value::DType(DType::F16),
        other => with_dtype(other, DType::F16),
    }
}

/// An argument with this dtype for each float.
fn with_dtype(arg: &Value<ArgTy>, dtype: DType) -> Value<ArgTy> {
    arg.map_tensors(&mut |t| TensorTy { dtype: if t.dtype.is_float() { dtype } else { t.dtype }, ..t.clone() })
}

/// A key of an argument. Calls with equal keys round their values alike.
fn alike(arg: &Value<ArgTy>) -> Value<ArgTy> {
    let mut shape = |t: &TensorTy| {
        let least = t.shape.iter().map(|d| d.value()).min().unwrap_or(0);
        TensorTy { dtype: t.dtype, shape: t.shape.iter().map(|_| Dim::from(least.min(2))).collect() }
    };
    match arg {
        Value::Num(Scalar::Int(i)) => Value::Num(Scalar::Int((*i).clamp(-1, 2))),
        Value::Size(d) => Value::Num(Scalar::Int(d.value().clamp(-1, 2))),
        Value::List(items) => Value::List(items.iter().map(alike).collect()),
        other => other.map_tensors(&mut shape),
    }
}

fn follow(rule: &Rule, row: &Row, block: &Block, rows: &RowSet, case: &Case, names: &[Named<ArgTy>]) -> Option<Diag> {
    let mut lines = Expanded::new(rows, Lines);
    let Err(Halt::Twice { at, by, after }) = lines.follow(row, block, &case.solved, &case.args, names) else {
        return None;
    };
    let place = at.map_or(rule.text.place, |span| rule.text.at(span));
    let message = format!("{} rounds to f16 between its parts", rule.name());
    let diag = Diag::error("E209", place, message).here(format!("`{by}` computes with what `{after}` rounded"));
    let diag = diag.note(format!("for {}", case.show(row)));
    Some(diag.help("widen the arguments first, `x as acc(T)`, and round the result once: `(…) as T`; in f32 and f64 both are nothing"))
}

/// Reason why a program is followed no further.
enum Halt {
    /// `by` computes with a value that `after` rounded.
    Twice { at: Option<Span>, by: Name, after: Name },
    /// The program has no meaning for these types, which is reported elsewhere.
    Other,
}

impl From<Refusal> for Halt {
    fn from(_: Refusal) -> Halt {
        Halt::Other
    }
}

/// Follows roundings. The mark of a value is the row that rounded it to f16, if one did.
struct Lines;

type Kept = Marked<Option<Name>>;

/// The row that rounded the first of these arguments that was rounded.
fn rounded(args: &[Value<Kept>]) -> Option<Name> {
    let mut after = None;
    args.iter().for_each(|arg| arg.for_each(&mut |kept: &Kept| after = after.or(kept.mark)));
    after
}

/// The results that a call promises. Those in f16 are marked as rounded by this row, or by none.
fn promised(rows: &RowSet, of: &Resolved, args: &[Value<Kept>], rounded: Option<Name>) -> Vec<Value<Kept>> {
    let is_half = |ty: &ArgTy| matches!(ty, ArgTy::Tensor(t) if t.dtype == DType::F16);
    expanded::promised(rows, of, args, |ty| rounded.filter(|_| is_half(ty)))
}

impl Look for Lines {
    type Mark = Option<Name>;
    type Halt = Halt;

    fn loops(&mut self, rows: &RowSet, of: &Resolved, args: &[Value<Kept>]) -> Results<Lines> {
        let (row, solved) = (&of.row, &of.solved);
        if matches!(row.meaning, Meaning::Host(_)) {
            return Ok(promised(rows, of, args, rounded(args)));
        }
        let parts = of.parts(|| parts(of, rows)).ok_or(Halt::Other)?;
        let mut tensors: SmallVec<[Option<Name>; 4]> = SmallVec::new();
        for arg in &args[..row.sig.params.len().min(args.len())] {
            match arg {
                Value::Type(_) => tensors.push(None),
                arg => arg.for_each(&mut |kept: &Kept| {
                    if !matches!(kept.ty, ArgTy::Number(_)) {
                        tensors.push(kept.mark);
                    }
                }),
            }
        }
        let reads = |part: &Part| part.reads.iter().find_map(|t| tensors.get(*t).copied().flatten());
        if let Some(after) = parts.iter().filter(|part| part.computes).find_map(reads) {
            return Err(Halt::Twice { at: None, by: row.op, after });
        }
        let mut parts = parts.iter();
        let put = |t: &TensorTy| {
            let rounded = parts.next().and_then(|part| match part.computes && t.dtype == DType::F16 {
                true => Some(row.op),
                false => reads(part),
            });
            let mark = rounded.filter(|_| t.dtype.is_float());
            Marked { ty: ArgTy::Tensor(t.clone()), mark }
        };
        Ok(solved.values(put))
    }

    fn program(
        &mut self,
        rows: &RowSet,
        of: &Resolved,
        args: &[Value<Kept>],
        results: Results<Lines>,
    ) -> Results<Lines> {
        match (results, rounded(args)) {
            (Err(Halt::Twice { .. }), Some(after)) => Err(Halt::Twice { at: None, by: of.row.op, after }),
            // the called program rounds too early by itself, which is reported there
            (Err(Halt::Twice { .. }), None) => Ok(promised(rows, of, args, Some(of.row.op))),
            (results, _) => results,
        }
    }

    fn located(&self, halt: Halt, part: Span) -> Halt {
        match halt {
            Halt::Twice { at, by, after } => Halt::Twice { at: at.or(Some(part)), by, after },
            Halt::Other => Halt::Other,
        }
    }
}

/// The effect of the loops of a call on the floats of each result. `None` where there are no loops.
fn parts(of: &Resolved, rows: &RowSet) -> Option<Vec<Part>> {
    let row = &of.row;
    let nest = match of.nest() {
        Some(nest) => nest.clone(),
        None => lower_with(row, row.index_body()?, &of.solved, rows).ok()?.into(),
    };
    Some(nest.outs.iter().map(|out| Part::of(&out.expr)).collect())
}
