//! The JSON Schema of a database, for editors: YAML language servers complete keys and words, and show the meaning of
//! keys.
//!
//! The schema is made from the reader's table of keys. It does not cover the rule languages, which `cargo ops check`
//! does.

use fulgurite_codegen::schema::{BODIES, CLASS, FILE_KEYS, Form, KEYS, Key};
use serde_json::{Map, Value, json};

/// The path of this project's schema, from the root of the repository.
pub const PATH: &str = "docs/ops.schema.json";

/// The head of a database that `cargo ops new` creates, with its schema beside it.
pub const STARTED: &str = "\
# yaml-language-server: $schema=ops.schema.json
# Operators, one row each: docs/adding-an-operator.md of fulgurite. Check them with `cargo ops check`.
# The manifest, profiles and build script of a crate with rows: docs/downstream.md of fulgurite.
";

/// The text of the schema file.
pub fn text() -> String {
    format!("{:#}\n", schema())
}

/// A database: the keys of the file, and a list of rows.
pub fn schema() -> Value {
    let mut row = keys(KEYS);
    let needs = |key: &str| json!({"required": [key]});
    if let Some(row) = row.as_object_mut() {
        row.insert("required".into(), json!(["op", "doc"]));
        row.insert("oneOf".into(), BODIES.iter().map(|key| needs(key)).collect());
        // Only a pointwise `expr` can omit the signature.
        row.insert("anyOf".into(), json!([needs("sig"), needs("expr")]));
    }
    let mut class = keys(CLASS);
    class["required"] = json!(["class", "doc", "sig", "plain"]);
    class["properties"]["from"]["items"] = row.clone();
    let properties: Map<String, Value> = FILE_KEYS.iter().map(|key| ((*key).to_owned(), json!({}))).collect();
    let mut file = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "fulgurite operator database",
        "description": "Made by `cargo ops schema` from codegen/src/schema/keys.rs",
        "type": "object",
        "properties": properties,
        "required": ["ops"],
        "additionalProperties": false,
    });
    file["properties"]["points"] = json!({
        "description": "the folder beside this file whose files have further points: `operator: [{x: 0, out: 1}]`",
        "type": "string",
    });
    file["properties"]["calls"] = json!({
        "description": "the file beside this one with other libraries' calls of upstream rows: `operator: {torch: [name]}`",
        "type": "string",
    });
    file["properties"]["subclasses"] = json!({"description": "tensor subclasses", "type": "array", "items": class});
    file["properties"]["ops"] =
        json!({"description": "the rows, each from `- op: name` in column 1", "type": ["array", "null"], "items": row});
    file
}

/// A map with these keys and no others.
fn keys(keys: &[Key]) -> Value {
    let property = |key: &Key| {
        let mut value = form(&key.form);
        if let Some(value) = value.as_object_mut() {
            value.insert("description".into(), key.says.into());
        }
        (key.name.to_owned(), value)
    };
    let properties: Map<String, Value> = keys.iter().map(property).collect();
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

fn form(of: &Form) -> Value {
    // The reader takes scalars as they are written.
    let text = json!({"type": ["string", "number", "boolean"]});
    match of {
        Form::Text => text,
        Form::Sentence => json!({"type": "string", "pattern": "^[^\\n\\r]*[^.\\s]\\s*$"}),
        Form::One(words) => json!({"enum": words}),
        Form::Chosen(words) => json!({"anyOf": [
            {"enum": words},
            {"type": "string", "pattern": "^if |^match | - | [+] "},
        ]}),
        Form::TruthOrList => json!({"anyOf": [{"type": "boolean"}, {"type": "array", "items": text}]}),
        Form::List(item) => json!({"type": "array", "items": form(item)}),
        Form::Map(value) => json!({"type": "object", "additionalProperties": form(value)}),
        Form::Keys(known) => keys(known),
        Form::Any => json!({}),
    }
}
