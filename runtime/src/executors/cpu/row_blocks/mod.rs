//! Items that run block by block: a block of rows goes through all of them before the next one, so that the values between
//! them exist as one block, which stays in the second-level cache.
//!
//! **Invariant:** each step of a block reads and writes the block's rows of the values inside alone, and of other values it
//! writes elements that no other task writes. So blocks may run on any thread. The blocks are the same for any number of
//! threads, so the results are too.

mod product;

use super::tiles::{self, Program};
use crate::executors::fusion::fuse::Item;
use crate::executors::fusion::graph::ValueId;
use crate::executors::fusion::items::Env;
use crate::executors::fusion::row_blocks::RowGroup;
use crate::executors::program::host_step::{Fault, FirstFault, HostStep, Memory, Stopped};
use crate::executors::program::threads;
use fulgurite_core::builtins::gcd;
use fulgurite_kernels::abi::Level;
use product::{Role, RowProduct};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::OnceLock;

/// The blocks of all values inside have about this many bytes together, because the second-level cache also holds the
/// other operands of products.
const TOGETHER: usize = 640 << 10;
/// A block has at most this many rows, and at least [`LEAST`] unless there are fewer: products of few rows are slow.
const MOST: usize = if cfg!(test) { 24 } else { 128 };
/// Long rows leave the second-level cache before a block has this many of them, but sums over fewer rows are slow.
const LEAST: usize = if cfg!(test) { 8 } else { 32 };
/// A block has a multiple of this many rows, which are whole tiles.
const STEP: usize = 8;

/// The steps of a group.
enum Part {
    Fusion(Program),
    Product(RowProduct),
}

/// The block of a value inside.
struct Inside {
    /// The place of the block in a thread's room, in bytes.
    at: usize,
    /// The bytes of a row.
    row: usize,
}

/// Items that run block by block.
pub(super) struct RowBlocks {
    /// The items. Their operands have local numbers: those of `outside`, then those of `inside`.
    parts: Vec<Part>,
    /// The values (later the storages) that exist outside of the step.
    outside: Vec<u32>,
    inside: Vec<Inside>,
    /// The rows of all blocks.
    rows: usize,
    /// The rows of a block.
    block: usize,
    /// No block has rows on both sides of a multiple of this.
    apart: usize,
    /// The rows of a task, whose blocks run in order.
    task: usize,
    /// The bytes of the blocks inside.
    blocks: usize,
    /// The bytes that products need one after the other.
    shared: usize,
    /// The bytes that a thread needs: the blocks, then what products share, then what each of them keeps.
    room: usize,
    /// The bytes that are read and written outside.
    traffic: usize,
}

/// The step that runs a group block by block.
///
/// # Errors
/// The number of an item that can't run block by block.
pub(super) fn step(
    items: &[(Item, Vec<u32>)],
    group: &RowGroup,
    env: &Env,
    isa: Level,
) -> Result<Box<dyn HostStep>, usize> {
    let inside = &group.inside;
    let env = Env { near: inside, ..*env };
    let ty = env.values.ty(inside[0]);
    let cols = ty.shape[ty.shape.len() - 1];
    let rows = ty.elements() / cols.max(1);
    let mut parts = Vec::new();
    for (number, &at) in group.items.iter().enumerate() {
        let part = match &items[at].0 {
            Item::Contract(c) => RowProduct::new(c, &env, isa, inside, (rows, cols)).map(Part::Product),
            Item::Group(g) => {
                let mut g = g.clone();
                if number < group.own {
                    // its other results are in memory already
                    g.outs.retain(|o| inside.contains(&o.value));
                }
                let program = tiles::compile(&g, &env, isa);
                by_rows(&program, inside, (rows, cols)).then_some(Part::Fusion(program))
            }
            Item::Scan(_) | Item::Opaque(_) => None,
        };
        parts.push(part.ok_or(at)?);
    }
    match RowBlocks::new(parts, inside, (rows, cols)) {
        Ok(step) => Ok(Box::new(step)),
        Err(part) => Err(group.items[part]),
    }
}

