//! The gradient rules that a row declares, in the form that all checks of them read. `grad` leads from results to an
//! argument, `jvp` from an argument to results.

use fulgurite_core::derive::{self, Derived};
use fulgurite_core::lang::Block;
use fulgurite_core::row::Row;
use fulgurite_core::{Name, Named, Value};

use super::report;
use crate::schema::{RowSource, Rule};

/// Direction of a rule: from results to an argument, or from an argument to results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// `grad`
    Vjp,
    /// `jvp`
    Jvp,
}

/// A rule that a row states.
#[derive(Clone, Copy)]
pub struct Declared<'a> {
    /// The direction.
    pub way: Way,
    /// The argument.
    pub arg: Name,
    /// The position of the argument.
    pub at: usize,
    /// The rule.
    pub rule: &'a Rule<Block>,
}

/// Every `grad`, then every `jvp` of a row, where it is for an argument that the row has.
pub fn of(source: &RowSource) -> Vec<Declared<'_>> {
    let rules = source.grad.iter().map(|rule| (Way::Vjp, rule)).chain(source.jvp.iter().map(|rule| (Way::Jvp, rule)));
    let declared = rules.filter_map(|(way, (arg, rule))| {
        let arg = Name::new(arg.as_str());
        let at = source.sig.tree.params.iter().position(|param| param.name.name == arg)?;
        Some(Declared { way, arg, at, rule })
    });
    declared.collect()
}

/// Whether a row states a gradient rule.
pub fn any(source: &RowSource) -> bool {
    !source.grad.is_empty() || !source.jvp.is_empty()
}

impl<'a> Declared<'a> {
    /// The key: `grad` or `jvp`.
    pub fn key(&self) -> &'static str {
        match self.way {
            Way::Vjp => "grad",
            Way::Jvp => "jvp",
        }
    }

    /// The rule in a message: "`grad` in `x`".
    pub fn what(&self) -> String {
        format!("`{}` in `{}`", self.key(), self.arg)
    }

    /// The rule as reports name it.
    pub fn named(&self, source: &'a RowSource) -> report::Rule<'a> {
        report::Rule { source, what: self.what(), text: &self.rule.text }
    }

    /// The names of the values in which the rule is linear: a cotangent per result, or the tangent under both of its
    /// names.
    pub fn seeds(&self, row: &Row) -> Vec<Name> {
        match self.way {
            Way::Vjp => row.sig.outs.iter().map(|out| derive::cotangent(row, out.name.name)).collect(),
            Way::Jvp => vec![Name::new("t"), Name::new(&format!("t_{}", self.arg))],
        }
    }

    /// Binds the values in which the rule is linear to their names. A `grad` has one per result, a `jvp` reads the
    /// first.
    pub fn bind<T: Clone>(&self, row: &Row, values: &[Value<T>]) -> Vec<Named<T>> {
        let given = |n: usize| values.get(if self.way == Way::Vjp { n } else { 0 }).cloned();
        self.seeds(row).into_iter().enumerate().filter_map(|(n, name)| Some((name, given(n)?))).collect()
    }
}

/// The rule in force for the gradient of an argument: the declared one, else the derived one.
pub fn holding<'r>(row: &'r Row, derived: &'r Derived, arg: Name) -> Option<&'r Block> {
    let written = row.vjp.iter().find(|(of, _)| *of == arg).map(|(_, rule)| rule);
    written.or_else(|| derived.rule(arg))
}

/// The results of a row, then the auxiliary ones, by the names under which rules read them.
pub fn results<T: Clone>(row: &Row, values: &[Value<T>]) -> Vec<Named<T>> {
    let sig = &row.sig;
    let outs = sig.outs.iter().chain(&sig.aux);
    let mut names: Vec<_> = outs.zip(values).map(|(out, value)| (out.name.name, value.clone())).collect();
    if let ([out], Some(value)) = (sig.outs.as_slice(), values.first())
        && out.name.name != "out"
    {
        names.push((Name::new("out"), value.clone()));
    }
    names
}
