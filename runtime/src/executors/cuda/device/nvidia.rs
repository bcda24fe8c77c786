//! An NVIDIA device, by the driver that is found at run time.

use super::blaslt::CublasLt;
use super::staging::{Dma, Staging};
use super::{Address, Device, Gemm, KernelUnit, Lender, Module, Notes, Replay, cache, nvrtc};
use crate::executors::ExecError;
use cudarc::driver::result::{self, DriverError, ctx, device, event, graph, mem_pool, module, primary_ctx, stream};
use cudarc::driver::sys;
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::ffi::{CString, c_void};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// A device, with a stream of its own or with the stream and the memory of another library.
pub struct Nvidia {
    ordinal: u32,
    name: String,
    device: sys::CUdevice,
    context: sys::CUcontext,
    /// The stream of this device; null if another library lends its own.
    stream: sys::CUstream,
    lender: Option<Box<dyn Lender>>,
    /// The places in which faults are noted if a library lends its stream, because its calls do not
    /// wait.
    notes: Option<Notes>,
    /// The compute capability as a number, 90 for 9.0.
    architecture: u32,
    /// Whether each launch waits until it is done, so that an error is reported at its line.
    waits: bool,
    /// The pinned memory, allocated with the first copy that needs it.
    staging: OnceLock<Option<Staging<Pinned>>>,
    /// The library of matrix products, if it is found; the first product looks for it.
    library: OnceLock<Option<CublasLt>>,
    /// Kernels that a program holds, by name; equal names mean equal texts.
    kernels: Mutex<FxHashMap<String, Weak<Image>>>,
}

// SAFETY: the handles are the driver's, which may be used from any thread; each use makes the context current first.
unsafe impl Send for Nvidia {}
// SAFETY: the handles are the driver's, which may be used from any thread; each use makes the context current first.
unsafe impl Sync for Nvidia {}

thread_local! {
    /// The stream on which this thread records.
    static RECORDING: Cell<Option<sys::CUstream>> = const { Cell::new(None) };
}

/// The environment variable that makes each launch wait until it is done.
pub const WAIT: &str = "FULGURITE_CUDA_SYNC";

fn failed(what: &str, e: DriverError) -> ExecError {
    let said = e.error_string().map_or_else(|_| format!("{e:?}"), |s| s.to_string_lossy().into_owned());
    ExecError::new("E807", format!("{what}: {said}")).help(format!("{WAIT}=1 reports errors at the line that launched"))
}

impl Nvidia {
    /// Opens the device of this number.
    ///
    /// # Errors
    /// E809 if there is no driver, or no such device.
    pub fn open(ordinal: u32) -> Result<Nvidia, ExecError> {
        Nvidia::opened(ordinal, None)
    }

    /// Opens the device of this number in the context of a library that lends its stream and its memory. Programs are
    /// not recorded, and products do not use cuBLASLt, because both have memory that belongs to one stream.
    ///
    /// # Errors
    /// E809 if there is no driver, or no such device.
    pub fn lent(ordinal: u32, lender: Box<dyn Lender>) -> Result<Nvidia, ExecError> {
        Nvidia::opened(ordinal, Some(lender))
    }

    fn opened(ordinal: u32, lender: Option<Box<dyn Lender>>) -> Result<Nvidia, ExecError> {
        let none = |what: String| {
            ExecError::new("E809", format!("there is no device cuda:{ordinal}: {what}"))
                .help("`fulgurite doctor` says what is found; `--device host` runs the same kernels on the processor")
        };
        // SAFETY: this only searches for the library.
        if !unsafe { sys::is_culib_present() } {
            return Err(none("NVIDIA's driver (libcuda.so.1) is not found".to_owned()));
        }
        result::init().map_err(|e| none(format!("the driver does not start: {e}")))?;
        let count = device::get_count().map_err(|e| none(e.to_string()))?;
        if i64::from(ordinal) >= i64::from(count) {
            return Err(none(format!("the driver has {count} devices")));
        }
        let opened = Nvidia::of(ordinal, lender);
        opened.map_err(|e| none(e.to_string()))
    }

