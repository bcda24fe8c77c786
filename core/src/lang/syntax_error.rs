//! Errors of texts that leave the grammar.

use std::fmt;

use super::ast::Span;

/// A place where a text leaves the grammar.
#[derive(Clone, Debug, PartialEq)]
pub struct SyntaxError {
    /// The place of the unexpected text (empty at the end).
    pub span: Span,
    /// The forms that the grammar admits there: "`,` or `)`".
    pub expected: String,
    /// The unexpected token: "`;`", "the end of the text".
    pub found: String,
    /// How to write the probable intention.
    pub help: Option<String>,
    /// The open bracket, where its partner was expected.
    pub opened: Option<Span>,
}

impl SyntaxError {
    /// An error without help.
    pub(super) fn new(span: Span, expected: impl Into<String>, found: impl Into<String>) -> SyntaxError {
        SyntaxError { span, expected: expected.into(), found: found.into(), help: None, opened: None }
    }

    /// This error with a proposal, unless it has one.
    pub(super) fn help_otherwise(self, text: &str) -> SyntaxError {
        if self.help.is_some() { self } else { self.help(text) }
    }

    /// This error with a proposal.
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
