//! The encoding of the instructions of chains (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2).
//!
//! A vector instruction has one encoding with the VEX prefix, for vectors of 256 bits and sixteen registers, and one
//! with the EVEX prefix, for 512 bits and thirty-two. The opcode is the same.

use crate::abi::Level;

/// A vector register.
pub type VectorRegister = u8;
/// A register of a mask with one bit per lane, from 1 to 7: 0 means no mask.
pub type MaskRegister = u8;
/// A register of 64 bits.
pub type GeneralRegister = u8;

/// The register that counts elements.
pub const RAX: GeneralRegister = 0;
/// The register of the first argument: the number of elements.
pub const RDI: GeneralRegister = 7;
/// The registers of the second argument and the third: the pointers to inputs, and the pointer to that of the output.
pub const RSI: GeneralRegister = 6;
pub const RDX: GeneralRegister = 2;

/// The opcode of an instruction: its table (1: 0F, 2: 0F38, 3: 0F3A), mandatory prefix (1: 66) and last byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opcode(u8, u8, u8);

pub const ADD: Opcode = Opcode(1, 0, 0x58);
pub const MUL: Opcode = Opcode(1, 0, 0x59);
pub const SUB: Opcode = Opcode(1, 0, 0x5C);
pub const MIN: Opcode = Opcode(1, 0, 0x5D);
pub const DIV: Opcode = Opcode(1, 0, 0x5E);
pub const MAX: Opcode = Opcode(1, 0, 0x5F);
pub const SQRT: Opcode = Opcode(1, 0, 0x51);
pub const AND: Opcode = Opcode(1, 0, 0x54);
pub const OR: Opcode = Opcode(1, 0, 0x56);
pub const XOR: Opcode = Opcode(1, 0, 0x57);
/// Subtracts integers of 32 bits.
pub const SUB_INTEGERS: Opcode = Opcode(1, 1, 0xFA);
/// Extends bytes to integers of 32 bits.
pub const EXTEND_BYTES: Opcode = Opcode(2, 1, 0x31);
const LOAD: Opcode = Opcode(1, 0, 0x10);
/// Writes a vector to memory.
pub const STORE: Opcode = Opcode(1, 0, 0x11);
/// Writes a vector to memory, past the caches. The address is a multiple of its size.
pub const STREAM: Opcode = Opcode(1, 0, 0x2B);
const BROADCAST: Opcode = Opcode(2, 1, 0x18);
const COMPARE: Opcode = Opcode(1, 0, 0xC2);
const ROUND: Opcode = Opcode(3, 1, 0x08);
const BLEND_BY_SIGN: Opcode = Opcode(3, 1, 0x4A);
const BLEND_BY_MASK: Opcode = Opcode(2, 1, 0x65);
const TEST_MASK: Opcode = Opcode(2, 1, 0x27);

/// An operand that is a register or memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegisterOrMemory {
    /// The register.
    Register(VectorRegister),
    /// The elements of f32 from the count of elements on, plus an offset in bytes.
    Elements(GeneralRegister, i32),
    /// The bytes from the count of elements on, plus an offset.
    Bytes(GeneralRegister, i32),
    /// The start of the memory to which a register points.
    Start(GeneralRegister),
}

/// A comparison that is false for NaN, and one that is true for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum VectorComparison {
    /// Equal.
    Equal = 0x00,
    /// One of both is NaN.
    Unordered = 0x03,
    /// Not equal, or one of both is NaN.
    NotEqual = 0x04,
    /// Less.
    Less = 0x11,
    /// Less or equal.
    LessEqual = 0x12,
    /// Greater or equal.
    GreaterEqual = 0x1D,
    /// Greater.
    Greater = 0x1E,
}

/// Rounding to an integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Rounding {
    /// The nearest integer, ties to even.
    Nearest = 8,
    /// The integer below.
    Down = 9,
    /// The integer above.
    Up = 10,
    /// The integer nearer to zero.
    TowardsZero = 11,
}

/// The mask of the elements at the end that do not fill a vector.
pub const REST: MaskRegister = 1;

/// A jump forward whose target is not known yet: the place of its distance.
#[must_use]
pub struct Jump(usize);

/// The bytes of a function.
pub struct Assembler {
    pub bytes: Vec<u8>,
    /// Whether only the elements of the mask [`REST`] are read and written.
    pub partial: bool,
    wide: bool,
}

impl Assembler {
    /// No instructions yet; `None` for an instruction set without such code.
    pub fn new(isa: Level) -> Option<Assembler> {
        let wide = isa == Level::Avx512;
        (isa != Level::Baseline).then(|| Assembler { bytes: Vec::with_capacity(512), partial: false, wide })
    }

    /// Whether conditions are in mask registers; otherwise they are vectors, whose signs count.
    pub fn has_masks(&self) -> bool {
        self.wide
    }

    /// The number of vector registers.
    pub fn vectors(&self) -> VectorRegister {
        if self.wide { 32 } else { 16 }
    }

