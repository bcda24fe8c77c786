//! `cargo ops list --grades`: how far each claim about each row is known to hold.

use std::collections::BTreeMap;
use std::io::Write;

use fulgurite_codegen::grade::Grade;
use serde_json::json;

use super::load::Loaded;
use super::paint::Paint;
use super::{Common, FINE, Outcome};
use crate::claim::{GradedClaim, weaker};
use crate::explain::grades::{self, GradedRow};

/// The columns, and the width of each.
const COLUMNS: [&str; 6] = ["shapes", "indices", "types", "values", "gradient", "facts"];
const WIDTH: usize = 9;

pub(super) fn list(loaded: &Loaded, common: &Common, paint: &Paint, out: &mut dyn Write) -> Outcome {
    let rows = grades::all(&loaded.database, &loaded.checked, &loaded.table());
    let mut totals: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    for claim in rows.iter().flat_map(|row| &row.claims) {
        totals.entry(column(claim)).or_default()[claim.grade.index()] += 1;
    }
    if common.json {
        for row in &rows {
            let claims: Vec<_> = row.claims.iter().map(GradedClaim::json).collect();
            writeln!(out, "{}", json!({"v": 1, "op": row.op, "claims": claims}))?;
        }
        let totals: BTreeMap<_, _> = totals
            .iter()
            .map(|(column, counts)| (*column, Grade::WORDS.into_iter().zip(counts).collect::<BTreeMap<_, _>>()))
            .collect();
        writeln!(out, "{}", json!({"v": 1, "kind": "totals", "rows": rows.len(), "claims": totals}))?;
        return Ok(FINE);
    }
    let widest = rows.iter().map(|row| row.op.len()).max().unwrap_or(0).max(14);
    let cells = |cells: Vec<String>| cells.iter().map(|cell| format!("  {cell:<WIDTH$}")).collect::<String>();
    let line = |head: &str, row: Vec<String>| format!("{head:<widest$}{}", cells(row)).trim_end().to_owned();
    let head = line("", COLUMNS.map(str::to_owned).to_vec());
    writeln!(out, "{}", paint.faint(&head))?;
    for row in &rows {
        let row_cells = COLUMNS.map(|column| weakest(row, column).map_or("-", Grade::word).to_owned());
        let text = line(&row.op, row_cells.to_vec());
        let (op, rest) = text.split_at(row.op.len());
        writeln!(out, "{}{rest}", paint.verb(op))?;
    }
    writeln!(out)?;
    for (n, word) in Grade::WORDS.into_iter().enumerate() {
        let counts = COLUMNS.map(|column| totals.get(column).map_or(0, |counts| counts[n]).to_string());
        writeln!(out, "{}", line(&format!("claims {word}"), counts.to_vec()))?;
    }
    Ok(FINE)
}

/// The weakest claim of a row in a column.
fn weakest(row: &GradedRow, wanted: &str) -> Option<Grade> {
    row.claims.iter().filter(|claim| column(claim) == wanted).map(|claim| claim.grade).reduce(weaker)
}

/// The column in which a claim counts.
fn column(claim: &GradedClaim) -> &'static str {
    let rule = claim.what.starts_with("d/d") || claim.what.starts_with("jvp ");
    match COLUMNS.into_iter().find(|column| *column == claim.what) {
        Some(column) => column,
        None if rule => "gradient",
        None => "facts",
    }
}
