//! The function that XLA calls: it runs a program on the memory of a call.
//!
//! A call has one attribute, `program`: a text `{"program": P, "sizes": [5]}`.

use super::abi::*;
use crate::compiled::{CompiledProgram, KeptPrograms};
use crate::memory::{self, Lent};
use crate::program::{DEEPEST, TransformedProgram};
use crate::{caught, wrong};
use fulgurite::core::DType;
use fulgurite::{Error, Tensor, executors};
use serde_json::Value as Json;
use smallvec::SmallVec;
use std::mem::offset_of;
use std::ptr;
use std::sync::{Arc, LazyLock};

static PROGRAMS: LazyLock<KeptPrograms<String>> = LazyLock::new(KeptPrograms::default);

/// Answers a call of XLA: null, or XLA's error with the text of ours.
///
/// # Safety
/// XLA calls it: the frame and what it points to live until the call returns, the arguments are not written, and nothing
/// else uses the memory of the results.
pub unsafe fn answer(frame: *mut CallFrame) -> *mut XlaError {
    // SAFETY: the caller upholds the contract; the first fields are those of every version.
    unsafe {
        if state_version((*frame).extensions) {
            return ptr::null_mut();
        }
        let Some(api) = (*frame).api.as_ref() else {
            // without XLA's functions there is no way to say that nothing was done, and results that were not written
            // must not be used
            eprintln!("fulgurite: XLA calls without its functions; this is a bug in fulgurite or in XLA");
            std::process::abort();
        };
        match caught(|| run(api, &*frame)) {
            Ok(()) => ptr::null_mut(),
            Err(text) => {
                let extensions = ptr::null_mut();
                let (struct_size, message) = (ErrorText::SIZE, text.as_ptr());
                let mut error = ErrorText { struct_size, extensions, message, code: INVALID_ARGUMENT };
                (api.error_create)(&mut error)
            }
        }
    }
}

/// Whether a call asks for metadata; if so, the version is written. XLA refuses a handler whose major version is not its
/// own.
///
/// # Safety
/// Extensions of a call are a list that ends with null.
unsafe fn state_version(mut extension: *mut ExtensionBase) -> bool {
    while !extension.is_null() {
        // SAFETY: the kind says which struct an extension is, and the size says which fields the answer has.
        unsafe {
            if (*extension).kind == METADATA {
                let metadata = (*(extension as *mut MetadataExtension)).metadata;
                if (*metadata).struct_size >= HandlerMetadata::SIZE {
                    let (struct_size, extensions) = (size_of::<ApiVersion>(), ptr::null_mut());
                    (*metadata).version = ApiVersion { struct_size, extensions, major: MAJOR, minor: MINOR };
                    (*metadata).traits = 0;
                }
                return true;
            }
            extension = (*extension).next;
        }
    }
    false
}

/// Runs the program of a call, and writes the results.
///
/// # Safety
/// The contract of [`answer`].
unsafe fn run(api: &XlaApi, frame: &CallFrame) -> Result<(), Error> {
    if api.version.major != MAJOR || frame.struct_size < size_of::<CallFrame>() {
        let (major, minor) = (api.version.major, api.version.minor);
        let claim = format!("XLA's interface has version {major}.{minor}, this library knows {MAJOR}.{MINOR}");
        return Err(wrong(claim).help("make the package again with a fulgurite that knows this release of JAX"));
    }
    if frame.stage != EXECUTE {
        return Err(Error::bug("E706", format!("XLA calls in stage {}, which has no handler", frame.stage)));
    }
    // SAFETY: the caller upholds the contract.
    let (program, arguments, results) =
        unsafe { (program(&frame.attributes)?, lent(&frame.arguments)?, lent(&frame.results)?) };
    // SAFETY: the arguments live until the call has ended, and all tensors that share their memory are dropped before.
    let tensors = arguments.iter().map(|lent| unsafe { lent.tensor() }).collect::<Result<Vec<_>, _>>()?;
    let made = program.call(tensors, threads(api, frame.context))?;
    if made.len() != results.len() {
        let (made, room) = (made.len(), results.len());
        return Err(Error::bug("E706", format!("a program gives {made} results, the call has room for {room}")));
    }
    // SAFETY: nothing else uses the memory of the results.
    made.iter().zip(&results).try_for_each(|(tensor, to)| unsafe { write(tensor, to) })
}

