//! Cuts the long lists of a trace's inputs and results for a terminal.

/// The trace with its first and its `return` line cut to `width` columns, with the number of omitted entries. Output
/// for a program (a pipe, JSON) is never cut, so that it parses back.
pub fn fold(text: &str, width: usize) -> String {
    let fold = |line: &str| match line.trim_start() {
        start if start.starts_with("fn ") || start.starts_with("return ") => cut(line, width),
        _ => line.to_owned(),
    };
    text.lines().map(fold).collect::<Vec<_>>().join("\n")
}

/// A list with the entries that fit.
fn cut(line: &str, width: usize) -> String {
    let (list, end) = line.strip_suffix(") {").map_or((line, ""), |list| (list, ") {"));
    let entries = entries(list);
    let mut shown = String::new();
    for (at, entry) in entries.iter().enumerate() {
        let left = entries.len() - at;
        let rest = format!("…{left} more{end}");
        let last = left == 1 && shown.chars().count() + entry.chars().count() + end.len() <= width;
        if at > 0 && !last && shown.chars().count() + entry.chars().count() + 2 + rest.chars().count() > width {
            return shown + &rest;
        }
        shown += entry;
        shown += if left > 1 { ", " } else { end };
    }
    shown
}

/// The parts between commas outside of brackets.
fn entries(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut out) = (0usize, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                out.push(&list[start..at]);
                start = at + 1;
            }
            // A blank after a comma is skipped; the indent of the line stays.
            ' ' if start > 0 && start == at => start = at + 1,
            _ => {}
        }
    }
    out.push(&list[start..]);
    out
}

#[cfg(test)]
mod tests {
    use super::fold;

    #[test]
    fn long_lists_are_cut() {
        let text = "fn f(a: f32[2, 3], b: f32[], c: i64[1]) {\n  y: f32[2, 3] = add(a, b)  // a long remark\n  return y, z, w\n}";
        assert_eq!(fold(text, 100), text);
        assert_eq!(
            fold(text, 34),
            "fn f(a: f32[2, 3], …2 more) {\n  y: f32[2, 3] = add(a, b)  // a long remark\n  return y, z, w\n}"
        );
        assert_eq!(fold("  return y, z, w, v, u", 20), "  return y, …4 more");
        assert_eq!(fold("fn f(a_very_long_name: f32[2, 3]) {", 10), "fn f(a_very_long_name: f32[2, 3]) {");
        assert_eq!(fold("", 10), "");
    }
}
