//! Dense tensors in memory.
//!
//! A [`Buffer`] is a dtype, a shape and a share of a block of row-major data. A buffer is immutable unless it is
//! unique; executors write into blocks that they do not share. Data may be in a device's memory: reading it on the host
//! fetches a copy, once.

mod away;
mod mapped;
pub mod pool;
mod slab;

pub use away::Resident;
pub use mapped::MappedFile;

use away::Away;
use fulgurite_core::builtins::cast_scalar;
pub use fulgurite_core::storage::{F8E4M3, F8E5M2, U4x2};
use fulgurite_core::{DType, Scalar, counted, storage};
use half::{bf16, f16};
use pool::{Block, OutOfMemory};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// The sizes of a buffer, slowest axis first.
pub type Sizes = SmallVec<[usize; 6]>;

/// A Rust type that is an element type of buffers.
///
/// # Safety
/// `DTYPE` has the size and representation of the type, and any bits are a value (except for bool, whose bytes are 0 or
/// 1).
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// The dtype of the type.
    const DTYPE: DType;
}

macro_rules! element {
    ($($t:ty: $dtype:ident;)*) => {$(
        // SAFETY: the type is a primitive (or transparent over one) of this size; `elements_have_their_size` checks the
        // pairs.
        unsafe impl Element for $t {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}
element! {
    bool: Bool;
    u8: U8;
    i8: I8;
    i16: I16;
    i32: I32;
    i64: I64;
    f16: F16;
    bf16: BF16;
    f32: F32;
    f64: F64;
    F8E4M3: F8E4M3FN;
    F8E5M2: F8E5M2;
    U4x2: U4X2;
    u16: U16;
    u32: U32;
    u64: U64;
}

/// Why a buffer could not be made or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BufferError {
    /// The length of the data does not fit the shape.
    Length {
        /// The number of elements of the shape.
        expected: usize,
        /// The number of elements that were given.
        found: usize,
    },
    /// The dtype is not the requested one.
    DType {
        /// The requested dtype.
        expected: DType,
        /// The dtype of the buffer.
        found: DType,
    },
    /// The size is too large to allocate.
    OutOfMemory(OutOfMemory),
    /// The data are in the memory of a device, which can't return them.
    Device(String),
}

impl fmt::Display for BufferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BufferError::Length { expected, found } => {
                let (has, given) = (counted(expected, "element", "elements"), counted(found, "was", "were"));
                write!(f, "the shape has {has}, but {given} given")
            }
            BufferError::DType { expected, found } => write!(f, "the elements are {found}, not {expected}"),
            BufferError::OutOfMemory(e) => e.fmt(f),
            BufferError::Device(said) => f.write_str(said),
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
    store: Store,
    dtype: DType,
    len: usize,
    shape: Sizes,
}

#[derive(Clone)]
enum Store {
    Here(Block),
    Away(Arc<Away>),
}

/// The number of elements, if the number of bytes does not overflow.
fn checked_len(dtype: DType, shape: &[usize]) -> Result<usize, OutOfMemory> {
    let len = shape.iter().try_fold(1usize, |n, &s| n.checked_mul(s));
    match len.and_then(|n| n.checked_mul(dtype.size())) {
        Some(bytes) if bytes <= isize::MAX as usize => Ok(len.unwrap_or(0)),
        _ => Err(OutOfMemory { bytes: usize::MAX }),
    }
}

impl Buffer {
    /// A buffer with stale data, which must be written before it is shared.
    pub(crate) fn stale(dtype: DType, shape: &[usize]) -> Result<Buffer, OutOfMemory> {
        let len = checked_len(dtype, shape)?;
        let store = Store::Here(Block::new(len * dtype.size())?);
        Ok(Buffer { store, dtype, len, shape: Sizes::from_slice(shape) })
    }

    /// A buffer over a block whose data the caller has written: `shape` elements of `dtype`.
    pub(crate) fn from_block(block: Block, dtype: DType, shape: &[usize]) -> Buffer {
        let len = shape.iter().product();
        Buffer { store: Store::Here(block), dtype, len, shape: Sizes::from_slice(shape) }
    }

    /// A buffer over memory that another library lends for reading: `shape` elements of `dtype` in row-major order.
    /// Results of programs may share it, see [`Buffer::shares_data`].
    ///
    /// # Errors
    /// The size overflows.
    ///
    /// # Safety
    /// `data` is aligned to [`pool::ALIGN`] bytes and has the elements (bools are 0 or 1). It is neither freed nor written
    /// while the buffer, or one that shares its data, exists.
    pub unsafe fn lent(dtype: DType, shape: &[usize], data: *mut u8) -> Result<Buffer, BufferError> {
        checked_len(dtype, shape)?;
        // SAFETY: the caller upholds the contract.
        let block = unsafe { Block::lent(data) }?;
        Ok(Buffer::from_block(block, dtype, shape))
    }

    /// A buffer over a device's memory, to which enqueued work writes `shape` elements of `dtype`.
    pub(crate) fn from_device(there: Box<dyn Resident>, dtype: DType, shape: &[usize]) -> Buffer {
        let len = shape.iter().product();
        Buffer { store: Store::Away(Away::new(there)), dtype, len, shape: Sizes::from_slice(shape) }
    }

    /// The device's memory, if the data are not in the host's.
    pub(crate) fn resident(&self) -> Option<&dyn Resident> {
        match &self.store {
            Store::Here(_) => None,
            Store::Away(away) => Some(&*away.there),
        }
    }

    /// The device that has the data; `None` for the host.
    pub fn device(&self) -> Option<String> {
        self.resident().map(Resident::device)
    }

    /// The block in host memory; data on a device are fetched, once.
    ///
    /// # Errors
    /// The device can't return the data, or there is no memory for them.
    pub(crate) fn block(&self) -> Result<&Block, BufferError> {
        match &self.store {
            Store::Here(block) => Ok(block),
            Store::Away(away) => away.here(self.dtype, &self.shape),
        }
    }

    /// The block of data that are in host memory already.
    pub(crate) fn held_here(&self) -> Option<&Block> {
        match &self.store {
            Store::Here(block) => Some(block),
            Store::Away(_) => None,
        }
    }

    /// A buffer with these data in host memory.
    ///
    /// # Errors
    /// The device can't return the data, or there is no memory for them.
    pub fn here(&self) -> Result<Buffer, BufferError> {
        Ok(Buffer { store: Store::Here(self.block()?.clone()), ..self.clone() })
    }

    /// The data as elements of another type, with an equal number of bytes.
    pub(crate) fn retyped(&self, dtype: DType, shape: &[usize]) -> Buffer {
        let len: usize = shape.iter().product();
        debug_assert_eq!(len * dtype.size(), self.byte_len());
        Buffer { store: self.store.clone(), dtype, len, shape: Sizes::from_slice(shape) }
    }

    /// A buffer of no elements in this buffer's memory, which is not requested anew.
    pub(crate) fn emptied(&self) -> Buffer {
        Buffer { len: 0, shape: Sizes::from_slice(&[0]), ..self.clone() }
    }

    /// A buffer of zeros (false for bool).
    ///
    /// # Errors
    /// The size can't be allocated.
    pub fn zeros(dtype: DType, shape: &[usize]) -> Result<Buffer, BufferError> {
        let bytes = checked_len(dtype, shape)? * dtype.size();
        let block = Block::new(bytes)?;
        // SAFETY: the block is fresh, hence unshared, and has that many bytes.
        unsafe { std::ptr::write_bytes(block.data(), 0, bytes) };
        Ok(Buffer::from_block(block, dtype, shape))
    }

    /// A buffer of `data` in row-major order.
    ///
    /// # Errors
    /// The shape has another number of elements.
    pub fn from_slice<T: Element>(data: &[T], shape: &[usize]) -> Result<Buffer, BufferError> {
        let expected = checked_len(T::DTYPE, shape)?;
        if expected != data.len() {
            return Err(BufferError::Length { expected, found: data.len() });
        }
        let block = Block::new(size_of_val(data))?;
        // SAFETY: the block is fresh and has room for the elements; `T` has the dtype's representation.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), block.data() as *mut T, data.len()) };
        Ok(Buffer::from_block(block, T::DTYPE, shape))
    }

    /// A buffer of raw little-endian data in row-major order, as files have it.
    ///
    /// # Errors
    /// The number of bytes does not fit the shape.
    pub fn from_bytes(dtype: DType, shape: &[usize], bytes: &[u8]) -> Result<Buffer, BufferError> {
        let expected = checked_len(dtype, shape)?;
        if expected * dtype.size() != bytes.len() {
            return Err(BufferError::Length { expected, found: bytes.len() / dtype.size() });
        }
        Buffer::filled(dtype, shape, |to| {
            to.copy_from_slice(bytes);
            Ok::<_, BufferError>(())
        })
    }

    /// Like [`Buffer::from_bytes`], with bytes that `fill` writes to the memory of the buffer: there is no copy.
    ///
    /// # Errors
    /// The size can't be allocated. The errors of `fill`.
    pub(crate) fn filled<E: From<BufferError>>(
        dtype: DType,
        shape: &[usize],
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Buffer, E> {
        let out_of_memory = |e: OutOfMemory| E::from(BufferError::OutOfMemory(e));
        let bytes = checked_len(dtype, shape).map_err(out_of_memory)? * dtype.size();
        let block = Block::new(bytes).map_err(out_of_memory)?;
        // SAFETY: the block is fresh, hence unshared, and has that many bytes.
        let to = unsafe { std::slice::from_raw_parts_mut(block.data(), bytes) };
        fill(to)?;
        match dtype {
            // A bool must be 0 or 1, whatever the file says.
            DType::Bool => to.iter_mut().for_each(|b| *b = (*b != 0) as u8),
            // The bits above those of a narrower number are its sign, or zero.
            DType::I2 | DType::U2 | DType::I4 | DType::U4 => {
                to.iter_mut().for_each(|b| *b = dtype.wrapped(i64::from(*b)) as u8);
            }
            DType::F4E2M1FN => to.iter_mut().for_each(|b| *b &= 0xf),
            _ => {}
        }
        Ok(Buffer::from_block(block, dtype, shape))
    }

    /// A tensor of rank 0.
    pub fn scalar<T: Element>(x: T) -> Result<Buffer, BufferError> {
        Buffer::from_slice(&[x], &[])
    }

    /// A number as a tensor of rank 0 (a run-time number), cast to `dtype`.
    ///
    /// # Errors
    /// The dtype is one that tensors can't have.
    pub fn number(x: Scalar, dtype: DType) -> Result<Buffer, BufferError> {
        match dtype {
            DType::C64 | DType::C128 => Err(BufferError::DType { expected: DType::F64, found: dtype }),
            _ => Buffer::from_numbers(dtype, &[], std::iter::once(cast_scalar(x, dtype))),
        }
    }

    /// A buffer of numbers that are elements of `dtype` already, in row-major order.
    ///
    /// # Errors
    /// The shape has another number of elements.
    pub fn from_numbers(
        dtype: DType,
        shape: &[usize],
        numbers: impl Iterator<Item = Scalar>,
    ) -> Result<Buffer, BufferError> {
        let bits = numbers.map(|x| storage::encode(x, dtype));
        match dtype.size() {
            1 => Ok(Buffer::from_slice(&bits.map(|b| b as u8).collect::<Vec<_>>(), shape)?.retyped(dtype, shape)),
            2 => Ok(Buffer::from_slice(&bits.map(|b| b as u16).collect::<Vec<_>>(), shape)?.retyped(dtype, shape)),
            4 => Ok(Buffer::from_slice(&bits.map(|b| b as u32).collect::<Vec<_>>(), shape)?.retyped(dtype, shape)),
            _ => Ok(Buffer::from_slice(&bits.collect::<Vec<u64>>(), shape)?.retyped(dtype, shape)),
        }
    }

    /// A random key as a buffer of (seed, stream).
    pub fn key(seed: i64, stream: i64) -> Result<Buffer, BufferError> {
        Buffer::from_slice(&[seed, stream], &[2])
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The sizes, slowest axis first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the buffer has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of bytes of the elements.
    pub fn byte_len(&self) -> usize {
        self.len * self.dtype.size()
    }

    /// Whether the data are not shared, so that they may be written here.
    pub fn is_unique(&self) -> bool {
        matches!(&self.store, Store::Here(block) if block.is_unique())
    }

    /// Whether no other buffer shares the data, wherever they are.
    pub(crate) fn is_only_share(&self) -> bool {
        match &self.store {
            Store::Here(block) => block.is_unique(),
            Store::Away(away) => Arc::strong_count(away) == 1,
        }
    }

    /// Whether both share one block of data.
    pub fn shares_data(&self, other: &Buffer) -> bool {
        match (&self.store, &other.store) {
            (Store::Here(a), Store::Here(b)) => a.same(b),
            (Store::Away(a), Store::Away(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// The data in another shape with an equal number of elements.
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

    /// The elements, if they are `T`; data on a device are fetched, and `None` is returned if that fails.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        if T::DTYPE != self.dtype {
            return None;
        }
        let data = self.block().ok()?.data();
        // SAFETY: the block holds `len` elements of this dtype, aligned to 64 bytes; only unique owners write.
        Some(unsafe { std::slice::from_raw_parts(data as *const T, self.len) })
    }

    /// The elements to write, if they are `T`, in host memory, and not shared.
    pub fn as_slice_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        match &self.store {
            // SAFETY: see `as_slice`; the only share is borrowed mutably.
            Store::Here(block) if T::DTYPE == self.dtype && block.is_unique() => unsafe {
                Some(std::slice::from_raw_parts_mut(block.data() as *mut T, self.len))
            },
            _ => None,
        }
    }

    /// The bytes of the elements; none if they can't be fetched from a device ([`Buffer::here`] reports why).
    pub fn as_bytes(&self) -> &[u8] {
        match self.block() {
            // SAFETY: the bytes of a block are initialised.
            Ok(block) => unsafe { std::slice::from_raw_parts(block.data(), self.byte_len()) },
            Err(_) => &[],
        }
    }

    /// The elements, copied.
    ///
    /// # Errors
    /// The elements have another dtype, or can't be fetched.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, BufferError> {
        self.block()?;
        let wrong = BufferError::DType { expected: T::DTYPE, found: self.dtype };
        self.as_slice().map(<[T]>::to_vec).ok_or(wrong)
    }

    /// The elements as numbers, whatever their dtype (a u64 from 2^63 on as the i64 of its bits).
    pub fn scalars(&self) -> Vec<Scalar> {
        let (dtype, bytes) = (self.dtype, self.as_bytes());
        match dtype {
            DType::C64 | DType::C128 => Vec::new(),
            DType::F64 => numbers::<8>(bytes).map(|b| Scalar::Float(f64::from_ne_bytes(b))).collect(),
            DType::F32 => numbers::<4>(bytes).map(|b| Scalar::Float(f64::from(f32::from_ne_bytes(b)))).collect(),
            _ => (0..self.len).map(|i| self.number_at(i)).collect(),
        }
    }

    /// The element at a place in row-major order; NaN if it can't be fetched.
    pub(crate) fn number_at(&self, i: usize) -> Scalar {
        let size = self.dtype.size().min(8);
        match self.as_bytes().get(i * size..(i + 1) * size) {
            Some(bytes) => {
                let mut word = [0u8; 8];
                word[..size].copy_from_slice(bytes);
                storage::decode(u64::from_ne_bytes(word), self.dtype)
            }
            None => Scalar::Float(f64::NAN),
        }
    }

    /// The elements as f64, whatever their dtype (integers beyond 2^53 round).
    pub fn to_f64(&self) -> Vec<f64> {
        self.scalars().into_iter().map(|x| storage::as_f64(x, self.dtype)).collect()
    }

    /// The only element, if there is one.
    pub fn item(&self) -> Option<Scalar> {
        if self.len == 1 { self.scalars().pop() } else { None }
    }
}

/// The elements of `N` bytes each.
fn numbers<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks::<N>().0.iter().copied()
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape)?;
        let shown: Vec<_> = (0..self.len.min(8)).map(|i| storage::text(self.number_at(i), self.dtype)).collect();
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
    fn a_device_is_asked_once() {
        struct There(std::sync::atomic::AtomicUsize);
        impl Resident for There {
            fn device(&self) -> String {
                "there".to_owned()
            }
            fn fetch(&self, to: &mut [u8]) -> Result<(), String> {
                if self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 0 {
                    return Err("asked again".to_owned());
                }
                to.copy_from_slice(&[7, 0, 0, 0, 9, 0, 0, 0]);
                Ok(())
            }
            fn as_any(&self) -> &dyn std::any::Any {
                self
            }
        }
        let b = Buffer::from_device(Box::new(There(Default::default())), DType::I32, &[2]);
        let c = b.reshaped(&[2, 1]).unwrap();
        assert_eq!(b.device().as_deref(), Some("there"));
        assert_eq!(c.to_vec::<i32>().unwrap(), [7, 9]);
        assert_eq!(b.to_vec::<i32>().unwrap(), [7, 9]);
        assert!(b.here().unwrap().device().is_none() && b.shares_data(&c) && !b.is_unique());
        let lost = Buffer::from_device(Box::new(There(1.into())), DType::I32, &[2]);
        assert_eq!(lost.here().unwrap_err(), BufferError::Device("asked again".to_owned()));
        assert_eq!((lost.as_slice::<i32>(), lost.as_bytes()), (None, &[][..]));
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
