//! Tokens of printed traces, with line and column.

use crate::error::{Error, ErrorKind};

/// A position in a trace's text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pos {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl Pos {
    /// An error of the text at this position.
    pub fn error(self, code: &'static str, claim: impl std::fmt::Display) -> Error {
        let Pos { line, column } = self;
        Error::new(code, format!("trace text, {line}:{column}: {claim}")).kind_is(ErrorKind::TraceText { line, column })
    }
}

/// One token.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Tok {
    /// A name; dots, `@` and digits may follow its first letter.
    Word(String),
    /// An integer of type `i64`.
    Int(i64),
    /// A number beyond `i64`, such as the site of a line in a body.
    Big(u64),
    Float(f64),
    /// A text.
    Str(String),
    /// A punctuation mark; `<-` is `'<'`.
    Mark(char),
    /// The text after `//`.
    Comment(String),
    /// The end of a line of text.
    Newline,
    /// The end of the text.
    End,
}

impl std::fmt::Display for Tok {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Tok::Word(w) => write!(f, "`{w}`"),
            Tok::Int(i) => write!(f, "`{i}`"),
            Tok::Big(i) => write!(f, "`{i}`"),
            Tok::Float(x) => write!(f, "`{x:?}`"),
            Tok::Str(s) => write!(f, "{s:?}"),
            Tok::Mark('<') => f.write_str("`<-`"),
            Tok::Mark(c) => write!(f, "`{c}`"),
            Tok::Comment(_) => f.write_str("a comment"),
            Tok::Newline => f.write_str("the end of the line"),
            Tok::End => f.write_str("the end"),
        }
    }
}

/// At most 16 MiB of text, because a text may come from outside.
pub(super) const MAX_LEN: usize = 1 << 24;

/// The tokens of a text. Heads (`# …`) and bodies (`| …`) are left out.
pub(super) fn lex(text: &str) -> Result<Vec<(Tok, Pos)>, Error> {
    let start = Pos { line: 1, column: 1 };
    if text.len() > MAX_LEN {
        return Err(start.error("E731", format!("the text has more than {MAX_LEN} bytes")));
    }
    let mut tokens = Vec::new();
    let mut last = start;
    for (number, line) in text.lines().enumerate() {
        let pos = |column: usize| Pos { line: number as u32 + 1, column: column as u32 + 1 };
        let end = line.chars().count();
        last = pos(end);
        let trimmed = line.trim_start();
        if trimmed.starts_with("# ") || trimmed.starts_with('|') || trimmed.is_empty() {
            continue;
        }
        lex_line(line, &pos, &mut tokens)?;
        tokens.push((Tok::Newline, last));
    }
    tokens.push((Tok::End, last));
    Ok(tokens)
}

fn lex_line(line: &str, pos: &dyn Fn(usize) -> Pos, tokens: &mut Vec<(Tok, Pos)>) -> Result<(), Error> {
    let chars: Vec<char> = line.chars().collect();
    let mut i = 0;
    while let Some(&c) = chars.get(i) {
        let start = i;
        let next = chars.get(i + 1).copied();
        let tok = match c {
            c if c.is_whitespace() => {
                i += 1;
                continue;
            }
            '/' if next == Some('/') => {
                let text: String = chars[i + 2..].iter().collect();
                i = chars.len();
                Tok::Comment(text.trim().to_owned())
            }
            c if c.is_alphabetic() || c == '_' => {
                while chars.get(i).is_some_and(|c| in_name(*c)) {
                    i += 1;
                }
                Tok::Word(chars[start..i].iter().collect())
            }
            '-' if chars[i + 1..].starts_with(&['i', 'n', 'f']) && !chars.get(i + 4).is_some_and(|c| in_name(*c)) => {
                i += 4;
                Tok::Float(f64::NEG_INFINITY)
            }
            c if c.is_ascii_digit() || (c == '-' && next.is_some_and(|n| n.is_ascii_digit())) => {
                i = number_end(&chars, i);
                let text: String = chars[start..i].iter().collect();
                number(&text).ok_or_else(|| pos(start).error("E731", format!("`{text}` is no number")))?
            }
            '"' => {
                i = string_end(&chars, i).ok_or_else(|| pos(start).error("E731", "this text has no end"))?;
                Tok::Str(unescape(&chars[start + 1..i - 1]))
            }
            '<' if next == Some('-') => {
                i += 2;
                Tok::Mark('<')
            }
            '(' | ')' | '{' | '}' | '[' | ']' | ',' | ';' | ':' | '=' | '#' | '@' | '+' | '-' | '*' | '/' | '%' => {
                i += 1;
                Tok::Mark(c)
            }
            c => return Err(pos(start).error("E731", format!("`{c}` has no meaning in a trace"))),
        };
        tokens.push((tok, pos(start)));
    }
    Ok(())
}

/// Whether a character may follow the first letter of a name.
fn in_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '@')
}

fn number_end(chars: &[char], start: usize) -> usize {
    let mut i = start + 1;
    while let Some(c) = chars.get(i) {
        let exponent = matches!(c, '+' | '-') && matches!(chars[i - 1], 'e' | 'E');
        if !(c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E') || exponent) {
            break;
        }
        i += 1;
    }
    i
}

fn number(text: &str) -> Option<Tok> {
    if text.contains(['.', 'e', 'E']) {
        return text.parse().ok().map(Tok::Float);
    }
    text.parse().map(Tok::Int).or_else(|_| text.parse().map(Tok::Big)).ok()
}

fn string_end(chars: &[char], start: usize) -> Option<usize> {
    let mut i = start + 1;
    loop {
        match chars.get(i)? {
            '"' => return Some(i + 1),
            '\\' => i += 2,
            _ => i += 1,
        }
    }
}

/// The digits of a character's number take at most this many bytes.
const LONGEST_CODE: usize = 8;

/// Undoes the escapes that `{:?}` writes for quotes, backslashes, line ends and invisible characters: `\u{85}`, `\0`.
fn unescape(chars: &[char]) -> String {
    let mut out = String::new();
    let mut rest = chars.iter();
    while let Some(&c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some('0') => out.push('\0'),
                Some('u') => {
                    // a code that does not end has no meaning, and is not looked for in the whole text
                    let code: String = rest.clone().skip(1).take_while(|c| **c != '}').take(LONGEST_CODE).collect();
                    let closed = rest.as_slice().get(code.len() + 1) == Some(&'}');
                    let seen = u32::from_str_radix(&code, 16).ok().and_then(char::from_u32);
                    match seen.filter(|_| closed && rest.as_slice().first() == Some(&'{')) {
                        Some(seen) => {
                            out.push(seen);
                            rest = rest.as_slice()[code.len() + 2..].iter();
                        }
                        None => out.push('u'),
                    }
                }
                Some(&other) => out.push(other),
                None => {}
            },
            c => out.push(c),
        }
    }
    out
}
