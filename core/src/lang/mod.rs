//! The rule languages: syntax trees, one lexer, one LL(2) parser, one printer (docs/row-language.md).
//!
//! [`parse_sig`], [`parse_block`] and [`parse_expr`] read text; `Display` of each tree writes its canonical text, which
//! parses back to an equal tree. The parser does not resolve names: the checker decides whether a name is bound, an
//! axis exists or a dtype fits.
//!
//! **Invariant:** every text gets an answer, in time linear in its length and with bounded recursion. A parsed tree is
//! at most [`MAX_DEPTH`] nodes high, so that walks over it can recurse.

pub mod alias;
pub mod ast;
pub(crate) mod elements;
pub mod helpers;
mod lexer;
mod parser;
mod parser_expr;
mod parser_index;
mod parser_sig;
mod parser_type;
mod printer;
mod printer_sig;
mod syntax_error;
pub mod walk;

pub use alias::{Alias, Becomes, Count, Given, Gives, parse_alias};
pub use ast::*;
pub use syntax_error::SyntaxError;

/// Greatest height of a parsed tree. Hand-written rules stay below 20, derived ones below 100.
pub const MAX_DEPTH: u32 = 200;

/// Longest rule text in bytes: far above any rule, and small enough for [`Span`]'s 32 bits.
pub const MAX_LEN: usize = 1 << 20;

/// The forms of the grammar that a parser admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Scalar and index notation: `expr`, `view`, `require`, `at`, sizes. Has accesses and reductions.
    Index,
    /// The tensor language: `decomp`, `grad`, `jvp`, dispatch bodies. Has lists, named arguments and writes.
    Tensor,
}

/// Reads a signature: `(x: T[..S]; dim: Dim(S)) -> T[..S]`.
///
/// # Errors
/// The first place where the text leaves the grammar.
pub fn parse_sig(text: &str) -> Result<Sig, SyntaxError> {
    let mut parser = parser::Parser::new(text, Dialect::Index)?;
    let sig = parser.sig()?;
    parser.end("the end of the text")?;
    Ok(sig)
}

/// Reads statements and a value: `let y = x * x; y + 1`.
///
/// # Errors
/// The first place where the text leaves the grammar.
pub fn parse_block(text: &str, dialect: Dialect) -> Result<Block, SyntaxError> {
    let mut parser = parser::Parser::new(text, dialect)?;
    let block = parser.block()?;
    parser.end("an operator or the end of the text")?;
    Ok(block)
}

/// Reads a rule of a tensor subclass: a block of the tensor language in which `x.data` is a value.
///
/// # Errors
/// The first place where the text leaves the grammar.
pub fn parse_rule(text: &str) -> Result<Block, SyntaxError> {
    let mut parser = parser::Parser::new(text, Dialect::Tensor)?;
    parser.fields = true;
    let block = parser.block()?;
    parser.end("an operator or the end of the text")?;
    Ok(block)
}

/// Reads one expression.
///
/// # Errors
/// The first place where the text leaves the grammar.
pub fn parse_expr(text: &str, dialect: Dialect) -> Result<Expr, SyntaxError> {
    let mut parser = parser::Parser::new(text, dialect)?;
    let expr = parser.expr()?;
    parser.end("an operator or the end of the text")?;
    Ok(expr)
}
