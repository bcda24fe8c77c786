//! Numbers of things, as messages say them.

use std::fmt::Display;

/// `1 axis`, `2 axes`; with a verb `1 is`, `2 are`.
pub fn counted(n: impl Display, one: &str, many: &str) -> String {
    let n = n.to_string();
    let what = if n == "1" { one } else { many };
    format!("{n} {what}")
}
