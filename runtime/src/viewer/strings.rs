//! Texts of a document, each kept once: names, types and places repeat in every stage.

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

/// The texts, by number.
#[derive(Default)]
pub(super) struct Strings {
    list: Vec<String>,
    numbers: FxHashMap<String, usize>,
}

impl Strings {
    pub fn number(&mut self, text: &str) -> usize {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        self.list.push(text.to_owned());
        self.numbers.insert(text.to_owned(), self.list.len() - 1);
        self.list.len() - 1
    }

    /// The number of a text, or -1 for an empty one.
    pub fn or_none(&mut self, text: &str) -> i64 {
        if text.is_empty() { -1 } else { self.number(text) as i64 }
    }

    /// A text with marked places as pieces: a number from 0 on is what stood between two marks, and a negative number
    /// `-1 - n` is the text number `n`.
    pub fn pieces(&mut self, marked: &str) -> Vec<i64> {
        let mut out = Vec::new();
        for (i, piece) in marked.split(MARK).enumerate().filter(|(_, piece)| !piece.is_empty()) {
            match piece.parse() {
                Ok(number) if i % 2 == 1 => out.push(number),
                _ => out.push(-1 - self.number(piece) as i64),
            }
        }
        out
    }

    /// All texts, in the order of their numbers.
    pub fn finish(self) -> Value {
        json!(self.list)
    }
}

/// Stands before and after a number in a printed text. No printed text has this character, because texts of users are
/// printed with escapes.
const MARK: char = '\u{1}';

/// A number between marks.
pub(super) fn marked(number: usize) -> String {
    format!("{MARK}{number}{MARK}")
}

#[cfg(test)]
mod tests {
    use super::{Strings, marked};

    #[test]
    fn texts_are_kept_once_and_taken_apart() {
        let mut strings = Strings::default();
        assert_eq!(strings.pieces(&format!("{}, dims=[7], {}", marked(4), marked(0))), [4, -1, 0]);
        assert_eq!((strings.number(", dims=[7], "), strings.or_none(""), strings.number("b")), (0, -1, 1));
        assert_eq!(strings.finish(), serde_json::json!([", dims=[7], ", "b"]));
    }
}
