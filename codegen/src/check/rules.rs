//! E402, E403: a gradient rule yields what its argument is: same shape, same dtype.

use fulgurite_core::lang::Block;
use fulgurite_core::row::Row;
use fulgurite_core::sig::{ArgTy, OutTy};
use fulgurite_core::{Name, TensorTy, Value};

use super::cases::Case;
use super::machine::{self, Types, show};
use super::report::Rule;
use super::rows::RowSet;
use crate::diag::Diag;

/// What is wrong with the types of `block`, the VJP rule of `row` for `arg`, in these cases: the first fault.
pub fn vjp(rule: &Rule, row: &Row, arg: Name, block: &Block, rows: &RowSet, cases: &[Case]) -> Option<Diag> {
    let at = row.sig.params.iter().position(|param| param.name.name == arg)?;
    if !fulgurite_core::derive::differentiable(&row.sig.params[at].ty) {
        let message = format!("{} is a gradient for `{}`, which has none", rule.name(), row.sig.params[at]);
        let diag = Diag::error("E412", rule.text.place, message);
        return Some(diag.help("delete the rule: integers, truth values and keys have no gradient"));
    }
    cases.iter().find_map(|case| {
        let wanted = case.args.get(at)?;
        // no result, no cotangent: the rule is never run
        let nothing = case.solved.outs.iter().all(|out| matches!(out, OutTy::List(ts) if ts.is_empty()));
        if nothing || !differentiable(wanted) {
            return None;
        }
        let mut types = Types::new(rows);
        let yielded = match types.run(row, block, &case.solved, &case.args, &names(row, case)) {
            Ok(yielded) => yielded,
            Err(fault) if fault.tainted => return None,
            Err(fault) => return Some(rule.diag(&fault, &case.show(row))),
        };
        let yielded = match (wanted, yielded.as_slice()) {
            (_, [one]) => one.clone(),
            (Value::List(_), several) => Value::List(several.to_vec()),
            (_, several) => {
                let message =
                    format!("{} yields {} values, the gradient of `{arg}` is one", rule.name(), several.len());
                return Some(Diag::error("E402", rule.text.at(block.value.span), message));
            }
        };
        compare(rule, row, arg, block, case, wanted, &yielded)
    })
}

/// What a rule reads besides arguments and options: results, auxiliary results, cotangents of the results' types.
pub fn names(row: &Row, case: &Case) -> Vec<(Name, Value<ArgTy>)> {
    let outs = row.sig.outs.iter().zip(&case.solved.outs);
    let aux = row.sig.aux.iter().zip(&case.solved.aux);
    let single = row.sig.outs.len() == 1;
    let mut names = Vec::new();
    for (out, ty) in outs.clone().chain(aux) {
        names.push((out.name.name, machine::promised(ty)));
    }
    for (out, ty) in outs {
        let cotangent = if single { Name::new("g") } else { Name::new(&format!("g_{}", out.name.name)) };
        names.push((cotangent, machine::promised(ty)));
        if single && out.name.name != "out" {
            names.push((Name::new("out"), machine::promised(ty)));
        }
    }
    names
}

/// Whether a gradient can flow to this argument: a tensor of floats, or a list of such.
fn differentiable(v: &Value<ArgTy>) -> bool {
    match v {
        Value::Tensor(ArgTy::Tensor(t)) => t.dtype.is_float(),
        Value::List(items) => !items.is_empty() && items.iter().all(differentiable),
        _ => false,
    }
}

fn compare(
    rule: &Rule,
    row: &Row,
    arg: Name,
    block: &Block,
    case: &Case,
    wanted: &Value<ArgTy>,
    yielded: &Value<ArgTy>,
) -> Option<Diag> {
    let pairs: Vec<(&Value<ArgTy>, &Value<ArgTy>)> = match (wanted, yielded) {
        // no gradient at all
        (_, Value::Absent) => return None,
        (Value::List(wanted), Value::List(yielded)) if wanted.len() == yielded.len() => {
            wanted.iter().zip(yielded).collect()
        }
        _ => vec![(wanted, yielded)],
    };
    for (wanted, yielded) in pairs {
        let Some(want) = tensor(wanted) else { continue };
        let code = match tensor(yielded) {
            _ if yielded.is_absent() => continue,
            Some(have) if have.shape != want.shape => "E402",
            Some(have) if have.dtype != want.dtype => "E403",
            Some(_) => continue,
            None => "E402",
        };
        let what = if code == "E402" { "shape" } else { "dtype" };
        let message = format!("{} has another {what} than `{arg}`", rule.name());
        let diag = Diag::error(code, rule.text.at(block.value.span), message);
        let diag =
            diag.here(format!("this is {}, `{arg}` is {want}", show(yielded))).note(format!("for {}", case.show(row)));
        return Some(match code {
            "E402" => diag.help(format!("where `{arg}` was broadcast, sum its gradient back: `unbroadcast(…, {arg})`")),
            _ => diag.help("cast the value: `(…) as T`"),
        });
    }
    None
}

fn tensor(v: &Value<ArgTy>) -> Option<&TensorTy> {
    match v {
        Value::Tensor(ArgTy::Tensor(t)) | Value::Type(t) => Some(t),
        _ => None,
    }
}
