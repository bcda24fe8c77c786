//! The tensors of an archive. Each is a view of a storage, which is an entry of raw bytes; names that share a view are
//! one tensor.

use super::schema::{Length, PayloadConfig, TensorMeta};
use crate::archive::Archive;
use crate::{fault, inputs};
use fulgurite::buffer::Buffer;
use fulgurite::core::DType;
use fulgurite::{Error, Tensor};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// The tensors of a model.
#[derive(Default)]
pub struct ArchiveTensors {
    tensors: Vec<Tensor>,
    /// The number of the tensor of each name; tied names have one tensor.
    numbers: HashMap<String, usize>,
    pickled: HashSet<String>,
}

/// The identity of a view: the entry, the byte at which it begins, and its type.
type ViewKey = (usize, DType, Vec<usize>, Vec<usize>);

/// Copies of strided views may take this many times the file's bytes in all, because a few bytes of a file can describe
/// a view of any size.
const COPIED: usize = 16;

/// The dtypes by their numbers in schema 8, which are not those of c10.
pub fn dtype(code: i64) -> Option<DType> {
    Some(match code {
        1 => DType::U8,
        2 => DType::I8,
        3 => DType::I16,
        4 => DType::I32,
        5 => DType::I64,
        6 => DType::F16,
        7 => DType::F32,
        8 => DType::F64,
        12 => DType::Bool,
        13 => DType::BF16,
        28 => DType::U16,
        29 => DType::F8E4M3FN,
        30 => DType::F8E5M2,
        31 => DType::F8E4M3FNUZ,
        32 => DType::F8E5M2FNUZ,
        33 => DType::F8E8M0FNU,
        34 => DType::U32,
        35 => DType::U64,
        _ => return None,
    })
}

impl ArchiveTensors {
    /// Reads the tensors of `data/weights` and `data/constants`.
    ///
    /// # Errors
    /// E931 for an entry that does not have the bytes that its type needs.
    pub fn read(archive: &Archive, model: &str) -> Result<ArchiveTensors, Error> {
        let mut weights = ArchiveTensors::default();
        let mut seen = HashMap::new();
        let mut budget = archive.file.bytes().len().saturating_mul(COPIED);
        for folder in ["weights", "constants"] {
            let part = format!("data/{folder}/{model}_{folder}_config.json");
            let Some(text) = archive.bytes(&part) else { continue };
            let config: PayloadConfig =
                serde_json::from_slice(text).map_err(|e| fault::broken(&archive.path, &part, e))?;
            for (name, payload) in config.config {
                let part = format!("data/{folder}/{}", payload.path_name);
                match &payload.tensor_meta {
                    Some(meta) if !payload.use_pickle => {
                        let add = weights.add(archive, &part, name, meta, &mut seen, &mut budget);
                        add.map_err(|why| fault::broken(&archive.path, &part, why))?;
                    }
                    _ => _ = weights.pickled.insert(name),
                }
            }
        }
        Ok(weights)
    }

    fn add(
        &mut self,
        archive: &Archive,
        part: &str,
        name: String,
        meta: &TensorMeta,
        seen: &mut HashMap<ViewKey, usize>,
        budget: &mut usize,
    ) -> Result<(), String> {
        let dtype = dtype(meta.dtype).ok_or_else(|| format!("`{name}` has dtype {}, which has no row", meta.dtype))?;
        let storage = archive.place(part).ok_or("the entry is missing")?;
        let view = View::new(dtype, meta, storage)?;
        let key = (view.from, dtype, view.sizes.clone(), view.strides.clone());
        if let Some(number) = seen.get(&key) {
            self.numbers.insert(name, *number);
            return Ok(());
        }
        let buffer = match view.is_dense() {
            true => archive.file.buffer(dtype, &view.sizes, view.from).map_err(|e| e.to_string())?,
            false => {
                let bytes = view.count * dtype.size();
                *budget = budget.checked_sub(bytes).ok_or("its strided views have more bytes than are read")?;
                Buffer::from_bytes(dtype, &view.sizes, &view.gather(archive.file.bytes())).map_err(|e| e.to_string())?
            }
        };
        seen.insert(key, self.tensors.len());
        self.numbers.insert(name, self.tensors.len());
        self.tensors.push(Tensor::from_buffer(buffer));
        Ok(())
    }

    /// The number of the tensor `name`; tied names have the same one.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    pub fn tensor(&self, number: usize) -> &Tensor {
        &self.tensors[number]
    }

    /// Whether the file has the tensor as a pickle alone.
    pub fn is_pickled(&self, name: &str) -> bool {
        self.pickled.contains(name)
    }
}

