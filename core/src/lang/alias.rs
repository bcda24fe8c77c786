//! Calls under other names: how a library of the field spells a call of a row.
//!
//! An entry of a row's `aten:` or `torch:` list is a name, `gather`, for a call with the row's own arguments in their
//! order; or a call form, `gather(input: x, dim, index)`, which lists that library's parameters:
//!
//! ```text
//! alias := name ['(' [given {',' given}] [';' fixed {',' fixed}] ')']
//! given := ['..'] name [':' (name ['[' count [',' name] ']'] | '(' part {',' part} ')' | '_' | '?')] ['=' expr]
//! count := integer | '..'
//! part  := name | '_'
//! fixed := name '=' expr
//! ```
//! `input: x` is the row's argument `x`; `x` alone has the same name in both. `p: x = 2` has another default than the
//! row's. `size: kernel[2]` is what PyTorch's schemas write `int[2]`: a number, or a list of one, repeats, and an empty list
//! counts as not given. `mask: ?` says for each result whether it is wanted; `output_mask` of PyTorch's adjoints. `scales: (h, w)` takes a list apart. In `size[2, x]` an absent entry is the size of `x` there, counted from the last axis. `out: _` takes part in nothing; with a value, `inplace: _ = false`, only that value is admitted. `..xs` takes
//! all positional arguments from there on. After `;` stand arguments of the row that the name implies.

use super::ast::{Expr, Ident};
use super::lexer::Tok;
use super::parser::{Parsed, Parser};
use super::{Dialect, SyntaxError};
use crate::name::Name;

/// One call form.
#[derive(Clone, Debug, PartialEq)]
pub struct Alias {
    /// The other library's name.
    pub name: Ident,
    /// Its parameters; `None`: the row's own.
    pub given: Option<Vec<Given>>,
    /// Arguments of the row that the name implies.
    pub fixed: Vec<(Ident, Expr)>,
}

/// How many integers a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// As many.
    Some(usize),
    /// One for each axis.
    Axes,
}

/// One parameter of a call form.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    /// Its name in the other library.
    pub name: Ident,
    /// The argument of the row; `None`: it takes part in nothing.
    pub arg: Option<Ident>,
    /// The arguments of the row that the entries of a list are.
    pub parts: Vec<Option<Ident>>,
    /// How many integers it is; `None`: it isn't said.
    pub count: Option<Count>,
    /// The argument whose sizes stand for absent entries.
    pub like: Option<Ident>,
    /// Where it differs from the row's default; of one that takes part in nothing: the only admitted value.
    pub value: Option<Expr>,
    /// Takes all positional arguments from there on.
    pub rest: bool,
    /// Says which results are wanted.
    pub mask: bool,
}

/// Reads a call form: `gather(input: x, dim, index)`.
///
/// # Errors
/// The first place where the text leaves the grammar.
pub fn parse_alias(text: &str) -> Result<Alias, SyntaxError> {
    let mut parser = Parser::new(text, Dialect::Tensor)?;
    let alias = parser.alias()?;
    parser.end("`(` or the end of the text")?;
    Ok(alias)
}

impl Parser {
    fn alias(&mut self) -> Parsed<Alias> {
        let name = self.callee()?;
        if !self.at("(") {
            return Ok(Alias { name, given: None, fixed: Vec::new() });
        }
        self.open("(")?;
        let (mut given, mut fixed) = (Vec::new(), Vec::new());
        if !self.at(";") && !self.at(")") {
            given.push(self.given()?);
            while self.eat(",") {
                given.push(self.given()?);
            }
        }
        if self.eat(";") {
            fixed.push(self.fixed()?);
            while self.eat(",") {
                fixed.push(self.fixed()?);
            }
        }
        self.close(")", if fixed.is_empty() { "`,`, `;`" } else { "`,`" })?;
        Ok(Alias { name, given: Some(given), fixed })
    }

    fn given(&mut self) -> Parsed<Given> {
        let rest = self.eat("..");
        let name = self.ident("the name of a parameter")?;
        let (mut mask, mut parts) = (false, Vec::new());
        let arg = match self.eat(":") {
            false => Some(name),
            true if self.at("(") => {
                self.open("(")?;
                parts.push(self.part()?);
                while self.eat(",") {
                    parts.push(self.part()?);
                }
                self.close(")", "`,`")?;
                None
            }
            true if self.eat("?") => {
                mask = true;
                None
            }
            true => self.part()?,
        };
        let (mut count, mut like) = (None, None);
        if arg.is_some() && self.at("[") {
            self.open("[")?;
            count = Some(self.count()?);
            if self.eat(",") {
                like = Some(self.ident("an argument of the row")?);
            }
            self.close("]", if like.is_some() { "" } else { "`,`" })?;
        }
        let value = if self.eat("=") { Some(self.expr()?) } else { None };
        Ok(Given { name, arg, parts, count, like, value, rest, mask })
    }

    fn count(&mut self) -> Parsed<Count> {
        if self.eat("..") {
            return Ok(Count::Axes);
        }
        let Tok::Int(n @ 1..=64) = *self.peek() else { return Err(self.unexpected("how many integers, or `..`")) };
        self.bump();
        Ok(Count::Some(n as usize))
    }

    /// An argument of the row; `_`: none.
    fn part(&mut self) -> Parsed<Option<Ident>> {
        if self.eat_word("_") {
            return Ok(None);
        }
        self.ident("an argument of the row, or `_`").map(Some)
    }

    fn fixed(&mut self) -> Parsed<(Ident, Expr)> {
        let name = self.ident("an argument of the row")?;
        self.expect("=")?;
        Ok((name, self.expr()?))
    }
}

impl Alias {
    /// The full name in the library `of`: `torch.softmax`.
    pub fn full(&self, of: &str) -> Name {
        Name::new(&format!("{of}.{}", self.name.name))
    }
}
