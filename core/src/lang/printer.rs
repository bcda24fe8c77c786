//! The canonical text of blocks and expressions: the output of `Display` parses back to an equal tree.
//!
//! The text has only the brackets that the grammar needs, with two exceptions: an `if` or `match` inside an operator
//! gets brackets, since `if c { a } else { b } + 1` reads as if only the last branch were meant, and so does `&&`
//! inside `||`. A block printed by itself puts each statement on its own line; a block in braces stays on one.
//!
//! Trees that the parser never makes (a negative [`Node::Int`], a tuple of one) print as the nearest text.

use std::fmt::{Display, Formatter, Result};

use super::ast::*;

/// Precedence levels above those of [`BinOp::level`].
const UNARY: u8 = 6;
const POST: u8 = 7;
const ATOM: u8 = 8;

/// The level of a position that admits any expression.
const ANY: u8 = 0;

fn level(expr: &Expr) -> u8 {
    match &*expr.node {
        Node::If(..) | Node::Match(..) => ANY,
        Node::Binary(op, ..) => op.level(),
        Node::Unary(..) => UNARY,
        Node::Int(value) if *value < 0 => UNARY,
        Node::Float(value) if value.is_sign_negative() => UNARY,
        Node::Cast(..) => POST,
        _ => ATOM,
    }
}

/// An expression at a position that requires this level; lower ones get brackets.
pub(super) struct Within<'a>(pub(super) u8, pub(super) &'a Expr);

impl Display for Within<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Within(least, expr) = self;
        if level(expr) < *least { write!(f, "({expr})") } else { write!(f, "{expr}") }
    }
}

/// Items with a comma between them.
pub(super) struct Commas<'a, T>(pub(super) &'a [T]);

impl<T: Display> Display for Commas<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (i, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

struct Braced<'a>(&'a Block);

impl Display for Braced<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("{ ")?;
        for stmt in &self.0.stmts {
            write!(f, "{stmt} ")?;
        }
        write!(f, "{} }}", self.0.value)
    }
}

impl Display for Ident {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.name)
    }
}

impl Display for Block {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for stmt in &self.stmts {
            writeln!(f, "{stmt}")?;
        }
        write!(f, "{}", self.value)
    }
}

impl Display for Stmt {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Stmt::Let(pattern, value) => write!(f, "let {pattern} = {value};"),
            Stmt::Write(name, value) => write!(f, "{name} <- {value};"),
        }
    }
}

impl Display for Pattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Pattern::Name(name) => write!(f, "{name}"),
            Pattern::Axes(name, axes) => write!(f, "{name}[{axes}]"),
            Pattern::Tuple(names) => write!(f, "({})", Commas(names)),
        }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.node)
    }
}

impl Display for Node {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            // The one integer whose digits do not fit i64 without the sign.
            Node::Int(i64::MIN) => write!(f, "(-{} - 1)", i64::MAX),
            Node::Int(value) => write!(f, "{value}"),
            Node::Float(value) => float(*value, f),
            Node::Str(text) if text.contains('"') => write!(f, "'{text}'"),
            Node::Str(text) => write!(f, "\"{text}\""),
            Node::Name(name) => write!(f, "{name}"),
            Node::Tuple(items) => write!(f, "({})", Commas(items)),
            Node::Unary(op, operand) => write!(f, "{}{}", op.mark(), Within(UNARY, operand)),
            Node::Binary(op, left, right) => {
                // `a - b - c` groups to the left; comparisons do not group at all.
                let chains = op.level() != BinOp::Eq.level();
                let mixes = |e: &Expr| *op == BinOp::Or && matches!(&*e.node, Node::Binary(BinOp::And, ..));
                let least = |e: &Expr, level: u8| if mixes(e) { ATOM } else { level };
                let left = Within(least(left, op.level() + u8::from(!chains)), left);
                write!(f, "{left} {} {}", op.mark(), Within(least(right, op.level() + 1), right))
            }
            Node::Cast(inner, class) => write!(f, "{} as {class}", Within(POST, inner)),
            Node::If(cond, yes, no) => {
                write!(f, "if {cond} {} else ", Braced(yes))?;
                match &*no.value.node {
                    Node::If(..) if no.stmts.is_empty() => write!(f, "{}", no.value),
                    _ => write!(f, "{}", Braced(no)),
                }
            }
            Node::Match(subject, arms) => {
                write!(f, "match {subject} {{ ")?;
                for (i, (word, value)) in arms.iter().enumerate() {
                    write!(f, "{}{word} => {value}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str(" }")
            }
            Node::Call(name, args) => write!(f, "{name}({})", Commas(args)),
            Node::Access(access) => write!(f, "{access}"),
            Node::Reduce(reduce) => write!(f, "{reduce}"),
            Node::Zip(inner) => write!(f, "..({inner})"),
            Node::Spread(inner) => write!(f, "..{inner}"),
            Node::List(items) => write!(f, "[{}]", Commas(items)),
        }
    }
}

/// The shortest text that reads back as an equal number, and as a float.
fn float(value: f64, f: &mut Formatter<'_>) -> Result {
    if value.is_nan() {
        f.write_str("nan")
    } else if value.is_infinite() {
        f.write_str(if value > 0.0 { "inf" } else { "-inf" })
    } else {
        write!(f, "{value:?}")
    }
}

impl Display for Arg {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.name {
            Some(name) => write!(f, "{name} = {}", self.value),
            None => write!(f, "{}", self.value),
        }
    }
}

impl Display for ListItem {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            ListItem::One(item) => write!(f, "{item}"),
            ListItem::Spread(list) => write!(f, "..{}", Within(POST, list)),
        }
    }
}

impl Display for TensorAccess {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.base)?;
        if let Some(item) = &self.item {
            write!(f, "[{item}]")?;
        }
        write!(f, "[{}", Commas(&self.places))?;
        match &self.outside {
            Outside::Refuse => f.write_str("]"),
            Outside::Skip => f.write_str(" else skip]"),
            // A value that is called `skip`.
            Outside::Value(value) if matches!(&*value.node, Node::Name(name) if *name == "skip") => {
                f.write_str(" else (skip)]")
            }
            Outside::Value(value) => write!(f, " else {value}]"),
        }
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Place::One(index) => write!(f, "{index}"),
            Place::Zip(index) => write!(f, "..({index})"),
            Place::List(name, None) => write!(f, "..{name}"),
            Place::List(name, Some(axes)) => write!(f, "..{name}[{axes}]"),
            Place::Unravel(call) => write!(f, "..{call}"),
            Place::Broadcast(name) => write!(f, "~{name}"),
            Place::BroadcastZip(index) => write!(f, "~({index})"),
            Place::BroadcastGroup(places) => write!(f, "~[{}]", Commas(places)),
        }
    }
}

impl Display for Reduce {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}[", self.red.word())?;
        match &self.binds {
            None => f.write_str("..")?,
            Some(binds) => write!(f, "{}", Commas(binds))?,
        }
        if let Some(filter) = &self.filter {
            write!(f, " if {filter}")?;
        }
        write!(f, "]({}", self.body)?;
        if let Some(value) = &self.otherwise {
            write!(f, " else {value}")?;
        }
        f.write_str(")")
    }
}

impl Display for Bind {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}{}", if self.list { ".." } else { "" }, self.name)?;
        if let Some(axes) = &self.axes {
            write!(f, "[{axes}]")?;
        }
        if let Some((low, high)) = &self.range {
            let least = BinOp::Add.level();
            write!(f, " in {}..{}", Within(least, low), Within(least, high))?;
        }
        Ok(())
    }
}
