//! What a fusion is compiled to: loops, memory accesses, and steps over tiles.
//!
//! The loops are `outer… · row · seg… · last`. A *line* is one run of the last loop, a *row* all lines of one setting of
//! the outer loops and the row loop (one line, where there are no segs). Rows are walked over in blocks, once per
//! *phase*: what a reduction over rows gives is used in the phases after it. A *tile* is a few columns of one line, or
//! of several short ones; registers hold a tile each and stay in the first cache.
//!
//! Steps address their operands through slots, pointers that lie one behind the other so that a kernel gets them
//! without copying; a few slots move with the tile, all others are set once.

use crate::executors::fusion::graph::ValueId;
use crate::executors::program::host_step::{HostStep, Memory, Stopped};
use fulgurite_core::DType;
use fulgurite_core::builtins::Builtin;
use fulgurite_core::kernel::Combine;
use fulgurite_core::kernel::TileFn;
use fulgurite_core::lang::ast::Red;
use fulgurite_kernels::copy::{gather2d, scatter2d};
use fulgurite_kernels::gather::{ScatterFn, ScatterLineFn, add_line, gather, gather_line, outside};
use fulgurite_kernels::reduce::FoldFn;
use fulgurite_kernels::{fill, reduce};
use smallvec::SmallVec;

/// Elements that a tile has at most.
pub const TILE: usize = 256;
/// Elements of a line that a walk takes at once if none of its steps needs a register: memory and kept rows of that
/// many stay in the first cache.
pub const WHOLE: usize = 1024;
/// Kernels work on multiples of this many elements; registers are padded to it.
pub const CHUNK: usize = 32;
/// Most loops after merging.
pub const MAX_LOOPS: usize = 16;

/// `base + Σ coefficient · loop`, per loop.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lin {
    /// The constant.
    pub base: i64,
    /// One coefficient per loop.
    pub coefs: SmallVec<[i64; 6]>,
}

impl Lin {
    /// Its value at `idx`.
    #[inline(always)]
    pub fn at(&self, idx: &[i64; MAX_LOOPS]) -> i64 {
        // Few loops are usual; of a loop over them LLVM makes vectors, whose products of 64 bits are slow.
        match *self.coefs.as_slice() {
            [a, b] => self.base + a * idx[0] + b * idx[1],
            [a, b, c] => self.base + a * idx[0] + b * idx[1] + c * idx[2],
            [a, b, c, d] => self.base + a * idx[0] + b * idx[1] + c * idx[2] + d * idx[3],
            ref coefs => coefs.iter().zip(idx).fold(self.base, |sum, (c, i)| sum + c * i),
        }
    }
}

/// A pointer that steps use, by number.
pub type Slot = u32;

/// What a slot is before any tile.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SlotInit {
    /// A tile of one constant, in the program's pool.
    Const(u32),
    /// An offset in the workspace.
    Work(u32),
    /// Set as the tile moves.
    Moving,
}

/// An access to memory, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Cursor {
    /// The dense value.
    pub value: ValueId,
    /// The offset at each setting of the loops.
    pub at: Lin,
    /// Bytes of an element.
    pub bytes: usize,
    /// Whether it is written.
    pub writes: bool,
    /// Whether a [`Step::Seek`] moves it; such a cursor has one user.
    pub sought: bool,
}

/// A cursor whose memory is a register: tiles lie in it as they lie in registers.
#[derive(Clone, Debug)]
pub struct InPlace {
    /// Which.
    pub cursor: u32,
    /// Bytes of an element.
    pub bytes: usize,
    /// Slots that point to it, one at least.
    pub slots: SmallVec<[Slot; 4]>,
    /// Where a tile that is no multiple of [`CHUNK`] is worked on instead: an offset in the workspace.
    pub edge: u32,
    /// Read from memory on this walk.
    pub reads: bool,
    /// Written.
    pub writes: bool,
    /// Whether this walk asks for the memory of its next tiles itself.
    pub ahead: bool,
}

/// Memory that is asked for before the walk that needs it.
#[derive(Clone, Debug)]
pub struct Ask {
    /// What that walk reads or writes.
    pub cursor: u32,
    /// Bytes to the rows that are meant.
    pub further: i64,
    /// The step of a tile before which its memory is asked for.
    pub step: usize,
}

impl Ask {
    /// Of one walk.
    pub const MOST: usize = 4;
}

/// A slot that moves through the workspace: rows kept between phases, or one number of each row.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The slot.
    pub slot: Slot,
    /// Where the block's rows are: an offset in the workspace.
    pub at: u32,
    /// Bytes from line to line.
    pub line: usize,
    /// Bytes of an element; 0 of one number.
    pub elem: usize,
}

