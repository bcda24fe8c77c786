//! Dtypes of decompositions: a body yields the dtypes that its row declares, and accepts those that its row accepts.

use std::sync::Arc;

use fulgurite_core::lang::ast::Out;
use fulgurite_core::lang::{Block, Elem, Expr, Node, Stmt};
use fulgurite_core::promote::Kind;
use fulgurite_core::row::Row;
use fulgurite_core::signature::{ArgTy, OutTy, Refusal};
use fulgurite_core::{DType, DTypeSet, Name, Value};

use super::tuples::{self, Base};
use super::without;
use crate::check::cases::{Case, Family};
use crate::check::machine::{Fault, Types};
use crate::check::report::Rule;
use crate::check::rows::RowSet;
use crate::diag::Diag;

/// Kinds of promotion that a body may imply, the commonest first.
const SHOWN: [Kind; 6] = [Kind::Default, Kind::Equal, Kind::Float, Kind::LongIfInt, Kind::LongIfBool, Kind::Bool];

/// Fault of a call.
enum Wrong {
    /// The body refuses it.
    Refused(Fault, Case),
    /// The body yields another dtype than the row declares.
    Dtype { case: Case, out: usize, have: DType, want: DType },
}

/// Calls that the body accepts, each with the values that it yields.
type Ran = Vec<(Case, Vec<Value<ArgTy>>)>;

struct Check<'a> {
    rule: &'a Rule<'a>,
    body: &'a Block,
    rows: &'a RowSet<'a>,
    bases: Vec<Base<'a>>,
}

pub(super) fn check(
    rule: &Rule,
    row: &Arc<Row>,
    body: &Block,
    rows: &RowSet,
    family: &Family,
) -> Result<Arc<Row>, Box<Diag>> {
    let check = Check { rule, body, rows, bases: tuples::bases(row, family) };
    let (narrowed, ran) = check.narrow(row)?;
    let wrong = check.consistent(&narrowed, Some(ran));
    if narrowed.promote.is_some() {
        return match wrong {
            None => Ok(narrowed),
            Some(wrong) => Err(Box::new(check.diag(&narrowed, wrong, check.shown(&narrowed)))),
        };
    }
    match wrong {
        None => Ok(narrowed),
        Some(wrong) => match check.shown(&narrowed) {
            Some(kind) => Ok(with_kind(&narrowed, kind)),
            None => Err(Box::new(check.diag(&narrowed, wrong, None))),
        },
    }
}

/// `row` with this `promote`.
fn with_kind(row: &Arc<Row>, kind: Kind) -> Arc<Row> {
    let promote = Some(Expr::bare(Node::Name(kind.name().into())));
    Arc::new(Row { promote, ..Row::clone(row) })
}

