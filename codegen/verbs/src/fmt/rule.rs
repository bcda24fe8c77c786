//! Formats rule texts: the printer's form, with the author's line breaks where a statement is too long for a line.
//!
//! The printer normalises spacing and brackets, but does not know the best place to break a long line. So the author's
//! breaks are located by the number of significant characters before them: all except blanks, brackets and quotes,
//! which the printer may change.

use fulgurite_core::lang::{Block, Dialect, parse_block, parse_expr, parse_rule, parse_sig};

/// The language of a rule text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    /// `sig`
    Signature,
    /// One expression of the index language.
    Condition,
    /// Statements and a value.
    Block(Dialect),
    /// Statements and a value, with fields of tensors of a subclass.
    Class,
}

/// The lines of the text, at most `room` wide where line breaks allow it. A text that does not parse stays as it is.
pub(super) fn lines(text: &str, language: Language, room: usize) -> Vec<String> {
    let as_written = || text.trim().lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
    let Some(statements) = statements(text, language) else { return as_written() };
    let whole = statements.join("\n");
    if statements.iter().all(|s| s.chars().count() <= room) {
        return statements;
    }
    let marks = [BLANKS, BRACKETS].into_iter().find(|marks| marks.of(text).eq(marks.of(&whole)));
    let Some(marks) = marks else { return as_written() };
    let mut count = 0;
    let breaks: Vec<usize> = text
        .trim()
        .lines()
        .map(|line| {
            count += marks.of(line).count();
            count
        })
        .collect();
    // Arguments are aligned with the first one, statements are indented.
    let unit = if language == Language::Signature { " " } else { "  " };
    let mut seen = 0;
    let mut lines = Vec::new();
    for statement in &statements {
        let end = seen + marks.of(statement).count();
        let here: Vec<usize> = breaks.iter().filter(|at| **at > seen && **at < end).map(|at| at - seen).collect();
        if statement.chars().count() <= room || here.is_empty() {
            lines.push(statement.clone());
        } else {
            lines.extend(broken(statement, &here, marks, unit));
        }
        seen = end;
    }
    match self::statements(&lines.join("\n"), language).as_ref() == Some(&statements) {
        true => lines,
        false => as_written(),
    }
}

/// The printed statements, if the text parses and the printed text parses to an equal tree.
fn statements(text: &str, language: Language) -> Option<Vec<String>> {
    match language {
        Language::Signature => {
            let sig = parse_sig(text).ok()?;
            let printed = sig.to_string();
            (parse_sig(&printed).ok()? == sig).then(|| vec![printed])
        }
        Language::Condition => {
            let e = parse_expr(text, Dialect::Index).ok()?;
            let printed = e.to_string();
            (parse_expr(&printed, Dialect::Index).ok()? == e).then(|| vec![printed])
        }
        Language::Block(dialect) => of_block(text, &|text| parse_block(text, dialect).ok()),
        Language::Class => of_block(text, &|text| parse_rule(text).ok()),
    }
}

fn of_block(text: &str, parse: &dyn Fn(&str) -> Option<Block>) -> Option<Vec<String>> {
    let block = parse(text)?;
    let printed: Vec<String> = block.stmts.iter().map(|s| s.to_string()).chain([block.value.to_string()]).collect();
    (parse(&printed.join("\n"))? == block).then_some(printed)
}

/// Characters that the printer may add or drop, so they do not count.
#[derive(Clone, Copy)]
struct Marks(&'static str);

/// Blanks and quotes.
const BLANKS: Marks = Marks("\"',");

/// Blanks, quotes and brackets, for texts in which the author uses other brackets.
const BRACKETS: Marks = Marks("\"',(){}");

impl Marks {
    fn counts(self, c: char) -> bool {
        !c.is_whitespace() && !self.0.contains(c)
    }

    fn of(self, text: &str) -> impl Iterator<Item = char> {
        text.chars().filter(move |c| self.counts(*c))
    }
}

/// A statement with line breaks after these numbers of significant characters; each line is indented by its open
/// brackets.
fn broken(statement: &str, breaks: &[usize], marks: Marks, unit: &str) -> Vec<String> {
    let chars: Vec<char> = statement.chars().collect();
    let mut cuts = Vec::new();
    for wanted in breaks {
        let mut seen = 0;
        let behind = chars.iter().position(|c| {
            seen += usize::from(marks.counts(*c));
            seen == *wanted
        });
        let Some(behind) = behind.map(|at| at + 1) else { continue };
        let gap = chars[behind..].iter().take_while(|c| !marks.counts(**c)).count();
        let between = &chars[behind..behind + gap];
        // A break stands after the comma or the last opening bracket, and before closing ones.
        let open = between.iter().rposition(|c| "({".contains(*c)).map(|at| at + 1);
        let blank = between.iter().position(|c| c.is_whitespace());
        cuts.push(behind + open.or(blank).unwrap_or(0));
    }
    let mut lines = Vec::new();
    let (mut depth, mut start) = (0usize, 0);
    for cut in cuts.into_iter().chain([chars.len()]) {
        let line: String = chars[start..cut].iter().collect();
        let line = line.trim();
        let closes = line.chars().take_while(|c| ")]}".contains(*c)).count();
        let hangs = usize::from(start > 0 && depth == 0 && closes == 0 && !line.starts_with("->"));
        lines.push(format!("{}{line}", unit.repeat(depth.saturating_sub(closes) + hangs)));
        for c in line.chars() {
            match c {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        start = cut;
    }
    lines.retain(|line| !line.trim().is_empty());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str, room: usize) -> Vec<String> {
        lines(text, Language::Block(Dialect::Index), room)
    }

    #[test]
    fn what_fits_a_line_stands_on_one() {
        assert_eq!(
            block("let  d=x-y;\n if d>0 {\n d } else{ -d}", 40),
            ["let d = x - y;", "if d > 0 { d } else { -d }"]
        );
        assert_eq!(block("((x+1))*2", 40), ["(x + 1) * 2"]);
    }

    #[test]
    fn longer_statements_keep_their_breaks() {
        let written = "if some(lo) {\nmax(x,lo)\n } else {\nlet y = x+1;\nmin(y,\nhi)\n}";
        let made = block(written, 20);
        let wanted = ["if some(lo) {", "  max(x, lo)", "} else {", "  let y = x + 1;", "  min(y,", "    hi)", "}"];
        assert_eq!(made, wanted);
        assert_eq!(block(&made.join("\n"), 20), wanted);
        assert_eq!(block("longer_than_room(x) +\n y", 10), ["longer_than_room(x) +", "  y"]);
    }

    #[test]
    fn what_does_not_parse_stays() {
        assert_eq!(block("x +\n  ", 20), ["x +"]);
    }
}
