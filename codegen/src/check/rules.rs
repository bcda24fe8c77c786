//! E402, E403, E207: a gradient has the shape and dtype of its argument, a tangent those of its result. Neither is
//! rounded to fewer digits on the way.

use fulgurite_core::lang::{Block, DimKind, DimPat, Node, Type};
use fulgurite_core::row::Row;
use fulgurite_core::signature::{ArgTy, OutTy};
use fulgurite_core::{DType, Name, Named, TensorTy, Value, derive};
use rustc_hash::FxHashSet;

use super::cases::Case;
use super::gradient_rules::{self, Declared, Way};
use super::machine::{self, Types, show};
use super::report::Rule;
use super::rows::RowSet;
use super::walk;
use crate::diag::Diag;
use crate::schema::RowSource;

/// The first fault in the types of a rule that `row` declares, in these cases.
pub fn check(source: &RowSource, declared: &Declared, row: &Row, rows: &RowSet, cases: &[Case]) -> Option<Diag> {
    match declared.way {
        Way::Vjp => vjp(&declared.named(source), declared, row, rows, cases),
        Way::Jvp => jvp(&declared.named(source), declared, row, rows, cases),
    }
}

fn vjp(rule: &Rule, declared: &Declared, row: &Row, rows: &RowSet, cases: &[Case]) -> Option<Diag> {
    let (arg, at, block) = (declared.arg, declared.at, &declared.rule.tree);
    if !fulgurite_core::derive::differentiable(&row.sig.params[at].ty) {
        let message = format!("{} is a gradient for `{}`, which has none", rule.name(), row.sig.params[at]);
        let diag = Diag::error("E412", rule.text.place, message);
        return Some(diag.help("delete the rule: integers, truth values and keys have no gradient"));
    }
    // without a float result there is no cotangent, and the rule is never run
    let flows = |case: &Case| {
        let mut outs = case.solved.outs.iter();
        outs.any(|out| *out == OutTy::FromBody || differentiable(&machine::promised(out)))
            && case.args.get(at).is_some_and(differentiable)
    };
    if !cases.is_empty() && !cases.iter().any(flows) {
        return Some(never(rule, arg, "gradient"));
    }
    cases.iter().filter(|case| flows(case)).find_map(|case| {
        let wanted = case.args.get(at)?;
        let yielded = match types(row, case, rows).run(row, block, &case.solved, &case.args, &names(row, case, rows)) {
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
        let larger = if broadcasts_to_others(&row.sig.params[at].ty) {
            format!("where `{arg}` was broadcast, sum its gradient back: `unbroadcast(…, {arg})`")
        } else {
            format!("give it the shape of `{arg}`: `unbroadcast(…, {arg})`")
        };
        let smaller = format!("a gradient has an element for each of `{arg}`: add `zeros({arg})`");
        Yields { rule, row, of: arg, block, case, larger: &larger, smaller: &smaller }.compare(wanted, &yielded)
    })
}

fn jvp(rule: &Rule, declared: &Declared, row: &Row, rows: &RowSet, cases: &[Case]) -> Option<Diag> {
    let (arg, at, block) = (declared.arg, declared.at, &declared.rule.tree);
    if !cases.is_empty() && !cases.iter().any(|case| case.args.get(at).is_some_and(differentiable)) {
        return Some(never(rule, arg, "tangent"));
    }
    cases.iter().find_map(|case| {
        case.args.get(at).filter(|value| differentiable(value))?;
        let names = names_of(row, case, rows, declared);
        let yielded = match types(row, case, rows).run(row, block, &case.solved, &case.args, &names) {
            Ok(yielded) => yielded,
            Err(fault) if fault.tainted => return None,
            Err(fault) => return Some(rule.diag(&fault, &case.show(row))),
        };
        if yielded.len() != row.sig.outs.len() {
            let (have, want) = (yielded.len(), row.sig.outs.len());
            let message = format!("{} yields {have} values, the row has {want} results", rule.name());
            return Some(Diag::error("E402", rule.text.at(block.value.span), message));
        }
        let promised = Types::promised(rows, row, &case.solved, &case.args);
        let outs = row.sig.outs.iter().zip(promised).zip(&yielded);
        outs.map(|((out, wanted), yielded)| (out, wanted, yielded)).find_map(|(out, wanted, yielded)| {
            let help = format!("the tangent of `{0}` has the shape of `{0}`: add `zeros({0})`", out.name.name);
            let yields = Yields { rule, row, of: out.name.name, block, case, larger: &help, smaller: &help };
            yields.compare(&wanted, yielded).filter(|_| differentiable(&wanted))
        })
    })
}

/// E412: no call runs a rule.
fn never(rule: &Rule, arg: Name, what: &str) -> Diag {
    let message = format!("{} is a {what} for `{arg}`, but no call has one", rule.name());
    let diag = Diag::error("E412", rule.text.place, message);
    diag.help("delete the rule: integers and truth values have no gradient, neither as arguments nor as results")
}

/// A machine for a rule. It may round to the float dtypes of the call, and to those in which these are computed.
fn types<'a>(row: &Row, case: &Case, rows: &'a RowSet<'a>) -> Types<'a> {
    let outs = Types::promised(rows, row, &case.solved, &case.args);
    let mut kept = machine::floats(&case.args);
    kept.extend(machine::floats(&outs));
    kept.extend(case.solved.joined);
    kept.extend(kept.clone().into_iter().map(DType::opmath));
    Types::new(rows).keeping(kept)
}

/// The values that a rule reads besides arguments and options: results, auxiliary results, cotangents, and in a `jvp`
/// the tangent.
pub fn names_of(row: &Row, case: &Case, rows: &RowSet, rule: &Declared) -> Vec<Named<ArgTy>> {
    let mut names = names(row, case, rows);
    if rule.way == Way::Jvp {
        names.extend(rule.bind(row, &case.args[rule.at..=rule.at]));
    }
    names
}

/// The values that any rule reads besides arguments and options: results, auxiliary results, and a cotangent for each
/// float result, of its type.
pub fn names(row: &Row, case: &Case, rows: &RowSet) -> Vec<Named<ArgTy>> {
    let values = Types::promised(rows, row, &case.solved, &case.args);
    let mut names = gradient_rules::results(row, &values);
    let cotangent = |value| if differentiable(&value) { value } else { Value::Absent };
    let outs = row.sig.outs.iter().map(|out| derive::cotangent(row, out.name.name));
    names.extend(outs.zip(values.into_iter().map(cotangent)));
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

/// Result of a rule for a call.
struct Yields<'a> {
    rule: &'a Rule<'a>,
    row: &'a Row,
    /// The argument or result that the gradient or tangent is of.
    of: Name,
    block: &'a Block,
    case: &'a Case,
    /// Help where the value has too many axes or elements.
    larger: &'a str,
    /// Help where it has too few.
    smaller: &'a str,
}

impl Yields<'_> {
    fn compare(&self, wanted: &Value<ArgTy>, yielded: &Value<ArgTy>) -> Option<Diag> {
        let pairs: Vec<(&Value<ArgTy>, &Value<ArgTy>)> = match (wanted, yielded) {
            // no gradient at all
            (_, Value::Absent) => return None,
            (Value::List(wanted), Value::List(yielded)) if wanted.len() == yielded.len() => {
                wanted.iter().zip(yielded).collect()
            }
            // the gradient of a list of one tensor may stand alone
            (Value::List(wanted), one @ Value::Tensor(_)) if wanted.len() == 1 => vec![(&wanted[0], one)],
            (Value::List(wanted), _) => return Some(self.several(wanted.len(), yielded)),
            _ => vec![(wanted, yielded)],
        };
        pairs.into_iter().find_map(|(wanted, yielded)| self.compare_one(tensor(wanted)?, yielded))
    }

    /// E402 of a list: a rule does not yield a gradient for each item.
    fn several(&self, items: usize, yielded: &Value<ArgTy>) -> Diag {
        let message = format!("{} is no gradient for each item of `{}`", self.rule.name(), self.of);
        let have = match yielded {
            Value::List(have) => format!("this is a list of {}", have.len()),
            one => format!("this is {}", show(one)),
        };
        let diag = Diag::error("E402", self.rule.text.at(self.block.value.span), message);
        let diag = diag.here(format!("{have}, `{}` is a list of {items}", self.of));
        let help =
            "yield a list with a gradient for each: `split(g, …)` of what was joined, `unbind(g)` of what was stacked";
        diag.note(format!("for {}", self.case.show(self.row))).help(help)
    }

    /// Whether arguments and results have several float dtypes, in this call or, by the classes of an argument, in
    /// another one. The caller of the rule then casts its value.
    fn is_mixed(&self) -> bool {
        if self.row.sig.params.iter().any(|param| param.ty.elem.len() > 1) {
            return true;
        }
        let mut dtypes = FxHashSet::default();
        let outs: Vec<Value<ArgTy>> = self.case.solved.outs.iter().map(machine::promised).collect();
        for value in self.case.args.iter().chain(&outs) {
            dtypes.extend(value.tensors().map(|t| t.dtype).filter(|dtype| dtype.is_float()));
        }
        dtypes.len() > 1
    }

    fn compare_one(&self, want: &TensorTy, yielded: &Value<ArgTy>) -> Option<Diag> {
        let (code, what) = match tensor(yielded) {
            _ if yielded.is_absent() => return None,
            Some(have) if have.shape == want.shape && have.dtype == want.dtype => return None,
            Some(have) if have.shape == want.shape && have.dtype.is_float() && self.is_mixed() => return None,
            Some(have) if have.shape == want.shape => ("E403", "dtype"),
            _ => ("E402", "shape"),
        };
        let message = format!("{} has another {what} than `{}`", self.rule.name(), self.of);
        let diag = Diag::error(code, self.rule.text.at(self.block.value.span), message);
        let diag = diag.here(format!("this is {}, `{}` is {want}", show(yielded), self.of));
        let diag = diag.note(format!("for {}", self.case.show(self.row)));
        Some(match tensor(yielded) {
            _ if code == "E403" && chooses_numbers(self.row, self.block) => diag.help(
                "numbers alone have no dtype of a tensor: let tensors choose, `where(c, g, slope * g)`; cast, they have no more \
                 digits than f32",
            ),
            _ if code == "E403" => diag.help("cast the value: `(…) as T`"),
            Some(have) if broadcasts(have, want) => diag.help(self.smaller),
            Some(have) if !broadcasts(want, have) => diag.help(format!(
                "mend its sizes, or delete {}: what is derived has the shape of `{}`",
                self.rule.what, self.of
            )),
            _ => diag.help(self.larger),
        })
    }
}

