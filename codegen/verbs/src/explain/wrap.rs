//! Wraps long lines for a terminal.

/// The columns of a line on a terminal: its characters without the colours.
fn columns(text: &str) -> usize {
    let mut parts = text.split("\x1b[");
    let first = parts.next().map_or(0, |part| part.chars().count());
    // a colour ends with the letter `m`
    first + parts.map(|part| part.split_once('m').map_or(0, |(_, rest)| rest.chars().count())).sum::<usize>()
}

/// The words of a line, each with the spaces before it.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let start = rest.len() - rest.trim_start().len();
        let end = rest[start..].find(char::is_whitespace).map_or(rest.len(), |at| start + at);
        let (word, others) = rest.split_at(end);
        rest = others;
        (start < end).then_some(word)
    })
}

/// `text` in lines of at most `width` columns, where spaces allow a break. Continuation lines are indented by two
/// columns more than the line that they continue.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut out = Vec::new();
    for line in text.lines() {
        if columns(line) <= width {
            out.push(line.to_owned());
            continue;
        }
        let start = &line[..line.len() - line.trim_start().len()];
        let mut now = String::new();
        for word in words(line) {
            if !now.trim().is_empty() && columns(&now) + columns(word) > width {
                out.push(std::mem::replace(&mut now, format!("{start}  {}", word.trim_start())));
            } else {
                now += word;
            }
        }
        out.push(now);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrap("let a = 1;\n  a + b", 80), ["let a = 1;", "  a + b"]);
        assert_eq!(wrap("aaa bbb ccc", 7), ["aaa bbb", "  ccc"]);
        assert_eq!(wrap("  aa bb cc", 7), ["  aa bb", "    cc"]);
        assert_eq!(wrap("one-word-that-is-too-long", 5), ["one-word-that-is-too-long"]);
        assert_eq!(wrap("a   b   ccc", 8), ["a   b", "  ccc"]);
        assert_eq!(wrap("", 5), Vec::<String>::new());
    }

    #[test]
    fn colours_take_no_columns() {
        assert_eq!(wrap("\x1b[1;32maaa\x1b[0m bbb", 7), ["\x1b[1;32maaa\x1b[0m bbb"]);
        assert_eq!(wrap("\x1b[2maaa bbb\x1b[0m ccc", 7), ["\x1b[2maaa bbb\x1b[0m", "  ccc"]);
    }
}
