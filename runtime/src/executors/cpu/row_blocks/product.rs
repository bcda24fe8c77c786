//! Products of which one operand, or the result, exists as a block of rows at a time.
//!
//! A product writes the rows of a block, reads them as its rows, or sums over them. The operand beside the block is packed
//! once for all blocks, unless its lines lie side by side in memory already.

use super::Prepared;
use crate::executors::cpu::blocks::{BlockSearch, LeftOut, Matrix, STEP, joined, pieces, zeros};
use crate::executors::cpu::lines::tiles;
use crate::executors::cpu::product::{Product, ProductLoop, matrix};
use crate::executors::fusion::graph::ValueId;
use crate::executors::fusion::graph::piece::Contract;
use crate::executors::fusion::items::Env;
use crate::executors::program::host_step::{HostStep, Memory};
use crate::executors::program::threads;
use fulgurite_core::DType;
use fulgurite_kernels::abi::Level;
use fulgurite_kernels::line_gemm::{LANES, Tile, tile, tile_of};
use fulgurite_kernels::prefetch::prefetch;
use fulgurite_kernels::transpose::{Moved, move_to};
use std::ops::Range;
use std::sync::OnceLock;

/// At most this many terms at a time, so that their lines of a panel stay in the second-level cache while tiles of all rows
/// read them.
const DEEP: usize = 512;

/// The result of a sum stays in the caches if it has at most this many bytes.
const NEAR: usize = 4 << 20;

/// The part of a block in a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The block is the result's rows.
    Writes,
    /// The block is the left operand's rows.
    Reads,
    /// The block is a part of the sum: its columns are the left operand's rows, its rows the terms.
    Sums,
}

/// How a product is computed.
enum Way {
    /// In tiles whose lines are those of the other operand (of the block, for sums over it).
    Lines(Lines),
    /// By the product of matrices of any layout.
    Matrices,
}

/// Tiles that read lines.
struct Lines {
    /// The rows of a tile.
    rows: usize,
    /// The first column of each panel, and its width in [`LANES`].
    panels: Vec<(usize, usize)>,
    /// For lines that lie side by side, their starts; for packed panels, the starts in a panel of one vector, of two, and
    /// so on.
    starts: Vec<Vec<u32>>,
    /// Whether the other operand is packed.
    packs: bool,
    /// Whether a sum over the block is moved to its place after the last block.
    transposes: bool,
    compute: tile::Fn,
    moving: move_to::Fn,
}

/// A product in blocks of rows. The block is the left operand, or the result.
pub(super) struct RowProduct {
    pub role: Role,
    search: BlockSearch,
    way: Way,
    describe: String,
    /// The share of the result that is computed, if others are known to be unused.
    share: f64,
    /// The place of the data that the product keeps from block to block.
    pub kept_at: usize,
}

