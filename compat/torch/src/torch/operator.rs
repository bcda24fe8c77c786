//! Operators, and the kernel that runs them.
//!
//! A registration with the dispatcher has room for a function and nothing else, so there is one function for each
//! operator: function number i runs the operator in slot i.

use super::cuda;
use super::place::{self, TorchDevice};
use super::schema::{self, ArgumentKind, Parameter};
use super::shims::{self, Boxed, Handle, Owned, RELEASE, Shims};
use crate::compiled::{CompiledProgram, KeptPrograms};
use crate::memory::{self, Lent, own};
use crate::program::{Argument, TransformedProgram};
use crate::{caught, wrong};
use fulgurite::buffer::Buffer;
use fulgurite::core::Name;
use fulgurite::core::foreign::Given;
use fulgurite::executors::cuda::device::Address;
use fulgurite::executors::cuda::executors_on;
use fulgurite::symbol::{self, SymbolRef};
use fulgurite::{Error, Tensor};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::OnceLock;

/// At most this many operators, which is twice the number of rows of the largest database.
const SLOTS: usize = 1024;
/// Results of at least this many bytes stay in the memory in which they were made; smaller ones are copied into memory
/// of PyTorch, which is cheaper than a tensor over memory of ours.
const GIVEN: usize = 1 << 16;

struct Operator {
    parameters: Vec<Parameter>,
    /// The row; none for an operator whose first argument is a program.
    row: Option<SymbolRef>,
    /// Whether the results are one list.
    is_list: bool,
    programs: KeptPrograms<Words>,
}

/// The options of a call and the forms of its tensors as numbers: the key of a program.
type Words = SmallVec<[u64; 12]>;

static OPERATORS: [OnceLock<Operator>; SLOTS] = [const { OnceLock::new() }; SLOTS];

/// Registers an operator, which has a schema, with a kernel for host memory and CUDA devices. Its name is that of the namespace and the
/// operator; `parameters` are those of [`schema::parameters`].
///
/// # Errors
/// E710 if there is no such row; E702 if all slots are taken; PyTorch's error.
pub fn register(
    namespace: &CStr,
    name: &CStr,
    row: Option<&str>,
    parameters: &str,
    is_list: bool,
) -> Result<(), Error> {
    let shims = shims::get()?;
    super::fork::prepare();
    let row = row.map(|row| {
        let missing = || Error::new("E710", format!("this library has no row `{row}`"));
        symbol::find(Name::new(row)).ok_or_else(missing)
    });
    let (parameters, row) = (schema::parameters(parameters)?, row.transpose()?);
    let mut operator = Operator { parameters, row, is_list, programs: KeptPrograms::default() };
    let mut slot = None;
    for (at, place) in OPERATORS.iter().enumerate() {
        // a slot that is taken gives the operator back
        operator = match place.set(operator) {
            Ok(()) => {
                slot = Some(at);
                break;
            }
            Err(back) => back,
        };
    }
    let slot = slot.ok_or_else(|| wrong(format!("a library has at most {SLOTS} operators")))?;
    for key in [c"CPU", c"CUDA"] {
        let mut library: Handle = std::ptr::null_mut();
        let (namespace, key, kernel) = (namespace.as_ptr(), key.as_ptr(), KERNELS[slot / 32][slot % 32]);
        // SAFETY: the texts end with a zero, and the library object is kept, so that the registration lasts.
        unsafe {
            shims.done((shims.aoti_torch_library_init_impl)(namespace, key, FILE.as_ptr(), 1, &mut library))?;
            shims.done((shims.torch_library_impl)(library, name.as_ptr(), kernel, RELEASE))?;
        }
    }
    Ok(())
}

/// The file that PyTorch's messages name.
const FILE: &CStr = c"ops.yaml";

/// The kernel of one slot.
///
/// # Safety
/// The dispatcher calls it: `stack` has the arguments, and room for the results.
unsafe extern "C-unwind" fn kernel<const SLOT: usize>(stack: *mut u64, arguments: u64, results: u64) {
    // SAFETY: the dispatcher calls kernels with as many values as the schema has arguments, and room for the results.
    unsafe { enter(SLOT, stack, arguments as usize, results as usize) }
}

macro_rules! kernels {
    ($($a:literal)*) => { [$(kernels!(@second $a: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)),*] };
    (@second $a:literal: $($b:literal)*) => { [$(kernel::<{ $a * 32 + $b }> as Boxed),*] };
}
/// The function of each slot, 32 in a row.
static KERNELS: [[Boxed; 32]; 32] =
    kernels!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);

