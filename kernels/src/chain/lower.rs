//! The instructions and registers of a chain.
//!
//! The function is a loop over [`CHUNK`] elements, whose body goes over one vector after the other. With masks, the elements
//! that do not fill a chunk come after it. A tile that one
//! operation reads as its last operand is read from memory by that instruction; other tiles have a register from their
//! first use to their last. Numbers that stand for all elements have a register throughout.

use super::assembler::*;
use super::{ChainOperand, InputForm, LONGEST, TileChain, is_condition};
use crate::abi::Level;
use crate::tile::CHUNK;
use fulgurite_core::builtins::Builtin;

/// The registers for pointers to inputs. The first five need not be saved.
const POINTERS: [GeneralRegister; 11] = [1, 8, 9, 10, 11, 3, 5, 12, 13, 14, 15];
const UNSAVED: usize = 5;

/// A number that instructions need, by its bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
enum BitPattern {
    /// The bit of the sign.
    Sign = 0x8000_0000,
    /// The other bits.
    Magnitude = 0x7FFF_FFFF,
    /// 1
    One = 0x3F80_0000,
    /// Every bit.
    Ones = 0xFFFF_FFFF,
    /// No bit.
    Zero = 0,
}

/// The bytes of the function, which writes its result by `store`; `None` if registers run out.
pub fn bytes(chain: &TileChain, isa: Level, store: Opcode) -> Option<Vec<u8>> {
    let mut lower = Lower::new(chain, isa)?;
    lower.begin()?;
    lower.asm.zero_count();
    if lower.asm.has_masks() {
        let none = lower.asm.whole_chunks(CHUNK as u8);
        lower.chunks(store, RSI)?;
        lower.asm.land(none);
        lower.rest()?;
    } else {
        lower.chunks(store, RDI)?;
    }
    lower.saved.iter().rev().for_each(|r| lower.asm.pop(*r));
    lower.asm.leave();
    Some(lower.asm.bytes)
}

/// The registers that hold no value.
struct FreeRegisters(u32);

impl FreeRegisters {
    fn take(&mut self) -> Option<u8> {
        let first = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (first < 32).then_some(first as u8)
    }

    fn give(&mut self, r: u8) {
        self.0 |= 1 << r;
    }

    /// Takes the register of the highest number, and leaves a few for what changes.
    fn keep(&mut self) -> Option<u8> {
        const FEWEST: u32 = 4;
        let last = 31u32.checked_sub(self.0.leading_zeros())?;
        self.0 &= !(1 << last);
        (self.0.count_ones() >= FEWEST).then_some(last as u8)
    }
}

struct Lower<'c> {
    chain: &'c TileChain,
    asm: Assembler,
    vectors: FreeRegisters,
    masks: FreeRegisters,
    numbers: Vec<(BitPattern, VectorRegister)>,
    /// The pointer of each input that is a tile.
    pointers: Vec<GeneralRegister>,
    saved: Vec<GeneralRegister>,
    /// The register of each input, and of each result.
    inputs: Vec<Option<u8>>,
    results: Vec<Option<u8>>,
    /// The number of uses that are still to come, of each input and of each result.
    uses: [Vec<usize>; 2],
}