impl RowProduct {
    /// The product that computes a contraction, of which one operand or the result is `inside`, with these rows and columns.
    pub fn new(
        c: &Contract,
        env: &Env,
        isa: Level,
        inside: &[ValueId],
        (rows, cols): (usize, usize),
    ) -> Option<RowProduct> {
        let single = |v: u32| env.values.ty(v).dtype == DType::F32;
        if ![c.a.value, c.b.value, c.out].into_iter().all(single) {
            return None;
        }
        let mut p = Product::new(c, env, isa);
        if !p.is_matrices() {
            return None;
        }
        let describe = HostStep::describe(&p);
        let is = |at: usize| inside.contains(&p.places[at].value);
        let (role, swapped) = match (is(0), is(1), is(2)) {
            (false, false, true) => (Role::Writes, p.n.c != 1),
            (true, false, false) => (Role::Reads, false),
            (false, true, false) => (Role::Reads, true),
            _ => return None,
        };
        let mut left_out = match role {
            Role::Writes => LeftOut::unused(c, &p),
            Role::Reads | Role::Sums => None,
        };
        if swapped {
            p.swap();
            left_out.iter_mut().for_each(LeftOut::transpose);
        }
        let row = cols as isize;
        let (role, place, of_rows) = match role {
            Role::Writes if p.n.c == 1 && p.n.size == cols && p.m.c == row => (role, 2, p.m.size),
            Role::Reads if p.k.a == 1 && p.k.size == cols && p.m.a == row => (role, 0, p.m.size),
            Role::Reads if p.m.a == 1 && p.m.size == cols && p.k.a == row => (Role::Sums, 0, p.k.size),
            _ => return None,
        };
        // Batches are in the order of the block's value, and have all of its rows.
        let own = |l: &ProductLoop| if place == 2 { l.c } else { l.a };
        p.outer.sort_by_key(|l| -own(l));
        let mut stride = (of_rows * cols) as isize;
        for l in p.outer.iter().rev() {
            if own(l) != stride {
                return None;
            }
            stride *= l.size as isize;
        }
        if stride != (rows * cols) as isize || p.places[place].offset != 0 {
            return None;
        }
        // Several batches must not add to one result on different threads.
        if role == Role::Sums && p.outer.iter().any(|l| l.c == 0) {
            return None;
        }
        let (left_out, share) = match (role, left_out) {
            (Role::Reads | Role::Sums, _) => (LeftOut::Zeros, 1.0),
            (Role::Writes, Some(unused @ LeftOut::Unused { .. })) => match unused.share(&p, STEP) {
                Some(share) => (unused, share),
                None => (LeftOut::Nothing, 1.0),
            },
            (Role::Writes, other) => (other.unwrap_or(LeftOut::Nothing), 1.0),
        };
        let way = Lines::of(&p, role, isa).map_or(Way::Matrices, Way::Lines);
        Some(RowProduct { role, search: BlockSearch { product: p, left_out }, way, describe, share, kept_at: 0 })
    }

    fn product(&self) -> &Product {
        &self.search.product
    }

    /// The rows of the block's value in a batch.
    pub fn rows(&self) -> usize {
        match self.role {
            Role::Writes | Role::Reads => self.product().m.size,
            Role::Sums => self.product().k.size,
        }
    }

    pub fn touches(&self) -> Vec<u32> {
        let zeros_of = match self.search.left_out {
            LeftOut::ZerosOf { value, .. } => Some(value),
            _ => None,
        };
        self.product().places.iter().map(|p| p.value).chain(zeros_of).collect()
    }

    pub fn remap(&mut self, storage: &dyn Fn(u32) -> u32) {
        self.search.remap(storage);
    }

    pub fn cost(&self) -> f64 {
        self.product().cost * self.share
    }

    pub fn flops(&self) -> f64 {
        HostStep::flops(self.product()) * self.share
    }

    /// Whether blocks of this many rows suit the product. A sum reads and writes its whole result for each block, which must
    /// stay in the caches, or be small beside the block.
    pub fn pays(&self, block: usize) -> bool {
        let (m, n) = (self.product().m.size, self.product().n.size);
        self.role != Role::Sums || 4 * m * n <= NEAR || n <= 4 * block
    }

    /// The bytes of the operands outside.
    pub fn traffic(&self) -> usize {
        let p = self.product();
        let (m, n, k) = (p.m.size, p.n.size, p.k.size);
        let outside = match self.role {
            Role::Writes => m * k + k * n,
            Role::Reads | Role::Sums => k * n + m * n,
        };
        4 * outside * self.search.batches()
    }

    pub fn describe(&self) -> String {
        match self.search.left_out {
            LeftOut::Unused { .. } => {
                format!("{}, {:.0} % of its blocks unused", self.describe, 100.0 * (1.0 - self.share))
            }
            LeftOut::ZerosOf { .. } => format!("{}, but where its reader has zeros", self.describe),
            LeftOut::Zeros | LeftOut::Nothing => self.describe.clone(),
        }
    }

    /// The elements of a batch's packed operand.
    fn of_batch(&self) -> usize {
        match &self.way {
            Way::Lines(l) if l.packs => l.panels.iter().map(|p| p.1 * LANES).sum::<usize>() * self.product().k.size,
            _ => 0,
        }
    }

    /// The bytes of the packed operand.
    pub fn packed(&self) -> usize {
        (4 * self.of_batch() * self.search.batches()).next_multiple_of(64)
    }

