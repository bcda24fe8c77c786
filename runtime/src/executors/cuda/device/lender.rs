//! Another library of this process that has the device, such as PyTorch: programs run on its stream, in its memory.

use super::Address;
use crate::executors::ExecError;

/// The stream and the memory of another library.
pub trait Lender: Send + Sync {
    /// The stream on which this thread enqueues work now, as the driver's handle; 0 is the default stream.
    ///
    /// # Errors
    /// E807 if the library has none.
    fn stream(&self) -> Result<u64, ExecError>;

    /// Allocates at least one byte, aligned to 256 bytes, for work on that stream.
    ///
    /// # Errors
    /// E806 if there is not enough memory.
    fn alloc(&self, bytes: usize) -> Result<Address, ExecError>;

    /// Frees a block. Its bytes may be given out again at once, for work on the stream of its allocation.
    ///
    /// # Safety
    /// The block comes from [`Lender::alloc`] and is not used by work that is enqueued later.
    unsafe fn free(&self, block: Address);
}
