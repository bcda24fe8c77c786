//! Calls under other names: how a library of the field spells a call of a row.
//!
//! An entry of a row's `aten:` or `torch:` list is a name, `gather`, for a call with the row's own arguments in their
//! order; or a call form, `gather(input: x, dim, index)`, which lists that library's parameters:
//!
//! ```text
//! alias   := name ['(' [given {',' given}] [';' fixed {',' fixed}] ')' ['->' ('number' | 'none')]]
//! given   := ['..'] name [':' becomes] ['packed'] ['required'] ['=' expr]
//! becomes := name ['@' name | 'along' name | 'of' name | '[' count [',' name] ']'] | '(' part {',' part} ')' | '?' | '_'
//! count   := integer | '..'
//! part    := name | '_'
//! fixed   := name '=' expr
//! ```
//!
//! | form | meaning |
//! |---|---|
//! | `x` · `input: x` | the row's argument `x`, under its own name · under another |
//! | `p: x = 2` | with a default other than the row's |
//! | `size: kernel[2]` | PyTorch's `int[2]`: a number, or a list of one, repeats; an empty list counts as not given |
//! | `size: kernel[..]` | likewise, with one entry per axis of the row |
//! | `size: shape[2, x]` | an absent entry is the size of `x` there, counted from the last axis |
//! | `indices: idx @ dims` | a list in which entries may be missing: the given ones are `idx`, their positions `dims` |
//! | `tensors: xs along dim` | a list in which an empty vector gets the axes of the others, with size 0 along `dim` |
//! | `start: start of dtype` | the option `dtype` is the dtype of the tensor that is given |
//! | `scales: (h, w)` | a list whose entries are several arguments |
//! | `output_mask: ?` | a flag per result: whether the caller wants it |
//! | `out: _` · `inplace: _ = false` | the parameter is dropped · and must have this value |
//! | `weight packed` | no row corresponds to one whose elements lie in another order than that of its axes |
//! | `dim required` | a call must give it, though it is optional in the row |
//! | `..xs` | takes all further positional arguments |
//! | `; lo = 0` | an argument of the row that the name implies |
//! | `equal(input, other) -> number` | the row's tensor of rank 0 is a plain number in that library |
//! | `norm(input: x, p: _ = nuc) -> none` | calls that fit have no row |

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
    /// The parameters of the form; `None`: the row's own.
    pub given: Option<Vec<Given>>,
    /// Arguments of the row that the name implies.
    pub fixed: Vec<(Ident, Expr)>,
    /// The form of the call's result in that library.
    pub gives: Gives,
}

/// The form of a result in the other library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// The row's results.
    Tensors,
    /// Plain numbers, where the row's results are of rank 0.
    Numbers,
    /// A result that no row gives.
    Nothing,
}

/// The number of integers in a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// The list has this number of items.
    Some(usize),
    /// One for each axis.
    Axes,
}

/// One parameter of a call form.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    /// The name of the parameter in the other library.
    pub name: Ident,
    /// The role of the parameter in the row.
    pub becomes: Becomes,
    /// The default, where it differs from the row's; for a dropped parameter, the only admitted value.
    pub value: Option<Expr>,
    /// Whether the parameter takes all further positional arguments.
    pub rest: bool,
    /// Whether the other library reads the memory in order, whatever the strides are.
    pub packed: bool,
    /// Whether a call must give it, though it is optional in the row.
    pub required: bool,
}

/// The role of another library's parameter in the row.
#[derive(Clone, Debug, PartialEq)]
pub enum Becomes {
    /// The parameter is dropped.
    Nothing,
    /// An argument.
    Argument {
        /// The row's name of it.
        name: Ident,
        /// The number of integers; `None`: unspecified.
        count: Option<Count>,
        /// The argument whose sizes replace absent entries.
        like: Option<Ident>,
    },
    /// A list with gaps: an argument for its entries, one for their positions.
    Placed(Ident, Ident),
    /// A list of tensors, and the option that names their common axis: an empty vector means a tensor with the axes of
    /// the others and size 0 along that one.
    Along(Ident, Ident),
    /// An argument, and the option that gets its dtype: a library that passes a number as a tensor gives it a dtype.
    Typed(Ident, Ident),
    /// An argument for each entry of a list.
    Parts(Vec<Option<Ident>>),
    /// The flags of the results that the caller wants.
    Wanted,
}

impl Becomes {
    /// The arguments of the row that it provides.
    pub fn arguments(&self) -> Vec<Ident> {
        match self {
            Becomes::Argument { name, .. } => vec![*name],
            Becomes::Placed(entries, places) => vec![*entries, *places],
            Becomes::Along(entries, _) => vec![*entries],
            Becomes::Typed(argument, _) => vec![*argument],
            Becomes::Parts(parts) => parts.iter().copied().flatten().collect(),
            Becomes::Nothing | Becomes::Wanted => Vec::new(),
        }
    }
}

/// Reads a call form: `gather(input: x, dim, index)`.
///
/// # Errors
/// The first place where the text leaves the grammar.
pub fn parse_alias(text: &str) -> Result<Alias, SyntaxError> {
    let mut parser = Parser::new(text, Dialect::Tensor)?;
    let alias = parser.alias()?;
    parser.end("`(`, `->` or the end of the text")?;
    Ok(alias)
}

impl Parser {
    fn alias(&mut self) -> Parsed<Alias> {
        let name = self.callee()?;
        if !self.at("(") {
            return Ok(Alias { name, given: None, fixed: Vec::new(), gives: Gives::Tensors });
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
        let gives = match self.eat("->") {
            false => Gives::Tensors,
            true if self.eat_word("number") => Gives::Numbers,
            true if self.eat_word("none") => Gives::Nothing,
            true => return Err(self.unexpected("`number` or `none`")),
        };
        Ok(Alias { name, given: Some(given), fixed, gives })
    }

    fn given(&mut self) -> Parsed<Given> {
        let rest = self.eat("..");
        let name = self.ident("the name of a parameter")?;
        let becomes = match self.eat(":") {
            true => self.becomes()?,
            false => Becomes::Argument { name, count: None, like: None },
        };
        let packed = self.eat_word("packed");
        let required = self.eat_word("required");
        let value = if self.eat("=") { Some(self.expr()?) } else { None };
        Ok(Given { name, becomes, value, rest, packed, required })
    }

    fn becomes(&mut self) -> Parsed<Becomes> {
        if self.eat("?") {
            return Ok(Becomes::Wanted);
        }
        if self.at("(") {
            self.open("(")?;
            return Ok(Becomes::Parts(self.items(")", Parser::part)?));
        }
        let Some(name) = self.part()? else { return Ok(Becomes::Nothing) };
        if self.eat("@") {
            return Ok(Becomes::Placed(name, self.ident("an argument of the row")?));
        }
        if self.eat_word("along") {
            return Ok(Becomes::Along(name, self.ident("an option of the row")?));
        }
        if self.eat_word("of") {
            return Ok(Becomes::Typed(name, self.ident("an option of the row")?));
        }
        let (mut count, mut like) = (None, None);
        if self.at("[") {
            self.open("[")?;
            count = Some(self.count()?);
            if self.eat(",") {
                like = Some(self.ident("an argument of the row")?);
            }
            self.close("]", if like.is_some() { "" } else { "`,`" })?;
        }
        Ok(Becomes::Argument { name, count, like })
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