    /// The bytes that a block of `block` rows needs while it runs.
    pub fn room(&self, block: usize) -> usize {
        match self.role {
            Role::Sums => {
                let panels = match &self.way {
                    Way::Lines(lines) => lines.panels.len() * lines.widest(),
                    Way::Matrices => 0,
                };
                4 * (self.product().n.size + panels) * block
            }
            Role::Writes | Role::Reads => 0,
        }
    }

    /// The bytes that a sum keeps from block to block: a result that is transposed at last.
    pub fn kept(&self) -> usize {
        match &self.way {
            Way::Lines(lines) if lines.transposes => {
                (4 * self.product().n.size * self.product().m.size).next_multiple_of(64)
            }
            _ => 0,
        }
    }

    /// The number of batches.
    pub fn batches(&self) -> usize {
        self.search.batches()
    }

    /// Packs the operand beside the block.
    ///
    /// # Safety
    /// `memory` has the operands outside, and `to` has the bytes of the packed operand.
    pub unsafe fn pack(&self, memory: Memory, to: *mut f32, threads: usize) {
        let Way::Lines(lines) = &self.way else { return };
        if !lines.packs {
            return;
        }
        let (p, of_batch, panels) = (self.product(), self.of_batch(), lines.panels.len());
        let tasks = self.search.batches() * panels;
        let to = Memory(&[to as *mut u8]);
        threads::share(tasks, threads, self.packed() as f64 / 8.0, &|claims| {
            for task in claims.flatten() {
                let (batch, (first, vectors)) = (task / panels, lines.panels[task % panels]);
                let from = (memory.at(p.places[1].value) as *const f32).wrapping_offset(p.offsets(batch).1);
                let from = from.wrapping_offset(first as isize * p.n.b);
                let to = (to.at(0) as *mut f32).wrapping_add(batch * of_batch + first * p.k.size);
                let (from_steps, width) = ((p.k.b, p.n.b), vectors * LANES);
                let m = Moved { from, from_steps, to, to_steps: (width as isize, 1), rows: p.k.size, cols: width };
                // SAFETY: the caller upholds the contract; panels are disjoint.
                unsafe { (lines.moving)(&m) };
            }
        });
    }

    /// Runs the rows `rows` of the block's value, which are of one batch.
    ///
    /// # Safety
    /// `memory` has the operands outside, and the block of these rows at its place; the rooms have the bytes that the block
    /// needs. No other thread writes the block or the rows of the result; blocks of a sum come in order.
    pub unsafe fn run(
        &self,
        memory: Memory,
        prepared: &Prepared,
        rooms: (*mut f32, *mut f32),
        rows: Range<usize>,
        threads: usize,
    ) {
        let p = self.product();
        let batch = rows.start / self.rows();
        let i = (rows.start - batch * self.rows(), rows.end - batch * self.rows());
        let (a, b, c) = p.offsets(batch);
        let at = |place: usize, offset: isize| (memory.at(p.places[place].value) as *mut f32).wrapping_offset(offset);
        let block = Block {
            memory,
            batch,
            i,
            allowed: &prepared.allowed[batch],
            a: at(0, a),
            b: at(1, b),
            c: at(2, c),
            packed: prepared.packed.wrapping_add(batch * self.of_batch()),
            threads,
        };
        // SAFETY: the caller upholds the contract.
        unsafe {
            match &self.way {
                Way::Matrices => self.matrices(&block),
                Way::Lines(lines) => match self.role {
                    Role::Writes | Role::Reads => self.multiplies(lines, &block),
                    Role::Sums => self.sums(lines, &block, rooms),
                },
            }
        }
    }