/// A slot that moves from tile to tile of a line.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// The slot.
    pub slot: Slot,
    /// Bytes from element to element.
    pub elem: usize,
}

/// A fold of a whole line of rows that are kept: blocks that follow each other overlap, tiles between other steps wait.
#[derive(Clone, Copy, Debug)]
pub struct LineFold {
    /// The fold.
    pub f: FoldFn,
    /// First of the slots that move along the lines.
    pub src: Slot,
    /// Accumulators: an offset in the workspace.
    pub acc: u32,
}

/// One index of a gathered or scattered access.
#[derive(Clone, Debug)]
pub struct Coord {
    /// Register of i64.
    pub slot: Slot,
    /// Bytes from one index to the next.
    pub stride: i64,
    /// The size of the axis.
    pub size: i64,
    /// The axis, for messages.
    pub axis: usize,
}

/// One step.
#[derive(Clone, Debug)]
pub enum Step {
    /// A kernel on registers.
    Kernel {
        /// The function.
        f: TileFn,
        /// First of its input slots.
        ins: Slot,
        /// First of its output slots.
        outs: Slot,
        /// First of its numbers.
        nums: u32,
    },
    /// A builtin without a kernel, element by element.
    Scalar {
        /// Which.
        builtin: Builtin,
        /// Number of inputs.
        arity: u8,
        /// First input slot.
        ins: Slot,
        /// Output slot.
        outs: Slot,
        /// Dtype of the inputs.
        from: DType,
        /// Dtype of the output.
        to: DType,
    },
    /// A rectangle of memory into a register.
    Load {
        /// The copy.
        f: gather2d::Fn,
        /// From where.
        cursor: u32,
        /// To where.
        dst: Slot,
    },
    /// A register into a rectangle of memory.
    Store {
        /// The copy.
        f: scatter2d::Fn,
        /// To where.
        cursor: u32,
        /// From where.
        src: Slot,
    },
    /// A rectangle that may lie outside of its tensor in part.
    Guarded(Box<Guarded>),
    /// Each line filled with the value of its row.
    Splat {
        /// The fill.
        f: fill::splat_lines::Fn,
        /// Tile register.
        dst: Slot,
        /// Row register: an offset in the workspace.
        src: u32,
        /// Bytes of an element.
        bytes: u32,
    },
    /// Positions.
    Index {
        /// The fill.
        f: fill::positions::Fn,
        /// Register.
        dst: Slot,
        /// What the positions are.
        lin: Lin,
    },
    /// Comparisons of positions with zero, or with a number of each row.
    Test {
        /// Register.
        dst: Slot,
        /// What is compared.
        lin: Lin,
        /// The numbers, i64: a row register's offset in the workspace.
        with: Option<u32>,
        /// `== 0`, else `>= 0`.
        equal: bool,
    },
    /// Random numbers.
    Uniform {
        /// Consecutive positions at once.
        f: fill::uniform_run::Fn,
        /// Register.
        dst: Slot,
        /// The key's cursor.
        key: u32,
        /// Draw.
        draw: u32,
        /// Positions: as a function of the loops, or a register.
        at: Positions,
    },
    /// Elements that registers name.
    Gather {
        /// The copies.
        f: Gathers,
        /// Where index 0 is.
        cursor: u32,
        /// The indices.
        coords: Vec<Coord>,
        /// Register.
        dst: Slot,
    },
    /// Moves a cursor by what row registers name; the tile has one line.
    Seek {
        /// The cursor.
        cursor: u32,
        /// Indices: offsets of row registers in the workspace take the slot's place.
        coords: Vec<Coord>,
    },
    /// Elements combined into places that registers name.
    Scatter(Box<Scatter>),
    /// Folds lines into the accumulators of their rows.
    Fold {
        /// The fold.
        f: FoldFn,
        /// First of its registers.
        src: Slot,
        /// Bytes of their elements.
        bytes: usize,
        /// Accumulators: an offset in the workspace.
        acc: u32,
    },
    /// Searches lines for the extremum of their rows.
    Search {
        /// The search.
        f: reduce::extremum::Fn,
        /// Register.
        src: Slot,
        /// Bytes of its elements.
        bytes: usize,
        /// Elements that take part.
        mask: Option<Slot>,
        /// The largest, else the smallest.
        max: bool,
        /// Accumulators: an offset in the workspace.
        acc: u32,
    },
    /// Folds tiles into an accumulator of the panel.
    Accumulate {
        /// Which accumulator.
        acc: u32,
        /// Where its numbers start among the panel's.
        first: usize,
        /// Line by line into one number, or element by element.
        f: FoldFn,
        /// First of its registers.
        src: Slot,
        /// Bytes of their elements.
        bytes: usize,
    },
    /// Clears the accumulators of a block's rows.
    Clear {
        /// Accumulators: an offset in the workspace.
        acc: u32,
        /// Starting value; `None`: positions.
        start: Option<u64>,
    },
    /// Accumulators of a block's rows to a row register.
    Finish {
        /// Accumulators: an offset in the workspace.
        acc: u32,
        /// `None`: positions.
        red: Option<Red>,
        /// Register type.
        dtype: DType,
        /// Elements of a row, for means.
        count: usize,
        /// Row register: an offset in the workspace.
        dst: u32,
    },
    /// Integers that must not be zero.
    NonZero {
        /// Register.
        src: Slot,
        /// Its type.
        dtype: DType,
        /// Who divides.
        builtin: Builtin,
    },
}

