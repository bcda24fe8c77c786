//! E101, E104, E105, E106, E505: a body yields the shapes that the signature declares, in every call of the family.

use std::sync::Arc;

use fulgurite_core::lang::{Block, DimKind, DimPat, Expr, Node, OptType, Out, Stmt};
use fulgurite_core::lower::lower_with;
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::signature::{self, ArgTy, OutTy};
use fulgurite_core::{Name, Value, counted};
use rustc_hash::FxHashSet;

use super::call_cache::Key;
use super::cases::{self, Case, Family};
use super::coverage::Open;
use super::machine::{self, Fault, Types, show};
use super::report::Rule;
use super::rows::{RowSet, ty};
use super::{bounds, division, draws, element, walk};
use crate::diag::Diag;

/// Calls with several windows and steps above 1 on which loops are checked, beyond the usual ones.
const STEPPING: usize = 8;

/// Calls with few elements and steps of about the same number, where windows may be empty.
const TIGHT: usize = 96;

/// The first fault of the body of `row`. Branches that calls take are removed from `open`.
pub fn check(rule: &Rule, row: &Arc<Row>, rows: &RowSet, family: &Family, open: &mut Open) -> Option<Diag> {
    if family.cases.is_empty() {
        return Some(unreachable(rule, row, family));
    }
    let refused = one_way(rule, row, family).or_else(|| refused_default(rule, row, family));
    if let Some(diag) = refused.or_else(|| division::by_options(rule, row, family)) {
        return Some(diag);
    }
    // many calls of a small signature are equal
    let mut met = FxHashSet::default();
    let mut is_new = |case: &Case| Key::of(&case.args, &[], &ty).is_none_or(|key| met.insert(key));
    let usual = family.cases.iter().filter(|case| is_new(case)).find_map(|case| one(rule, row, rows, case, open));
    usual.or_else(|| {
        // a program itself indexes nothing
        row.index_body()?;
        let mut more = cases::stepping(row, element(row), STEPPING);
        // where windows skip elements outside, small ones may be empty
        if walk::body(row).is_some_and(bounds::may_skip) {
            more.extend(cases::tight(row, element(row), TIGHT));
        }
        more.iter().find_map(|case| one(rule, row, rows, case, open))
    })
}

/// The fault of the body of `row` in one call.
pub fn one(rule: &Rule, row: &Arc<Row>, rows: &RowSet, case: &Case, open: &mut Open) -> Option<Diag> {
    match &row.meaning {
        Meaning::Expr(body) | Meaning::View(body) => {
            open.index(body, case);
            index_body(rule, row, body, rows, case)
        }
        Meaning::Decomp(body) => composite(rule, row, body, rows, case, open),
        Meaning::Host(_) => None,
    }
}

fn unreachable(rule: &Rule, row: &Row, family: &Family) -> Diag {
    let source = rule.source;
    if let Some(diag) = ambiguous(rule, row) {
        return diag;
    }
    let diag =
        Diag::error("E108", source.sig.text.place, format!("no call of `{}` that was tried is accepted", row.op));
    let unanchored =
        row.sig.opts.iter().find(|opt| matches!(opt.ty, OptType::Dim(None)) && !anchors(row, opt.name.name));
    if let Some(opt) = unanchored {
        let name = opt.name.name;
        let diag = diag.note(format!("`{name}: Dim` names an axis, and no argument says which: none has `N@{name}`"));
        return diag.help(format!(
            "write `{name}: Dim(S)`, an axis of the list `S`, or `N@{name}` in the type of an argument"
        ));
    }
    match &family.refused {
        Some(refusal) => {
            let diag = diag.note(format!("the first one: {}", refusal.message));
            diag.help("mend `sig`, or what `require` says, so that some call is right")
        }
        None => diag.help("mend `sig`: no sizes fit its types together"),
    }
}

/// Whether an argument has the axis that this option names.
fn anchors(row: &Row, option: Name) -> bool {
    let named = |dim: &DimPat| matches!(&dim.kind, DimKind::One { at: Some(at), .. } if at.name == option);
    row.sig.params.iter().flat_map(|param| param.ty.dims.iter().flatten()).any(named)
}

