//! Constructors of trees that keep derived texts short.

use crate::lang::ast::*;
use crate::{Name, Scalar};

/// An identifier without a place in the source.
pub fn ident(name: Name) -> Ident {
    Ident { name, span: Span::default() }
}

/// A name.
pub fn name(name: Name) -> Expr {
    Expr::name(name)
}

/// An integer literal.
pub fn int(i: i64) -> Expr {
    Expr::bare(Node::Int(i))
}

/// A literal; whole numbers are written without a point where `whole` allows it.
pub fn number(x: f64, whole: bool) -> Expr {
    // -0.0 has no integer literal.
    let as_int = whole && x.fract() == 0.0 && x.abs() < 1e15 && (x != 0.0 || x.is_sign_positive());
    Expr::bare(if as_int { Node::Int(x as i64) } else { Node::Float(x) })
}

/// The value of `e`, if it is an integer literal.
pub fn as_int(e: &Expr) -> Option<i64> {
    match &*e.node {
        Node::Int(i) => Some(*i),
        _ => None,
    }
}

/// The value of `e`, if it is a number, possibly negated.
pub fn as_number(e: &Expr) -> Option<Scalar> {
    match &*e.node {
        Node::Int(i) => Some(Scalar::Int(*i)),
        Node::Float(x) => Some(Scalar::Float(*x)),
        Node::Unary(UnOp::Neg, a) => match as_number(a)? {
            Scalar::Int(i) => Some(Scalar::Int(i.checked_neg()?)),
            other => Some(Scalar::Float(-other.as_f64())),
        },
        _ => None,
    }
}

/// The name, if `e` is a bare name.
pub fn as_name(e: &Expr) -> Option<Name> {
    match &*e.node {
        Node::Name(n) => Some(*n),
        _ => None,
    }
}

/// `a op b`, without simplification.
pub fn binary(op: BinOp, a: Expr, b: Expr) -> Expr {
    Expr::bare(Node::Binary(op, a, b))
}

/// `a + b` on indices.
pub fn add(a: Expr, b: Expr) -> Expr {
    match (as_int(&a), as_int(&b), &*b.node) {
        (Some(0), ..) => b,
        (_, Some(0), _) => a,
        (Some(x), Some(y), _) if x.checked_add(y).is_some() => int(x + y),
        (_, _, Node::Unary(UnOp::Neg, c)) => sub(a, c.clone()),
        _ => binary(BinOp::Add, a, b),
    }
}

/// `a - b` on indices; subtracting an added term cancels it.
pub fn sub(a: Expr, b: Expr) -> Expr {
    match (&*a.node, as_int(&a), as_int(&b)) {
        (_, _, Some(0)) => a,
        (_, Some(x), Some(y)) if x.checked_sub(y).is_some() => int(x - y),
        (Node::Binary(BinOp::Add, x, y), ..) if *y == b => x.clone(),
        (Node::Binary(BinOp::Add, x, y), ..) if *x == b => y.clone(),
        (_, Some(0), _) => Expr::bare(Node::Unary(UnOp::Neg, b)),
        _ if a == b => int(0),
        _ => match &*b.node {
            Node::Unary(UnOp::Neg, c) => add(a, c.clone()),
            _ => binary(BinOp::Sub, a, b),
        },
    }
}

/// `a && b`
pub fn and(a: Expr, b: Expr) -> Expr {
    if is_word(&a, "true") || a == b {
        b
    } else if is_word(&b, "true") {
        a
    } else {
        binary(BinOp::And, a, b)
    }
}

/// All of `conds`; `None` if there are none.
pub fn all(conds: impl IntoIterator<Item = Expr>) -> Option<Expr> {
    conds.into_iter().filter(|c| !is_word(c, "true")).reduce(and)
}

/// `!a`
pub fn not(a: Expr) -> Expr {
    match &*a.node {
        Node::Unary(UnOp::Not, inner) => inner.clone(),
        Node::Binary(BinOp::Eq, x, y) => binary(BinOp::Ne, x.clone(), y.clone()),
        Node::Binary(BinOp::Ne, x, y) => binary(BinOp::Eq, x.clone(), y.clone()),
        _ if is_word(&a, "true") => name(Name::new("false")),
        _ if is_word(&a, "false") => name(Name::new("true")),
        _ => Expr::bare(Node::Unary(UnOp::Not, a)),
    }
}

/// Whether `e` is this name.
pub fn is_word(e: &Expr, word: &str) -> bool {
    matches!(&*e.node, Node::Name(n) if *n == word)
}

/// `f(args)`
pub fn call(f: &str, args: impl IntoIterator<Item = Expr>) -> Expr {
    let args = args.into_iter().map(|value| Arg { name: None, value }).collect();
    Expr::bare(Node::Call(ident(Name::new(f)), args))
}

/// `if c { a } else { b }`
pub fn branch(c: Expr, a: Expr, b: Expr) -> Expr {
    if is_word(&c, "true") || a == b {
        return a;
    }
    if is_word(&c, "false") {
        return b;
    }
    Expr::bare(Node::If(c, block(a), block(b)))
}

/// A block without statements.
pub fn block(value: Expr) -> Block {
    Block { stmts: Vec::new(), value }
}

/// `x[places]`
pub fn access(base: Name, places: Vec<Place>) -> Expr {
    Expr::bare(Node::Access(TensorAccess { base: ident(base), places, outside: Outside::Refuse, item: None }))
}

/// `red[binds if filter](body)`
pub fn reduce(red: Red, binds: Vec<Bind>, filter: Option<Expr>, body: Expr) -> Expr {
    Expr::bare(Node::Reduce(Reduce { red, binds: Some(binds), filter, body, otherwise: None, span: Span::default() }))
}

/// `red[..](body)`: over the axes of the lists in `body`.
pub fn over_axes(red: Red, body: Expr) -> Expr {
    Expr::bare(Node::Reduce(Reduce { red, binds: None, filter: None, body, otherwise: None, span: Span::default() }))
}

/// `..(e)`
pub fn zip(e: Expr) -> Expr {
    Expr::bare(Node::Zip(e))
}

/// A shape item without a condition.
pub fn dim(kind: DimKind) -> DimPat {
    DimPat { kind, cond: None, span: Span::default() }
}

/// A choice of axes.
pub fn axes(kind: AxesKind) -> Axes {
    Axes { not: false, kind, span: Span::default() }
}

/// The complement of a choice of axes.
pub fn complement(a: &Axes) -> Axes {
    Axes { not: !a.not, ..a.clone() }
}

/// Whether two choices of axes are complements of one another.
pub fn complementary(a: &Axes, b: &Axes) -> bool {
    *a == complement(b)
}

/// Axes with the name `from` replaced by `to`.
pub fn rename_axes(a: &Axes, from: Name, to: Name) -> Axes {
    let ident = |id: &Ident| if id.name == from { Ident { name: to, span: id.span } } else { *id };
    let kind = match &a.kind {
        AxesKind::Name(n) => AxesKind::Name(ident(n)),
        AxesKind::Before(n) => AxesKind::Before(ident(n)),
        AxesKind::From(n) => AxesKind::From(ident(n)),
        AxesKind::Names(ns) => AxesKind::Names(ns.iter().map(ident).collect()),
        AxesKind::Fn(f, ns) => AxesKind::Fn(*f, ns.iter().map(ident).collect()),
        AxesKind::Not(inner) => AxesKind::Not(Box::new(rename_axes(inner, from, to))),
    };
    Axes { kind, ..a.clone() }
}