    /// Whether the block of the columns `j` may be left out: of the result, or of the left operand's rows or terms.
    ///
    /// # Safety
    /// The contract of [`RowProduct::run`] holds.
    unsafe fn leaves_out(&self, block: &Block, j: (usize, usize)) -> bool {
        // SAFETY: the caller upholds the contract.
        let zeros = |searched: Matrix| unsafe { searched.seems_zero() && searched.is_zero() };
        let found = match (&self.search.left_out, self.role) {
            (LeftOut::Nothing, _) => false,
            (LeftOut::Unused { .. }, _) => !self.search.left_out.uses(block.i, j),
            (_, Role::Sums) => zeros(self.search.left(block.memory, block.batch, j, block.i)),
            _ => zeros(self.search.searched(block.memory, block.batch, block.i, j)),
        };
        // SAFETY: the caller upholds the contract; of the left operand this reads only one outside.
        found && *block.allowed.get_or_init(|| unsafe { self.search.allows(block.memory, block.batch) })
    }

    /// Multiplies the left operand's rows of a block by the other operand.
    ///
    /// # Safety
    /// The contract of [`RowProduct::run`] holds.
    unsafe fn multiplies(&self, lines: &Lines, block: &Block) {
        let p = self.product();
        let all = [(0, p.k.size)];
        let ranges = match self.role {
            // SAFETY: the caller upholds the contract.
            Role::Reads => joined(pieces(p.k.size, STEP).filter(|k| unsafe { !self.leaves_out(block, *k) })),
            _ => all.to_vec(),
        };
        let rows = if block.threads > 1 { 2 * lines.rows } else { block.i.1 - block.i.0 };
        let parts: Vec<(usize, usize)> =
            pieces(block.i.1 - block.i.0, rows).map(|(from, to)| (block.i.0 + from, block.i.0 + to)).collect();
        threads::share(lines.panels.len() * parts.len(), block.threads, self.nanos(block), &|claims| {
            for task in claims.flatten() {
                let (panel, i) = (task / parts.len(), parts[task % parts.len()]);
                let (first, vectors) = lines.panels[panel];
                let columns = (first, first + vectors * LANES);
                // SAFETY: the caller upholds the contract.
                let left_out = self.role == Role::Writes && unsafe { self.leaves_out(block, columns) };
                if left_out || ranges.is_empty() {
                    let m = ProductLoop { size: i.1 - i.0, ..p.m };
                    // SAFETY: the caller upholds the contract; tasks have rows and columns of their own.
                    unsafe { zeros(block.c.wrapping_offset(i.0 as isize * m.c), m, p.n, columns) };
                    continue;
                }
                let (b, starts) = lines.panel(block, panel, p.k.size);
                let terms = ranges
                    .iter()
                    .flat_map(|(from, to)| pieces(to - from, DEEP).map(move |(first, end)| (from + first, from + end)));
                for (number, (from, to)) in terms.enumerate() {
                    // SAFETY: the caller upholds the contract; tasks have rows and columns of their own.
                    unsafe {
                        lines.rows(i, &mut |row, rows| {
                            let a = block.a.wrapping_offset(row as isize * p.m.a + from as isize);
                            // The next rows arrive while these are used.
                            for next in (rows..2 * rows).filter(|next| row + next < i.1) {
                                let at = a.wrapping_offset(next as isize * p.m.a);
                                prefetch(at as *const u8, 4 * (to - from));
                            }
                            Tile {
                                rows,
                                vectors,
                                a,
                                row: p.m.a,
                                b,
                                lines: &starts[from..to],
                                to: block.c.wrapping_offset(row as isize * p.m.c + first as isize),
                                to_row: p.m.c as usize,
                                add: number > 0,
                            }
                        });
                    }
                }
            }
        });
    }

