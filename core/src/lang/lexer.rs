//! Splits a text into tokens with byte spans. There are no comments, escapes or keywords: the parser gives words their
//! meaning.

use std::fmt;

use super::MAX_LEN;
use super::ast::Span;
use super::syntax_error::SyntaxError;
use crate::name::Name;

/// One token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tok {
    /// A name; segments may be joined by dots (`gelu.vjp.x`).
    Word(Name),
    /// An integer literal.
    Int(i64),
    /// A float literal.
    Float(f64),
    /// A text literal, without its quotes.
    Str(String),
    Mark(&'static str),
    /// After the last token.
    End,
}

impl fmt::Display for Tok {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tok::Word(name) => write!(f, "`{name}`"),
            Tok::Int(value) => write!(f, "`{value}`"),
            Tok::Float(value) => write!(f, "`{value:?}`"),
            Tok::Str(text) => write!(f, "the text \"{text}\""),
            Tok::Mark(mark) => write!(f, "`{mark}`"),
            Tok::End => f.write_str("the end of the text"),
        }
    }
}

/// A token and its place.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) tok: Tok,
    pub(super) span: Span,
    /// Whether a line break precedes it.
    pub(super) begins_line: bool,
}

/// Every mark, longer ones before their prefixes. Marks that no rule of the grammar uses (`**`, `//`, `..=`, `^`, …)
/// are habits from other languages; the parser answers them with advice.
const MARKS: &[&str] = &[
    "..=", "..", "->", "<-", "=>", "==", "!=", "<=", ">=", "&&", "||", "**", "//", "/*", "+=", "-=", "*=", "/=", "::",
    "(", ")", "[", "]", "{", "}", "<", ">", "=", "+", "-", "*", "/", "%", "!", "&", "|", "^", "~", "?", ":", ";", ",",
    ".", "@", "#", "$", "\\", "`",
];

/// Characters of editors and papers for which the grammar has ASCII.
const LOOKALIKES: &[(char, &str)] = &[
    ('−', "-"),
    ('–', "-"),
    ('×', "*"),
    ('·', "*"),
    ('÷', "/"),
    ('≤', "<="),
    ('≥', ">="),
    ('≠', "!="),
    ('→', "->"),
    ('←', "<-"),
    ('…', ".."),
    ('∞', "inf"),
    ('π', "PI"),
    ('“', "\""),
    ('”', "\""),
    ('‘', "'"),
    ('’', "'"),
    ('\u{a0}', "an ordinary space"),
];

