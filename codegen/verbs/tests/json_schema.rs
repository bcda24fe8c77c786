//! The JSON Schema: it follows the reader's table, accepts every right row, and refuses YAML of a wrong shape.

use std::fs;
use std::path::{Path, PathBuf};

use fulgurite_codegen::diag::Diagnostics;
use fulgurite_codegen::source::Sources;
use fulgurite_codegen::yaml::{self, Node, ScalarKind};
use fulgurite_ops_verbs::explain::pages::PAGES;
use fulgurite_ops_verbs::json_schema;
use serde_json::{Map, Value};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The schema in docs is the generated one. `UPDATE_EXPECT=1` rewrites it.
#[test]
fn the_schema_in_docs_is_the_one_that_is_made() {
    let path = root().join(json_schema::PATH);
    let made = json_schema::text();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        return fs::write(path, made).expect("the schema is written");
    }
    let stands = fs::read_to_string(path).unwrap_or_default();
    assert!(
        stands == made,
        "{} is not the one that `cargo ops schema` prints (UPDATE_EXPECT=1 accepts)",
        json_schema::PATH
    );
}

/// The first complaint about each row. A complaint about the file as a whole has the name "".
fn complaints(text: &str) -> Vec<(String, String)> {
    let Some(value) = read(text) else { return vec![(String::new(), "it is no YAML".to_owned())] };
    let schema = json_schema::schema();
    let row = &schema["properties"]["ops"]["items"];
    let mut all = Vec::new();
    for item in value["ops"].as_array().into_iter().flatten() {
        if let Err(why) = valid(item, row) {
            all.push((item["op"].as_str().unwrap_or("").to_owned(), why));
        }
    }
    if let (Err(why), true) = (valid(&value, &schema), all.is_empty()) {
        all.push((String::new(), why));
    }
    all
}

/// The file as editors see it: a JSON value.
fn read(text: &str) -> Option<Value> {
    let mut sources = Sources::default();
    let file = sources.add("ops.yaml", text);
    yaml::read(file, &sources, &mut Diagnostics::new()).map(|node| value(&node))
}

fn value(node: &Node) -> Value {
    match &node.value {
        yaml::Value::Null => Value::Null,
        yaml::Value::Scalar(text) => match text.kind {
            ScalarKind::Bool(value) => value.into(),
            ScalarKind::Number => text.as_str().parse::<f64>().map_or_else(|_| text.as_str().into(), Value::from),
            ScalarKind::Text => text.as_str().into(),
        },
        yaml::Value::List(items) => items.iter().map(value).collect(),
        yaml::Value::Map(entries) => {
            let map: Map<String, Value> =
                entries.iter().map(|(key, node)| (key.as_str().to_owned(), value(node))).collect();
            map.into()
        }
    }
}

/// Checks a value by the part of JSON Schema that ours uses.
fn valid(value: &Value, schema: &Value) -> Result<(), String> {
    let fails = |what: String| Err(format!("{what}: {value}"));
    for (keyword, says) in schema.as_object().expect("a schema is a map") {
        let list = || says.as_array().expect("a list");
        let fit = || list().iter().filter(|schema| valid(value, schema).is_ok()).count();
        match keyword.as_str() {
            "$schema" | "title" | "description" => {}
            "type" => {
                let is = match value {
                    Value::Null => "null",
                    Value::Bool(_) => "boolean",
                    Value::Number(_) => "number",
                    Value::String(_) => "string",
                    Value::Array(_) => "array",
                    Value::Object(_) => "object",
                };
                if !(says == is || says.as_array().is_some_and(|types| types.iter().any(|ty| ty == is))) {
                    return fails(format!("{is} is not {says}"));
                }
            }
            "enum" if !list().contains(value) => return fails(format!("none of {says}")),
            "enum" => {}
            "pattern" => {
                let pattern = says.as_str().expect("a text");
                if !value.as_str().is_some_and(|text| matches_any(text, pattern)) {
                    return fails(format!("does not match {pattern}"));
                }
            }
            "required" => {
                if let Some(key) = list().iter().find(|key| value.get(key.as_str().expect("a key")).is_none()) {
                    return fails(format!("{key} is missing"));
                }
            }
            "anyOf" if fit() == 0 => return fails(format!("none of {says}")),
            "oneOf" if fit() != 1 => return fails(format!("not exactly one of {says}")),
            "anyOf" | "oneOf" => {}
            "items" => value.as_array().into_iter().flatten().try_for_each(|item| valid(item, says))?,
            "properties" => {
                let known = says.as_object().expect("a map").iter();
                known.filter_map(|(key, schema)| Some((value.get(key)?, schema))).try_for_each(|(v, s)| valid(v, s))?;
            }
            "additionalProperties" => {
                let others = value.as_object().into_iter().flatten();
                let others = others.filter(|(key, _)| schema["properties"].get(key.as_str()).is_none());
                for (key, value) in others {
                    match says {
                        Value::Bool(false) => return fails(format!("no key is `{key}`")),
                        schema => valid(value, schema)?,
                    }
                }
            }
            other => panic!("the schema uses `{other}`, which this test does not know"),
        }
    }
    Ok(())
}

