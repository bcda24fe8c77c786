//! Element classes, tensor types and shape patterns.

use super::ast::*;
use super::lexer::Tok;
use super::parser::{Parsed, Parser};
use crate::dtype::{DType, DTypeSet};
use crate::name::Name;

/// The dtype variables.
const VARIABLES: &[&str] = &["T", "U", "V"];

/// The help on writing any number of axes.
const SHAPE: &str = "axes have names: `T[N]` has one, `T[..S]` any number";

impl Parser {
    /// `elem[dims]`, `List<type, length>`
    pub(super) fn ty(&mut self) -> Parsed<Type> {
        if self.at_word("List") && self.then("<") {
            return self.list_type();
        }
        self.tensor_type()
    }

    fn tensor_type(&mut self) -> Parsed<Type> {
        let start = self.span();
        let mut elem = vec![self.class()?];
        while self.eat("|") {
            elem.push(self.class()?);
        }
        let dims = if self.at("[") { Some(self.dims()?) } else { None };
        Ok(Type { elem, dims, list: None, span: self.since(start) })
    }

    fn list_type(&mut self) -> Parsed<Type> {
        let start = self.span();
        self.bump();
        self.open("<")?;
        if self.at_word("List") {
            return Err(self.unexpected("a tensor type").help("lists do not nest"));
        }
        let item = self.tensor_type()?;
        let len = if !self.eat(",") {
            ListLen::Any
        } else if self.eat_word("_") {
            ListLen::Body
        } else {
            ListLen::Expr(self.sum_expr()?)
        };
        self.close(">", if len == ListLen::Any { "`,`" } else { "" })?;
        Ok(Type { list: Some(len), span: self.since(start), ..item })
    }

    /// One element class: `T`, `Index`, `acc(T)`, `f32`, `float`, …
    pub(super) fn class(&mut self) -> Parsed<Elem> {
        const WHAT: &str = "`T`, `U`, `V`, `Index`, `Key`, a dtype or a class of dtypes";
        let Some(word) = self.word() else { return Err(self.unexpected(WHAT)) };
        let elem = match word {
            "Index" => Elem::Index,
            "Key" => Elem::Key,
            "acc" if self.then("(") => return Ok(Elem::Acc(self.class_function()?)),
            "real" if self.then("(") => return Ok(Elem::Real(self.class_function()?)),
            _ if VARIABLES.contains(&word) => Elem::Var(Name::new(word)),
            _ if DTypeSet::from_class(word).is_some() => Elem::Class(Name::new(word)),
            _ => {
                let error = self.unexpected(WHAT);
                if let Some(dtype) = DType::from_foreign_name(word) {
                    return Err(error.help(format!("write `{}`", dtype.name())));
                }
                return Err(match word {
                    "Num" | "Str" | "Dtype" | "enum" | "Dim" | "Dims" | "Gap" | "Perm" | "Labels" | "Pos" | "Bound"
                    | "Ints" | "Size" | "Shape" => error.help("options stand behind the arguments, after `;`"),
                    "Tensor" => error.help("a tensor is `T`, with a shape `T[..S]`"),
                    "usize" | "isize" | "u64" | "u32" | "u16" => error.help("sizes and positions are `i64`"),
                    "str" | "String" => error.help("the type of a text option is `Str`"),
                    _ => error.help(
                        "f16 bf16 f32 f64 i8 i16 i32 i64 u8 bool c64 c128, float int complex f8 unsigned storage all",
                    ),
                });
            }
        };
        self.bump();
        Ok(elem)
    }

    /// The variable in `acc(T)`.
    fn class_function(&mut self) -> Parsed<Name> {
        self.bump();
        self.open("(")?;
        let name = self.dtype_variable()?;
        self.close(")", "")?;
        Ok(name)
    }

    /// `T`, `U` or `V`.
    pub(super) fn dtype_variable(&mut self) -> Parsed<Name> {
        match *self.peek() {
            Tok::Word(name) if VARIABLES.contains(&name.as_str()) => {
                self.bump();
                Ok(name)
            }
            _ => Err(self.unexpected("`T`, `U` or `V`")),
        }
    }

    /// `[dims]`, perhaps empty.
    fn dims(&mut self) -> Parsed<Vec<DimPat>> {
        self.open("[")?;
        if self.at("]") {
            self.close("]", "")?;
            return Ok(Vec::new());
        }
        self.dim_items()
    }

    /// The items of `[…]` after the opening bracket.
    fn dim_items(&mut self) -> Parsed<Vec<DimPat>> {
        let mut items = vec![self.dim()?];
        while self.eat(",") {
            items.push(self.dim()?);
        }
        if self.at("..") {
            return Err(self.unexpected("an operator, `@`, `if`, `,` or `]`").help(SHAPE));
        }
        self.close("]", "an operator, `@`, `if`, `,`")?;
        Ok(items)
    }

    fn dim(&mut self) -> Parsed<DimPat> {
        let start = self.span();
        self.nested(|p| {
            if p.at("*") || p.at(":") || p.at("..") && (p.then(".") || p.then("]")) {
                return Err(p.unexpected("a size").help(SHAPE));
            }
            let kind = if p.eat_word("_") {
                DimKind::Body
            } else if p.eat("~") {
                if p.at("[") {
                    p.open("[")?;
                    DimKind::BroadcastList(p.dim_items()?)
                } else {
                    DimKind::Broadcast(p.size_name()?)
                }
            } else if p.eat("..") {
                p.dim_list()?
            } else {
                let name = p.bound_size()?;
                DimKind::One { name, size: p.expr()?, at: p.at_option()? }
            };
            let cond = if p.eat_word("if") { Some(p.expr()?) } else { None };
            Ok(DimPat { kind, cond, span: p.since(start) })
        })
    }

    /// The rest of an item after `..` in a shape pattern.
    fn dim_list(&mut self) -> Parsed<DimKind> {
        if self.at("(") {
            self.open("(")?;
            let name = self.bound_size()?;
            let size = self.expr()?;
            self.close(")", "an operator")?;
            return Ok(DimKind::Zip { name, size });
        }
        if self.at("[") {
            self.open("[")?;
            return Ok(DimKind::Group(self.dim_items()?));
        }
        if self.at_word("ones") && self.then("(") {
            self.bump();
            self.open("(")?;
            let size = self.size_name()?;
            self.close(")", "")?;
            return Ok(DimKind::Ones(size));
        }
        let name = self.size_name()?;
        let (mut axes, mut keep) = (None, None);
        if self.at("[") {
            self.open("[")?;
            axes = Some(self.axes()?);
            if self.eat(";") {
                keep = Some(self.ident("the option that keeps the other axes")?);
            }
            self.close("]", if keep.is_some() { "" } else { "`;`" })?;
        }
        Ok(DimKind::List { name, axes, keep, at: self.at_option()? })
    }

    /// `M =`
    fn bound_size(&mut self) -> Parsed<Option<Ident>> {
        if self.word().is_none() || !self.then("=") {
            return Ok(None);
        }
        let name = self.size_name()?;
        self.expect("=")?;
        Ok(Some(name))
    }

    /// `@dim`
    fn at_option(&mut self) -> Parsed<Option<Ident>> {
        if self.eat("@") { Ok(Some(self.axis("the option that names this axis")?)) } else { Ok(None) }
    }
}
