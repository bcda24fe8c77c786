//! Finds the results of a program that may take the memory of values that it reads.

use super::emit::Emit;
use super::program::Cursor;
use crate::executors::fusion::graph::ValueId;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::hash_map::Entry;

impl Emit<'_> {
    /// Finds written values that may take the memory of read ones: both use equal places, and each place is read before
    /// it is written.
    pub(super) fn aliases(&mut self) {
        let mut pairs = Vec::new();
        let mut known = FxHashSet::default();
        // The first and the last use of each cursor.
        let mut uses: Vec<Option<(Use, Use)>> = vec![None; self.p.cursors.len()];
        for &(cursor, walk, stage, step) in &self.touched {
            let now = (walk, stage, step);
            let span = uses[cursor as usize].get_or_insert((now, now));
            *span = (span.0.min(now), span.1.max(now));
        }
        let reads = self.reads(&uses);
        // Of several workers that read one place, one may write before another reads.
        let own = |c: &Cursor| c.is_own(&self.p.sizes);
        for (w, written) in self.p.cursors.iter().enumerate().filter(|(_, c)| c.writes && own(c)) {
            let Some((first, _)) = uses[w] else { continue };
            for read in &reads {
                let same = read.cursor.at == written.at && read.cursor.bytes == written.bytes && read.last <= first;
                if same && known.insert((written.value, read.cursor.value)) {
                    pairs.push((written.value, read.cursor.value));
                }
            }
        }
        for f in &self.p.prefill {
            // Elements are placed onto the base, which needs no copy if nothing else reads it.
            if let Some(base) = f.base
                && !self.p.cursors.iter().any(|c| c.value == base)
            {
                pairs.push((f.value, base));
            }
        }
        self.p.alias = pairs;
    }

    /// The values that are read in one way only, with their cursors, in the order of the cursors.
    fn reads(&self, uses: &[Option<(Use, Use)>]) -> Vec<Read<'_>> {
        let mut reads: Vec<Option<Read>> = Vec::new();
        let mut of: FxHashMap<ValueId, usize> = FxHashMap::default();
        for (cursor, used) in self.p.cursors.iter().zip(uses).filter(|(c, _)| !c.writes) {
            let new = used.filter(|_| !cursor.sought).map(|(_, last)| Read { cursor, last });
            match of.entry(cursor.value) {
                Entry::Vacant(at) => {
                    at.insert(reads.len());
                    reads.push(new);
                }
                Entry::Occupied(at) => {
                    let read = &mut reads[*at.get()];
                    *read = match (read.take(), new) {
                        (Some(a), Some(b)) if a.cursor.at == b.cursor.at && a.cursor.bytes == b.cursor.bytes => {
                            Some(Read { last: a.last.max(b.last), ..a })
                        }
                        _ => None,
                    };
                }
            }
        }
        reads.into_iter().flatten().collect()
    }
}

/// The time at which a cursor is used: walk, stage of the walk, step.
type Use = (usize, usize, usize);

/// The way in which a value is read.
struct Read<'a> {
    cursor: &'a Cursor,
    last: Use,
}
