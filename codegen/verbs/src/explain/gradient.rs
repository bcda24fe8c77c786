//! The gradient of each argument: written, derived or none, with the reason.

use std::sync::Arc;

use fulgurite_codegen::check::gradients::arrays::declared::Way;
use fulgurite_codegen::check::{self, Checked, closure};
use fulgurite_codegen::grade::Grade;
use fulgurite_core::derive::{self, Note};
use fulgurite_core::lang::{Block, Elem};
use fulgurite_core::lower::Rows;
use fulgurite_core::row::Row;
use fulgurite_core::{DTypeSet, Name};
use rustc_hash::FxHashSet;
use serde_json::{Value, json};

use crate::claim::GradedClaim;

/// The origin of a gradient.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    /// The row has a rule.
    Written,
    /// The rule is derived from the meaning.
    Derived,
    /// The gradient goes through the rows of the body.
    Body,
    /// No gradient flows, for this reason.
    None(String),
}

/// The gradient of one argument.
#[derive(Clone, Debug)]
pub struct Gradient {
    /// The argument.
    pub arg: Name,
    origin: Origin,
    /// How far it is known to be the derivative, with the reason; `None` if the gradient is refused.
    grade: Option<(Grade, String)>,
    /// The rule on one line; `None` if the body is differentiated or no gradient flows.
    pub rule: Option<String>,
    /// Rows that a derived rule calls: `gelu.vjp.x(…) -> T = …`.
    pub rows: Vec<String>,
    /// The gradient without the written rule.
    pub without: Option<String>,
}

/// The gradients of `row`'s arguments, except keys and integers. `checked` has the grades of declared rules.
pub fn gradients(row: &Arc<Row>, rows: &dyn Rows, checked: &Checked) -> Vec<Gradient> {
    let derived = derive::derive(row, rows);
    let mut through = None;
    let mut all = Vec::new();
    for param in &row.sig.params {
        let arg = param.name.name;
        if !derive::differentiable(&param.ty) {
            continue;
        }
        let written = row.vjp.iter().find(|(a, _)| *a == arg).map(|(_, rule)| rule);
        let none = |why: &str, grade| Gradient {
            arg,
            origin: Origin::None(why.to_owned()),
            grade,
            rule: None,
            rows: Vec::new(),
            without: None,
        };
        let zero = derived.notes.iter().find_map(|note| match note {
            Note::Zero(a, why) if *a == arg => Some(*why),
            _ => None,
        });
        let failed = derived.failed.iter().find(|(a, _)| *a == arg).map(|(_, why)| why);
        all.push(match (&row.no_grad, written, derived.rule(arg)) {
            (Some(why), ..) => none(why, None),
            (None, Some(rule), _) => Gradient {
                arg,
                origin: Origin::Written,
                grade: Some(written_grade(row.op, arg, checked)),
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
                    grade: Some((Grade::Proved, "each step of linearising and transposing is an identity".to_owned())),
                    rule: Some(one_line(rule)),
                    rows: shown.collect(),
                    without: None,
                }
            }
            (None, None, None) if row.is_composite() && counts_only(row) => {
                none("every result is an integer", Some((Grade::Proved, "the derivative is zero".to_owned())))
            }
            (None, None, None) if row.is_composite() => {
                let grade = Some(through.get_or_insert_with(|| body_grade(row, rows, checked)).clone());
                Gradient { arg, origin: Origin::Body, grade, rule: None, rows: Vec::new(), without: None }
            }
            (None, None, None) => match (zero, failed) {
                (Some(why), _) => none(why, Some((Grade::Proved, "the derivative is zero".to_owned()))),
                // The row declares that no gradient flows: checked on instances (E501).
                (None, Some(why)) => none(&why.reason, None),
                (None, None) => {
                    none("no result depends on it smoothly", Some((Grade::Proved, "the derivative is zero".to_owned())))
                }
            },
        });
    }
    all
}

/// Whether all results hold integers and truth values only.
fn counts_only(row: &Row) -> bool {
    let counts = |elem: &Elem| {
        let class = if let Elem::Class(class) = elem { DTypeSet::from_class(class.as_str()) } else { None };
        class.is_some_and(|set| set.iter().all(|dtype| !dtype.is_float()))
    };
    let mut elems = row.sig.outs.iter().flat_map(|out| &out.ty.elem).peekable();
    elems.peek().is_some() && elems.all(counts)
}