    /// Adds the terms of a block. Tiles have the columns of the other operand as their rows, and the columns of the block as
    /// their columns, so the result is transposed; if that is not its layout, it is moved there after the last block.
    ///
    /// # Safety
    /// The contract of [`RowProduct::run`] holds.
    unsafe fn sums(&self, lines: &Lines, block: &Block, (room, kept): (*mut f32, *mut f32)) {
        let p = self.product();
        let terms = block.i.1 - block.i.0;
        let first = block.i.0 == 0;
        let (to, row) = match lines.transposes {
            true => (kept, p.m.size),
            false => (block.c, p.n.c as usize),
        };
        let from = block.b.wrapping_offset(block.i.0 as isize * p.k.b);
        let (from_steps, to_steps) = ((p.n.b, p.k.b), (terms as isize, 1));
        // SAFETY: the caller upholds the contract; the room has the terms of all columns.
        unsafe { (lines.moving)(&Moved { from, from_steps, to: room, to_steps, rows: p.n.size, cols: terms }) };
        let left = Memory(&[room as *mut u8, to as *mut u8]);
        let copied = Memory(&[room.wrapping_add(p.n.size * terms) as *mut u8]);
        threads::share(lines.panels.len(), block.threads, self.nanos(block), &|claims| {
            for panel in claims.flatten() {
                let (column, vectors) = lines.panels[panel];
                let width = vectors * LANES;
                let to = (left.at(1) as *mut f32).wrapping_add(column);
                // SAFETY: the caller upholds the contract; panels have columns of their own.
                unsafe {
                    if self.leaves_out(block, (column, column + width)) {
                        if first {
                            let across = ProductLoop { c: 1, ..p.m };
                            zeros(to, ProductLoop { c: row as isize, ..p.n }, across, (0, width));
                        }
                        continue;
                    }
                    // Rows of a power of two fall into few sets of the first-level cache, so their panel is copied.
                    let from = block.a.wrapping_offset(block.i.0 as isize * p.k.a + column as isize);
                    let b = (copied.at(0) as *mut f32).wrapping_add(panel * lines.widest() * terms);
                    let to_steps = (width as isize, 1);
                    (lines.moving)(&Moved { from, from_steps: (p.k.a, 1), to: b, to_steps, rows: terms, cols: width });
                    lines.rows((0, p.n.size), &mut |i, rows| Tile {
                        rows,
                        vectors,
                        a: (left.at(0) as *const f32).wrapping_add(i * terms),
                        row: terms as isize,
                        b,
                        lines: &lines.starts[vectors - 1][..terms],
                        to: to.wrapping_add(i * row),
                        to_row: row,
                        add: !first,
                    });
                }
            }
        });
        if lines.transposes && block.i.1 == p.k.size {
            let (from_steps, to_steps) = ((1, row as isize), (p.m.c, p.n.c));
            // SAFETY: the caller upholds the contract; all blocks of the sum are done.
            unsafe {
                (lines.moving)(&Moved { from: to, from_steps, to: block.c, to_steps, rows: p.m.size, cols: p.n.size })
            };
        }
    }

    /// Computes a block by the product of matrices.
    ///
    /// # Safety
    /// The contract of [`RowProduct::run`] holds.
    unsafe fn matrices(&self, block: &Block) {
        let p = self.product();
        let (i, size) = (block.i.0 as isize, block.i.1 - block.i.0);
        let m = ProductLoop { size, ..p.m };
        // SAFETY: the caller upholds the contract.
        let used = |j: &(usize, usize)| unsafe { !self.leaves_out(block, *j) };
        let width = match self.role {
            Role::Writes => p.n.size,
            Role::Reads => p.k.size,
            Role::Sums => p.m.size,
        };
        let ranges = joined(pieces(width, STEP).filter(used));
        let (a, b) = (block.a as *const f32, block.b as *const f32);
        // SAFETY: the caller upholds the contract.
        unsafe {
            match self.role {
                Role::Writes => {
                    let (a, c) = (a.wrapping_offset(i * m.a), block.c.wrapping_offset(i * m.c));
                    zeros(c, m, p.n, (0, p.n.size));
                    for (from, to) in ranges {
                        let (n, j) = (ProductLoop { size: to - from, ..p.n }, from as isize);
                        matrix([m, n, p.k], (a, b.wrapping_offset(j * n.b), c.wrapping_offset(j * n.c)), false);
                    }
                }
                Role::Reads => {
                    let (a, c) = (a.wrapping_offset(i * m.a), block.c.wrapping_offset(i * m.c));
                    zeros(c, m, p.n, (0, p.n.size));
                    for (from, to) in ranges {
                        let (k, j) = (ProductLoop { size: to - from, ..p.k }, from as isize);
                        matrix([m, p.n, k], (a.wrapping_offset(j * k.a), b.wrapping_offset(j * k.b), c), true);
                    }
                }
                Role::Sums => {
                    let k = ProductLoop { size, ..p.k };
                    let (a, b) = (a.wrapping_offset(i * k.a), b.wrapping_offset(i * k.b));
                    if block.i.0 == 0 {
                        zeros(block.c, p.m, p.n, (0, p.n.size));
                    }
                    for (from, to) in ranges {
                        let (m, j) = (ProductLoop { size: to - from, ..p.m }, from as isize);
                        matrix([m, p.n, k], (a.wrapping_offset(j * m.a), b, block.c.wrapping_offset(j * m.c)), true);
                    }
                }
            }
        }
    }