impl<'c> Lower<'c> {
    fn new(chain: &'c TileChain, isa: Level) -> Option<Lower<'c>> {
        let asm = Assembler::new(isa)?;
        let vectors = FreeRegisters(if asm.vectors() == 32 { u32::MAX } else { (1 << asm.vectors()) - 1 });
        let fits = !chain.operations.is_empty() && chain.operations.len() <= LONGEST;
        fits.then(|| Lower {
            chain,
            asm,
            vectors,
            // the first one is `REST`
            masks: FreeRegisters(0xFC),
            numbers: Vec::new(),
            pointers: vec![0; chain.inputs.len()],
            saved: Vec::new(),
            inputs: vec![None; chain.inputs.len()],
            results: vec![None; chain.operations.len()],
            uses: [Vec::new(), Vec::new()],
        })
    }

    /// The loop over whole chunks, at least one, up to the element in `end`.
    fn chunks(&mut self, store: Opcode, end: GeneralRegister) -> Option<()> {
        let start = self.asm.bytes.len();
        for vector in 0..CHUNK / self.asm.lanes() {
            self.body(vector, store)?;
        }
        self.asm.repeat(start, CHUNK as i32, end);
        Some(())
    }

    /// The elements after the last whole chunk, with masked loads and stores.
    fn rest(&mut self) -> Option<()> {
        let mut jumps = vec![self.asm.rest()];
        self.asm.partial = true;
        for vector in 0..CHUNK / self.asm.lanes() {
            if vector > 0 {
                jumps.push(self.asm.next_rest((vector * self.asm.lanes()) as u8));
            }
            self.body(vector, STORE)?;
        }
        self.asm.partial = false;
        jumps.into_iter().for_each(|jump| self.asm.land(jump));
        Some(())
    }

    /// Saves registers, and loads what all elements share.
    fn begin(&mut self) -> Option<()> {
        let tiles = || self.chain.inputs.iter().enumerate().filter(|(_, form)| **form != InputForm::One);
        if tiles().count() > POINTERS.len() {
            return None;
        }
        for ((k, _), pointer) in tiles().zip(POINTERS) {
            self.pointers[k] = pointer;
        }
        self.saved = POINTERS[..tiles().count()].iter().skip(UNSAVED).copied().collect();
        self.saved.iter().for_each(|r| self.asm.push(*r));
        for k in 0..self.chain.inputs.len() {
            if self.chain.inputs[k] == InputForm::One {
                let register = self.vectors.keep()?;
                self.asm.pointer(RAX, RSI, k);
                self.asm.broadcast(register, RAX);
                self.inputs[k] = Some(register);
            } else {
                self.asm.pointer(self.pointers[k], RSI, k);
            }
        }
        for number in self.needed() {
            let register = self.vectors.keep()?;
            self.asm.constant(register, number as u32);
            self.numbers.push((number, register));
        }
        self.asm.pointer(RDX, RDX, 0);
        Some(())
    }

    /// The numbers of the chain's instructions.
    fn needed(&self) -> Vec<BitPattern> {
        let mut numbers = Vec::new();
        let vectors = !self.asm.has_masks();
        if vectors && self.chain.inputs.contains(&InputForm::Mask) {
            numbers.push(BitPattern::Zero);
        }
        for operation in &self.chain.operations {
            let number = match operation.builtin {
                Builtin::Neg => BitPattern::Sign,
                Builtin::Abs => BitPattern::Magnitude,
                Builtin::Reciprocal | Builtin::Rsqrt => BitPattern::One,
                Builtin::Not if vectors => BitPattern::Ones,
                _ => continue,
            };
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        numbers
    }

    fn number(&self, number: BitPattern) -> Option<VectorRegister> {
        self.numbers.iter().find(|(n, _)| *n == number).map(|(_, register)| *register)
    }

    /// The operations on one vector of a chunk.
    fn body(&mut self, vector: usize, store: Opcode) -> Option<()> {
        self.uses = [vec![0; self.inputs.len()], vec![0; self.results.len()]];
        for arg in self.chain.operations.iter().flat_map(|operation| &operation.args) {
            *self.uses_of(*arg) += 1;
        }
        let last = self.results.len() - 1;
        self.uses[1][last] += 1;
        for at in 0..self.results.len() {
            let operation = &self.chain.operations[at];
            let result = self.operation(operation.builtin, &operation.args, vector)?;
            self.results[at] = Some(result);
            operation.args.iter().for_each(|arg| self.used(*arg));
            if self.uses[1][at] == 0 {
                // nothing reads it, so its register is free again
                self.free(is_condition(operation.builtin), result);
            }
        }
        let result = self.results[last].take()?;
        self.asm.unary(store, result, RegisterOrMemory::Elements(RDX, self.offset(vector, size_of::<f32>())));
        self.vectors.give(result);
        Some(())
    }

    fn offset(&self, vector: usize, bytes: usize) -> i32 {
        (vector * self.asm.lanes() * bytes) as i32
    }

    fn uses_of(&mut self, arg: ChainOperand) -> &mut usize {
        match arg {
            ChainOperand::Input(k) => &mut self.uses[0][k],
            ChainOperand::Result(k) => &mut self.uses[1][k],
        }
    }

    /// Notes a use, the last of which frees the register.
    fn used(&mut self, arg: ChainOperand) {
        let uses = self.uses_of(arg);
        *uses -= 1;
        if *uses > 0 {
            return;
        }
        let (condition, place) = match arg {
            ChainOperand::Input(k) if self.chain.inputs[k] == InputForm::One => return,
            ChainOperand::Input(k) => (self.chain.inputs[k] == InputForm::Mask, &mut self.inputs[k]),
            ChainOperand::Result(k) => (is_condition(self.chain.operations[k].builtin), &mut self.results[k]),
        };
        if let Some(register) = place.take() {
            self.free(condition, register);
        }
    }

    fn free(&mut self, condition: bool, register: u8) {
        if condition && self.asm.has_masks() { self.masks.give(register) } else { self.vectors.give(register) }
    }

    /// A free register for a condition.
    fn condition(&mut self) -> Option<u8> {
        if self.asm.has_masks() { self.masks.take() } else { self.vectors.take() }
    }

    /// The register of an operand, which is read now if it is an input that has none.
    fn register(&mut self, arg: ChainOperand, vector: usize) -> Option<u8> {
        let k = match arg {
            ChainOperand::Result(k) => return self.results[k],
            ChainOperand::Input(k) => k,
        };
        if let Some(register) = self.inputs[k] {
            return Some(register);
        }
        let register = self.vectors.take()?;
        let register = if self.chain.inputs[k] == InputForm::Tile {
            let at = self.offset(vector, size_of::<f32>());
            self.asm.load(register, RegisterOrMemory::Elements(self.pointers[k], at));
            register
        } else {
            let from = RegisterOrMemory::Bytes(self.pointers[k], self.offset(vector, 1));
            self.asm.unary(EXTEND_BYTES, register, from);
            if self.asm.has_masks() {
                let mask = self.masks.take()?;
                self.asm.test(mask, register);
                self.vectors.give(register);
                mask
            } else {
                // 0 minus a byte that is not 0 is negative
                let zero = self.number(BitPattern::Zero)?;
                self.asm.binary(SUB_INTEGERS, register, zero, RegisterOrMemory::Register(register));
                register
            }
        };
        self.inputs[k] = Some(register);
        Some(register)
    }

    /// The memory of a tile that is not read a second time.
    fn memory(&mut self, arg: ChainOperand, vector: usize) -> Option<RegisterOrMemory> {
        match arg {
            ChainOperand::Input(k)
                if self.chain.inputs[k] == InputForm::Tile
                    && self.inputs[k].is_none()
                    && self.uses[0][k] == 1
                    && !self.asm.partial =>
            {
                Some(RegisterOrMemory::Elements(self.pointers[k], self.offset(vector, size_of::<f32>())))
            }
            _ => None,
        }
    }

    fn source(&mut self, arg: ChainOperand, vector: usize) -> Option<RegisterOrMemory> {
        match self.memory(arg, vector) {
            Some(memory) => Some(memory),
            None => self.register(arg, vector).map(RegisterOrMemory::Register),
        }
    }

    /// One operation; returns the register of its result.
    fn operation(&mut self, builtin: Builtin, args: &[ChainOperand], vector: usize) -> Option<u8> {
        use Builtin::*;
        match (builtin, args) {
            (Add | Sub | Mul | Div, &[x, y]) => {
                let op = match builtin {
                    Add => ADD,
                    Sub => SUB,
                    Mul => MUL,
                    _ => DIV,
                };
                let turned = matches!(builtin, Add | Mul)
                    && self.memory(x, vector).is_some()
                    && self.memory(y, vector).is_none();
                let (x, y) = if turned { (y, x) } else { (x, y) };
                let a = self.register(x, vector)?;
                let b = self.source(y, vector)?;
                let to = self.vectors.take()?;
                self.asm.binary(op, to, a, b);
                Some(to)
            }
            (Max | Min, &[x, y]) => {
                // The instruction gives x if one of both is NaN, or if they are equal; a y that is NaN wins.
                let a = self.register(x, vector)?;
                let b = self.register(y, vector)?;
                let (nan, to) = (self.condition()?, self.vectors.take()?);
                self.asm.compare(nan, b, RegisterOrMemory::Register(b), VectorComparison::Unordered);
                self.asm.binary(if builtin == Max { MAX } else { MIN }, to, b, RegisterOrMemory::Register(a));
                self.asm.select(to, nan, RegisterOrMemory::Register(b), to);
                self.free(true, nan);
                Some(to)
            }
            (Neg | Abs, &[x]) => {
                let (op, number) = if builtin == Neg { (XOR, BitPattern::Sign) } else { (AND, BitPattern::Magnitude) };
                let bits = self.number(number)?;
                let a = self.source(x, vector)?;
                let to = self.vectors.take()?;
                self.asm.binary(op, to, bits, a);
                Some(to)
            }
            (Sqrt | Rsqrt | Reciprocal, &[x]) => {
                let mut a = self.source(x, vector)?;
                let to = self.vectors.take()?;
                if builtin != Reciprocal {
                    self.asm.unary(SQRT, to, a);
                    a = RegisterOrMemory::Register(to);
                }
                if builtin != Sqrt {
                    let one = self.number(BitPattern::One)?;
                    self.asm.binary(DIV, to, one, a);
                }
                Some(to)
            }
            (Floor | Ceil | Round | Trunc, &[x]) => {
                let how = match builtin {
                    Floor => Rounding::Down,
                    Ceil => Rounding::Up,
                    Round => Rounding::Nearest,
                    _ => Rounding::TowardsZero,
                };
                let a = self.source(x, vector)?;
                let to = self.vectors.take()?;
                self.asm.round(to, a, how);
                Some(to)
            }
            (Eq | Ne | Lt | Le | Gt | Ge, &[x, y]) => {
                let how = match builtin {
                    Eq => VectorComparison::Equal,
                    Ne => VectorComparison::NotEqual,
                    Lt => VectorComparison::Less,
                    Le => VectorComparison::LessEqual,
                    Gt => VectorComparison::Greater,
                    _ => VectorComparison::GreaterEqual,
                };
                let a = self.register(x, vector)?;
                let b = self.source(y, vector)?;
                let to = self.condition()?;
                self.asm.compare(to, a, b, how);
                Some(to)
            }
            (Isnan, &[x]) => {
                let a = self.register(x, vector)?;
                let to = self.condition()?;
                self.asm.compare(to, a, RegisterOrMemory::Register(a), VectorComparison::Unordered);
                Some(to)
            }
            (And | Or, &[x, y]) => {
                let (a, b) = (self.register(x, vector)?, self.register(y, vector)?);
                let to = self.condition()?;
                if builtin == And {
                    self.asm.and(to, a, b)
                } else {
                    self.asm.or(to, a, b)
                }
                Some(to)
            }
            (Not, &[x]) => {
                let a = self.register(x, vector)?;
                let ones = self.number(BitPattern::Ones).unwrap_or_default();
                let to = self.condition()?;
                self.asm.not(to, a, ones);
                Some(to)
            }
            (Select, &[condition, x, y]) => {
                let c = self.register(condition, vector)?;
                let b = self.register(y, vector)?;
                let a = self.source(x, vector)?;
                let to = self.vectors.take()?;
                self.asm.select(to, c, a, b);
                Some(to)
            }
            _ => None,
        }
    }
}