/// The tokens of `text`; the last is [`Tok::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, SyntaxError> {
    if text.len() > MAX_LEN {
        let found = format!("{} bytes", text.len());
        return Err(SyntaxError::new(Span::default(), format!("at most {MAX_LEN} bytes"), found));
    }
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next()?;
        let last = token.tok == Tok::End;
        tokens.push(token);
        if last {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

impl<'a> Lexer<'a> {
    fn next(&mut self) -> Result<Token, SyntaxError> {
        let end = self.at;
        self.skip(|b| b.is_ascii_whitespace());
        let start = self.at;
        let begins_line = self.text[end..start].contains('\n');
        let Some(first) = self.peek(0) else {
            return Ok(Token { tok: Tok::End, span: Span::new(start, start), begins_line });
        };
        let tok = match first {
            b if is_word_start(b) => self.word(),
            b if b.is_ascii_digit() => self.number()?,
            b'"' | b'\'' => self.string(first)?,
            _ => self.mark()?,
        };
        Ok(Token { tok, span: Span::new(start, self.at), begins_line })
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn peek_is(&self, ahead: usize, accept: impl Fn(u8) -> bool) -> bool {
        self.peek(ahead).is_some_and(accept)
    }

    fn skip(&mut self, accept: impl Fn(u8) -> bool) {
        while self.peek_is(0, &accept) {
            self.at += 1;
        }
    }

    fn word(&mut self) -> Tok {
        let start = self.at;
        self.skip(is_word);
        // A dot joins segments only where a letter follows at once: `dim..` and `0..n` are ranges.
        while self.peek(0) == Some(b'.') && self.peek_is(1, is_word) {
            self.at += 1;
            self.skip(is_word);
        }
        Tok::Word(Name::new(&self.text[start..self.at]))
    }

    fn number(&mut self) -> Result<Tok, SyntaxError> {
        let start = self.at;
        let mut float = false;
        self.skip(|b| b.is_ascii_digit());
        if self.peek(0) == Some(b'.') && self.peek_is(1, |b| b.is_ascii_digit()) {
            float = true;
            self.at += 1;
            self.skip(|b| b.is_ascii_digit());
        } else if self.peek(0) == Some(b'.') && self.peek(1) != Some(b'.') {
            let digits = &self.text[start..self.at];
            return Err(self.error(start, self.at + 1, "a digit after the point").help(format!("write {digits}.0")));
        }
        if self.peek_is(0, |b| matches!(b, b'e' | b'E')) {
            let sign = usize::from(self.peek_is(1, |b| b == b'+' || b == b'-'));
            if self.peek_is(1 + sign, |b| b.is_ascii_digit()) {
                float = true;
                self.at += 1 + sign;
                self.skip(|b| b.is_ascii_digit());
            }
        }
        let text = &self.text[start..self.at];
        if self.peek_is(0, is_word) {
            let number = self.at;
            self.skip(is_word);
            return Err(self.number_suffix(start, number));
        }
        if float {
            return match text.parse::<f64>() {
                Ok(value) if value.is_finite() => Ok(Tok::Float(value)),
                _ => Err(self.error(start, self.at, "a number within the range of f64").help("infinity is `inf`")),
            };
        }
        match text.parse::<i64>() {
            Ok(value) => Ok(Tok::Int(value)),
            Err(_) => Err(self
                .error(start, self.at, "an integer of at most 63 bits")
                .help(format!("as a float it is {text}.0"))),
        }
    }

    /// The error for letters that touch a number: a suffix, another base, or digit separators.
    fn number_suffix(&self, start: usize, number: usize) -> SyntaxError {
        let suffix = &self.text[number..self.at];
        let error = self.error(start, self.at, "a decimal number");
        if suffix.starts_with(['f', 'i', 'u']) {
            error.help(format!("numbers carry no type; write `{} as {suffix}`", &self.text[start..number]))
        } else if suffix.contains('_') {
            error.help(format!("write the digits without `_`: {}", self.text[start..self.at].replace('_', "")))
        } else {
            error.help("put a space or an operator between the number and the name")
        }
    }

    fn string(&mut self, quote: u8) -> Result<Tok, SyntaxError> {
        let start = self.at;
        self.at += 1;
        let inner = self.at;
        self.skip(|b| b != quote && b != b'\n');
        if self.peek(0) != Some(quote) {
            let error = self.error(start, start + 1, "a text that ends on its line");
            return Err(error.help(format!("add the closing {}", quote as char)));
        }
        let text = self.text[inner..self.at].to_owned();
        self.at += 1;
        Ok(Tok::Str(text))
    }

    fn mark(&mut self) -> Result<Tok, SyntaxError> {
        let rest = &self.text[self.at..];
        if rest.starts_with('.') && self.peek_is(1, |b| b.is_ascii_digit()) {
            return Err(self.error(self.at, self.at + 1, "a digit before the point").help("write 0. instead of ."));
        }
        if let Some(mark) = MARKS.iter().find(|mark| rest.starts_with(**mark)) {
            self.at += mark.len();
            return Ok(Tok::Mark(mark));
        }
        let other = rest.chars().next().unwrap_or(' ');
        let error = self.error(self.at, self.at + other.len_utf8(), "a name, a number or a mark");
        Err(match LOOKALIKES.iter().find(|(c, _)| *c == other) {
            Some((_, ascii)) if ascii.contains("space") => error.help(format!("write {ascii}")),
            Some((_, ascii)) => error.help(format!("write `{ascii}`")),
            None if other.is_alphabetic() => error.help("names have the letters a-z, A-Z, digits and `_`"),
            None => error,
        })
    }

    fn error(&self, start: usize, end: usize, expected: &str) -> SyntaxError {
        let end = end.min(self.text.len());
        let found = self.text.get(start..end).unwrap_or("");
        SyntaxError::new(Span::new(start, end), expected, format!("`{}`", found.escape_debug()))
    }
}