/// Whether a text matches the pattern of one sentence, or one of several alternatives. Alternatives are plain texts,
/// with `^` for the beginning and `[+]` for a plus.
fn matches_any(text: &str, pattern: &str) -> bool {
    if pattern == r"^[^\n\r]*[^.\s]\s*$" {
        let text = text.trim_end();
        return !text.is_empty() && !text.contains(['\n', '\r']) && !text.ends_with('.');
    }
    pattern.split('|').any(|part| match part.strip_prefix('^') {
        Some(start) => text.starts_with(start),
        None => text.contains(&part.replace("[+]", "+")),
    })
}

#[test]
fn right_databases_fit() {
    let downstream = root().join("examples/downstream/ops.yaml");
    for path in [root().join("ops.yaml"), downstream] {
        let found = complaints(&fs::read_to_string(&path).expect("a database"));
        assert!(found.is_empty(), "{}: {found:?}", path.display());
    }
    for page in PAGES {
        for mended in page.text.split("```yaml\n").skip(2) {
            let found = complaints(mended.split("```").next().unwrap_or_default());
            assert!(found.is_empty(), "{}: {found:?}", page.code);
        }
    }
}

/// Wrong databases whose fault is one of shape are refused by the schema too, row by row.
#[test]
fn wrong_shapes_do_not_fit() {
    let case = |name: &str| {
        let path = root().join("codegen/verbs/tests/err").join(format!("{name}.yaml"));
        complaints(&fs::read_to_string(path).expect("a case"))
    };
    let names = |name: &str| case(name).into_iter().map(|(op, _)| op).collect::<Vec<_>>();
    assert_eq!(names("e005_types"), ["lists", "message", "nothing", "names", ""], "{:?}", case("e005_types"));
    assert_eq!(names("e011_bodies").len(), 2, "{:?}", case("e011_bodies"));
    assert!(!names("e004_keys").is_empty() && !names("e004_file").is_empty() && !names("e005_list").is_empty());
    let row = |keys: &str| format!("ops:\n- op: one\n  doc: One\n  sig: '(x: T) -> T'\n{keys}\n");
    let wrong = [
        "  expr: x\n  promote: flaot",
        "  expr: x\n  dtypes: real",
        "  expr: x\n  acc: f8",
        "  expr: x\n  at: {'x == 0': 0}",
        "  expr: x\n  kernels: cpu",
        "  expr: x\n  grad: 'g'",
        "  expr: x\n  tests: {tolerance: 1}",
        "  exprs: x",
    ];
    assert_eq!(names("e005_doc"), ["lines", "stop", "blank", "folded"], "{:?}", case("e005_doc"));
    for keys in wrong {
        assert_eq!(complaints(&row(keys)).len(), 1, "{keys}");
    }
    let right = "  expr: x\n  promote: if is_int(T) { float } else { default }\n  dtypes: all - bool\n  skip_vjp: [x]";
    assert_eq!(complaints(&row(right)), []);
}
