//! E106: an index is divided by 0, by a literal one or by a size that is 0. E105: a size is divided by an option that
//! may be 0. The signature would refuse such a call, but its message names neither the option nor a remedy.

use fulgurite_core::builtins::Builtin;
use fulgurite_core::lang::{Block, Expr, Node, OptType, Span, Type};
use fulgurite_core::loop_nest::{LoopExpr, Nest, SOp};
use fulgurite_core::row::Row;
use fulgurite_core::signature::const_eval::{At, DIVIDED_BY_ZERO};
use fulgurite_core::signature::{self, Refusal, const_eval};
use fulgurite_core::{DType, Name, Scalar, Value};

use super::cases::{Case, Family};
use super::machine::Fault;
use super::report::Rule;
use super::walk::{self, any_in, find};
use crate::diag::Diag;

/// The fault of an index that is divided by a literal 0. Divisors that are sizes are tried with sizes of 0.
pub fn divides_by_zero(body: &Block, nest: &Nest) -> Option<Fault> {
    let at = by_literal(body)?;
    let refusal = || {
        Refusal::new("E706", "an index is divided by 0").help("divide by the size of an axis, or by a number above 0")
    };
    has_zero(nest).then(|| Fault { at: Some(at), ..refusal().into() })
}

/// The fault of loops that divide an index by a size which is 0 in this call; `None` if there is no such division, or a
/// literal 0 stands in the text, which another check reports.
pub fn divides_by_size(body: &Block, nest: &Nest, case: &Case) -> Option<Fault> {
    if by_literal(body).is_some() || !has_zero(nest) {
        return None;
    }
    let is_zero = |by: &Expr| {
        let value = const_eval::eval(&case.solved.env, by, At::default());
        value.is_ok_and(|value| value.int().is_ok_and(|size| size.value() == 0))
    };
    let found = walk::first(body, &mut |e| Some((e.span, divisor(e).filter(|by| is_zero(by))?.to_string())));
    let (at, by) = found.map_or((None, "its size".to_owned()), |(at, by)| (Some(at), by));
    let refusal = Refusal::new("E706", format!("an index is divided by `{by}`, which is 0"));
    let help = format!("refuse such calls, `require: {{'{by} > 0': …}}`, or choose by `if` what an empty axis gives");
    Some(Fault { at, ..refusal.help(help).into() })
}

/// The place where a text first divides by a literal 0.
fn by_literal(body: &Block) -> Option<Span> {
    find(body, &|e| divisor(e).is_some_and(|by| matches!(&*by.node, Node::Int(0))))
}

fn divisor(e: &Expr) -> Option<&Expr> {
    walk::division(e).map(|(_, by)| by)
}

/// Whether loops divide an integer by a number that is known to be 0 before they run.
pub fn has_zero(nest: &Nest) -> bool {
    any_in(nest, &mut is_by_zero)
}

/// Whether `part` divides an integer by a known 0.
pub fn is_by_zero(part: &LoopExpr) -> bool {
    let SOp::Call(Builtin::DivFloor | Builtin::RemFloor, args) = part.op() else { return false };
    part.ty() == DType::I64 && args.get(1).is_some_and(|by| by.as_int() == Some(0))
}

/// At most this many calls are tried with each option 0.
const TRIED: usize = 16;

/// The first option by which some size is divided and that may be 0.
pub fn by_options(rule: &Rule, row: &Row, family: &Family) -> Option<Diag> {
    let params = row.sig.params.len();
    let numbers = row.sig.opts.iter().enumerate().filter(|(_, opt)| {
        matches!(opt.ty, OptType::I64 | OptType::Num | OptType::Size(_) | OptType::Ints { .. } | OptType::Shape { .. })
    });
    numbers.into_iter().find_map(|(at, opt)| {
        let name = opt.name.name;
        if !is_read(row, name) {
            return None;
        }
        let case = family.cases.iter().take(TRIED).find(|case| {
            let mut args = case.args.clone();
            args[params + at] = Value::Num(Scalar::Int(0));
            signature::solve_types(row, &args).is_err_and(|refusal| refusal.message == DIVIDED_BY_ZERO)
        })?;
        let op = rule.source.op.as_str();
        let text = &rule.source.sig.text;
        let message = format!("a size of `{op}` is divided by `{name}`, which may be 0");
        let diag = Diag::error("E105", text.at(opt.name.span), message).here("nothing refuses 0");
        let diag = diag.note(format!("for {}, and `{name}` 0", case.show(row)));
        let condition = match opt.ty {
            OptType::Ints { .. } | OptType::Shape { .. } => format!("all[..]({name} > 0)"),
            _ => format!("{name} > 0"),
        };
        Some(
            diag.help(format!(
                "state it in `require` of `{op}`, before other conditions that divide by it: `{condition}`"
            )),
        )
    })
}

/// Whether a size of the results, or a condition, reads this option and so may divide by it.
fn is_read(row: &Row, option: Name) -> bool {
    let mut read = false;
    let mut meet = |name: Name| read |= name == option;
    let types = row.sig.outs.iter().chain(&row.sig.aux).map(|out| &out.ty);
    types.for_each(|ty: &Type| walk::ty(ty, &mut meet));
    row.require.iter().for_each(|require| walk::expr_names(&require.cond, &mut meet));
    read
}
