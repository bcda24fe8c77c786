//! Executable memory.

use memmap2::{Mmap, MmapOptions};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A function in memory of its own, which is executable and never written again. Other processors have no such function.
pub struct Executable(Mmap);

/// The arguments are those of [`super::ChainCode::run`].
#[cfg(target_arch = "x86_64")]
type Function = unsafe extern "sysv64" fn(usize, *const *const u8, *const *mut u8);
#[cfg(not(target_arch = "x86_64"))]
type Function = unsafe extern "C" fn(usize, *const *const u8, *const *mut u8);

impl Executable {
    /// The start of the function.
    #[cfg(test)]
    pub(super) fn start(&self) -> *const u8 {
        self.0.as_ptr()
    }

    /// Calls the function.
    ///
    /// # Safety
    /// The contract of [`super::ChainCode::run`] holds.
    pub(super) unsafe fn call(&self, n: usize, ins: *const *const u8, outs: *const *mut u8) {
        // SAFETY: [`executable`] got a function of this type, and its memory lives as long as `self`.
        unsafe {
            let function: Function = std::mem::transmute(self.0.as_ptr());
            function(n, ins, outs)
        }
    }
}

/// A function of these bytes, which are those of [`super::lower::bytes`]. Equal functions share their memory, so that a
/// model with a hundred equal layers needs that of one. `None` if the system refuses, and in an interpreter of Rust.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(super) fn executable(bytes: Vec<u8>) -> Option<Arc<Executable>> {
    if cfg!(miri) {
        return None;
    }
    static KNOWN: Mutex<Option<HashMap<Vec<u8>, Weak<Executable>>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(function) = known.get(&bytes).and_then(Weak::upgrade) {
        return Some(function);
    }
    let mut map = MmapOptions::new().len(bytes.len()).map_anon().ok()?;
    map.copy_from_slice(&bytes);
    let function = Arc::new(Executable(map.make_exec().ok()?));
    known.retain(|_, function| function.strong_count() > 0);
    known.insert(bytes, Arc::downgrade(&function));
    Some(function)
}