/// E108: a default with which no call is accepted.
fn refused_default(rule: &Rule, row: &Row, family: &Family) -> Option<Diag> {
    let params = row.sig.params.len();
    let asked = |name: Name| rule.source.require.iter().any(|(cond, _)| walk::expr_mentions(&cond.tree, name));
    let mut opts = row.sig.opts.iter().enumerate().filter(|(_, opt)| opt.default.is_some());
    opts.find_map(|(at, opt)| {
        let name = opt.name.name;
        if !matches!(opt.ty, OptType::Dim(_)) && !asked(name) {
            return None;
        }
        let mut first = None;
        let accepted = family.cases.iter().any(|case| {
            let mut args = case.args.clone();
            args[params + at] = Value::Absent;
            signature::solve_types(row, &args).map_err(|refusal| first.get_or_insert(refusal.message).len()).is_ok()
        });
        let why = first.filter(|_| !accepted)?;
        let message = format!("no call of `{}` that leaves `{name}` out was accepted", row.op);
        let diag = Diag::error("E108", rule.source.sig.text.at(opt.name.span), message).here("has a default");
        Some(diag.note(format!("the first one: {why}")).help("choose a default that calls may have, or give none"))
    })
}

/// E108: an optional argument or option that every accepted call gives, or that none gives.
fn one_way(rule: &Rule, row: &Row, family: &Family) -> Option<Diag> {
    let params = row.sig.params.iter().map(|param| (param.name, param.optional));
    let opts = row.sig.opts.iter().map(|opt| (opt.name, opt.optional && opt.default.is_none()));
    let mut open = params.chain(opts).enumerate().filter(|(_, (_, optional))| *optional);
    open.find_map(|(at, (name, _))| {
        let absent = |case: &Case| case.args.get(at).is_some_and(Value::is_absent);
        let (how, help) = match family.cases.iter().filter(|case| absent(case)).count() {
            0 => ("without", format!("leave the `?` out, or say what a call without `{name}` means")),
            n if n == family.cases.len() => ("with", format!("leave `{name}` out, or mend what refuses it")),
            _ => return None,
        };
        let message = format!("no call of `{}` {how} `{name}` that was tried is accepted", row.op);
        let diag = Diag::error("E108", rule.source.sig.text.at(name.span), message);
        let diag =
            family.refused.iter().fold(diag, |diag, why| diag.note(format!("the first one refused: {}", why.message)));
        Some(diag.help(help))
    })
}

/// E103: two lists of unknown length stand side by side.
fn ambiguous(rule: &Rule, row: &Row) -> Option<Diag> {
    row.sig.params.iter().find_map(|param| {
        let mut open: Option<&DimPat> = None;
        for dim in param.ty.dims.iter().flatten() {
            match &dim.kind {
                DimKind::One { at: Some(_), .. } => open = None,
                DimKind::List { axes: None, .. } | DimKind::Broadcast(_) | DimKind::BroadcastList(_) => {
                    let Some(first) = open.replace(dim) else { continue };
                    let message =
                        format!("where `{first}` of `{}` ends and `{dim}` begins can't be told", param.name.name);
                    let text = &rule.source.sig.text;
                    let diag = Diag::error("E103", text.at(first.span.to(dim.span)), message);
                    let help = "name an axis between them, `N@dim`, or bind one of them by an option, `Shape(…)`";
                    return Some(diag.help(help));
                }
                _ => {}
            }
        }
        None
    })
}

fn index_body(rule: &Rule, row: &Row, body: &Block, rows: &RowSet, case: &Case) -> Option<Diag> {
    let fault = match lower_with(row, body, &case.solved, rows) {
        Ok(nest) => match bounds::ranges(row, body, &nest, case) {
            Some(fault) => fault,
            None => match division::divides_by_zero(body, &nest) {
                Some(fault) => fault,
                None => return draws::check(rule, row, body, &nest, case),
            },
        },
        Err(refusal) => refusal.into(),
    };
    Some(rule.diag(&fault, &case.show(row)))
}

