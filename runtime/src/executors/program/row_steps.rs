//! The steps that run items block by block.

use super::host_step::{HostStep, Linker};
use crate::executors::fusion::fuse::Item;
use crate::executors::fusion::graph::ValueId;
use crate::executors::fusion::items::Env;
use crate::executors::fusion::row_blocks::{Found, Ordered, RowGroup, order};
use rustc_hash::{FxHashMap, FxHashSet};

/// A step, and the lines that it runs.
type Lined = (Box<dyn HostStep>, Vec<u32>);

/// The steps of groups, and the order in which they and the other items run.
pub(super) struct RowSteps {
    steps: Vec<Option<Lined>>,
    pub order: Vec<Ordered>,
}

impl RowSteps {
    /// The groups that the executor can run block by block.
    pub fn of(
        items: &[(Item, Vec<u32>)],
        outputs: &[ValueId],
        env: &Env<'_>,
        (linker, least): (&dyn Linker, usize),
    ) -> RowSteps {
        let mut barred = FxHashSet::default();
        let mut made: FxHashMap<RowGroup, Box<dyn HostStep>> = FxHashMap::default();
        loop {
            let found = Found { items, outputs, values: env.values, form: env.form, least, barred: &barred };
            let groups = found.groups();
            let mut refused = Vec::new();
            for group in &groups {
                if !made.contains_key(group) {
                    match linker.row_blocks(items, group, env) {
                        Ok(step) => _ = made.insert(group.clone(), step),
                        Err(item) => refused.extend(found.touched(item, group)),
                    }
                }
            }
            if !refused.is_empty() {
                // Each round bars at least one more value, because each item of a group reads or
                // writes one.
                barred.extend(refused);
                continue;
            }
            let Some(order) = order(&found, &groups) else {
                // Groups wait for each other, so the values of the last one exist whole.
                barred.extend(groups.iter().next_back().into_iter().flat_map(|g| g.inside.iter().copied()));
                continue;
            };
            let step = |group: &RowGroup| {
                let lines = group.items.iter().flat_map(|i| items[*i].1.iter().copied()).collect();
                made.remove(group).map(|step| (step, lines))
            };
            return RowSteps { steps: groups.iter().map(step).collect(), order };
        }
    }

    /// The step of a group.
    pub fn take(&mut self, group: usize) -> Option<Lined> {
        self.steps[group].take()
    }
}
