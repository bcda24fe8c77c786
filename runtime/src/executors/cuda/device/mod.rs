//! Who runs kernels.

pub mod cache;
pub mod host;
pub mod nvidia;
pub mod nvrtc;

use super::super::ExecError;
use rustc_hash::FxHashSet;
use std::sync::Arc;

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

    /// A program with these kernels was made: a device may prepare many at once.
    fn announce(&self, _: &Unit) {}

    /// Kernels ready to be launched.
    ///
    /// # Errors
    /// E808 where they do not compile.
    fn load(&self, unit: &Unit) -> Result<Arc<dyn Module>, ExecError>;
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
pub(super) struct Memory<'d> {
    device: &'d dyn Device,
    address: Address,
    bytes: usize,
}

impl<'d> Memory<'d> {
    pub fn new(device: &'d dyn Device, bytes: usize) -> Result<Memory<'d>, ExecError> {
        Ok(Memory { device, address: device.alloc(bytes)?, bytes })
    }
    pub fn address(&self) -> Address {
        self.address
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        // SAFETY: of `alloc`, given back once; what was asked for before comes before.
        unsafe { self.device.free(self.address, self.bytes) };
    }
}

/// A device by its name: `cuda`, `cuda:1`, or `host` (the same kernels on the processor, for tests).
///
/// # Errors
/// E809 where there is none, with what was looked for.
pub fn named(name: &str) -> Result<Arc<dyn Device>, ExecError> {
    let unknown =
        || ExecError::new("E809", format!("`{name}` is no device")).help("devices are `cuda`, `cuda:N` and `host`");
    match name.split_once(':') {
        None if name == "cuda" => Ok(Arc::new(Arc::new(nvidia::Nvidia::open(0)?))),
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
