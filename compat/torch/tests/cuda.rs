//! Operators on CUDA tensors without PyTorch and without a device: in a process of its own, on a libtorch, a driver and a
//! compiler that are pretended. The driver does the work of a stream as late as CUDA allows.

use fulgurite_torch::torch::{operator, shims};
use libloading::os::unix::Library;
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set in the process on the pretended libraries, to their folder.
const FOLDER: &str = "FULGURITE_PRETENDED_TORCH";

type Handle = *mut c_void;
const F32: i32 = 6;
const I64: i32 = 4;

/// The functions of the pretended libraries for this test.
struct Pretended {
    tensor: unsafe extern "C" fn(i32, i32, *mut c_void, i64, *const i64) -> Handle,
    call: unsafe extern "C-unwind" fn(*const c_char, *const c_char, *mut u64, u64, u64) -> *const c_char,
    delete: unsafe extern "C" fn(Handle) -> i32,
    alive: unsafe extern "C" fn() -> i64,
    alloc: unsafe extern "C" fn(u64, *mut *mut c_void) -> i32,
    free: unsafe extern "C" fn(*mut c_void) -> i32,
    stream: unsafe extern "C" fn(i32),
    stream_handle: unsafe extern "C" fn(i32) -> *mut c_void,
    wait: unsafe extern "C" fn(),
    blocks: unsafe extern "C" fn() -> i64,
    guards: unsafe extern "C" fn() -> i64,
    launches: unsafe extern "C" fn(*mut c_void) -> i64,
}

/// A tensor of the pretended library.
struct Made(Handle);

impl Pretended {
    fn load(folder: &Path) -> Pretended {
        let open = |name: &str| {
            // SAFETY: the libraries are those of this test.
            unsafe { Library::open(Some(folder.join(name)), libloading::os::unix::RTLD_NOW) }.expect(name)
        };
        let (cpu, cuda, driver) = (open("libtorch_cpu.so"), open("libtorch_cuda.so"), open("libcuda.so"));
        // SAFETY: the functions have these types; the libraries stay loaded.
        let made = unsafe {
            Pretended {
                tensor: *cpu.get(b"pretended_tensor").expect("is there"),
                call: *cpu.get(b"pretended_call").expect("is there"),
                delete: *cpu.get(b"aoti_torch_delete_tensor_object").expect("is there"),
                alive: *cpu.get(b"pretended_alive").expect("is there"),
                alloc: *cuda.get(b"aoti_torch_cuda_caching_allocator_raw_alloc").expect("is there"),
                free: *cuda.get(b"aoti_torch_cuda_caching_allocator_raw_delete").expect("is there"),
                stream: *cuda.get(b"pretended_stream").expect("is there"),
                stream_handle: *cuda.get(b"pretended_stream_handle").expect("is there"),
                wait: *cuda.get(b"pretended_wait").expect("is there"),
                blocks: *cuda.get(b"pretended_blocks").expect("is there"),
                guards: *cuda.get(b"pretended_guards").expect("is there"),
                launches: *driver.get(b"fulgurite_driver_launches").expect("is there"),
            }
        };
        std::mem::forget((cpu, cuda, driver));
        made
    }

    /// Memory of the device with these elements, `skipped` bytes after the start of a block.
    fn there<T: Copy>(&self, data: &[T], skipped: usize) -> *mut c_void {
        let mut block = std::ptr::null_mut();
        // SAFETY: the block has as many bytes. The pretended device has its memory where the processor reads it.
        unsafe {
            assert_eq!((self.alloc)((size_of_val(data) + skipped) as u64, &mut block), 0);
            let at = block.cast::<u8>().add(skipped);
            std::ptr::copy_nonoverlapping(data.as_ptr().cast::<u8>(), at, size_of_val(data));
            at.cast()
        }
    }

    fn tensor(&self, kind: i32, dtype: i32, data: *mut c_void, sizes: &[i64]) -> Handle {
        // SAFETY: the memory has as many elements.
        unsafe { (self.tensor)(kind, dtype, data, sizes.len() as i64, sizes.as_ptr()) }
    }

    /// A tensor on the device.
    fn cuda(&self, data: &[f32], sizes: &[i64]) -> Handle {
        self.tensor(1, F32, self.there(data, 0), sizes)
    }

