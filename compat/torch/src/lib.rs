//! Rows of an operator database as operators of PyTorch and of JAX: the part that knows no row.
//!
//! A package that `cargo ops export` wrote is a library with a database and this crate. Its Python half loads the
//! library and registers it with PyTorch's dispatcher or with XLA. One library serves both.
//!
//! | module | is |
//! |---|---|
//! | [`program`] | a row with its options, and the derivatives and batches of programs; closed under composition |
//! | [`typed_program`] | a program with the types of its tensors, whose sizes may be symbolic |
//! | [`types`] | the types of a program's results: the fake functions of PyTorch |
//! | [`reads`] | the tensors that a program reads, which must be kept for it |
//! | [`decomposition`] | a program as a Python function over arrays, which compilers fuse |
//! | [`memory`] | memory that another library lends and takes |
//! | [`compiled`] | programs that are compiled and kept |
//! | [`torch`] | kernels of PyTorch's dispatcher |
//! | [`jax`] | the handler of XLA's calls |
//! | [`interface`] | the functions of the library for its Python half |
//!
//! **Invariant:** modules import those above them only.

pub mod compiled;
pub mod decomposition;
pub mod interface;
pub mod jax;
pub mod memory;
pub mod program;
pub mod reads;
pub mod torch;
pub mod typed_program;
pub mod types;

use fulgurite::Error;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An error of this crate: a value of another library that does not fit.
pub(crate) fn wrong(claim: impl Into<String>) -> Error {
    Error::new("E702", claim)
}

/// The text of an error for users of another library: the claim with its code, then notes and helps.
pub fn message(e: &Error) -> String {
    let mut text = format!("{} [{}]", e.claim(), e.code());
    for (word, lines) in [("note", e.notes()), ("help", e.helps())] {
        for line in lines {
            text += &format!("\n  {word}: {line}");
        }
    }
    text
}

/// The result of `f`, or the text of its error for another library. A panic is an error too, because it must not unwind
/// into that library.
pub(crate) fn caught<T>(f: impl FnOnce() -> Result<T, Error>) -> Result<T, CString> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(done) => done.map_err(|e| c_text(message(&e))),
        Err(_) => Err(c_text("the library stopped; this is a bug in fulgurite".to_owned())),
    }
}

/// A text that ends with a zero.
pub(crate) fn c_text(text: String) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// Exports the functions of [`interface`] from the library of a package, which has a database.
#[macro_export]
macro_rules! library {
    () => {
        $crate::library_function!(fulgurite_error() -> *const std::ffi::c_char);
        $crate::library_function!(fulgurite_types(request: *const std::ffi::c_char) -> *mut std::ffi::c_char);
        $crate::library_function!(fulgurite_decomposition(request: *const std::ffi::c_char) -> *mut std::ffi::c_char);
        $crate::library_function!(fulgurite_reads(request: *const std::ffi::c_char) -> *mut std::ffi::c_char);
        $crate::library_function!(fulgurite_free(text: *mut std::ffi::c_char));
        $crate::library_function!(fulgurite_torch_operator(
            library: *const std::ffi::c_char, schema: *const std::ffi::c_char) -> i32);
        $crate::library_function!(fulgurite_jax_call(frame: *mut std::ffi::c_void) -> *mut std::ffi::c_void);
    };
}

/// Exports one function of [`interface`].
#[doc(hidden)]
#[macro_export]
macro_rules! library_function {
    ($name:ident($($arg:ident: $ty:ty),*) $(-> $out:ty)?) => {
        /// See the function of this name in `fulgurite_torch::interface`.
        ///
        /// # Safety
        /// Pointers are what that function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) $(-> $out)? {
            // SAFETY: the caller upholds the contract.
            unsafe { $crate::interface::$name($($arg),*) }
        }
    };
}
