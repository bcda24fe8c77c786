//! The tensors of a model: bytes in its file, bytes in a file beside it, or lists of numbers.

use super::messages::TensorProto;
use crate::inputs;
use fulgurite::Tensor;
use fulgurite::buffer::{Buffer, MappedFile};
use fulgurite::core::{DType, foreign};
use prost::bytes::Bytes;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

/// The files with the data of tensors.
pub struct TensorFiles {
    file: MappedFile,
    folder: PathBuf,
    beside: HashMap<String, MappedFile>,
}

/// The reason why there is no tensor.
pub enum NoTensor {
    /// The file contradicts itself.
    Broken(String),
    /// No tensor here has its dtype, or it is stored in a form that is not read.
    Unsupported(String),
}

impl From<String> for NoTensor {
    fn from(why: String) -> NoTensor {
        NoTensor::Broken(why)
    }
}

/// The dtype of this number in `TensorProto.DataType`.
pub fn dtype(code: i32) -> Option<DType> {
    foreign::dtype("onnx", i64::from(code))
}

impl TensorFiles {
    /// The tensors of the model `path`, whose bytes are `file`.
    pub fn new(path: &Path, file: MappedFile) -> TensorFiles {
        let folder = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        TensorFiles { file, folder, beside: HashMap::new() }
    }

    /// The number of bytes of the model's own file.
    pub fn bytes(&self) -> usize {
        self.file.bytes().len()
    }

    /// The tensor that the message describes. Its bytes are mapped where they are aligned.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn tensor(&mut self, from: &TensorProto) -> Result<Tensor, NoTensor> {
        let code = from.data_type;
        let dtype = dtype(code).ok_or_else(|| NoTensor::Unsupported(format!("a tensor of ONNX's dtype {code}")))?;
        inputs::check_rank(from.dims.len()).map_err(|why| format!("it {why}"))?;
        let size = |n: &i64| usize::try_from(*n).map_err(|_| format!("{n} is no size"));
        let shape = from.dims.iter().map(size).collect::<Result<Vec<_>, _>>()?;
        let elements = shape.iter().try_fold(1usize, |n, size| n.checked_mul(*size));
        let bytes = elements.and_then(|n| n.checked_mul(dtype.size())).zip(elements);
        let (bytes, elements) = bytes.ok_or("its sizes are too large".to_owned())?;
        if packed(dtype) > 1 {
            let held = match &from.raw_data {
                Some(raw) => raw.to_vec(),
                None => listed(DType::U8, from),
            };
            return Ok(Tensor::from_buffer(unpacked(dtype, &shape, elements, &held)?));
        }
        let buffer = if from.data_location == 1 {
            let (file, at) = self.external(from, bytes)?;
            file.buffer(dtype, &shape, at).map_err(|e| e.to_string())?
        } else if let Some(raw) = &from.raw_data {
            if raw.len() != bytes {
                return Err(format!("it has {} bytes, and its sizes need {bytes}", raw.len()).into());
            }
            match self.place(raw) {
                Some(at) => self.file.buffer(dtype, &shape, at),
                None => Buffer::from_bytes(dtype, &shape, raw),
            }
            .map_err(|e| e.to_string())?
        } else {
            let listed = listed(dtype, from);
            if listed.len() != bytes {
                let (found, needed) = (listed.len() / dtype.size(), bytes / dtype.size());
                return Err(format!("it lists {found} numbers, and its sizes need {needed}").into());
            }
            Buffer::from_bytes(dtype, &shape, &listed).map_err(|e| e.to_string())?
        };
        Ok(Tensor::from_buffer(buffer))
    }

    /// The place of these bytes in the file of the model.
    fn place(&self, raw: &Bytes) -> Option<usize> {
        let file = self.file.bytes().as_ptr() as usize;
        let at = (raw.as_ptr() as usize).checked_sub(file)?;
        (at.checked_add(raw.len())? <= self.file.bytes().len()).then_some(at)
    }

    /// The file beside the model that has the bytes of a tensor, and their place in it.
    fn external(&mut self, from: &TensorProto, bytes: usize) -> Result<(&MappedFile, usize), String> {
        let entry = |key: &str| from.external_data.iter().find(|e| e.key == key).map(|e| e.value.as_str());
        let number = |key: &str| match entry(key) {
            Some(text) => text.parse::<usize>().map(Some).map_err(|_| format!("`{key}` is `{text}`")),
            None => Ok(None),
        };
        let location = entry("location").ok_or("it is in another file, which has no `location`")?;
        let (offset, length) = (number("offset")?.unwrap_or(0), number("length")?);
        if length.is_some_and(|length| length != bytes) {
            return Err(format!("its data have {} bytes, and its sizes need {bytes}", length.unwrap_or(0)));
        }
        let path = self.beside(location)?;
        if !self.beside.contains_key(location) {
            let file = MappedFile::open(&path).map_err(|e| unreadable(location, &e))?;
            self.beside.insert(location.to_owned(), file);
        }
        self.beside.get(location).map(|file| (file, offset)).ok_or_else(|| format!("`{location}` can't be read"))
    }

    /// The path of a data file: a file below the folder of the model, reached through no link.
    fn beside(&self, location: &str) -> Result<PathBuf, String> {
        let outside = || format!("its data file `{}` is not below the folder of the model", location.escape_debug());
        let mut path = self.folder.clone();
        for part in Path::new(location).components() {
            match part {
                Component::Normal(name) => path.push(name),
                Component::CurDir => continue,
                _ => return Err(outside()),
            }
            match path.symlink_metadata() {
                Ok(part) if part.is_symlink() => return Err(outside()),
                // a part that can't be looked at may be a link
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(unreadable(location, &e)),
                _ => {}
            }
        }
        Ok(path)
    }
}

fn unreadable(location: &str, why: &io::Error) -> String {
    format!("its data file `{}` can't be read: {why}", location.escape_debug())
}

/// The number of elements that a byte of the file holds.
fn packed(dtype: DType) -> usize {
    match dtype {
        DType::I2 | DType::U2 => 4,
        DType::I4 | DType::U4 | DType::F4E2M1FN => 2,
        _ => 1,
    }
}

/// A tensor of numbers of which a byte of the file holds several, the first of them in its low bits.
fn unpacked(dtype: DType, shape: &[usize], elements: usize, held: &[u8]) -> Result<Buffer, String> {
    let each = packed(dtype);
    let needed = elements.div_ceil(each);
    if held.len() != needed {
        return Err(format!("it has {} bytes, and its sizes need {needed}", held.len()));
    }
    let bits = 8 / each;
    let codes = held.iter().flat_map(|byte| (0..each).map(move |at| byte >> (at * bits) & (0xff >> (8 - bits))));
    let codes: Vec<u8> = codes.take(elements).collect();
    Buffer::from_bytes(dtype, shape, &codes).map_err(|e| e.to_string())
}

/// The bytes of the numbers that the message lists, little-endian. Narrow dtypes stand in the list of 32-bit integers.
fn listed(dtype: DType, from: &TensorProto) -> Vec<u8> {
    let narrow = |width: usize| from.int32_data.iter().flat_map(|n| n.to_le_bytes().into_iter().take(width)).collect();
    match dtype {
        DType::F32 => from.float_data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::F64 => from.double_data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::I64 => from.int64_data.iter().flat_map(|n| n.to_le_bytes()).collect(),
        DType::U64 => from.uint64_data.iter().flat_map(|n| n.to_le_bytes()).collect(),
        DType::U32 => from.uint64_data.iter().flat_map(|n| (*n as u32).to_le_bytes()).collect(),
        _ => narrow(dtype.size()),
    }
}
