//! The functions of the library for its Python half. Each is exported under its name by `library!`.

use crate::jax::handler;
use crate::torch::{operator, shims};
use crate::{c_text, caught, decomposition, reads, types, wrong};
use fulgurite::Error;
use serde_json::Value as Json;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};

thread_local! {
    static ERROR: RefCell<CString> = RefCell::default();
}

/// The result of `f`, or `failed` after an error, which [`fulgurite_error`] tells.
fn guarded<T>(failed: T, f: impl FnOnce() -> Result<T, Error>) -> T {
    caught(f).unwrap_or_else(|text| {
        ERROR.set(text);
        failed
    })
}

/// The text at an address.
///
/// # Safety
/// The address is that of a text that ends with a zero and lives long enough.
unsafe fn read<'a>(text: *const c_char) -> Result<&'a str, Error> {
    if text.is_null() {
        return Err(wrong("a text is missing"));
    }
    // SAFETY: the caller upholds the contract.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| wrong("a text is not UTF-8"))
}

/// The text of this thread's last error.
///
/// # Safety
/// The text is read before the next call of this thread.
pub unsafe fn fulgurite_error() -> *const c_char {
    ERROR.with_borrow(|e| e.as_ptr())
}

/// The types of a program's results ([`types::answer`]), to be given back by [`fulgurite_free`]; null after an error.
///
/// # Safety
/// `request` is a text that ends with a zero.
pub unsafe fn fulgurite_types(request: *const c_char) -> *mut c_char {
    // SAFETY: the caller upholds the contract.
    unsafe { answered(request, types::answer) }
}

/// A program as Python over arrays ([`decomposition::answer`]), to be given back by [`fulgurite_free`]; null after an
/// error.
///
/// # Safety
/// `request` is a text that ends with a zero.
pub unsafe fn fulgurite_decomposition(request: *const c_char) -> *mut c_char {
    // SAFETY: the caller upholds the contract.
    unsafe { answered(request, decomposition::answer) }
}

/// The tensors that a program reads ([`reads::answer`]), to be given back by [`fulgurite_free`]; null after an error.
///
/// # Safety
/// `request` is a text that ends with a zero.
pub unsafe fn fulgurite_reads(request: *const c_char) -> *mut c_char {
    // SAFETY: the caller upholds the contract.
    unsafe { answered(request, reads::answer) }
}

/// The answer to a request.
///
/// # Safety
/// `request` is a text that ends with a zero.
unsafe fn answered(request: *const c_char, answer: impl FnOnce(&Json) -> Result<Json, Error>) -> *mut c_char {
    guarded(std::ptr::null_mut(), || {
        // SAFETY: the caller upholds the contract.
        let request = unsafe { read(request) }?;
        let json = serde_json::from_str(request).map_err(|e| wrong(format!("a request is not JSON: {e}")))?;
        Ok(c_text(answer(&json)?.to_string()).into_raw())
    })
}

/// Frees a text that a function of this library returned.
///
/// # Safety
/// `text` is such a text, or null, and is not used any more.
pub unsafe fn fulgurite_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: the caller upholds the contract.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// Registers an operator with PyTorch's dispatcher ([`operator::register`]); -1 after an error. The text has a line each
/// for namespace, name, row (empty for an operator of programs), letters of the arguments, and `list` if the results are
/// one list.
///
/// # Safety
/// Both are texts that end with a zero: the file name of libtorch, and the operator.
pub unsafe fn fulgurite_torch_operator(library: *const c_char, text: *const c_char) -> i32 {
    guarded(-1, || {
        // SAFETY: the caller upholds the contract.
        let (library, text) = unsafe { (read(library)?, read(text)?) };
        shims::load(&c_text(library.to_owned()))?;
        let lines: Vec<&str> = text.split('\n').collect();
        let &[namespace, name, row, parameters, form] = lines.as_slice() else {
            return Err(wrong(format!("an operator is five lines, {} were given", lines.len())));
        };
        let row = if row.is_empty() { None } else { Some(row) };
        let (namespace, name) = (c_text(namespace.to_owned()), c_text(name.to_owned()));
        operator::register(&namespace, &name, row, parameters, form == "list").map(|()| 0)
    })
}

/// Runs the program of a call of XLA ([`handler::answer`]): null, or XLA's error.
///
/// # Safety
/// XLA calls it, as a foreign function.
pub unsafe fn fulgurite_jax_call(frame: *mut c_void) -> *mut c_void {
    // SAFETY: the caller upholds the contract.
    unsafe { handler::answer(frame as *mut _) as *mut c_void }
}
