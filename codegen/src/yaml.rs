//! YAML with positions: a tree in which every key and value has its byte range, and every text can map a position
//! inside it to the file.
//!
//! serde stops at the first error, so the file is read into this tree, and our own code checks the schema on the tree.
//! Scalars keep their text as written: `no` stays a word, `0x10` is not sixteen.
//!
//! **Invariant:** reading is bounded in size and nesting, and aliases are refused.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_yaml::{DuplicateKeyPolicy, MergeKeyPolicy, NonFiniteFloatPolicy, Spanned};

use crate::diag::{Diag, Diagnostics};
use crate::source::{FileId, LineColumn, Place, Sources};

mod parts;
mod scan;
mod text;

pub use text::{ScalarKind, Style, Text};

/// At most this many bytes of a file, because reading must be bounded: a row takes about 400.
pub const MAX_BYTES: usize = 8 << 20;

/// At most this many levels of nesting, because reading must be bounded: rows use five.
pub const MAX_DEPTH: usize = 32;

/// A value and its place.
#[derive(Clone, Debug)]
pub struct Node {
    /// From its first to its last byte.
    pub place: Place,
    /// The value.
    pub value: Value,
}

/// A YAML value.
#[derive(Clone, Debug)]
pub enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// A text, number or truth value.
    Scalar(Text),
    /// A list.
    List(Vec<Node>),
    /// A map in the order written, without duplicate keys.
    Map(Vec<(Text, Node)>),
}

impl Node {
    /// "a list", for messages.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "nothing",
            Value::Scalar(text) => match text.kind {
                ScalarKind::Text => "a text",
                ScalarKind::Number => "a number",
                ScalarKind::Bool(_) => "true or false",
            },
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    /// The value on one line, independent of the way it is written.
    pub fn plain(&self) -> String {
        match &self.value {
            Value::Null => "null".to_owned(),
            Value::Scalar(text) if text.kind == ScalarKind::Text => format!("{:?}", text.text),
            Value::Scalar(text) => text.text.clone(),
            Value::List(items) => format!("[{}]", items.iter().map(Node::plain).collect::<Vec<_>>().join(", ")),
            Value::Map(entries) => {
                let entries = entries.iter().map(|(key, node)| format!("{:?}: {}", key.text, node.plain()));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// Reads a file into a tree. `None` if it is not well formed; the reason is then reported. Faults of style (anchors,
/// tags, duplicate keys) are reported too, and the tree is returned nevertheless.
pub fn read(file: FileId, sources: &Sources, diags: &mut Diagnostics) -> Option<Node> {
    let source = sources.file(file);
    let text = source.text.as_str();
    if text.len() > MAX_BYTES {
        let message = format!("`{}` has {} bytes; a database has at most {MAX_BYTES}", source.path, text.len());
        diags.push(Diag::error("E001", Place { file, start: 0, end: 0 }, message));
        return None;
    }
    if let Some(at) = lone_return(text) {
        let place = Place { file, start: at as u32, end: at as u32 + 1 };
        let diag = Diag::error("E001", place, format!("a line of `{}` ends in a carriage return alone", source.path));
        let diag = diag.here("YAML takes this for the end of a line, and no editor shows it as one");
        diags.push(diag.help("write line feeds, or carriage returns each with its line feed"));
        return None;
    }
    if let Some(tree) = parts::read(file, source, diags) {
        return Some(tree);
    }
    match parse(text) {
        Ok(tree) => Some(scan::Scan::new(file, source, diags).document(tree)),
        Err(error) => {
            diags.push(syntax_error(file, sources, &error));
            None
        }
    }
}

/// The position of a carriage return without a line feed: editors disagree on whether it ends a line.
fn lone_return(text: &str) -> Option<usize> {
    text.match_indices('\r').map(|(at, _)| at).find(|at| !text[at + 1..].starts_with('\n'))
}

fn parse(text: &str) -> Result<Spanned<Raw>, serde_yaml::Error> {
    let options = serde_yaml::options! {
        budget: serde_yaml::budget! { max_depth: MAX_DEPTH, flow_nesting_limit: MAX_DEPTH, max_aliases: 0 },
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        merge_keys: MergeKeyPolicy::AsOrdinary,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        strict_booleans: true,
        with_snippet: false,
    };
    serde_yaml::from_str_with_options(text, options)
}

/// An error of the YAML parser, as a diagnostic.
fn syntax_error(file: FileId, sources: &Sources, error: &serde_yaml::Error) -> Diag {
    let source = sources.file(file);
    let start = error
        .location()
        .map_or(0, |at| source.offset(LineColumn { line: at.line() as u32, column: at.column() as u32 }));
    let met = source.text[start..].chars().next();
    let word = source.text[start..].find(|c: char| c.is_whitespace() || ",[]{}".contains(c));
    let end = match met {
        Some('*') => start + word.unwrap_or(1).max(1),
        Some(c) if c != '\n' => start + c.len_utf8(),
        _ => start,
    };
    let place = Place { file, start: start as u32, end: end as u32 };
    let said = error.without_snippet().to_string();
    // The label shows the place.
    let said = said.split(" at line ").next().unwrap_or(&said);
    if met == Some('*') && said.contains("alias") {
        return Diag::error("E002", place, "a row may not use YAML aliases").help(ALIAS_HELP);
    }
    if said.starts_with("budget breached: Aliases") {
        return Diag::error("E002", place, "a row may not use YAML aliases").help(ALIAS_HELP);
    }
    let said = match said {
        s if s.starts_with("budget breached: Depth")
            || s.contains("nesting limit")
            || s.contains("recursion limit") =>
        {
            format!("nesting is deeper than {MAX_DEPTH} levels")
        }
        s if s.starts_with("multiple YAML documents") => "a second document starts here".to_owned(),
        s => s.to_owned(),
    };
    let diag = Diag::error("E001", place, format!("`{}` is not well-formed YAML", source.path)).here(said.clone());
    if said.contains("mapping values") {
        return diag.help("a text that contains `: ` is quoted, `'…'`, or stands in a `|` block");
    }
    match met {
        Some('@' | '`' | '%' | '*' | '|' | '>' | '&') => {
            diag.help("a text that starts with this mark is quoted: `'…'`")
        }
        _ if said.contains("tab") => diag.help("indent with spaces"),
        _ => diag,
    }
}

/// The advice for authors of aliases.
pub(crate) const ALIAS_HELP: &str = "write the text out at both places; quote it if it starts with `*` or `&`";

/// The data that serde delivers.
enum Raw {
    Null,
    Bool(bool),
    Number,
    Text(String),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<Raw>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Raw, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

/// The methods for the types of numbers, whose digits are read from the text.
macro_rules! numbers {
    ($($visit:ident: $ty:ty),*) => {
        $(fn $visit<E>(self, _: $ty) -> Result<Raw, E> {
            Ok(Raw::Number)
        })*
    };
}

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        Raw::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(value))
    }

    numbers! { visit_i64: i64, visit_i128: i128, visit_u64: u64, visit_u128: u128, visit_f64: f64 }

    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Map(entries))
    }
}