thread_local! {
    /// The text of the last error: PyTorch reads it when the function that raises is called.
    static RAISED: RefCell<CString> = RefCell::default();
}

/// Runs the operator of a slot. An error leaves as PyTorch's exception.
///
/// # Safety
/// `stack` has the arguments of the operator's schema, and room for its results.
unsafe fn enter(slot: usize, stack: *mut u64, arguments: usize, results: usize) {
    let ran = caught(|| {
        // SAFETY: the caller upholds the contract.
        let values = unsafe { std::slice::from_raw_parts_mut(stack, arguments.max(results)) };
        run(slot, values, arguments, results)
    });
    let Err(text) = ran else { return };
    let at = text.as_ptr();
    RAISED.set(text);
    if let Ok(shims) = shims::get() {
        // SAFETY: the texts live until the next error of this thread. The exception unwinds through frames that own
        // nothing.
        unsafe { (shims.aoti_torch_check)(false, c"fulgurite".as_ptr(), FILE.as_ptr(), 0, at) }
    }
}

fn run(slot: usize, stack: &mut [u64], arguments: usize, results: usize) -> Result<(), Error> {
    let shims = shims::get()?;
    let operator = OPERATORS.get(slot).and_then(OnceLock::get).ok_or_else(|| wrong("no operator has this kernel"))?;
    let taken = Taken::new(shims, &operator.parameters, &stack[..arguments])?;
    let made = match TorchDevice::of(shims, &taken.tensors)? {
        TorchDevice::Cpu => on_processor(shims, operator, taken)?,
        TorchDevice::Cuda(ordinal) => on_cuda(shims, operator, taken, ordinal)?,
    };
    if operator.is_list {
        stack[0] = list(shims, made)? as u64;
        return Ok(());
    }
    if made.len() != results {
        return Err(wrong(format!("the row gives {} results, the schema has {results}", made.len())));
    }
    for (at, result) in made.into_iter().enumerate() {
        stack[at] = result.into_handle() as u64;
    }
    Ok(())
}

/// The number of threads that PyTorch uses.
fn threads(shims: &Shims) -> Result<usize, Error> {
    let mut threads = 1;
    // SAFETY: the number is written.
    shims.done(unsafe { (shims.torch_get_num_threads)(&mut threads) })?;
    Ok(threads as usize)
}

/// Runs an operator on tensors in host memory.
fn on_processor(shims: &Shims, operator: &Operator, taken: Taken) -> Result<SmallVec<[Owned; 4]>, Error> {
    let make = || Ok(CompiledProgram::new(operator.read(&taken.words)?));
    let program = operator.programs.get(&taken.words[..], make)?;
    let mut tensors = SmallVec::<[Owned; 6]>::new();
    let mut inputs = Vec::with_capacity(taken.tensors.len());
    for tensor in taken.tensors {
        let (tensor, lent) = dense(shims, tensor)?;
        // SAFETY: the tensor is held until the call has ended, and results that share its memory are copied.
        inputs.push(unsafe { lent.tensor() }?);
        tensors.push(tensor);
    }
    let made = own(program.call(inputs, threads(shims)?)?)?;
    drop(tensors);
    made.into_iter().map(|b| handed(shims, b)).collect()
}

/// Runs an operator on tensors of a CUDA device, on PyTorch's current stream. A tensor of rank 0 may be in host memory.
fn on_cuda(shims: &Shims, operator: &Operator, taken: Taken, ordinal: u32) -> Result<SmallVec<[Owned; 4]>, Error> {
    let (device, guard) = cuda::enter(ordinal)?;
    // a word after the arguments; the words of a call of the processor are not longer than they say
    let mut key = taken.words.clone();
    key.push(u64::from(ordinal));
    let make = || Ok(CompiledProgram::on(operator.read(&taken.words)?, executors_on(device.clone())));
    let program = operator.programs.get(&key[..], make)?;
    let mut tensors = SmallVec::<[Owned; 6]>::new();
    let mut inputs = Vec::with_capacity(taken.tensors.len());
    for tensor in taken.tensors {
        let there = TorchDevice::of(shims, std::slice::from_ref(&tensor))? != TorchDevice::Cpu;
        let (tensor, lent) = dense(shims, tensor)?;
        // SAFETY: the tensor is held until the work of the call is enqueued, and PyTorch gives its memory out again in
        // the order of the stream. Results that share its memory are copied.
        inputs.push(unsafe {
            match there {
                true => {
                    let at = Address(lent.data as u64);
                    let made = fulgurite::executors::cuda::lent(&device, at, lent.dtype, &lent.shape);
                    Tensor::from_buffer(made.map_err(cuda::error)?)
                }
                false => lent.tensor()?,
            }
        });
        tensors.push(tensor);
    }
    let made = program.call(inputs, threads(shims)?)?;
    let buffers = made.iter().map(Tensor::buffer).collect::<Result<Vec<_>, _>>()?;
    drop(made);
    let mut results = SmallVec::new();
    for buffer in buffers {
        let (buffer, at) = fulgurite::executors::cuda::own(&device, buffer).map_err(cuda::error)?;
        results.push(given(shims, buffer, at.0 as *mut c_void, TorchDevice::Cuda(ordinal))?);
    }
    drop((tensors, guard));
    Ok(results)
}

