//! Regions of lines that a transform makes for other lines: the same scopes without those that do not reach there.

use crate::trace::tag::{Event, Policy, SplitSide};
use crate::trace::*;
use rustc_hash::FxHashMap;

/// For regions, the region without scopes of certain kinds around it.
pub(super) struct Outside {
    root: RegionId,
    stays: fn(&RegionKind) -> bool,
    event: Event,
    known: FxHashMap<RegionId, RegionId>,
}

impl Outside {
    /// Of scopes inside `root`, those that `stays` accepts are kept; of those with a tag that a user declared, the ones
    /// whose policy at `event` says so.
    pub(super) fn new(root: RegionId, stays: fn(&RegionKind) -> bool, event: Event) -> Outside {
        Outside { root, stays, event, known: FxHashMap::default() }
    }

    fn stays(&self, kind: &RegionKind) -> bool {
        match kind {
            RegionKind::Tagged(tag) => match tag.decl().policies.at(self.event, SplitSide::Before) {
                Policy::All => true,
                Policy::Keep => self.event == Event::Replace,
                _ => false,
            },
            kind => (self.stays)(kind),
        }
    }

    /// What is left of `id`: itself if nothing goes.
    pub(super) fn of(&mut self, arena: &Arena, id: RegionId) -> RegionId {
        if id == self.root || id == RegionId(0) {
            return id;
        }
        if let Some(known) = self.known.get(&id) {
            return *known;
        }
        let region = arena.region(id);
        let parent = region.parent.unwrap_or(RegionId(0));
        let outer = self.of(arena, parent);
        let kept = match self.stays(&region.kind) {
            true if outer == parent => id,
            true => arena.add_region(outer, region.kind, region.loc),
            false => outer,
        };
        self.known.insert(id, kept);
        kept
    }
}
