//! Mutants: rows with one fault each, and what finds it.
//!
//! A database is as good as the wrong rows that it refuses. [`mutants`] makes wrong rows out of the right ones, one
//! fault at a time ([`kinds`]); [`judge`] asks what refutes each. A fault in what a row states or implies twice must be
//! refuted by `check` alone. What a row says only once is its meaning: a fault there makes another operator, which its
//! examples or the values that PyTorch gave must refute.

pub mod classes;
pub mod command;
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
    /// Which row of the database.
    pub at: usize,
    /// Its name.
    pub row: Name,
    /// The fault's kind.
    pub kind: Kind,
    /// The key in which it is: `grad.x`, `expr`.
    pub key: String,
    /// What stands there in the right row, and here.
    pub edit: (String, String),
    /// Whether the row says nowhere else what was changed: then this is another operator.
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

/// `count` of `all` by a fixed choice that `seed` makes, in their order; all of them if there are no more.
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
