//! Diagnostics: a code, a claim, labelled places, values, and a remedy.
//!
//! Checks report into one [`Diagnostics`] and continue with the next row, so that a build reports all faults at once.
//! [`render`] turns them into text or JSON; this module prints nothing.

use crate::source::Place;

pub mod render;

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The database is broken, and no code is generated.
    Error,
    /// The row should be changed, but the generated code is right.
    Warning,
}

impl Level {
    /// `error`, `warning`
    pub fn word(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
        }
    }
}

/// A place with a label.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// The place.
    pub place: Place,
    /// The label (may be empty).
    pub text: String,
}

/// One diagnostic.
#[derive(Clone, Debug, PartialEq)]
pub struct Diag {
    /// The code, such as `E401`, which has a page of its own.
    pub code: &'static str,
    /// The severity.
    pub level: Level,
    /// The claim: lower case, no full stop, true by itself, with the names and numbers that it is about.
    pub message: String,
    /// The place to edit.
    pub primary: Label,
    /// Places that explain the fault.
    pub secondary: Vec<Label>,
    /// Lines with values, after `=`.
    pub notes: Vec<String>,
    /// The remedy: the exact edit or command.
    pub help: Option<String>,
}

impl Diag {
    /// An error at a place.
    pub fn error(code: &'static str, place: Place, message: impl Into<String>) -> Diag {
        Diag {
            code,
            level: Level::Error,
            message: message.into(),
            primary: Label { place, text: String::new() },
            secondary: Vec::new(),
            notes: Vec::new(),
            help: None,
        }
    }

    /// A warning at a place.
    pub fn warning(code: &'static str, place: Place, message: impl Into<String>) -> Diag {
        Diag { level: Level::Warning, ..Diag::error(code, place, message) }
    }

    /// Labels the primary place.
    pub fn here(mut self, text: impl Into<String>) -> Diag {
        self.primary.text = text.into();
        self
    }

    /// Adds a labelled place.
    pub fn label(mut self, place: Place, text: impl Into<String>) -> Diag {
        self.secondary.push(Label { place, text: text.into() });
        self
    }

    /// Adds a line of values.
    pub fn note(mut self, text: impl Into<String>) -> Diag {
        self.notes.push(text.into());
        self
    }

    /// Adds a remedy.
    pub fn help(mut self, text: impl Into<String>) -> Diag {
        self.help = Some(text.into());
        self
    }
}

/// The diagnostics found up to now.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    all: Vec<Diag>,
}

impl Diagnostics {
    /// No diagnostics.
    pub fn new() -> Diagnostics {
        Diagnostics::default()
    }

    /// Removes the diagnostics whose primary place does not satisfy `keep`.
    pub fn retain(&mut self, keep: impl Fn(Place) -> bool) {
        self.all.retain(|diag| keep(diag.primary.place));
    }

    /// Adds a diagnostic.
    pub fn push(&mut self, diag: Diag) {
        self.all.push(diag);
    }

    /// Appends the diagnostics of `others`.
    pub fn extend(&mut self, others: Diagnostics) {
        self.all.extend(others.all);
    }

    /// The number of errors.
    pub fn errors(&self) -> usize {
        self.count(Level::Error)
    }

    /// The number of warnings.
    pub fn warnings(&self) -> usize {
        self.count(Level::Warning)
    }

    fn count(&self, level: Level) -> usize {
        self.all.iter().filter(|diag| diag.level == level).count()
    }

    /// Whether there are no diagnostics.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All diagnostics by place; at one place errors come first, then the order in which they were found.
    pub fn sorted(&self) -> Vec<&Diag> {
        let mut sorted: Vec<&Diag> = self.all.iter().collect();
        sorted.sort_by_key(|diag| {
            let place = diag.primary.place;
            (place.file, place.start, diag.level)
        });
        sorted
    }
}
