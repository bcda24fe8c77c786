//! Signatures: arguments, options with their types, results.

use super::ast::*;
use super::lexer::Tok;
use super::parser::{Parsed, Parser};
use crate::dtype::DType;
use crate::name::Name;

/// The help where an option's type is expected.
const OPTION_TYPES: &str = "Num f64 i64 bool Str Dtype(T) enum(a, b) Dim Dim(S) Gap(S) Perm(S) Labels(S) Pos(N) Bound(N) \
                            Dims(S, empty = all) Ints(S) Size(N) Shape(O)";

/// The help where a list of numbers stands as an option's type.
const LISTS: &str = "a list of sizes is `Shape(O)`, of axes `Dims(S, empty = all)`, of a number per axis `Ints(S)`";

impl Parser {
    /// `(params; options) -> results`
    pub(super) fn sig(&mut self) -> Parsed<Sig> {
        let (mut params, mut opts) = (Vec::new(), Vec::new());
        self.open("(")?;
        if !self.at(";") && !self.at(")") {
            params.push(self.param()?);
            while self.eat(",") {
                params.push(self.param()?);
            }
        }
        if self.eat(";") {
            opts.push(self.opt()?);
            while self.eat(",") {
                opts.push(self.opt()?);
            }
        }
        if self.at("=") && opts.is_empty() {
            let error = self.unexpected("`,`, `;` or `)`");
            return Err(error.help("only options have defaults; they stand after `;`"));
        }
        self.close(")", if opts.is_empty() { "`,`, `;`" } else { "`,`" })?;
        self.expect("->")?;
        let (mut outs, mut aux) = (Vec::new(), Vec::new());
        let named_outs = self.at("(");
        if named_outs {
            self.open("(")?;
            outs = self.outs()?;
            if self.eat(";") {
                aux = self.outs()?;
            }
            self.close(")", if aux.is_empty() { "`,`, `;`" } else { "`,`" })?;
        } else {
            let span = self.span();
            let ty = self.ty()?;
            outs.push(Out { name: Ident { name: Name::new("out"), span }, ty });
        }
        Ok(Sig { params, opts, outs, aux, named_outs })
    }

    fn outs(&mut self) -> Parsed<Vec<Out>> {
        let mut outs = Vec::new();
        loop {
            let name = self.ident("the name of a result")?;
            if !self.at(":") {
                return Err(self
                    .unexpected("`:`")
                    .help("several results are named: `-> (values: T[..S], indices: i64[..S])`"));
            }
            self.expect(":")?;
            outs.push(Out { name, ty: self.ty()? });
            if !self.eat(",") {
                return Ok(outs);
            }
        }
    }

    fn param(&mut self) -> Parsed<Param> {
        // `like: T` is an argument called `like`; `like x: T` is an argument `x` of which only the type is read.
        let modifier = self.word().filter(|_| self.then_word());
        let access = match modifier {
            Some("mut") => Access::Mut,
            Some("like") => Access::Like,
            _ => Access::Read,
        };
        if access != Access::Read {
            self.bump();
        }
        let name = self.ident("the name of an argument")?;
        if self.at("=") {
            let help = format!("options follow `;` and have a type: `; {}: f64 = 2`", name.name);
            return Err(self.unexpected("`:`").help(help));
        }
        if !self.at(":") {
            let help = format!("an argument has a type: `{0}: T`, with a shape `{0}: T[..S]`", name.name);
            return Err(self.unexpected("`:`").help(help));
        }
        self.expect(":")?;
        let ty = self.ty()?;
        Ok(Param { access, name, ty, optional: self.eat("?") })
    }

    fn opt(&mut self) -> Parsed<Opt> {
        let name = self.ident("the name of an option")?;
        if self.at("=") {
            let help = format!("an option has a type: `{}: f64 = 2`", name.name);
            return Err(self.unexpected("`:`").help(help));
        }
        if !self.at(":") {
            let help = format!("an option has a type: `{0}: f64`, of an axis `{0}: Dim(S)`", name.name);
            return Err(self.unexpected("`:`").help(help));
        }
        self.expect(":")?;
        let ty = self.opt_type()?;
        if self.at("[") {
            return Err(self.unexpected("`?`, `=`, `,` or `)`").help(LISTS));
        }
        let optional = self.eat("?");
        let default = if self.eat("=") { Some(self.expr()?) } else { None };
        Ok(Opt { name, ty, optional, default })
    }

