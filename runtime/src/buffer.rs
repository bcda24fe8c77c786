//! Dense tensors in host memory.
//!
//! A [`Buffer`] is a dtype, a shape and a share of a block of row-major data. Buffers are immutable to everybody but
//! their only owner; the executors write into blocks that they alone hold.

pub mod pool;

use fulgurite_core::builtins::cast_scalar;
use fulgurite_core::{DType, Scalar, f8};
use half::{bf16, f16};
use pool::{Block, OutOfMemory};
use smallvec::SmallVec;
use std::fmt;

/// Sizes of a buffer, slowest axis first.
pub type Sizes = SmallVec<[usize; 6]>;

/// A Rust type that is an element type.
///
/// # Safety
/// `DTYPE` has the size and representation of the type, and (but for bool, whose bytes are 0 or 1) any bits are a value.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// The dtype that it is.
    const DTYPE: DType;
    /// It as a number.
    fn scalar(self) -> Scalar;
}

macro_rules! element {
    ($($t:ty: $dtype:ident, $x:ident => $scalar:expr;)*) => {$(
        // SAFETY: a primitive (or transparent over one) of this size; the pairs are checked by `elements_have_their_size`.
        unsafe impl Element for $t {
            const DTYPE: DType = DType::$dtype;
            fn scalar(self) -> Scalar {
                let $x = self;
                $scalar
            }
        }
    )*};
}
element! {
    bool: Bool, x => Scalar::Bool(x);
    u8: U8, x => Scalar::Int(x as i64);
    i8: I8, x => Scalar::Int(x as i64);
    i16: I16, x => Scalar::Int(x as i64);
    i32: I32, x => Scalar::Int(x as i64);
    i64: I64, x => Scalar::Int(x);
    f16: F16, x => Scalar::Float(x.to_f64());
    bf16: BF16, x => Scalar::Float(x.to_f64());
    f32: F32, x => Scalar::Float(x as f64);
    f64: F64, x => Scalar::Float(x);
    F8E4M3: F8E4M3FN, x => Scalar::Float(f64::from(f8::decode(x.0, DType::F8E4M3FN)));
    F8E5M2: F8E5M2, x => Scalar::Float(f64::from(f8::decode(x.0, DType::F8E5M2)));
    U4x2: U4X2, x => Scalar::Int(i64::from(x.0));
}

/// A float of eight bits, e4m3fn, as its code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct F8E4M3(pub u8);

/// A float of eight bits, e5m2, as its code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct F8E5M2(pub u8);

/// Two integers of four bits; the first of them in the low half.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct U4x2(pub u8);

/// Why a buffer could not be made or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BufferError {
    /// The data is not as long as the shape says.
    Length {
        /// Elements that the shape has.
        expected: usize,
        /// Elements given.
        found: usize,
    },
    /// The dtype is not the one asked for.
    DType {
        /// What was asked for.
        expected: DType,
        /// What it is.
        found: DType,
    },
    /// Too large.
    OutOfMemory(OutOfMemory),
}

impl fmt::Display for BufferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BufferError::Length { expected, found } => {
                write!(f, "the shape has {expected} elements, but {found} were given")
            }
            BufferError::DType { expected, found } => write!(f, "the elements are {found}, not {expected}"),
            BufferError::OutOfMemory(e) => e.fmt(f),
        }
    }
}
impl std::error::Error for BufferError {}

impl From<OutOfMemory> for BufferError {
    fn from(e: OutOfMemory) -> BufferError {
        BufferError::OutOfMemory(e)
    }
}

/// A dense row-major tensor; clones share the data.
#[derive(Clone)]
pub struct Buffer {
    block: Block,
    dtype: DType,
    len: usize,
    shape: Sizes,
}

/// The number of elements, if the bytes can be counted.
fn checked_len(dtype: DType, shape: &[usize]) -> Result<usize, OutOfMemory> {
    let len = shape.iter().try_fold(1usize, |n, &s| n.checked_mul(s));
    match len.and_then(|n| n.checked_mul(dtype.size())) {
        Some(bytes) if bytes <= isize::MAX as usize => Ok(len.unwrap_or(0)),
        _ => Err(OutOfMemory { bytes: usize::MAX }),
    }
}

impl Buffer {
    /// A buffer with whatever data its memory last had, to be written before anybody else sees it.
    pub(crate) fn stale(dtype: DType, shape: &[usize]) -> Result<Buffer, OutOfMemory> {
        let len = checked_len(dtype, shape)?;
        Ok(Buffer { block: Block::new(len * dtype.size())?, dtype, len, shape: Sizes::from_slice(shape) })
    }

