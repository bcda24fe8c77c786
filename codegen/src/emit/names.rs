//! Rust names made from row names.

pub use crate::camel::camel;
use fulgurite_core::Name;

/// The first lines of every unit. (`include!` refuses `//!`.)
pub fn head(file: &str) -> String {
    format!("// Made from {file}; do not edit: edit the row and run cargo build.\n\n")
}

/// The stamp before an item.
pub fn stamp(file: &str, line: u32, what: &str) -> String {
    format!("// {file}:{line} {what}\n")
}

/// `gelu.vjp.x` as a file stem: `gelu_vjp_x`.
pub fn stem(op: Name) -> String {
    op.as_str().replace('.', "__")
}

/// `gelu.vjp.x` as a static: `GELU__VJP__X`.
pub fn constant(op: Name) -> String {
    stem(op).to_ascii_uppercase()
}

/// The library of an alias row: `aten`, `torch`.
pub fn library(op: &str) -> Option<&'static str> {
    fulgurite_core::foreign::library(op)
}

/// The modules of a row's function: `["torch", "nn", "functional"]`. An ATen overload has no module of its own.
pub fn modules(op: &str) -> Vec<String> {
    match library(op) {
        None => vec!["ops".into()],
        Some("torch") => {
            let mut path: Vec<String> = op.split('.').map(str::to_owned).collect();
            path.pop();
            path
        }
        Some(library) => vec![library.to_owned()],
    }
}

/// A row's name without dots or capitals: `aten_index_tensor`.
pub fn flat(op: &str) -> String {
    let words: Vec<&str> = op.split(['.', '_']).filter(|word| !word.is_empty()).collect();
    words.join("_").to_ascii_lowercase()
}

/// An identifier that is not a Rust keyword.
pub fn ident(name: &str) -> String {
    const KEYWORDS: &[&str] = &[
        "as", "break", "const", "continue", "crate", "else", "enum", "extern", "false", "fn", "for", "if", "impl",
        "in", "let", "loop", "match", "mod", "move", "mut", "pub", "ref", "return", "self", "Self", "static", "struct",
        "super", "trait", "true", "type", "unsafe", "use", "where", "while", "async", "await", "dyn", "abstract",
        "become", "box", "do", "final", "macro", "override", "priv", "typeof", "unsized", "virtual", "yield", "try",
        "gen",
    ];
    if KEYWORDS.contains(&name) { format!("{name}_") } else { name.to_owned() }
}
