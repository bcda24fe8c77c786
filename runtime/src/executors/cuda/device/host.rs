//! Runs the CUDA kernels on the CPU: their text is compiled as C++ over `host.h`, where the threads of a block are
//! fibres.
//!
//! This device is for tests, and for users who want to see what a kernel does without a GPU. It is slow, and exact
//! about barriers: a thread that misses one is an error. It needs a C++ compiler (`c++`, or the one that `CXX` names).

use super::{Address, Device, KernelUnit, Module, Replay};
use crate::executors::ExecError;
use crate::executors::cuda::prelude;
use libloading::Library;
use rustc_hash::FxHashMap;
use std::alloc::Layout;
use std::cell::RefCell;
use std::ffi::{CStr, c_char};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The part of CUDA that the kernels need, for a C++ compiler.
const SHIM: &str = include_str!("host.h");

/// A function `name(grid, block, args)` that returns an error message, or null.
///
/// # Safety
/// `grid` and `block` are to three numbers each, `args` to those of the kernel, whose memory exists while it runs.
type Launcher = unsafe extern "C" fn(*const u32, *const u32, *const u64) -> *const c_char;

/// The CPU as a device.
#[derive(Default)]
pub struct Host {
    /// Additional arguments of the compiler.
    flags: Vec<String>,
    /// Loaded kernels by name; equal names mean equal texts.
    known: Mutex<FxHashMap<String, Loaded>>,
    /// Kernels of programs that were made and not compiled yet; all are compiled when one is needed.
    announced: Mutex<KernelUnit>,
}

/// The number of kernels in one run of the compiler.
const UNIT: usize = 48;

#[derive(Clone)]
struct Loaded {
    launcher: Launcher,
    /// Keeps the function in memory.
    _library: Arc<Library>,
}

/// Work for the device, which runs now or when a recording is replayed.
enum Asked {
    Launch { kernel: String, loaded: Loaded, grid: [u32; 3], block: [u32; 3], args: Vec<u64> },
    Zero(Address, usize),
    Copy { to: Address, from: Address, bytes: usize },
}

/// Recorded work.
struct Recorded(Vec<Asked>);

thread_local! {
    /// The list of recorded work, while this thread records.
    static RECORDING: RefCell<Option<Vec<Asked>>> = const { RefCell::new(None) };
}

/// Runs the work, or records it if this thread records.
///
/// # Safety
/// The contract of [`Asked::run`] holds when the work runs.
unsafe fn ask(asked: Asked) -> Result<(), ExecError> {
    RECORDING.with_borrow_mut(|recording| match recording {
        Some(list) => {
            list.push(asked);
            Ok(())
        }
        // SAFETY: the caller upholds the contract of this function.
        None => unsafe { asked.run() },
    })
}

impl Asked {
    /// # Safety
    /// The memory that the work names exists.
    unsafe fn run(&self) -> Result<(), ExecError> {
        // SAFETY: the caller upholds the contract of this function.
        unsafe {
            match self {
                Asked::Launch { kernel, loaded, grid, block, args } => loaded.launch(kernel, *grid, *block, args),
                Asked::Zero(at, bytes) => {
                    std::ptr::write_bytes(at.0 as *mut u8, 0, *bytes);
                    Ok(())
                }
                Asked::Copy { to, from, bytes } => {
                    std::ptr::copy_nonoverlapping(from.0 as *const u8, to.0 as *mut u8, *bytes);
                    Ok(())
                }
            }
        }
    }
}

impl Replay for Recorded {
    unsafe fn run(&self) -> Result<(), ExecError> {
        // SAFETY: the caller upholds the contract of this function.
        self.0.iter().try_for_each(|asked| unsafe { asked.run() })
    }
}

/// Shared memory is static, so only one launch runs at a time.
static RUNNING: Mutex<()> = Mutex::new(());

fn compiler() -> String {
    std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned())
}

impl Host {
    /// Whether a C++ compiler is found.
    pub fn is_available() -> bool {
        Command::new(compiler()).arg("--version").output().is_ok_and(|o| o.status.success())
    }

