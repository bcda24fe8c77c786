//! Devices that run kernels.

pub mod blaslt;
pub mod cache;
mod gemm;
pub mod host;
mod lender;
mod notes;
pub mod nvidia;
pub mod nvrtc;
mod staging;

pub(super) use gemm::Side;
pub use gemm::{Gemm, Matrix};
pub use lender::Lender;
pub use notes::Notes;
pub(super) use notes::Report;

use super::super::ExecError;
use crate::buffer::Resident;
use rustc_hash::FxHashSet;
use std::any::Any;
use std::sync::{Arc, Mutex};

/// An address in a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub u64);

/// The kernels of a program, each once.
#[derive(Clone, Debug, Default)]
pub struct KernelUnit {
    names: Vec<String>,
    texts: Vec<String>,
    known: FxHashSet<String>,
}

impl KernelUnit {
    /// Adds a kernel.
    pub fn add(&mut self, name: &str, text: &str) {
        if self.known.insert(name.to_owned()) {
            self.names.push(name.to_owned());
            self.texts.push(text.to_owned());
        }
    }
    /// The names of the functions.
    pub fn names(&self) -> &[String] {
        &self.names
    }
    /// The definitions of the functions, in the order of the names.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }
    /// Whether the unit has no kernels.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// A device with memory of its own. Work runs in the order in which it is enqueued.
pub trait Device: Send + Sync {
    /// The name of the device, for users.
    fn name(&self) -> String;

    /// The number of the device among CUDA devices, as in types of traces; a stand-in for a device has number 0.
    fn ordinal(&self) -> u32;

    /// Whether values should share one block of memory; otherwise each has its own.
    fn has_arena(&self) -> bool;

    /// Allocates a block of memory, aligned to 256 bytes.
    ///
    /// # Errors
    /// E806 if there is not enough memory.
    fn alloc(&self, bytes: usize) -> Result<Address, ExecError>;

    /// Frees a block.
    ///
    /// # Safety
    /// `block` comes from [`Device::alloc`], with `bytes` bytes, and no work enqueued later uses it.
    unsafe fn free(&self, block: Address, bytes: usize);

    /// Copies bytes to the device.
    ///
    /// # Safety
    /// There are `from.len()` bytes at `to`.
    ///
    /// # Errors
    /// E807 if the device fails.
    unsafe fn upload(&self, to: Address, from: &[u8]) -> Result<(), ExecError>;

    /// Copies bytes from the device, after all work enqueued so far.
    ///
    /// # Safety
    /// There are `to.len()` bytes at `from`.
    ///
    /// # Errors
    /// E807 if the device fails, or earlier work has failed.
    unsafe fn download(&self, to: &mut [u8], from: Address) -> Result<(), ExecError>;

    /// Fills memory with zeros.
    ///
    /// # Safety
    /// There are `bytes` bytes at `at`.
    ///
    /// # Errors
    /// E807 if the device fails.
    unsafe fn zero(&self, at: Address, bytes: usize) -> Result<(), ExecError>;

    /// Copies bytes within the device.
    ///
    /// # Safety
    /// There are `bytes` bytes at both addresses, and they do not overlap.
    ///
    /// # Errors
    /// E807 if the device fails.
    unsafe fn copy(&self, to: Address, from: Address, bytes: usize) -> Result<(), ExecError>;

    /// Whether the device has matrix products ([`Device::multiply`]).
    fn multiplies(&self) -> bool {
        false
    }

    /// Computes a product of the matrices at these addresses.
    ///
    /// # Safety
    /// The matrices exist at these addresses, and `C` overlaps neither of the others.
    ///
    /// # Errors
    /// E807 if the device fails, or has no matrix products.
    unsafe fn multiply(&self, _gemm: &Gemm, _at: [Address; 3]) -> Result<(), ExecError> {
        Err(ExecError::new("E807", "the device has no products of matrices"))
    }

    /// Records the work that `work` enqueues on this thread (launches, zeros, copies within the device) without running
    /// it, so that it can be replayed as a whole. Returns `None` if the device can't record.
    ///
    /// # Errors
    /// Reports the errors of `work`, and E807 if the device fails.
    fn record(&self, _work: &mut dyn FnMut() -> Result<(), ExecError>) -> Result<Option<Box<dyn Replay>>, ExecError> {
        Ok(None)
    }

    /// Whether programs that are called again may be recorded.
    fn records(&self) -> bool {
        true
    }

    /// The places in which programs note faults that are reported with a later call; `None` if each
    /// call waits for its faults.
    fn notes(&self) -> Option<&Notes> {
        None
    }

