//! Folds that run once per line rather than once per tile.

use super::emit::Emit;
use super::program::{LineFold, Move, Phase, Step};

/// A line of at most this many bytes is still in the first-level cache after its last tile.
const LINE_BYTES: usize = 8 * 1024;

impl Emit<'_> {
    /// Folds whole kept lines, if they stay in the first-level cache until their last tile is done.
    pub(super) fn fold_lines(&mut self) {
        let one_line = self.n.tile.0 == 1 && !self.p.has_segs();
        let line = self.n.sizes[self.n.last()];
        let phase = self.phase();
        if !one_line || !phase.tiled {
            return;
        }
        let Phase { kept, tiles, folds, .. } = phase;
        tiles.retain(|step| match *step {
            Step::Fold { f, src, bytes, acc } if line * bytes <= LINE_BYTES => {
                let is_kept = |slot| kept.iter().any(|k| k.slot == slot && k.elem == bytes);
                let whole = (src..src + f.lines()).all(is_kept);
                if whole {
                    folds.push(LineFold { f, src, acc });
                }
                !whole
            }
            _ => true,
        });
    }

    /// Lists the slots that move from tile to tile.
    pub(super) fn moves(&mut self) {
        let phase = self.phase();
        let memory = phase.in_place.iter().flat_map(|i| i.slots.iter().map(|s| Move { slot: *s, elem: i.bytes }));
        let kept = phase.kept.iter().filter(|k| k.elem > 0).map(|k| Move { slot: k.slot, elem: k.elem });
        phase.moves = memory.chain(kept).collect();
        phase.settle();
    }
}
