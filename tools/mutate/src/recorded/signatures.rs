//! Compares call forms with PyTorch's signatures: names, order, types and defaults of parameters.
//!
//! A fact is an agreement between the form of a right row and the signature. A changed form that loses a fact is
//! refuted.

use std::collections::BTreeSet;

use fulgurite_core::Name;
use fulgurite_core::lang::{Alias, Becomes, Count, Elem, Expr, Given, Opt, OptType, Param};
use fulgurite_core::row::{Meaning, Row};

use fulgurite_codegen::libraries::{Formal, signature};
use fulgurite_codegen::schema::RowSource;

/// An argument of a row.
enum Argument<'a> {
    Param(&'a Param),
    Option(&'a Opt),
}

/// The facts on which the forms of this row and the signatures agree.
pub fn facts(source: &RowSource, row: &Row) -> BTreeSet<String> {
    let mut facts = BTreeSet::new();
    for (n, (library, alias)) in source.aliases.iter().enumerate() {
        let name = alias.tree.full(library);
        if let Some(formals) = signature(name) {
            // The number distinguishes forms of one name.
            of_form(&format!("{name} ({n})"), &alias.tree, row, formals, &mut facts);
            shares(name.as_str(), row, formals, &mut facts);
        }
    }
    if let Some(formals) = signature(row.op) {
        by_place(row.op.as_str(), row, formals, true, &mut facts);
        shares(row.op.as_str(), row, formals, &mut facts);
    }
    facts
}

/// Adds the fact that the result of a view shares the storage of an argument. The signature says so by `Tensor(a)` or
/// `Tensor(a -> *)`, while `Tensor(a!)` is written to.
fn shares(what: &str, row: &Row, formals: &[Formal], facts: &mut BTreeSet<String>) {
    let shown = |formal: &Formal| formal.ty.starts_with("Tensor(a") && !formal.ty.contains('!');
    if formals.iter().any(shown) && matches!(row.meaning, Meaning::View(_)) {
        facts.insert(format!("{what}: the result shares storage"));
    }
}

fn arguments(row: &Row) -> Vec<(Name, Argument<'_>)> {
    let params = row.sig.params.iter().map(|p| (p.name.name, Argument::Param(p)));
    params.chain(row.sig.opts.iter().map(|o| (o.name.name, Argument::Option(o)))).collect()
}

/// Adds the facts of the row's own arguments and the parameters at the same positions; with `named`, only those with
/// equal names.
fn by_place(what: &str, row: &Row, formals: &[Formal], named: bool, facts: &mut BTreeSet<String>) {
    for ((name, argument), formal) in arguments(row).iter().zip(formals) {
        if named && *name != formal.name.as_str() {
            continue;
        }
        facts.insert(format!("{what}: {} has its place", formal.name));
        if default_of(argument).is_some_and(|ours| formal.has_default(&ours)) {
            facts.insert(format!("{what}: default of {}", formal.name));
        }
        if fits(argument, formal) {
            facts.insert(format!("{what}: type of {}", formal.name));
        }
    }
}

fn of_form(what: &str, alias: &Alias, row: &Row, formals: &[Formal], facts: &mut BTreeSet<String>) {
    let Some(given) = &alias.given else { return by_place(what, row, formals, false, facts) };
    let all = arguments(row);
    for (at, param) in given.iter().enumerate() {
        let Some(place) = formals.iter().position(|f| f.name == param.name.name.as_str()) else { continue };
        let formal = &formals[place];
        if place == at {
            facts.insert(format!("{what}: {} has its place", formal.name));
        }
        let argument = match &param.becomes {
            Becomes::Argument { name, .. } => all.iter().find(|(n, _)| *n == name.name).map(|(_, a)| a),
            _ => None,
        };
        if default_in(param, argument).is_some_and(|ours| formal.has_default(&ours)) {
            facts.insert(format!("{what}: default of {}", formal.name));
        }
        if argument.is_some_and(|argument| fits(argument, formal)) {
            facts.insert(format!("{what}: type of {}", formal.name));
        }
        match &param.becomes {
            Becomes::Argument { count: Some(Count::Some(n)), .. } if formal.ty.contains(&format!("[{n}]")) => {
                facts.insert(format!("{what}: {} has {n} entries", formal.name));
            }
            Becomes::Argument { count: Some(Count::Axes), .. } if formal.ty.contains("[]") => {
                facts.insert(format!("{what}: {} has an entry for each axis", formal.name));
            }
            _ => {}
        }
    }
    // A fixed argument is one that the row needs and PyTorch's parameters do not give.
    for (name, value) in &alias.fixed {
        facts.insert(format!("{what}: {} is fixed as {value}", name.name));
    }
}

/// The default of a form's parameter; `None` for a parameter that becomes no argument.
fn default_in(param: &Given, argument: Option<&Argument>) -> Option<String> {
    param.value.as_ref().map(Expr::to_string).or_else(|| default_of(argument?))
}

fn default_of(argument: &Argument) -> Option<String> {
    Some(match argument {
        Argument::Param(p) => if p.optional { "none" } else { "required" }.to_owned(),
        Argument::Option(o) => match &o.default {
            Some(default) => default.to_string(),
            None => if o.optional { "none" } else { "required" }.to_owned(),
        },
    })
}

/// Whether the declared type of a parameter is the type of the argument.
fn fits(argument: &Argument, formal: &Formal) -> bool {
    let ty = formal.ty.trim_end_matches(" | None").trim_end_matches('?');
    let base = ty.split('[').next().unwrap_or(ty);
    let list = ty.contains('[');
    match argument {
        Argument::Param(p) => match base {
            "Tensor" => p.ty.list.is_some() == list && !p.ty.elem.contains(&Elem::Key),
            "Scalar" => p.ty.dims.as_ref().is_none_or(Vec::is_empty),
            _ => false,
        },
        Argument::Option(o) => match (&o.ty, base) {
            (OptType::F64, "float" | "Scalar") | (OptType::Num, "Scalar") | (OptType::Bool, "bool") => !list,
            (OptType::I64 | OptType::Dim(_) | OptType::Pos(_) | OptType::Bound(_), "int" | "SymInt") => !list,
            (OptType::Size(_), "int" | "SymInt") => !list,
            (OptType::Str | OptType::Enum(_), "str" | "int") | (OptType::Dtype(_), "ScalarType") => !list,
            (OptType::Ints { .. } | OptType::Dims { .. } | OptType::Perm(_) | OptType::Shape { .. }, _) => {
                matches!(base, "int" | "SymInt")
            }
            _ => false,
        },
    }
}
