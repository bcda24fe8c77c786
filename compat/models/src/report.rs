//! The calls of a model that have no row: all of them, with the number of calls and a line of the source.

use crate::graph::ModelCall;
use crate::model::Model;
use crate::names::Implementation;
use fulgurite::Error;
use fulgurite::core::loc::Loc;
use std::collections::BTreeMap;
use std::path::Path;

/// A function that a model calls and that has no row.
#[derive(Clone, Debug, PartialEq)]
pub struct Missing {
    /// The name of the function in the file.
    pub target: String,
    /// The number of calls.
    pub calls: usize,
    /// The line of the source that made the first of them.
    pub loc: Loc,
}

/// The calls of the model that have no row, by name.
pub fn missing(model: &Model) -> Vec<Missing> {
    let mut found: BTreeMap<String, Missing> = BTreeMap::new();
    model.graph().walk(&mut |node: &ModelCall| {
        if *node.implementation() == Implementation::Missing {
            let new = || Missing { target: node.target.clone(), calls: 0, loc: node.loc };
            found.entry(node.target.clone()).or_insert_with(new).calls += 1;
        }
    });
    found.into_values().collect()
}

/// The refusal of a model with such calls.
pub fn refusal(path: &Path, missing: &[Missing]) -> Error {
    let calls: usize = missing.iter().map(|m| m.calls).sum();
    let claim = format!("`{}` makes {calls} calls that no row implements", path.display());
    let note = |m: &Missing| format!("{} × {} ({})", m.calls, m.target, m.loc);
    missing
        .iter()
        .fold(Error::new("E934", claim), |error, m| error.note(note(m)))
        .help("add rows with these names to a database that the program links (docs/downstream.md)")
}
