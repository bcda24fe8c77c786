//! Operators on tensors of subclasses that executors handle: kernels for the whole line, and gradients.
//!
//! An executor that brings a gradient must be able to run the forward, because the two belong together.

use super::{SubclassRef, Symbol, SymbolRef, find, register};
use crate::error::Error;
use fulgurite_core::lang::{parse_rule, parse_sig};
use fulgurite_core::row::{Meaning, Row, RowText};
use fulgurite_core::subclass::Grads;
use fulgurite_core::{Name, TensorTy};
use std::sync::{Arc, Mutex};

/// A gradient of an operator on a class that an executor brought.
#[derive(Clone, Debug)]
pub struct OuterGrad {
    pub executor: &'static str,
    class: Name,
    op: Name,
    /// For each argument, a rule in the form of a class's `grad`.
    pub grads: Arc<Grads>,
}

static GRADS: Mutex<Vec<OuterGrad>> = Mutex::new(Vec::new());

/// Adds a gradient of `op` on `class`; it replaces one of this executor.
///
/// # Errors
/// E006 for a rule that does not parse.
pub(crate) fn add_grad(executor: &'static str, class: Name, op: Name, rules: &[(&str, &str)]) -> Result<(), Error> {
    let rule = |(arg, rule): &(&str, &str)| {
        let block = parse_rule(rule).map_err(|e| {
            Error::new("E006", format!("the gradient of `{op}` on `{class}` by `{arg}` does not parse: {e}"))
        })?;
        Ok::<_, Error>((Name::new(arg), block))
    };
    let grads = Arc::new(rules.iter().map(rule).collect::<Result<_, _>>()?);
    let mut known = GRADS.lock().unwrap_or_else(|e| e.into_inner());
    known.retain(|g| (g.executor, g.class, g.op) != (executor, class, op));
    known.push(OuterGrad { executor, class, op, grads });
    Ok(())
}

/// The gradient of `op` on `class` by the first of these executors that has one.
pub(crate) fn grad(executors: &[&'static str], class: SubclassRef, op: Name) -> Option<OuterGrad> {
    let known = GRADS.lock().unwrap_or_else(|e| e.into_inner());
    let of = |executor: &&str| known.iter().find(|g| g.executor == *executor && g.class == class.name() && g.op == op);
    executors.iter().find_map(of).cloned()
}

/// The symbol of a line that an executor claimed whole: it takes plain tensors of these types and returns plain
/// tensors.
///
/// # Errors
/// E709 if a type can't be written.
pub(crate) fn claimed(of: SymbolRef, ins: &[TensorTy], outs: &[TensorTy]) -> Result<SymbolRef, Error> {
    let typed = |prefix: &str, types: &[TensorTy]| -> Vec<String> {
        types.iter().enumerate().map(|(i, ty)| format!("{prefix}{i}: {ty}")).collect()
    };
    let sig = format!("({}) -> ({})", typed("x", ins).join(", "), typed("y", outs).join(", "));
    let name = Name::new(&format!("{}.claimed.{:016x}", of.name(), super::hash(&sig)));
    if let Some(known) = find(name) {
        return Ok(known);
    }
    let parsed = parse_sig(&sig).map_err(|e| Error::bug("E709", format!("a claimed line `{sig}`: {e}")))?;
    let blank = RowText {
        op: "",
        sig: "() -> f32[]",
        kind: fulgurite_core::row::MeaningKind::Host,
        body: "claimed",
        ..RowText::BLANK
    };
    let row = Row::parse(&blank).map_err(|e| Error::bug("E709", format!("a claimed line: {e}")))?;
    let row = Row { op: name, sig: parsed, meaning: Meaning::Host(name), ..row };
    Ok(register(Symbol::leak_row(of, row)))
}