/// The arguments of a call, which are owned here.
struct Taken {
    words: Words,
    tensors: SmallVec<[Owned; 6]>,
}

impl Taken {
    /// Takes the arguments from the stack. The words have for each one a mark whether it is there, then its value.
    fn new(shims: &Shims, parameters: &[Parameter], stack: &[u64]) -> Result<Taken, Error> {
        let mut taken = Taken { words: Words::new(), tensors: SmallVec::new() };
        let mut failed = Ok(());
        for (parameter, value) in parameters.iter().zip(stack) {
            // every argument is taken, also after one that failed, because all are owned
            failed = failed.and(taken.argument(shims, *parameter, *value));
        }
        failed.map(|()| taken)
    }

    fn argument(&mut self, shims: &Shims, parameter: Parameter, mut value: u64) -> Result<(), Error> {
        if parameter.optional {
            self.words.push(u64::from(value != 0));
            if value == 0 {
                return Ok(());
            }
            let boxed = value as *mut u64;
            // SAFETY: an optional value that is there is a pointer to it, which is owned here.
            unsafe {
                value = *boxed;
                shims.done((shims.torch_delete_stable_ivalue)(boxed))?;
            }
        }
        match parameter.kind {
            ArgumentKind::Tensor => self.tensors.push(Owned::new(value as Handle)),
            ArgumentKind::Float | ArgumentKind::Int | ArgumentKind::Size | ArgumentKind::Dtype => {
                self.words.push(value)
            }
            ArgumentKind::Bool => self.words.push(value & 0xff),
            ArgumentKind::Text | ArgumentKind::Program => self.text(shims, value as Handle)?,
            ArgumentKind::Ints | ArgumentKind::Repeated | ArgumentKind::Sizes => {
                self.items(shims, value as Handle, |taken, item| taken.words.push(item))?
            }
            ArgumentKind::Tensors => {
                self.items(shims, value as Handle, |taken, item| taken.tensors.push(Owned::new(item as Handle)))?;
            }
        }
        Ok(())
    }

    /// Takes a text: its length, then its bytes, eight in a word.
    fn text(&mut self, shims: &Shims, handle: Handle) -> Result<(), Error> {
        let (mut text, mut length): (*const c_char, _) = (std::ptr::null(), 0);
        // SAFETY: the handle is that of a text of this length, which is owned here and lives until it is deleted.
        unsafe {
            shims.done((shims.torch_string_c_str)(handle, &mut text))?;
            shims.done((shims.torch_string_length)(handle, &mut length))?;
            let bytes = std::slice::from_raw_parts(text as *const u8, length);
            self.words.push(bytes.len() as u64);
            self.words.extend(bytes.chunks(8).map(|chunk| {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                u64::from_le_bytes(word)
            }));
            shims.done((shims.torch_delete_string)(handle))
        }
    }

    /// Takes a list: its length, then its items.
    fn items(&mut self, shims: &Shims, handle: Handle, mut take: impl FnMut(&mut Taken, u64)) -> Result<(), Error> {
        let mut length = 0;
        // SAFETY: the handle is that of a list, which is owned here.
        unsafe {
            shims.done((shims.torch_list_size)(handle, &mut length))?;
            self.words.push(length as u64);
            for i in 0..length {
                let mut item = 0;
                shims.done((shims.torch_list_get_item)(handle, i, &mut item))?;
                take(self, item);
            }
            shims.done((shims.torch_delete_list)(handle))
        }
    }
}

