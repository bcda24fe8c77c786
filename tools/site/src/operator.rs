//! What the page of one operator says.

use std::sync::Arc;

use fulgurite_codegen::check::rows::RowSet;
use fulgurite_codegen::emit::Emitted;
use fulgurite_codegen::pipeline::Table;
use fulgurite_codegen::schema::RowSource;
use fulgurite_core::Name;
use fulgurite_core::row::Row;
use fulgurite_ops_verbs::explain::{Explained, code, kind};
use serde_json::{Value, json};

use crate::computed::Computed;
use crate::highlight::highlight;
use crate::search::SearchEntry;
use crate::{formula, words};

/// At most this many bytes of generated code stand on a page, because a browser shows more only slowly.
const MOST_CODE: usize = 400_000;

/// An operator with all that its page is made of.
pub struct OperatorPage<'a> {
    /// The row as it is written.
    pub source: &'a RowSource,
    pub row: &'a Arc<Row>,
    /// What is known of it.
    pub explained: Value,
    /// The names that other libraries' calls have.
    pub names: Vec<String>,
    /// The title of its family, and the address of the family's page.
    pub family: (String, String),
}

impl<'a> OperatorPage<'a> {
    /// The operator of this row.
    pub fn new(
        source: &'a RowSource,
        row: &'a Arc<Row>,
        explained: &Explained,
        family: (String, String),
    ) -> OperatorPage<'a> {
        let explained = explained.json();
        let names = explained["like"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let names = names.map(str::to_owned).collect();
        OperatorPage { source, row, explained, names, family }
    }

    /// The name of the row.
    pub fn name(&self) -> &'static str {
        self.row.op.as_str()
    }

    /// The address of its page from the root of the site.
    pub fn url(&self) -> String {
        url(self.name())
    }

    /// The properties by which it is found.
    pub fn properties(&self) -> Vec<String> {
        let fact =
            |name: &str| self.explained["facts"].as_array().into_iter().flatten().any(|fact| fact["fact"] == name);
        let mut properties = vec![kind(self.row).to_owned()];
        for name in ["linear", "view", "random", "writes"] {
            if fact(name) && !properties.iter().any(|p| p == name) {
                properties.push(name.to_owned());
            }
        }
        let gradients: Vec<&Value> = self.explained["gradients"].as_array().into_iter().flatten().collect();
        if gradients.iter().all(|gradient| gradient["origin"] == "none") {
            properties.push("no gradient".to_owned());
        }
        let mut add = |word: String| {
            if !properties.contains(&word) {
                properties.push(word);
            }
        };
        for gradient in &gradients {
            match gradient["origin"].as_str() {
                Some(origin @ ("written" | "derived")) => add(format!("{origin} gradient")),
                Some("body") => add("gradient of the body".to_owned()),
                _ => {}
            }
            if let Some(grade) = gradient["grade"].as_str() {
                add(format!("gradient {grade}"));
            }
        }
        properties
    }

    /// The entry of the search. `main`: it is a row of the main database.
    pub fn entry(&self, main: bool) -> SearchEntry {
        SearchEntry {
            name: self.name().to_owned(),
            url: self.url(),
            kind: "operator",
            says: self.source.doc.as_str().to_owned(),
            names: self.names.clone(),
            properties: self.properties(),
            main,
            text: String::new(),
        }
    }

    /// Everything on the page. `set` holds the rows that may be called, `known` says which operators have a page,
    /// `emitted` and `table` give the generated code, and `cuda` the CUDA C.
    pub fn page(&self, set: &RowSet, known: &dyn Fn(&str) -> bool, emitted: &[Emitted], table: &Table) -> Value {
        let computed = Computed { source: self.source, row: self.row, set };
        let link = |names: &Value| -> Vec<Value> {
            let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
            names.map(|name| json!({"name": name, "url": known(name).then(|| url(name))})).collect()
        };
        let own = emitted.iter().filter(|e| e.row.op == self.row.op || e.derived_from == Some(self.row.op));
        let own: Vec<Emitted> = own.cloned().collect();
        let rust: Vec<Value> = code::units(&own, table)
            .into_iter()
            .map(|unit| json!({"path": unit.path, "html": highlight(&cut(&unit.text), "rust")}))
            .collect();
        let derived: Vec<String> = own.iter().map(|e| e.row.op).filter(|op| *op != self.row.op).map(text).collect();
        json!({
            "op": broken(self.explained.clone()),
            "names": self.names,
            "family": {"title": self.family.0, "url": self.family.1},
            "properties": self.properties(),
            "words": words::signature(&self.row.sig),
            "formula": self.formula(),
            "plot": computed.plot(),
            "examples": computed.examples(),
            "domain": computed.domain(),
            "shapes": computed.shapes(),
            "cost": computed.cost(),
            "promotion": computed.promotion(),
            "refusals": computed.refusals(),
            "calls": link(&self.explained["calls"]),
            "used_by": link(&self.explained["used_by"]),
            "derived": derived,
            "rust": rust,
            "cuda": crate::cuda::of(self.row).map(|text| highlight(&cut(&text), "cuda")),
        })
    }

    /// The meaning of a row in scalar or index notation, typeset. A program of other rows is shown as code.
    fn formula(&self) -> Option<String> {
        let body = self.row.index_body()?;
        let args = self.row.sig.params.iter().map(|p| p.name.name.as_str());
        let left = match self.row.is_pointwise() {
            true => formula::call(self.name(), args),
            false => "<mi>out</mi>".to_owned(),
        };
        Some(formula::block(&left, body))
    }
}

/// What is known of a row, with its gradient rules in lines: one for each statement.
fn broken(mut explained: Value) -> Value {
    let lines = |text: &mut Value| {
        if let Some(old) = text.as_str() {
            // a signature has semicolons too
            let (head, rule) = old.split_once(" = ").filter(|(head, _)| head.contains(" -> ")).unwrap_or(("", old));
            let mark = if head.is_empty() { "" } else { " =\n" };
            *text = format!("{head}{mark}{}", rule.replace("; ", ";\n")).into();
        }
    };
    for gradient in explained["gradients"].as_array_mut().into_iter().flatten() {
        lines(&mut gradient["rule"]);
        lines(&mut gradient["without"]);
        gradient["rows"].as_array_mut().into_iter().flatten().for_each(lines);
    }
    explained
}

fn text(name: Name) -> String {
    name.as_str().to_owned()
}

/// The address of an operator's page from the root of the site.
pub fn url(op: &str) -> String {
    format!("operators/{op}.html")
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MOST_CODE) {
        Some((at, _)) => format!("{}\n// … {} bytes more", &text[..at], text.len() - at),
        None => text.to_owned(),
    }
}