    fn of(ordinal: u32, lender: Option<Box<dyn Lender>>) -> Result<Nvidia, DriverError> {
        use sys::CUdevice_attribute::{
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
        };
        let device = device::get(ordinal as i32)?;
        // SAFETY: the device is one of the driver's; its context is released when this is dropped.
        unsafe {
            let (major, minor) = (device::get_attribute(device, MAJOR)?, device::get_attribute(device, MINOR)?);
            let context = primary_ctx::retain(device)?;
            ctx::set_current(context)?;
            let (mut stream, mut notes) = (std::ptr::null_mut(), None);
            if lender.is_some() {
                notes = Some(Notes::new(result::malloc_host(Notes::BYTES, 0)?.cast()));
            } else {
                // freed memory stays in the pool of the process, because a pool that returns it at each wait is slow
                let pool = device::get_mem_pool(device)?;
                let keep = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
                let mut bytes = u64::MAX;
                mem_pool::set_attribute(pool, keep, std::ptr::from_mut(&mut bytes).cast())?;
                stream = stream::create(stream::StreamKind::NonBlocking)?;
            }
            Ok(Nvidia {
                ordinal,
                name: device::get_name(device)?,
                device,
                context,
                stream,
                lender,
                notes,
                architecture: (major * 10 + minor) as u32,
                waits: std::env::var_os(WAIT).is_some(),
                staging: OnceLock::new(),
                library: OnceLock::new(),
                kernels: Mutex::default(),
            })
        }
    }

    /// The stream on which work is enqueued: the one that this thread records, or else the device's or the lender's.
    fn stream(&self) -> Result<sys::CUstream, ExecError> {
        match &self.lender {
            Some(lender) => Ok(lender.stream()? as sys::CUstream),
            None => Ok(RECORDING.get().unwrap_or(self.stream)),
        }
    }

    fn enter(&self) -> Result<(), ExecError> {
        // SAFETY: the context is retained as long as this device lives.
        unsafe { ctx::set_current(self.context) }.map_err(|e| failed("the device is lost", e))
    }

    /// The pinned memory for a copy of this many bytes, if the copy is large enough to profit.
    fn staging(&self, bytes: usize) -> Option<&Staging<Pinned>> {
        /// The driver copies fewer bytes than this through memory of its own.
        const LEAST: usize = 64 << 10;
        if bytes < LEAST || self.lender.is_some() {
            return None;
        }
        self.staging.get_or_init(|| Pinned::new(self.stream).ok().map(Staging::new)).as_ref()
    }

    fn library(&self) -> Option<&CublasLt> {
        // SAFETY: the stream lives; all use of the memory is on it, or on one that a program records.
        let alloc = |bytes| unsafe { result::malloc_async(self.stream, bytes) }.ok().map(Address);
        self.library.get_or_init(|| CublasLt::open(alloc)).as_ref()
    }

    fn wait(&self, what: &str) -> Result<(), ExecError> {
        if self.lender.is_some() {
            // the work may be on any stream of the other library
            return ctx::synchronize().map_err(|e| failed(what, e));
        }
        // SAFETY: the stream lives as long as this device.
        unsafe { stream::synchronize(self.stream) }.map_err(|e| failed(what, e))
    }
}

impl Drop for Nvidia {
    fn drop(&mut self) {
        // SAFETY: the stream and the context were made once, and this is their last use.
        unsafe {
            if ctx::set_current(self.context).is_ok() {
                if let Some(notes) = &self.notes {
                    let _ = ctx::synchronize();
                    let _ = result::free_host(notes.block().cast());
                    let _ = primary_ctx::release(self.device);
                    return;
                }
                let _ = stream::synchronize(self.stream);
                drop(self.staging.take());
                if let Some(library) = self.library.take().flatten() {
                    let workspace = library.workspace();
                    drop(library);
                    let _ = result::free_async(workspace.0, self.stream);
                }
                let _ = stream::destroy(self.stream);
            }
            let _ = primary_ctx::release(self.device);
        }
    }
}

impl Device for Arc<Nvidia> {
    fn name(&self) -> String {
        format!("cuda:{} ({})", self.ordinal, self.name)
    }

    fn ordinal(&self) -> u32 {
        self.ordinal
    }

    fn has_arena(&self) -> bool {
        true
    }