/// Whether a program reads and writes, of the values inside, the row of the same number alone.
fn by_rows(p: &Program, inside: &[ValueId], (rows, cols): (usize, usize)) -> bool {
    let alone = p.accs.is_empty() && p.prefill.is_empty() && !p.sequential && !p.streams;
    if !alone || p.may_stop() || p.has_segs() || p.sizes.len() < 2 {
        return false;
    }
    let loops = &p.sizes[..=p.row()];
    if p.cursors.iter().any(|c| c.writes && !c.is_own(loops)) {
        return false;
    }
    p.cursors.iter().filter(|c| inside.contains(&c.value)).all(|c| {
        let mut stride = (cols * c.bytes) as i64;
        let in_order = loops.iter().zip(&c.at.coefs).rev().all(|(n, coef)| {
            let same = *n == 1 || *coef == stride;
            stride *= *n as i64;
            same
        });
        let along = p.sizes[p.last()] == cols && (cols == 1 || c.at.coefs[p.last()] == c.bytes as i64);
        in_order && along && c.at.base == 0 && !c.sought && loops.iter().product::<usize>() == rows
    })
}

/// For each value inside, the value whose block it uses: its own, or that of a value that is not read any more and that the
/// program which writes it may overwrite.
fn places(parts: &[Part], inside: &[ValueId]) -> Vec<usize> {
    let number = |v: ValueId| inside.iter().position(|i| *i == v);
    let used = |v: ValueId, parts: &[Part]| parts.iter().any(|part| part.touches().contains(&v));
    let mut place: Vec<usize> = (0..inside.len()).collect();
    let mut taken = vec![false; inside.len()];
    for (at, part) in parts.iter().enumerate() {
        let Part::Fusion(p) = part else { continue };
        for (written, read) in &p.alias {
            let (Some(w), Some(r)) = (number(*written), number(*read)) else { continue };
            let free = !taken[r] && place[w] == w && !used(*read, &parts[at + 1..]) && !used(*written, &parts[..at]);
            if free {
                taken[r] = true;
                place[w] = place[r];
            }
        }
    }
    place
}

/// The rows of a block, if a row of all blocks has `bytes` bytes, and no block has rows on both sides of a multiple of
/// `apart`. It divides `apart` if there is such a number near the best one.
fn block_rows(apart: usize, bytes: usize) -> usize {
    let wanted = (TOGETHER / bytes.max(1)).clamp(LEAST, MOST) / STEP * STEP;
    let divides = |b: &usize| apart.is_multiple_of(*b) && b.is_multiple_of(STEP);
    (wanted / 2..=wanted).rev().filter(|b| *b > 0).find(divides).unwrap_or(wanted).min(apart)
}