    fn opt_type(&mut self) -> Parsed<OptType> {
        let Some(word) = self.word() else { return Err(self.opt_type_error()) };
        let plain = match word {
            "Num" => Some(OptType::Num),
            "f64" => Some(OptType::F64),
            "i64" => Some(OptType::I64),
            "bool" => Some(OptType::Bool),
            "Str" => Some(OptType::Str),
            "Dim" if !self.then("(") => Some(OptType::Dim(None)),
            _ => None,
        };
        if let Some(ty) = plain {
            self.bump();
            return Ok(ty);
        }
        let read: fn(&mut Parser) -> Parsed<OptType> = match word {
            "Dtype" => |p| Ok(OptType::Dtype(p.dtype_variable()?)),
            "enum" => |p| p.enum_words(),
            "Dim" => |p| Ok(OptType::Dim(Some(p.size_name()?.name))),
            "Gap" => |p| Ok(OptType::Gap(p.size_name()?.name)),
            "Perm" => |p| Ok(OptType::Perm(p.size_name()?.name)),
            "Labels" => |p| Ok(OptType::Labels(p.size_name()?.name)),
            "Pos" => |p| Ok(OptType::Pos(p.size_name()?.name)),
            "Bound" => |p| Ok(OptType::Bound(p.size_name()?.name)),
            "Size" => |p| Ok(OptType::Size(p.size_name()?.name)),
            "Dims" => |p| p.dims_option(),
            "Ints" => |p| p.ints_option(),
            "Shape" => |p| p.shape_option(),
            _ => return Err(self.opt_type_error()),
        };
        self.bump();
        self.open("(")?;
        let ty = read(self)?;
        self.close(")", "")?;
        Ok(ty)
    }

    fn opt_type_error(&self) -> super::SyntaxError {
        let error = self.unexpected("the type of an option");
        error.help(match self.word() {
            Some("List") => LISTS,
            Some(_) if self.then("[") => LISTS,
            None if self.at("[") => LISTS,
            Some("T" | "U" | "V" | "Index" | "Key") => "tensors are arguments and stand before the `;`",
            Some("float" | "double") => "a float option is `f64`",
            Some("int" | "usize") => "an integer option is `i64`",
            Some(word) => match DType::from_name(word).or_else(|| DType::from_foreign_name(word)) {
                Some(dtype) if dtype.is_float() => "a float option is `f64`",
                Some(dtype) if dtype.is_int() => "an integer option is `i64`",
                _ => OPTION_TYPES,
            },
            None => OPTION_TYPES,
        })
    }

    fn enum_words(&mut self) -> Parsed<OptType> {
        let mut words = vec![self.ident("a word")?.name];
        while self.eat(",") {
            words.push(self.ident("a word")?.name);
        }
        Ok(OptType::Enum(words))
    }

    /// `S, empty = all|none [, most = n]`
    fn dims_option(&mut self) -> Parsed<OptType> {
        let list = self.size_name()?.name;
        const SAY: &str = "say what `[]` means: `empty = all` or `empty = none`";
        if !self.at(",") {
            return Err(self.unexpected("`, empty =`").help(SAY));
        }
        self.bump();
        self.expect_key("empty")?;
        let empty_all = match self.word() {
            Some("all") => true,
            Some("none") => false,
            _ => return Err(self.unexpected("`all` or `none`").help(SAY)),
        };
        self.bump();
        let mut most = None;
        if self.eat(",") {
            self.expect_key("most")?;
            most = Some(self.integer()?);
        }
        Ok(OptType::Dims { list, empty_all, most })
    }

    /// `_`; or `S`, `S[axes]` or `~S`, then perhaps `, fill = n`
    fn ints_option(&mut self) -> Parsed<OptType> {
        if self.eat_word("_") {
            return Ok(OptType::Ints { list: Name::new("_"), axes: None, broadcast: false, fill: None });
        }
        let broadcast = self.eat("~");
        let list = self.size_name()?.name;
        let mut axes = None;
        if !broadcast && self.at("[") {
            self.open("[")?;
            axes = Some(self.axes()?);
            self.close("]", "")?;
        }
        let mut fill = None;
        if self.eat(",") {
            self.expect_key("fill")?;
            fill = Some(self.integer()?);
        }
        Ok(OptType::Ints { list, axes, broadcast, fill })
    }

    /// `O`, then perhaps one of `infer = S`, `keep = x`, `like = S`
    fn shape_option(&mut self) -> Parsed<OptType> {
        let list = self.size_name()?.name;
        let (mut infer, mut keep, mut like) = (None, None, None);
        if self.eat(",") {
            match self.word() {
                Some("infer") => {
                    self.expect_key("infer")?;
                    infer = Some(self.size_name()?.name);
                }
                Some("keep") => {
                    self.expect_key("keep")?;
                    keep = Some(self.ident("the argument whose sizes are kept")?.name);
                }
                Some("like") => {
                    self.expect_key("like")?;
                    like = Some(self.size_name()?.name);
                }
                _ => return Err(self.unexpected("`infer =`, `keep =` or `like =`")),
            }
        }
        Ok(OptType::Shape { list, infer, keep, like })
    }

    /// An integer, perhaps negative.
    fn integer(&mut self) -> Parsed<i64> {
        let negative = self.eat("-");
        let Tok::Int(value) = *self.peek() else { return Err(self.unexpected("an integer")) };
        self.bump();
        Ok(if negative { -value } else { value })
    }
}
