//! What goes wrong when programs are compiled and run.

use crate::trace::BoundSymbolId;
use std::fmt;

/// An error of an executor. Codes:
///
/// | code | is |
/// |---|---|
/// | E801 | nobody runs a line, and it has no decomposition |
/// | E802 | an executor's claim does not fit the trace |
/// | E803 | inputs that are not those for which the program was compiled |
/// | E804 | an index out of range |
/// | E805 | division of an integer by zero |
/// | E806 | not enough memory |
/// | E807 | a kernel failed |
/// | E808 | kernels do not compile |
/// | E809 | there is no such device |
/// | E811 | a program reads a value that it has not written |
#[derive(Clone, Debug, PartialEq)]
pub struct ExecError {
    /// E8xx.
    pub code: &'static str,
    /// The claim: names values and numbers.
    pub message: String,
    /// The line at fault, if one is.
    pub line: Option<BoundSymbolId>,
    /// What to do.
    pub help: Option<String>,
}

impl ExecError {
    /// An error of no line.
    pub fn new(code: &'static str, message: impl Into<String>) -> ExecError {
        ExecError { code, message: message.into(), line: None, help: None }
    }
    /// The same, blaming a line.
    pub fn at(mut self, line: BoundSymbolId) -> ExecError {
        self.line = Some(line);
        self
    }
    /// The same, with a remedy.
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
