//! E105: a size that is divided by an option which may be 0. The signature would refuse such a call, but in words that
//! name neither the option nor what is to be done.

use fulgurite_core::Value;
use fulgurite_core::lang::{OptType, Type};
use fulgurite_core::row::Row;
use fulgurite_core::sig;
use fulgurite_core::sig::statics::DIVIDED_BY_ZERO;
use fulgurite_core::{Name, Scalar};

use super::cases::Family;
use super::report::Rule;
use super::walk;
use crate::diag::Diag;

/// Calls that are tried with each option 0.
const TRIED: usize = 16;

/// The first option that some size is divided by, and that may be 0.
pub fn check(rule: &Rule, row: &Row, family: &Family) -> Option<Diag> {
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
            sig::solve_types(row, &args).is_err_and(|refusal| refusal.message == DIVIDED_BY_ZERO)
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

/// Whether a size of the results, or a condition, may divide by this option: it reads it.
fn is_read(row: &Row, option: Name) -> bool {
    let mut read = false;
    let mut meet = |name: Name| read |= name == option;
    let types = row.sig.outs.iter().chain(&row.sig.aux).map(|out| &out.ty);
    types.for_each(|ty: &Type| walk::ty(ty, &mut meet));
    row.require.iter().for_each(|require| walk::expr_names(&require.cond, &mut meet));
    read
}