    /// Tells the device that a program with these kernels was made, so that it may prepare many at once.
    fn announce(&self, _: &KernelUnit) {}

    /// Makes kernels ready to launch.
    ///
    /// # Errors
    /// E808 if they do not compile.
    fn load(&self, unit: &KernelUnit) -> Result<Arc<dyn Module>, ExecError>;
}

/// Recorded work.
pub trait Replay: Send + Sync {
    /// Runs the work.
    ///
    /// # Safety
    /// All memory that the recorded work names still exists, for the same use.
    ///
    /// # Errors
    /// E807 if the device fails.
    unsafe fn run(&self) -> Result<(), ExecError>;
}

/// Kernels that are ready to launch.
pub trait Module: Send + Sync {
    /// Launches a kernel; `args` are addresses, then numbers, each in the low bytes of its word.
    ///
    /// # Safety
    /// The arguments are those of the kernel, with the memory that it uses.
    ///
    /// # Errors
    /// E807 if the launch fails.
    unsafe fn launch(&self, kernel: &str, grid: [u32; 3], block: [u32; 3], args: &[u64]) -> Result<(), ExecError>;
}

/// A block of a device's memory, freed on drop unless it is lent.
pub(super) struct Memory {
    device: Arc<dyn Device>,
    address: Address,
    bytes: usize,
    /// Whether the block is another library's, which frees it.
    lent: bool,
}

impl Memory {
    pub fn new(device: &Arc<dyn Device>, bytes: usize) -> Result<Memory, ExecError> {
        Ok(Memory { device: device.clone(), address: device.alloc(bytes)?, bytes, lent: false })
    }
    /// A block of another library.
    ///
    /// # Safety
    /// There are `bytes` bytes at `address` as long as this exists.
    pub unsafe fn lent(device: &Arc<dyn Device>, address: Address, bytes: usize) -> Memory {
        Memory { device: device.clone(), address, bytes, lent: true }
    }
    /// Whether the block is another library's.
    pub fn is_lent(&self) -> bool {
        self.lent
    }
    pub fn address(&self) -> Address {
        self.address
    }
    /// Whether the block belongs to this device.
    pub fn is_on(&self, device: &Arc<dyn Device>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }
}

impl Resident for Memory {
    fn device(&self) -> String {
        self.device.name()
    }
    fn fetch(&self, to: &mut [u8]) -> Result<(), String> {
        if to.len() > self.bytes {
            return Err(format!("{} bytes of a tensor of {} are asked for", to.len(), self.bytes));
        }
        // SAFETY: the block has at least that many bytes.
        unsafe { self.device.download(to, self.address) }.map_err(|e| e.to_string())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.lent {
            return;
        }
        // SAFETY: the block comes from `alloc` and is freed once; work that was enqueued before runs before.
        unsafe { self.device.free(self.address, self.bytes) };
    }
}

/// The device of a name: `cuda`, `cuda:1`, or `host` (the CUDA kernels on the processor, for tests). Equal names give
/// one device, so every program that runs on it can use its tensors.
///
/// # Errors
/// E809 if there is no such device, with the name that was looked for.
pub fn named(name: &str) -> Result<Arc<dyn Device>, ExecError> {
    static OPEN: Mutex<Vec<(String, Arc<dyn Device>)>> = Mutex::new(Vec::new());
    let name = if name == "cuda" { "cuda:0" } else { name };
    let mut open = OPEN.lock().unwrap_or_else(|e| e.into_inner());
    if let Some((_, device)) = open.iter().find(|(known, _)| known == name) {
        return Ok(device.clone());
    }
    let device = opened(name)?;
    open.push((name.to_owned(), device.clone()));
    Ok(device)
}

fn opened(name: &str) -> Result<Arc<dyn Device>, ExecError> {
    let unknown =
        || ExecError::new("E809", format!("`{name}` is no device")).help("devices are `cuda`, `cuda:N` and `host`");
    match name.split_once(':') {
        None if name == "host" => match host::Host::is_available() {
            true => Ok(Arc::new(host::Host::default())),
            false => Err(ExecError::new("E809", "there is no C++ compiler for the device `host`")
                .help("install one, or name it in CXX")),
        },
        Some(("cuda", ordinal)) => {
            let ordinal = ordinal.parse().map_err(|_| unknown())?;
            Ok(Arc::new(Arc::new(nvidia::Nvidia::open(ordinal)?)))
        }
        _ => Err(unknown()),
    }
}
