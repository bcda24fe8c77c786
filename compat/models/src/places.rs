//! The places of calls in the source that a model was exported from.

use fulgurite::core::Name;
use fulgurite::core::loc::Loc;

/// The place of the innermost frame of a Python stack; nowhere if the text is no stack.
pub fn python(stack: &str) -> Loc {
    let frame = |line: &str| {
        let (file, rest) = line.trim_start().strip_prefix("File \"")?.split_once("\", line ")?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let clean = !file.chars().any(char::is_control);
        Some(Loc { file: Name::new(file).as_str(), line: rest[..digits].parse().ok()?, column: 0 }).filter(|_| clean)
    };
    stack.lines().rev().find_map(frame).unwrap_or(Loc::NOWHERE)
}
