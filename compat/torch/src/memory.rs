//! Memory that another library lends to a call, and results in memory of ours that it takes.

use crate::wrong;
use fulgurite::buffer::{Buffer, BufferError, pool};
use fulgurite::core::DType;
use fulgurite::{Error, Tensor};
use smallvec::SmallVec;

/// A tensor of another library: dense, row-major, in host memory.
#[derive(Clone, Debug)]
pub struct Lent {
    /// The dtype of the tensor.
    pub dtype: DType,
    /// The sizes of the tensor.
    pub shape: SmallVec<[usize; 6]>,
    /// The elements of the tensor.
    pub data: *mut u8,
}

impl Lent {
    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.size()
    }

    /// The tensor without a copy, if its memory is aligned as ours is; otherwise a copy.
    ///
    /// # Errors
    /// E743 if there is no memory for a copy.
    ///
    /// # Safety
    /// `data` has the elements. They are neither freed nor written while the tensor, or one that shares its memory,
    /// exists.
    pub unsafe fn tensor(&self) -> Result<Tensor, Error> {
        let bytes = self.bytes();
        let made = if bytes == 0 {
            Buffer::zeros(self.dtype, &self.shape)
        } else if (self.data as usize).is_multiple_of(pool::ALIGN) {
            // SAFETY: the caller upholds the contract, and the memory is aligned.
            unsafe { Buffer::lent(self.dtype, &self.shape, self.data) }
        } else {
            // SAFETY: the caller upholds the contract.
            Buffer::from_bytes(self.dtype, &self.shape, unsafe { std::slice::from_raw_parts(self.data, bytes) })
        };
        made.map(Tensor::from_buffer).map_err(no_memory)
    }
}

/// The results of a call in memory that nothing else uses: an argument or a constant of the program that is a result, or a
/// value that is two results, is copied.
///
/// # Errors
/// The error that a result carries; E743 if there is no memory for a copy.
pub fn own(results: Vec<Tensor>) -> Result<Vec<Buffer>, Error> {
    let buffers = results.iter().map(Tensor::buffer).collect::<Result<Vec<_>, _>>()?;
    drop(results);
    let copied = |b: Buffer| match b.is_unique() {
        true => Ok(b),
        false => Buffer::from_bytes(b.dtype(), b.shape(), b.as_bytes()).map_err(no_memory),
    };
    buffers.into_iter().map(copied).collect()
}

fn no_memory(e: BufferError) -> Error {
    Error::new("E743", e.to_string())
}

/// The dtype of a number of PyTorch's `ScalarType` (c10/core/ScalarType.h).
///
/// # Errors
/// E702 for a dtype that rows do not have.
pub fn torch_dtype(code: i32) -> Result<DType, Error> {
    known(
        |(torch, ..)| *torch == code,
        || match COMPLEX.iter().find(|(torch, ..)| *torch == code) {
            Some((.., name)) => (*name).to_owned(),
            None => format!("number {code} of PyTorch's `ScalarType`"),
        },
    )
}

/// The dtype of a number of XLA's `PrimitiveType` (xla/xla_data.proto).
///
/// # Errors
/// E702 for a dtype that rows do not have.
pub fn xla_dtype(code: u32) -> Result<DType, Error> {
    known(
        |(_, xla, _)| *xla == code,
        || match COMPLEX.iter().find(|(_, xla, _)| *xla == code) {
            Some((.., name)) => (*name).to_owned(),
            None => format!("number {code} of XLA's `PrimitiveType`"),
        },
    )
}

/// PyTorch's number of a dtype.
pub fn torch_code(dtype: DType) -> Option<i32> {
    CODES.iter().find(|(.., of)| *of == dtype).map(|(torch, ..)| *torch)
}

fn known(is: impl Fn(&&(i32, u32, DType)) -> bool, name: impl Fn() -> String) -> Result<DType, Error> {
    CODES.iter().find(is).map(|(.., dtype)| *dtype).ok_or_else(|| {
        let (name, known) = (name(), CODES.map(|(.., dtype)| dtype.name()).join(", "));
        let parts =
            if name.starts_with("complex") { "; give the real and the imaginary part as two tensors" } else { "" };
        wrong(format!("rows do not take the dtype {name}")).help(format!("they take {known}{parts}"))
    })
}

/// The dtype of a name. The Python half sends the names of other dtypes as they are, so that they are refused here.
///
/// # Errors
/// E702 for a dtype that rows do not have.
pub fn named_dtype(name: &str) -> Result<DType, Error> {
    known(|(.., dtype)| dtype.name() == name, || name.to_owned())
}

/// The numbers of PyTorch and of XLA for dtypes that rows do not have and people meet, and their names in both.
const COMPLEX: [(i32, u32, &str); 2] = [(9, 15, "complex64"), (10, 18, "complex128")];

/// The numbers of PyTorch and of XLA for each dtype.
const CODES: [(i32, u32, DType); 18] = [
    (0, 6, DType::U8),
    (1, 2, DType::I8),
    (2, 3, DType::I16),
    (3, 4, DType::I32),
    (4, 5, DType::I64),
    (5, 10, DType::F16),
    (6, 11, DType::F32),
    (7, 12, DType::F64),
    (11, 1, DType::Bool),
    (15, 16, DType::BF16),
    (23, 19, DType::F8E5M2),
    (24, 20, DType::F8E4M3FN),
    (25, 24, DType::F8E5M2FNUZ),
    (26, 25, DType::F8E4M3FNUZ),
    (27, 7, DType::U16),
    (28, 8, DType::U32),
    (29, 9, DType::U64),
    (44, 33, DType::F8E8M0FNU),
];
