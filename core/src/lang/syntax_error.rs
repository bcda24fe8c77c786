//! What is said about a text that leaves the grammar.

use std::fmt;

use super::ast::Span;

/// A place where a text leaves the grammar.
#[derive(Clone, Debug, PartialEq)]
pub struct SyntaxError {
    /// What stands there (empty at the end of the text).
    pub span: Span,
    /// What the grammar admits there: "`,` or `)`".
    pub expected: String,
    /// What was met: "`;`", "the end of the text".
    pub found: String,
    /// How to write what was probably meant.
    pub help: Option<String>,
    /// The bracket that is still open there, where its partner was expected.
    pub opened: Option<Span>,
}

impl SyntaxError {
    /// An error without help.
    pub(super) fn new(span: Span, expected: impl Into<String>, found: impl Into<String>) -> SyntaxError {
        SyntaxError { span, expected: expected.into(), found: found.into(), help: None, opened: None }
    }

    /// The same with a proposal where it has none yet.
    pub(super) fn help_otherwise(self, text: &str) -> SyntaxError {
        if self.help.is_some() { self } else { self.help(text) }
    }

    /// The same with a proposal.
    pub(super) fn help(mut self, text: impl Into<String>) -> SyntaxError {
        self.help = Some(text.into());
        self
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found {}", self.expected, self.found)?;
        match &self.help {
            Some(help) => write!(f, " (help: {help})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for SyntaxError {}
