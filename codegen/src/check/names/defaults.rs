//! E005, E007, E010: faulty defaults. Such a default has another type than its option, is a dtype that `dtypes`
//! refuses, is an argument, or depends on itself.

use fulgurite_core::lang::{Expr, Node, Opt, OptType, UnOp};
use fulgurite_core::signature::const_eval::constant;
use fulgurite_core::signature::{Env, const_eval};
use fulgurite_core::{DType, Name};

use crate::check::walk;
use crate::diag::Diag;
use crate::schema::RowSource;

/// Kind of a value, as far as its text tells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Truth,
    Integer,
    Float,
    Text,
    DType,
    Word,
}

/// The first fault of the default of `opt`.
pub(super) fn check(source: &RowSource, opt: &Opt, default: &Expr) -> Option<Diag> {
    misfit(source, opt, default).or_else(|| argument(source, opt, default)).or_else(|| circle(source, opt, default))
}

fn misfit(source: &RowSource, opt: &Opt, default: &Expr) -> Option<Diag> {
    let (name, place) = (opt.name.name, source.sig.text.at(default.span));
    let wrong = |what: &str, help: &str| {
        let message = format!("the default of `{name}` in `{}` is no {what}", source.op.as_str());
        Some(Diag::error("E005", place, message).help(help))
    };
    let kind = kind(default, source)?;
    match (&opt.ty, kind) {
        (OptType::Bool, Kind::Truth) => None,
        (OptType::Bool, _) => wrong("truth value", "write `true` or `false`"),
        (OptType::F64 | OptType::Num, Kind::Integer | Kind::Float) => None,
        (OptType::F64 | OptType::Num, Kind::Truth) => wrong("number", "write a number, or let the option be `bool`"),
        (OptType::F64 | OptType::Num, _) => wrong("number", "write a number"),
        (OptType::Str | OptType::Labels(_), Kind::Text) => None,
        (OptType::Str | OptType::Labels(_), _) => wrong("text", "write a text in double quotes"),
        (OptType::Dtype(variable), Kind::DType) => match &*default.node {
            Node::Name(word) if *variable == "T" && !is_accepted(source, *word) => {
                wrong("dtype that the row accepts", "choose one of `dtypes`, or accept it there")
            }
            _ => None,
        },
        (OptType::Dtype(_), _) => wrong("dtype", "write a dtype, `f32`, or one that follows: `join(a, b)`"),
        // whether the option has this word is checked elsewhere
        (OptType::Enum(_), Kind::Word | Kind::Text) => None,
        (OptType::Enum(_), _) => wrong("word", "choose one of the words of the `enum`"),
        (OptType::Size(_), Kind::Integer) if is_negative(default) => wrong("size", "a size is 0 or more"),
        (_, Kind::Integer) => None,
        (OptType::Dims { .. }, Kind::Word) => None,
        (OptType::I64, Kind::Float) => wrong("integer", "write an integer, or let the option be `f64`"),
        (OptType::I64, Kind::Truth) => wrong("integer", "write an integer, or let the option be `bool`"),
        (OptType::Dims { .. }, _) => wrong("set of axes", "write `all`, or the number of an axis"),
        _ => wrong("integer", "write an integer"),
    }
}

/// The kind of `e`. `None` where its text does not tell.
fn kind(e: &Expr, source: &RowSource) -> Option<Kind> {
    match &*e.node {
        Node::Int(_) => Some(Kind::Integer),
        Node::Float(_) => Some(Kind::Float),
        Node::Str(_) => Some(Kind::Text),
        Node::Unary(UnOp::Neg, inner) => kind(inner, source),
        Node::Unary(UnOp::Not, _) => Some(Kind::Truth),
        Node::Name(name) => named(*name, source),
        _ => None,
    }
}

fn named(name: Name, source: &RowSource) -> Option<Kind> {
    if let Some(opt) = source.sig.tree.opts.iter().find(|opt| opt.name.name == name) {
        return match &opt.ty {
            // a `Num` may be of any category
            OptType::Num => None,
            OptType::F64 => Some(Kind::Float),
            OptType::Bool => Some(Kind::Truth),
            OptType::Str | OptType::Labels(_) => Some(Kind::Text),
            OptType::Dtype(_) => Some(Kind::DType),
            OptType::Enum(_) => Some(Kind::Word),
            _ => Some(Kind::Integer),
        };
    }
    match name.as_str() {
        "true" | "false" => Some(Kind::Truth),
        "all" => Some(Kind::Word),
        _ if constant(name).is_some() => Some(Kind::Float),
        _ if DType::from_name(name.as_str()).is_some() => Some(Kind::DType),
        _ if name.is_size() => Some(Kind::Integer),
        _ => None,
    }
}

fn is_negative(e: &Expr) -> bool {
    matches!(&*e.node, Node::Unary(UnOp::Neg, inner) if matches!(&*inner.node, Node::Int(n) if *n > 0))
}

/// Whether the row accepts this dtype. Where an option decides, it counts as accepted.
fn is_accepted(source: &RowSource, word: Name) -> bool {
    let accepted = source.dtypes.as_ref().and_then(|rule| const_eval::dtype_set(&Env::default(), &rule.tree).ok());
    accepted.is_none_or(|accepted| DType::from_name(word.as_str()).is_none_or(|dtype| accepted.contains(dtype)))
}

/// E007: a default is an argument.
fn argument(source: &RowSource, opt: &Opt, default: &Expr) -> Option<Diag> {
    let (name, op) = (opt.name.name, source.op.as_str());
    let read = source.sig.tree.params.iter().find(|param| *default == Expr::name(param.name.name))?;
    let message = format!("the default of `{name}` in `{op}` is the argument `{}`", read.name.name);
    let diag = Diag::error("E007", source.sig.text.at(default.span), message);
    Some(diag.help("a default is made of numbers, sizes and other options"))
}

/// E010: a default depends on itself, directly or not.
fn circle(source: &RowSource, opt: &Opt, default: &Expr) -> Option<Diag> {
    let opts = &source.sig.tree.opts;
    let mut way = vec![opt.name.name];
    let mut open = vec![default];
    while let Some(next) = open.pop() {
        let mut closed = false;
        walk::expr_names(next, &mut |read| {
            closed |= read == opt.name.name;
            let of = opts.iter().find(|other| other.name.name == read && !way.contains(&read));
            if let Some(of) = of {
                way.push(read);
                open.extend(&of.default);
            }
        });
        if closed {
            let message = format!("the default of `{}` in `{}` is made of itself", opt.name.name, source.op.as_str());
            let diag = Diag::error("E010", source.sig.text.at(default.span), message);
            return Some(diag.help("write a number, a size or another option"));
        }
    }
    None
}
