//! The claims about a row, each with its grade and its reason.

use std::sync::Arc;

use fulgurite_codegen::check::cases::{self, Family};
use fulgurite_codegen::check::{self, Checked, dtypes};
use fulgurite_codegen::grade::Grade;
use fulgurite_codegen::parallel;
use fulgurite_codegen::schema::{Database, RowSource};
use fulgurite_core::lower::Rows;
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::signature::OutTy;

use super::Gradient;
use super::facts::Fact;
use crate::claim::{GradedClaim, weaker};

/// The claims of one row.
pub struct GradedRow {
    /// The row.
    pub op: String,
    /// The claims, in a fixed order.
    pub claims: Vec<GradedClaim>,
}

impl GradedRow {
    /// The weakest grade of the gradients; `None` if no gradient flows.
    pub fn gradient(&self) -> Option<Grade> {
        let gradients = self.claims.iter().filter(|claim| claim.what.starts_with("d/d"));
        gradients.map(|claim| claim.grade).reduce(weaker)
    }
}

/// The claims of every row of a database.
pub fn all(database: &Database, checked: &Checked, table: &(dyn Rows + Sync)) -> Vec<GradedRow> {
    let pairs: Vec<(&RowSource, &Arc<Row>)> = database.rows.iter().zip(&checked.rows).collect();
    parallel::map(&pairs, |(source, row)| {
        let gradients = super::gradients(row, table, checked);
        let facts = super::facts(row, table);
        GradedRow { op: source.op.text.clone(), claims: claims(row, &gradients, &facts, checked) }
    })
}

/// The claims about `row`: its types and values, its gradients, and derived facts.
pub(super) fn claims(row: &Arc<Row>, gradients: &[Gradient], facts: &[Fact], checked: &Checked) -> Vec<GradedClaim> {
    let family = cases::family(row, check::element(row));
    let mut claims = types(row, &family);
    claims.extend(gradients.iter().filter_map(Gradient::claim));
    let tangents = checked
        .graded
        .iter()
        .filter(|rule| rule.op == row.op && rule.way == check::gradients::arrays::declared::Way::Jvp);
    claims.extend(tangents.map(|rule| GradedClaim {
        what: format!("jvp {}", rule.arg),
        grade: rule.grade,
        reason: "a written rule, compared with the derivative of the meaning".to_owned(),
    }));
    let fact = |fact: &Fact| GradedClaim { what: fact.name.to_owned(), grade: fact.grade, reason: fact.reason.clone() };
    // The executor of a row is not a claim about its meaning.
    claims.extend(facts.iter().filter(|fact| fact.name != "kernel").map(fact));
    claims
}

/// The claims about shapes, index ranges, dtypes and values.
fn types(row: &Row, family: &Family) -> Vec<GradedClaim> {
    let calls = family.cases.len();
    let from_body = family.cases.iter().all(|case| case.solved.outs.iter().all(|out| *out == OutTy::FromBody));
    let (shapes, why) = match &row.meaning {
        Meaning::Expr(_) | Meaning::View(_) => (Grade::Proved, "loops run over the sizes that `sig` gives"),
        Meaning::Decomp(_) if from_body => (Grade::Proved, "they are those of the body"),
        Meaning::Decomp(_) => (Grade::Checked(calls), "the body yields what `sig` says"),
        Meaning::Host(_) => (Grade::Tested, "by `p02`: what runs has the shape that was promised"),
    };
    let mut claims = vec![GradedClaim { what: "shapes".to_owned(), grade: shapes, reason: why.to_owned() }];
    if row.index_body().is_some() && !row.is_pointwise() {
        let reason = "no access leaves its tensor; indices from tensors are checked when run";
        claims.push(GradedClaim {
            what: "indices".to_owned(),
            grade: Grade::Checked(calls),
            reason: reason.to_owned(),
        });
    }
    let (grade, why) = dtypes::grade(row, family);
    claims.push(GradedClaim { what: "types".to_owned(), grade, reason: why.to_owned() });
    let reason = "by `p01`: kernels against the meaning in f64";
    claims.push(GradedClaim { what: "values".to_owned(), grade: Grade::Tested, reason: reason.to_owned() });
    claims
}
