//! The structs of XLA's C interface of foreign functions (xla/ffi/api/c_api.h), as far as they are used here.
//!
//! Each struct has its own size as its first field, so that a side can tell whether the other one knows a field. Fields
//! are only added at the end, unless the major version changes.

use std::ffi::{c_char, c_void};
use std::mem::offset_of;

/// The version of the interface that these structs have.
pub const MAJOR: i32 = 0;
/// The minor version of the header from which the structs were taken (jaxlib 0.10.2).
pub const MINOR: i32 = 3;

/// The size of a struct up to the end of its last field, as the header defines it: without padding.
macro_rules! size_to {
    ($of:ty, $last:ident: $ty:ty) => {
        offset_of!($of, $last) + size_of::<$ty>()
    };
}

/// An error of XLA's own.
#[repr(C)]
pub struct XlaError {
    _private: [u8; 0],
}

/// The state of one execution, which only XLA reads.
#[repr(C)]
pub struct ExecutionContext {
    _private: [u8; 0],
}

/// The first fields of an extension of a struct.
#[repr(C)]
pub struct ExtensionBase {
    /// The size of the extension.
    pub struct_size: usize,
    /// The kind of the extension: [`METADATA`].
    pub kind: u32,
    /// The next extension.
    pub next: *mut ExtensionBase,
}

/// The kind of the extension that asks for the handler's version.
pub const METADATA: u32 = 1;

/// A version of the interface.
#[repr(C)]
pub struct ApiVersion {
    /// The size of the struct.
    pub struct_size: usize,
    /// Extensions.
    pub extensions: *mut ExtensionBase,
    /// Changes if the layout of a struct does.
    pub major: i32,
    /// Changes if fields are added.
    pub minor: i32,
}

/// What XLA asks of a handler when it is registered. XLA has filled the fields after these with zeros, which mean that
/// the handler has no state.
#[repr(C)]
pub struct HandlerMetadata {
    /// The size of the struct.
    pub struct_size: usize,
    /// The version that the handler has.
    pub version: ApiVersion,
    /// Bits; none of them concerns the processor.
    pub traits: u32,
}

impl HandlerMetadata {
    /// The size of these fields.
    pub const SIZE: usize = size_to!(HandlerMetadata, traits: u32);
}

/// The extension of a call that asks for metadata.
#[repr(C)]
pub struct MetadataExtension {
    /// The fields of every extension.
    pub base: ExtensionBase,
    /// The answer.
    pub metadata: *mut HandlerMetadata,
}

/// The argument of [`XlaApi::error_create`].
#[repr(C)]
pub struct ErrorText {
    /// The size of the struct.
    pub struct_size: usize,
    /// Extensions.
    pub extensions: *mut ExtensionBase,
    /// The text, which XLA copies.
    pub message: *const c_char,
    /// The kind of error: [`INVALID_ARGUMENT`].
    pub code: u32,
}

impl ErrorText {
    /// The size of these fields.
    pub const SIZE: usize = size_to!(ErrorText, code: u32);
}

/// The kind of an error that the caller can mend.
pub const INVALID_ARGUMENT: u32 = 3;

/// The argument of [`XlaApi::error_destroy`].
#[repr(C)]
pub struct ErrorToDestroy {
    /// The size of the struct.
    pub struct_size: usize,
    /// Extensions.
    pub extensions: *mut ExtensionBase,
    /// The error.
    pub error: *mut XlaError,
}

/// The argument of [`XlaApi::thread_pool_num_threads`].
#[repr(C)]
pub struct ThreadsAsked {
    /// The size of the struct.
    pub struct_size: usize,
    /// Extensions.
    pub extensions: *mut ExtensionBase,
    /// The execution.
    pub context: *mut ExecutionContext,
    /// The answer.
    pub threads: *mut i64,
}

/// A function of XLA that is not used here.
type Unused = *const c_void;

