//! Tensors on a CUDA device: programs run on PyTorch's current stream, in memory of its caching allocator.
//!
//! The functions are those of libtorch_cuda (torch/csrc/inductor/aoti_torch/c/shim.h), found by name with the first CUDA
//! tensor. The driver's primary context is the one that PyTorch uses.

use super::shims::{self, Code, Handle, Shims};
use crate::wrong;
use fulgurite::Error;
use fulgurite::executors::ExecError;
use fulgurite::executors::cuda::device::nvidia::Nvidia;
use fulgurite::executors::cuda::device::{Address, Device, Lender};
use libloading::os::unix::{Library, RTLD_LAZY};
use std::ffi::c_void;
use std::sync::{Arc, Mutex, OnceLock};

/// The name of the library, which lies beside libtorch_cpu.
const LIBRARY: &str = "libtorch_cuda.so";

/// The functions of libtorch_cuda.
struct CudaShims {
    stream: unsafe extern "C" fn(i32, *mut *mut c_void) -> Code,
    create_guard: unsafe extern "C" fn(i32, *mut Handle) -> Code,
    delete_guard: unsafe extern "C" fn(Handle) -> Code,
    alloc: unsafe extern "C" fn(u64, *mut *mut c_void) -> Code,
    free: unsafe extern "C" fn(*mut c_void) -> Code,
}

impl CudaShims {
    fn find(library: &Library) -> Result<CudaShims, libloading::Error> {
        // SAFETY: the functions have the types that the headers of PyTorch declare.
        unsafe {
            Ok(CudaShims {
                stream: *library.get(b"aoti_torch_get_current_cuda_stream\0")?,
                create_guard: *library.get(b"aoti_torch_create_cuda_guard\0")?,
                delete_guard: *library.get(b"aoti_torch_delete_cuda_guard\0")?,
                alloc: *library.get(b"aoti_torch_cuda_caching_allocator_raw_alloc\0")?,
                free: *library.get(b"aoti_torch_cuda_caching_allocator_raw_delete\0")?,
            })
        }
    }
}

/// The functions; the first call looks for them.
///
/// # Errors
/// E702 if the library is not there, or lacks a function.
fn functions() -> Result<&'static CudaShims, Error> {
    static FOUND: OnceLock<Result<CudaShims, String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let path = shims::beside(LIBRARY).ok_or("PyTorch's functions are not loaded")?;
        // SAFETY: PyTorch has loaded the library already, because it has a CUDA tensor; so nothing in it runs.
        let library = unsafe { Library::open(Some(&path), RTLD_LAZY) };
        let library = library.map_err(|e| format!("`{}`: {e}", path.display()))?;
        let found = CudaShims::find(&library).map_err(|e| format!("`{}`: {e}", path.display()))?;
        // the functions are used until the process ends
        std::mem::forget(library);
        Ok(found)
    });
    found.as_ref().map_err(|why| {
        wrong(format!("the CUDA functions of this PyTorch can't be used: {why}"))
            .help("rows take tensors of the processor, and of NVIDIA's devices in a PyTorch built for CUDA")
    })
}

/// What PyTorch lends: its current stream and its allocator.
struct Torch {
    ordinal: u32,
    functions: &'static CudaShims,
    shims: &'static Shims,
}

impl Torch {
    fn done(&self, code: &'static str, made: Code) -> Result<(), ExecError> {
        self.shims.done(made).map_err(|e| ExecError::new(code, e.claim().to_owned()))
    }
}

impl Lender for Torch {
    fn stream(&self) -> Result<u64, ExecError> {
        let mut stream = std::ptr::null_mut();
        // SAFETY: the place may be written.
        self.done("E807", unsafe { (self.functions.stream)(self.ordinal as i32, &mut stream) })?;
        Ok(stream as u64)
    }

    fn alloc(&self, bytes: usize) -> Result<Address, ExecError> {
        let mut block = std::ptr::null_mut();
        // SAFETY: the place may be written.
        self.done("E806", unsafe { (self.functions.alloc)(bytes as u64, &mut block) })?;
        Ok(Address(block as u64))
    }

    unsafe fn free(&self, block: Address) {
        // SAFETY: the caller upholds the contract. If PyTorch can't free the block, nothing can be done about it here.
        _ = unsafe { (self.functions.free)(block.0 as *mut c_void) };
    }
}

/// The device of a number, on PyTorch's stream. It is current on this thread until the guard is dropped.
///
/// # Errors
/// E702 without libtorch_cuda, E706 with PyTorch's own text, and E809 without NVIDIA's driver.
pub fn enter(ordinal: u32) -> Result<(Arc<dyn Device>, DeviceGuard), Error> {
    static OPEN: Mutex<Vec<(u32, Arc<dyn Device>)>> = Mutex::new(Vec::new());
    let (functions, shims) = (functions()?, shims::get()?);
    let mut handle = std::ptr::null_mut();
    // SAFETY: the place may be written.
    shims.done(unsafe { (functions.create_guard)(ordinal as i32, &mut handle) })?;
    let guard = DeviceGuard { handle, functions };
    let mut open = OPEN.lock().unwrap_or_else(|e| e.into_inner());
    if let Some((_, device)) = open.iter().find(|(known, _)| *known == ordinal) {
        return Ok((device.clone(), guard));
    }
    let torch = Torch { ordinal, functions, shims };
    let device: Arc<dyn Device> = Arc::new(Arc::new(Nvidia::lent(ordinal, Box::new(torch)).map_err(error)?));
    open.push((ordinal, device.clone()));
    Ok((device, guard))
}

/// An error of a device for users.
pub fn error(e: ExecError) -> Error {
    let error = Error::new(e.code, e.message);
    match e.help {
        Some(help) => error.help(help),
        None => error,
    }
}

/// PyTorch's guard of the current device; the device that was current before is current again when it is dropped.
pub struct DeviceGuard {
    handle: Handle,
    functions: &'static CudaShims,
}

impl Drop for DeviceGuard {
    fn drop(&mut self) {
        // SAFETY: the guard was made once, and is deleted once.
        _ = unsafe { (self.functions.delete_guard)(self.handle) };
    }
}
