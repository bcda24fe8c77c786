//! Places of users' calls.

use std::fmt;

/// A place in a user's source, from `#[track_caller]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Loc {
    /// The file, as rustc names it.
    pub file: &'static str,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1; 0 if a text that was read gives none.
    pub column: u32,
}

impl Loc {
    /// No place: for programs without a source.
    pub const NOWHERE: Loc = Loc { file: "", line: 0, column: 0 };

    /// The place of the caller.
    #[track_caller]
    pub fn caller() -> Loc {
        std::panic::Location::caller().into()
    }
}

impl From<&'static std::panic::Location<'static>> for Loc {
    fn from(l: &'static std::panic::Location<'static>) -> Loc {
        Loc { file: l.file(), line: l.line(), column: l.column() }
    }
}

impl fmt::Display for Loc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        // The place of a text may lack a column.
        if self.column > 0 { write!(f, ":{}", self.column) } else { Ok(()) }
    }
}