    /// Calls an operator with one result.
    fn call(&self, key: &CStr, name: &str, arguments: &[u64]) -> Result<Made, String> {
        let (mut stack, name) = (arguments.to_vec(), CString::new(name).expect("a name"));
        // SAFETY: the arguments are those of the operator.
        let said = unsafe { (self.call)(key.as_ptr(), name.as_ptr(), stack.as_mut_ptr(), stack.len() as u64, 1) };
        if said.is_null() {
            return Ok(Made(stack[0] as Handle));
        }
        // SAFETY: the text lives until the next error.
        Err(unsafe { CStr::from_ptr(said) }.to_str().expect("is UTF-8").to_owned())
    }

    /// The elements of a result on the device, after its work; the result is deleted.
    fn take(&self, made: Made, count: usize) -> Vec<f32> {
        let shims = shims::get().expect("are loaded");
        let (mut data, mut kind, mut number) = (std::ptr::null_mut(), 9, 9);
        // SAFETY: the tensor lives, and has as many elements.
        unsafe {
            (shims.aoti_torch_get_data_ptr)(made.0, &mut data);
            (shims.aoti_torch_get_device_type)(made.0, &mut kind);
            (shims.aoti_torch_get_device_index)(made.0, &mut number);
            (self.wait)();
            let values = std::slice::from_raw_parts(data.cast::<f32>(), count).to_vec();
            (self.delete)(made.0);
            assert_eq!((kind, number), (1, 0), "the device of a result");
            values
        }
    }

    fn launches(&self, stream: i32) -> i64 {
        // SAFETY: the stream is one of the pretended library.
        unsafe { (self.launches)((self.stream_handle)(stream)) }
    }
}

fn near(found: &[f32], wanted: impl IntoIterator<Item = f32>) {
    let wanted: Vec<f32> = wanted.into_iter().collect();
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * b.abs().max(1.0);
    assert!(found.len() == wanted.len() && found.iter().zip(&wanted).all(close), "{found:?} is not {wanted:?}");
}

fn ramp(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i * 7 % 23) as f32 * 0.1 - 1.0).collect()
}

/// The work of the process on the pretended libraries.
fn programs(folder: &Path) {
    let library = CString::new(folder.join("libtorch_cpu.so").into_os_string().into_encoded_bytes()).expect("a path");
    shims::load(&library).expect("has all functions");
    for (name, parameters) in [("tanh", "T"), ("mul", "TT"), ("gather", "TTI"), ("argsort", "TIB"), ("matmul", "TT")] {
        let name = CString::new(name).expect("a name");
        operator::register(c"pkg", &name, name.to_str().ok(), parameters, false).expect("registers");
    }
    let torch = Pretended::load(folder);
    let x = ramp(35);
    // several sizes on both streams: work is on the current one
    for (stream, n) in [(0, 35), (1, 35), (1, 14), (0, 21)] {
        // SAFETY: there are two streams.
        unsafe { (torch.stream)(stream) };
        let before = [0, 1].map(|s| torch.launches(s));
        let made = torch.call(c"CUDA", "tanh", &[torch.cuda(&x[..n], &[n as i64 / 7, 7]) as u64]);
        near(&torch.take(made.expect("runs"), n), x[..n].iter().map(|x| x.tanh()));
        let after = [0, 1].map(|s| torch.launches(s));
        let other = 1 - stream as usize;
        assert!(
            after[stream as usize] > before[stream as usize] && after[other] == before[other],
            "{before:?} {after:?}"
        );
    }
    // memory at which kernels can't read several elements at once
    let at = torch.there(&x[..12], 4);
    let made = torch.call(c"CUDA", "tanh", &[torch.tensor(1, F32, at, &[12]) as u64]);
    near(&torch.take(made.expect("runs"), 12), x[..12].iter().map(|x| x.tanh()));
    // a number on the processor goes along; a vector does not
    let (mut two, mut more) = ([2.0f32], ramp(35));
    let number = torch.tensor(0, F32, two.as_mut_ptr().cast(), &[]);
    let made = torch.call(c"CUDA", "mul", &[torch.cuda(&x, &[35]) as u64, number as u64]);
    near(&torch.take(made.expect("runs"), 35), x.iter().map(|x| x * 2.0));
    let vector = torch.tensor(0, F32, more.as_mut_ptr().cast(), &[35]);
    let refused = torch.call(c"CUDA", "mul", &[torch.cuda(&x, &[35]) as u64, vector as u64]).err().expect("refused");
    assert!(refused.contains("cuda:0") && refused.contains("cpu") && refused.contains("E702"), "{refused}");
    // a product, whose kernel is ours here, and a line that the processor runs
    let made =
        torch.call(c"CUDA", "matmul", &[torch.cuda(&x[..6], &[2, 3]), torch.cuda(&x[..6], &[3, 2])].map(|t| t as u64));
    let product = |i: usize, j: usize| (0..3).map(|k| x[3 * i + k] * x[2 * k + j]).sum::<f32>();
    near(&torch.take(made.expect("runs"), 4), [product(0, 0), product(0, 1), product(1, 0), product(1, 1)]);
    let made = torch.call(c"CUDA", "argsort", &[torch.cuda(&[3.0, 1.0, 2.0], &[3]) as u64, 0, 0]).expect("runs");
    let order: Vec<u32> = torch.take(made, 6).into_iter().map(f32::to_bits).collect();
    assert_eq!(order, [1, 0, 2, 0, 0, 0], "the order as i64");
    // a wrong index is reported by the next call, once
    let indices = |i: [i64; 3]| torch.tensor(1, I64, torch.there(&i, 0), &[3]) as u64;
    let call = |i| torch.call(c"CUDA", "gather", &[torch.cuda(&[5.0, 6.0, 7.0], &[3]) as u64, indices(i), 0]);
    near(&torch.take(call([2, 0, 1]).expect("runs"), 3), [7.0, 5.0, 6.0]);
    let made = call([2, 9, 1]).expect("is noted when the device runs");
    torch.take(made, 3);
    let tanh = || torch.call(c"CUDA", "tanh", &[torch.cuda(&x, &[35]) as u64]);
    let late = tanh().err().expect("the fault of the call before");
    assert!(late.contains("E804") && late.contains("index 9") && late.contains("before this one"), "{late}");
    near(&torch.take(tanh().expect("reported once"), 35), x.iter().map(|x| x.tanh()));
    // the processor's kernel is registered too
    let mut data = [0.5f32, -0.5];
    let made =
        torch.call(c"CPU", "tanh", &[torch.tensor(0, F32, data.as_mut_ptr().cast(), &[2]) as u64]).expect("runs");
    // SAFETY: the tensor is not used any more.
    unsafe { (torch.delete)(made.0) };
    // SAFETY: the functions take nothing.
    let (alive, guards, blocks) = unsafe { ((torch.alive)(), (torch.guards)(), (torch.blocks)()) };
    assert_eq!((alive, guards), (0, 0), "tensors and guards that are left");
    // blocks of arguments are this test's; those of results and of programs were given back
    assert_eq!(blocks, TENSORS, "blocks that are left");
    let _ = torch.free;
}

