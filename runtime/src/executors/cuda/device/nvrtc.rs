//! Compiles CUDA C to machine code, by NVIDIA's compiler library if it is found at run time.

use super::KernelUnit;
use crate::executors::ExecError;
use crate::executors::cuda::prelude;
use cudarc::nvrtc::{result, sys};
use std::ffi::{CStr, CString};
use std::sync::OnceLock;

/// The environment variable that names a library file to load.
pub const VARIABLE: &str = "FULGURITE_NVRTC";

/// Machine code of one architecture.
#[derive(Clone, Debug)]
pub struct MachineCode {
    /// The image that the driver loads.
    pub image: Vec<u8>,
    /// For each kernel, the resources that the compiler reports.
    pub usage: Vec<Usage>,
}

/// The resources of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The name of the function.
    pub kernel: String,
    /// The registers of a thread.
    pub registers: usize,
    /// The bytes that a thread spills to memory.
    pub spilled: usize,
    /// The bytes of shared memory of a block.
    pub shared: usize,
}

/// Loads the library whose file an environment variable names, if it names one, so that the library is then found by
/// its own name.
///
/// # Errors
/// Reports the message of the loader.
pub(super) fn open(variable: &str) -> Result<(), String> {
    let Some(path) = std::env::var_os(variable) else { return Ok(()) };
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    // SAFETY: NVIDIA's libraries have no initialisers that depend on this program.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) };
    // the library stays loaded
    std::mem::forget(library.map_err(|e| format!("{variable}={}: {e}", path.to_string_lossy()))?);
    Ok(())
}

/// Whether the library is found.
///
/// # Errors
/// E809 with the name that was looked for.
pub fn present() -> Result<(), ExecError> {
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        open(VARIABLE)?;
        // SAFETY: this only searches for the library.
        match unsafe { sys::is_culib_present() } {
            true => Ok(()),
            false => Err("libnvrtc.so (12 or 13) is not found".to_owned()),
        }
    });
    found.clone().map_err(|what| {
        ExecError::new("E809", format!("kernels can't be compiled: {what}")).help(format!(
            "install NVIDIA's NVRTC (`pip install nvidia-cuda-nvrtc-cu12`) and name its file in {VARIABLE}"
        ))
    })
}

/// The version of the library, such as 1209.
///
/// # Errors
/// E809 if the library is not found.
pub fn version() -> Result<u32, ExecError> {
    present()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library is loaded, and both places may be written.
    unsafe { sys::nvrtcVersion(&mut major, &mut minor) }.result().map_err(failed)?;
    Ok(major as u32 * 100 + minor as u32)
}

/// The architectures that the library knows: 80, 90, ….
///
/// # Errors
/// E809 if the library is not found.
pub fn architectures() -> Result<Vec<u32>, ExecError> {
    present()?;
    let mut count = 0;
    // SAFETY: the library is loaded, and the place may be written.
    unsafe { sys::nvrtcGetNumSupportedArchs(&mut count) }.result().map_err(failed)?;
    let mut all = vec![0i32; count.max(0) as usize];
    // SAFETY: there is room for as many as the library counted.
    unsafe { sys::nvrtcGetSupportedArchs(all.as_mut_ptr()) }.result().map_err(failed)?;
    Ok(all.into_iter().map(|a| a as u32).collect())
}

fn failed(e: result::NvrtcError) -> ExecError {
    ExecError::new("E808", format!("NVRTC: {e}"))
}

/// The whole text of a unit.
pub fn source(unit: &KernelUnit) -> String {
    format!("#define FG __device__ __forceinline__\n{}\n{}", prelude(), unit.texts().join("\n"))
}

/// Compiles a unit for an architecture.
///
/// # Errors
/// E809 without the library, and E808 with the message of the compiler.
pub fn compile(unit: &KernelUnit, architecture: u32) -> Result<MachineCode, ExecError> {
    present()?;
    let text = CString::new(source(unit)).map_err(|e| ExecError::new("E808", e.to_string()))?;
    let program = Program(result::create_program(&text, Some(c"kernels.cu")).map_err(failed)?);
    // products and sums are rounded one by one, so that a fusion gives the bits of its lines
    let arch = format!("--gpu-architecture=sm_{architecture}");
    let options =
        [arch.as_str(), "--std=c++17", "--fmad=false", "--ptxas-options=-v", "--device-as-default-execution-space"];
    // SAFETY: the program was created and lives.
    let done = unsafe { result::compile_program(program.0, &options) };
    let log = program.log();
    if done.is_err() {
        let said: Vec<&str> = log.lines().filter(|l| !l.trim().is_empty()).take(20).collect();
        return Err(ExecError::new(
            "E808",
            format!("kernels do not compile for sm_{architecture}:\n{}", said.join("\n")),
        ));
    }
    let mut size = 0;
    // SAFETY: the program was compiled for a real architecture, so it has an image of this size.
    unsafe { sys::nvrtcGetCUBINSize(program.0, &mut size) }.result().map_err(failed)?;
    let mut image = vec![0u8; size];
    // SAFETY: the program has an image of this size, and there is room for it.
    unsafe { sys::nvrtcGetCUBIN(program.0, image.as_mut_ptr().cast()) }.result().map_err(failed)?;
    Ok(MachineCode { image, usage: usage(&log) })
}

/// A program of the library, destroyed on drop.
struct Program(sys::nvrtcProgram);

impl Program {
    fn log(&self) -> String {
        // SAFETY: the program lives; the log ends with a zero.
        let bytes = unsafe { result::get_program_log(self.0) }.unwrap_or_default();
        let bytes: Vec<u8> = bytes.into_iter().map(|c| c as u8).collect();
        CStr::from_bytes_until_nul(&bytes).map(|s| s.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the program was created, and is destroyed once.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

/// Reads the resources of each kernel from the output of `ptxas -v`.
fn usage(log: &str) -> Vec<Usage> {
    let mut all: Vec<Usage> = Vec::new();
    let before = |line: &str, word: &str| -> usize {
        let at = line.find(word).unwrap_or(0);
        line[..at].split_whitespace().next_back().and_then(|n| n.parse().ok()).unwrap_or(0)
    };
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let kernel = rest.split('\'').next().unwrap_or_default().to_owned();
            all.push(Usage { kernel, ..Usage::default() });
        }
        let Some(last) = all.last_mut() else { continue };
        if line.contains("bytes spill stores") {
            last.spilled = before(line, " bytes spill stores");
        }
        if line.contains(" registers") {
            last.registers = before(line, " registers");
            last.shared = if line.contains(" bytes smem") { before(line, " bytes smem") } else { 0 };
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_assembler_says() {
        let log = "ptxas info    : 0 bytes gmem\n\
            ptxas info    : Compiling entry function 'a_map_1' for 'sm_90'\n\
            ptxas info    : Function properties for a_map_1\n    \
                0 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n\
            ptxas info    : Used 40 registers, used 1 barriers, 128 bytes smem, 392 bytes cmem[0]\n";
        let one = Usage { kernel: "a_map_1".to_owned(), registers: 40, spilled: 8, shared: 128 };
        assert_eq!(usage(log), [one]);
    }
}
