//! Colours and width of the output.

use std::io::IsTerminal;

use super::When;

/// At most this many columns of a line of prose, because longer ones are hard to read.
pub const WIDEST: usize = 100;

/// The form of the output.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    /// Whether colours are used.
    pub color: bool,
    /// The columns of a line: those of the terminal, at most 100.
    pub columns: usize,
}

impl Paint {
    pub(super) fn new(when: When) -> Paint {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let color = match when {
            When::Always => true,
            When::Never => false,
            When::Auto => {
                std::io::stdout().is_terminal() && std::io::stderr().is_terminal() && !set("NO_COLOR") && !dumb
            }
        };
        Paint { color, columns: columns().min(WIDEST) }
    }

    /// `text` in the colour of a verb or a name.
    pub fn verb(self, text: &str) -> String {
        self.ink("1;32", text)
    }

    /// `text` in the colour of an error.
    pub(super) fn error(self, text: &str) -> String {
        self.ink("1;31", text)
    }

    /// `text` in the colour of side remarks.
    pub fn faint(self, text: &str) -> String {
        self.ink("2", text)
    }

    /// `text` in the colour of this code, if colours are used.
    fn ink(self, code: &str, text: &str) -> String {
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A verb in its column, with its result.
    pub(super) fn status(self, verb: &str, text: &str) -> String {
        format!("{} {text}\n", self.verb(&format!("{verb:>12}")))
    }
}

/// The columns that `COLUMNS` or the terminal says; 100 if neither does.
pub fn columns() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    said.or_else(terminal).unwrap_or(WIDEST).max(20)
}
