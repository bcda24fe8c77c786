//! Files of points: maps from operators to values of the key `tests: {points: […]}`.

use rustc_hash::FxHashMap;

use super::Database;
use super::fields::Fields;
use crate::diag::{Diag, Diagnostics};
use crate::files;
use crate::nearest::nearest;
use crate::parallel;
use crate::source::{FileId, Place, Sources};
use crate::yaml::{self, Node, ScalarKind, Text, Value};

/// Further points of an operator.
pub struct Further {
    /// The name of the operator.
    pub op: Text,
    /// The place of the name and its points.
    pub place: Place,
    /// The points, one map each.
    pub points: Vec<Node>,
}

/// Reads a file of points; E001 to E005 are reported to `diags`.
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
    let further = |(op, node): (Text, Node)| {
        let place = op.place.to(node.place);
        let mut fields = Fields::new(diags);
        fields.op.clone_from(&op.text);
        let mut points = fields.points(node);
        points.retain(|point| matches!(point.value, Value::Map(_)));
        Further { op, place, points }
    };
    entries.into_iter().map(further).collect()
}

/// E005: the value of the key `points` of a database is not a folder on the line of the key.
pub(super) fn folder(node: &Node, sources: &Sources, diags: &mut Diagnostics) {
    let written = files::folder_of(&sources.file(node.place.file).text);
    let right = match &node.value {
        Value::Scalar(text) => text.kind == ScalarKind::Text && written == Some(text.as_str()),
        _ => false,
    };
    if !right {
        let diag = Diag::error("E005", node.place, "`points` of a database is not the name of a folder");
        diags.push(diag.help("write the folder on the line of the key, in front of `ops`: `points: tests/points`"));
    }
}

/// Adds further points to the rows. Reports the faults of the files, and E007 and E008, to `diags`.
pub(super) fn attach(database: &mut Database, sources: &Sources, diags: &mut Diagnostics) {
    let read = parallel::map(sources.points(), |file| {
        let mut diags = Diagnostics::new();
        (read(*file, sources, &mut diags), diags)
    });
    let names: Vec<String> = database.rows.iter().map(|row| row.op.text.clone()).collect();
    let at: FxHashMap<&str, usize> = names.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
    for (further, faults) in read {
        diags.extend(faults);
        for Further { op, place, points } in further {
            let Some(row) = at.get(op.as_str()).and_then(|at| database.rows.get_mut(*at)) else {
                // The row has a fault of its own, which is reported.
                if !database.broken.iter().any(|broken| *broken == op.as_str()) {
                    let diag =
                        Diag::error("E007", op.place, format!("there are points of `{}`, and no such row", op.text));
                    diags.push(match nearest(op.as_str(), names.iter().map(String::as_str)) {
                        Some(near) => diag.help(format!("did you mean `{near}`?")),
                        None => diag.help("each key is the name of a row, which an overload has in full: `matmul.mv`"),
                    });
                }
                continue;
            };
            if let Some(first) = row.further.replace(place) {
                let claim = format!("there are points of `{}` in two places", op.text);
                let diag = Diag::error("E008", op.place, claim).here("here again").label(first.head(), "first here");
                diags.push(diag.help("write all of them below one key"));
            }
            row.tests.points.extend(points);
        }
    }
}