/// Whether a text chooses between plain numbers: `if c { 1 } else { slope }`.
fn chooses_numbers(row: &Row, block: &Block) -> bool {
    let option = |name: Name| row.sig.opts.iter().any(|opt| opt.name.name == name);
    let number = |block: &Block| match &*block.value.node {
        Node::Int(_) | Node::Float(_) => true,
        Node::Name(name) => option(*name),
        _ => false,
    };
    walk::any(block, &mut |e| matches!(&*e.node, Node::If(_, yes, no) if number(yes) && number(no)))
}

/// Whether arguments of this type broadcast with others.
fn broadcasts_to_others(ty: &Type) -> bool {
    let broadcast = |dim: &DimPat| matches!(dim.kind, DimKind::Broadcast(_) | DimKind::BroadcastList(_));
    ty.dims.as_ref().is_none_or(|dims| dims.iter().any(broadcast))
}

/// Whether `small` broadcasts to `large`.
fn broadcasts(small: &TensorTy, large: &TensorTy) -> bool {
    let pairs = small.shape.iter().rev().zip(large.shape.iter().rev());
    small.rank() <= large.rank() && pairs.into_iter().all(|(a, b)| a == b || a.value() == 1)
}

fn tensor(v: &Value<ArgTy>) -> Option<&TensorTy> {
    match v {
        Value::Tensor(ArgTy::Tensor(t)) | Value::Type(t) => Some(t),
        _ => None,
    }
}
