//! The tensors beside the cases: a safetensors file, which may contain dtypes that fulgurite lacks.

use serde_json::Value as Json;
use std::collections::HashMap;

/// A tensor in the form of the file.
pub(super) struct Raw<'a> {
    /// The dtype, such as `F32` or `C64`.
    pub dtype: &'a str,
    pub shape: &'a [usize],
    pub bytes: &'a [u8],
}

/// The tensors of a file.
#[derive(Default)]
pub struct Tensors {
    data: Vec<u8>,
    entries: HashMap<String, Entry>,
}

struct Entry {
    dtype: String,
    shape: Vec<usize>,
    begin: usize,
    end: usize,
}

impl Tensors {
    /// The tensors in the bytes of a file; `None` if it is not a safetensors file.
    pub fn read(data: Vec<u8>) -> Option<Tensors> {
        let entries = entries(&data)?;
        Some(Tensors { data, entries })
    }

    /// The tensor with this name.
    pub(super) fn get(&self, name: &str) -> Option<Raw<'_>> {
        let entry = self.entries.get(name)?;
        Some(Raw { dtype: &entry.dtype, shape: &entry.shape, bytes: self.data.get(entry.begin..entry.end)? })
    }
}

fn entries(data: &[u8]) -> Option<HashMap<String, Entry>> {
    let length = usize::try_from(u64::from_le_bytes(data.get(..8)?.try_into().ok()?)).ok()?;
    let start = length.checked_add(8)?;
    let header: Json = serde_json::from_slice(data.get(8..start)?).ok()?;
    let tensors = header.as_object()?.iter().filter(|(name, _)| *name != "__metadata__");
    tensors
        .map(|(name, entry)| {
            let numbers = |key: &str| -> Option<Vec<usize>> {
                entry[key].as_array()?.iter().map(|n| usize::try_from(n.as_u64()?).ok()).collect()
            };
            let [begin, end] = numbers("data_offsets")?.try_into().ok()?;
            let (begin, end) = (start.checked_add(begin)?, start.checked_add(end)?);
            let dtype = entry["dtype"].as_str()?.to_owned();
            data.get(begin..end)?;
            Some((name.clone(), Entry { dtype, shape: numbers("shape")?, begin, end }))
        })
        .collect()
}
