//! Explanations of rows: the row itself, derived facts with reasons, and its gradient.

mod calls;
pub mod classes;
pub mod code;
pub mod cost;
mod facts;
pub mod grades;
mod gradient;
pub mod meets;
pub mod pages;
pub mod reference;
mod wrap;

use std::sync::Arc;

use fulgurite_codegen::check::rows::RowSet;
use fulgurite_codegen::check::{Checked, cases, element, orders};
use fulgurite_codegen::emit::{Emitted, Target, cpu};
use fulgurite_codegen::grade::Grade;
use fulgurite_codegen::schema::{Body, Database, RowSource};
use fulgurite_codegen::source::Sources;
use fulgurite_codegen::yaml::Text;
use fulgurite_core::Name;
use fulgurite_core::batch::{self, Way};
use fulgurite_core::counted;
use fulgurite_core::lower::Rows;
use fulgurite_core::row::{Meaning, Row};
use serde_json::{Value, json};

use crate::claim::GradedClaim;
use calls::run_calls;
use facts::Fact;

pub use gradient::{Gradient, gradients};
pub use wrap::wrap;

/// A row, explained.
pub struct Explained {
    op: String,
    doc: String,
    sig: String,
    kind: &'static str,
    place: String,
    /// Keys of the row: name, and text as written.
    keys: Vec<(&'static str, String)>,
    /// Keys that the row leaves out and the generator finds.
    found: Vec<(&'static str, String)>,
    gradients: Vec<Gradient>,
    /// The grades of types and values.
    claims: Vec<GradedClaim>,
    facts: Vec<Fact>,
    /// How it is batched, with an explanation.
    vmap: (&'static str, &'static str),
    /// The kernels of the row, by place.
    kernels: [(&'static str, String); 2],
    calls: Vec<Name>,
    used_by: Vec<Name>,
    like: Vec<String>,
}

/// The kind of a row's meaning in one word.
pub fn kind(row: &Row) -> &'static str {
    match &row.meaning {
        _ if row.is_pointwise() => "pointwise",
        Meaning::Expr(_) => "index",
        Meaning::View(_) => "view",
        Meaning::Decomp(_) => "composite",
        Meaning::Host(_) => "host",
    }
}

/// Explains `row`, whose source is `source`. `table` holds every row.
pub fn row(
    source: &RowSource,
    row: &Arc<Row>,
    database: &Database,
    checked: &Checked,
    table: &(dyn Rows + Sync),
    sources: &Sources,
) -> Explained {
    let (facts, gradients) = (facts(row, table), gradients(row, table, checked));
    let claims = grades::claims(row, &gradients, &facts, checked);
    let mut calls: Vec<Name> = run_calls(row).into_iter().filter(|op| table.row(*op).is_some()).collect();
    sort(&mut calls);
    let users = database.rows.iter().zip(&checked.rows).filter(|(_, other)| run_calls(other).contains(&row.op));
    let mut used_by: Vec<Name> = users.map(|(source, _)| source.name()).collect();
    sort(&mut used_by);
    Explained {
        op: source.op.text.clone(),
        doc: source.doc.text.clone(),
        sig: row.sig.to_string(),
        kind: kind(row),
        place: sources.show(source.op.place),
        keys: keys(source),
        found: found(source, row),
        claims: claims.into_iter().filter(|claim| TYPES.contains(&claim.what.as_str())).collect(),
        gradients,
        facts,
        vmap: vmap(row),
        kernels: kernels(source, row, table),
        calls,
        used_by,
        like: source.aliases.iter().map(|(library, alias)| format!("{library}.{}", alias.text.as_str())).collect(),
    }
}

/// Explains a row that makes tensors of a class. The class reports its own checks.
pub fn made(source: &RowSource, class: &str, table: &dyn Rows, sources: &Sources) -> Explained {
    let row = source.lower_to_row();
    let mut keys = keys(source);
    keys.extend(source.grad.iter().map(|(arg, rule)| ("grad", format!("{}: {}", arg.as_str(), rule.text.as_str()))));
    let mut calls: Vec<Name> = run_calls(&row).into_iter().filter(|op| table.row(*op).is_some()).collect();
    sort(&mut calls);
    let by = "the kernels of the rows that it calls";
    Explained {
        op: source.op.text.clone(),
        doc: source.doc.text.clone(),
        sig: row.sig.to_string(),
        kind: "of a class",
        place: sources.show(source.op.place),
        keys,
        found: vec![("makes", format!("a {class}"))],
        gradients: Vec::new(),
        claims: Vec::new(),
        facts: Vec::new(),
        vmap: ("none", "tensors of classes are not batched"),
        kernels: [("cpu", by.to_owned()), ("cuda", by.to_owned())],
        calls,
        used_by: Vec::new(),
        like: Vec::new(),
    }
}

/// How calls of a row are batched, with the reason.
fn vmap(row: &Row) -> (&'static str, &'static str) {
    match batch::way(row) {
        Ok(Way::Pointwise) => ("derived (pointwise)", "the row itself: its arguments broadcast"),
        Ok(Way::Row) => ("derived (one more axis)", "the row itself where that has the same loops"),
        Ok(Way::Primitive) => ("derived (axis moved)", "the row itself, along the axis behind"),
        Ok(Way::Body) => ("derived (its body)", "the row itself where that has the same lines"),
        // Such a row is refused (E109).
        Err(_) => ("none", "no batched form can be derived"),
    }
}

/// The claims that concern neither a gradient nor a fact.
const TYPES: [&str; 4] = ["shapes", "indices", "types", "values"];

/// The facts that follow from a row.
fn facts(row: &Arc<Row>, table: &(dyn Rows + Sync)) -> Vec<Fact> {
    let derived = fulgurite_core::derive::derive(row, table);
    let mut rules = row.vjp.clone();
    rules.extend(derived.rules.iter().filter(|(arg, _)| !row.vjp.iter().any(|(a, _)| a == arg)).cloned());
    let mut all = facts::of(row, table, &rules, &derived.rows).all;
    all.extend(steps(row, table));
    all
}

/// The steps of the gradients in relation to those of the value.
fn steps(row: &Arc<Row>, table: &(dyn Rows + Sync)) -> Option<Fact> {
    // The set includes the derived rows that the rules call.
    let set = RowSet::new(table, [row.clone()], &[]);
    let (times, case) = orders::times(row, &set, &cases::family(row, element(row)))?;
    let of = times.iter().map(|(arg, times)| format!("for `{arg}` {times:.1} times"));
    let value = format!("{} those of the value", of.collect::<Vec<_>>().join(", "));
    let reason = format!("the loops of the gradients were counted, for {}", case.show(row));
    Some(Fact { name: "steps", value, reason, grade: Grade::Checked(1) })
}

/// The kernels that are generated for the row itself: place and name.
pub fn kernels(source: &RowSource, row: &Arc<Row>, table: &dyn Rows) -> [(&'static str, String); 2] {
    let emitted = Emitted {
        row: row.clone(),
        doc: source.doc.text.clone(),
        point: None,
        example: None,
        file: String::new(),
        line: 1,
        derived_from: None,
        subclass: Vec::new(),
        aliases: Vec::new(),
        kernels: Vec::new(),
    };
    let cpu = match (cpu::unit(&emitted, &Target::upstream(""), table), row.is_composite()) {
        (Some((_, n)), _) => counted(n, "kernel", "kernels") + " over tiles",
        (None, true) => "the kernels of the rows that it calls".to_owned(),
        (None, false) => "the executor's own tiles and loops".to_owned(),
    };
    let cuda = match row.meaning {
        Meaning::Host(_) => "the processor's, with copies around it",
        Meaning::Decomp(_) => "the kernels of the rows that it calls",
        Meaning::Expr(_) | Meaning::View(_) => "made with its neighbours when a program is compiled",
    };
    [("cpu", cpu), ("cuda", cuda.to_owned())]
}

fn sort(names: &mut Vec<Name>) {
    names.sort_by_key(|name| name.as_str());
    names.dedup();
}

/// The keys of the row as they are written.
fn keys(source: &RowSource) -> Vec<(&'static str, String)> {
    let mut keys = Vec::new();
    let mut key = |name, text: &Text| keys.push((name, text.as_str().trim_end().to_owned()));
    match &source.body {
        Body::Expr(rule) => key("expr", &rule.text),
        Body::View(rule) => key("view", &rule.text),
        Body::Decomp(rule) => key("decomp", &rule.text),
        Body::Host(text) => key("host", text),
    }
    for (name, rule) in [("promote", &source.promote), ("dtypes", &source.dtypes), ("acc", &source.acc)] {
        rule.iter().for_each(|rule| key(name, &rule.text));
    }
    if let Some((_, text)) = &source.ties {
        key("ties", text);
    }
    for (name, text) in [
        ("no_grad", &source.no_grad),
        ("deviates", &source.deviates),
        ("once", &source.once),
        ("rounds", &source.rounds),
    ] {
        text.iter().for_each(|text| key(name, text));
    }
    for (cond, message) in &source.require {
        keys.push(("require", format!("{}: {}", cond.text.as_str(), message.as_str())));
    }
    for (class, rule) in &source.subclass {
        keys.push(("subclass", format!("{}: {}", class.as_str(), rule.as_str().trim_end())));
    }
    keys
}

/// The keys that the row leaves out, with the values that were found.
fn found(source: &RowSource, row: &Row) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    if let (None, Some(promote)) = (&source.promote, &row.promote) {
        found.push(("promote", promote.to_string()));
    }
    if let (None, Some(dtypes)) = (&source.dtypes, &row.dtypes) {
        found.push(("dtypes", dtypes.to_string()));
    }
    found
}

impl Explained {
    /// A text with lines of at most `width` columns. `head` and `faint` colour a word.
    pub fn text(&self, head: &dyn Fn(&str) -> String, faint: &dyn Fn(&str) -> String, width: usize) -> String {
        const KEY: usize = 9;
        let room = width.saturating_sub(KEY + 3);
        let title = format!("{}{}", self.op, self.sig);
        let right = format!("{} · {}", self.kind, self.place);
        let gap = width.saturating_sub(title.chars().count() + right.chars().count());
        let mut text = match gap {
            // The title is too long for one line.
            0 | 1 => {
                let title = wrap(&title, width).join("\n");
                format!("{}{}\n  {}\n", head(&self.op), &title[self.op.len()..], faint(&right))
            }
            gap => format!("{}{}{:gap$}{}\n", head(&self.op), self.sig, "", faint(&right)),
        };
        wrap(&format!("  {}", self.doc), width).iter().for_each(|line| text += &format!("{line}\n"));
        let mut line = |key: &str, value: &str, reason: &str| {
            let indent = format!("\n  {:KEY$} ", "");
            let lines = wrap(value, room);
            let last = lines.last().map_or(0, |line| line.chars().count());
            let fits = KEY + 3 + last + 3 + reason.chars().count() <= width;
            let reason = match reason {
                "" => String::new(),
                reason if fits => format!("   {}", faint(reason)),
                reason => wrap(reason, room).iter().map(|line| format!("{indent}{}", faint(line))).collect(),
            };
            text += &format!("  {} {}{reason}\n", head(&format!("{key:<KEY$}")), lines.join(&indent));
        };
        self.keys.iter().for_each(|(key, value)| line(key, value, ""));
        self.found.iter().for_each(|(key, value)| {
            line(key, value, if *key == "makes" { "" } else { "found: the row does not say it" });
        });
        for gradient in &self.gradients {
            line(&format!("d/d{}", gradient.arg), &gradient.text(), &gradient.reason());
            gradient.rows.iter().for_each(|row| line("", row, ""));
        }
        self.facts.iter().for_each(|fact| line(fact.name, &fact.value, &format!("{}: {}", fact.grade, fact.reason)));
        self.claims.iter().for_each(|claim| line(&claim.what, &claim.grade.to_string(), &claim.reason));
        let names = |names: &[Name]| names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
        line("vmap", self.vmap.0, self.vmap.1);
        self.kernels.iter().for_each(|(key, value)| line(key, value, ""));
        if !self.calls.is_empty() {
            line("calls", &names(&self.calls), "");
        }
        if !self.used_by.is_empty() {
            line("used by", &names(&self.used_by), "");
        }
        if !self.like.is_empty() {
            line("like", &self.like.join(", "), "");
        }
        line("source", &format!("cargo ops explain {} --code", self.op), "");
        text
    }

    /// The explanation as one JSON object.
    pub fn json(&self) -> Value {
        let pairs = |pairs: &[(&'static str, String)]| {
            pairs.iter().map(|(key, value)| json!({"key": key, "text": value})).collect::<Vec<_>>()
        };
        let names = |names: &[Name]| names.iter().map(|name| name.as_str()).collect::<Vec<_>>();
        let facts = self.facts.iter();
        let facts = facts.map(
            |fact| json!({"fact": fact.name, "value": fact.value, "reason": fact.reason, "grade": fact.grade.word()}),
        );
        let claims = self.claims.iter().map(GradedClaim::json);
        json!({
            "v": 1,
            "op": self.op,
            "doc": self.doc,
            "sig": self.sig,
            "kind": self.kind,
            "place": self.place,
            "keys": pairs(&self.keys),
            "found": pairs(&self.found),
            "gradients": self.gradients.iter().map(Gradient::json).collect::<Vec<_>>(),
            "facts": facts.collect::<Vec<_>>(),
            "claims": claims.collect::<Vec<_>>(),
            "vmap": {"value": self.vmap.0, "reason": self.vmap.1},
            "kernels": pairs(&self.kernels),
            "calls": names(&self.calls),
            "used_by": names(&self.used_by),
            "like": self.like,
        })
    }
}
