//! A signature met by arguments: sizes, dtypes and options bound; result types; refusals.
//!
//! This is the one place that decides what a call accepts and what it yields. Metas, argument parsing, broadcasting
//! and the refusal predicate of every row are this code run on the row's signature, at build time and at run time.

mod arrange;
mod env;
pub mod labels;
mod options;
mod results;
pub mod shapes;
mod sizes;
mod solve;
pub mod statics;
mod types;
mod val;

pub use arrange::arrange;
pub use env::{Env, Item, Size};
pub use results::MOST_ITEMS;
pub use solve::{accepted, attempt, solve, solve_types};
pub use types::{ArgTy, OutTy, Solved};

use crate::Name;
use crate::lang::ast::Span;
use std::fmt;

/// Why a call is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// E7xx: see docs/errors.
    pub code: &'static str,
    /// The claim: names the operator's arguments and the numbers.
    pub message: String,
    /// The argument at fault, if one is.
    pub arg: Option<Name>,
    /// What to do.
    pub help: Option<String>,
    /// Which part of the rule's own text is at fault, where one is (codegen shows it; a call has no such place).
    pub at: Option<Span>,
    /// Which of the conditions that the row states is not met, if that is why: its place among them.
    pub unmet: Option<u16>,
}

impl Refusal {
    /// A refusal without argument or help.
    pub fn new(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into(), arg: None, help: None, at: None, unmet: None }
    }
    /// The same, at this part of the rule's text, unless a smaller part is known already.
    pub fn at(mut self, span: Span) -> Refusal {
        self.at.get_or_insert(span);
        self
    }
    /// The same, blaming an argument.
    pub fn arg(mut self, arg: Name) -> Refusal {
        self.arg = Some(arg);
        self
    }
    /// The same, with a remedy.
    pub fn help(mut self, help: impl Into<String>) -> Refusal {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}
impl std::error::Error for Refusal {}
