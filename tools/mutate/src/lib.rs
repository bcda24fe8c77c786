//! Mutants: rows with one fault each, and the evidence that refutes them.
//!
//! The quality of a database shows in the wrong rows that it refuses. [`mutants`] makes wrong rows from the right ones,
//! one fault at a time ([`kinds`]); [`judge`] finds the evidence against each. `check` alone must refute a fault in a
//! fact that a row states or implies twice. A fact that a row states only once is its meaning: a fault there makes
//! another operator, which the row's examples or PyTorch's values must refute.

pub mod classes;
pub mod command;
mod downstream;
mod everywhere;
mod evidence;
mod exprs;
mod forms;
pub mod given;
mod hidden;
pub mod judge;
pub mod kinds;
mod nodes;
mod page;
pub mod recorded;
mod rows;
mod same;
pub mod score;
mod sigs;
mod terms;
mod turn;
pub mod witness;

use fulgurite_codegen::schema::Database;
use fulgurite_codegen::source::Sources;
use fulgurite_core::Name;

use kinds::Kind;

/// A row with a fault.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// The index of the row in the database.
    pub at: usize,
    /// The name of the row.
    pub row: Name,
    /// The fault's kind.
    pub kind: Kind,
    /// The key with the fault: `grad.x`, `expr`.
    pub key: String,
    /// The part in the right row, and its replacement.
    pub edit: (String, String),
    /// Whether the row states the changed fact only once, so that this is another operator.
    pub meaning: bool,
    /// The row's text, as an item of the list of rows.
    pub text: String,
}

/// Every mutant of every row, in the order of the file.
pub fn mutants(database: &Database, sources: &Sources) -> Vec<Mutant> {
    let mut all = Vec::new();
    for (at, row) in database.rows.iter().enumerate() {
        rows::mutants(at, row, sources, &mut all);
    }
    all
}

/// `count` of `all`, selected by `seed` and in their order; all of them if there are no more.
pub fn choose(all: Vec<Mutant>, count: usize, seed: u64) -> Vec<Mutant> {
    if count >= all.len() {
        return all;
    }
    let mut numbers = fulgurite_codegen::check::gradients::arrays::numbers::Numbers::new(seed);
    let mut left = count;
    let total = all.len();
    let picked = all.into_iter().enumerate().filter(|(at, _)| {
        let take = left >= total - at || numbers.draw() * ((total - at) as f64) < left as f64;
        left -= usize::from(take);
        take
    });
    picked.map(|(_, mutant)| mutant).collect()
}