    /// A buffer over a block whose data the caller has written: `shape` elements of `dtype`.
    pub(crate) fn from_block(block: Block, dtype: DType, shape: &[usize]) -> Buffer {
        let len = shape.iter().product();
        Buffer { block, dtype, len, shape: Sizes::from_slice(shape) }
    }

    /// The block.
    pub(crate) fn block(&self) -> &Block {
        &self.block
    }

    /// Zeros (false for bool).
    ///
    /// # Errors
    /// The size can't be allocated.
    pub fn zeros(dtype: DType, shape: &[usize]) -> Result<Buffer, BufferError> {
        let buffer = Buffer::stale(dtype, shape)?;
        // SAFETY: the block is fresh, hence unshared, and has that many bytes.
        unsafe { std::ptr::write_bytes(buffer.block.data(), 0, buffer.byte_len()) };
        Ok(buffer)
    }

    /// `data` in row-major order.
    ///
    /// # Errors
    /// The shape has another number of elements.
    pub fn from_slice<T: Element>(data: &[T], shape: &[usize]) -> Result<Buffer, BufferError> {
        let expected = checked_len(T::DTYPE, shape)?;
        if expected != data.len() {
            return Err(BufferError::Length { expected, found: data.len() });
        }
        let buffer = Buffer::stale(T::DTYPE, shape)?;
        // SAFETY: the block is fresh and has room for as many elements; `T` has the dtype's representation.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), buffer.block.data() as *mut T, data.len()) };
        Ok(buffer)
    }

    /// Raw little-endian data in row-major order, as files have it.
    ///
    /// # Errors
    /// The number of bytes is not that of the shape.
    pub fn from_bytes(dtype: DType, shape: &[usize], bytes: &[u8]) -> Result<Buffer, BufferError> {
        let expected = checked_len(dtype, shape)?;
        if expected * dtype.size() != bytes.len() {
            return Err(BufferError::Length { expected, found: bytes.len() / dtype.size() });
        }
        let buffer = Buffer::stale(dtype, shape)?;
        // SAFETY: the block is fresh, hence unshared, and has that many bytes.
        let to = unsafe { std::slice::from_raw_parts_mut(buffer.block.data(), bytes.len()) };
        to.copy_from_slice(bytes);
        if dtype == DType::Bool {
            // A bool must be 0 or 1, whatever the file says.
            to.iter_mut().for_each(|b| *b = (*b != 0) as u8);
        }
        Ok(buffer)
    }

    /// A tensor of rank 0.
    pub fn scalar<T: Element>(x: T) -> Result<Buffer, BufferError> {
        Buffer::from_slice(&[x], &[])
    }

    /// A number as a tensor of rank 0 (a run-time number), cast to `dtype`.
    ///
    /// # Errors
    /// dtypes that tensors can't have.
    pub fn number(x: Scalar, dtype: DType) -> Result<Buffer, BufferError> {
        let x = cast_scalar(x, dtype);
        match dtype {
            DType::Bool => Buffer::scalar(x.as_bool()),
            DType::U8 => Buffer::scalar(x.as_i64() as u8),
            DType::I8 => Buffer::scalar(x.as_i64() as i8),
            DType::I16 => Buffer::scalar(x.as_i64() as i16),
            DType::I32 => Buffer::scalar(x.as_i64() as i32),
            DType::I64 => Buffer::scalar(x.as_i64()),
            DType::F16 => Buffer::scalar(f16::from_f64(x.as_f64())),
            DType::BF16 => Buffer::scalar(bf16::from_f64(x.as_f64())),
            DType::F32 => Buffer::scalar(x.as_f64() as f32),
            DType::F64 => Buffer::scalar(x.as_f64()),
            DType::F8E4M3FN => Buffer::scalar(F8E4M3(f8::encode(x.as_f64() as f32, dtype))),
            DType::F8E5M2 => Buffer::scalar(F8E5M2(f8::encode(x.as_f64() as f32, dtype))),
            DType::U4X2 => Buffer::scalar(U4x2(x.as_i64() as u8)),
            DType::C64 | DType::C128 => Err(BufferError::DType { expected: DType::F64, found: dtype }),
        }
    }

    /// A random key: (seed, stream).
    pub fn key(seed: i64, stream: i64) -> Result<Buffer, BufferError> {
        Buffer::from_slice(&[seed, stream], &[2])
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Sizes, slowest axis first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of its elements.
    pub fn byte_len(&self) -> usize {
        self.len * self.dtype.size()
    }

    /// Whether nobody else shares the data, so that it may be written.
    pub fn is_unique(&self) -> bool {
        self.block.is_unique()
    }

    /// Whether both share one block of data.
    pub fn shares_data(&self, other: &Buffer) -> bool {
        self.block.same(&other.block)
    }

    /// The same data in another shape of as many elements.
    ///
    /// # Errors
    /// The shape has another number of elements.
    pub fn reshaped(&self, shape: &[usize]) -> Result<Buffer, BufferError> {
        let expected = checked_len(self.dtype, shape)?;
        if expected != self.len {
            return Err(BufferError::Length { expected, found: self.len });
        }
        Ok(Buffer { shape: Sizes::from_slice(shape), ..self.clone() })
    }

    /// The elements, if they are `T`.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        // SAFETY: the block holds `len` elements of this dtype, aligned to 64 bytes; only unique owners write.
        (T::DTYPE == self.dtype).then(|| unsafe { std::slice::from_raw_parts(self.block.data() as *const T, self.len) })
    }