/// Where random numbers are taken from.
#[derive(Clone, Debug)]
pub enum Positions {
    /// A function of the loops.
    Lin(Lin),
    /// i64 register.
    Slot(Slot),
}

/// See [`Step::Guarded`].
#[derive(Clone, Debug)]
pub struct Guarded {
    /// The copy.
    pub f: gather2d::Fn,
    /// The fill.
    pub fill: fill::splat_lines::Fn,
    /// From where.
    pub cursor: u32,
    /// To where.
    pub dst: Slot,
    /// Positions that must be at least 0 and below a size.
    pub axes: Vec<(Lin, i64)>,
    /// What stands for elements outside, as stored.
    pub value: [u8; 8],
}

/// Copies of elements that registers name.
#[derive(Clone, Copy, Debug)]
pub struct Gathers {
    /// A tile.
    pub tile: gather::Fn,
    /// A line with one index.
    pub line: gather_line::Fn,
    /// The check of such indices.
    pub outside: outside::Fn,
}

/// See [`Step::Scatter`].
#[derive(Clone, Debug)]
pub struct Scatter {
    /// Element by element.
    pub f: ScatterFn,
    /// A line with one index each.
    pub named: ScatterLineFn,
    /// Whole lines at once, where only rows decide.
    pub line: add_line::Fn,
    /// Bytes of an element.
    pub bytes: usize,
    /// Where index 0 is.
    pub cursor: u32,
    /// The elements.
    pub src: Slot,
    /// Indices that registers hold.
    pub coords: Vec<Coord>,
    /// Positions that must be at least 0 and below a size.
    pub axes: Vec<(Lin, i64)>,
    /// Only where this holds.
    pub mask: Option<Slot>,
    /// What becomes of an element where there is one already.
    pub how: Combine,
    /// Finds an index outside, where that is an error; else such elements are dropped.
    pub strict: Option<outside::Fn>,
    /// Coordinates are row registers (offsets in the workspace) and memory lies as registers do.
    pub rows: bool,
}

/// What happens on one walk over a block of rows.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// On row registers, before.
    pub before: Vec<Step>,
    /// Once per group of lines.
    pub lines: Vec<Step>,
    /// Cursors that are registers.
    pub in_place: Vec<InPlace>,
    /// Slots in rows that are kept.
    pub kept: Vec<Kept>,
    /// Which of the slots of both move.
    pub moves: Vec<Move>,
    /// Memory of later walks, by step.
    pub asks: SmallVec<[Ask; Ask::MOST]>,
    /// Whether a cursor of this walk is asked for a few tiles ahead.
    pub ahead: bool,
    /// Whether a step works on registers of a tile; others take whole lines, if these are short enough.
    pub tiled: bool,
    /// Once per tile.
    pub tiles: Vec<Step>,
    /// Once per line, when all of its tiles are done.
    pub folds: Vec<LineFold>,
    /// On row registers, after.
    pub after: Vec<Step>,
}

/// A reduction whose result is not read inside.
#[derive(Clone, Debug)]
pub struct Acc {
    /// What it defines.
    pub value: ValueId,
    /// Its kind.
    pub red: Red,
    /// Whether accumulators are f64, else i64.
    pub float: bool,
    /// Register type of the result.
    pub dtype: DType,
    /// Elements that each result stands for.
    pub count: usize,
    /// Where a tile goes among the panel's accumulators.
    pub at: Lin,
    /// Accumulators per panel.
    pub len: usize,
    /// Sizes and strides (elements) of the result over the slices' loops, then over the accumulators.
    pub slices: Vec<(usize, i64)>,
    /// See `slices`.
    pub inner: Vec<(usize, i64)>,
}

