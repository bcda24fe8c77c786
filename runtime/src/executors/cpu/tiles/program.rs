//! The compiled form of a fusion: loops, memory accesses, and steps over tiles.
//!
//! The loops are `outer… · row · seg… · last`. A *line* is one run of the last loop. A *row* is all lines of one
//! setting of the outer loops and the row loop, which is one line if there are no segs. Rows are walked over in blocks,
//! once per *phase*: the phases after a reduction over rows read its result. A *tile* is a few columns of one line, or
//! of several short lines; registers hold one tile each and stay in the first-level cache.
//!
//! Steps address their operands through slots, which are pointers. The slots of a step are contiguous, so a kernel
//! receives them without a copy. A few slots move with the tile; all others are set once.

use crate::executors::fusion::graph::ValueId;
use crate::executors::program::host_step::{HostStep, Memory, Stopped};
use fulgurite_core::builtins::Builtin;
use fulgurite_core::kernel::Combine;
use fulgurite_core::kernel::TileFn;
use fulgurite_core::lang::ast::Red;
use fulgurite_core::refusals::INTEGER_DIVISIONS;
use fulgurite_core::{DType, counted};
use fulgurite_kernels::chain::ChainCode;
use fulgurite_kernels::copy::{gather2d, scatter2d};
use fulgurite_kernels::gather::{ScatterFn, ScatterLineFn, add_line, gather, gather_line, outside};
use fulgurite_kernels::reduce::FoldFn;
use fulgurite_kernels::{fill, reduce};
use smallvec::SmallVec;

/// At most this many elements in a tile, because a few tiles should fit the first-level cache together.
pub const TILE: usize = 256;
/// At most this many elements in a tile of several lines whose places in memory are known before it runs.
pub const LINES: usize = 1024;
/// The elements of a line that a walk takes at once if no step needs a register; memory and kept rows of this length
/// stay in the first-level cache.
pub const WHOLE: usize = 1024;
/// Kernels work on multiples of this many elements; registers are padded to it.
pub const CHUNK: usize = 32;
/// At most this many loops after merging, because a worker holds its indices in an array.
pub const MAX_LOOPS: usize = 16;

/// An affine function of the loops: `base + Σ coefficient · loop`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lin {
    /// The constant.
    pub base: i64,
    /// One coefficient per loop.
    pub coefs: SmallVec<[i64; 6]>,
}

impl Lin {
    /// The value of the function at `idx`. Offsets that a condition drops may wrap.
    #[inline(always)]
    pub fn at(&self, idx: &[i64; MAX_LOOPS]) -> i64 {
        // Programs usually have few loops. LLVM would turn a loop over them into vectors, whose 64-bit products are
        // slow.
        let plus = |sum: i64, c: i64, i: i64| sum.wrapping_add(c.wrapping_mul(i));
        match *self.coefs.as_slice() {
            [a, b] => plus(plus(self.base, a, idx[0]), b, idx[1]),
            [a, b, c] => plus(plus(plus(self.base, a, idx[0]), b, idx[1]), c, idx[2]),
            [a, b, c, d] => plus(plus(plus(plus(self.base, a, idx[0]), b, idx[1]), c, idx[2]), d, idx[3]),
            ref coefs => coefs.iter().zip(idx).fold(self.base, |sum, (c, i)| plus(sum, *c, *i)),
        }
    }
}

/// The number of a pointer that steps use.
pub type Slot = u32;

/// The value of a slot before any tile.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SlotInit {
    /// The slot points to a tile of one constant, in the program's pool.
    Const(u32),
    /// The slot points to an offset in the workspace.
    Work(u32),
    /// The slot is set as the tile moves.
    Moving,
}

/// An access to memory, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Cursor {
    /// The dense value.
    pub value: ValueId,
    /// The offset at each setting of the loops.
    pub at: Lin,
    /// The bytes of an element.
    pub bytes: usize,
    /// Whether the access writes.
    pub writes: bool,
    /// Whether a [`Step::Seek`] moves the cursor; such a cursor has one user.
    pub sought: bool,
}

impl Cursor {
    /// Whether each setting of the loops, which have these `sizes`, has a place of its own. If a loop does not move a
    /// cursor, several workers use one place.
    pub fn is_own(&self, sizes: &[usize]) -> bool {
        sizes.iter().zip(&self.at.coefs).all(|(n, coef)| *n == 1 || *coef != 0)
    }
}