    /// A device whose kernels are compiled with additional arguments, such as `-fsanitize=undefined`.
    pub fn with_flags(flags: &[&str]) -> Host {
        Host { flags: flags.iter().map(|f| (*f).to_owned()).collect(), ..Host::default() }
    }

    /// The kernels of programs that were made and not compiled yet.
    pub fn announced(&self) -> KernelUnit {
        self.announced.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// Compiles the announced kernels, several units in parallel.
    ///
    /// # Errors
    /// E808 with the message of the compiler.
    pub fn compile(&self) -> Result<(), ExecError> {
        let mut known = self.known.lock().unwrap_or_else(|e| e.into_inner());
        let unit = std::mem::take(&mut *self.announced.lock().unwrap_or_else(|e| e.into_inner()));
        let new: Vec<usize> = (0..unit.names().len()).filter(|i| !known.contains_key(&unit.names()[*i])).collect();
        let next = AtomicUsize::new(0);
        let chunks: Vec<&[usize]> = new.chunks(UNIT).collect();
        let work = || {
            let mut made = Vec::new();
            while let Some(chunk) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
                made.extend(self.chunk(&unit, chunk)?);
            }
            Ok::<_, ExecError>(made)
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(chunks.len().max(1));
        let made = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            workers.into_iter().map(|w| w.join().unwrap_or_else(|p| std::panic::resume_unwind(p))).collect::<Vec<_>>()
        });
        for kernels in made {
            known.extend(kernels?);
        }
        Ok(())
    }

    fn chunk(&self, unit: &KernelUnit, which: &[usize]) -> Result<Vec<(String, Loaded)>, ExecError> {
        let mut text = String::from("#include \"host.h\"\n") + &prelude();
        for &i in which {
            text += &format!("\n{}FG_LAUNCHER({})\n", unit.texts()[i], unit.names()[i]);
        }
        let library = Arc::new(self.library(&text)?);
        let one = |i: &usize| {
            let name = &unit.names()[*i];
            // SAFETY: `FG_LAUNCHER` defines a function of this type.
            let launcher = unsafe { library.get::<Launcher>(format!("launch_{name}").as_bytes()) };
            let launcher = *launcher.map_err(|e| ExecError::new("E808", e.to_string()))?;
            Ok((name.clone(), Loaded { launcher, _library: library.clone() }))
        };
        which.iter().map(one).collect()
    }

    fn library(&self, text: &str) -> Result<Library, ExecError> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("fulgurite-{}-{count}", std::process::id()));
        let made = self.library_in(&folder, text);
        // the loaded library stays loaded without its file
        let _ = std::fs::remove_dir_all(&folder);
        made
    }

    fn library_in(&self, folder: &Path, text: &str) -> Result<Library, ExecError> {
        let failed = |e: std::io::Error| ExecError::new("E808", format!("{}: {e}", folder.display()));
        std::fs::create_dir_all(folder).map_err(failed)?;
        std::fs::write(folder.join("host.h"), SHIM).map_err(failed)?;
        std::fs::write(folder.join("kernels.cpp"), text).map_err(failed)?;
        let library = folder.join("kernels.so");
        let out = Command::new(compiler())
            .args(["-std=c++17", "-O1", "-shared", "-fPIC", "-ffp-contract=off", "-w"])
            .args(&self.flags)
            .arg(folder.join("kernels.cpp"))
            .arg("-o")
            .arg(&library)
            .output()
            .map_err(|e| ExecError::new("E808", format!("`{}`: {e}", compiler())))?;
        if !out.status.success() {
            let said = String::from_utf8_lossy(&out.stderr);
            let said: String = said.lines().take(20).collect::<Vec<_>>().join("\n");
            return Err(ExecError::new("E808", format!("kernels do not compile as C++:\n{said}")));
        }
        // SAFETY: the library has no initialisers except those of the compiler's own runtime.
        unsafe { Library::new(&library) }.map_err(|e| ExecError::new("E808", e.to_string()))
    }
}

fn layout(bytes: usize) -> Result<Layout, ExecError> {
    Layout::from_size_align(bytes.max(1), 256).map_err(|e| ExecError::new("E806", e.to_string()))
}

impl Device for Host {
    fn name(&self) -> String {
        "the CPU (CUDA C as C++)".to_owned()
    }

