//! Faults of a command that are not faults of a row.

use std::io::{self, Write};
use std::path::Path;

use serde_json::json;

use super::paint::Paint;
use super::{FAILED, FINE, USAGE, finish};

/// The reason why a command stopped, if no row is at fault.
#[derive(Debug)]
pub struct CommandFault {
    /// The reader of the output closed it, so nothing is reported.
    unread: bool,
    status: i32,
    code: &'static str,
    claim: String,
    help: Option<String>,
}

impl CommandFault {
    /// Wrong use of the command: status 2.
    pub fn usage(code: &'static str, claim: impl Into<String>) -> CommandFault {
        CommandFault { unread: false, status: USAGE, code, claim: claim.into(), help: None }
    }

    /// The requested thing does not exist, or does not hold: status 1.
    pub fn failed(code: &'static str, claim: impl Into<String>) -> CommandFault {
        CommandFault { status: FAILED, ..CommandFault::usage(code, claim) }
    }

    /// A file that can't be read: E910.
    pub fn unreadable(path: &Path, why: &io::Error) -> CommandFault {
        CommandFault::usage("E910", format!("`{}` can't be read: {why}", path.display()))
    }

    /// A file that can't be written: E913.
    pub fn unwritable(path: &Path, why: &io::Error) -> CommandFault {
        CommandFault::usage("E913", format!("`{}` can't be written: {why}", path.display()))
    }

    /// Adds a proposal.
    pub fn help(self, help: impl Into<String>) -> CommandFault {
        CommandFault { help: Some(help.into()), ..self }
    }

    /// The exit status.
    pub fn status(&self) -> i32 {
        self.status
    }

    /// The code.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The claim: the fault in words.
    pub fn claim(&self) -> &str {
        &self.claim
    }

    /// The proposal.
    pub fn proposal(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// Reports the fault; returns the exit status.
    pub(super) fn report(&self, json: bool, paint: &Paint, out: &mut dyn Write, err: &mut dyn Write) -> i32 {
        if self.unread {
            return FINE;
        }
        if json {
            let object = json!({
                "v": 1, "code": self.code, "level": "error", "message": self.claim, "help": self.help,
            });
            return finish(writeln!(out, "{object}"), self.status);
        }
        let head = paint.error(&format!("error[{}]", self.code));
        let mut text = format!("{head}: {}\n", self.claim);
        if let Some(help) = &self.help {
            text += &format!("  = help: {help}\n");
        }
        finish(err.write_all(text.as_bytes()), self.status)
    }
}

/// An error while a result was written.
impl From<io::Error> for CommandFault {
    fn from(error: io::Error) -> CommandFault {
        let unread = error.kind() == io::ErrorKind::BrokenPipe;
        CommandFault { unread, ..CommandFault::usage("E913", format!("the output can't be written: {error}")) }
    }
}
