//! Wraps long lines for a terminal.

/// `text` in lines of at most `width` columns, where spaces allow a break. Continuation lines are indented by two
/// columns.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut out = Vec::new();
    for line in text.lines() {
        let start = &line[..line.len() - line.trim_start().len()];
        let mut now = start.to_owned();
        for word in line.split_whitespace() {
            let empty = now.trim().is_empty();
            if !empty && now.chars().count() + 1 + word.chars().count() > width {
                out.push(std::mem::replace(&mut now, format!("{start}  {word}")));
            } else {
                now += if empty { "" } else { " " };
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
        assert_eq!(wrap("", 5), Vec::<String>::new());
    }
}
