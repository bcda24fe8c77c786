//! The header of a safetensors file: its tensors and their positions, checked against each other and the file's length.
//!
//! The format (huggingface/safetensors, README "Format") is 8 bytes of little-endian length N, then N bytes of JSON from
//! name to `{"dtype", "shape", "data_offsets": [begin, end]}` with an optional `__metadata__` of texts, then the data,
//! which the tensors cover without holes.

use super::{Metadata, grouped};
use fulgurite_core::{DType, TensorTy};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};

/// At most 32 MiB of header are read, which has room for a hundred thousand tensors.
pub(super) const LONGEST: u64 = 32 << 20;
/// At most this many axes in a tensor, because a header may come from outside.
const MOST_AXES: usize = 64;

/// The content of a file.
#[derive(Clone, Debug, Default)]
pub struct Header {
    /// The tensors, in the order of their data.
    pub entries: Vec<Entry>,
    /// The metadata.
    pub metadata: Metadata,
}

/// A tensor of a file.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name.
    pub name: String,
    /// The dtype and sizes.
    pub ty: TensorTy,
    /// The start of its data, counted from the end of the header.
    pub begin: u64,
    /// The end of its data.
    pub end: u64,
}

/// The reason why a header is refused.
pub(super) enum Fault {
    /// The file ends before the data: the bytes that the header promises, and the first tensor that is not complete.
    Short { promised: u64, first: Box<Entry> },
    /// The header contradicts itself.
    Wrong(String),
}

/// The names of dtypes in the format; a file holds numbers of fewer than eight bits as their byte.
const DTYPES: [(&str, DType); 24] = [
    ("BOOL", DType::Bool),
    ("U8", DType::U8),
    ("I8", DType::I8),
    ("I16", DType::I16),
    ("I32", DType::I32),
    ("I64", DType::I64),
    ("F16", DType::F16),
    ("BF16", DType::BF16),
    ("F32", DType::F32),
    ("F64", DType::F64),
    ("F8_E4M3", DType::F8E4M3FN),
    ("F8_E5M2", DType::F8E5M2),
    ("U8", DType::U4X2),
    ("U16", DType::U16),
    ("U32", DType::U32),
    ("U64", DType::U64),
    ("F8_E4M3FNUZ", DType::F8E4M3FNUZ),
    ("F8_E5M2FNUZ", DType::F8E5M2FNUZ),
    ("F8_E8M0", DType::F8E8M0FNU),
    ("U8", DType::F4E2M1FN),
    ("I8", DType::I2),
    ("U8", DType::U2),
    ("I8", DType::I4),
    ("U8", DType::U4),
];

/// The dtype as which a file holds numbers of this one.
pub(super) fn held_as(dtype: DType) -> DType {
    let name = DTYPES.iter().find(|(_, d)| *d == dtype).map(|(name, _)| *name);
    DTYPES.iter().find(|(known, _)| Some(*known) == name).map_or(dtype, |(_, d)| *d)
}

impl Header {
    /// Reads and checks a header; `data` is the number of bytes that follow it.
    pub(super) fn parse(text: &[u8], data: u64) -> Result<Header, Fault> {
        let wrong = |what: String| Fault::Wrong(what);
        let parsed: Value = serde_json::from_slice(text).map_err(|e| wrong(format!("its header is not JSON: {e}")))?;
        let Value::Object(map) = parsed else { return Err(wrong("its header is not a JSON object".into())) };
        let mut header = Header::default();
        for (name, value) in map {
            if name == "__metadata__" {
                header.metadata = metadata(value).ok_or_else(|| wrong("its metadata are not texts".into()))?;
                continue;
            }
            let entry = entry(&name, &value).map_err(|what| wrong(format!("tensor `{}` {what}", clip(&name))))?;
            header.entries.push(entry);
        }
        header.entries.sort_by_key(|e| (e.begin, e.end));
        let mut at = 0;
        for e in &header.entries {
            if e.begin != at {
                let what = if e.begin < at { "overlaps the one before" } else { "leaves a hole before it" };
                let name = clip(&e.name);
                return Err(wrong(format!(
                    "tensor `{name}` {what}: its data start at {}, not at {}",
                    grouped(e.begin),
                    grouped(at)
                )));
            }
            at = e.end;
        }
        if at > data {
            let first = header.entries.iter().find(|e| e.end > data).cloned();
            return Err(match first {
                Some(first) => Fault::Short { promised: at, first: Box::new(first) },
                None => wrong("its tensors end before they start".into()),
            });
        }
        if at < data {
            return Err(wrong(format!("{} bytes stand after its last tensor", grouped(data - at))));
        }
        Ok(header)
    }

