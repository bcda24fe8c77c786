//! What stops a command that no row is to blame for.

use std::io::{self, Write};
use std::path::Path;

use serde_json::json;

use super::paint::{Ink, Paint};
use super::{FAILED, FINE, USAGE, finish};

/// Why a command stopped.
#[derive(Debug)]
pub(super) struct Fault {
    /// Whoever read the output went away: their decision, nothing to complain about.
    unread: bool,
    status: i32,
    code: &'static str,
    claim: String,
    help: Option<String>,
}

impl Fault {
    /// Wrong use.
    pub(super) fn usage(code: &'static str, claim: impl Into<String>) -> Fault {
        Fault { unread: false, status: USAGE, code, claim: claim.into(), help: None }
    }

    /// What was asked is not there, or does not hold.
    pub(super) fn failed(code: &'static str, claim: impl Into<String>) -> Fault {
        Fault { status: FAILED, ..Fault::usage(code, claim) }
    }

    /// E910
    pub(super) fn unreadable(path: &Path, why: &io::Error) -> Fault {
        Fault::usage("E910", format!("`{}` can't be read: {why}", path.display()))
    }

    /// E913
    pub(super) fn unwritable(path: &Path, why: &io::Error) -> Fault {
        Fault::usage("E913", format!("`{}` can't be written: {why}", path.display()))
    }

    /// With a proposal.
    pub(super) fn help(self, help: impl Into<String>) -> Fault {
        Fault { help: Some(help.into()), ..self }
    }

    /// Says it; gives the exit status.
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
        let head = paint.ink(Ink::Error, &format!("error[{}]", self.code));
        let mut text = format!("{head}: {}\n", self.claim);
        if let Some(help) = &self.help {
            text += &format!("  = help: {help}\n");
        }
        finish(err.write_all(text.as_bytes()), self.status)
    }
}

/// Writing a result failed.
impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        let unread = error.kind() == io::ErrorKind::BrokenPipe;
        Fault { unread, ..Fault::usage("E913", format!("the output can't be written: {error}")) }
    }
}
