//! Prepared copies of inputs that do not change from run to run, such as the weights of a model.
//!
//! A step offers to read an operand in another order ([`super::host_step::HostStep::keeps`]). If
//! the operand is an input, and the last runs got it in the same block of memory, the operand is
//! copied to that order once, and later runs read the copy. The program holds a share of the block
//! as long as it has the copy. A shared block is never written, so the copy stays equal to the
//! operand. An input that the caller donates, and of which no other share exists, is released first
//! and has no copy in that run.

use crate::buffer::Buffer;
use crate::buffer::pool::Block;
use smallvec::SmallVec;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// All programs together keep at most this many bytes, which are the weights of a model of 64 million parameters in f32.
static LIMIT: AtomicUsize = AtomicUsize::new(256 << 20);
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// Sets how many bytes of prepared copies of unchanged inputs all programs may keep together; with 0, none. Copies that
/// exist already stay until their input changes.
pub fn set_kept_limit(bytes: usize) {
    LIMIT.store(bytes, Ordering::Relaxed);
}

/// The number of bytes of prepared copies of unchanged inputs that programs keep.
pub fn kept_bytes() -> usize {
    KEPT.load(Ordering::Relaxed)
}

/// An operand that a step can keep.
pub(crate) struct Keep {
    /// The step.
    pub step: usize,
    /// The number of the program's input.
    pub input: usize,
    /// The storage of the copy.
    pub storage: u32,
    /// The bytes of the copy.
    pub bytes: usize,
}

/// A copy, and the block whose copy it is.
struct Copied {
    source: Block,
    copy: Block,
    bytes: usize,
}

impl Drop for Copied {
    fn drop(&mut self) {
        KEPT.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The history of one operand.
struct Slot {
    /// The address of the block in the last run, and the number of runs that had it.
    seen: (usize, usize),
    /// A copy is made when this many runs had one block.
    patience: usize,
    copied: Option<Copied>,
}

/// A copy is made when the second run has the block of the first.
const PATIENCE: usize = 2;

/// The operands that a program can keep, and their copies.
pub(super) struct KeptInputs {
    /// By input: several steps may read one.
    keeps: Vec<Keep>,
    slots: Mutex<Vec<Slot>>,
}

/// The copies that a run uses, by storage. No other run can free them.
pub(super) type Lent = SmallVec<[(u32, Block); 4]>;

impl KeptInputs {
    /// The state before the first run.
    pub fn new(mut keeps: Vec<Keep>) -> KeptInputs {
        keeps.sort_by_key(|k| k.input);
        let slot = |_: &Keep| Slot { seen: (0, 0), patience: PATIENCE, copied: None };
        KeptInputs { slots: Mutex::new(keeps.iter().map(slot).collect()), keeps }
    }

    /// The copies of these inputs. `prepare` makes the copy of an operand in a new block.
    pub fn lend(&self, inputs: &[Buffer], donated: &[bool], prepare: &dyn Fn(&Keep, *mut u8, *mut u8)) -> Lent {
        let mut lent = Lent::new();
        // Another thread that runs the program now may change the copies, so this run does without them.
        let Ok(mut slots) = self.slots.try_lock() else { return lent };
        let mut slots = slots.iter_mut();
        for keeps in self.keeps.chunk_by(|a, b| a.input == b.input) {
            let (of_input, rest) = std::mem::take(&mut slots).into_slice().split_at_mut(keeps.len());
            slots = rest.iter_mut();
            let input = keeps[0].input;
            let held = |b: &Block| of_input.iter().filter(|slot| slot.holds(b)).count();
            let given = |b: &Block| donated.get(input) == Some(&true) && b.shares() == 1 + held(b);
            let Some(block) = inputs[input].held_here().filter(|b| !b.is_lent() && !given(b)) else {
                of_input.iter_mut().for_each(Slot::forget);
                continue;
            };
            for (keep, slot) in keeps.iter().zip(of_input) {
                if slot.is_due(block)
                    && let Some(copy) = reserve(keep.bytes)
                {
                    prepare(keep, block.data(), copy.data());
                    slot.copied = Some(Copied { source: block.clone(), copy, bytes: keep.bytes });
                }
                if let Some(copied) = &slot.copied {
                    lent.push((keep.storage, copied.copy.clone()));
                }
            }
        }
        lent
    }
}

impl Slot {
    /// Whether the slot holds a share of a block.
    fn holds(&self, block: &Block) -> bool {
        self.copied.as_ref().is_some_and(|c| c.source.same(block))
    }

    /// Notes a run with this block; returns whether it is time to copy it.
    fn is_due(&mut self, block: &Block) -> bool {
        let (address, runs) = self.seen;
        if let Some(copied) = &self.copied {
            if copied.source.same(block) {
                self.seen.1 += 1;
                return false;
            }
            // A copy that only a few runs used did not pay for itself, so the next block is copied
            // later.
            if runs < 4 * self.patience {
                self.patience = self.patience.saturating_mul(2);
            }
            self.copied = None;
        }
        self.seen = (block.address(), if address == block.address() { runs + 1 } else { 1 });
        self.seen.1 >= self.patience
    }

    /// Releases the copy and its source.
    fn forget(&mut self) {
        self.copied = None;
        self.seen = (0, 0);
    }
}

/// A new block that counts as kept, if the limit allows it and there is memory.
fn reserve(bytes: usize) -> Option<Block> {
    let fits = KEPT.fetch_add(bytes, Ordering::Relaxed) + bytes <= LIMIT.load(Ordering::Relaxed);
    let block = fits.then(|| Block::new(bytes).ok()).flatten();
    if block.is_none() {
        KEPT.fetch_sub(bytes, Ordering::Relaxed);
    }
    block
}
