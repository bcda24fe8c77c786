//! Random keys, the only source of random numbers; they are passed like any other value.

use super::{CellKind, Tensor, View};
use crate::buffer::Buffer;
use crate::error::Error;
use crate::trace::ProxyTy;

/// A random key; operators that draw numbers take one.
///
/// The numbers that an operator draws depend on its key, its shape and its options alone: equal keys give equal
/// numbers, at once and compiled, on every executor and with any number of threads. [`Key::split`] and [`Key::next`]
/// make keys for other numbers.
#[derive(Clone)]
pub struct Key(Tensor);

impl Key {
    /// The key for a seed.
    pub fn new(seed: u64) -> Key {
        Key::from_parts(seed as i64, 0)
    }

    fn from_parts(seed: i64, stream: i64) -> Key {
        Key(match Buffer::key(seed, stream) {
            Ok(buffer) => Tensor::from_kind(CellKind::Key, buffer),
            Err(e) => Tensor::poisoned(Error::new("E743", e.to_string())),
        })
    }

    /// The key of two numbers: an i64\[2\], such as an operator or another library returned.
    pub fn of_data(data: &Tensor) -> Key {
        Key(match data.view() {
            View::Cell(cell) => Tensor::from_kind(CellKind::Key, cell.buffer()),
            View::Traced(traced) => Tensor::traced(traced.shared_token(), traced.proxy(), ProxyTy::Key),
            _ => data.clone(),
        })
    }

    /// The pair (seed, stream), unless the key is traced or poisoned.
    pub fn parts(&self) -> Option<(i64, i64)> {
        let View::Cell(cell) = self.0.view() else { return None };
        match cell.buffer().as_slice::<i64>() {
            Some(&[seed, stream]) => Some((seed, stream)),
            _ => None,
        }
    }

    /// The handle, which operators take.
    pub fn handle(&self) -> &Tensor {
        &self.0
    }
    pub(crate) fn handle_mut(&mut self) -> &mut Tensor {
        &mut self.0
    }
    /// A key from the handle of a key.
    pub(crate) fn from_handle(handle: Tensor) -> Key {
        Key(handle)
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.parts(), self.0.error()) {
            (Some((seed, stream)), _) => write!(f, "Key({:#x}, {stream})", seed as u64),
            (None, Some(error)) => write!(f, "Key({error})"),
            (None, None) => f.write_str("Key(traced)"),
        }
    }
}
