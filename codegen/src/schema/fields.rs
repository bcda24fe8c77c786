//! Reads values of keys by type, and rule texts; faults of values are reported here for all keys.

use fulgurite_core::lang::SyntaxError;

use super::Rule;
use crate::diag::{Diag, Diagnostics};
use crate::yaml::{Node, ScalarKind, Style, Text, Value};

/// The styles of rule texts in which a position in the text is a position in the file.
const RULE_STYLES: &str = "write it on one line, in `'…'`, or in a block under `|`";

/// Reads the values of one row and reports faults.
pub(super) struct Fields<'a> {
    diags: &'a mut Diagnostics,
    /// The row's name, for messages.
    pub(super) op: String,
    /// Whether a fault was reported.
    pub(super) broken: bool,
}

impl<'a> Fields<'a> {
    pub(super) fn new(diags: &'a mut Diagnostics) -> Fields<'a> {
        Fields { diags, op: String::new(), broken: false }
    }

    /// Reports a fault of this row.
    pub(super) fn error(&mut self, diag: Diag) {
        self.broken = true;
        self.diags.push(diag);
    }

    /// E005: the value of `key` has the wrong type.
    pub(super) fn wrong_type(&mut self, node: &Node, key: &str, wanted: &str, hint: Option<&str>) {
        let of = if self.op.is_empty() { String::new() } else { format!(" of `{}`", self.op) };
        let diag = Diag::error("E005", node.place, format!("`{key}`{of} is {}, not {wanted}", node.kind()));
        self.error(match hint {
            Some(hint) => diag.help(hint),
            None => diag,
        });
    }

    /// A text, number or truth value, as it is written.
    pub(super) fn text(&mut self, node: Node, key: &str) -> Option<Text> {
        let hint = match node.value {
            Value::Scalar(text) => return Some(text),
            Value::Null => "write a text; quote one that starts with `#`, `&`, `!` or `|`, or is `~`",
            _ => "a text that starts with `[` or `{` is quoted: `'…'`",
        };
        self.wrong_type(&node, key, "a text", Some(hint));
        None
    }

    /// One sentence, which becomes the comment of generated code with a full stop added.
    pub(super) fn sentence(&mut self, node: Node, key: &str) -> Option<Text> {
        if let Value::Scalar(Text { kind: ScalarKind::Number | ScalarKind::Bool(_), .. }) = node.value {
            self.wrong_type(&node, key, "a sentence", Some("say in one sentence what the result is"));
            return None;
        }
        let text = self.text(node, key)?;
        let written = text.text.trim();
        let (found, help) = match written {
            "" => ("is empty", "say in one sentence what the result is"),
            _ if written.contains(['\n', '\r']) => ("has several lines", "write one line; `>-` folds several into one"),
            _ if written.ends_with('.') => ("ends in a full stop", "leave it out: pages and tooltips add their own"),
            _ => return Some(text),
        };
        let of = if self.op.is_empty() { String::new() } else { format!(" of `{}`", self.op) };
        self.error(Diag::error("E005", text.place, format!("`{key}`{of} {found}")).help(help));
        None
    }

    /// The text of a rule: in a style in which positions can be traced, and not cut off by a YAML comment.
    pub(super) fn rule_text(&mut self, node: Node, key: &str) -> Option<Text> {
        let text = self.text(node, key)?;
        self.traceable(text, key)
    }

    fn traceable(&mut self, text: Text, key: &str) -> Option<Text> {
        if let Style::Loose(how) = text.style {
            let message = format!("`{key}` of `{}` is written with {how}, which hides where its parts stand", self.op);
            self.error(Diag::error("E002", text.place, message).help(RULE_STYLES));
            return None;
        }
        if let Some(comment) = text.comment {
            let message = format!("`{key}` of `{}` is cut: to YAML ` #` starts a comment", self.op);
            let diag = Diag::error("E003", comment, message).here("this is not read");
            self.error(
                diag.label(text.place, "all that is read")
                    .help("quote the text, or put the comment on a line of its own"),
            );
            return None;
        }
        Some(text)
    }

    /// A rule text, parsed.
    pub(super) fn rule<T>(
        &mut self,
        node: Node,
        key: &str,
        parse: impl Fn(&str) -> Result<T, SyntaxError>,
    ) -> Option<Rule<T>> {
        let text = self.text(node, key)?;
        self.rule_of(text, key, parse)
    }

    /// A rule text that is a key.
    pub(super) fn rule_of<T>(
        &mut self,
        text: Text,
        key: &str,
        parse: impl Fn(&str) -> Result<T, SyntaxError>,
    ) -> Option<Rule<T>> {
        let text = self.traceable(text, key)?;
        match parse(text.as_str()) {
            Ok(tree) => Some(Rule { tree, text }),
            Err(error) => {
                self.syntax_error(&text, key, error);
                None
            }
        }
    }

    fn syntax_error(&mut self, text: &Text, key: &str, error: SyntaxError) {
        let message = format!("`{key}` of `{}` does not parse at {}", self.op, error.found);
        let mut diag = Diag::error("E006", text.at(error.span), message).here(format!("expected {}", error.expected));
        if let Some(open) = error.opened {
            diag = diag.label(text.at(open), "still open");
        }
        self.error(match error.help {
            Some(help) => diag.help(help),
            None => diag,
        });
    }

    /// The entries of a map.
    pub(super) fn map(&mut self, node: Node, key: &str) -> Vec<(Text, Node)> {
        match node.value {
            Value::Map(entries) => entries,
            _ => {
                self.wrong_type(&node, key, "a map", Some("write `{key: value}`, or `key: value` on lines below"));
                Vec::new()
            }
        }
    }

    /// A map of texts.
    pub(super) fn texts(&mut self, node: Node, key: &str) -> Vec<(Text, Text)> {
        let entries = self.map(node, key);
        entries.into_iter().filter_map(|(name, node)| Some((name, self.text(node, key)?))).collect()
    }

    /// A list of texts.
    pub(super) fn names(&mut self, node: Node, key: &str) -> Vec<Text> {
        match node.value {
            Value::List(items) => items.into_iter().filter_map(|item| self.text(item, key)).collect(),
            _ => {
                self.wrong_type(&node, key, "a list", Some("write `[name, name]`"));
                Vec::new()
            }
        }
    }

    /// Examples of the row.
    pub(super) fn points(&mut self, node: Node) -> Vec<Node> {
        let (place, is_list) = (node.place, matches!(node.value, Value::List(_)));
        let points = self.maps(node, "points");
        if is_list && points.is_empty() {
            let claim = format!("`points` of `{}` is empty", self.op);
            let help = "write a call and what comes of it, `{x: 0, out: 1}`, or leave the key out";
            self.error(Diag::error("E005", place, claim).help(help));
        }
        points
    }

    /// A list of maps.
    pub(super) fn maps(&mut self, node: Node, key: &str) -> Vec<Node> {
        let Value::List(items) = node.value else {
            self.wrong_type(&node, key, "a list of maps", Some("write `[{x: 0, out: 1}]`"));
            return Vec::new();
        };
        for item in &items {
            if !matches!(item.value, Value::Map(_)) {
                self.wrong_type(item, key, "a map", Some("write `{x: 0, out: 1}`"));
            }
        }
        items
    }
}
