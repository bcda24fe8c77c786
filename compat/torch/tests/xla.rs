//! The handler answers calls as XLA makes them: results are written, and whatever is wrong is an error with a text.

use fulgurite_torch::jax::abi::*;
use fulgurite_torch::jax::handler;
use std::cell::RefCell;
use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr;

thread_local! {
    static SAID: RefCell<String> = RefCell::default();
}

/// Makes an error, as XLA does: it keeps the text, and gives something that is not null.
///
/// # Safety
/// The struct has a text that ends with a zero.
unsafe extern "C" fn create(error: *mut ErrorText) -> *mut XlaError {
    // SAFETY: the caller upholds the contract.
    let text = unsafe { CStr::from_ptr((*error).message) };
    SAID.set(text.to_str().expect("is UTF-8").to_owned());
    ptr::dangling_mut()
}

/// Frees nothing, because an error here is nothing.
///
/// # Safety
/// None is needed.
unsafe extern "C" fn destroy(_: *mut ErrorToDestroy) {}

/// XLA has no pool of threads here.
///
/// # Safety
/// None is needed.
unsafe extern "C" fn threads(_: *mut ThreadsAsked) -> *mut XlaError {
    ptr::dangling_mut()
}

fn values(kinds: &[u32], values: &[*const c_void]) -> CallValues {
    let (len, extensions) = (values.len() as i64, ptr::null_mut());
    let (kinds, values) = (kinds.as_ptr(), values.as_ptr());
    CallValues { struct_size: size_of::<CallValues>(), extensions, len, kinds, values }
}

/// An array of XLA's dtype of this number.
fn array<T>(dtype: u32, sizes: &[i64], data: &mut [T]) -> ArrayBuffer {
    let (struct_size, extensions) = (size_of::<ArrayBuffer>(), ptr::null_mut());
    let (data, rank, sizes) = (data.as_mut_ptr() as *mut u8, sizes.len() as i64, sizes.as_ptr());
    ArrayBuffer { struct_size, extensions, dtype, data, rank, sizes }
}

/// Calls the handler with one argument and one result; the error's text if there is one.
fn call(major: i32, program: &str, argument: &ArrayBuffer, result: &ArrayBuffer) -> Result<(), String> {
    let mut api = MaybeUninit::<XlaApi>::zeroed();
    let to = api.as_mut_ptr();
    // SAFETY: the fields lie in the struct; the handler reads no other one.
    unsafe {
        (&raw mut (*to).struct_size).write(size_of::<XlaApi>());
        (&raw mut (*to).version.major).write(major);
        (&raw mut (*to).error_create).write(create);
        (&raw mut (*to).error_destroy).write(destroy);
        (&raw mut (*to).thread_pool_num_threads).write(threads);
    }
    let span = |text: &'static str| ByteSpan { start: text.as_ptr(), len: text.len() };
    let (name, text) = (span("program"), ByteSpan { start: program.as_ptr(), len: program.len() });
    let (names, texts) = ([&raw const name], [&raw const text as *const c_void]);
    let (arguments, results) = ([argument as *const _ as *const c_void], [result as *const _ as *const c_void]);
    let attributes = CallAttributes {
        struct_size: size_of::<CallAttributes>(),
        extensions: ptr::null_mut(),
        len: 1,
        kinds: &TEXT,
        names: names.as_ptr(),
        values: texts.as_ptr(),
    };
    let mut frame = CallFrame {
        struct_size: size_of::<CallFrame>(),
        extensions: ptr::null_mut(),
        api: to,
        context: ptr::null_mut(),
        stage: EXECUTE,
        arguments: values(&[BUFFER], &arguments),
        results: values(&[BUFFER], &results),
        attributes,
    };
    // SAFETY: everything that the frame points to lives until the end of this function.
    match unsafe { handler::answer(&mut frame) }.is_null() {
        true => Ok(()),
        false => Err(SAID.take()),
    }
}