/// A cursor whose memory serves as a register, because tiles have the same layout in both.
#[derive(Clone, Debug)]
pub struct InPlace {
    /// The cursor.
    pub cursor: u32,
    /// The bytes of an element.
    pub bytes: usize,
    /// The slots that point to the memory, at least one.
    pub slots: SmallVec<[Slot; 4]>,
    /// The offset in the workspace of the register that replaces the memory for a tile that is not a multiple of
    /// [`CHUNK`].
    pub edge: u32,
    /// Whether this walk reads from the memory.
    pub reads: bool,
    /// Whether this walk writes to the memory.
    pub writes: bool,
    /// Whether this walk prefetches the memory of its own next tiles.
    pub ahead: bool,
}

/// A software prefetch for a later walk.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The cursor through which that walk reads or writes.
    pub cursor: u32,
    /// The distance in bytes to the rows that are prefetched.
    pub further: i64,
    /// The step of a tile before which the memory is prefetched.
    pub step: usize,
}

impl Ask {
    /// At most this many prefetches on one walk, because their addresses are held in an array.
    pub const MOST: usize = 4;
}

/// A slot that moves through the workspace, over rows kept between phases or over one number per row.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The slot.
    pub slot: Slot,
    /// The offset in the workspace of the block's rows.
    pub at: u32,
    /// The distance in bytes from line to line.
    pub line: usize,
    /// The bytes of an element; 0 if there is one number per row.
    pub elem: usize,
}

/// A slot that moves from tile to tile of a line.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// The slot.
    pub slot: Slot,
    /// The distance in bytes from element to element.
    pub elem: usize,
}

/// A fold of a whole line of kept rows. Consecutive blocks of a line overlap in time; tiles between other steps would
/// wait.
#[derive(Clone, Copy, Debug)]
pub struct LineFold {
    /// The fold.
    pub f: FoldFn,
    /// The first of the slots that move along the lines.
    pub src: Slot,
    /// The offset of the accumulators in the workspace.
    pub acc: u32,
}

/// One index of a gather or scatter.
#[derive(Clone, Debug)]
pub struct Coord {
    /// The register of i64 indices.
    pub slot: Slot,
    /// The distance in bytes from one index to the next.
    pub stride: i64,
    /// The size of the axis.
    pub size: i64,
    /// The axis, for messages.
    pub axis: usize,
}

