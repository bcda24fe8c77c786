//! Grades: how far a claim about a row is known to hold.

use std::fmt;

/// How far a claim is known to hold, the best first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grade {
    /// It holds for all inputs: by derivation, by normal forms, by enumeration, or because only one place decides.
    Proved,
    /// Refutation was tried at build time, on this number of instances or calls.
    Checked(usize),
    /// A generated test checks it.
    Tested,
    /// It is not checked.
    Claimed,
}

impl Grade {
    /// The words, best first.
    pub const WORDS: [&'static str; 4] = ["proved", "checked", "tested", "claimed"];

    /// The index in [`Grade::WORDS`].
    pub fn index(self) -> usize {
        match self {
            Grade::Proved => 0,
            Grade::Checked(_) => 1,
            Grade::Tested => 2,
            Grade::Claimed => 3,
        }
    }

    /// The word for this grade.
    pub fn word(self) -> &'static str {
        Grade::WORDS[self.index()]
    }

    /// The number of instances on which it was checked.
    pub fn instances(self) -> Option<usize> {
        match self {
            Grade::Checked(n) => Some(n),
            _ => None,
        }
    }
}

/// Prints `proved`, or `checked on 25 instances`.
impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Grade::Checked(1) => f.write_str("checked on 1 instance"),
            Grade::Checked(n) => write!(f, "checked on {n} instances"),
            grade => f.write_str(grade.word()),
        }
    }
}
