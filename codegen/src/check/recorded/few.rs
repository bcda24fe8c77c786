//! E414 and E415: for each name of another library that a row claims, the row must give the recorded values of a few calls of
//! that name, and there must be some.

use std::sync::LazyLock;

use fulgurite_core::Name;
use fulgurite_core::foreign::is_alias;
use fulgurite_core::lang::Alias;
use fulgurite_core::row::Row;
use rustc_hash::FxHashMap;
use serde_json::Value as Json;

use super::case::of_name;
use super::{Case, Forms, Runner};
use crate::check::rows::RowSet;
use crate::diag::Diag;
use crate::libraries::{is_default, overloads, owner};
use crate::schema::{Calls, RowSource, Rule};
use crate::source::Place;

/// Recorded calls by name, each with its outcome. `tools/mutate/tests/recorded.rs` chooses them.
static CALLS: LazyLock<FxHashMap<&'static str, Vec<(&'static str, &'static str)>>> = LazyLock::new(|| {
    let mut all: FxHashMap<&str, Vec<(&str, &str)>> = FxHashMap::default();
    let lines = include_str!("../../libraries/recorded.txt").lines().filter(|line| !line.starts_with('#'));
    for (name, call, came) in lines.filter_map(|line| {
        let mut parts = line.split('\t');
        Some((parts.next()?, parts.next()?, parts.next()?))
    }) {
        all.entry(name).or_default().push((call, came));
    }
    all
});

/// Whether values are recorded for calls of this name or of a sibling.
pub fn is_known(name: Name) -> bool {
    CALLS.contains_key(name.as_str()) || !siblings(name).is_empty()
}

/// The recorded names whose arguments are in the order of `name`. For a function of `torch` itself these are the
/// overloads of the operator with its name; for an operator, it is the function; for an operator of ONNX without a
/// version, each version.
fn siblings(name: Name) -> Vec<&'static str> {
    let (library, rest) = name.as_str().split_once('.').unwrap_or_default();
    let operator = rest.split('.').next().unwrap_or_default();
    let is_sibling = |known: &str| match (library, known.split_once('.')) {
        ("torch", Some(("aten", of))) => operator == rest && of.split('.').next() == Some(operator),
        ("aten", Some(("torch", of))) => of == operator,
        ("onnx", Some(("onnx", of))) => {
            of.rsplit_once('.').is_some_and(|(of, version)| of == rest && is_number(version))
        }
        _ => false,
    };
    let mut siblings: Vec<&str> = CALLS.keys().copied().filter(|known| is_sibling(known)).collect();
    siblings.sort_unstable();
    siblings
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

/// The recorded calls of `of`, made by `name`. With `bare`, arguments that equal their defaults are left out.
fn calls(of: &str, name: Name, bare: bool) -> impl Iterator<Item = Case> {
    let lines = CALLS.get(of).map_or(&[][..], Vec::as_slice).iter().enumerate();
    lines.filter_map(move |(n, (call, came))| {
        let [mut call, came]: [Json; 2] = [serde_json::from_str(call).ok()?, serde_json::from_str(came).ok()?];
        call["op"] = Json::String(name.as_str().to_owned());
        if bare {
            call["kwargs"].as_object_mut()?.retain(|param, given| !is_as_left_out(Name::new(of), param, given));
        }
        of_name(&call, &came, &format!("{name} ({n})"))
    })
}

/// Whether the given value equals the parameter's default in every overload.
fn is_as_left_out(name: Name, param: &str, given: &Json) -> bool {
    let ours = match given {
        Json::Null => "none".to_owned(),
        Json::Bool(_) | Json::Number(_) => given.to_string(),
        Json::String(word) => word.clone(),
        _ => return false,
    };
    let formals = overloads(name).into_iter().filter_map(|formals| formals.iter().find(|formal| formal.is(param)));
    let mut defaults = formals.map(|formal| formal.default.as_deref()).peekable();
    defaults.peek().is_some() && defaults.all(|theirs| theirs.is_some_and(|theirs| is_default(theirs, &ours)))
}

/// The verdict of the calls of a name on a row: the first difference, or `None` inside if the row is right. There is no
/// verdict if the row takes none of the calls.
fn said(row: &Row, name: Name, runner: &Runner) -> Option<Option<String>> {
    let ways = [false, true].into_iter().map(|bare| (name.as_str(), bare));
    let others = std::iter::once_with(|| siblings(name)).flatten().map(|of| (of, true));
    ways.chain(others).find_map(|(of, bare)| {
        let said = calls(of, name, bare).filter_map(|case| runner.differs(&case)).filter(|(taker, _)| *taker == row.op);
        let mut said = said.map(|(_, told)| told).peekable();
        said.peek()?;
        Some(said.find_map(|told| told))
    })
}

/// The names in a row's lists, with their places.
fn listed(aliases: &[(&'static str, Rule<Alias>)]) -> Vec<(Name, Place)> {
    let listed = aliases.iter().map(|(library, alias)| {
        let name = alias.tree.full(library);
        let name = name.as_str().strip_suffix(".default").map_or(name, Name::new);
        (name, alias.text.at(alias.tree.name.span))
    });
    listed.collect()
}

/// E414 and E415 of a row: compares it with the recorded values of every name that it claims.
pub fn check(source: &RowSource, row: &Row, set: &RowSet, forms: &Forms) -> Vec<Diag> {
    let own = is_alias(source.op.as_str()).then_some((source.name(), source.op.place));
    let mut names = listed(&source.aliases);
    names.extend(own.filter(|(name, _)| is_known(*name)));
    // Points are values from outside as well, so a row with points gets no E415.
    compared(row, names, source.tests.points.is_empty(), &Runner::new(set, forms, None))
}

/// E414 of other libraries' calls of an upstream row. The points of that row are not known here, so a name without
/// recorded values is not reported.
pub fn check_calls(calls: &Calls, row: &Row, set: &RowSet, forms: &Forms) -> Vec<Diag> {
    compared(row, listed(&calls.aliases), false, &Runner::new(set, forms, None))
}

fn compared(row: &Row, names: Vec<(Name, Place)>, alone: bool, runner: &Runner) -> Vec<Diag> {
    let mut faults: Vec<Diag> = Vec::new();
    for (name, place) in names {
        let owner = owner(name.as_str());
        match said(row, name, runner) {
            Some(None) => {}
            Some(Some(told)) => {
                let message = format!("`{}` does not give what {owner}'s `{name}` gives", row.op);
                let diag = Diag::error("E414", place, message).note(told);
                faults.push(diag.help("mend the row, or its form; a row that means something else has no such name"));
                break;
            }
            None if alone => {
                let message = format!("no recorded value of {owner} says whether `{name}` is `{}`", row.op);
                let diag = Diag::warning("E415", place, message);
                faults.push(diag.help(format!("state `points` with values that {owner} gives; or leave the name out")));
            }
            None => {}
        }
    }
    faults
}
