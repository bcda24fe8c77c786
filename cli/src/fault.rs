//! Faults of commands: a code, a claim, values, a remedy, and the exit status.
//!
//! Texts have the form of docs/architecture.md: `error[E914]: claim`, the line of the expression that it is about, then
//! `=` lines, then `help:`. An error of the library ([`fulgurite::Error`]) that has a place of its own keeps the text
//! that it prints itself.

use crate::excerpt::Excerpt;
use fulgurite::core::loc::Loc;
use fulgurite_ops_verbs::explain::wrap;
use serde_json::{Value, json};
use std::fmt;
use std::ops::Range;
use std::path::Path;

/// Columns of an `=` line.
const WIDTH: usize = 95;

/// The result of a command.
pub type Outcome = Result<(), Fault>;

/// Exit status of a failed check: a loss that is not finite, an operator that refuses.
pub const FAILED: u8 = 1;
/// Exit status of wrong use: files, options, expressions.
pub const USAGE: u8 = 2;
/// Exit status of a bug in this program.
pub const BUG: u8 = 101;

/// The reason why a command stopped.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// The exit status.
    pub status: u8,
    /// The code, such as `E914`.
    pub code: &'static str,
    /// The fault in one sentence: lower case, no full stop, true by itself.
    pub claim: String,
    /// The part of an expression that it concerns.
    pub excerpt: Option<Box<Excerpt>>,
    /// The `=` lines.
    pub notes: Vec<String>,
    /// The remedies.
    pub helps: Vec<String>,
    /// The whole text, if the library made it.
    pub text: Option<Box<str>>,
}

impl Fault {
    fn new(status: u8, code: &'static str, claim: impl Into<String>) -> Fault {
        Fault { status, code, claim: claim.into(), excerpt: None, notes: Vec::new(), helps: Vec::new(), text: None }
    }

    /// Wrong use: status 2.
    pub fn usage(code: &'static str, claim: impl Into<String>) -> Fault {
        Fault::new(USAGE, code, claim)
    }

    /// A command that ran and failed: status 1.
    pub fn failed(code: &'static str, claim: impl Into<String>) -> Fault {
        Fault::new(FAILED, code, claim)
    }

    /// E910: a file that can't be read.
    pub fn unreadable(path: &Path, why: &std::io::Error) -> Fault {
        Fault::usage("E910", format!("`{}` can't be read: {}", path.display(), plain(why)))
    }

    /// E913: a file that can't be written.
    pub fn unwritable(path: &Path, why: &std::io::Error) -> Fault {
        Fault::usage("E913", format!("`{}` can't be written: {}", path.display(), plain(why)))
    }

    /// Adds an `=` line.
    pub fn note(mut self, note: impl Into<String>) -> Fault {
        self.notes.push(note.into());
        self
    }

    /// Adds a remedy.
    pub fn help(mut self, help: impl Into<String>) -> Fault {
        self.helps.push(help.into());
        self
    }

    /// Marks the part of an expression that the fault concerns, unless it shows a source already.
    pub fn in_expression(self, text: &str, at: Range<usize>) -> Fault {
        if self.text.is_some() || self.excerpt.is_some() {
            return self;
        }
        Fault { excerpt: Some(Box::new(Excerpt::new(text, at))), ..self }
    }

    /// The fault as an object, for `--json`.
    pub fn json(&self) -> Value {
        let span = self.excerpt.as_ref().map(|excerpt| [excerpt.span.start, excerpt.span.end]);
        json!({
            "v": 1, "event": "error", "code": self.code, "claim": self.claim, "status": self.status,
            "span": span, "notes": self.notes, "help": self.helps,
        })
    }
}

/// An error of the library: wrong use if it concerns a file, a bug if it says so.
impl From<fulgurite::Error> for Fault {
    fn from(e: fulgurite::Error) -> Fault {
        let ours = e.notes().iter().any(|note| note.contains("bug in fulgurite"));
        let status = match e.code() {
            _ if ours => BUG,
            code if code.starts_with("E9") => USAGE,
            _ => FAILED,
        };
        let located = e.loc() != Loc::NOWHERE;
        Fault {
            status,
            code: e.code(),
            claim: e.claim().to_owned(),
            excerpt: None,
            notes: e.notes().to_vec(),
            helps: e.helps().to_vec(),
            text: located.then(|| e.to_string().into_boxed_str()),
        }
    }
}

/// A fault of a verb of `cargo ops`.
impl From<fulgurite_ops_verbs::cli::CommandFault> for Fault {
    fn from(e: fulgurite_ops_verbs::cli::CommandFault) -> Fault {
        let fault = Fault::usage(e.code(), e.claim().to_owned());
        let fault = Fault { status: u8::try_from(e.status()).unwrap_or(BUG), ..fault };
        match e.proposal() {
            Some(help) => fault.help(help.to_owned()),
            None => fault,
        }
    }
}

/// The reason of an I/O error without `(os error 2)`, in lower case.
fn plain(why: &std::io::Error) -> String {
    let text = why.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            return f.write_str(text);
        }
        write!(f, "error[{}]: {}", self.code, self.claim)?;
        if let Some(excerpt) = &self.excerpt {
            write!(f, "\n{excerpt}")?;
        }
        let helps = self.helps.iter().map(|help| format!("help: {help}"));
        let mut lines = self.notes.iter().cloned().chain(helps).peekable();
        let pad = self.excerpt.as_ref().map_or(" ".to_owned(), |excerpt| " ".repeat(excerpt.gutter()));
        if self.excerpt.is_some() && lines.peek().is_some() {
            write!(f, "\n{pad} |")?;
        }
        for line in lines {
            let indent = format!("\n{pad}   ");
            write!(f, "\n{pad} = {}", wrap(&line, WIDTH).join(&indent))?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_documented() {
        let fault = Fault::usage("E914", "`--threads` is 0").note("this machine has 2").help("leave it out");
        assert_eq!(fault.to_string(), "error[E914]: `--threads` is 0\n  = this machine has 2\n  = help: leave it out");
    }

    #[test]
    fn names_the_file_and_the_reason() {
        let missing = Path::new("/nowhere/x.txt");
        let why = std::fs::read(missing).expect_err("no such file");
        assert_eq!(
            Fault::unreadable(missing, &why).to_string(),
            "error[E910]: `/nowhere/x.txt` can't be read: no such file or directory"
        );
    }
}
