//! Errors of compiling and running programs.

use crate::trace::BoundSymbolId;
use std::fmt;

/// An error of an executor. Its codes are:
///
/// | code | is |
/// |---|---|
/// | E801 | no executor runs a line, and it has no decomposition |
/// | E802 | an executor's claim does not fit the trace |
/// | E803 | inputs are not those for which the program was compiled |
/// | E804 | an index is out of range |
/// | E805 | an integer is divided by zero |
/// | E806 | there is not enough memory |
/// | E807 | a kernel failed |
/// | E808 | kernels do not compile |
/// | E809 | there is no such device |
/// | E811 | a program reads a value that it has not written |
#[derive(Clone, Debug, PartialEq)]
pub struct ExecError {
    /// The code, E8xx.
    pub code: &'static str,
    /// The claim, with values and numbers.
    pub message: String,
    /// The line at fault, if there is one.
    pub line: Option<BoundSymbolId>,
    /// The remedy.
    pub help: Option<String>,
}

impl ExecError {
    /// An error without a line.
    pub fn new(code: &'static str, message: impl Into<String>) -> ExecError {
        ExecError { code, message: message.into(), line: None, help: None }
    }
    /// Adds the line at fault.
    pub fn at(mut self, line: BoundSymbolId) -> ExecError {
        self.line = Some(line);
        self
    }
    /// Adds a remedy.
    pub fn help(mut self, help: impl Into<String>) -> ExecError {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for ExecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)?;
        match &self.help {
            Some(h) => write!(f, " (help: {h})"),
            None => Ok(()),
        }
    }
}
impl std::error::Error for ExecError {}