impl Check<'_> {
    /// The row, with the `dtypes` that its body accepts where it declares none. Per base: the calls of one dtype each
    /// that the body accepts.
    fn narrow(&self, row: &Arc<Row>) -> Result<(Arc<Row>, Vec<Ran>), Box<Diag>> {
        let mut undefined: Vec<DType> = Vec::new();
        let mut refused = None;
        let mut accepted = Vec::new();
        for base in &self.bases {
            let mut ran = Ran::new();
            for (d, forms) in base.uniform() {
                let Some(case) = base.call(row, &forms) else { continue };
                match self.run(row, &case) {
                    Ok(yielded) => ran.push((case, yielded)),
                    Err(fault) if fault.tainted => {}
                    // a number that wraps is a fault of the body, and no reason to leave the dtype out
                    Err(fault) if row.dtypes.is_none() && fault.refusal.code != "E205" => {
                        undefined.push(d);
                        refused.get_or_insert((fault, case));
                    }
                    Err(fault) => return Err(Box::new(self.rule.diag(&fault, &case.show(row)))),
                }
            }
            accepted.push(ran);
        }
        match refused {
            Some((fault, case)) if accepted.iter().all(Vec::is_empty) => {
                Err(Box::new(self.rule.diag(&fault, &case.show(row))))
            }
            _ => {
                let taken = |(case, _): &(Case, _)| case.solved.joined.is_none_or(|d| !undefined.contains(&d));
                accepted.iter_mut().for_each(|ran| ran.retain(taken));
                Ok((without(row, &undefined), accepted))
            }
        }
    }

    /// The kind of promotion with which the row would describe its body.
    fn shown(&self, row: &Arc<Row>) -> Option<Kind> {
        SHOWN.into_iter().find(|kind| self.consistent(&with_kind(row, *kind), None).is_none())
    }

    /// The first call on which row and body differ. `ran` holds, per base, the known results of the calls of one
    /// dtype each.
    fn consistent(&self, row: &Arc<Row>, ran: Option<Vec<Ran>>) -> Option<Wrong> {
        let mut ran = ran.map(Vec::into_iter);
        self.bases.iter().find_map(|base| {
            let known = ran.as_mut().map(|ran| ran.next().unwrap_or_default());
            let tuples = base.uniform();
            let uniform = || match known {
                Some(ran) => ran.into_iter().find_map(|(case, yielded)| promised_otherwise(row, case, &yielded)),
                None => tuples.iter().find_map(|(_, forms)| self.differs(row, base.call(row, forms)?)),
            };
            uniform()
                .or_else(|| tuples.iter().find_map(|(d, forms)| self.differs(row, base.widened(row, *d, forms)?)))
                .or_else(|| self.differs(row, base.call(row, &base.held())?))
                .or_else(|| base.mixed().into_iter().find_map(|forms| self.differs(row, base.call(row, &forms)?)))
        })
    }

    fn run(&self, row: &Row, case: &Case) -> Result<Vec<Value<ArgTy>>, Fault> {
        let mut types = Types::new(self.rows);
        let yielded = types.run(row, self.body, &case.solved, &case.args, &[])?;
        match types.written.iter().find_map(|(name, value)| self.written_otherwise(row, case, *name, value)) {
            Some(fault) => Err(fault),
            None => Ok(yielded),
        }
    }

    /// The fault of a written value whose dtype is not that of the argument.
    fn written_otherwise(&self, row: &Row, case: &Case, name: Name, value: &Value<ArgTy>) -> Option<Fault> {
        let at = row.sig.params.iter().position(|param| param.name.name == name)?;
        let (have, want) = (yielded_dtype(value)?, yielded_dtype(case.args.get(at)?)?);
        if have == want {
            return None;
        }
        let at = self.body.stmts.iter().find_map(|stmt| match stmt {
            Stmt::Write(to, value) if to.name == name => Some(value.span),
            _ => None,
        });
        let refusal = Refusal::new("E206", format!("this is {have}, `{name}` is {want}"));
        let help = match want.is_float() && have.is_float() {
            true => format!("convert it: `{name} <- (…) as T`, or let the arguments agree: `promote: equal`"),
            false => format!("convert it: `{name} <- (…) as {want}`, or give `{name}` the dtype that is written"),
        };
        Some(Fault { at, ..Fault::from(refusal.help(help)) })
    }

    fn differs(&self, row: &Row, case: Case) -> Option<Wrong> {
        let yielded = match self.run(row, &case) {
            Ok(yielded) => yielded,
            Err(fault) if fault.tainted => return None,
            Err(fault) => return Some(Wrong::Refused(fault, case)),
        };
        promised_otherwise(row, case, &yielded)
    }

    fn diag(&self, row: &Row, wrong: Wrong, kind: Option<Kind>) -> Diag {
        let rule = self.rule;
        let source = rule.source;
        let diag = match &wrong {
            Wrong::Refused(fault, case) => rule.diag(fault, &case.show(row)),
            Wrong::Dtype { case, out, have, want } => {
                let declared = row.sig.outs.iter().chain(&row.sig.aux).nth(*out);
                let which = declared
                    .filter(|_| row.sig.named_outs)
                    .map_or(String::new(), |out| format!(" as `{}`", out.name.name));
                let message = format!("{} yields {have}{which}, its row says {want}", rule.name());
                let value = match &*self.body.value.node {
                    Node::Tuple(items) => items.get(*out).unwrap_or(&self.body.value),
                    _ => &self.body.value,
                };
                let diag = Diag::error("E206", rule.text.at(value.span), message).here(format!("this is {have}"));
                let diag = match declared {
                    Some(out) => diag.label(source.sig.text.at(out.ty.span), format!("this is {want}")),
                    None => diag,
                };
                diag.note(format!("for {}", case.show(row)))
            }
        };
        let held = match &wrong {
            Wrong::Refused(_, case) | Wrong::Dtype { case, .. } => case.solved.joined.is_some_and(DType::is_storage),
        };
        match (kind, &source.promote) {
            (_, Some(promote)) if held => {
                let diag = diag.label(promote.text.place, "what moves elements moves those of eight bits too");
                diag.help("say `dtypes: all`, which leaves out dtypes that only hold numbers")
            }
            (Some(kind), Some(promote)) => {
                diag.label(promote.text.place, "by this rule").help(format!("its body shows `promote: {kind}`"))
            }
            (Some(kind), None) => diag.help(format!("say `promote: {kind}`")),
            (None, _) => diag,
        }
    }
}

/// The first result whose dtype is not the one that its row promises.
fn promised_otherwise(row: &Row, case: Case, yielded: &[Value<ArgTy>]) -> Option<Wrong> {
    let promised = case.solved.outs.iter().chain(&case.solved.aux);
    let declared = row.sig.outs.iter().chain(&row.sig.aux);
    let wrong = promised.zip(declared).zip(yielded).enumerate().find_map(|(out, ((promised, declared), yielded))| {
        let have = yielded_dtype(yielded)?;
        let want = promised_dtype(promised)
            .or_else(|| fixed(declared).filter(|fixed| !fixed.contains(have))?.iter().next())?;
        (want != have).then_some((out, have, want))
    });
    wrong.map(|(out, have, want)| Wrong::Dtype { case, out, have, want })
}

/// The declared dtypes of a result, if the row names them: `i64[_]`, whose sizes the body gives.
fn fixed(out: &Out) -> Option<DTypeSet> {
    let named = |elem: &Elem| if let Elem::Class(name) = elem { DTypeSet::from_class(name.as_str()) } else { None };
    let sets: Vec<DTypeSet> = out.ty.elem.iter().map(named).collect::<Option<_>>()?;
    sets.into_iter().reduce(DTypeSet::union)
}

fn promised_dtype(out: &OutTy) -> Option<DType> {
    Some(out.tensors().first()?.dtype)
}

/// The dtype of a yielded tensor. A number has none, because it takes the dtype that is wanted.
fn yielded_dtype(v: &Value<ArgTy>) -> Option<DType> {
    match v {
        Value::Tensor(ArgTy::Tensor(t)) | Value::Type(t) => Some(t.dtype),
        Value::List(items) => items.first().and_then(yielded_dtype),
        _ => None,
    }
}