    fn alloc(&self, bytes: usize) -> Result<Address, ExecError> {
        self.enter()?;
        if let Some(lender) = &self.lender {
            return lender.alloc(bytes.max(1));
        }
        // SAFETY: the stream lives, and all use of the memory is on it.
        unsafe { result::malloc_async(self.stream, bytes.max(1)) }.map(Address).map_err(|e| {
            let free = result::mem_get_info().map(|(free, all)| format!("{free} of {all} bytes are free"));
            let free = free.unwrap_or_else(|_| "how much is free is not known".to_owned());
            match e.0 {
                sys::cudaError_enum::CUDA_ERROR_OUT_OF_MEMORY => ExecError::new(
                    "E806",
                    format!("not enough memory on the device: {bytes} bytes more are needed, {free}"),
                ),
                _ => failed("allocation", e),
            }
        })
    }

    unsafe fn free(&self, block: Address, _: usize) {
        if let Some(lender) = &self.lender {
            // SAFETY: the block is the caller's, who does not use it any more.
            unsafe { lender.free(block) };
        } else if self.enter().is_ok() {
            // SAFETY: the block is the caller's, and it is freed in the order of the stream.
            let _ = unsafe { result::free_async(block.0, self.stream) };
        }
    }

    unsafe fn upload(&self, to: Address, from: &[u8]) -> Result<(), ExecError> {
        if from.is_empty() {
            return Ok(());
        }
        self.enter()?;
        if let Some(staging) = self.staging(from.len()) {
            // SAFETY: the caller upholds the contract of this function.
            return unsafe { staging.upload(to, from) };
        }
        // SAFETY: the caller upholds the contract; memory that is not pinned is read before this returns.
        unsafe { result::memcpy_htod_async(to.0, from, self.stream()?) }.map_err(|e| failed("copy to the device", e))
    }

    unsafe fn download(&self, to: &mut [u8], from: Address) -> Result<(), ExecError> {
        self.enter()?;
        if let Some(staging) = self.staging(to.len()) {
            // SAFETY: the caller upholds the contract of this function.
            return unsafe { staging.download(to, from) };
        }
        if !to.is_empty() {
            // SAFETY: the caller upholds the contract; `to` is borrowed until the copy is done.
            unsafe { result::memcpy_dtoh_async(to, from.0, self.stream()?) }
                .map_err(|e| failed("copy from the device", e))?;
        }
        self.wait("copy from the device")
    }

    unsafe fn zero(&self, at: Address, bytes: usize) -> Result<(), ExecError> {
        if bytes == 0 {
            return Ok(());
        }
        self.enter()?;
        // SAFETY: the caller upholds the contract of this function.
        unsafe { result::memset_d8_async(at.0, 0, bytes, self.stream()?) }.map_err(|e| failed("filling with zeros", e))
    }

    unsafe fn copy(&self, to: Address, from: Address, bytes: usize) -> Result<(), ExecError> {
        if bytes == 0 {
            return Ok(());
        }
        self.enter()?;
        // SAFETY: the caller upholds the contract of this function.
        unsafe { result::memcpy_dtod_async(to.0, from.0, bytes, self.stream()?) }
            .map_err(|e| failed("copy on the device", e))
    }

    fn multiplies(&self) -> bool {
        self.lender.is_none() && self.enter().is_ok() && self.library().is_some()
    }

    unsafe fn multiply(&self, gemm: &Gemm, at: [Address; 3]) -> Result<(), ExecError> {
        self.enter()?;
        let none = || ExecError::new("E807", "cuBLASLt is not there");
        // SAFETY: the caller upholds the contract of this function.
        unsafe { self.library().ok_or_else(none)?.multiply(gemm, at, self.stream()?)? };
        if self.waits { self.wait("a product by cuBLASLt") } else { Ok(()) }
    }

    fn records(&self) -> bool {
        !self.waits && self.lender.is_none()
    }

    fn notes(&self) -> Option<&Notes> {
        self.notes.as_ref()
    }

