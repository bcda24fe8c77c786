//! The functions of libtorch's stable C interface (torch/csrc/stable/c/shim.h and
//! torch/csrc/inductor/aoti_torch/c/shim.h), found by name in the library that the process has loaded.

use crate::wrong;
use fulgurite::Error;
use libloading::os::unix::Library;
use std::ffi::{CStr, c_char, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

/// A handle of an object of libtorch: a tensor, a list, a text, a library of operators.
pub type Handle = *mut c_void;
/// Zero, or the number of an error.
pub type Code = i32;
/// A kernel of the dispatcher: it replaces the arguments on the stack by the results. The numbers are those of
/// arguments and of results.
pub type Boxed = unsafe extern "C-unwind" fn(*mut u64, u64, u64);
/// The release whose forms of values are used: 2.13, the first that has all of the functions below.
pub const RELEASE: u64 = (2 << 56) | (13 << 48);

macro_rules! shims {
    ($($name:ident($($arg:ty),*) $(-> $out:ty)?;)*) => {
        /// The functions, by their names.
        #[allow(missing_docs)]
        pub struct Shims {
            $(pub $name: unsafe extern "C-unwind" fn($($arg),*) $(-> $out)?,)*
        }

        impl Shims {
            fn find(library: &Library) -> Result<Shims, Error> {
                // SAFETY: the functions have the types that the headers of PyTorch declare.
                unsafe { Ok(Shims { $($name: *library.get(concat!(stringify!($name), "\0").as_bytes()).map_err(|e| {
                    wrong(format!("this PyTorch is older than 2.13: it has no `{}` ({e})", stringify!($name)))
                        .help("install torch 2.13 or later")
                })?,)* }) }
            }
        }
    };
}
shims! {
    aoti_torch_library_init_impl(*const c_char, *const c_char, *const c_char, u32, *mut Handle) -> Code;
    torch_library_impl(Handle, *const c_char, Boxed, u64) -> Code;
    torch_call_dispatcher(*const c_char, *const c_char, *mut u64, u64) -> Code;
    aoti_torch_get_data_ptr(Handle, *mut *mut c_void) -> Code;
    aoti_torch_get_dim(Handle, *mut i64) -> Code;
    aoti_torch_get_sizes(Handle, *mut *const i64) -> Code;
    aoti_torch_get_dtype(Handle, *mut i32) -> Code;
    aoti_torch_get_device_type(Handle, *mut i32) -> Code;
    aoti_torch_get_device_index(Handle, *mut i32) -> Code;
    aoti_torch_is_contiguous(Handle, *mut bool) -> Code;
    aoti_torch_empty_strided(i64, *const i64, *const i64, i32, i32, i32, *mut Handle) -> Code;
    aoti_torch_delete_tensor_object(Handle) -> Code;
    aoti_torch_check(bool, *const c_char, *const c_char, u32, *const c_char);
    aoti_torch_memory_format_contiguous_format() -> i32;
    torch_list_size(Handle, *mut usize) -> Code;
    torch_list_get_item(Handle, usize, *mut u64) -> Code;
    torch_list_push_back(Handle, u64) -> Code;
    torch_new_list_reserve_size(usize, *mut Handle) -> Code;
    torch_delete_list(Handle) -> Code;
    torch_string_c_str(Handle, *mut *const c_char) -> Code;
    torch_string_length(Handle, *mut usize) -> Code;
    torch_delete_string(Handle) -> Code;
    torch_delete_stable_ivalue(*mut u64) -> Code;
    torch_exception_get_what_without_backtrace() -> *const c_char;
    torch_get_num_threads(*mut u32) -> Code;
    torch_from_blob(*mut c_void, i64, *const i64, *const i64, i64, i32, i32, i32, *mut Handle, i32, *const u8, i64, unsafe extern "C" fn(*mut c_void, *mut c_void), *mut c_void) -> Code;
}

static SHIMS: OnceLock<Shims> = OnceLock::new();
/// The file of libtorch.
static FILE: OnceLock<PathBuf> = OnceLock::new();

/// Loads the functions from libtorch, which PyTorch has loaded under this file name.
///
/// # Errors
/// E702 if the library is not there, or older than 2.13.
pub fn load(library: &CStr) -> Result<&'static Shims, Error> {
    if let Some(shims) = SHIMS.get() {
        return Ok(shims);
    }
    let name = library.to_string_lossy().into_owned();
    // SAFETY: PyTorch has loaded the library already, so nothing in it runs.
    let found = unsafe { Library::open(Some(&name), libloading::os::unix::RTLD_LAZY) };
    let found = found.map_err(|e| wrong(format!("`{name}` of PyTorch can't be loaded: {e}")))?;
    let shims = Shims::find(&found)?;
    // the functions are used until the process ends
    std::mem::forget(found);
    FILE.get_or_init(|| PathBuf::from(name));
    Ok(SHIMS.get_or_init(|| shims))
}

/// The functions, if they are loaded.
///
/// # Errors
/// E702 if they are not.
pub fn get() -> Result<&'static Shims, Error> {
    SHIMS.get().ok_or_else(|| wrong("PyTorch's functions are not loaded"))
}

/// The file of another library of PyTorch, if its functions are loaded.
pub fn beside(name: &str) -> Option<PathBuf> {
    FILE.get().map(|file| file.with_file_name(name))
}

impl Shims {
    /// The error of a function of libtorch that failed.
    ///
    /// # Errors
    /// E706 with PyTorch's own text, unless the code is 0.
    pub fn done(&self, code: Code) -> Result<(), Error> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the text is valid until the next error of this thread.
        let text = unsafe { CStr::from_ptr((self.torch_exception_get_what_without_backtrace)()) };
        Err(Error::new("E706", format!("PyTorch: {}", text.to_string_lossy())))
    }
}

/// A tensor of PyTorch, which is given back when it is dropped.
pub struct Owned(Handle);

impl Owned {
    /// Takes a handle over.
    pub fn new(handle: Handle) -> Owned {
        Owned(handle)
    }
    /// The handle, still owned.
    pub fn handle(&self) -> Handle {
        self.0
    }
    /// Gives the handle away.
    pub fn into_handle(self) -> Handle {
        let handle = self.0;
        std::mem::forget(self);
        handle
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(shims) = SHIMS.get() {
            // SAFETY: the handle is owned here, and not used any more.
            unsafe { (shims.aoti_torch_delete_tensor_object)(self.0) };
        }
    }
}