/// The tensors that the test makes on the device.
const TENSORS: i64 = 4 + 1 + 2 + 2 + 1 + 4 + 2;

fn library(folder: &Path, source: &Path, name: &str, linked: &[&str]) {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let out = Command::new(&compiler)
        .args(["-std=c++17", "-O1", "-shared", "-fPIC", "-Wall", "-Werror"])
        .arg(source)
        .arg("-o")
        .arg(folder.join(format!("lib{name}.so")))
        .arg("-L")
        .arg(folder)
        .args(linked)
        .output()
        .expect("a C++ compiler");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn operators_run_on_the_stream_and_the_memory_of_pytorch() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return programs(Path::new(&folder));
    }
    if !fulgurite::executors::cuda::device::host::Host::is_available() {
        eprintln!("skipped: there is no C++ compiler (`c++`, or what CXX names)");
        return;
    }
    let folder = std::env::temp_dir().join(format!("fulgurite-torch-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (own, driver) = (here.join("tests/pretended"), here.join("../../tests/cuda/driver"));
    library(&folder, &driver.join("cuda.cpp"), "cuda", &[]);
    library(&folder, &driver.join("nvrtc.cpp"), "nvrtc", &[]);
    library(&folder, &own.join("torch_cpu.cpp"), "torch_cpu", &[]);
    library(&folder, &own.join("torch_cuda.cpp"), "torch_cuda", &["-lcuda"]);
    let header: PathBuf = here.join("../../runtime/src/executors/cuda/device/host.h");
    let out = Command::new(std::env::current_exe().expect("a test"))
        .args(["--exact", "operators_run_on_the_stream_and_the_memory_of_pytorch", "--nocapture"])
        .env(FOLDER, &folder)
        .env("FULGURITE_HOST_H", header)
        .env("LD_LIBRARY_PATH", &folder)
        .env("FULGURITE_CACHE", "")
        .env_remove("FULGURITE_NVRTC")
        .output()
        .expect("runs");
    std::fs::remove_dir_all(&folder).expect("is there");
    let said = [out.stdout, out.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(out.status.success(), "{}\n{}\n{}", out.status, said[0], said[1]);
}
