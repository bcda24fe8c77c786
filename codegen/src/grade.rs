//! How far a claim about a row is known to hold.

use std::fmt;

use serde_json::{Value, json};

/// How far a claim is known to hold, the best first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grade {
    /// For all inputs: by derivation, by normal forms, by enumeration, or since there is only one place that decides.
    Proved,
    /// Refutation was tried at build time, on so many instances or calls.
    Checked(usize),
    /// A generated test holds it when tests run.
    Tested,
    /// Nothing holds it.
    Claimed,
}

impl Grade {
    /// The words, best first.
    pub const WORDS: [&'static str; 4] = ["proved", "checked", "tested", "claimed"];

    /// Which of [`Grade::WORDS`] it is.
    pub fn index(self) -> usize {
        match self {
            Grade::Proved => 0,
            Grade::Checked(_) => 1,
            Grade::Tested => 2,
            Grade::Claimed => 3,
        }
    }

    /// Its word.
    pub fn word(self) -> &'static str {
        Grade::WORDS[self.index()]
    }

    /// On how many instances it was checked.
    pub fn instances(self) -> Option<usize> {
        match self {
            Grade::Checked(n) => Some(n),
            _ => None,
        }
    }

    /// The worse of the two.
    pub fn weaker(self, other: Grade) -> Grade {
        if other.index() > self.index() { other } else { self }
    }
}

/// `proved`, `checked on 25 instances`
impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Grade::Checked(1) => f.write_str("checked on 1 instance"),
            Grade::Checked(n) => write!(f, "checked on {n} instances"),
            grade => f.write_str(grade.word()),
        }
    }
}

/// What is claimed of a row, and how far it is known to hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// `shapes`, `dtypes`, `d/dx`
    pub what: String,
    /// How far it holds.
    pub grade: Grade,
    /// Why.
    pub reason: String,
}

impl Claim {
    /// The same as an object.
    pub fn json(&self) -> Value {
        json!({"what": self.what, "grade": self.grade.word(), "instances": self.grade.instances(), "reason": self.reason})
    }
}