const NEG: &str = r#"{"program": {"row": "neg", "args": [{"tensor": 0}]}, "sizes": []}"#;
const WIDE: &str = r#"{"program": {"row": "cast", "args": [{"tensor": 0}, {"dtype": "i64"}]}, "sizes": []}"#;
const F32: u32 = 11;
const F64: u32 = 12;
const I32: u32 = 4;

#[test]
fn results_are_written() {
    let (mut x, mut y) = ([1.5f32, -2.0, 0.0], [9.0f32; 3]);
    call(MAJOR, NEG, &array(F32, &[3], &mut x), &array(F32, &[3], &mut y)).expect("runs");
    assert_eq!(y, [-1.5, 2.0, 0.0]);
    // a scalar, and no element at all
    call(MAJOR, NEG, &array(F32, &[], &mut x), &array(F32, &[], &mut y)).expect("runs");
    assert_eq!(y, [-1.5, 2.0, 0.0]);
    call(MAJOR, NEG, &array::<f32>(F32, &[2, 0], &mut []), &array::<f32>(F32, &[2, 0], &mut [])).expect("runs");
    // i64 in a place of i32
    let mut narrow = [0i32; 3];
    call(MAJOR, WIDE, &array(F32, &[3], &mut x), &array(I32, &[3], &mut narrow)).expect("runs");
    assert_eq!(narrow, [1, -2, 0]);
}

#[test]
fn what_is_wrong_is_an_error() {
    let (mut x, mut y, mut wide) = ([1e12f32, -2.0, 0.0], [9.0f32; 3], [9.0f64; 3]);
    let (x, y) = (array(F32, &[3], &mut x), array(F32, &[3], &mut y));
    let refused = |major, text: &str, argument: &ArrayBuffer, result: &ArrayBuffer, said: &str| {
        let error = call(major, text, argument, result).expect_err(said);
        assert!(error.contains(said), "{error}");
    };
    refused(MAJOR + 1, NEG, &x, &y, "XLA's interface has version 1.0");
    refused(MAJOR, "{}", &x, &y, "this is no program");
    refused(MAJOR, &NEG.replace("neg", "no_such_row"), &x, &y, "this library has no row `no_such_row` [E710]");
    refused(MAJOR, NEG, &x, &array(F64, &[3], &mut wide), "a result is f32[3], the compiled call expects f64[3]");
    refused(MAJOR, NEG, &x, &array(F32, &[2], &mut [0.0f32; 2]), "the compiled call expects f32[2]");
    refused(
        MAJOR,
        NEG,
        &array(15, &[1], &mut [0u64]),
        &y,
        "a dtype that rows do not take (number 15 of `PrimitiveType`)",
    );
    refused(MAJOR, WIDE, &x, &array(I32, &[3], &mut [0i32; 3]), "does not fit into i32");
    assert_eq!(wide, [9.0; 3], "something is written");
}

#[test]
fn the_version_is_stated() {
    let version = ApiVersion { struct_size: 24, extensions: ptr::null_mut(), major: -1, minor: -1 };
    let mut metadata = HandlerMetadata { struct_size: HandlerMetadata::SIZE, version, traits: 7 };
    let base = ExtensionBase { struct_size: size_of::<MetadataExtension>(), kind: METADATA, next: ptr::null_mut() };
    let mut extension = MetadataExtension { base, metadata: &mut metadata };
    let none = || values(&[], &[]);
    let (struct_size, extensions) = (size_of::<CallAttributes>(), ptr::null_mut());
    let (kinds, names, values) = (ptr::null(), ptr::null(), ptr::null());
    let mut frame = CallFrame {
        struct_size: size_of::<CallFrame>(),
        extensions: &raw mut extension as *mut ExtensionBase,
        api: ptr::null(),
        context: ptr::null_mut(),
        stage: EXECUTE,
        arguments: none(),
        results: none(),
        attributes: CallAttributes { struct_size, extensions, len: 0, kinds, names, values },
    };
    // SAFETY: the frame and its extension live until the end of this function.
    assert!(unsafe { handler::answer(&mut frame) }.is_null());
    assert_eq!((metadata.version.major, metadata.version.minor, metadata.traits), (MAJOR, MINOR, 0));
}
