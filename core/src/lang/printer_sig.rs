//! The canonical text of signatures: types, shape patterns, choices of axes, options.

use std::fmt::{Display, Formatter, Result};

use super::ast::*;
use super::printer::{Commas, Within};
use crate::name::Name;

impl Display for Sig {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "({}", Commas(&self.params))?;
        if !self.opts.is_empty() {
            write!(f, "; {}", Commas(&self.opts))?;
        }
        f.write_str(") -> ")?;
        match self.outs.as_slice() {
            [only] if !self.named_outs => write!(f, "{}", only.ty),
            outs => {
                write!(f, "({}", Commas(outs))?;
                if !self.aux.is_empty() {
                    write!(f, "; {}", Commas(&self.aux))?;
                }
                f.write_str(")")
            }
        }
    }
}

impl Display for Out {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}: {}", self.name, self.ty)
    }
}

impl Display for Param {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let access = match self.access {
            Access::Read => "",
            Access::Mut => "mut ",
            Access::Like => "like ",
        };
        write!(f, "{access}{}: {}{}", self.name, self.ty, if self.optional { "?" } else { "" })
    }
}

impl Display for Type {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if self.list.is_some() {
            f.write_str("List<")?;
        }
        for (i, elem) in self.elem.iter().enumerate() {
            write!(f, "{}{elem}", if i == 0 { "" } else { " | " })?;
        }
        if let Some(dims) = &self.dims {
            write!(f, "[{}]", Commas(dims))?;
        }
        match &self.list {
            None => Ok(()),
            Some(ListLen::Any) => f.write_str(">"),
            Some(ListLen::Body) => f.write_str(", _>"),
            Some(ListLen::Expr(len)) => write!(f, ", {}>", Within(BinOp::Add.level(), len)),
        }
    }
}

impl Display for Elem {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Elem::Var(name) | Elem::Class(name) => write!(f, "{name}"),
            Elem::Index => f.write_str("Index"),
            Elem::Key => f.write_str("Key"),
            Elem::Acc(name) => write!(f, "acc({name})"),
            Elem::Real(name) => write!(f, "real({name})"),
        }
    }
}

impl Display for DimPat {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.kind)?;
        match &self.cond {
            Some(cond) => write!(f, " if {cond}"),
            None => Ok(()),
        }
    }
}

impl Display for DimKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            DimKind::One { name, size, at } => {
                bound(name, f)?;
                write!(f, "{size}")?;
                at_option(at, f)
            }
            DimKind::Broadcast(name) => write!(f, "~{name}"),
            DimKind::BroadcastList(items) => write!(f, "~[{}]", Commas(items)),
            DimKind::List { name, axes, keep, at } => {
                write!(f, "..{name}")?;
                match (axes, keep) {
                    (Some(axes), Some(keep)) => write!(f, "[{axes}; {keep}]")?,
                    (Some(axes), None) => write!(f, "[{axes}]")?,
                    (None, _) => {}
                }
                at_option(at, f)
            }
            DimKind::Zip { name, size } => {
                f.write_str("..(")?;
                bound(name, f)?;
                write!(f, "{size})")
            }
            DimKind::Group(items) => write!(f, "..[{}]", Commas(items)),
            DimKind::Ones(name) => write!(f, "..ones({name})"),
            DimKind::Body => f.write_str("_"),
        }
    }
}

fn bound(name: &Option<Ident>, f: &mut Formatter<'_>) -> Result {
    match name {
        Some(name) => write!(f, "{name} = "),
        None => Ok(()),
    }
}

fn at_option(at: &Option<Ident>, f: &mut Formatter<'_>) -> Result {
    match at {
        Some(name) => write!(f, "@{name}"),
        None => Ok(()),
    }
}

impl Display for Axes {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}{}", if self.not { "!" } else { "" }, self.kind)
    }
}

impl Display for AxesKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            AxesKind::Name(name) => write!(f, "{name}"),
            AxesKind::Names(names) => write!(f, "[{}]", Commas(names)),
            AxesKind::Before(name) => write!(f, "..{name}"),
            AxesKind::From(name) => write!(f, "{name}.."),
            AxesKind::Fn(name, args) => write!(f, "{name}({})", Commas(args)),
            AxesKind::Not(inner) => write!(f, "[!{inner}]"),
        }
    }
}

impl Display for Opt {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}: {}{}", self.name, self.ty, if self.optional { "?" } else { "" })?;
        match &self.default {
            Some(value) => write!(f, " = {value}"),
            None => Ok(()),
        }
    }
}

impl Display for OptType {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            OptType::Num => f.write_str("Num"),
            OptType::F64 => f.write_str("f64"),
            OptType::I64 => f.write_str("i64"),
            OptType::Bool => f.write_str("bool"),
            OptType::Str => f.write_str("Str"),
            OptType::Dtype(name) => write!(f, "Dtype({name})"),
            OptType::Enum(words) => write!(f, "enum({})", Commas(words)),
            OptType::Dim(None) => f.write_str("Dim"),
            OptType::Dim(Some(list)) => write!(f, "Dim({list})"),
            OptType::Gap(list) => write!(f, "Gap({list})"),
            OptType::Perm(list) => write!(f, "Perm({list})"),
            OptType::Labels(list) => write!(f, "Labels({list})"),
            OptType::Pos(size) => write!(f, "Pos({size})"),
            OptType::Bound(size) => write!(f, "Bound({size})"),
            OptType::Size(size) => write!(f, "Size({size})"),
            OptType::Dims { list, empty_all, most } => {
                write!(f, "Dims({list}, empty = {}", if *empty_all { "all" } else { "none" })?;
                key("most", most, f)?;
                f.write_str(")")
            }
            OptType::Ints { list, axes, broadcast, fill } => {
                write!(f, "Ints({}{list}", if *broadcast { "~" } else { "" })?;
                if let Some(axes) = axes {
                    write!(f, "[{axes}]")?;
                }
                key("fill", fill, f)?;
                f.write_str(")")
            }
            OptType::Shape { list, infer, keep, like } => {
                write!(f, "Shape({list}")?;
                key::<Name>("infer", infer, f)?;
                key::<Name>("keep", keep, f)?;
                key::<Name>("like", like, f)?;
                f.write_str(")")
            }
        }
    }
}

fn key<T: Display>(word: &str, value: &Option<T>, f: &mut Formatter<'_>) -> Result {
    match value {
        Some(value) => write!(f, ", {word} = {value}"),
        None => Ok(()),
    }
}
