//! The terminal: who gets what, in which colour, how wide.
//!
//! Results go to standard output, the rest to standard error. Colour and moving lines only where a person looks at
//! them: `NO_COLOR`, `TERM=dumb` and pipes switch them off, `COLUMNS` sets the width.

pub mod chart;
pub mod curve;
pub mod font;
pub mod format;
pub mod live;
pub mod picture;
pub mod raster;

use crate::fault::Fault;
use serde_json::Value;
use std::cell::Cell;
use std::io::{IsTerminal, Write};

/// What a caller may ask of every command.
#[derive(Clone, Copy, Default, Debug)]
pub struct Wishes {
    /// One JSON object a line on standard output.
    pub json: bool,
    /// Only errors and results.
    pub quiet: bool,
    /// Reasons too.
    pub verbose: bool,
    /// No characters beyond ASCII.
    pub ascii: bool,
    /// Colours or none, whatever the terminal.
    pub colour: Option<bool>,
}

/// How a long command shows its progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Moving lines and colour, for a person.
    Pretty,
    /// One line an event, for a log.
    Plain,
    /// One object an event, for a program.
    Json,
}

/// The terminal as one command sees it.
#[derive(Debug)]
pub struct Ui {
    wishes: Wishes,
    mode: Mode,
    colour: bool,
    width: usize,
    closed: Cell<bool>,
}

/// What a word means, hence its colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ink {
    /// A verb in the first column.
    Verb,
    /// An error.
    Error,
    /// Something to notice.
    Notice,
    /// Something beside the point.
    Faint,
    /// A curve or a filled bar.
    Line,
}

/// Columns of the verb at the start of a status line.
const VERB: usize = 11;
/// Lines are never wider than this, whatever the terminal.
const WIDEST: usize = 100;

impl Ui {
    /// The terminal that this process has.
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
        let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok()).or_else(terminal_columns);
        Ui { wishes, mode, colour, width: columns.unwrap_or(WIDEST).clamp(20, WIDEST), closed: Cell::new(false) }
    }

    /// How progress is shown.
    pub fn mode(&self) -> Mode {
        self.mode
    }
    /// What was asked.
    pub fn wishes(&self) -> Wishes {
        self.wishes
    }
    /// Whether there are colours.
    pub fn colour(&self) -> bool {
        self.colour
    }
    /// Columns that a line may fill.
    pub fn width(&self) -> usize {
        self.width
    }
    /// Whether standard output is gone: who reads it ended.
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

    /// A result: a line on standard output. A closed pipe is noted, not an error: see [`Ui::closed`].
    pub fn result(&self, line: &str) {
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
            self.closed.set(true);
        }
    }

    /// A piece of a result that grows: as it is, without a line's end.
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

    /// A status line on standard error: a verb in its column and what it did. Not with `--quiet`.
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

    /// Something on standard error as it is. It can't fail: there is nowhere left to say so.
    pub fn raw_error(&self, text: &str) {
        let mut err = std::io::stderr().lock();
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }

    /// Says why the command stops.
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

    /// A character, or its stand-in where only ASCII is wanted.
    pub fn glyph<'a>(&self, glyph: &'a str, ascii: &'a str) -> &'a str {
        if self.wishes.ascii { ascii } else { glyph }
    }
}

/// What the terminal says of itself, through clap's own help: none if there is none.
fn terminal_columns() -> Option<usize> {
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
}