/// One step of a program.
#[derive(Clone, Debug)]
pub enum Step {
    /// A kernel on registers.
    Kernel {
        /// The function.
        f: TileFn,
        /// The first input slot.
        ins: Slot,
        /// The first output slot.
        outs: Slot,
        /// The first of the kernel's numbers.
        nums: u32,
    },
    /// A chain of builtins.
    Chain {
        /// The machine code.
        code: ChainCode,
        /// The first input slot.
        ins: Slot,
        /// The output slot.
        outs: Slot,
    },
    /// A builtin without a kernel, computed element by element.
    Scalar {
        /// The builtin.
        builtin: Builtin,
        /// The number of inputs.
        arity: u8,
        /// The first input slot.
        ins: Slot,
        /// The output slot.
        outs: Slot,
        /// The dtype of the inputs.
        from: DType,
        /// The dtype of the output.
        to: DType,
    },
    /// Copies a rectangle of memory into a register.
    Load {
        /// The copy function.
        f: gather2d::Fn,
        /// The source.
        cursor: u32,
        /// The target register.
        dst: Slot,
    },
    /// Copies a register into a rectangle of memory.
    Store {
        /// The copy function.
        f: scatter2d::Fn,
        /// The target.
        cursor: u32,
        /// The source register.
        src: Slot,
    },
    /// Copies a rectangle that may lie partly outside of its tensor.
    Guarded(Box<GuardedLoad>),
    /// Fills each line with the value of its row.
    Splat {
        /// The fill function.
        f: fill::splat_lines::Fn,
        /// The tile register.
        dst: Slot,
        /// The offset of the row register in the workspace.
        src: u32,
        /// The bytes of an element.
        bytes: u32,
    },
    /// Writes positions.
    Index {
        /// The fill function.
        f: fill::positions::Fn,
        /// The target register.
        dst: Slot,
        /// The positions as a function of the loops.
        lin: Lin,
    },
    /// Compares positions with zero, or with one number per row.
    Test {
        /// The target register.
        dst: Slot,
        /// The positions as a function of the loops.
        lin: Lin,
        /// The offset in the workspace of the row register with the numbers, as i64.
        with: Option<u32>,
        /// Whether the comparison is `== 0`; otherwise it is `>= 0`.
        equal: bool,
    },
    /// Draws random numbers.
    Uniform {
        /// The function for consecutive positions.
        f: fill::uniform_run::Fn,
        /// The target register.
        dst: Slot,
        /// The cursor of the key.
        key: u32,
        /// The number of the draw.
        draw: u32,
        /// The positions of the numbers.
        at: Positions,
    },
    /// Reads elements at places that registers name.
    Gather {
        /// The copy functions.
        f: Gathers,
        /// The cursor of index 0.
        cursor: u32,
        /// The indices.
        coords: Vec<Coord>,
        /// The target register.
        dst: Slot,
    },
    /// Moves a cursor by indices in row registers; the tile has one line.
    Seek {
        /// The cursor.
        cursor: u32,
        /// The indices; `slot` is the offset of a row register in the workspace.
        coords: Vec<Coord>,
    },
    /// Combines elements into places that registers name.
    Scatter(Box<Scatter>),
    /// Folds lines into the accumulators of their rows.
    Fold {
        /// The fold function.
        f: FoldFn,
        /// The first source register.
        src: Slot,
        /// The bytes of an element.
        bytes: usize,
        /// The offset of the accumulators in the workspace.
        acc: u32,
    },
    /// Searches lines for the extremum of their rows.
    Search {
        /// The search function.
        f: reduce::extremum::Fn,
        /// The source register.
        src: Slot,
        /// The bytes of an element.
        bytes: usize,
        /// The register that masks elements, if there is one.
        mask: Option<Slot>,
        /// Whether the largest element is searched; otherwise the smallest.
        max: bool,
        /// The offset of the accumulators in the workspace.
        acc: u32,
    },
    /// Folds tiles into an accumulator of the panel.
    Accumulate {
        /// The number of the accumulator.
        acc: u32,
        /// The index of its first number among the panel's.
        first: usize,
        /// The fold, line by line into one number or element by element.
        f: FoldFn,
        /// The first source register.
        src: Slot,
        /// The bytes of an element.
        bytes: usize,
    },
    /// Clears the accumulators of a block's rows.
    Clear {
        /// The offset of the accumulators in the workspace.
        acc: u32,
        /// The starting value; `None` for positions of extrema.
        start: Option<u64>,
    },
    /// Converts the accumulators of a block's rows to a row register.
    Finish {
        /// The offset of the accumulators in the workspace.
        acc: u32,
        /// The reduction; `None` for positions of extrema.
        red: Option<Red>,
        /// The register type.
        dtype: DType,
        /// The number of elements of a row, for means.
        count: usize,
        /// The offset of the row register in the workspace.
        dst: u32,
    },
    /// Refuses integers that are zero.
    NonZero {
        /// The source register.
        src: Slot,
        /// The dtype of the register.
        dtype: DType,
        /// The builtin that divides.
        builtin: Builtin,
    },
}

/// The positions of random numbers.
#[derive(Clone, Debug)]
pub enum Positions {
    /// The positions are a function of the loops.
    Lin(Lin),
    /// The positions are in an i64 register.
    Slot(Slot),
}

/// The operands of [`Step::Guarded`].
#[derive(Clone, Debug)]
pub struct GuardedLoad {
    /// The copy function.
    pub f: gather2d::Fn,
    /// The fill function.
    pub fill: fill::splat_lines::Fn,
    /// The source.
    pub cursor: u32,
    /// The target register.
    pub dst: Slot,
    /// Positions, each of which must be at least 0 and below a size.
    pub axes: Vec<(Lin, i64)>,
    /// The stored form of the element that stands for positions outside.
    pub value: [u8; 8],
}

/// The functions that copy elements at places that registers name.
#[derive(Clone, Copy, Debug)]
pub struct Gathers {
    /// The copy of a tile.
    pub tile: gather::Fn,
    /// The copy of a line with one index per element.
    pub line: gather_line::Fn,
    /// The range check of such indices.
    pub outside: outside::Fn,
}

/// The operands of [`Step::Scatter`].
#[derive(Clone, Debug)]
pub struct Scatter {
    /// The function for single elements.
    pub f: ScatterFn,
    /// The function for a line with one index per element.
    pub named: ScatterLineFn,
    /// The function for whole lines, if the indices depend on the row alone.
    pub line: add_line::Fn,
    /// The bytes of an element.
    pub bytes: usize,
    /// The cursor of index 0.
    pub cursor: u32,
    /// The register of the elements.
    pub src: Slot,
    /// The indices in registers.
    pub coords: Vec<Coord>,
    /// Positions, each of which must be at least 0 and below a size.
    pub axes: Vec<(Lin, i64)>,
    /// The register that masks elements, if there is one.
    pub mask: Option<Slot>,
    /// The way to combine an element with the one in its place.
    pub how: Combine,
    /// The search for an index out of range, if that is an error; otherwise such elements are dropped.
    pub strict: Option<outside::Fn>,
    /// Whether the coordinates are row registers (offsets in the workspace) and the memory has the layout of registers.
    pub rows: bool,
}

