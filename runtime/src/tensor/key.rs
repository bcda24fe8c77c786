//! Random keys: the only source of random numbers, passed like any other value.

use super::{Kind, Tensor, View};
use crate::buffer::Buffer;
use crate::error::Error;
use fulgurite_core::philox::philox4x32;

/// A random key: operators that draw numbers take one, and the same key gives the same numbers, on every executor and
/// with any number of threads.
///
/// [`Key::next`] gives a key for one purpose and moves on. While a function is traced a key stands for whatever key the
/// function will be called with, and `next` gives the same one: there each operator that draws has its own stream.
#[derive(Clone)]
pub struct Key(Tensor);

impl Key {
    /// The key that this seed gives.
    pub fn new(seed: u64) -> Key {
        Key::from_parts(seed as i64, 0)
    }

    fn from_parts(seed: i64, stream: i64) -> Key {
        Key(match Buffer::key(seed, stream) {
            Ok(buffer) => Tensor::from_kind(Kind::Key, buffer),
            Err(e) => Tensor::poisoned(Error::new("E743", e.to_string())),
        })
    }

    /// A key of its own, and this one moves on: the next call gives another.
    #[allow(clippy::should_implement_trait)] // an endless iterator of keys would invite `for`
    pub fn next(&mut self) -> Key {
        let Some((seed, stream)) = self.parts() else { return self.clone() };
        *self = Key::from_parts(seed, stream.wrapping_add(1));
        Key::from_parts(split(seed, stream), 0)
    }

    /// Its (seed, stream), unless it is traced or poisoned.
    pub fn parts(&self) -> Option<(i64, i64)> {
        let View::Cell(cell) = self.0.view() else { return None };
        match cell.buffer().as_slice::<i64>() {
            Some(&[seed, stream]) => Some((seed, stream)),
            _ => None,
        }
    }

    /// The handle, as operators take it.
    pub fn handle(&self) -> &Tensor {
        &self.0
    }
    pub(crate) fn handle_mut(&mut self) -> &mut Tensor {
        &mut self.0
    }
    /// A key from a handle of the same kind.
    pub(crate) fn from_handle(handle: Tensor) -> Key {
        Key(handle)
    }
}

/// The seed of child number `stream`: two words of a Philox block. The last counter word keeps these blocks apart from
/// all that operators draw, whose counters end in a site's upper half (and the reversed number of the draw).
fn split(seed: i64, stream: i64) -> i64 {
    const CHILDREN: u32 = 0x6b65_7973;
    let words =
        philox4x32([stream as u32, (stream >> 32) as u32, CHILDREN, !CHILDREN], [seed as u32, (seed >> 32) as u32]);
    words[0] as i64 | (words[1] as i64) << 32
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
