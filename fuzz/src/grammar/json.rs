//! Mutations of a JSON text.

use crate::draws::Draws;
use serde_json::{Value, json};

/// The text with one to four mutations, crossed with values of another text; `None` if it is no JSON.
pub fn mutant(draws: &mut Draws, text: &[u8], other: &[u8]) -> Option<Vec<u8>> {
    let mut whole: Value = serde_json::from_slice(text).ok()?;
    let other: Value = serde_json::from_slice(other).unwrap_or_default();
    for _ in 0..draws.few(4) {
        let source = if draws.one_in(3) { whole.clone() } else { other.clone() };
        let (to, from) = (draws.pick(&paths(&whole)), draws.pick(&paths(&source)));
        // the value of another text that has the same key is more likely to be accepted
        let key = to.rsplit('/').next().unwrap_or_default();
        let alike: Vec<String> =
            paths(&source).into_iter().filter(|path| path.rsplit('/').next() == Some(key)).collect();
        let from = if draws.one_in(2) && !alike.is_empty() { draws.pick(&alike) } else { from };
        let part = source.pointer(&from).cloned().unwrap_or_default();
        mutate(&mut whole, &to, part, draws);
    }
    serde_json::to_vec(&whole).ok()
}

/// The place of each value, as a JSON pointer.
fn paths(whole: &Value) -> Vec<String> {
    fn walk(value: &Value, path: &str, paths: &mut Vec<String>) {
        paths.push(path.to_owned());
        match value {
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(i, item)| walk(item, &format!("{path}/{i}"), paths));
            }
            Value::Object(fields) => {
                let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
                fields.iter().for_each(|(key, item)| walk(item, &format!("{path}/{}", escaped(key)), paths));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(whole, "", &mut found);
    found
}

/// Numbers at which sizes, indices and counts go wrong.
fn number(draws: &mut Draws) -> Value {
    match draws.below(12) {
        0 => json!(0),
        1 => json!(-1),
        2 => json!(1),
        3 => json!(i64::MAX),
        4 => json!(i64::MIN),
        5 => json!(u64::MAX),
        6 => json!(1u64 << 31),
        7 => json!(1u64 << 40),
        8 => json!(1e308),
        9 => json!(0.5),
        10 => json!("NaN"),
        _ => json!(draws.below(20) as i64 - 5),
    }
}

fn mutate(whole: &mut Value, path: &str, other: Value, draws: &mut Draws) {
    let Some(value) = whole.pointer_mut(path) else { return };
    *value = match (value.take(), draws.below(6)) {
        // another value of the program in its place
        (_, 0) => other,
        (Value::Array(mut items), 1) if !items.is_empty() => {
            let copy = items[draws.below(items.len())].clone();
            items.insert(draws.below(items.len() + 1), copy);
            Value::Array(items)
        }
        (Value::Array(mut items), 2) if !items.is_empty() => {
            items.remove(draws.below(items.len()));
            Value::Array(items)
        }
        (Value::Array(mut items), 3) if items.len() > 1 => {
            let (a, b) = (draws.below(items.len()), draws.below(items.len()));
            items.swap(a, b);
            Value::Array(items)
        }
        // a value far inside of itself
        (Value::Array(_), 4) => (0..draws.below(400)).fold(json!([]), |inner, _| json!([inner])),
        (Value::Object(mut fields), 1 | 2) if !fields.is_empty() => {
            let key = fields.keys().nth(draws.below(fields.len())).cloned().unwrap_or_default();
            fields.remove(&key);
            Value::Object(fields)
        }
        (Value::String(text), 1) => json!(format!("{text}{text}")),
        (Value::String(text), 2) => json!(text.chars().take(draws.below(text.len() + 1)).collect::<String>()),
        (Value::String(_), 3) => json!("x".repeat(1 << draws.below(12))),
        (Value::Bool(flag), _) => json!(!flag),
        (Value::Number(_), _) => number(draws),
        (same, _) => same,
    };
}
