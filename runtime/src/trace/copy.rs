//! Copies of bodies with values of their own.

use super::arena::Arena;
use super::types::{Body, BoundSymbol, ProxyId};
use rustc_hash::FxHashMap;
use std::cell::OnceCell;
use std::rc::Rc;

impl Body {
    /// A copy whose lines make values of their own, for a second line that would make the same ones. Bodies of its lines
    /// are made anew, since those of the original lines make the values of the original.
    pub fn copy(&self, arena: &Arena) -> Body {
        let fresh = |p: ProxyId| (p, arena.proxy(&arena.name(p), arena.ty(p)));
        let map: FxHashMap<ProxyId, ProxyId> = self.made().map(fresh).collect();
        let Body { lines, outs, decomposed } = self.remap(&mut |p| map.get(&p).copied().unwrap_or(p));
        let own = |line: &Rc<BoundSymbol>| {
            let (id, body) = (arena.next_line(line.symbol), OnceCell::new());
            Rc::new(BoundSymbol { id, body, ..(**line).clone() })
        };
        Body { lines: lines.iter().map(own).collect(), outs, decomposed }
    }
}
