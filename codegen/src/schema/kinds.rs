//! The vocabularies of `promote`, `dtypes` and `acc`: expressions whose values are words, which `if` and `match` over
//! static options may select.

use fulgurite_core::DTypeSet;
use fulgurite_core::lang::{BinOp, Block, Expr, Node, Span};
use fulgurite_core::promote::Kind;

use crate::nearest::nearest;

/// The promotion kinds.
pub(super) const PROMOTE: &[&str] = &Kind::WORDS;

/// Classes and dtypes.
pub(super) const CLASSES: &[&str] = &[
    "all", "float", "int", "bool", "complex", "f8", "f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8",
    "c64", "c128",
];

/// Accumulation types.
pub(super) const ACC: &[&str] = &["wide", "T", "f32", "f64", "i32", "i64"];

/// A value outside of the vocabulary.
pub(super) struct Stray {
    /// The value's place in the text.
    pub(super) span: Span,
    /// "`flaot` is no promotion kind"
    pub(super) claim: String,
    /// The likely word, or the list of words.
    pub(super) help: String,
}

/// Whether a text is this word.
pub(super) fn is(expr: &Expr, word: &str) -> bool {
    matches!(&*expr.node, Node::Name(name) if name == word)
}

/// `promote`: names of kinds.
pub(super) fn promote(expr: &Expr) -> Result<(), Stray> {
    let word = |expr: &Expr| match &*expr.node {
        Node::Name(name) if PROMOTE.contains(&name.as_str()) => Ok(()),
        _ => Err(stray(expr, "a promotion kind", PROMOTE)),
    };
    values(expr, &word)
}

/// `dtypes`: sums and differences of classes.
pub(super) fn dtypes(expr: &Expr) -> Result<(), Stray> {
    fn set(expr: &Expr) -> Result<(), Stray> {
        match &*expr.node {
            Node::Name(name) if DTypeSet::from_class(name.as_str()).is_some() => Ok(()),
            Node::Binary(BinOp::Add | BinOp::Sub, left, right) => set(left).and_then(|()| set(right)),
            _ => Err(stray(expr, "a dtype or a class of dtypes", CLASSES)),
        }
    }
    values(expr, &set)
}

/// `acc`: `wide`, `T` (as narrow as the elements) or a dtype.
pub(super) fn acc(expr: &Expr) -> Result<(), Stray> {
    let word = |expr: &Expr| match &*expr.node {
        Node::Name(name) if ACC.contains(&name.as_str()) => Ok(()),
        _ => Err(stray(expr, "an accumulation type", ACC)),
    };
    values(expr, &word)
}

/// Applies `leaf` to each value that the choices of `expr` can give.
fn values(expr: &Expr, leaf: &dyn Fn(&Expr) -> Result<(), Stray>) -> Result<(), Stray> {
    let branch = |block: &Block| match block.stmts.is_empty() {
        true => values(&block.value, leaf),
        false => Err(Stray {
            span: block.value.span,
            claim: "a `let` stands before this word".to_owned(),
            help: "choose between words by `if` and `match` alone".to_owned(),
        }),
    };
    match &*expr.node {
        Node::If(_, yes, no) => branch(yes).and_then(|()| branch(no)),
        Node::Match(_, arms) => arms.iter().try_for_each(|(_, value)| values(value, leaf)),
        _ => leaf(expr),
    }
}

fn stray(expr: &Expr, wanted: &str, words: &[&str]) -> Stray {
    let near = match &*expr.node {
        Node::Name(name) => nearest(name.as_str(), words.iter().copied()),
        _ => None,
    };
    Stray {
        span: expr.span,
        claim: format!("`{expr}` is not {wanted}"),
        help: match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("it is one of {}", words.join(", ")),
        },
    }
}
