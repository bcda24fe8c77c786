//! Claims about rows, each with its grade.

use fulgurite_codegen::grade::Grade;
use serde_json::{Value, json};

/// A claim about a row, with its grade.
#[derive(Clone, Debug, PartialEq)]
pub struct GradedClaim {
    /// The subject: `shapes`, `dtypes`, `d/dx`.
    pub what: String,
    /// The grade.
    pub grade: Grade,
    /// The reason for the grade.
    pub reason: String,
}

impl GradedClaim {
    /// The claim as a JSON object.
    pub fn json(&self) -> Value {
        json!({"what": self.what, "grade": self.grade.word(), "instances": self.grade.instances(), "reason": self.reason})
    }
}

/// The weaker grade of the two.
pub fn weaker(one: Grade, other: Grade) -> Grade {
    if other.index() > one.index() { other } else { one }
}
