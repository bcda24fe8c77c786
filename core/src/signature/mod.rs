//! Solves a signature for the arguments of a call: binds sizes, dtypes and options; gives result types or a refusal.
//!
//! This is the one place that decides which calls are accepted and what they yield. Metas, argument parsing,
//! broadcasting and the refusals of every row are this code run on the row's signature, at build time and at run time.

mod arrange;
pub mod const_eval;
mod env;
pub mod labels;
mod numbers;
mod options;
mod results;
pub mod shapes;
mod sizes;
mod solve;
mod types;
mod val;

pub use arrange::arrange;
pub use env::{Env, Item, Size};
pub use results::{MOST_AXES, MOST_ITEMS};
pub use sizes::{Meeting, meet};
pub use solve::{accepted, attempt, solve, solve_types};
pub use types::{ArgTy, OutTy, Solved};

use crate::Name;
use crate::lang::ast::Span;
use std::fmt;

/// The refusal of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// E7xx: see docs/errors.
    pub code: &'static str,
    /// The claim, with the operator's arguments and the numbers.
    pub message: String,
    /// The argument at fault, if one is.
    pub arg: Option<Name>,
    /// The remedy.
    pub help: Option<String>,
    /// The part of the rule's own text at fault, if any; codegen shows it.
    pub at: Option<Span>,
    /// The index of the row's requirement that does not hold, if that is the reason.
    pub unmet: Option<u16>,
}

impl Refusal {
    /// A refusal without argument or help.
    pub fn new(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into(), arg: None, help: None, at: None, unmet: None }
    }
    /// This refusal at this part of the rule's text, unless a smaller part is already set.
    pub fn at(mut self, span: Span) -> Refusal {
        self.at.get_or_insert(span);
        self
    }
    /// This refusal, blaming an argument.
    pub fn arg(mut self, arg: Name) -> Refusal {
        self.arg = Some(arg);
        self
    }
    /// This refusal, with a remedy.
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
