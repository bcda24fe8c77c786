//! The expressions of `eval`: calls of rows on numbers and lists.
//!
//! ```text
//! expr := add ['as' NAME]       add := mul {('+'|'-') mul}      mul := unary {('*'|'/'|'%') unary}
//! unary := '-' unary | post     post := atom {'.' NAME '(' args ')'}
//! atom := NUMBER | 'true' | 'false' | 'inf' | 'nan' | STRING | '[' args ']' | '(' expr ')' | NAME ['(' args ')']
//! args := [arg {',' arg} [',']]     arg := [NAME '='] expr
//! ```
//!
//! A method is its row with the receiver as first argument. The meaning of a name or a list (a tensor, axes, a word of
//! an option) depends on the row that takes it, so it is decided at the call.

use crate::fault::Fault;
use fulgurite::core::Scalar;
use std::ops::Range;

/// An expression with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The kind of the expression, with its parts.
    pub kind: Kind,
    /// The bytes of the expression in the text.
    pub span: Range<usize>,
}

/// The kind of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A number: an integer if it was written as a whole number that fits, exact to the last digit.
    Number(Scalar),
    /// `true`, `false`
    Bool(bool),
    /// A text in double quotes.
    Text(String),
    /// A word: an option's value or a dtype.
    Name(String),
    List(Vec<Expr>),
    /// A call of a row.
    Call(String, Vec<Arg>),
    /// `… as dtype`
    As(Box<Expr>, String),
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    /// The name of the argument, if it was given by name.
    pub name: Option<String>,
    pub value: Expr,
}

/// At most this many levels of brackets and calls, because more would overflow the stack.
const DEEPEST: usize = 64;
/// At most this many calls and operators in an expression, because all of them may be nested: `1 + 1 + …`.
const MOST: usize = 1000;

/// Reads an expression.
///
/// # Errors
/// E917, with the text and a mark under the place.
pub fn parse(text: &str) -> Result<Expr, Fault> {
    let tokens = lex(text)?;
    let mut parser = Parser { text, tokens, at: 0, depth: 0, calls: 0 };
    let expr = parser.expr()?;
    match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(parser.expected("an operator or the end")),
    }
}

/// E917 at a place of an expression.
pub fn wrong(text: &str, at: Range<usize>, claim: impl Into<String>) -> Fault {
    Fault::usage("E917", claim).in_expression(text, at)
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(Scalar),
    Name(String),
    Text(String),
    Sign(char),
    End,
}

fn lex(text: &str) -> Result<Vec<(Token, Range<usize>)>, Fault> {
    let mut tokens = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some((start, c)) = rest.next() {
        let mut take = |keep: &dyn Fn(char, char) -> bool| {
            let (mut end, mut last) = (start + c.len_utf8(), c);
            while let Some((at, next)) = rest.next_if(|(_, next)| keep(last, *next)) {
                (end, last) = (at + next.len_utf8(), next);
            }
            start..end
        };
        let (token, span) = match c {
            c if c.is_whitespace() => continue,
            '0'..='9' => {
                let span = take(&|last, c| {
                    c.is_ascii_alphanumeric()
                        || c == '.'
                        || c == '_'
                        || (matches!(c, '+' | '-') && matches!(last, 'e' | 'E'))
                });
                number(text, span)?
            }
            'a'..='z' | 'A'..='Z' | '_' => {
                let span = take(&|_, c| c.is_ascii_alphanumeric() || c == '_');
                (Token::Name(text[span.clone()].to_owned()), span)
            }
            '"' => {
                let inside = take(&|_, c| c != '"');
                match rest.next() {
                    Some((end, _)) => (Token::Text(text[start + 1..end].to_owned()), start..end + 1),
                    None => return Err(wrong(text, inside, "a quote is not closed")),
                }
            }
            '[' | ']' | '(' | ')' | ',' | '=' | '+' | '-' | '*' | '/' | '%' | '.' => (Token::Sign(c), start..start + 1),
            _ => return Err(wrong(text, start..start + c.len_utf8(), format!("`{c}` means nothing here"))),
        };
        tokens.push((token, span));
    }
    tokens.push((Token::End, text.len()..text.len()));
    Ok(tokens)
}

