//! The terminal: destinations, colours and width of the output.
//!
//! Results go to standard output, everything else to standard error. Colours and redrawn lines are used only on a
//! terminal: `NO_COLOR`, `TERM=dumb` and pipes switch them off, `COLUMNS` sets the width.

pub mod chart;
pub mod curve;
pub mod font;
pub mod format;
pub mod live;
pub mod picture;
pub mod raster;

use crate::fault::Fault;
use fulgurite_ops_verbs::cli as ops;
use fulgurite_ops_verbs::explain::wrap;
use serde_json::Value;
use std::cell::Cell;
use std::io::{IsTerminal, Write};

/// The output options of every command.
#[derive(Clone, Copy, Default, Debug)]
pub struct Wishes {
    /// One JSON object per line on standard output.
    pub json: bool,
    /// Only errors and results.
    pub quiet: bool,
    /// Reasons as well.
    pub verbose: bool,
    /// No characters beyond ASCII.
    pub ascii: bool,
    /// Whether to use colours, regardless of the terminal.
    pub colour: Option<bool>,
}

/// The way a long command shows its progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Redrawn lines and colour, for a person.
    Pretty,
    /// One line per event, for a log.
    Plain,
    /// One object per event, for a program.
    Json,
}

/// The terminal in the view of one command.
#[derive(Debug)]
pub struct Ui {
    wishes: Wishes,
    mode: Mode,
    colour: bool,
    columns: usize,
    closed: Cell<bool>,
}

/// The role of a word, which determines its colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ink {
    /// A verb in the first column.
    Verb,
    /// An error.
    Error,
    /// A notice.
    Notice,
    /// A side remark.
    Faint,
    /// A curve or a filled bar.
    Line,
}

/// The width of the verb at the start of a status line.
const VERB: usize = 11;

impl Ui {
    /// The terminal of this process.
    pub fn new(wishes: Wishes) -> Ui {
        let set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
        let dumb = std::env::var("TERM").is_ok_and(|t| t == "dumb");
        let both = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        let mode = match (wishes.json, both && !dumb) {
            (true, _) => Mode::Json,
            (false, true) => Mode::Pretty,
            (false, false) => Mode::Plain,
        };
        let colour = wishes.colour.unwrap_or(mode == Mode::Pretty && !set("NO_COLOR"));
        Ui { wishes, mode, colour, columns: ops::columns(), closed: Cell::new(false) }
    }

    /// How progress is shown.
    pub fn mode(&self) -> Mode {
        self.mode
    }
    /// The output options.
    pub fn wishes(&self) -> Wishes {
        self.wishes
    }
    /// Whether there are colours.
    pub fn colour(&self) -> bool {
        self.colour
    }
    /// The columns of a line of prose, at most 100.
    pub fn width(&self) -> usize {
        self.columns.min(ops::WIDEST)
    }
    /// Whether the reader of standard output has closed it.
    pub fn closed(&self) -> bool {
        self.closed.get()
    }

    /// `text` in this colour, if there are colours.
    pub fn paint(&self, ink: Ink, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match ink {
            Ink::Verb => "1;32",
            Ink::Error => "1;31",
            Ink::Notice => "1;33",
            Ink::Faint => "2",
            Ink::Line => "36",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// A result: a line on standard output, in several where it is wider than the terminal. A closed pipe is recorded
    /// and is not an error: see [`Ui::closed`].
    pub fn result(&self, line: &str) {
        let mut out = std::io::stdout().lock();
        let wrapped = (self.mode == Mode::Pretty).then(|| wrap(line, self.columns).join("\n"));
        let line = wrapped.as_deref().unwrap_or(line);
        if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
            self.closed.set(true);
        }
    }

    /// A piece of a growing result, printed as it is, without a line break.
    pub fn piece(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            self.closed.set(true);
        }
    }

    /// A result as one JSON object on a line.
    pub fn object(&self, value: &Value) {
        self.result(&value.to_string());
    }

    /// A status line on standard error: a verb in its column, and its result. Not shown with `--quiet`.
    pub fn status(&self, verb: &str, text: &str) {
        if !self.wishes.quiet {
            self.raw_error(&format!("{} {text}\n", self.verb(verb)));
        }
    }

    /// A verb in its column.
    pub fn verb(&self, verb: &str) -> String {
        self.paint(Ink::Verb, &format!("{verb:>VERB$}"))
    }

    /// A warning on standard error.
    pub fn warn(&self, text: &str) {
        if !self.wishes.quiet {
            self.raw_error(&format!("{}: {text}\n", self.paint(Ink::Notice, "warning")));
        }
    }

    /// Prints a text as it is on standard error. A failure is ignored, because it could not be reported.
    pub fn raw_error(&self, text: &str) {
        let mut err = std::io::stderr().lock();
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }

    /// Reports why the command stops.
    pub fn fault(&self, fault: &Fault) {
        if self.mode == Mode::Json {
            self.object(&fault.json());
        }
        let text = fault.to_string();
        let painted = match text.split_once(':') {
            Some((head, rest)) if head.starts_with("error[") => format!("{}:{rest}", self.paint(Ink::Error, head)),
            _ => text,
        };
        self.raw_error(&format!("{painted}\n"));
    }

    /// A character, or its replacement where only ASCII is wanted.
    pub fn glyph<'a>(&self, glyph: &'a str, ascii: &'a str) -> &'a str {
        if self.wishes.ascii { ascii } else { glyph }
    }
}
