//! The YAML style of a text: plain if it reads back unchanged, else quoted.

/// A text after `key: ` or `- `.
pub fn plain_or_quoted(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { quoted(text) }
}

/// A rule after `key: `; one with square or curly brackets is quoted, since YAML has them too.
pub fn rule(text: &str) -> String {
    if is_plain(text) && !text.contains(['[', '{']) { text.to_owned() } else { quoted(text) }
}

/// A text inside `[…]` or `{…}`, or a key of a nested map: words and numbers plain, all others quoted.
pub fn word_or_quoted(text: &str) -> String {
    let word = text.chars().all(|c| c.is_ascii_alphanumeric() || "_.+-".contains(c));
    if word && !text.contains("..") && is_plain(text) { text.to_owned() } else { quoted(text) }
}

/// The text in quotes; apostrophes are doubled.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Whether YAML reads the text without quotes as a text, and completely.
pub fn is_plain(text: &str) -> bool {
    let mut chars = text.chars();
    let starts = match chars.next() {
        None => false,
        Some('-') => chars.next().is_some_and(|c| !c.is_whitespace()),
        Some(c) => !c.is_whitespace() && !"?:,[]{}#&*!|>'\"%@`".contains(c),
    };
    let typed = text.parse::<f64>().is_ok()
        || text.starts_with("0x")
        || text.starts_with("0o")
        || text.starts_with('.') && text.len() <= 5
        || matches!(text.to_ascii_lowercase().as_str(), "true" | "false" | "null" | "~" | "yes" | "no" | "on" | "off");
    let cut = text.contains(": ") || text.contains(" #") || text.ends_with(':') || text.contains('\n');
    starts && !typed && !cut && !text.starts_with("---") && text.trim_end() == text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_stand_where_yaml_needs_them() {
        for text in ["-x", "x * y", "if x > 0 { x } else { -x }", "add.Tensor", "Sum; of x, y"] {
            assert!(is_plain(text), "{text}");
        }
        for text in ["", "a: b", "a #b", "'a'", "{x}", "true", "1", "-1.5", "- x", "a:", "1e-6", "null", "x "] {
            assert!(!is_plain(text), "{text}");
        }
        assert_eq!(word_or_quoted("x + y"), "'x + y'");
        assert_eq!(word_or_quoted("mul.Tensor"), "mul.Tensor");
        assert_eq!(quoted("it's"), "'it''s'");
    }
}