/// The digits of the least integer, which is no i64 without its sign.
const LEAST: &str = "9223372036854775808";

fn number(text: &str, span: Range<usize>) -> Result<(Token, Range<usize>), Fault> {
    let digits = text[span.clone()].replace('_', "");
    if let Ok(whole) = digits.parse::<i64>() {
        return Ok((Token::Number(Scalar::Int(whole)), span));
    }
    match digits.parse::<f64>() {
        Ok(value) => Ok((Token::Number(Scalar::Float(value)), span)),
        Err(_) => Err(wrong(text, span, format!("`{digits}` is not a number"))),
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(Token, Range<usize>)>,
    at: usize,
    depth: usize,
    calls: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)].0
    }

    fn span(&self) -> Range<usize> {
        self.tokens[self.at.min(self.tokens.len() - 1)].1.clone()
    }

    fn next(&mut self) -> (Token, Range<usize>) {
        let token = self.tokens[self.at.min(self.tokens.len() - 1)].clone();
        self.at += 1;
        token
    }

    fn eat(&mut self, sign: char) -> bool {
        let found = *self.peek() == Token::Sign(sign);
        self.at += usize::from(found);
        found
    }

    fn expected(&self, what: &str) -> Fault {
        let found = match self.peek() {
            Token::End => "the end".to_owned(),
            _ => format!("`{}`", self.text.get(self.span()).unwrap_or_default()),
        };
        wrong(self.text, self.span(), format!("{found} stands where {what} should"))
    }

    fn expr(&mut self) -> Result<Expr, Fault> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(wrong(self.text, self.span(), format!("brackets are more than {DEEPEST} deep")));
        }
        let sum = self.binary(&['+', '-'], |p| p.binary(&['*', '/', '%'], Parser::unary))?;
        self.depth -= 1;
        Ok(sum)
    }

    fn binary(
        &mut self,
        signs: &[char],
        mut operand: impl FnMut(&mut Self) -> Result<Expr, Fault>,
    ) -> Result<Expr, Fault> {
        let mut left = operand(self)?;
        while let Token::Sign(sign) = *self.peek()
            && signs.contains(&sign)
        {
            self.at += 1;
            self.count()?;
            let right = operand(self)?;
            let row = match sign {
                '+' => "add",
                '-' => "sub",
                '*' => "mul",
                '/' => "div",
                _ => "remainder",
            };
            left = call(row, vec![left, right]);
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr, Fault> {
        let start = self.span().start;
        let mut signs = 0usize;
        while self.eat('-') {
            signs += 1;
        }
        let mut expr = self.post()?;
        let mut negative = signs % 2 == 1;
        if let (true, Kind::Number(value)) = (negative, &expr.kind) {
            // the sign belongs to the number, because the least integer has no positive counterpart
            let digits = &self.text[expr.span.clone()];
            let value = match value {
                Scalar::Float(_) if digits.replace('_', "") == LEAST => Scalar::Int(i64::MIN),
                Scalar::Float(value) => Scalar::Float(-value),
                // the least integer in brackets becomes what these digits alone are
                Scalar::Int(value) => value.checked_neg().map_or(Scalar::Float(-(*value as f64)), Scalar::Int),
                Scalar::Bool(value) => Scalar::Int(-i64::from(*value)),
            };
            expr = Expr { kind: Kind::Number(value), span: start..expr.span.end };
            negative = false;
        }
        let expr = self.casts(expr)?;
        Ok(if negative { Expr { span: start..expr.span.end, ..call("neg", vec![expr]) } } else { expr })
    }

    /// The casts after an operand, which bind as tightly as in rows.
    fn casts(&mut self, mut expr: Expr) -> Result<Expr, Fault> {
        while *self.peek() == Token::Name("as".to_owned()) {
            self.at += 1;
            self.count()?;
            let (Token::Name(dtype), end) = self.next() else {
                self.at -= 1;
                return Err(self.expected("a dtype"));
            };
            let span = expr.span.start..end.end;
            expr = Expr { kind: Kind::As(Box::new(expr), dtype), span };
        }
        Ok(expr)
    }

    fn post(&mut self) -> Result<Expr, Fault> {
        let mut expr = self.atom()?;
        while self.eat('.') {
            self.count()?;
            let (Token::Name(row), _) = self.next() else {
                self.at -= 1;
                return Err(self.expected("the name of an operator"));
            };
            if !self.eat('(') {
                return Err(self.expected("`(`"));
            }
            let mut args = vec![Arg { name: None, value: expr.clone() }];
            args.extend(self.args(')')?);
            expr = Expr { span: expr.span.start..self.behind(), kind: Kind::Call(row, args) };
        }
        Ok(expr)
    }

    /// Counts a call.
    fn count(&mut self) -> Result<(), Fault> {
        self.calls += 1;
        if self.calls > MOST {
            return Err(wrong(self.text, self.span(), format!("the expression has more than {MOST} operators")));
        }
        Ok(())
    }

    /// The end of the last token.
    fn behind(&self) -> usize {
        self.tokens[self.at.saturating_sub(1)].1.end
    }

    fn atom(&mut self) -> Result<Expr, Fault> {
        let (token, span) = self.next();
        let start = span.start;
        let kind = match token {
            Token::Number(value) => Kind::Number(value),
            Token::Text(text) => Kind::Text(text),
            Token::Name(name) if self.eat('(') => Kind::Call(name, self.args(')')?),
            // a row of another library's operator: `torch.addmm(…)`
            Token::Name(name) if *self.peek() == Token::Sign('.') => {
                let mut name = name;
                while self.eat('.') {
                    let (Token::Name(part), _) = self.next() else {
                        self.at -= 1;
                        return Err(self.expected("the name of an operator"));
                    };
                    name.push('.');
                    name.push_str(&part);
                }
                if !self.eat('(') {
                    return Err(self.expected("`(`"));
                }
                Kind::Call(name, self.args(')')?)
            }
            Token::Name(name) => match name.as_str() {
                "true" | "false" => Kind::Bool(name == "true"),
                "inf" => Kind::Number(Scalar::Float(f64::INFINITY)),
                "nan" => Kind::Number(Scalar::Float(f64::NAN)),
                _ => Kind::Name(name),
            },
            Token::Sign('[') => {
                let items = self.args(']')?;
                if let Some(named) = items.iter().find(|a| a.name.is_some()) {
                    return Err(wrong(self.text, named.value.span.clone(), "a list has no named entries"));
                }
                Kind::List(items.into_iter().map(|a| a.value).collect())
            }
            Token::Sign('(') => {
                let inner = self.expr()?;
                if !self.eat(')') {
                    return Err(self.expected("`)`"));
                }
                inner.kind
            }
            _ => {
                self.at -= 1;
                return Err(self.expected("a number, a list or a call"));
            }
        };
        Ok(Expr { kind, span: start..self.behind() })
    }

    fn args(&mut self, close: char) -> Result<Vec<Arg>, Fault> {
        let mut args = Vec::new();
        while !self.eat(close) {
            let named = matches!(self.tokens.get(self.at + 1), Some((Token::Sign('='), _)));
            let name = match self.peek().clone() {
                Token::Name(name) if named => {
                    self.at += 2;
                    Some(name)
                }
                _ => None,
            };
            args.push(Arg { name, value: self.expr()? });
            if !self.eat(',') && *self.peek() != Token::Sign(close) {
                return Err(self.expected(&format!("`,` or `{close}`")));
            }
        }
        Ok(args)
    }
}

fn call(row: &str, args: Vec<Expr>) -> Expr {
    let span = args.first().map_or(0, |a| a.span.start)..args.last().map_or(0, |a| a.span.end);
    let args = args.into_iter().map(|value| Arg { name: None, value }).collect();
    Expr { kind: Kind::Call(row.to_owned(), args), span }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
