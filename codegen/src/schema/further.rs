//! Files that say more about rows: maps from operators to further points and to other libraries' calls.
//!
//! The value of an operator is a list of points, or a map with the keys `points`, `aten` and `torch`, whose values are
//! those of the row's keys.

use fulgurite_core::Name;
use fulgurite_core::foreign::LIBRARIES;
use rustc_hash::FxHashMap;

use super::fields::Fields;
use super::{Calls, Database, Rule};
use crate::diag::{Diag, Diagnostics};
use crate::files;
use crate::nearest::nearest;
use crate::parallel;
use crate::source::{FileId, Place, Sources};
use crate::yaml::{self, Node, ScalarKind, Text, Value};
use fulgurite_core::lang::{Alias, parse_alias};

/// The entries of a file for an operator.
pub struct Further {
    /// The name of the operator.
    pub op: Text,
    /// The place of the name and its value.
    pub place: Place,
    /// The points, one map each.
    pub points: Vec<Node>,
    /// Names or call forms by library.
    pub aliases: Vec<(&'static str, Rule<Alias>)>,
}

/// Reads a file of points or calls; E001 to E006 are reported to `diags`.
pub fn read(file: FileId, sources: &Sources, diags: &mut Diagnostics) -> Vec<Further> {
    let Some(root) = yaml::read(file, sources, diags) else { return Vec::new() };
    let entries = match root.value {
        Value::Map(entries) => entries,
        Value::Null => return Vec::new(),
        _ => {
            let claim = format!("{} stands where a map from operators to points belongs", root.kind());
            let diag = Diag::error("E005", root.place.head(), claim);
            diags.push(diag.help("write the name of a row and below it its points: `- {x: 0, out: 1}`"));
            return Vec::new();
        }
    };
    entries.into_iter().map(|(op, node)| entry(op, node, diags)).collect()
}

fn entry(op: Text, node: Node, diags: &mut Diagnostics) -> Further {
    let place = op.place.to(node.place);
    let mut fields = Fields::new(diags);
    fields.op.clone_from(&op.text);
    let (mut points, mut aliases) = (Vec::new(), Vec::new());
    match node.value {
        Value::Map(keys) => {
            for (key, node) in keys {
                match LIBRARIES.into_iter().find(|library| key == **library) {
                    Some(library) => aliases.extend(calls(&mut fields, library, node)),
                    None if key == "points" => points = fields.points(node),
                    None => {
                        let claim = format!("`{}` is no key of `{}` in this file", key.as_str(), op.as_str());
                        let known = ["points"].into_iter().chain(LIBRARIES).collect::<Vec<_>>().join(", ");
                        let help = format!("its keys are {known}; points alone are a list: `- {{x: 0, out: 1}}`");
                        fields.error(Diag::error("E004", key.place, claim).help(help));
                    }
                }
            }
        }
        _ => points = fields.points(node),
    }
    points.retain(|point| matches!(point.value, Value::Map(_)));
    Further { op, place, points, aliases }
}

/// The value of the key `aten` or `torch`: names and call forms.
pub(super) fn calls(fields: &mut Fields, library: &'static str, node: Node) -> Vec<(&'static str, Rule<Alias>)> {
    let Value::List(items) = node.value else {
        fields.wrong_type(&node, library, "a list", Some("write `[name, 'name(argument, …)']`"));
        return Vec::new();
    };
    items.into_iter().filter_map(|item| Some((library, fields.rule(item, library, parse_alias)?))).collect()
}

/// E005: the value of the key `points` or `calls` of a database is not a path on the line of the key.
pub(super) fn path(key: &str, node: &Node, sources: &Sources, diags: &mut Diagnostics) {
    let written = files::path_of(&sources.file(node.place.file).text, key);
    let right = match &node.value {
        Value::Scalar(text) => text.kind == ScalarKind::Text && written == Some(text.as_str()),
        _ => false,
    };
    if !right {
        let (what, example) = if key == "points" { ("a folder", "tests/points") } else { ("a file", "calls.yaml") };
        let diag = Diag::error("E005", node.place, format!("`{key}` of a database is not the name of {what}"));
        let what = what.trim_start_matches("a ");
        diags
            .push(diag.help(format!("write the {what} on the line of the key, in front of `ops`: `{key}: {example}`")));
    }
}

/// Adds further points and calls to the rows, and the calls of upstream rows to the database. Reports the faults of the
/// files, and E007 and E008, to `diags`.
pub(super) fn attach(database: &mut Database, sources: &Sources, diags: &mut Diagnostics) {
    let files: Vec<FileId> = sources.points().iter().copied().chain(sources.calls()).collect();
    let read = parallel::map(&files, |file| {
        let mut diags = Diagnostics::new();
        (read(*file, sources, &mut diags), diags)
    });
    let names: Vec<String> = database.rows.iter().map(|row| row.op.text.clone()).collect();
    let at: FxHashMap<&str, usize> = names.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
    for (file, (further, faults)) in files.into_iter().zip(read) {
        diags.extend(faults);
        for further in further {
            let row = at.get(further.op.as_str()).and_then(|at| database.rows.get_mut(*at));
            match (sources.calls() == Some(file), row) {
                (true, None) => upstream(further, database, diags),
                (true, Some(row)) => {
                    let claim = format!("`{}` is a row of this database", further.op.text);
                    let diag = Diag::error("E008", further.op.place, claim).label(row.op.place, "its row");
                    diags.push(diag.help("write its calls in the row"));
                }
                (false, Some(row)) => {
                    if let Some(fault) = row.extend(further) {
                        diags.push(fault);
                    }
                }
                // The row has a fault of its own, which is already reported.
                (false, None) if database.broken.iter().any(|broken| *broken == further.op.as_str()) => {}
                (false, None) => {
                    let claim = format!("there are points of `{}`, and no such row", further.op.text);
                    let diag = Diag::error("E007", further.op.place, claim);
                    diags.push(match nearest(further.op.as_str(), names.iter().map(String::as_str)) {
                        Some(near) => diag.help(format!("did you mean `{near}`?")),
                        None => diag.help("each key is the name of a row, which an overload has in full: `matmul.mv`"),
                    });
                }
            }
        }
    }
    claims(database, diags);
}

fn upstream(further: Further, database: &mut Database, diags: &mut Diagnostics) {
    if let Some(point) = further.points.first() {
        let claim = format!("`{}` is a row of another database, and has its points there", further.op.text);
        diags.push(Diag::error("E004", point.place, claim).help("write only `aten` and `torch` here"));
    }
    let Further { op, place, aliases, .. } = further;
    database.calls.push(Calls { op, place, aliases });
}

/// E008: two rows claim one name of another library, and arguments do not distinguish the calls.
fn claims(database: &Database, diags: &mut Diagnostics) {
    let rows = database.rows.iter().map(|row| (&row.op, &row.aliases));
    let upstream = database.calls.iter().map(|calls| (&calls.op, &calls.aliases));
    let mut claimed: FxHashMap<Name, (Place, &str, bool)> = FxHashMap::default();
    for (op, (library, alias)) in upstream.chain(rows).flat_map(|(op, all)| all.iter().map(move |alias| (op, alias))) {
        let (name, place, bare) = (alias.tree.full(library), alias.text.place, alias.tree.given.is_none());
        // Call forms may share a name, since their arguments distinguish them.
        match claimed.get(&name) {
            Some((first, other, is_bare)) if *is_bare || bare => {
                let message = format!("`{name}` is claimed by `{other}` and `{}`", op.as_str());
                let diag = Diag::error("E008", place, message).here("here again").label(*first, "first here");
                diags.push(
                    diag.help("where arguments tell the calls apart, write both with their arguments: `name(x, …)`"),
                );
            }
            Some(_) => {}
            None => _ = claimed.insert(name, (place, op.as_str(), bare)),
        }
    }
}