/// A view of a storage.
struct View {
    dtype: DType,
    sizes: Vec<usize>,
    /// Strides in elements.
    strides: Vec<usize>,
    /// The byte of the file at which the view begins.
    from: usize,
    count: usize,
}

impl View {
    /// The view that `meta` describes of the bytes `storage` of the file.
    fn new(dtype: DType, meta: &TensorMeta, storage: Range<usize>) -> Result<View, String> {
        inputs::check_rank(meta.sizes.len()).map_err(|why| format!("it {why}"))?;
        let number = |length: &Length| match length {
            Length::AsInt(n) => usize::try_from(*n).map_err(|_| format!("{n} is no length")),
            Length::AsExpr(e) => Err(format!("`{}` is no known length", e.expr_str)),
        };
        let numbers = |list: &[Length]| list.iter().map(number).collect::<Result<Vec<_>, _>>();
        let (sizes, strides, offset) = (numbers(&meta.sizes)?, numbers(&meta.strides)?, number(&meta.storage_offset)?);
        if sizes.len() != strides.len() {
            return Err(format!("{} sizes have {} strides", sizes.len(), strides.len()));
        }
        let too_large = || "its sizes are too large".to_owned();
        let count = sizes.iter().try_fold(1usize, |n, size| n.checked_mul(*size)).ok_or_else(too_large)?;
        // the bytes too, because with strides of 0 a few bytes of a file have any number of elements
        count.checked_mul(dtype.size()).ok_or_else(too_large)?;
        let last = sizes
            .iter()
            .zip(&strides)
            .try_fold(offset, |at, (size, stride)| at.checked_add(size.saturating_sub(1).checked_mul(*stride)?));
        let from = offset.checked_mul(dtype.size()).and_then(|n| n.checked_add(storage.start));
        let end = last.and_then(|at| at.checked_add(1)).and_then(|n| n.checked_mul(dtype.size()));
        let (from, end) = (from.ok_or_else(too_large)?, end.ok_or_else(too_large)?);
        if count > 0 && end > storage.len() {
            return Err(format!("it has {} bytes, and the tensor needs {end}", storage.len()));
        }
        Ok(View { dtype, sizes, strides, from: if count > 0 { from } else { storage.start }, count })
    }

    /// Whether the elements lie in row-major order.
    fn is_dense(&self) -> bool {
        let mut packed = 1;
        self.count == 0
            || self.sizes.iter().zip(&self.strides).rev().all(|(size, stride)| {
                let fits = *size == 1 || *stride == packed;
                packed *= size;
                fits
            })
    }

    /// The elements in row-major order.
    fn gather(&self, file: &[u8]) -> Vec<u8> {
        let width = self.dtype.size();
        let mut bytes = Vec::with_capacity(self.count * width);
        let mut index = vec![0; self.sizes.len()];
        for _ in 0..self.count {
            let at = self.from + width * index.iter().zip(&self.strides).map(|(i, stride)| i * stride).sum::<usize>();
            bytes.extend_from_slice(&file[at..at + width]);
            for axis in (0..index.len()).rev() {
                index[axis] += 1;
                if index[axis] < self.sizes[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(sizes: &[i64], strides: &[i64], bytes: usize) -> Result<View, String> {
        let lengths = |list: &[i64]| list.iter().map(|n| Length::AsInt(*n)).collect();
        let (sizes, strides) = (lengths(sizes), lengths(strides));
        let meta = TensorMeta { dtype: 7, sizes, strides, storage_offset: Length::AsInt(0) };
        View::new(DType::F32, &meta, 64..64 + bytes)
    }

    #[test]
    fn views_lie_in_their_storage_and_have_a_number_of_bytes() {
        assert!(view(&[2, 3], &[3, 1], 24).is_ok_and(|v| v.is_dense()));
        assert!(view(&[2, 3], &[1, 2], 24).is_ok_and(|v| !v.is_dense()));
        assert!(view(&[2, 3], &[3, 1], 23).is_err(), "one byte is missing");
        // the elements can be counted, and their bytes can't
        assert!(view(&[1 << 62], &[0], 4).is_err());
        assert!(view(&[1 << 40, 1 << 40], &[0, 0], 4).is_err());
        assert!(view(&[2], &[i64::MAX], 4).is_err());
        // each element of a copy is found by all axes
        assert!(view(&[1; 256], &[0; 256], 4).is_ok());
        assert!(view(&[1; 257], &[0; 257], 4).is_err());
    }
}
