//! Text in HTML.

pub use fulgurite_runtime::viewer::page::escaped as escape;

/// The text as HTML, with code between backquotes.
pub fn inline(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return escape(text);
    }
    let part = |(n, part): (usize, &&str)| match n % 2 {
        0 => escape(part),
        _ => format!("<code>{}</code>", escape(part)),
    };
    parts.iter().enumerate().map(part).collect()
}

/// The anchor that GitHub makes of a heading: lower case, hyphens for blanks, no punctuation.
pub fn anchor(heading: &str) -> String {
    let letters = heading.trim().chars().filter_map(|c| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        _ => None,
    });
    letters.flat_map(char::to_lowercase).collect()
}
