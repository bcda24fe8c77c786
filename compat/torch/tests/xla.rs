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
    call_changed(major, program, argument, result, |_, _| ())
}

/// Like [`call`], with a call and functions of XLA that `change` changes.
fn call_changed(
    major: i32,
    program: &str,
    argument: &ArrayBuffer,
    result: &ArrayBuffer,
    change: impl FnOnce(*mut XlaApi, &mut CallFrame),
) -> Result<(), String> {
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
    change(to, &mut frame);
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
    refused(MAJOR, NEG, &array(15, &[1], &mut [0u64]), &y, "rows do not take the dtype complex64");
    refused(MAJOR, WIDE, &x, &array(I32, &[3], &mut [0i32; 3]), "does not fit into i32");
    assert_eq!(wide, [9.0; 3], "something is written");
}

/// Memory of which the first element is aligned as tensors are.
#[repr(align(64))]
struct Aligned([f32; 32]);

#[test]
fn memory_of_any_alignment_is_read() {
    let mut memory = Aligned(std::array::from_fn(|i| i as f32));
    for from in 0..17 {
        let mut made = [0.0f32; 3];
        let x = array(F32, &[3], &mut memory.0[from..from + 3]);
        call(MAJOR, NEG, &x, &array(F32, &[3], &mut made)).expect("runs");
        assert_eq!(made, std::array::from_fn(|i| -((from + i) as f32)));
    }
    assert_eq!(memory.0, std::array::from_fn(|i| i as f32), "an argument is written");
}

/// What a call does not have is not read: a frame, a list or a value of another form is refused.
#[test]
fn a_call_of_another_form_is_refused() {
    let (mut x, mut y) = ([1.5f32, -2.0, 0.0], [9.0f32; 3]);
    let (x, to) = (array(F32, &[3], &mut x), array(F32, &[3], &mut y));
    const OTHER: u32 = 77;
    let name = ByteSpan { start: b"other".as_ptr(), len: 5 };
    let names = [&raw const name];
    type Change<'a> = &'a dyn Fn(&mut CallFrame);
    let changes: [(Change, &str); 6] = [
        (&|frame| frame.struct_size -= 8, "XLA's interface has version"),
        (&|frame| frame.stage = EXECUTE + 1, "which has no handler"),
        (&|frame| frame.results.len = 0, "a program gives 1 results, the call has room for 0"),
        (&|frame| frame.arguments.kinds = &OTHER, "value 0 of a call has kind 77"),
        (&|frame| frame.attributes.kinds = &OTHER, "a call has no text `program`"),
        (&|frame| frame.attributes.names = names.as_ptr(), "a call has no text `program`"),
    ];
    for (change, said) in changes {
        let error = call_changed(MAJOR, NEG, &x, &to, |_, frame| change(frame)).expect_err(said);
        assert!(error.contains(said), "{error}");
    }
    assert_eq!(y, [9.0; 3], "something is written");
}

thread_local! {
    static ASKED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Notes that it is called.
///
/// # Safety
/// None is needed.
unsafe extern "C" fn asked(_: *mut ThreadsAsked) -> *mut XlaError {
    ASKED.set(true);
    ptr::dangling_mut()
}

/// An older XLA has fewer functions: those after its last one are not called.
#[test]
fn functions_that_xla_does_not_have_are_not_called() {
    let (mut x, mut y) = ([1.5f32], [0.0f32]);
    let (x, to) = (array(F32, &[1], &mut x), array(F32, &[1], &mut y));
    let end = std::mem::offset_of!(XlaApi, thread_pool_num_threads);
    for (size, there) in [(size_of::<XlaApi>(), true), (end, false)] {
        let shorten = |api: *mut XlaApi, _: &mut CallFrame| {
            // SAFETY: the fields lie in the struct, which no one else uses.
            unsafe {
                (&raw mut (*api).struct_size).write(size);
                (&raw mut (*api).thread_pool_num_threads).write(asked);
            }
        };
        ASKED.set(false);
        call_changed(MAJOR, NEG, &x, &to, shorten).expect("runs");
        assert_eq!(ASKED.get(), there);
    }
    assert_eq!(y, [-1.5]);
}

/// Metadata of fewer fields are not written.
#[test]
fn metadata_of_another_size_are_left() {
    let version = ApiVersion { struct_size: 24, extensions: ptr::null_mut(), major: -1, minor: -1 };
    let mut metadata = HandlerMetadata { struct_size: HandlerMetadata::SIZE - 1, version, traits: 7 };
    assert!(asked_for(&mut metadata));
    assert_eq!((metadata.version.major, metadata.version.minor, metadata.traits), (-1, -1, 7));
}

#[test]
fn the_version_is_stated() {
    let version = ApiVersion { struct_size: 24, extensions: ptr::null_mut(), major: -1, minor: -1 };
    let mut metadata = HandlerMetadata { struct_size: HandlerMetadata::SIZE, version, traits: 7 };
    assert!(asked_for(&mut metadata));
    assert_eq!((metadata.version.major, metadata.version.minor, metadata.traits), (MAJOR, MINOR, 0));
}

/// Calls the handler as XLA does to ask for metadata; whether it answers without an error.
fn asked_for(metadata: &mut HandlerMetadata) -> bool {
    let base = ExtensionBase { struct_size: size_of::<MetadataExtension>(), kind: METADATA, next: ptr::null_mut() };
    let mut extension = MetadataExtension { base, metadata };
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
    unsafe { handler::answer(&mut frame) }.is_null()
}