impl Operator {
    /// The program that the words of a call mean, and its sizes.
    fn read(&self, words: &[u64]) -> Result<(TransformedProgram, Vec<i64>), Error> {
        let mut words = words.iter().copied();
        let mut word = || words.next().ok_or_else(|| Error::bug("E706", "the key of a program is too short"));
        let (mut args, mut sizes, mut tensors) = (Vec::new(), Vec::new(), 0);
        let mut program = None;
        let mut tensor = || {
            tensors += 1;
            Argument::Tensor(tensors - 1)
        };
        for parameter in &self.parameters {
            if parameter.optional && word()? == 0 {
                args.push(Argument::Known(Given::None));
                continue;
            }
            let mut size = |size: u64| {
                sizes.push(size as i64);
                Argument::Size(sizes.len() - 1)
            };
            args.push(match parameter.kind {
                ArgumentKind::Tensor => tensor(),
                ArgumentKind::Float => Argument::Known(Given::Float(f64::from_bits(word()?))),
                ArgumentKind::Int => Argument::Known(Given::Int(word()? as i64)),
                ArgumentKind::Size => size(word()?),
                ArgumentKind::Bool => Argument::Known(Given::Bool(word()? != 0)),
                ArgumentKind::Dtype => Argument::Known(Given::DType(memory::torch_dtype(word()? as i32)?)),
                ArgumentKind::Text => Argument::Known(Given::Str(text(&mut word)?)),
                ArgumentKind::Program => {
                    program = Some(TransformedProgram::parse(&text(&mut word)?)?);
                    continue;
                }
                kind @ (ArgumentKind::Ints | ArgumentKind::Repeated) => {
                    let items = (0..word()?).map(|_| Ok(Argument::Known(Given::Int(word()? as i64))));
                    let mut items = items.collect::<Result<Vec<_>, Error>>()?;
                    match kind {
                        ArgumentKind::Repeated if items.len() == 1 => items.swap_remove(0),
                        _ => Argument::List(items),
                    }
                }
                ArgumentKind::Sizes => {
                    let items = (0..word()?).map(|_| Ok(size(word()?)));
                    Argument::List(items.collect::<Result<_, Error>>()?)
                }
                ArgumentKind::Tensors => Argument::List((0..word()?).map(|_| tensor()).collect()),
            });
        }
        let row = self.row.map(|symbol| TransformedProgram::Row { symbol, args });
        let program = program.or(row).ok_or_else(|| Error::bug("E706", "an operator without row or program"))?;
        Ok((program, sizes))
    }
}

/// The text that [`Taken::text`] put into words.
fn text(word: &mut impl FnMut() -> Result<u64, Error>) -> Result<String, Error> {
    let length = word()? as usize;
    let mut bytes = Vec::with_capacity(length.next_multiple_of(8));
    for _ in 0..length.div_ceil(8) {
        bytes.extend(word()?.to_le_bytes());
    }
    bytes.truncate(length);
    String::from_utf8(bytes).map_err(|_| wrong("a text is not UTF-8"))
}

/// The tensor, dense and row-major, and its memory.
fn dense(shims: &Shims, mut tensor: Owned) -> Result<(Owned, Lent), Error> {
    let (mut data, mut rank, mut sizes, mut code) = (std::ptr::null_mut(), 0, std::ptr::null(), 0);
    // SAFETY: the handle is owned here; what the functions write is read while the tensor lives.
    unsafe {
        let mut contiguous = false;
        shims.done((shims.aoti_torch_is_contiguous)(tensor.handle(), &mut contiguous))?;
        if !contiguous {
            let format = (shims.aoti_torch_memory_format_contiguous_format)();
            // the call takes the tensor, and gives another one
            let mut stack = [tensor.into_handle() as u64, format as u64];
            let name = c"aten::contiguous".as_ptr();
            shims.done((shims.torch_call_dispatcher)(name, c"".as_ptr(), stack.as_mut_ptr(), RELEASE))?;
            tensor = Owned::new(stack[0] as Handle);
        }
        let handle = tensor.handle();
        shims.done((shims.aoti_torch_get_data_ptr)(handle, &mut data))?;
        shims.done((shims.aoti_torch_get_dim)(handle, &mut rank))?;
        shims.done((shims.aoti_torch_get_sizes)(handle, &mut sizes))?;
        shims.done((shims.aoti_torch_get_dtype)(handle, &mut code))?;
        let sizes = if rank == 0 { &[] } else { std::slice::from_raw_parts(sizes, rank as usize) };
        let shape = sizes.iter().map(|n| *n as usize).collect();
        Ok((tensor, Lent { dtype: memory::torch_dtype(code)?, shape, data: data as *mut u8 }))
    }
}

