//! The difference of two texts, line by line, in the form of `diff -u` without line numbers.

/// The number of unchanged lines shown around a change.
const AROUND: usize = 2;

/// Lines that start with `-`, `+` or a blank; `…` replaces unchanged lines.
pub fn unified(old: &str, new: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let mut lines = Vec::new();
    let (mut i, mut j) = (0, 0);
    for (a, b) in common(&old, &new).into_iter().chain([(old.len(), new.len())]) {
        lines.extend(old[i..a].iter().map(|line| ('-', *line)));
        lines.extend(new[j..b].iter().map(|line| ('+', *line)));
        if let Some(line) = old.get(a) {
            lines.push((' ', line));
        }
        (i, j) = (a + 1, b + 1);
    }
    let near = |at: usize| {
        let window = at.saturating_sub(AROUND)..lines.len().min(at + AROUND + 1);
        lines[window].iter().any(|(sign, _)| *sign != ' ')
    };
    let mut out: Vec<String> = Vec::new();
    for (at, (sign, line)) in lines.iter().enumerate() {
        if near(at) {
            out.push(format!("{sign} {line}"));
        } else if out.last().is_none_or(|last| last != "…") {
            out.push("…".to_owned());
        }
    }
    out
}

/// A longest common subsequence of the lines, as pairs of indices. Traces have hundreds of lines, so a table of all
/// pairs is small.
fn common(old: &[&str], new: &[&str]) -> Vec<(usize, usize)> {
    let width = new.len() + 1;
    let mut longest = vec![0u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i * width + j] = match old[i] == new[j] {
                true => longest[(i + 1) * width + j + 1] + 1,
                false => longest[(i + 1) * width + j].max(longest[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < old.len() && j < new.len() {
        if old[i] == new[j] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if longest[(i + 1) * width + j] >= longest[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::unified;

    #[test]
    fn shows_changes_and_what_is_near() {
        let old = "a\nb\nc\nd\ne\nf\ng";
        assert_eq!(unified(old, "a\nb\nc\nx\ne\nf\ng"), ["…", "  b", "  c", "- d", "+ x", "  e", "  f", "…"]);
        assert_eq!(unified(old, old), ["…"]);
        assert_eq!(unified("", "a"), ["+ a"]);
        assert_eq!(unified("a\nb", "b"), ["- a", "  b"]);
        assert!(unified("", "").is_empty());
    }
}
