//! Who runs kernels.

pub mod blaslt;
pub mod cache;
mod gemm;
pub mod host;
pub mod nvidia;
pub mod nvrtc;
mod staging;

pub(super) use gemm::Side;
pub use gemm::{Gemm, Matrix};

use super::super::ExecError;
use crate::buffer::Resident;
use rustc_hash::FxHashSet;
use std::any::Any;
use std::sync::{Arc, Mutex};

/// A place in a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub u64);

/// The kernels of a program, each once.
#[derive(Clone, Debug, Default)]
pub struct Unit {
    names: Vec<String>,
    texts: Vec<String>,
    known: FxHashSet<String>,
}

impl Unit {
    /// Adds a kernel.
    pub fn add(&mut self, name: &str, text: &str) {
        if self.known.insert(name.to_owned()) {
            self.names.push(name.to_owned());
            self.texts.push(text.to_owned());
        }
    }
    /// Names of the functions.
    pub fn names(&self) -> &[String] {
        &self.names
    }
    /// Their definitions, in the same order.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// A device with memory of its own. Work is done in the order in which it is asked for.
pub trait Device: Send + Sync {
    /// What it is, for people.
    fn name(&self) -> String;

    /// Its number among CUDA devices, as types of traces have it; what stands in for one is number 0.
    fn ordinal(&self) -> u32;

    /// Whether values should share one block of memory, or have one each.
    fn has_arena(&self) -> bool;

    /// A block of memory, aligned to 256 bytes.
    ///
    /// # Errors
    /// E806 where there is not enough.
    fn alloc(&self, bytes: usize) -> Result<Address, ExecError>;

    /// Gives a block back.
    ///
    /// # Safety
    /// `block` is of [`Device::alloc`], with so many bytes, and nothing uses it after the work asked for so far.
    unsafe fn free(&self, block: Address, bytes: usize);

    /// Copies to the device.
    ///
    /// # Safety
    /// There are as many bytes at `to`.
    ///
    /// # Errors
    /// E807 where the device fails.
    unsafe fn upload(&self, to: Address, from: &[u8]) -> Result<(), ExecError>;

    /// Copies from the device, after all work asked for so far.
    ///
    /// # Safety
    /// There are as many bytes at `from`.
    ///
    /// # Errors
    /// E807 where the device, or work before, fails.
    unsafe fn download(&self, to: &mut [u8], from: Address) -> Result<(), ExecError>;

    /// Writes zeros.
    ///
    /// # Safety
    /// There are so many bytes at `at`.
    ///
    /// # Errors
    /// E807 where the device fails.
    unsafe fn zero(&self, at: Address, bytes: usize) -> Result<(), ExecError>;

    /// Copies on the device.
    ///
    /// # Safety
    /// There are so many bytes at both places, and they do not overlap.
    ///
    /// # Errors
    /// E807 where the device fails.
    unsafe fn copy(&self, to: Address, from: Address, bytes: usize) -> Result<(), ExecError>;

    /// Whether it has products of matrices ([`Device::multiply`]).
    fn multiplies(&self) -> bool {
        false
    }

    /// A product of matrices at these addresses.
    ///
    /// # Safety
    /// The matrices lie there, and `C` overlaps neither of the others.
    ///
    /// # Errors
    /// E807 where the device fails, or has no products.
    unsafe fn multiply(&self, _gemm: &Gemm, _at: [Address; 3]) -> Result<(), ExecError> {
        Err(ExecError::new("E807", "the device has no products of matrices"))
    }

    /// What `work` asks for on this thread (launches, zeros, copies on the device), to be done as one, again and again;
    /// nothing of it is done now. `None` where the device has no such thing.
    ///
    /// # Errors
    /// Those of `work`; E807 where the device fails.
    fn record(&self, _work: &mut dyn FnMut() -> Result<(), ExecError>) -> Result<Option<Box<dyn Replay>>, ExecError> {
        Ok(None)
    }

    /// A program with these kernels was made: a device may prepare many at once.
    fn announce(&self, _: &Unit) {}

    /// Kernels ready to be launched.
    ///
    /// # Errors
    /// E808 where they do not compile.
    fn load(&self, unit: &Unit) -> Result<Arc<dyn Module>, ExecError>;
}

/// What was recorded.
pub trait Replay: Send + Sync {
    /// Does it.
    ///
    /// # Safety
    /// All memory that was named while it was recorded is still there, for the same use.
    ///
    /// # Errors
    /// E807 where the device fails.
    unsafe fn run(&self) -> Result<(), ExecError>;
}

/// Loaded kernels.
pub trait Module: Send + Sync {
    /// Launches a kernel; `args` are addresses.
    ///
    /// # Safety
    /// The arguments are those of the kernel, with as much memory as it uses.
    ///
    /// # Errors
    /// E807 where the launch fails.
    unsafe fn launch(&self, kernel: &str, grid: [u32; 3], block: [u32; 3], args: &[u64]) -> Result<(), ExecError>;
}

/// A block of a device's memory, given back at the end.
pub(super) struct Memory {
    device: Arc<dyn Device>,
    address: Address,
    bytes: usize,
}

impl Memory {
    pub fn new(device: &Arc<dyn Device>, bytes: usize) -> Result<Memory, ExecError> {
        Ok(Memory { device: device.clone(), address: device.alloc(bytes)?, bytes })
    }
    pub fn address(&self) -> Address {
        self.address
    }
    /// Whether it is this device's.
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
        // SAFETY: the block has at least so many bytes.
        unsafe { self.device.download(to, self.address) }.map_err(|e| e.to_string())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: of `alloc`, given back once; what was asked for before comes before.
        unsafe { self.device.free(self.address, self.bytes) };
    }
}

/// A device by its name: `cuda`, `cuda:1`, or `host` (the same kernels on the processor, for tests). Equal names are one
/// device, so that tensors on it can be used by every program that runs there.
///
/// # Errors
/// E809 where there is none, with what was looked for.
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
