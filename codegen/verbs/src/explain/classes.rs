//! Explanations of tensor subclasses: texts, the rows that make tensors, and the rule for each operator.

use std::fmt::Write;

use fulgurite_codegen::schema::ClassSource;
use fulgurite_codegen::source::Sources;
use fulgurite_core::{Name, counted};
use serde_json::{Value, json};

use super::meets::{Met, Way};
use super::wrap;

/// A class, explained.
pub struct ExplainedClass {
    /// The name of the class.
    pub class: String,
    /// The documentation, one sentence.
    pub doc: String,
    /// Fields, metadata, and the type that programs see.
    pub sig: String,
    place: String,
    /// The keys of the class in order, with their texts.
    pub keys: Vec<(String, String)>,
    /// Rows that make its tensors: name and signature, documentation.
    pub from: Vec<(String, String)>,
    met: Vec<Met>,
}

/// Explains a class; `met` says how each operator handles it.
pub fn class(source: &ClassSource, met: Vec<Met>, sources: &Sources) -> ExplainedClass {
    let mut keys = Vec::new();
    let mut key = |name: &str, text: &str| keys.push((name.to_owned(), text.trim_end().to_owned()));
    key("plain", source.plain.text.as_str());
    source.ops.iter().for_each(|(targets, rule)| key(targets.as_str(), rule.as_str()));
    key("default", source.default.as_ref().map_or("error", |text| text.as_str()));
    for (op, args) in &source.grad {
        args.iter().for_each(|(arg, rule)| key(&format!("d {}/d{}", op.as_str(), arg.as_str()), rule.text.as_str()));
    }
    if source.through {
        key("through", "operators without a gradient here are differentiated through their rules");
    }
    for (name, text) in [("cotangent", &source.cotangent), ("read", &source.read), ("precedence", &source.precedence)] {
        text.iter().for_each(|text| key(name, text.as_str()));
    }
    source.error.iter().for_each(|(name, text)| key(&format!("error {}", name.as_str()), text.as_str()));
    let from = source.from.iter().map(|row| (format!("{}{}", row.op.as_str(), row.sig.tree), row.doc.text.clone()));
    ExplainedClass {
        class: source.class.text.clone(),
        doc: source.doc.text.clone(),
        sig: source.sig.tree.to_string(),
        place: sources.show(source.class.place),
        keys,
        from: from.collect(),
        met,
    }
}

/// At most this many operators of a group are named in a text, because it is one screen; JSON has all.
const MOST: usize = 24;

/// A group of operators: its key, its description, and the names.
type Group = (&'static str, &'static str, Vec<Name>);

impl ExplainedClass {
    /// The operators, grouped by how they handle the class.
    fn groups(&self) -> Vec<Group> {
        let of = |way: fn(&Way) -> bool| self.met.iter().filter(|m| way(&m.way)).map(|m| m.op).collect::<Vec<Name>>();
        let groups: [Group; 5] = [
            ("named", "by a rule that names it", of(|w| *w == Way::Named)),
            ("kind", "by a rule for its kind", of(|w| *w == Way::Kind)),
            ("default", "by the default", of(|w| *w == Way::Default)),
            ("parts", "by its decomposition, whose parts have rules", of(|w| *w == Way::Parts)),
            ("refused", "no rule", of(|w| matches!(w, Way::Refused(_)))),
        ];
        groups.into_iter().filter(|(_, _, ops)| !ops.is_empty()).collect()
    }

    /// A text with lines of at most `width` columns. `head` and `faint` colour a word.
    pub fn text(&self, head: &dyn Fn(&str) -> String, faint: &dyn Fn(&str) -> String, width: usize) -> String {
        const KEY: usize = 16;
        let mut text = format!(
            "{}{}   {}\n  {}\n",
            head(&self.class),
            self.sig,
            faint(&format!("class · {}", self.place)),
            self.doc
        );
        let mut line = |key: &str, value: &str| {
            let lines: Vec<String> = value.lines().flat_map(|l| wrap(l, width.saturating_sub(KEY + 3))).collect();
            let gap = if key.chars().count() > KEY { format!("\n  {:KEY$} ", "") } else { " ".to_owned() };
            let _ =
                writeln!(text, "  {}{gap}{}", head(&format!("{key:<KEY$}")), lines.join(&format!("\n  {:KEY$} ", "")));
        };
        self.keys.iter().for_each(|(key, value)| line(key, value));
        self.from.iter().for_each(|(row, doc)| line("from", &format!("{row}\n{doc}")));
        for (key, says, ops) in self.groups() {
            let names: Vec<&str> = ops.iter().take(MOST).map(|op| op.as_str()).collect();
            let more = if ops.len() > MOST { " …" } else { "" };
            line(key, &format!("{}, {says}: {}{more}", count(ops.len()), names.join(" ")));
        }
        text
    }

    /// The explanation as one JSON object.
    pub fn json(&self) -> Value {
        let keys: Vec<Value> = self.keys.iter().map(|(key, text)| json!({"key": key, "text": text})).collect();
        let from: Vec<Value> = self.from.iter().map(|(row, doc)| json!({"row": row, "doc": doc})).collect();
        let met = self.met.iter().map(|m| {
            let chain: Vec<&str> = if let Way::Refused(chain) = &m.way {
                chain.iter().map(|op| op.as_str()).collect()
            } else {
                Vec::new()
            };
            json!({"op": m.op.as_str(), "by": m.way.word(), "stopped_by": chain})
        });
        json!({
            "v": 1,
            "class": self.class,
            "doc": self.doc,
            "sig": self.sig,
            "place": self.place,
            "keys": keys,
            "from": from,
            "operators": met.collect::<Vec<_>>(),
        })
    }

    /// The section of the class on the page of operators.
    pub fn section(&self) -> String {
        let mut text = format!("\n### {}\n\n{}.\n\n```text\n", self.class, self.doc);
        let mut code = |line: &str| wrap(line, 100).iter().for_each(|line| text += &format!("{line}\n"));
        code(&format!("{}{}", self.class, self.sig));
        for (key, value) in &self.keys {
            match value.lines().count() {
                1 => code(&format!("  {key}: {value}")),
                _ => {
                    code(&format!("  {key}:"));
                    value.lines().for_each(|line| code(&format!("    {line}")));
                }
            }
        }
        text += "```\n\n";
        for (_, says, ops) in self.groups() {
            let shown = ops.iter().take(12).map(|op| format!("`{op}`")).collect::<Vec<_>>().join(", ");
            let more = if ops.len() > 12 { ", …" } else { "" };
            let _ = writeln!(text, "- {}, {says}: {shown}{more}", count(ops.len()));
        }
        text
    }
}

fn count(n: usize) -> String {
    counted(n, "operator", "operators")
}