    /// The elements of a vector.
    pub fn lanes(&self) -> usize {
        if self.wide { 16 } else { 8 }
    }

    /// `to = a op b`
    pub fn binary(&mut self, op: Opcode, to: VectorRegister, a: VectorRegister, b: RegisterOrMemory) {
        self.vector(op, to, a, b, 0);
    }

    /// `to = op a`
    pub fn unary(&mut self, op: Opcode, to: VectorRegister, a: RegisterOrMemory) {
        self.vector(op, to, 0, a, 0);
    }

    /// Reads a vector.
    pub fn load(&mut self, to: VectorRegister, from: RegisterOrMemory) {
        self.unary(LOAD, to, from);
    }

    /// Reads one number into all elements.
    pub fn broadcast(&mut self, to: VectorRegister, from: GeneralRegister) {
        self.unary(BROADCAST, to, RegisterOrMemory::Start(from));
    }

    /// Sets all elements to one number, by way of `rax` and the vector register 0.
    pub fn constant(&mut self, to: VectorRegister, bits: u32) {
        self.bytes.push(0xB8);
        self.bytes.extend(bits.to_le_bytes());
        self.bytes.extend([0xC5, 0xF9, 0x6E, 0xC0]);
        self.unary(BROADCAST, to, RegisterOrMemory::Register(0));
    }

    /// Rounds to integers.
    pub fn round(&mut self, to: VectorRegister, a: RegisterOrMemory, how: Rounding) {
        self.unary(ROUND, to, a);
        self.bytes.push(how as u8);
    }

    /// Compares; `to` is a mask register or a vector register.
    pub fn compare(&mut self, to: u8, a: VectorRegister, b: RegisterOrMemory, how: VectorComparison) {
        self.vector(COMPARE, to, a, b, 0);
        self.bytes.push(how as u8);
    }

    /// `to = if condition { a } else { b }`
    pub fn select(&mut self, to: VectorRegister, condition: u8, a: RegisterOrMemory, b: VectorRegister) {
        if self.wide {
            self.vector(BLEND_BY_MASK, to, b, a, condition);
        } else {
            self.vector(BLEND_BY_SIGN, to, b, a, 0);
            self.bytes.push(condition << 4);
        }
    }

    /// The mask of the elements that are not 0.
    pub fn test(&mut self, to: MaskRegister, a: VectorRegister) {
        self.vector(TEST_MASK, to, a, RegisterOrMemory::Register(a), 0);
    }

    /// `to = a op b` on masks: 0x41 is and, 0x45 is or, 0x46 is equality of bits.
    fn masks(&mut self, op: u8, to: MaskRegister, a: MaskRegister, b: MaskRegister) {
        self.bytes.extend([0xC5, 0x84 | (!a & 15) << 3, op, 0xC0 | to << 3 | b]);
    }

    /// Both conditions.
    pub fn and(&mut self, to: u8, a: u8, b: u8) {
        if self.wide { self.masks(0x41, to, a, b) } else { self.binary(AND, to, a, RegisterOrMemory::Register(b)) }
    }

    /// One of the conditions.
    pub fn or(&mut self, to: u8, a: u8, b: u8) {
        if self.wide { self.masks(0x45, to, a, b) } else { self.binary(OR, to, a, RegisterOrMemory::Register(b)) }
    }

    /// The opposite condition; `ones` is a vector whose bits are all 1, for an instruction set without masks.
    pub fn not(&mut self, to: u8, a: u8, ones: VectorRegister) {
        if self.wide {
            // the vector with the number 0 is none, and the opcode 0x44 takes one operand
            self.bytes.extend([0xC5, 0xF8, 0x44, 0xC0 | to << 3 | a]);
        } else {
            self.binary(XOR, to, a, RegisterOrMemory::Register(ones));
        }
    }

    /// Encodes a vector instruction.
    fn vector(&mut self, op: Opcode, reg: u8, first: u8, rm: RegisterOrMemory, mask: MaskRegister) {
        let Opcode(table, prefix, last) = op;
        // Elements that are not read become zero.
        let zeros = if op == STORE { 0 } else { 1 << 7 };
        let mask = match rm {
            RegisterOrMemory::Elements(..) | RegisterOrMemory::Bytes(..) if self.partial => zeros | REST,
            _ => mask,
        };
        let bit = |x: u8, n: u8| (!x >> n & 1) as usize;
        // bits 3 and 4 of the register or of the base
        let (low, high) = match rm {
            RegisterOrMemory::Register(r) => (bit(r, 3), bit(r, 4)),
            RegisterOrMemory::Elements(base, _) | RegisterOrMemory::Bytes(base, _) | RegisterOrMemory::Start(base) => {
                (bit(base, 3), 1)
            }
        };
        let fields = (bit(reg, 3) << 7 | high << 6 | low << 5) as u8;
        if self.wide {
            let of_table = fields | (bit(reg, 4) << 4) as u8 | table;
            let of_prefix = (!first & 15) << 3 | 1 << 2 | prefix;
            let of_length = 2 << 5 | (bit(first, 4) << 3) as u8 | mask;
            self.bytes.extend([0x62, of_table, of_prefix, of_length]);
        } else {
            self.bytes.extend([0xC4, fields | table, (!first & 15) << 3 | 1 << 2 | prefix]);
        }
        self.bytes.push(last);
        let middle = (reg & 7) << 3;
        match rm {
            RegisterOrMemory::Register(r) => self.bytes.push(0xC0 | middle | r & 7),
            RegisterOrMemory::Elements(base, offset) => self.indexed(middle, base, 2, offset),
            RegisterOrMemory::Bytes(base, offset) => self.indexed(middle, base, 0, offset),
            RegisterOrMemory::Start(base) => {
                // the form with an offset, because a base of 5 has no other
                self.bytes.extend([0x80 | middle | 4, 4 << 3 | base & 7]);
                self.bytes.extend(0i32.to_le_bytes());
            }
        }
    }