/// The number of a dtype in PyTorch, the sizes, and the strides of a dense tensor.
type TorchForm = (i32, SmallVec<[i64; 6]>, SmallVec<[i64; 6]>);

fn form(b: &Buffer) -> Result<TorchForm, Error> {
    let code = memory::torch_code(b.dtype());
    let code = code.ok_or_else(|| wrong(format!("PyTorch has no {} tensors here", b.dtype())))?;
    let shape: SmallVec<[i64; 6]> = b.shape().iter().map(|n| *n as i64).collect();
    let mut strides: SmallVec<[i64; 6]> = SmallVec::from_elem(1, shape.len());
    for i in (0..shape.len().saturating_sub(1)).rev() {
        strides[i] = strides[i + 1] * shape[i + 1].max(1);
    }
    Ok((code, shape, strides))
}

/// A result as a tensor of PyTorch: large ones in the memory in which they are, small ones copied.
fn handed(shims: &Shims, b: Buffer) -> Result<Owned, Error> {
    let bytes = b.byte_len();
    let data = b.as_bytes().as_ptr();
    if bytes >= GIVEN {
        return given(shims, b, data as *mut c_void, TorchDevice::Cpu);
    }
    let (code, shape, strides) = form(&b)?;
    let (rank, mut handle): (i64, Handle) = (shape.len() as i64, std::ptr::null_mut());
    // SAFETY: the tensor that is made has as many bytes as the buffer.
    unsafe {
        let (shape, strides) = (shape.as_ptr(), strides.as_ptr());
        shims.done((shims.aoti_torch_empty_strided)(rank, shape, strides, code, place::CPU, 0, &mut handle))?;
        let tensor = Owned::new(handle);
        let mut to = std::ptr::null_mut();
        shims.done((shims.aoti_torch_get_data_ptr)(handle, &mut to))?;
        if bytes > 0 {
            std::ptr::copy_nonoverlapping(data, to as *mut u8, bytes);
        }
        Ok(tensor)
    }
}

/// A tensor of PyTorch in the memory of a buffer that is not shared and lies at `data` on a device.
fn given(shims: &Shims, b: Buffer, data: *mut c_void, device: TorchDevice) -> Result<Owned, Error> {
    let (code, shape, strides) = form(&b)?;
    let (kind, number) = match device {
        TorchDevice::Cpu => (place::CPU, -1),
        TorchDevice::Cuda(ordinal) => (place::CUDA, ordinal as i32),
    };
    let (rank, mut handle): (i64, Handle) = (shape.len() as i64, std::ptr::null_mut());
    let owner = Box::into_raw(Box::new(b)) as *mut c_void;
    // SAFETY: the buffer is unique, and lives until PyTorch calls `give_back`.
    unsafe {
        let (shape, strides) = (shape.as_ptr(), strides.as_ptr());
        let none = std::ptr::null();
        let made = (shims.torch_from_blob)(
            data,
            rank,
            shape,
            strides,
            0,
            code,
            kind,
            number,
            &mut handle,
            0,
            none,
            0,
            give_back,
            owner,
        );
        if let Err(e) = shims.done(made) {
            give_back(data, owner);
            return Err(e);
        }
    }
    Ok(Owned::new(handle))
}

/// Drops the buffer of a tensor that PyTorch deletes.
///
/// # Safety
/// `owner` is a box of a buffer, which is not used any more.
unsafe extern "C" fn give_back(_: *mut c_void, owner: *mut c_void) {
    // SAFETY: the caller upholds the contract.
    drop(unsafe { Box::from_raw(owner as *mut Buffer) });
}

fn list(shims: &Shims, made: SmallVec<[Owned; 4]>) -> Result<Handle, Error> {
    let mut list: Handle = std::ptr::null_mut();
    // SAFETY: the list takes the tensors.
    unsafe {
        shims.done((shims.torch_new_list_reserve_size)(made.len(), &mut list))?;
        for tensor in made {
            shims.done((shims.torch_list_push_back)(list, tensor.into_handle() as u64))?;
        }
    }
    Ok(list)
}
