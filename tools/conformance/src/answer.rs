//! The result of a case, as a line of `results.jsonl`.

use crate::value;
use fulgurite::Error;
use fulgurite::buffer::Buffer;
use serde_json::{Map, Value as Json, json};

/// How a case ended.
pub(super) enum Status {
    /// It ran.
    Ok,
    /// The call was refused.
    Refused(Error),
    /// The case can't be run, for this reason.
    Unsupported(String),
}

impl Status {
    /// The word of the format.
    pub fn word(&self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Refused(_) => "error",
            Status::Unsupported(_) => "unsupported",
        }
    }
}

/// Tensors by number; `None` where there is none.
pub(super) type Found = Vec<(usize, Option<Buffer>)>;

/// The result of a case.
pub(super) struct Answer {
    pub status: Status,
    pub out: Vec<Json>,
    pub grad: Option<Found>,
    /// The second derivatives with respect to inputs and to cotangents.
    pub second: Option<(Found, Found)>,
    pub jvp: Option<Vec<Option<Buffer>>>,
    /// Checks that could not be made, with the reason.
    pub lacks: Vec<(&'static str, String)>,
}

impl Answer {
    /// A case without results.
    pub fn of(status: Status) -> Answer {
        Answer { status, out: Vec::new(), grad: None, second: None, jvp: None, lacks: Vec::new() }
    }

    /// The line.
    pub fn json(&self, id: &str) -> Json {
        let mut line = json!({"id": id, "status": self.status.word()});
        match &self.status {
            Status::Unsupported(why) => line["reason"] = json!(why),
            Status::Refused(e) => {
                line["class"] = json!(class(e.code()));
                line["message"] = json!(e.to_string());
            }
            Status::Ok => {
                line["out"] = Json::Array(self.out.clone());
                if let Some(grad) = &self.grad {
                    line["grad"] = by_number(grad);
                }
                if let Some((x, ct)) = &self.second {
                    line["second"] = json!({"x": by_number(x), "ct": by_number(ct)});
                }
                if let Some(jvp) = &self.jvp {
                    line["jvp"] = jvp.iter().map(|b| b.as_ref().map_or(Json::Null, value::json)).collect();
                }
                if !self.lacks.is_empty() {
                    line["unsupported"] = self.lacks.iter().map(|(check, _)| json!(check)).collect();
                    let reasons: Vec<&str> = self.lacks.iter().map(|(_, why)| why.as_str()).collect();
                    line["reason"] = json!(reasons.join("; "));
                }
            }
        }
        line
    }
}

fn by_number(found: &Found) -> Json {
    let entries = found.iter().map(|(n, b)| (n.to_string(), b.as_ref().map_or(Json::Null, value::json)));
    Json::Object(entries.collect::<Map<String, Json>>())
}

/// The format's class of an error.
fn class(code: &str) -> &'static str {
    match code {
        "E701" => "shape",
        "E703" => "dtype",
        "E704" | "E804" => "index",
        "E702" => "argument",
        _ => "value",
    }
}
