//! Diagnostics: a code, a claim, places with words, values, and what to do.
//!
//! Checks report into one [`Diagnostics`] and carry on with the next row, so that a build says everything at once.
//! [`render`] turns them into text or JSON; nothing here prints.

use crate::source::Place;

pub mod render;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Nothing is generated.
    Error,
    /// Somebody should act, but what is generated is right.
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

/// A place with words.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// Where.
    pub place: Place,
    /// What is there (may be empty).
    pub text: String,
}

/// One diagnostic.
#[derive(Clone, Debug, PartialEq)]
pub struct Diag {
    /// `E401`; one page each.
    pub code: &'static str,
    /// How bad it is.
    pub level: Level,
    /// The claim: lower case, no full stop, true by itself, with the names and numbers that it is about.
    pub message: String,
    /// Where to edit.
    pub primary: Label,
    /// Why.
    pub secondary: Vec<Label>,
    /// Lines with values, after `=`.
    pub notes: Vec<String>,
    /// The exact edit or command.
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

    /// With words at the primary place.
    pub fn here(mut self, text: impl Into<String>) -> Diag {
        self.primary.text = text.into();
        self
    }

    /// With a further place.
    pub fn label(mut self, place: Place, text: impl Into<String>) -> Diag {
        self.secondary.push(Label { place, text: text.into() });
        self
    }

    /// With a line of values.
    pub fn note(mut self, text: impl Into<String>) -> Diag {
        self.notes.push(text.into());
        self
    }

    /// With a proposal.
    pub fn help(mut self, text: impl Into<String>) -> Diag {
        self.help = Some(text.into());
        self
    }
}

/// Everything found so far.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    all: Vec<Diag>,
}

impl Diagnostics {
    /// None yet.
    pub fn new() -> Diagnostics {
        Diagnostics::default()
    }

    /// Leaves out those that begin where `keep` does not hold.
    pub fn retain(&mut self, keep: impl Fn(Place) -> bool) {
        self.all.retain(|diag| keep(diag.primary.place));
    }

    /// Adds one.
    pub fn push(&mut self, diag: Diag) {
        self.all.push(diag);
    }

    /// Adds those of others behind its own.
    pub fn extend(&mut self, others: Diagnostics) {
        self.all.extend(others.all);
    }

    /// How many errors there are.
    pub fn errors(&self) -> usize {
        self.count(Level::Error)
    }

    /// How many warnings there are.
    pub fn warnings(&self) -> usize {
        self.count(Level::Warning)
    }

    fn count(&self, level: Level) -> usize {
        self.all.iter().filter(|diag| diag.level == level).count()
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All of them by place; where several share one, errors first, then in the order found.
    pub fn sorted(&self) -> Vec<&Diag> {
        let mut sorted: Vec<&Diag> = self.all.iter().collect();
        sorted.sort_by_key(|diag| {
            let place = diag.primary.place;
            (place.file, place.start, diag.level)
        });
        sorted
    }
}