/// The steps of one walk over a block of rows.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// Steps on row registers before the walk.
    pub before: Vec<Step>,
    /// Steps once per group of lines.
    pub lines: Vec<Step>,
    /// The cursors whose memory serves as registers.
    pub in_place: Vec<InPlace>,
    /// The slots in kept rows.
    pub kept: Vec<Kept>,
    /// The slots of `in_place` and `kept` that move.
    pub moves: Vec<Move>,
    /// Prefetches for later walks, in the order of their steps.
    pub asks: SmallVec<[Ask; Ask::MOST]>,
    /// Whether a cursor of this walk is prefetched a few tiles ahead.
    pub ahead: bool,
    /// Whether a step works on tile registers; a walk without one takes whole lines, if these are short enough.
    pub tiled: bool,
    /// Steps once per tile.
    pub tiles: Vec<Step>,
    /// Whether the steps of a tile touch no element after its last, so that memory serves as a register whatever the
    /// number of elements.
    pub exact: bool,
    /// The number of steps before those that fold lines which earlier steps of the tile may have written.
    pub makers: usize,
    /// Folds once per line, after all of its tiles.
    pub folds: Vec<LineFold>,
    /// Steps on row registers after the walk.
    pub after: Vec<Step>,
}

/// A reduction whose result is not read within the program.
#[derive(Clone, Debug)]
pub struct Acc {
    /// The value that the reduction defines.
    pub value: ValueId,
    /// The kind of reduction.
    pub red: Red,
    /// Whether accumulators are f64; otherwise they are i64.
    pub float: bool,
    /// The register type of the result.
    pub dtype: DType,
    /// The number of elements that each result combines.
    pub count: usize,
    /// The place of a tile among the panel's accumulators.
    pub at: Lin,
    /// The number of accumulators per panel.
    pub len: usize,
    /// The sizes and strides (in elements) of the result over the loops of slices.
    pub slices: Vec<(usize, i64)>,
    /// The sizes and strides (in elements) of the result over the accumulators.
    pub inner: Vec<(usize, i64)>,
}

/// The initial content of a scattered value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefill {
    /// The value.
    pub value: ValueId,
    /// The value that is copied; zeros if there is none.
    pub base: Option<ValueId>,
}

/// Memory of the size and alignment of a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct CacheLine(pub [u8; 64]);

/// A compiled fusion.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The extents of the loops.
    pub sizes: SmallVec<[usize; 6]>,
    /// The number of outer loops; the row loop follows them.
    pub outer: usize,
    /// The rows per walk.
    pub block: usize,
    /// The rows per unit of work, a multiple of `block`.
    pub unit_rows: usize,
    /// The columns per unit of work.
    pub unit_cols: usize,
    /// The number of outer loops (perhaps with the row loop) over which every accumulated result varies; they make the
    /// slices.
    pub slice_loops: usize,
    /// The number of units that share accumulators, which is a panel. Slices consist of whole panels.
    pub panel: usize,
    /// The lines and columns of a tile.
    pub tile: (usize, usize),
    /// The memory accesses.
    pub cursors: Vec<Cursor>,
    /// The initial slots.
    pub slots: Vec<SlotInit>,
    /// The numbers that kernels read.
    pub nums: Vec<u64>,
    /// The tiles of constants.
    pub consts: Vec<CacheLine>,
    /// Steps on scalars, once per worker, in registers as wide as a tile.
    pub once: Vec<Step>,
    /// Steps on tiles of columns that repeat from line to line, once per worker.
    pub patterns: Vec<Step>,
    /// The walks.
    pub phases: Vec<Phase>,
    /// The reductions whose results are not read within the program.
    pub accs: Vec<Acc>,
    /// The scattered values.
    pub prefill: Vec<Prefill>,
    /// The bytes of the workspace.
    pub work: usize,
    /// Whether a step writes past the caches.
    pub streams: bool,
    /// Whether units must run in order on one thread.
    pub sequential: bool,
    /// The estimated nanoseconds of a run on one thread.
    pub cost: f64,
    /// Pairs (written value, read value) that may share memory.
    pub alias: Vec<(ValueId, ValueId)>,
}