/// The grade of a written rule. Rows of another database were checked there.
fn written_grade(op: Name, arg: Name, checked: &Checked) -> (Grade, String) {
    let mut own = checked.graded.iter().filter(|rule| (rule.op, rule.way, rule.arg) == (op, Way::Vjp, arg));
    let here = checked.rows.iter().any(|row| row.op == op);
    match own.next().map(|rule| rule.grade) {
        Some(Grade::Proved) => (Grade::Proved, "equal to the derived rule by normal form".to_owned()),
        Some(grade) => (grade, "compared with the derivative of the meaning".to_owned()),
        None if here => (Grade::Claimed, "compared with nothing".to_owned()),
        None => (Grade::Checked(0), "with its own database".to_owned()),
    }
}

/// The grade of a composite's gradient, which is that of its lines: the weakest written rule among them.
fn body_grade(row: &Arc<Row>, rows: &dyn Rows, checked: &Checked) -> (Grade, String) {
    let mut weakest = (Grade::Proved, "the chain rule over the lines of the body".to_owned());
    let mut seen: FxHashSet<Name> = FxHashSet::default();
    let mut open = vec![row.clone()];
    while let Some(row) = open.pop() {
        for call in closure::calls(&row) {
            let overloads = checked.rows.iter().filter(|other| check::base(other.op) == call.op).cloned();
            for called in rows.row(call.op).into_iter().chain(overloads) {
                if !seen.insert(called.op) {
                    continue;
                }
                for (arg, _) in called.vjp.iter().filter(|_| called.no_grad.is_none()) {
                    let (grade, _) = written_grade(called.op, *arg, checked);
                    if grade.index() > weakest.0.index() {
                        weakest =
                            (grade, format!("the written gradient of `{}` among the lines of the body", called.op));
                    }
                }
                // A written rule covers everything below it.
                if called.is_composite() && called.vjp.is_empty() {
                    open.push(called);
                }
            }
        }
    }
    weakest
}

/// `arg`'s cotangent without the row's own rule.
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

fn one_line(block: &Block) -> String {
    block.to_string().replace('\n', " ")
}

impl Gradient {
    /// The rule, or the reason why there is none.
    pub fn text(&self) -> String {
        match (&self.rule, &self.origin) {
            (Some(rule), _) => rule.clone(),
            (None, Origin::None(why)) => format!("none: {why}"),
            (None, _) => "through the body".to_owned(),
        }
    }

    /// "written", "derived", or empty.
    pub fn source(&self) -> &'static str {
        match self.origin {
            Origin::Written => "written",
            Origin::Derived => "derived",
            Origin::Body | Origin::None(_) => "",
        }
    }

    /// The source of the rule, with the grade and its reason.
    pub fn reason(&self) -> String {
        let (source, grade) = (self.source(), self.grade.as_ref().map(|(grade, why)| format!("{grade}: {why}")));
        [source.to_owned()].into_iter().filter(|s| !s.is_empty()).chain(grade).collect::<Vec<_>>().join("; ")
    }

    /// The claim about it.
    pub fn claim(&self) -> Option<GradedClaim> {
        let (grade, reason) = self.grade.clone()?;
        Some(GradedClaim { what: format!("d/d{}", self.arg), grade, reason })
    }

    /// The gradient as a JSON object.
    pub fn json(&self) -> Value {
        let (origin, why) = match &self.origin {
            Origin::Written => ("written", None),
            Origin::Derived => ("derived", None),
            Origin::Body => ("body", None),
            Origin::None(why) => ("none", Some(why)),
        };
        let grade = self.grade.as_ref();
        json!({
            "arg": self.arg.as_str(), "origin": origin, "rule": self.rule, "why": why, "rows": self.rows,
            "without": self.without, "grade": grade.map(|(grade, _)| grade.word()),
            "instances": grade.and_then(|(grade, _)| grade.instances()), "reason": grade.map(|(_, why)| why),
        })
    }
}