    /// Memory at `base + rax · 2^scale + offset`.
    fn indexed(&mut self, middle: u8, base: GeneralRegister, scale: u8, offset: i32) {
        self.bytes.extend([0x80 | middle | 4, scale << 6 | RAX << 3 | base & 7]);
        self.bytes.extend(offset.to_le_bytes());
    }

    /// Saves a register on the stack.
    pub fn push(&mut self, r: GeneralRegister) {
        self.bytes.extend(if r < 8 { vec![0x50 + r] } else { vec![0x41, 0x50 + r - 8] });
    }

    /// Restores a register.
    pub fn pop(&mut self, r: GeneralRegister) {
        self.bytes.extend(if r < 8 { vec![0x58 + r] } else { vec![0x41, 0x58 + r - 8] });
    }

    /// `to = table[k]`, a pointer; `table` is below 8 and not 4.
    pub fn pointer(&mut self, to: GeneralRegister, table: GeneralRegister, k: usize) {
        self.bytes.extend([0x48 | (to >> 3) << 2, 0x8B, 0x80 | (to & 7) << 3 | table]);
        self.bytes.extend((8 * k as i32).to_le_bytes());
    }

    /// `rax = 0`
    pub fn zero_count(&mut self) {
        self.bytes.extend([0x31, 0xC0]);
    }

    /// `rax += step`, and a jump to `start` if that is below `end`.
    pub fn repeat(&mut self, start: usize, step: i32, end: GeneralRegister) {
        self.bytes.extend([0x48, 0x05]);
        self.bytes.extend(step.to_le_bytes());
        self.bytes.extend([0x48, 0x39, 0xC0 | end << 3, 0x0F, 0x82]);
        let distance = start as i64 - (self.bytes.len() as i64 + 4);
        self.bytes.extend((distance as i32).to_le_bytes());
    }

    /// `rsi = rdi` without the elements that do not fill a chunk of this many, a power of two up to 128; jumps if none are
    /// left.
    pub fn whole_chunks(&mut self, chunk: u8) -> Jump {
        self.bytes.extend([0x48, 0x89, 0xFE, 0x48, 0x83, 0xE6, chunk.wrapping_neg()]);
        self.jump(0x84)
    }

    /// `rdi -= rax`, which leaves the elements that do not fill a chunk; jumps if there are none. The mask [`REST`] has as
    /// many of the first lanes, and the other bits of `esi` are those of the next lanes.
    pub fn rest(&mut self) -> Jump {
        self.bytes.extend([0x48, 0x29, 0xC7]);
        let none = self.jump(0x84);
        // all bits, then only the lowest `edi` of them
        self.bytes.extend([0xBE, 0xFF, 0xFF, 0xFF, 0xFF, 0xC4, 0xE2, 0x40, 0xF5, 0xF6]);
        self.take_rest();
        none
    }

    /// Goes on to the next sixteen lanes; jumps if no element is in the lanes from `lanes` on.
    pub fn next_rest(&mut self, lanes: u8) -> Jump {
        self.bytes.extend([0x83, 0xFF, lanes]);
        let none = self.jump(0x86);
        self.bytes.extend([0xC1, 0xEE, 16]);
        self.take_rest();
        none
    }

    /// The mask [`REST`] is `esi`.
    fn take_rest(&mut self) {
        self.bytes.extend([0xC5, 0xFB, 0x92, 0xC0 | REST << 3 | RSI]);
    }

    /// A jump forward if the condition of this opcode holds.
    fn jump(&mut self, condition: u8) -> Jump {
        self.bytes.extend([0x0F, condition, 0, 0, 0, 0]);
        Jump(self.bytes.len() - 4)
    }

    /// Lets a jump come here.
    pub fn land(&mut self, Jump(at): Jump) {
        let distance = (self.bytes.len() - (at + 4)) as i32;
        self.bytes[at..at + 4].copy_from_slice(&distance.to_le_bytes());
    }

    /// Leaves the function; the upper halves of the vector registers are cleared, as its caller expects.
    pub fn leave(&mut self) {
        self.bytes.extend([0xC5, 0xF8, 0x77, 0xC3]);
    }
}
