//! The syntax of symbolic sizes in printed traces: `2*x.0 + 1`, `(x.0 - 3) / 2`. Division and remainder floor.

use super::lexer::{Pos, Tok};
use crate::error::Error;
use fulgurite_core::Dim;
use rustc_hash::FxHashMap;

/// Brackets nest at most this deep, because a text may come from outside and the parser recurses.
const MAX_DEPTH: usize = 64;

/// Symbolic sizes by name, as listed in the head of a trace.
pub(super) type Atoms = FxHashMap<String, Dim>;

/// Whether a size that is not a plain number starts at `at`.
pub(super) fn starts(tokens: &[(Tok, Pos)], at: usize, atoms: &Atoms) -> bool {
    let tok = |at: usize| tokens.get(at).map(|t| &t.0);
    match tok(at) {
        Some(Tok::Word(name)) => atoms.contains_key(name),
        Some(Tok::Mark('(' | '-')) => true,
        Some(Tok::Int(_)) => matches!(tok(at + 1), Some(Tok::Mark('+' | '-' | '*' | '/' | '%'))),
        _ => false,
    }
}

/// Reads a size at `at`, and moves `at` past it.
///
/// # Errors
/// E731 if the text is not a size.
pub(super) fn read(tokens: &[(Tok, Pos)], at: &mut usize, atoms: &Atoms) -> Result<Dim, Error> {
    Reader { tokens, at, atoms }.sum(0)
}

struct Reader<'t> {
    tokens: &'t [(Tok, Pos)],
    at: &'t mut usize,
    atoms: &'t Atoms,
}

impl Reader<'_> {
    fn peek(&self) -> (&Tok, Pos) {
        let (tok, pos) = &self.tokens[(*self.at).min(self.tokens.len() - 1)];
        (tok, *pos)
    }

    fn eat(&mut self, marks: &[char]) -> Option<char> {
        match self.peek().0 {
            Tok::Mark(c) if marks.contains(c) => {
                let c = *c;
                *self.at += 1;
                Some(c)
            }
            _ => None,
        }
    }

    fn sum(&mut self, depth: usize) -> Result<Dim, Error> {
        let mut sum = self.product(depth)?;
        while let Some(sign) = self.eat(&['+', '-']) {
            let next = self.product(depth)?;
            sum = if sign == '+' { sum + next } else { sum - next };
        }
        Ok(sum)
    }

    fn product(&mut self, depth: usize) -> Result<Dim, Error> {
        let negative = self.eat(&['-']).is_some();
        let mut product = self.factor(depth)?;
        while let Some(op) = self.eat(&['*', '/', '%']) {
            let next = self.factor(depth)?;
            product = match op {
                '*' => product * next,
                '/' => product / next,
                _ => product % next,
            };
        }
        Ok(if negative { -product } else { product })
    }

    fn factor(&mut self, depth: usize) -> Result<Dim, Error> {
        let (tok, pos) = self.peek();
        let size = match tok {
            Tok::Int(i) => Some(Dim::from(*i)),
            Tok::Word(name) => self.atoms.get(name).copied(),
            Tok::Mark('(') if depth < MAX_DEPTH => {
                *self.at += 1;
                let size = self.sum(depth + 1)?;
                let (tok, pos) = self.peek();
                return match tok {
                    Tok::Mark(')') => {
                        *self.at += 1;
                        Ok(size)
                    }
                    other => Err(pos.error("E731", format!("`)` was expected, not {other}"))),
                };
            }
            _ => None,
        };
        let size = size.ok_or_else(|| pos.error("E731", format!("a size was expected, not {tok}")))?;
        *self.at += 1;
        Ok(size)
    }
}
