//! The gradient of each argument: written, derived, or none, and why.

use std::sync::Arc;

use fulgurite_core::Name;
use fulgurite_core::derive::{self, Note};
use fulgurite_core::lang::Block;
use fulgurite_core::lower::Rows;
use fulgurite_core::row::Row;
use serde_json::{Value, json};

use crate::check::gradients::declared::Way;
use crate::check::gradients::{Grade, Graded};

/// Where a gradient comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    /// The row says it.
    Written,
    /// It follows from the meaning.
    Derived,
    /// The rows of the body are differentiated.
    Body,
    /// No gradient flows.
    None(String),
}

/// The gradient of one argument.
#[derive(Clone, Debug)]
pub struct Gradient {
    /// The argument.
    pub arg: Name,
    origin: Origin,
    /// How a written rule was found to be right.
    grade: Option<Grade>,
    /// The rule on one line; none where the body is differentiated, and where no gradient flows.
    pub rule: Option<String>,
    /// Rows that a derived rule calls: `gelu.vjp.x(…) -> T = …`.
    pub rows: Vec<String>,
    /// What a written rule saves: what would be done without it.
    pub without: Option<String>,
}

/// The gradients of `row`'s arguments, keys and integers apart. `graded` says how declared rules were found to be right.
pub fn gradients(row: &Arc<Row>, rows: &dyn Rows, graded: &[Graded]) -> Vec<Gradient> {
    let derived = derive::derive(row, rows);
    let mut all = Vec::new();
    for param in &row.sig.params {
        let arg = param.name.name;
        if !derive::differentiable(&param.ty) {
            continue;
        }
        let written = row.vjp.iter().find(|(a, _)| *a == arg).map(|(_, rule)| rule);
        let none = |why: &str| Gradient {
            arg,
            origin: Origin::None(why.to_owned()),
            grade: None,
            rule: None,
            rows: Vec::new(),
            without: None,
        };
        let mut own = graded.iter().filter(|rule| (rule.op, rule.way) == (row.op, Way::Vjp));
        let grade = own.find(|rule| rule.arg == arg).map(|rule| rule.grade);
        let zero = derived.notes.iter().find_map(|note| match note {
            Note::Zero(a, why) if *a == arg => Some(*why),
            _ => None,
        });
        let failed = derived.failed.iter().find(|(a, _)| *a == arg).map(|(_, why)| why);
        all.push(match (&row.no_grad, written, derived.rule(arg)) {
            (Some(why), ..) => none(why),
            (None, Some(rule), _) => Gradient {
                arg,
                origin: Origin::Written,
                grade,
                rule: Some(one_line(rule)),
                rows: Vec::new(),
                without: Some(without(row, arg, rows)),
            },
            (None, None, Some(rule)) => {
                let called =
                    derived.rows.iter().filter(|made| made.op.as_str().starts_with(&format!("{}.vjp.{arg}", row.op)));
                let shown = called
                    .filter_map(|made| Some(format!("{}{} = {}", made.op, made.sig, one_line(made.index_body()?))));
                Gradient {
                    arg,
                    origin: Origin::Derived,
                    grade: None,
                    rule: Some(one_line(rule)),
                    rows: shown.collect(),
                    without: None,
                }
            }
            (None, None, None) if row.is_composite() => {
                Gradient { arg, origin: Origin::Body, grade: None, rule: None, rows: Vec::new(), without: None }
            }
            (None, None, None) => match (zero, failed) {
                (Some(why), _) => none(why),
                (None, Some(why)) => none(&why.reason),
                (None, None) => none("no result depends on it smoothly"),
            },
        });
    }
    all
}

/// What `arg`'s cotangent would be, did the row not say it.
fn without(row: &Row, arg: Name, rows: &dyn Rows) -> String {
    let mut bare = row.clone();
    bare.vjp.retain(|(a, _)| *a != arg);
    let derived = derive::derive(&Arc::new(bare), rows);
    match (derived.rule(arg), derived.failed.iter().find(|(a, _)| *a == arg)) {
        (Some(rule), _) => {
            let called =
                derived.rows.iter().filter(|made| made.op.as_str().starts_with(&format!("{}.vjp.{arg}", row.op)));
            let meanings =
                called.filter_map(|made| made.index_body()).map(|body| format!(", which is {}", one_line(body)));
            one_line(rule) + &meanings.collect::<String>()
        }
        (None, Some((_, why))) => format!("none: {}", why.reason),
        (None, None) if row.is_composite() => "the gradients of the body's lines".to_owned(),
        (None, None) => "none".to_owned(),
    }
}

/// A block on one line.
fn one_line(block: &Block) -> String {
    block.to_string().replace('\n', " ")
}

impl Gradient {
    /// The rule, or why there is none.
    pub fn text(&self) -> String {
        match (&self.rule, &self.origin) {
            (Some(rule), _) => rule.clone(),
            (None, Origin::None(why)) => format!("none: {why}"),
            (None, _) => "through the body".to_owned(),
        }
    }

    /// "written", "derived", or nothing.
    pub fn source(&self) -> &'static str {
        match self.origin {
            Origin::Written => "written",
            Origin::Derived => "derived",
            Origin::Body | Origin::None(_) => "",
        }
    }

    /// The same, and how a written rule was found to be right.
    pub fn reason(&self) -> String {
        let found = match self.grade {
            Some(Grade::Proved) => "; proved: equal to the derived rule by normal form".to_owned(),
            Some(Grade::Checked(1)) => "; checked on 1 instance".to_owned(),
            Some(Grade::Checked(n)) => format!("; checked on {n} instances"),
            None => String::new(),
        };
        self.source().to_owned() + &found
    }

    /// The same as an object.
    pub fn json(&self) -> Value {
        let (origin, why) = match &self.origin {
            Origin::Written => ("written", None),
            Origin::Derived => ("derived", None),
            Origin::Body => ("body", None),
            Origin::None(why) => ("none", Some(why)),
        };
        let (grade, instances) = match self.grade {
            Some(Grade::Proved) => (Some("proved"), None),
            Some(Grade::Checked(n)) => (Some("checked"), Some(n)),
            None => (None, None),
        };
        json!({
            "arg": self.arg.as_str(), "origin": origin, "rule": self.rule, "why": why, "rows": self.rows,
            "without": self.without, "grade": grade, "instances": instances,
        })
    }
}