/// The functions of XLA.
#[repr(C)]
pub struct XlaApi {
    /// The size of the struct.
    pub struct_size: usize,
    /// Extensions.
    pub extensions: *mut ExtensionBase,
    /// The version of XLA's side.
    pub version: ApiVersion,
    internal: Unused,
    /// Makes an error, which is owned by the caller.
    pub error_create: unsafe extern "C" fn(*mut ErrorText) -> *mut XlaError,
    error_get_message: Unused,
    /// Frees an error.
    pub error_destroy: unsafe extern "C" fn(*mut ErrorToDestroy),
    handler_register: Unused,
    stream_get: Unused,
    type_register: Unused,
    execution_context_get: Unused,
    state_set: Unused,
    state_get: Unused,
    device_memory_allocate: Unused,
    device_memory_free: Unused,
    thread_pool_schedule: Unused,
    /// The number of threads of XLA's pool; an error if there is no pool.
    pub thread_pool_num_threads: unsafe extern "C" fn(*mut ThreadsAsked) -> *mut XlaError,
}

/// Arguments or results of a call.
#[repr(C)]
pub struct CallValues {
    /// The size of the struct.
    pub struct_size: usize,
    /// Extensions.
    pub extensions: *mut ExtensionBase,
    /// The number of values.
    pub len: i64,
    /// The kind of each one: [`BUFFER`].
    pub kinds: *const u32,
    /// The values.
    pub values: *const *const c_void,
}

/// The kind of an argument or result that is an array.
pub const BUFFER: u32 = 1;

/// The attributes of a call, sorted by name.
#[repr(C)]
pub struct CallAttributes {
    /// The size of the struct.
    pub struct_size: usize,
    /// Extensions.
    pub extensions: *mut ExtensionBase,
    /// The number of attributes.
    pub len: i64,
    /// The kind of each one: [`TEXT`].
    pub kinds: *const u32,
    /// The names.
    pub names: *const *const ByteSpan,
    /// The values.
    pub values: *const *const c_void,
}

/// The kind of an attribute that is a [`ByteSpan`].
pub const TEXT: u32 = 4;

/// A text, which does not end with a zero.
#[repr(C)]
pub struct ByteSpan {
    /// The bytes of the text.
    pub start: *const u8,
    /// The number of bytes.
    pub len: usize,
}

/// An array of a call: dense, row-major unless the call asked for another layout.
#[repr(C)]
pub struct ArrayBuffer {
    /// The size of the struct.
    pub struct_size: usize,
    /// Extensions.
    pub extensions: *mut ExtensionBase,
    /// The number of its dtype: [`crate::memory::xla_dtype`].
    pub dtype: u32,
    /// The elements of the array.
    pub data: *mut u8,
    /// The number of sizes.
    pub rank: i64,
    /// The sizes.
    pub sizes: *const i64,
}

/// A call of a handler. The call that asks for metadata has no `api`.
#[repr(C)]
pub struct CallFrame {
    /// The size of the struct.
    pub struct_size: usize,
    /// Extensions.
    pub extensions: *mut ExtensionBase,
    /// The functions of XLA.
    pub api: *const XlaApi,
    /// The execution.
    pub context: *mut ExecutionContext,
    /// The stage: [`EXECUTE`].
    pub stage: u32,
    /// The arguments.
    pub arguments: CallValues,
    /// The results.
    pub results: CallValues,
    /// The attributes.
    pub attributes: CallAttributes,
}

/// The stage in which a handler runs.
pub const EXECUTE: u32 = 3;

// the sizes that the header gives these structs
const _: () = assert!(HandlerMetadata::SIZE == 36 && ErrorText::SIZE == 28);
const _: () = assert!(size_of::<ApiVersion>() == 24 && size_of::<ThreadsAsked>() == 32);
const _: () = assert!(size_of::<CallValues>() == 40 && size_of::<CallAttributes>() == 48);
const _: () = assert!(size_of::<ArrayBuffer>() == 48 && size_of::<CallFrame>() == 168);