    /// The elements to write, if they are `T` and nobody else shares them.
    pub fn as_slice_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        // SAFETY: as in `as_slice`; the only share is borrowed mutably.
        (T::DTYPE == self.dtype && self.is_unique())
            .then(|| unsafe { std::slice::from_raw_parts_mut(self.block.data() as *mut T, self.len) })
    }

    /// The bytes of the elements.
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: the bytes of a block are initialised.
        unsafe { std::slice::from_raw_parts(self.block.data(), self.byte_len()) }
    }

    /// The elements, copied.
    ///
    /// # Errors
    /// They are of another dtype.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, BufferError> {
        let wrong = BufferError::DType { expected: T::DTYPE, found: self.dtype };
        self.as_slice().map(<[T]>::to_vec).ok_or(wrong)
    }

    /// The elements as numbers, whatever their dtype.
    pub fn scalars(&self) -> Vec<Scalar> {
        fn all<T: Element>(b: &Buffer) -> Vec<Scalar> {
            b.as_slice::<T>().unwrap_or_default().iter().map(|x| x.scalar()).collect()
        }
        match self.dtype {
            DType::Bool => all::<bool>(self),
            DType::U8 => all::<u8>(self),
            DType::I8 => all::<i8>(self),
            DType::I16 => all::<i16>(self),
            DType::I32 => all::<i32>(self),
            DType::I64 => all::<i64>(self),
            DType::F16 => all::<f16>(self),
            DType::BF16 => all::<bf16>(self),
            DType::F32 => all::<f32>(self),
            DType::F64 => all::<f64>(self),
            DType::F8E4M3FN => all::<F8E4M3>(self),
            DType::F8E5M2 => all::<F8E5M2>(self),
            DType::U4X2 => all::<U4x2>(self),
            DType::C64 | DType::C128 => Vec::new(),
        }
    }

    /// The elements as f64, whatever their dtype (i64 beyond 2^53 rounds).
    pub fn to_f64(&self) -> Vec<f64> {
        self.scalars().into_iter().map(Scalar::as_f64).collect()
    }

    /// The only element, if there is one.
    pub fn item(&self) -> Option<Scalar> {
        if self.len == 1 { self.scalars().pop() } else { None }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape)?;
        let shown: Vec<_> = self.scalars().into_iter().take(8).map(|x| x.to_string()).collect();
        write!(f, " {{{}{}}}", shown.join(", "), if self.len > 8 { ", …" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_their_size() {
        fn check<T: Element>() {
            assert_eq!(size_of::<T>(), T::DTYPE.size());
        }
        check::<bool>();
        check::<u8>();
        check::<i8>();
        check::<i16>();
        check::<i32>();
        check::<i64>();
        check::<f16>();
        check::<bf16>();
        check::<f32>();
        check::<f64>();
    }

    #[test]
    fn made_and_read() {
        let b = Buffer::from_slice(&[1.0f32, 2.0, 3.0], &[3]).unwrap();
        assert_eq!(b.as_slice::<f32>(), Some(&[1.0, 2.0, 3.0][..]));
        assert_eq!(b.as_slice::<f64>(), None);
        assert_eq!(b.reshaped(&[1, 3]).unwrap().shape(), &[1, 3]);
        assert!(Buffer::from_slice(&[1u8], &[2]).is_err());
        assert!(Buffer::zeros(DType::F64, &[usize::MAX, 2]).is_err());
        assert_eq!(Buffer::number(Scalar::Float(2.7), DType::I32).unwrap().item(), Some(Scalar::Int(2)));
        assert_eq!(Buffer::zeros(DType::I64, &[0, 4]).unwrap().len(), 0);
    }

    #[test]
    fn only_the_owner_writes() {
        let mut b = Buffer::zeros(DType::I32, &[2]).unwrap();
        b.as_slice_mut::<i32>().unwrap()[1] = 5;
        let mut c = b.clone();
        assert!(c.as_slice_mut::<i32>().is_none() && !b.is_unique() && b.shares_data(&c));
        drop(c);
        assert_eq!(b.to_vec::<i32>().unwrap(), [0, 5]);
    }
}
