//! Dtypes of index and scalar bodies.

use std::sync::Arc;

use fulgurite_core::DType;
use fulgurite_core::builtins::Builtin;
use fulgurite_core::lang::{Block, OptType};
use fulgurite_core::loop_nest::{LoopExpr, Nest, SOp};
use fulgurite_core::lower::lower_with;
use fulgurite_core::promote::Kind;
use fulgurite_core::row::Row;
use fulgurite_core::signature::const_eval;
use rustc_hash::FxHashSet;

use super::tuples::{self, Form, Joined};
use super::without;
use crate::check::cases::{Case, Family};
use crate::check::report::Rule;
use crate::check::rows::RowSet;
use crate::check::walk::{any_part, each};
use crate::diag::Diag;

pub(super) fn check(
    rule: &Rule,
    row: &Arc<Row>,
    body: &Block,
    rows: &RowSet,
    family: &Family,
) -> Result<Arc<Row>, Box<Diag>> {
    let mut undefined: Vec<(DType, Diag)> = Vec::new();
    let mut defined: Vec<DType> = Vec::new();
    for (n, base) in tuples::bases(row, family).iter().enumerate() {
        let tuples = match n {
            0 => base.thorough(),
            _ => base.uniform().into_iter().map(|(_, forms)| forms).collect(),
        };
        // lowering depends on few properties of a tuple, most of which the join of its forms determines
        let mut seen: FxHashSet<(DType, Vec<DType>, Vec<bool>)> = FxHashSet::default();
        let mut met: FxHashSet<Joined> = FxHashSet::default();
        for forms in &tuples {
            let joined = base.joined(row, forms);
            if joined.as_ref().is_some_and(|joined| met.contains(joined)) {
                continue;
            }
            let Some(case) = base.call(row, forms) else { continue };
            met.extend(joined);
            let outs = out_dtypes(&case);
            let numbers = forms.iter().map(|form| matches!(form, Form::Number(_))).collect();
            if !seen.insert((case.solved.compute, outs, numbers)) {
                continue;
            }
            let nest = lower_with(row, body, &case.solved, rows);
            match (nest, case.solved.joined) {
                (Ok(nest), joined) => {
                    if let Some(diag) = result(rule, row, &nest, &case) {
                        return Err(Box::new(diag));
                    }
                    defined.extend(joined);
                }
                (Err(refusal), Some(joined)) if refusal.code == "E202" && row.dtypes.is_none() => {
                    undefined.push((joined, rule.diag(&refusal.into(), &case.show(row))));
                }
                (Err(refusal), _) => {
                    let wrong = refusal.code == "E202";
                    let diag = rule.diag(&refusal.into(), &case.show(row));
                    return Err(Box::new(match (&rule.source.dtypes, wrong) {
                        (Some(dtypes), true) => diag
                            .label(dtypes.text.place, "accepted here")
                            .help("narrow `dtypes`, or choose another `promote`"),
                        _ => diag,
                    }));
                }
            }
        }
    }
    let nowhere = undefined.iter().find(|(d, _)| !defined.contains(d));
    match nowhere {
        Some((_, diag)) if defined.is_empty() => Err(Box::new(diag.clone())),
        // defined for some calls of this dtype only, or not at all: the row does not take it
        _ => Ok(without(row, &undefined.iter().map(|(d, _)| *d).collect::<Vec<_>>())),
    }
}

fn out_dtypes(case: &Case) -> Vec<DType> {
    let outs = case.solved.outs.iter().chain(&case.solved.aux);
    outs.filter_map(|out| Some(out.tensors().first()?.dtype)).collect()
}

/// E203, E201: the body gives the dtypes that the row declares.
fn result(rule: &Rule, row: &Row, nest: &Nest, case: &Case) -> Option<Diag> {
    let source = rule.source;
    for (n, out) in nest.outs.iter().enumerate() {
        let (have, want) = (out.expr.ty(), out.dtype.opmath());
        // numbers, sizes and indices adapt to the dtype that is wanted
        let adapts = !from_elements(&out.expr) && have.category() <= want.category();
        // an option chose this dtype: sums are taken in its accumulation dtype, then stored in it
        let chosen =
            row.sig.opts.iter().any(|opt| matches!(opt.ty, OptType::Dtype(_))) && have == out.dtype.accumulate();
        if have == want || adapts || chosen {
            continue;
        }
        let declared = row.sig.outs.iter().chain(&row.sig.aux).nth(n).or(row.sig.outs.first());
        let message = format!("{} gives {have}, its row says {}", rule.name(), out.dtype);
        let diag = Diag::error("E203", rule.text.place, message).here(format!("this is {have}"));
        let diag = match declared {
            Some(out) => diag.label(source.sig.text.at(out.ty.span), "this is what the row says"),
            None => diag,
        };
        let diag = match &source.promote {
            Some(promote) => diag.label(promote.text.place, "by this rule"),
            None => diag,
        };
        return Some(diag.note(format!("for {}", case.show(row))).help(match have {
            // the body gives this float for elements of any other dtype as well
            _ if have.is_float() && !out.dtype.is_float() => {
                "say `promote: float`; where the row is for floats alone, `dtypes: float`"
            }
            _ if draws(&out.expr) => "numbers are drawn as f32: convert them, `uniform(…) as acc(T)`",
            DType::Bool => "say `promote: bool` and `-> bool`, or cast: `(…) as T`",
            _ if out.dtype == DType::Bool && source.dtypes.is_none() => {
                "leave bool out, `dtypes: all - bool`, choose another `promote`, or cast: `(…) as T`"
            }
            _ => "choose another `promote`, or cast: `(…) as T`",
        }));
    }
    let kind = row.promote.as_ref().and_then(|e| const_eval::kind(&case.solved.env, e).ok());
    if kind == Some(Kind::Keep)
        && let Some(builtin) = computes(nest)
    {
        let message = format!("`promote: keep` of `{}` says that elements are only moved", row.op);
        let place = source.promote.as_ref().map_or(source.op.place, |promote| promote.text.place);
        let diag =
            Diag::error("E201", place, message).label(rule.text.place, format!("this computes `{}`", builtin.name()));
        return Some(diag.help("say `default`"));
    }
    None
}

/// Whether the value, not only the choice between values, comes from elements.
fn from_elements(e: &LoopExpr) -> bool {
    match e.op() {
        SOp::Load { .. } | SOp::Elem(_) | SOp::Uniform { .. } => true,
        SOp::Const(_) | SOp::Num(_) | SOp::Var(_) => false,
        SOp::Cast(inner) | SOp::Detach(inner) => from_elements(inner),
        SOp::Call(_, args) => args.iter().any(from_elements),
        SOp::Select(_, yes, no) => from_elements(yes) || from_elements(no),
        SOp::Reduce { body, otherwise, .. } => from_elements(body) || otherwise.as_ref().is_some_and(from_elements),
    }
}

/// Whether an expression draws random numbers.
fn draws(e: &LoopExpr) -> bool {
    any_part(e, &mut |part| matches!(part.op(), SOp::Uniform { .. }))
}

/// The first builtin that computes with float elements. Comparisons and choices only move them.
fn computes(nest: &Nest) -> Option<Builtin> {
    let mut found = None;
    for out in &nest.outs {
        each(&out.expr, &mut |part| {
            if let SOp::Call(builtin, args) = part.op()
                && part.ty().is_float()
                && args.iter().any(from_elements)
            {
                found.get_or_insert(*builtin);
            }
        });
    }
    found
}
