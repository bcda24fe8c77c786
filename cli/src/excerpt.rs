//! A part of a typed expression, shown as rustc shows a part of a file.

use std::fmt;
use std::ops::Range;

/// Columns that are shown around the marked part; a longer line is cut at both ends.
const AROUND: usize = 40;
/// The length up to which a part is marked.
const LONGEST: usize = 80;

/// One line of an expression with a mark under a part of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Excerpt {
    /// The part, in bytes of the whole text.
    pub span: Range<usize>,
    /// The start of the line: line and column from 1, in characters.
    pub place: (usize, usize),
    /// The line, or its part near the mark.
    line: String,
    /// The columns of the mark.
    mark: Range<usize>,
}

impl Excerpt {
    /// The line in which `span` starts. A part over several lines is marked to the end of its first line.
    pub fn new(text: &str, span: Range<usize>) -> Excerpt {
        let before = text.get(..span.start).unwrap_or(text);
        let number = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = text[start..].lines().next().unwrap_or_default();
        let column = text[start..before.len()].chars().count();
        let marked = text.get(span.clone()).and_then(|part| part.lines().next()).unwrap_or_default();
        let length = marked.chars().count().clamp(1, LONGEST);
        // A control character could move the cursor, so it becomes a blank.
        let characters: Vec<char> = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let first = if column + length > LONGEST { column.saturating_sub(AROUND) } else { 0 };
        let last = characters.len().min(column + length + AROUND).max(first);
        let mut shown: String = characters[first..last].iter().collect();
        let mut at = column - first;
        if first > 0 {
            shown.insert(0, '…');
            at += 1;
        }
        if last < characters.len() {
            shown.push('…');
        }
        Excerpt { span, place: (number, column + 1), line: shown, mark: at..at + length }
    }
}

impl Excerpt {
    /// Columns of the line's number.
    pub fn gutter(&self) -> usize {
        self.place.0.to_string().len()
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, column) = self.place;
        let width = self.gutter();
        let mark = format!("{}{}", " ".repeat(self.mark.start), "^".repeat(self.mark.len()));
        writeln!(f, "{:width$}--> expression:{number}:{column}", "")?;
        writeln!(f, "{:width$} |", "")?;
        writeln!(f, "{number} | {}", self.line)?;
        write!(f, "{:width$} | {mark}", "")
    }
}

#[cfg(test)]
mod tests {
    use super::Excerpt;

    #[test]
    fn the_part_is_marked_in_its_line() {
        let shown = Excerpt::new("gleu([1])", 0..4).to_string();
        assert_eq!(shown, " --> expression:1:1\n  |\n1 | gleu([1])\n  | ^^^^");
        // The second line; a part over two lines; a part after the end.
        assert_eq!(Excerpt::new("é +\n\tx($)", 8..9).to_string(), " --> expression:2:4\n  |\n2 |  x($)\n  |    ^");
        assert_eq!(Excerpt::new("ab(\nc)", 0..6).to_string(), " --> expression:1:1\n  |\n1 | ab(\n  | ^^^");
        assert_eq!(Excerpt::new("", 0..0).to_string(), " --> expression:1:1\n  |\n1 | \n  | ^");
    }

    #[test]
    fn long_lines_are_cut() {
        let text = format!("{}x{}", "a".repeat(100_000), "b".repeat(100_000));
        let shown = Excerpt::new(&text, 100_000..100_001).to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[2], format!("1 | …{}x{}…", "a".repeat(40), "b".repeat(40)));
        assert_eq!(lines[3], format!("  | {}^", " ".repeat(41)));
        let all = Excerpt::new(&text, 0..text.len()).to_string();
        assert!(all.lines().all(|line| line.chars().count() < 130), "{all}");
    }
}
