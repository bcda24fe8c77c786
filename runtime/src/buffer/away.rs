//! Elements that lie in a device's memory, and come to the host's when somebody reads them there.

use super::pool::Block;
use super::{BufferError, checked_len};
use fulgurite_core::DType;
use std::any::Any;
use std::sync::{Arc, OnceLock};

/// Memory of a device.
pub trait Resident: Send + Sync + Any {
    /// Which device, for people.
    fn device(&self) -> String;

    /// Copies all of its bytes, after the work that writes them.
    ///
    /// # Errors
    /// What the device says.
    fn fetch(&self, to: &mut [u8]) -> Result<(), String>;

    /// For the device, which knows what it holds.
    fn as_any(&self) -> &dyn Any;
}

/// A device's memory, and the copy of it in the host's once that was asked for. Neither is written any more.
pub(super) struct Away {
    pub there: Box<dyn Resident>,
    here: OnceLock<Block>,
}

impl Away {
    pub fn new(there: Box<dyn Resident>) -> Arc<Away> {
        Arc::new(Away { there, here: OnceLock::new() })
    }

    /// The copy in host memory, of so many elements.
    pub fn here(&self, dtype: DType, shape: &[usize]) -> Result<&Block, BufferError> {
        if let Some(block) = self.here.get() {
            return Ok(block);
        }
        let bytes = checked_len(dtype, shape)? * dtype.size();
        let block = Block::new(bytes)?;
        // SAFETY: the block is fresh, hence unshared, and has that many bytes.
        let to = unsafe { std::slice::from_raw_parts_mut(block.data(), bytes) };
        self.there.fetch(to).map_err(BufferError::Device)?;
        Ok(self.here.get_or_init(|| block))
    }
}