impl Program {
    /// The number of the row loop.
    pub fn row(&self) -> usize {
        self.outer
    }
    /// The number of the last loop.
    pub fn last(&self) -> usize {
        self.sizes.len() - 1
    }
    /// The loop along which a tile's lines lie.
    pub fn line_loop(&self) -> usize {
        if self.has_segs() { self.last() - 1 } else { self.outer }
    }
    /// Whether a row has several lines.
    pub fn has_segs(&self) -> bool {
        self.sizes.len() > self.outer + 2
    }
    /// The number of units of work.
    pub fn units(&self) -> usize {
        let outer: usize = self.sizes[..self.outer].iter().product();
        outer * self.row_units() * self.col_units()
    }
    /// The number of units along the row loop.
    pub fn row_units(&self) -> usize {
        self.sizes[self.outer].div_ceil(self.unit_rows)
    }
    /// The number of units along the last loop.
    pub fn col_units(&self) -> usize {
        self.sizes[self.last()].div_ceil(self.unit_cols)
    }
    /// The number of elements from line to line of kept rows.
    pub fn kept_pitch(&self) -> usize {
        let last = self.sizes[self.last()];
        if self.tile.0 == 1 { padded(last) } else { last }
    }
    /// The number of slices of the accumulated results.
    pub fn slices(&self) -> usize {
        self.sizes[..self.slice_loops].iter().product()
    }
    /// The number of panels of a slice.
    pub fn panels(&self) -> usize {
        (self.units() / self.slices().max(1)).div_ceil(self.panel.max(1))
    }
    /// The number of accumulators of a panel.
    pub fn acc_len(&self) -> usize {
        self.accs.iter().map(|a| a.len).sum()
    }
}

impl HostStep for Program {
    fn may_stop(&self) -> bool {
        let stops = |step: &Step| match step {
            Step::Gather { .. } | Step::Seek { .. } | Step::Scatter(_) | Step::NonZero { .. } => true,
            Step::Scalar { builtin, from, .. } => !from.is_float() && INTEGER_DIVISIONS.contains(builtin),
            _ => false,
        };
        let all = |p: &Phase| [&p.before, &p.lines, &p.tiles, &p.after].into_iter().flatten().any(stops);
        self.phases.iter().any(all)
    }

    fn touches(&self) -> Vec<u32> {
        let prefilled = self.prefill.iter().flat_map(|f| [Some(f.value), f.base]).flatten();
        self.cursors.iter().map(|c| c.value).chain(self.accs.iter().map(|a| a.value)).chain(prefilled).collect()
    }

    fn remap(&mut self, storage: &dyn Fn(u32) -> u32) {
        self.cursors.iter_mut().for_each(|c| c.value = storage(c.value));
        self.accs.iter_mut().for_each(|a| a.value = storage(a.value));
        for f in &mut self.prefill {
            f.value = storage(f.value);
            f.base = f.base.map(storage);
        }
    }

    fn alias(&self) -> &[(u32, u32)] {
        &self.alias
    }

    unsafe fn run(&self, memory: Memory, sizes: &[usize], scratch: *mut u8, threads: usize) -> Result<(), Stopped> {
        // SAFETY: the caller upholds the contract of this function.
        Ok(unsafe { Program::run(self, memory, sizes, scratch, threads) }?)
    }

    fn cost(&self) -> f64 {
        self.cost
    }

    fn scratch(&self) -> usize {
        if self.accs.is_empty() { 0 } else { self.acc_len() * 8 * self.slices() * self.panels() }
    }

    fn describe(&self) -> String {
        // A chain counts as the kernels that run in its place where there is no machine code.
        let count = |step: &Step| if let Step::Chain { code, .. } = step { code.operations() } else { 1 };
        let all =
            |p: &Phase| -> usize { [&p.before, &p.lines, &p.tiles, &p.after].into_iter().flatten().map(count).sum() };
        let steps: usize = self.phases.iter().map(all).sum();
        let loops: Vec<String> = self.sizes.iter().map(|n| n.to_string()).collect();
        let walks = if self.phases.len() > 1 { format!(", {} walks", self.phases.len()) } else { String::new() };
        let steps = counted(steps, "step", "steps");
        format!("fusion {}: {steps}{walks}, tile {}x{}", loops.join("x"), self.tile.0, self.tile.1)
    }

    fn traffic(&self) -> usize {
        self.traffic_of(&|_| true)
    }
}

impl Program {
    /// The bytes of these values that the program reads and writes.
    pub fn traffic_of(&self, of: &dyn Fn(ValueId) -> bool) -> usize {
        self.cursors
            .iter()
            .filter(|c| of(c.value))
            .map(|c| {
                (self.sizes.iter().zip(&c.at.coefs)).filter(|(_, k)| **k != 0).map(|(n, _)| n).product::<usize>()
                    * c.bytes
            })
            .sum()
    }
}

/// `n` rounded up to whole chunks.
pub fn padded(n: usize) -> usize {
    n.next_multiple_of(CHUNK)
}
