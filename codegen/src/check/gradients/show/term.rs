//! The wrong term of a rule: a term of which a multiple is the difference between the rule and the derivative.

use fulgurite_core::Name;
use fulgurite_core::lang::{BinOp, Block, Expr, Node, Span, UnOp};

use crate::check::gradients::arrays::declared::{Declared, Pair, Refuted};
use crate::check::gradients::arrays::dense::Library;
use crate::check::gradients::show;

/// Returns the place of the wrong term of `rule`, and a sentence about it. There is one if the rule's value is a sum,
/// and one term explains all differences.
pub fn wrong(rule: &Declared, refuted: &[Refuted], library: &Library<'_>) -> Option<(Span, String)> {
    let block = &rule.rule.tree;
    let terms = terms(&block.value);
    if terms.len() < 2 {
        return None;
    }
    terms.into_iter().find_map(|(whole, part)| {
        let alone = Block { stmts: block.stmts.clone(), value: whole };
        let factor = factor(rule, &alone, refuted, library)?;
        let said = match factor {
            -1.0 => "this term has the wrong sign".to_owned(),
            0.0 => "this term does not belong here".to_owned(),
            _ => format!("this term must be multiplied by {}", show::factor(factor)),
        };
        Some((part, said))
    })
}

/// Returns the factor by which the term must be multiplied for the rule to be right.
fn factor(rule: &Declared, term: &Block, refuted: &[Refuted], library: &Library<'_>) -> Option<f64> {
    let mut points = Vec::new();
    for Refuted { instance, seed, pairs } in refuted {
        let values = rule.value_of(term, instance, library, seed).ok()?;
        let excess = |pair: &Pair| Some((*values.get(pair.element)?, pair.stated - pair.derived));
        points.extend(pairs.iter().filter_map(excess));
    }
    let (value, excess) = points.iter().copied().max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()))?;
    let share = excess / value;
    let explains = |(value, excess): &(f64, f64)| (excess - share * value).abs() <= 1e-7 * (excess.abs() + value.abs());
    // two points are needed, because one number is a multiple of any other
    if points.len() < 2 || !share.is_finite() || share.abs() < 1e-9 || !points.iter().all(explains) {
        return None;
    }
    let factor = 1.0 - share;
    let near = [-1.0, 0.0, 0.5, 2.0].into_iter().find(|whole| (whole - factor).abs() < 1e-6);
    Some(near.unwrap_or(factor))
}

/// Splits a rule's value into the terms of a sum, also inside linear operations. Each item is the value with this term
/// alone, and the place of the term.
fn terms(e: &Expr) -> Vec<(Expr, Span)> {
    let inside = |part: &Expr, wrap: &dyn Fn(Expr) -> Node| -> Vec<(Expr, Span)> {
        terms(part).into_iter().map(|(alone, span)| (Expr::bare(wrap(alone)), span)).collect()
    };
    let found = match &*e.node {
        Node::Binary(BinOp::Add, a, b) => [terms(a), terms(b)].concat(),
        Node::Binary(BinOp::Sub, a, b) => {
            let negative = inside(b, &|alone| Node::Unary(UnOp::Neg, alone));
            [terms(a), negative].concat()
        }
        Node::Unary(UnOp::Neg, a) => inside(a, &|alone| Node::Unary(UnOp::Neg, alone)),
        Node::Cast(a, elem) => inside(a, &|alone| Node::Cast(alone, elem.clone())),
        Node::Binary(BinOp::Div, a, b) => inside(a, &|alone| Node::Binary(BinOp::Div, alone, b.clone())),
        Node::Binary(BinOp::Mul, a, b) => match terms(a).len() {
            1 => inside(b, &|alone| Node::Binary(BinOp::Mul, a.clone(), alone)),
            _ => inside(a, &|alone| Node::Binary(BinOp::Mul, alone, b.clone())),
        },
        Node::Call(f, args) if f.name == Name::new("unbroadcast") && args.len() == 2 => {
            inside(&args[0].value, &|alone| {
                let mut args = args.clone();
                args[0].value = alone;
                Node::Call(*f, args)
            })
        }
        _ => Vec::new(),
    };
    // without a sum, the expression is a term itself
    if found.len() < 2 { vec![(e.clone(), e.span)] } else { found }
}
