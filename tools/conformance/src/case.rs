//! A case: one call of one operator, and the checks to make of it.

use serde_json::{Map, Value as Json};

/// One line of `cases.jsonl`.
pub(super) struct Case {
    pub id: String,
    pub op: String,
    /// The tensor arguments, as JSON.
    pub tensors: Vec<Json>,
    pub args: Vec<Json>,
    pub kwargs: Map<String, Json>,
    /// Checks in addition to the result: `backward`, `second`, `jvp`.
    pub want: Vec<String>,
    /// The tensors with respect to which derivatives are taken.
    pub grad: Vec<usize>,
    /// A cotangent for each output, as JSON.
    pub ct: Vec<Json>,
    /// A direction for each tensor of `grad`.
    pub directions: Map<String, Json>,
}

impl Case {
    /// Reads a line.
    ///
    /// # Errors
    /// The fault of the line.
    pub fn parse(line: &str) -> Result<Case, String> {
        let mut json: Json = serde_json::from_str(line).map_err(|e| e.to_string())?;
        let text = |json: &Json, key: &str| json[key].as_str().map(str::to_owned).ok_or(format!("no text `{key}`"));
        let list = |json: &mut Json, key: &str| match json[key].take() {
            Json::Array(items) => Ok(items),
            Json::Null => Ok(Vec::new()),
            _ => Err(format!("`{key}` is no list")),
        };
        let map = |json: &mut Json, key: &str| match json[key].take() {
            Json::Object(map) => Ok(map),
            Json::Null => Ok(Map::new()),
            _ => Err(format!("`{key}` is no object")),
        };
        if !json.is_object() {
            return Err("the line is no object".into());
        }
        let grad = list(&mut json, "grad")?;
        let grad = grad.iter().map(|n| n.as_u64().map(|n| n as usize)).collect::<Option<Vec<_>>>();
        let want = list(&mut json, "want")?;
        Ok(Case {
            id: text(&json, "id")?,
            op: text(&json, "op")?,
            tensors: list(&mut json, "tensors")?,
            args: list(&mut json, "args")?,
            kwargs: map(&mut json, "kwargs")?,
            want: want.iter().filter_map(|w| w.as_str().map(str::to_owned)).collect(),
            grad: grad.ok_or("`grad` holds no positions")?,
            ct: list(&mut json, "ct")?,
            directions: map(&mut json, "v")?,
        })
    }

    /// Whether the case wants this check.
    pub fn wants(&self, check: &str) -> bool {
        self.want.iter().any(|w| w == check)
    }
}