impl RowBlocks {
    /// The step of these parts.
    ///
    /// # Errors
    /// The number of a part that can't run in blocks of the size that suits the others.
    fn new(mut parts: Vec<Part>, inside: &[ValueId], (rows, cols): (usize, usize)) -> Result<RowBlocks, usize> {
        let apart = parts.iter().fold(rows, |all, part| {
            let own = match part {
                Part::Fusion(p) => p.sizes[p.row()],
                Part::Product(p) => p.rows(),
            };
            gcd(all as i64, own as i64) as usize
        });
        let number = |v: ValueId| inside.iter().position(|i| *i == v);
        let place = places(&parts, inside);
        let row = 4 * cols;
        let buffers = (0..inside.len()).filter(|i| place[*i] == *i).count();
        let block = block_rows(apart, row * buffers);
        let whole = apart.is_multiple_of(block);
        for (at, part) in parts.iter().enumerate() {
            let fits = match part {
                // A unit of whole rows becomes a block; others have the lines of a tile.
                Part::Fusion(p) => {
                    let units = p.unit_cols == p.sizes[p.last()] || block.is_multiple_of(p.unit_rows);
                    units && (p.sizes[p.row()] == apart || whole)
                }
                Part::Product(p) => p.pays(block),
            };
            if !fits {
                return Err(at);
            }
        }
        // The blocks of one sum follow each other in one task.
        let mut sums: Vec<usize> = parts.iter().filter_map(Part::sums_over).collect();
        sums.dedup();
        let task = match sums.as_slice() {
            [] if whole => block,
            [] => apart,
            [one] => *one,
            _ => rows,
        };
        let traffic = parts.iter().map(|p| p.traffic(inside)).sum();
        let mut at = vec![0; inside.len()];
        let mut blocks = 0;
        for i in 0..inside.len() {
            if place[i] == i {
                at[i] = blocks;
                blocks += (row * block).next_multiple_of(64);
            }
        }
        let inside_at = (0..inside.len()).map(|i| Inside { at: at[place[i]], row }).collect();
        let mut outside: Vec<u32> = parts.iter().flat_map(Part::touches).filter(|v| number(*v).is_none()).collect();
        outside.sort_unstable();
        outside.dedup();
        let local = |v: u32| match number(v) {
            Some(i) => (outside.len() + i) as u32,
            None => outside.binary_search(&v).map_or(0, |i| i as u32),
        };
        let (mut shared, mut kept) = (0, 0);
        for part in &mut parts {
            match part {
                Part::Fusion(p) => {
                    p.remap(&local);
                    if p.unit_cols == p.sizes[p.last()] {
                        p.unit_rows = block;
                        p.block = p.block.min(block);
                    }
                }
                Part::Product(p) => {
                    p.remap(&local);
                    shared = shared.max(p.room(block)).next_multiple_of(64);
                    p.kept_at = kept;
                    kept += p.kept();
                }
            }
        }
        let inside = inside_at;
        let room = blocks + shared + kept;
        Ok(RowBlocks { parts, outside, inside, rows, block, apart, task, blocks, shared, room, traffic })
    }

    fn products(&self) -> impl Iterator<Item = &RowProduct> {
        self.parts.iter().filter_map(|part| match part {
            Part::Product(p) => Some(p),
            Part::Fusion(_) => None,
        })
    }

    /// Runs the blocks of rows `rows`.
    ///
    /// # Safety
    /// The contract of [`HostStep::run`] holds, with the memory of local numbers; `room` has the bytes of the room, and
    /// `packed` has the data that the products have prepared.
    unsafe fn blocks(
        &self,
        table: &mut [*mut u8],
        packed: &[Prepared],
        room: *mut u8,
        rows: Range<usize>,
        threads: usize,
    ) -> Result<(), Fault> {
        let mut from = rows.start;
        while from < rows.end {
            let to = (from + self.block).min((from / self.apart + 1) * self.apart).min(rows.end);
            for (at, inside) in self.inside.iter().enumerate() {
                // The place of row 0, which is not there: only the block's rows are.
                table[self.outside.len() + at] = room.wrapping_add(inside.at).wrapping_sub(from * inside.row);
            }
            let memory = Memory(table);
            let mut prepared = packed.iter();
            for part in &self.parts {
                match part {
                    // SAFETY: the caller upholds the contract; the block has these rows.
                    Part::Fusion(p) => unsafe { p.run_units(memory, units(p, from..to), threads)? },
                    Part::Product(p) => {
                        let Some(prepared) = prepared.next() else { continue };
                        let shared = room.wrapping_add(self.blocks);
                        let rooms = (shared as *mut f32, shared.wrapping_add(self.shared + p.kept_at) as *mut f32);
                        // SAFETY: the caller upholds the contract; the rooms of products follow the blocks.
                        unsafe { p.run(memory, prepared, rooms, from..to, threads) };
                    }
                }
            }
            from = to;
        }
        Ok(())
    }
}

/// The data that a product has prepared before the blocks run.
struct Prepared {
    /// The packed operand.
    packed: *const f32,
    /// For each batch, whether blocks may be left out, once that was needed.
    allowed: Vec<OnceLock<bool>>,
}

// SAFETY: nothing writes the packed operand while blocks run.
unsafe impl Sync for Prepared {}

