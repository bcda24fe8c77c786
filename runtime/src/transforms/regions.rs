//! Regions for lines that a transform makes for other lines: the scopes of those lines, without the scopes that do not
//! apply.

use crate::trace::tag::{Event, Policy, SplitSide};
use crate::trace::*;
use rustc_hash::FxHashMap;

/// Maps regions to regions without scopes of certain kinds around them.
pub(super) struct Outside {
    root: RegionId,
    stays: fn(&RegionKind) -> bool,
    event: Event,
    known: FxHashMap<RegionId, RegionId>,
}

impl Outside {
    /// Keeps the scopes inside `root` that `stays` accepts. A scope with a tag that a user declared is kept if the
    /// tag's policy at `event` allows it.
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

    /// The region that remains of `id`, which is `id` itself if no scope is removed.
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