    fn record(&self, work: &mut dyn FnMut() -> Result<(), ExecError>) -> Result<Option<Box<dyn Replay>>, ExecError> {
        // a launch that waits can't be recorded
        if !self.records() {
            return Ok(None);
        }
        self.enter()?;
        let failed = |e| failed("recording a program", e);
        let side = stream::create(stream::StreamKind::NonBlocking).map_err(failed)?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: only this function uses the stream; the graph is destroyed once it is made executable.
        let made = unsafe {
            stream::begin_capture(side, mode).map_err(failed).and_then(|()| {
                RECORDING.set(Some(side));
                let done = work();
                RECORDING.set(None);
                let graph = stream::end_capture(side).map_err(failed);
                // the recording of work that failed is destroyed too
                graph.and_then(|graph| {
                    let made =
                        done.and_then(|()| graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)).map_err(failed));
                    let _ = graph::destroy(graph);
                    made
                })
            })
        };
        // SAFETY: this is the last use of the stream.
        let _ = unsafe { stream::destroy(side) };
        Ok(Some(Box::new(Graph { device: Arc::clone(self), handle: made? })))
    }

    fn load(&self, unit: &KernelUnit) -> Result<Arc<dyn Module>, ExecError> {
        self.enter()?;
        // a kernel that another program holds is shared; the others are compiled in one piece
        let mut kernels = self.kernels.lock().unwrap_or_else(|e| e.into_inner());
        kernels.retain(|_, image| image.strong_count() > 0);
        let mut images: Vec<Arc<Image>> = Vec::new();
        let mut new = KernelUnit::default();
        for (name, text) in unit.names().iter().zip(unit.texts()) {
            match kernels.get(name).and_then(Weak::upgrade) {
                Some(image) if images.iter().any(|own| Arc::ptr_eq(own, &image)) => {}
                Some(image) => images.push(image),
                None => new.add(name, text),
            }
        }
        if !new.is_empty() {
            let image = Arc::new(Image::load(self, &new)?);
            kernels.extend(new.names().iter().map(|name| (name.clone(), Arc::downgrade(&image))));
            images.push(image);
        }
        let function = |name: &String| {
            let image = images.iter().find_map(|image| image.functions.get(name));
            Some((name.clone(), *image?))
        };
        let functions = unit.names().iter().filter_map(function).collect();
        Ok(Arc::new(Loaded { device: Arc::clone(self), functions, _images: images }))
    }
}

/// Two pieces of pinned memory, each with the event after its last copy.
struct Pinned {
    stream: sys::CUstream,
    pieces: [*mut c_void; 2],
    events: [sys::CUevent; 2],
}

impl Pinned {
    const BYTES: usize = 4 << 20;

    /// Allocates the pieces in the current context.
    fn new(stream: sys::CUstream) -> Result<Pinned, DriverError> {
        let quiet = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING;
        let mut made = Pinned { stream, pieces: [std::ptr::null_mut(); 2], events: [std::ptr::null_mut(); 2] };
        for which in 0..2 {
            // SAFETY: the memory is freed on drop.
            made.pieces[which] = unsafe { result::malloc_host(Pinned::BYTES, 0)? };
            made.events[which] = event::create(quiet)?;
        }
        Ok(made)
    }

    fn asked(&self, which: usize, asked: Result<(), DriverError>) -> Result<(), ExecError> {
        // SAFETY: event and stream live.
        let behind = |()| unsafe { event::record(self.events[which], self.stream) };
        asked.and_then(behind).map_err(|e| failed("a copy by pinned memory", e))
    }
}

// SAFETY: see `Nvidia`; only one copy at a time uses the pieces.
unsafe impl Send for Pinned {}
// SAFETY: see `Nvidia`; only one copy at a time uses the pieces.
unsafe impl Sync for Pinned {}

impl Dma for Pinned {
    fn bytes(&self) -> usize {
        Pinned::BYTES
    }

    fn piece(&self, which: usize) -> *mut u8 {
        self.pieces[which].cast()
    }

    unsafe fn send(&self, which: usize, to: Address, bytes: usize) -> Result<(), ExecError> {
        // SAFETY: a piece has at least `bytes` bytes, which stay until the event after the copy; `to` is the caller's.
        let asked = unsafe {
            let piece = std::slice::from_raw_parts(self.piece(which), bytes);
            result::memcpy_htod_async(to.0, piece, self.stream)
        };
        self.asked(which, asked)
    }

    unsafe fn fetch(&self, which: usize, from: Address, bytes: usize) -> Result<(), ExecError> {
        // SAFETY: a piece has at least `bytes` bytes, which stay until the event after the copy; `from` is the
        // caller's.
        let asked = unsafe {
            let piece = std::slice::from_raw_parts_mut(self.piece(which), bytes);
            result::memcpy_dtoh_async(piece, from.0, self.stream)
        };
        self.asked(which, asked)
    }

