//! The index of the search: one entry for each operator, subclass, error code and section of the book.

use serde_json::{Value, json};

pub struct SearchEntry {
    /// The name, by which it is found first.
    pub name: String,
    /// The page, from the root of the site.
    pub url: String,
    /// `operator`, `subclass`, `error` or `page`.
    pub kind: &'static str,
    /// One sentence.
    pub says: String,
    /// Other names: those of other libraries.
    pub names: Vec<String>,
    /// Properties by which operators are filtered.
    pub properties: Vec<String>,
    /// Whether it is an operator of the main database.
    pub main: bool,
    /// The words of a section of the book.
    pub text: String,
}

/// The script that gives the words of the entries, in their order. The page loads it at the first question, because it is
/// several times as long as the index.
pub fn texts(entries: &[SearchEntry]) -> String {
    let texts: Vec<String> = entries.iter().map(|e| e.text.to_lowercase()).collect();
    format!("window.TEXTS = {};\n", Value::from(texts))
}

/// The script that gives the index to the page: a page that was opened from a folder may load scripts, but not data.
pub fn script(entries: &[SearchEntry]) -> String {
    let entries: Vec<Value> = entries
        .iter()
        .map(|e| json!({"n": e.name, "u": e.url, "k": e.kind, "d": e.says, "a": e.names, "p": e.properties, "m": u8::from(e.main)}))
        .collect();
    format!("window.INDEX = {};\n", Value::from(entries))
}
