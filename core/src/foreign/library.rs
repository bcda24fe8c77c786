//! The libraries whose names rows have.

use crate::DType;

/// The libraries whose calls rows list, each under a key with its name: PyTorch's operators, PyTorch's functions, and
/// ONNX's operators.
pub const LIBRARIES: [&str; 3] = ["aten", "torch", "onnx"];

/// The library that a name belongs to: `aten` of `aten.add.Tensor`.
pub fn library(name: &str) -> Option<&'static str> {
    let (first, _) = name.split_once('.')?;
    LIBRARIES.into_iter().find(|library| *library == first)
}

/// Whether a row is an alias row: a call of another library in that library's own meaning, such as
/// `aten.constant_pad_nd`.
pub fn is_alias(op: &str) -> bool {
    library(op).is_some()
}

/// PyTorch's numbers of dtypes (c10/core/ScalarType.h).
const TORCH: [Option<DType>; 16] = [
    Some(DType::U8),
    Some(DType::I8),
    Some(DType::I16),
    Some(DType::I32),
    Some(DType::I64),
    Some(DType::F16),
    Some(DType::F32),
    Some(DType::F64),
    None,
    None,
    None,
    Some(DType::Bool),
    None,
    None,
    None,
    Some(DType::BF16),
];

/// ONNX's numbers of dtypes (`TensorProto.DataType` in onnx.proto).
const ONNX: [Option<DType>; 27] = [
    None,
    Some(DType::F32),
    Some(DType::U8),
    Some(DType::I8),
    Some(DType::U16),
    Some(DType::I16),
    Some(DType::I32),
    Some(DType::I64),
    None,
    Some(DType::Bool),
    Some(DType::F16),
    Some(DType::F64),
    Some(DType::U32),
    Some(DType::U64),
    None,
    None,
    Some(DType::BF16),
    Some(DType::F8E4M3FN),
    Some(DType::F8E4M3FNUZ),
    Some(DType::F8E5M2),
    Some(DType::F8E5M2FNUZ),
    Some(DType::U4),
    Some(DType::I4),
    Some(DType::F4E2M1FN),
    Some(DType::F8E8M0FNU),
    Some(DType::U2),
    Some(DType::I2),
];

/// The dtype that a library numbers `code`.
pub fn dtype(library: &str, code: i64) -> Option<DType> {
    let codes = if library == "onnx" { &ONNX[..] } else { &TORCH[..] };
    codes.get(usize::try_from(code).ok()?).copied().flatten()
}

/// The names under which a call may be listed, the best one first. An operator of ONNX has versions: `onnx.Clip.13` is
/// also the call of `onnx.Clip.11` where no name has a later version up to 13, and of `onnx.Clip`, which all versions
/// have in common.
pub fn spellings(name: &str) -> Vec<String> {
    let version = name.strip_prefix("onnx.").and_then(|rest| rest.rsplit_once('.'));
    match version.and_then(|(operator, version)| Some((operator, version.parse::<u32>().ok()?))) {
        Some((operator, version)) if version < 1000 => {
            let earlier = (1..=version).rev().map(|version| format!("onnx.{operator}.{version}"));
            earlier.chain([format!("onnx.{operator}")]).collect()
        }
        _ => vec![name.strip_suffix(".default").unwrap_or(name).to_owned()],
    }
}