    fn wait(&self, which: usize) -> Result<(), ExecError> {
        // SAFETY: the event lives; waiting for one that was never recorded returns at once.
        unsafe { event::synchronize(self.events[which]) }.map_err(|e| failed("a copy by pinned memory", e))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        for which in (0..2).filter(|w| !self.pieces[*w].is_null()) {
            // SAFETY: pieces and events were made once; the device waited for its work before.
            unsafe {
                if !self.events[which].is_null() {
                    let _ = event::destroy(self.events[which]);
                }
                let _ = result::free_host(self.pieces[which]);
            }
        }
    }
}

/// A recorded program.
struct Graph {
    device: Arc<Nvidia>,
    handle: sys::CUgraphExec,
}

// SAFETY: see `Nvidia`.
unsafe impl Send for Graph {}
// SAFETY: see `Nvidia`.
unsafe impl Sync for Graph {}

impl Replay for Graph {
    unsafe fn run(&self) -> Result<(), ExecError> {
        self.device.enter()?;
        // SAFETY: the graph lives, and the caller keeps the memory that it names.
        unsafe { graph::launch(self.handle, self.device.stream) }.map_err(|e| failed("a recorded program", e))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.device.enter().is_ok() && self.device.wait("a recorded program").is_ok() {
            // SAFETY: the graph was made once, and none of it runs any more.
            let _ = unsafe { graph::exec_destroy(self.handle) };
        }
    }
}

/// Kernels that were compiled together.
struct Image {
    device: Arc<Nvidia>,
    handle: sys::CUmodule,
    functions: FxHashMap<String, sys::CUfunction>,
}

// SAFETY: see `Nvidia`.
unsafe impl Send for Image {}
// SAFETY: see `Nvidia`.
unsafe impl Sync for Image {}

impl Image {
    /// Compiles kernels, or takes them from the cache, and loads them.
    fn load(device: &Arc<Nvidia>, unit: &KernelUnit) -> Result<Image, ExecError> {
        let version = nvrtc::version()?;
        let key = format!("sm_{} NVRTC {version}\n{}", device.architecture, nvrtc::source(unit));
        let made = || Ok(nvrtc::compile(unit, device.architecture)?.image);
        let image = match cache::Cache::of_user() {
            Some(cache) => cache.get_or_make(&key, made)?,
            None => made()?,
        };
        // SAFETY: the image is whole and was made by the compiler; the cache returns no others.
        let handle = unsafe { module::load_data(image.as_ptr().cast()) }.map_err(|e| failed("loading kernels", e))?;
        let mut loaded = Image { device: Arc::clone(device), handle, functions: FxHashMap::default() };
        for name in unit.names() {
            let symbol = CString::new(name.as_str()).map_err(|e| ExecError::new("E807", e.to_string()))?;
            // SAFETY: the module is loaded.
            let function = unsafe { module::get_function(handle, symbol) }.map_err(|e| failed(name, e))?;
            loaded.functions.insert(name.clone(), function);
        }
        Ok(loaded)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        if self.device.enter().is_ok() && self.device.wait("unloading").is_ok() {
            // SAFETY: the module was loaded once, and none of it runs any more.
            let _ = unsafe { module::unload(self.handle) };
        }
    }
}

/// The kernels of a program.
struct Loaded {
    device: Arc<Nvidia>,
    functions: FxHashMap<String, sys::CUfunction>,
    /// Keeps the functions on the device.
    _images: Vec<Arc<Image>>,
}

// SAFETY: see `Nvidia`.
unsafe impl Send for Loaded {}
// SAFETY: see `Nvidia`.
unsafe impl Sync for Loaded {}

impl Module for Loaded {
    unsafe fn launch(&self, kernel: &str, grid: [u32; 3], block: [u32; 3], args: &[u64]) -> Result<(), ExecError> {
        let Some(&function) = self.functions.get(kernel) else {
            return Err(ExecError::new("E807", format!("kernel `{kernel}` is not loaded")));
        };
        self.device.enter()?;
        // the driver reads each argument through a pointer
        let mut places: Vec<*mut c_void> = args.iter().map(|a| std::ptr::from_ref(a).cast_mut().cast()).collect();
        let ([x, y, z], [bx, by, bz]) = (grid, block);
        // SAFETY: the caller's arguments are the kernel's; they are read before this returns.
        unsafe { result::launch_kernel(function, (x, y, z), (bx, by, bz), 0, self.device.stream()?, &mut places) }
            .map_err(|e| failed(kernel, e))?;
        if self.device.waits { self.device.wait(kernel) } else { Ok(()) }
    }
}
