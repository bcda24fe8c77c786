//! Chains of pointwise operations on f32 as machine code, which keeps the results between them in registers.
//!
//! A kernel of one builtin reads its operands from the first-level cache and writes its result to it. Code for a whole
//! chain reads each input once and writes one result. The bits are those of the kernels one by one: the instructions
//! are those to which the compiler translates the builtins, and no product and sum are contracted.
//!
//! | module | what it holds |
//! |---|---|
//! | `assembler` | the encoding of vector instructions for AVX2 and AVX-512 |
//! | `lower` | the instructions and registers of a chain |
//! | `memory` | executable memory, shared by equal chains |

#[cfg(target_arch = "x86_64")]
mod assembler;
#[cfg(target_arch = "x86_64")]
mod lower;
mod memory;
#[cfg(test)]
mod tests;

use crate::abi::Level;
use crate::tile::CHUNK;
use fulgurite_core::builtins::Builtin;
use memory::Executable;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

/// At most this many operations in a chain, because registers run out soon after.
pub const LONGEST: usize = 32;

/// The bytes of a line of the caches, and of the longest vector.
const LINE: usize = 64;

/// The form of an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InputForm {
    /// The input is a tile of f32.
    Tile,
    /// One f32 stands for all elements.
    One,
    /// The input is a tile of bool, one byte each.
    Mask,
}

/// An operand of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChainOperand {
    /// The input of this number.
    Input(usize),
    /// The result of the operation of this number, which comes earlier.
    Result(usize),
}

/// A builtin and its operands.
#[derive(Clone, PartialEq, Debug)]
pub struct Operation {
    /// The builtin; [`is_code`] says which ones are possible.
    pub builtin: Builtin,
    /// The operands of the builtin.
    pub args: Vec<ChainOperand>,
}

/// A chain: its result is that of the last operation, which is of f32.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TileChain {
    /// The inputs.
    pub inputs: Vec<InputForm>,
    /// The operations.
    pub operations: Vec<Operation>,
}

/// Whether a chain may have a builtin whose operands are f32, or bool for `and`, `or`, `not` and the condition of
/// `select`.
pub fn is_code(builtin: Builtin) -> bool {
    use Builtin::*;
    matches!(
        builtin,
        Add | Sub
            | Mul
            | Div
            | Max
            | Min
            | Neg
            | Abs
            | Sqrt
            | Rsqrt
            | Reciprocal
            | Floor
            | Ceil
            | Round
            | Trunc
            | Select
    ) || is_condition(builtin)
}

/// Whether the result of a builtin in a chain is a condition.
pub fn is_condition(builtin: Builtin) -> bool {
    use Builtin::*;
    matches!(builtin, Eq | Ne | Lt | Le | Gt | Ge | Isnan | And | Or | Not)
}

impl TileChain {
    /// The machine code. If it `streams`, it writes past the caches where that is possible, for results that leave the
    /// caches before they are read; [`fence`] must come before another thread reads them.
    ///
    /// # Errors
    /// The chain does not fit the registers, or there is no machine code.
    pub fn compile(&self, isa: Level, streams: bool) -> Result<ChainCode, NoCode> {
        #[cfg(target_arch = "x86_64")]
        {
            // BMI2 has the instruction that makes masks; processors with AVX2 have it too
            if isa == Level::Baseline || !std::is_x86_feature_detected!("bmi2") {
                return Err(NoCode::Impossible);
            }
            let function = |store| {
                let bytes = lower::bytes(self, isa, store).ok_or(NoCode::TooLarge)?;
                memory::executable(bytes).ok_or(NoCode::Impossible)
            };
            let streaming = if streams { Some(function(assembler::STREAM)?) } else { None };
            let (inputs, operations) = (self.inputs.len(), self.operations.len());
            let exact = isa == Level::Avx512;
            Ok(ChainCode { cached: function(assembler::STORE)?, streaming, inputs, operations, exact })
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            _ = (isa, streams);
            Err(NoCode::Impossible)
        }
    }
}

/// The reason for which a chain has no machine code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoCode {
    /// The chain has too many values for the registers of this instruction set; a part of it may fit.
    TooLarge,
    /// The processor has no such instructions here, or the system gives no executable memory.
    Impossible,
}

thread_local! {
    /// Whether code of this thread wrote past the caches after the last fence.
    static UNFENCED: Cell<bool> = const { Cell::new(false) };
}

/// Whether other threads may read what this thread wrote; only debug builds know.
pub fn is_fenced() -> bool {
    !(cfg!(debug_assertions) && UNFENCED.get())
}

/// Lets other threads see what code wrote past the caches.
pub fn fence() {
    if cfg!(debug_assertions) {
        UNFENCED.set(false);
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of the architecture has this instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    }
}

/// The machine code of a chain. Clones share it.
#[derive(Clone)]
pub struct ChainCode {
    cached: Arc<Executable>,
    streaming: Option<Arc<Executable>>,
    inputs: usize,
    operations: usize,
    exact: bool,
}

impl fmt::Debug for ChainCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChainCode")
    }
}

impl ChainCode {
    /// The number of operations.
    pub fn operations(&self) -> usize {
        self.operations
    }

    /// Whether the code may write past the caches.
    pub fn streams(&self) -> bool {
        self.streaming.is_some()
    }

    /// Whether the code takes any number of elements, and touches no element after the last.
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// Computes `n` elements, a multiple of [`CHUNK`] unless the code is exact.
    ///
    /// # Safety
    /// `ins` points to a pointer per input of the chain: to `n` elements, or to one. That of `outs` has room for `n`
    /// elements of f32 that no other code uses; it equals inputs or overlaps none. The processor has the instruction
    /// set for which the code was compiled.
    pub unsafe fn run(&self, n: usize, ins: *const *const u8, outs: *const *mut u8) {
        debug_assert!(self.exact || n.is_multiple_of(CHUNK));
        if n == 0 {
            return;
        }
        // SAFETY: the caller upholds the contract, which is that of the code.
        unsafe {
            let out = outs.read();
            // What was just read is in the caches, so it is written there.
            let apart = || (0..self.inputs).all(|k| ins.add(k).read() != out.cast_const());
            let function = match &self.streaming {
                Some(streaming) if out.addr().is_multiple_of(LINE) && apart() => {
                    if cfg!(debug_assertions) {
                        UNFENCED.set(true);
                    }
                    streaming
                }
                _ => &self.cached,
            };
            function.call(n, ins, outs)
        }
    }
}
