//! Derivatives: linearise, then transpose.
//!
//! [`derive()`] gives, for each argument of a row that a gradient can flow to, a VJP rule in the tensor language, and the
//! rows that these rules call:
//!
//! - a **pointwise** row is differentiated as a term ([`term`], [`linear`], `rules`). A derivative that is one
//!   operation is spelled with that operation's row (`unbroadcast(g * y, x)`); any other becomes a pointwise row
//!   `sin.vjp.x(x, d_out)`, which rounds once.
//! - an **index** row is linear in its reads: reading `x` at places `e(o)` transposes to
//!   `sum[o if e(o) == i](d_out[o])`, a row `conv.vjp.x` in the language of rows (`index`). Further values of the
//!   forward that a gradient needs (a maximum, a count) are computed once, by rows of their own
//!   (`amax.vjp.x.part1`), and passed as arguments.
//! - a **composite** row has no rules here: the caller differentiates through its body. A `host` row needs none.
//!
//! Derived rows are ordinary rows: they print, parse, lower, and can be derived again (`matmul.vjp.a.vjp.d_out` is a
//! matmul), which gives higher orders. Conventions:
//!
//! | name | is |
//! |---|---|
//! | `OP.vjp.ARG` | the row; with several differentiable results one per result, `OP.vjp.ARG.RESULT` |
//! | `d_out`, `d_RESULT` | the cotangent, the last argument; `g` is the cotangent in rules of the derived row |
//! | `like x: T[..S]` | an argument of which only the type is needed: the rule passes the argument, `bind` its type |
//! | `y`, `RESULT` | the row's result, where the derivative is cheaper with it |
//! | `OP.vjp.ARG.partN` | a value computed once |
//!
//! A rule's value has the argument's shape. Where promotion mixed dtypes it may have another float dtype; the code that
//! applies the rule casts it. Rules are given for tensors only: a number has no gradient.

mod emit;
mod index;
pub mod linear;
pub mod make;
mod pointwise;
mod rules;
pub mod term;
pub mod walk;

use crate::Name;
use crate::lang::ast::{Block, Elem, Span, Type};
use crate::lower::Rows;
use crate::row::{Meaning, Row};
use std::fmt;

/// The result of deriving a row.
#[derive(Clone, Debug, Default)]
pub struct Derived {
    /// Argument, VJP rule in the tensor language.
    pub rules: Vec<(Name, Block)>,
    /// Rows that the rules call.
    pub rows: Vec<Row>,
    /// Facts about the derivation, for readers.
    pub notes: Vec<Note>,
    /// Arguments for which no rule was found, with the reason: the row must declare `grad` for them.
    pub failed: Vec<(Name, NotDerivable)>,
}

impl Derived {
    /// The rule for `arg`.
    pub fn rule(&self, arg: Name) -> Option<&Block> {
        self.rules.iter().find(|(a, _)| *a == arg).map(|(_, b)| b)
    }

    /// The derived row called `name`.
    pub fn row(&self, name: Name) -> Option<&Row> {
        self.rows.iter().find(|r| r.op == name)
    }
}

/// A fact about a derivation.
#[derive(Clone, Debug, PartialEq)]
pub enum Note {
    /// No derivative flows to this argument, for this reason.
    Zero(Name, &'static str),
    /// A rule of `rules` shortened the derivative in this argument.
    Rule(Name, &'static str),
    /// The row is a composite: its body is differentiated.
    ThroughBody,
}

/// The reason why there is no derived rule.
#[derive(Clone, Debug, PartialEq)]
pub struct NotDerivable {
    /// The claim: lower case, names the unsupported form.
    pub reason: String,
    /// The place in the row's meaning (empty: no particular place).
    pub span: Span,
}

impl NotDerivable {
    /// A reason without a place.
    pub fn new(reason: impl Into<String>) -> NotDerivable {
        NotDerivable { reason: reason.into(), span: Span::default() }
    }
    /// This reason at a place.
    pub fn at(self, span: Span) -> NotDerivable {
        NotDerivable { span, ..self }
    }
}

impl fmt::Display for NotDerivable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}
impl std::error::Error for NotDerivable {}

/// Derives the VJP rules of `row`. `rows` finds the pointwise rows that its body calls, and the rows that spell rules.
pub fn derive(row: &Row, rows: &dyn Rows) -> Derived {
    match &row.meaning {
        Meaning::Decomp(_) => Derived { notes: vec![Note::ThroughBody], ..Derived::default() },
        Meaning::Host(_) => Derived::default(),
        Meaning::Expr(b) | Meaning::View(b) => {
            if row.is_pointwise() {
                pointwise::derive(row, b, rows)
            } else {
                index::derive(row, b, rows)
            }
        }
    }
}

/// Whether a gradient can flow to or from values of this type.
pub fn differentiable(ty: &Type) -> bool {
    ty.elem.iter().any(|e| match e {
        Elem::Var(_) | Elem::Acc(_) | Elem::Real(_) => true,
        Elem::Class(c) => *c == "float" || crate::DType::from_name(c.as_str()).is_some_and(|d| d.has_gradient()),
        Elem::Index | Elem::Key => false,
    })
}

/// The native row at the start of a derived or batched row's name: `gather` for `gather.vjp.x.vjp.d_out`.
pub fn origin(op: Name) -> Option<Name> {
    let text = op.as_str();
    let end = [".vjp.", ".vmap."].iter().filter_map(|mark| text.find(mark)).min()?;
    Some(Name::new(&text[..end]))
}

/// The name of a cotangent in a rule: `g`, or `g_NAME` where the row has several results.
pub fn cotangent(row: &Row, out: Name) -> Name {
    if row.sig.outs.len() == 1 { Name::new("g") } else { Name::new(&format!("g_{out}")) }
}
