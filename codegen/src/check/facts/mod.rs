//! What follows from a row, and why: what `explain` says beside the row itself.

mod family;
mod linear;

use std::sync::Arc;

use fulgurite_core::lang::{Access, Block, Elem};
use fulgurite_core::lower::{Rows, lower_with};
use fulgurite_core::nest::Nest;
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::{DType, Name};
use rustc_hash::FxHashSet;

use super::cases::{self, Case};
use super::walk;

pub use family::Family;
pub(crate) use family::is_affine;

/// A fact and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// `linear`
    pub name: &'static str,
    /// "in `a`, in `w`"
    pub value: String,
    /// "a sum of products with one element of it each"
    pub reason: String,
}

/// Everything that is derived about a row.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Elements of results depend on the elements at their own position.
    pub pointwise: bool,
    /// Results share the storage of an argument.
    pub view: bool,
    /// Results are drawn with a key.
    pub random: bool,
    /// Arguments that are written.
    pub writes: Vec<Name>,
    /// Arguments in each of which the results are linear.
    pub linear: Vec<Name>,
    /// The results are linear in all of `linear` together.
    pub jointly: bool,
    /// Which kernels serve it; composites have none of their own.
    pub family: Option<Family>,
    /// The same as text, with reasons.
    pub all: Vec<Fact>,
}

/// The facts of `row`. `rules` are its gradient rules, written and derived.
pub fn of(row: &Arc<Row>, rows: &dyn Rows, rules: &[(Name, Block)]) -> Facts {
    let family = cases::family(row, DType::F32);
    let case = typical(&family.cases);
    let nest = case.and_then(|case| Some((case, lower_with(row, row.index_body()?, &case.solved, rows).ok()?)));
    let pointwise = row.is_pointwise();
    let view = matches!(row.meaning, Meaning::View(_));
    let params = &row.sig.params;
    let random = row.takes_key();
    let writes = params.iter().filter(|p| p.access == Access::Mut).map(|p| p.name.name).collect();
    let (linear, jointly) = linearity(row, rows, case);
    let kernel = nest.as_ref().map(|(case, nest)| family::of(row, nest, case));
    let mut facts =
        Facts { pointwise, view, random, writes, linear, jointly, family: kernel.as_ref().map(|k| k.0), all: Vec::new() };
    facts.all = facts.texts(row, kernel.map(|k| k.1), rules);
    facts
}

/// A case in which tensors have axes and elements, and nothing optional is absent if that can be.
fn typical(cases: &[Case]) -> Option<&Case> {
    use fulgurite_core::Value;
    use fulgurite_core::sig::ArgTy;
    let elements = |v: &Value<ArgTy>| match v {
        Value::Tensor(ArgTy::Tensor(t)) => t.numel() > 1,
        Value::List(items) => items.len() > 1,
        _ => true,
    };
    cases.iter().find(|case| case.args.iter().all(elements)).or(cases.first())
}

/// The arguments in which the row is linear, one by one, and whether it is in all of them at once.
fn linearity(row: &Arc<Row>, rows: &dyn Rows, case: Option<&Case>) -> (Vec<Name>, bool) {
    let Some(case) = case else { return (Vec::new(), false) };
    let floats: Vec<usize> = (0..row.sig.params.len())
        .filter(|i| fulgurite_core::derive::differentiable(&row.sig.params[*i].ty) && !case.args[*i].is_absent())
        .collect();
    let alone: Vec<usize> = floats.into_iter().filter(|i| linear::is_linear(row, rows, case, &[*i])).collect();
    let jointly = alone.len() > 1 && linear::is_linear(row, rows, case, &alone);
    (alone.into_iter().map(|i| row.sig.params[i].name.name).collect(), jointly)
}

impl Facts {
    fn texts(&self, row: &Row, kernel: Option<String>, rules: &[(Name, Block)]) -> Vec<Fact> {
        let mut all = Vec::new();
        let mut fact = |name, value: String, reason: &str| all.push(Fact { name, value, reason: reason.to_owned() });
        if self.pointwise {
            fact("pointwise", "yes".into(), "no argument and no result has brackets");
        }
        if self.view {
            fact("view", "shares storage".into(), "`view`: one access with indices that grow evenly");
        }
        if !self.linear.is_empty() {
            let names = list(&self.linear);
            let together = if self.jointly { " together" } else { "" };
            fact("linear", format!("in {names}{together}"), "sums, moves and products with what does not depend on it");
        }
        if self.random {
            let keys = row.sig.params.iter().filter(|p| p.ty.elem.contains(&Elem::Key)).map(|p| p.name.name);
            fact("random", format!("by {}", list(&keys.collect::<Vec<_>>())), "an argument is a `Key`; same key, same numbers");
        }
        if !self.writes.is_empty() {
            fact("writes", list(&self.writes), "`mut`");
        }
        match (self.family, kernel) {
            (Some(family), Some(reason)) => fact("kernel", family.name().to_owned(), &reason),
            _ if row.is_composite() => fact("kernel", "none of its own".into(), "the rows of its body run, fused where they can be"),
            _ => fact("kernel", "a primitive of the runtime".into(), "`host`"),
        }
        let saved = saves(row, rules);
        if !saved.is_empty() {
            fact("saves", list(&saved), "its gradient rules read them");
        }
        all
    }
}

/// The arguments and results whose elements gradient rules read.
pub fn saves(row: &Row, rules: &[(Name, Block)]) -> Vec<Name> {
    let mut read = FxHashSet::default();
    for (_, rule) in rules {
        walk::names(rule, &mut |name| _ = read.insert(name));
    }
    let params = row.sig.params.iter().map(|param| param.name.name);
    let results = row.sig.outs.iter().chain(&row.sig.aux).map(|out| out.name.name);
    params.chain(results).filter(|name| read.contains(name)).collect()
}

fn list(names: &[Name]) -> String {
    names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Calls `f` on every part of every result.
pub(crate) fn each(nest: &Nest, f: &mut dyn FnMut(&fulgurite_core::nest::SExpr)) {
    for out in &nest.outs {
        super::run::each(&out.expr, &mut |part| f(part));
    }
}