    fn ordinal(&self) -> u32 {
        0
    }

    // each value has a block of its own, so that a sanitizer knows its bounds
    fn has_arena(&self) -> bool {
        false
    }

    fn alloc(&self, bytes: usize) -> Result<Address, ExecError> {
        // SAFETY: the layout has at least one byte.
        let block = unsafe { std::alloc::alloc(layout(bytes)?) };
        match block.is_null() {
            true => Err(ExecError::new("E806", format!("not enough memory: {bytes} bytes more are needed"))),
            false => Ok(Address(block as u64)),
        }
    }

    unsafe fn free(&self, block: Address, bytes: usize) {
        if let Ok(layout) = layout(bytes) {
            // SAFETY: the caller's block comes from `alloc`, with this layout.
            unsafe { std::alloc::dealloc(block.0 as *mut u8, layout) };
        }
    }

    unsafe fn upload(&self, to: Address, from: &[u8]) -> Result<(), ExecError> {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.0 as *mut u8, from.len()) };
        Ok(())
    }

    unsafe fn download(&self, to: &mut [u8], from: Address) -> Result<(), ExecError> {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { std::ptr::copy_nonoverlapping(from.0 as *const u8, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    unsafe fn zero(&self, at: Address, bytes: usize) -> Result<(), ExecError> {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { ask(Asked::Zero(at, bytes)) }
    }

    unsafe fn copy(&self, to: Address, from: Address, bytes: usize) -> Result<(), ExecError> {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { ask(Asked::Copy { to, from, bytes }) }
    }

    fn record(&self, work: &mut dyn FnMut() -> Result<(), ExecError>) -> Result<Option<Box<dyn Replay>>, ExecError> {
        RECORDING.set(Some(Vec::new()));
        let done = work();
        let list = RECORDING.take();
        done?;
        Ok(list.map(|list| Box::new(Recorded(list)) as Box<dyn Replay>))
    }

    fn announce(&self, unit: &KernelUnit) {
        let mut announced = self.announced.lock().unwrap_or_else(|e| e.into_inner());
        unit.names().iter().zip(unit.texts()).for_each(|(name, text)| announced.add(name, text));
    }

    fn load(&self, unit: &KernelUnit) -> Result<Arc<dyn Module>, ExecError> {
        if !unit.names().iter().all(|n| self.known.lock().unwrap_or_else(|e| e.into_inner()).contains_key(n)) {
            self.announce(unit);
            self.compile()?;
        }
        let known = self.known.lock().unwrap_or_else(|e| e.into_inner());
        let own = unit.names().iter().filter_map(|n| Some((n.clone(), known.get(n)?.clone())));
        Ok(Arc::new(Kernels(own.collect())))
    }
}

struct Kernels(FxHashMap<String, Loaded>);

impl Loaded {
    /// # Safety
    /// The contract of [`Module::launch`] holds.
    unsafe fn launch(&self, kernel: &str, grid: [u32; 3], block: [u32; 3], args: &[u64]) -> Result<(), ExecError> {
        let _one = RUNNING.lock().unwrap_or_else(|e| e.into_inner());
        // SAFETY: the caller passes the kernel's arguments; the sizes are three numbers each.
        let said = unsafe { (self.launcher)(grid.as_ptr(), block.as_ptr(), args.as_ptr()) };
        if said.is_null() {
            return Ok(());
        }
        // SAFETY: the string lives until the next launch, which waits for `RUNNING`.
        let said = unsafe { CStr::from_ptr(said) }.to_string_lossy().into_owned();
        Err(ExecError::new("E807", format!("kernel `{kernel}`: {said}")))
    }
}

impl Module for Kernels {
    unsafe fn launch(&self, kernel: &str, grid: [u32; 3], block: [u32; 3], args: &[u64]) -> Result<(), ExecError> {
        let Some(loaded) = self.0.get(kernel) else {
            return Err(ExecError::new("E807", format!("kernel `{kernel}` is not loaded")));
        };
        let (kernel, args) = (kernel.to_owned(), args.to_vec());
        // SAFETY: the caller upholds the contract of this function.
        unsafe { ask(Asked::Launch { kernel, loaded: loaded.clone(), grid, block, args }) }
    }
}
