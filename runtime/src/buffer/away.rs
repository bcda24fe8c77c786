//! Data in a device's memory, which are copied to the host's when they are read there.

use super::pool::Block;
use super::{BufferError, checked_len};
use fulgurite_core::DType;
use std::any::Any;
use std::sync::{Arc, OnceLock};

/// Memory of a device.
pub trait Resident: Send + Sync + Any {
    /// The name of the device, for users.
    fn device(&self) -> String;

    /// Copies all bytes, after the work that writes them.
    ///
    /// # Errors
    /// Reports the message of the device.
    fn fetch(&self, to: &mut [u8]) -> Result<(), String>;

    /// The memory as `Any`, for the device, which knows its type.
    fn as_any(&self) -> &dyn Any;
}

/// A device's memory, and its copy in host memory once that was requested. Neither is written any more.
pub(super) struct Away {
    pub there: Box<dyn Resident>,
    here: OnceLock<Block>,
}

impl Away {
    pub fn new(there: Box<dyn Resident>) -> Arc<Away> {
        Arc::new(Away { there, here: OnceLock::new() })
    }

    /// The copy in host memory, with elements of this dtype and shape.
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