    /// The estimated nanoseconds of a block.
    fn nanos(&self, block: &Block) -> f64 {
        self.cost() * (block.i.1 - block.i.0) as f64 / (self.rows() * self.search.batches()) as f64
    }
}

/// A block of rows of one batch, and the operands of the batch.
struct Block<'a> {
    memory: Memory<'a>,
    batch: usize,
    /// The rows of the block's value.
    i: (usize, usize),
    /// Whether blocks may be left out, once that was needed.
    allowed: &'a OnceLock<bool>,
    a: *mut f32,
    b: *mut f32,
    c: *mut f32,
    packed: *const f32,
    threads: usize,
}

// SAFETY: the threads of a block write disjoint parts.
unsafe impl Sync for Block<'_> {}

impl Lines {
    /// The tiles of a product, if its layout and sizes fit them.
    fn of(p: &Product, role: Role, isa: Level) -> Option<Lines> {
        let (rows, columns) = match role {
            Role::Writes | Role::Reads => (p.m.size, p.n),
            Role::Sums => (p.n.size, ProductLoop { c: p.m.c, ..p.m }),
        };
        let (rows, vectors) = tile_of(rows, isa)?;
        let sums = role == Role::Sums;
        let direct = if sums { columns.c == 1 && p.n.c > 0 } else { columns.c == 1 && p.m.c >= 0 && p.k.a == 1 };
        if !(direct || sums) || !columns.size.is_multiple_of(LANES) || p.k.size == 0 {
            return None;
        }
        let panels = tiles(columns.size, vectors).scan(0, |at, vectors| {
            let first = *at;
            *at += vectors * LANES;
            Some((first, vectors))
        });
        let packs = !sums && p.n.b != 1;
        let start = |line: usize, step: usize| u32::try_from(line * step).ok();
        let starts: Option<Vec<Vec<u32>>> = if packs || sums {
            (1..=vectors).map(|v| (0..p.k.size).map(|k| start(k, v * LANES)).collect()).collect()
        } else {
            let step = usize::try_from(p.k.b).ok()?;
            Some(vec![(0..p.k.size).map(|k| start(k, step)).collect::<Option<_>>()?])
        };
        let (compute, moving) = (tile::pick(isa), move_to::pick(isa));
        let transposes = sums && !direct;
        Some(Lines { rows, panels: panels.collect(), starts: starts?, packs, transposes, compute, moving })
    }

    /// The columns of the widest panel.
    fn widest(&self) -> usize {
        self.panels.iter().map(|p| p.1 * LANES).max().unwrap_or(0)
    }

    /// The place of a panel of the right operand, and the starts of its lines from there.
    fn panel(&self, block: &Block, panel: usize, depth: usize) -> (*const f32, &[u32]) {
        let (first, vectors) = self.panels[panel];
        match self.packs {
            true => (block.packed.wrapping_add(first * depth), &self.starts[vectors - 1]),
            false => (block.b.wrapping_add(first) as *const f32, &self.starts[0]),
        }
    }

    /// Computes the tiles of these rows.
    ///
    /// # Safety
    /// The tiles have the operands that they name.
    unsafe fn rows<'t>(&self, (from, to): (usize, usize), tile: &mut dyn FnMut(usize, usize) -> Tile<'t>) {
        let mut row = from;
        while row < to {
            let rows = [8, 4, 2, 1].into_iter().find(|n| *n <= (to - row).min(self.rows)).unwrap_or(1);
            // SAFETY: the caller upholds the contract.
            unsafe { (self.compute)(&tile(row, rows)) };
            row += rows;
        }
    }
}