    /// The bytes of a file before the data, for these tensors in the order of their data.
    pub(super) fn write(entries: &[Entry], metadata: &Metadata) -> Vec<u8> {
        let mut map = Map::new();
        map.insert("__metadata__".into(), json!(metadata));
        for e in entries {
            let name = DTYPES.iter().find(|(_, d)| *d == e.ty.dtype).map_or("", |(name, _)| name);
            let sizes = e.ty.sizes();
            map.insert(
                e.name.clone(),
                json!({ "dtype": name, "shape": sizes.as_slice(), "data_offsets": [e.begin, e.end] }),
            );
        }
        let mut text = Value::Object(map).to_string().into_bytes();
        // the data start at a multiple of 8, as readers require that map the file
        text.resize(text.len().next_multiple_of(8), b' ');
        let mut out = (text.len() as u64).to_le_bytes().to_vec();
        out.append(&mut text);
        out
    }

    /// The tensor with this name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.name == name)
    }

    /// The tensors by their names.
    pub(super) fn by_name(&self) -> HashMap<&str, &Entry> {
        self.entries.iter().map(|e| (e.name.as_str(), e)).collect()
    }

    /// The differences from the tensors that a tree needs.
    pub(super) fn differences(&self, wanted: &[(&str, TensorTy)]) -> Vec<String> {
        let have = self.by_name();
        let mut out = Vec::new();
        let mut known = HashSet::new();
        for (name, ty) in wanted {
            if !known.insert(*name) {
                out.push(format!("two tensors of the tree are called `{name}`"));
            }
            match have.get(name) {
                None => out.push(format!("`{name}` {ty} is not in the file")),
                Some(e) if e.ty != *ty => out.push(format!("`{name}` is {} in the file, {ty} here", e.ty)),
                Some(_) => {}
            }
        }
        let surplus = self.entries.iter().filter(|e| !known.contains(e.name.as_str()));
        out.extend(surplus.map(|e| format!("`{}` {} of the file has no place here", clip(&e.name), e.ty)));
        out
    }
}

fn entry(name: &str, value: &Value) -> Result<Entry, String> {
    let text = value.get("dtype").and_then(Value::as_str).ok_or("has no dtype")?;
    let dtype = DTYPES.iter().find(|(known, _)| *known == text).map(|(_, d)| *d);
    let dtype = dtype.ok_or_else(|| format!("has the dtype {}, which no tensor here can have", clip(text)))?;
    let shape = value.get("shape").and_then(Value::as_array).ok_or("has no shape")?;
    if shape.len() > MOST_AXES {
        return Err(format!("has {} axes", shape.len()));
    }
    let size = |v: &Value| v.as_u64().filter(|&n| n <= i64::MAX as u64);
    let sizes: Option<Vec<u64>> = shape.iter().map(size).collect();
    let sizes = sizes.ok_or("has a shape that is not made of sizes")?;
    let offsets = value.get("data_offsets").and_then(Value::as_array).map(Vec::as_slice);
    let Some([begin, end]) = offsets else { return Err("has no data offsets".into()) };
    let (Some(begin), Some(end)) = (begin.as_u64(), end.as_u64()) else {
        return Err("has data offsets that are not numbers of bytes".into());
    };
    let bytes = sizes.iter().try_fold(dtype.size() as u64, |n, &s| n.checked_mul(s));
    let ty = TensorTy::new(dtype, &sizes.iter().map(|&s| s as i64).collect::<Vec<_>>());
    if end.checked_sub(begin).is_none() || end.checked_sub(begin) != bytes {
        return Err(format!("{ty} can't have the data {}..{}", grouped(begin), grouped(end)));
    }
    Ok(Entry { name: name.to_owned(), ty, begin, end })
}

fn metadata(value: Value) -> Option<Metadata> {
    let Value::Object(map) = value else { return None };
    map.into_iter().map(|(name, v)| Some((name, v.as_str()?.to_owned()))).collect()
}

/// The texts as one JSON object.
pub(super) fn object(texts: &Metadata) -> String {
    json!(texts).to_string()
}

/// Reads an object that [`object`] wrote.
pub(super) fn parse_object(text: &str) -> Option<Metadata> {
    metadata(serde_json::from_str(text).ok()?)
}

/// A name from an unchecked file, shortened for a message.
fn clip(name: &str) -> String {
    match name.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.to_owned(),
    }
}