/// Copies a result to its place. JAX has no i64 unless it is asked for, so a result of i64 may have a place of i32.
///
/// # Safety
/// `to` has memory that nothing else uses.
unsafe fn write(tensor: &Tensor, to: &Lent) -> Result<(), Error> {
    let from = tensor.buffer()?;
    let narrow = (from.dtype(), to.dtype) == (DType::I64, DType::I32);
    if from.dtype() != to.dtype && !narrow || from.shape() != to.shape.as_slice() {
        let made = format!("{}{:?}", from.dtype(), from.shape());
        let claim = format!("a result is {made}, the compiled call expects {}{:?}", to.dtype, to.shape);
        return Err(wrong(claim).help("call it with known sizes, so that types are solved for them"));
    }
    if narrow {
        let elements =
            from.as_slice::<i64>().ok_or_else(|| Error::bug("E706", "a result of i64 has other elements"))?;
        for (i, n) in elements.iter().enumerate() {
            let fits = i32::try_from(*n).map_err(|_| {
                let claim = format!("a result has the element {n}, which does not fit into i32");
                wrong(claim).help("call `jax.config.update(\"jax_enable_x64\", True)` first")
            })?;
            // SAFETY: the result has as many elements, and XLA aligns it.
            unsafe { (to.data as *mut i32).add(i).write(fits) }
        }
    } else if to.bytes() > 0 {
        // SAFETY: both have as many bytes; the result's memory is not that of an argument, because XLA keeps both apart.
        unsafe { ptr::copy_nonoverlapping(from.as_bytes().as_ptr(), to.data, to.bytes()) }
    }
    Ok(())
}

/// The compiled program of a call.
///
/// # Safety
/// The attributes are those of a call.
unsafe fn program(attributes: &CallAttributes) -> Result<Arc<CompiledProgram>, Error> {
    for i in 0..attributes.len as usize {
        // SAFETY: there are as many kinds, names and values as the length says, and the kind is that of a text.
        let text = unsafe {
            if *attributes.kinds.add(i) != TEXT || bytes(*attributes.names.add(i)) != b"program" {
                continue;
            }
            bytes(*attributes.values.add(i) as *const ByteSpan)
        };
        let text = std::str::from_utf8(text).map_err(|_| wrong("the text of a program is not UTF-8"))?;
        return PROGRAMS.get(text, || Ok(CompiledProgram::new(read(text)?)));
    }
    Err(wrong("a call has no text `program`"))
}

fn read(text: &str) -> Result<(TransformedProgram, Vec<i64>), Error> {
    let json: Json = serde_json::from_str(text).map_err(|e| wrong(format!("a call is not JSON: {e}")))?;
    let sizes = json.get("sizes").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let sizes = sizes.iter().map(|n| n.as_i64().ok_or_else(|| wrong(format!("this is no size: {n}"))));
    let program = TransformedProgram::of(json.get("program").unwrap_or(&Json::Null), DEEPEST)?;
    Ok((program, sizes.collect::<Result<_, _>>()?))
}

/// The bytes of a text.
///
/// # Safety
/// The text lives as long as the call.
unsafe fn bytes<'a>(text: *const ByteSpan) -> &'a [u8] {
    // SAFETY: the caller upholds the contract.
    unsafe {
        match (*text).len {
            0 => &[],
            len => std::slice::from_raw_parts((*text).start, len),
        }
    }
}

/// The arrays of a call.
///
/// # Safety
/// The values are those of a call.
unsafe fn lent(values: &CallValues) -> Result<SmallVec<[Lent; 6]>, Error> {
    let one = |i: usize| {
        // SAFETY: there are as many kinds and values as the length says.
        let (kind, value) = unsafe { (*values.kinds.add(i), *values.values.add(i)) };
        if kind != BUFFER {
            return Err(wrong(format!("value {i} of a call has kind {kind}; only arrays (kind {BUFFER}) are taken")));
        }
        // SAFETY: the kind says that it is an array, with as many sizes as its rank says.
        let (array, sizes) = unsafe {
            let array = &*(value as *const ArrayBuffer);
            (array, if array.rank == 0 { &[] } else { std::slice::from_raw_parts(array.sizes, array.rank as usize) })
        };
        let shape = sizes.iter().map(|n| *n as usize).collect();
        Ok(Lent { dtype: memory::xla_dtype(array.dtype)?, shape, data: array.data })
    };
    (0..values.len as usize).map(one).collect()
}

/// The number of threads of XLA's pool; that of this library where XLA does not say.
fn threads(api: &XlaApi, context: *mut ExecutionContext) -> usize {
    if api.struct_size <= offset_of!(XlaApi, thread_pool_num_threads) {
        return executors::threads();
    }
    let (mut threads, extensions) = (0, ptr::null_mut());
    let mut asked = ThreadsAsked { struct_size: size_of::<ThreadsAsked>(), extensions, context, threads: &mut threads };
    // SAFETY: the context is that of the call, the number is written, and an error is owned here.
    unsafe {
        let error = (api.thread_pool_num_threads)(&mut asked);
        if !error.is_null() {
            let struct_size = size_of::<ErrorToDestroy>();
            (api.error_destroy)(&mut ErrorToDestroy { struct_size, extensions, error });
            return executors::threads();
        }
    }
    threads.max(1) as usize
}