/// The units of a program that have these rows.
fn units(p: &Program, rows: Range<usize>) -> Range<usize> {
    let of = p.sizes[p.row()];
    let unit = |row: usize, end: bool| {
        let (outer, row) = match end && row.is_multiple_of(of) {
            true => (row / of - 1, of),
            false => (row / of, row % of),
        };
        (outer * p.row_units() + row.div_ceil(p.unit_rows)) * p.col_units()
    };
    unit(rows.start, false)..unit(rows.end, true)
}

impl Part {
    fn touches(&self) -> Vec<u32> {
        match self {
            Part::Fusion(p) => p.touches(),
            Part::Product(p) => p.touches(),
        }
    }

    /// The rows over which a product sums, if it does.
    fn sums_over(&self) -> Option<usize> {
        match self {
            Part::Product(p) if p.role == Role::Sums => Some(p.rows()),
            _ => None,
        }
    }

    /// The bytes that the part reads and writes, except for values inside.
    fn traffic(&self, inside: &[ValueId]) -> usize {
        match self {
            Part::Fusion(p) => p.traffic_of(&|v| !inside.contains(&v)),
            Part::Product(p) => p.traffic(),
        }
    }

    fn cost(&self) -> f64 {
        match self {
            Part::Fusion(p) => p.cost,
            Part::Product(p) => p.cost(),
        }
    }

    fn describe(&self) -> String {
        match self {
            Part::Fusion(p) => p.describe(),
            Part::Product(p) => p.describe(),
        }
    }
}

impl HostStep for RowBlocks {
    fn touches(&self) -> Vec<u32> {
        self.outside.clone()
    }

    fn remap(&mut self, storage: &dyn Fn(u32) -> u32) {
        self.outside.iter_mut().for_each(|v| *v = storage(*v));
    }

    fn scratch(&self) -> usize {
        self.products().map(|p| p.packed()).sum()
    }

    unsafe fn run(&self, memory: Memory, _: &[usize], scratch: *mut u8, threads: usize) -> Result<(), Stopped> {
        let outside = self.outside.iter().map(|v| memory.at(*v));
        let table: SmallVec<[*mut u8; 16]> = outside.chain(self.inside.iter().map(|_| std::ptr::null_mut())).collect();
        let mut at = 0;
        let mut prepared: SmallVec<[Prepared; 8]> = SmallVec::new();
        for p in self.products() {
            // SAFETY: the caller upholds the contract; the scratch has room for what each product packs.
            unsafe {
                let to = scratch.add(at) as *mut f32;
                p.pack(Memory(&table), to, threads);
                let allowed = (0..p.batches()).map(|_| OnceLock::new()).collect();
                prepared.push(Prepared { packed: to, allowed });
            }
            at += p.packed();
        }
        let fault = FirstFault::default();
        let tasks = self.rows.div_ceil(self.task);
        // Few tasks run one after the other, and the threads share the work of each block.
        let (outer, inner) = if tasks >= 2 * threads { (threads, 1) } else { (1, threads) };
        let (shared, prepared) = (Memory(&table), prepared.as_slice());
        threads::share(tasks, outer, self.cost(), &|claims| {
            let mut table: SmallVec<[*mut u8; 16]> = SmallVec::from_slice(shared.all());
            let Some(room) = fault.block(self.room) else { return };
            for task in claims.flatten() {
                let rows = task * self.task..((task + 1) * self.task).min(self.rows);
                // SAFETY: the caller upholds the contract; tasks have rows of their own.
                if let Err(e) = unsafe { self.blocks(&mut table, prepared, room.data(), rows, inner) } {
                    fault.set(e);
                }
            }
        });
        Ok(fault.result()?)
    }

    fn cost(&self) -> f64 {
        self.parts.iter().map(Part::cost).sum()
    }

    fn flops(&self) -> f64 {
        self.products().map(RowProduct::flops).sum()
    }

    fn traffic(&self) -> usize {
        self.traffic
    }

    fn describe(&self) -> String {
        let parts: Vec<String> = self.parts.iter().map(Part::describe).collect();
        format!("blocks of {} of {} rows: {}", self.block, self.rows, parts.join("; "))
    }
}