/// What a scattered value holds before the elements come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefill {
    /// The value.
    pub value: ValueId,
    /// What it starts as; zeros if nothing.
    pub base: Option<ValueId>,
}

/// Aligned memory.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct CacheLine(pub [u8; 64]);

/// A compiled fusion.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Extents of the loops.
    pub sizes: SmallVec<[usize; 6]>,
    /// How many loops are outer ones; the row loop follows.
    pub outer: usize,
    /// Rows per walk.
    pub block: usize,
    /// Rows per unit of work, a multiple of `block`.
    pub unit_rows: usize,
    /// Columns per unit of work.
    pub unit_cols: usize,
    /// Outer loops (perhaps with the row loop) over which every accumulated result varies: its slices.
    pub slice_loops: usize,
    /// Units that share accumulators: a panel. Slices consist of whole panels.
    pub panel: usize,
    /// Lines and columns of a tile.
    pub tile: (usize, usize),
    /// Accesses.
    pub cursors: Vec<Cursor>,
    /// Initial slots.
    pub slots: Vec<SlotInit>,
    /// Numbers of kernels.
    pub nums: Vec<u64>,
    /// Tiles of constants.
    pub consts: Vec<CacheLine>,
    /// On scalars, once per worker: registers are as wide as a tile.
    pub once: Vec<Step>,
    /// On tiles, once per worker: columns that repeat from line to line.
    pub patterns: Vec<Step>,
    /// Walks.
    pub phases: Vec<Phase>,
    /// Reductions that end here.
    pub accs: Vec<Acc>,
    /// Scattered values.
    pub prefill: Vec<Prefill>,
    /// Bytes of the workspace.
    pub work: usize,
    /// Whether units must run in order on one thread.
    pub sequential: bool,
    /// Estimated nanoseconds of a run on one thread.
    pub cost: f64,
    /// Pairs (written value, read value) that may be one memory.
    pub alias: Vec<(ValueId, ValueId)>,
}

impl Program {
    /// The row loop.
    pub fn row(&self) -> usize {
        self.outer
    }
    /// The last loop.
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
    /// Units of work.
    pub fn units(&self) -> usize {
        let outer: usize = self.sizes[..self.outer].iter().product();
        outer * self.row_units() * self.col_units()
    }
    /// Units along the row loop.
    pub fn row_units(&self) -> usize {
        self.sizes[self.outer].div_ceil(self.unit_rows)
    }
    /// Units along the last loop.
    pub fn col_units(&self) -> usize {
        self.sizes[self.last()].div_ceil(self.unit_cols)
    }
    /// Elements from line to line of rows that are kept.
    pub fn kept_pitch(&self) -> usize {
        let last = self.sizes[self.last()];
        if self.tile.0 == 1 { padded(last) } else { last }
    }
    /// Slices of the accumulated results.
    pub fn slices(&self) -> usize {
        self.sizes[..self.slice_loops].iter().product()
    }
    /// Panels of a slice.
    pub fn panels(&self) -> usize {
        (self.units() / self.slices().max(1)).div_ceil(self.panel.max(1))
    }
    /// Accumulators of a panel.
    pub fn acc_len(&self) -> usize {
        self.accs.iter().map(|a| a.len).sum()
    }
}

impl HostStep for Program {
    fn may_stop(&self) -> bool {
        let stops = |step: &Step| match step {
            Step::Gather { .. } | Step::Seek { .. } | Step::Scatter(_) | Step::NonZero { .. } => true,
            Step::Scalar { from, .. } => !from.is_float(),
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
        // SAFETY: the caller's.
        Ok(unsafe { Program::run(self, memory, sizes, scratch, threads) }?)
    }

    fn cost(&self) -> f64 {
        self.cost
    }

    fn scratch(&self) -> usize {
        if self.accs.is_empty() { 0 } else { self.acc_len() * 8 * self.slices() * self.panels() }
    }

    fn describe(&self) -> String {
        let steps: usize =
            self.phases.iter().map(|p| p.before.len() + p.lines.len() + p.tiles.len() + p.after.len()).sum();
        let loops: Vec<String> = self.sizes.iter().map(|n| n.to_string()).collect();
        let walks = if self.phases.len() > 1 { format!(", {} walks", self.phases.len()) } else { String::new() };
        format!("fusion {}: {steps} steps{walks}, tile {}x{}", loops.join("x"), self.tile.0, self.tile.1)
    }

    fn traffic(&self) -> usize {
        self.cursors
            .iter()
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