fn composite(rule: &Rule, row: &Arc<Row>, body: &Block, rows: &RowSet, case: &Case, open: &mut Open) -> Option<Diag> {
    let mut types = Types::new(rows);
    let yielded = types.run(row, body, &case.solved, &case.args, &[]);
    open.took(&types.taken);
    let yielded = match yielded {
        Ok(yielded) => yielded,
        Err(fault) if fault.tainted => {
            open.close();
            return None;
        }
        Err(fault) => return Some(rule.diag(&fault, &case.show(row))),
    };
    if let Some(diag) = types.written.iter().find_map(|(name, value)| written(rule, row, body, case, *name, value)) {
        return Some(diag);
    }
    let outs: Vec<&Out> = row.sig.outs.iter().chain(&row.sig.aux).collect();
    if yielded.len() != outs.len() {
        let count = |n: usize| counted(n, "value", "values");
        let message = format!("{} yields {}, its `sig` has {}", rule.name(), count(yielded.len()), count(outs.len()));
        let diag = Diag::error("E104", rule.text.at(body.value.span), message);
        let diag = diag.label(rule.source.sig.text.place, "the results are named here");
        let names: Vec<&str> = outs.iter().map(|out| out.name.name.as_str()).collect();
        return Some(diag.help(format!("end with all of them: `({})`", names.join(", "))));
    }
    let promised = case.solved.outs.iter().chain(&case.solved.aux);
    outs.into_iter().zip(promised).zip(&yielded).enumerate().find_map(|(n, ((out, promised), yielded))| {
        if shapes_agree(promised, yielded) {
            return None;
        }
        let which = if row.sig.named_outs { format!(" as `{}`", out.name.name) } else { String::new() };
        let says = show(&machine::promised(promised));
        let message = format!("{} yields {}{which}, its `sig` says {says}", rule.name(), show(yielded));
        let diag =
            Diag::error("E104", rule.text.at(value(body, n).span), message).here(format!("this is {}", show(yielded)));
        let diag = diag.label(rule.source.sig.text.at(out.ty.span), format!("this is {says}"));
        Some(diag.note(format!("for {}", case.show(row))).help("mend the body, or let `sig` say what it yields"))
    })
}

/// E104: a written value has another shape than its argument. Writes do not broadcast.
fn written(rule: &Rule, row: &Row, body: &Block, case: &Case, name: Name, value: &Value<ArgTy>) -> Option<Diag> {
    let at = row.sig.params.iter().position(|param| param.name.name == name)?;
    let (Some(param), Value::Tensor(ArgTy::Tensor(old))) = (row.sig.params.get(at), case.args.get(at)?) else {
        return None;
    };
    if shapes_agree(&OutTy::Tensor(old.clone()), value) {
        return None;
    }
    let (new, old) = (show(value), old.to_string());
    let message = format!("{} writes {new} to `{name}`, which is {old}", rule.name());
    let stmt = body.stmts.iter().find_map(|stmt| match stmt {
        Stmt::Write(to, value) if to.name == name => Some(value.span),
        _ => None,
    });
    let place = stmt.map_or(rule.text.place, |span| rule.text.at(span));
    let diag = Diag::error("E104", place, message).here(format!("this is {new}"));
    let diag = diag.label(rule.source.sig.text.at(param.ty.span), format!("this is {old}"));
    let help = format!("write a value of the shape of `{name}`: `{name} <- expand(…)`, or an axis less in `sig`");
    Some(diag.note(format!("for {}", case.show(row))).help(help))
}

/// The expression that yields result `n`.
fn value(body: &Block, n: usize) -> &Expr {
    match &*body.value.node {
        Node::Tuple(items) => items.get(n).unwrap_or(&body.value),
        _ => &body.value,
    }
}

/// Whether sizes and structure agree; dtypes are compared elsewhere.
fn shapes_agree(promised: &OutTy, yielded: &Value<ArgTy>) -> bool {
    let tensor = |value: &Value<ArgTy>, promised: &fulgurite_core::TensorTy| match value {
        Value::Tensor(ArgTy::Tensor(t)) | Value::Type(t) => t.shape == promised.shape,
        // a number is a tensor of rank 0
        Value::Num(_) | Value::Size(_) | Value::Tensor(ArgTy::Number(_)) => promised.shape.is_empty(),
        _ => false,
    };
    match (promised, yielded) {
        (OutTy::Tensor(t), value) => tensor(value, t),
        (OutTy::List(ts), Value::List(values)) => {
            ts.len() == values.len() && ts.iter().zip(values).all(|(t, value)| tensor(value, t))
        }
        (OutTy::FromBody, Value::List(_) | Value::Tensor(ArgTy::Tensor(_)) | Value::Type(_)) => true,
        _ => false,
    }
}

impl From<String> for Fault {
    fn from(message: String) -> Fault {
        fulgurite_core::signature::Refusal::new("E706", message).into()
    }
}
