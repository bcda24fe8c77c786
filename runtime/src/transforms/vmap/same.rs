//! Decides whether a call of a row on whole batches is equivalent to its calls on every slice.
//!
//! For a row in index notation both meanings are lowered; if the loops are equal, so are the calls. For a composite two
//! bodies are made: that of the call, and that of one slice with each line batched; they must be equal line by line.

use super::Sweep;
use super::args::{Batched, shifted};
use crate::symbol::{Registered, SymbolRef};
use crate::trace::*;
use fulgurite_core::dim::estimating;
use fulgurite_core::loop_nest::Nest;
use fulgurite_core::lower::lower_with;
use fulgurite_core::signature::{Item, OutTy, Solved};
use fulgurite_core::{Dim, Value};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use std::sync::Arc;

/// The loops of a call, without the ranks of arguments of which only the type is used.
fn loops(symbol: SymbolRef, solved: &Solved) -> Option<Nest> {
    let nest = lower_with(symbol.row(), symbol.row().index_body()?, solved, &Registered).ok()?;
    Some(Nest { ranks: Vec::new(), ..nest })
}

impl Sweep {
    /// The arguments of a call of the line's own row on all slices, which may be equivalent.
    pub(super) fn candidate(&mut self, line: &BoundSymbol, flags: &[bool]) -> Option<Vec<Value<ProxyId>>> {
        let start = self.b.lines().len();
        let made = self.slices(line, flags.to_vec(), true).ok()?;
        let mut args = made.args;
        if shifted(line.symbol.row(), line, &mut args).is_none() || self.solved(line.symbol, &args).is_none() {
            self.b.take_from(start);
            return None;
        }
        Some(args)
    }

    /// The solved signature of a call. Nothing relies on it before the call is recorded, which solves it again.
    fn solved(&self, symbol: SymbolRef, args: &[Value<ProxyId>]) -> Option<Arc<Solved>> {
        estimating(|| self.b.solve(symbol, args.to_vec())).ok().map(|call| call.solved)
    }

    /// Whether the row itself, called in this way, has the loops of the batched row.
    ///
    /// Loops are made of numbers, so symbolic sizes are taken at their present values. The answer holds for other sizes
    /// if the loops run over equal expressions, except for sizes that lowering treats specially: 0 and 1.
    pub(super) fn same_loops(&self, own: (SymbolRef, &[Value<ProxyId>]), batched: (SymbolRef, &Batched)) -> bool {
        let (symbol, Batched { args, .. }) = batched;
        let (Some(own_call), Some(batched_call)) = (self.solved(own.0, own.1), self.solved(symbol, args)) else {
            return false;
        };
        let same = || match (loops(own.0, &own_call), loops(symbol, &batched_call)) {
            (Some(a), Some(b)) => a == b && a.vars.iter().zip(&b.vars).all(|(a, b)| a.same(*b)),
            _ => false,
        };
        let sizes = own_call.env.slots.iter().flatten().flat_map(|ty| &ty.shape);
        let special = |d: &Dim| !d.is_const() && d.hint() <= 1;
        if sizes.chain([&self.size]).any(special) { same() } else { estimating(same) }
    }

    /// Whether these lines, which make `outs`, are those of a body over equal values.
    pub(super) fn same_lines(&self, lines: &[Rc<BoundSymbol>], outs: &[ProxyId], body: &Body) -> bool {
        let mut names: FxHashMap<ProxyId, ProxyId> = FxHashMap::default();
        let equal = lines.len() == body.lines.len()
            && lines.iter().zip(&body.lines).all(|(a, b)| {
                let same = std::ptr::eq(a.symbol, b.symbol)
                    && types(&a.solved) == types(&b.solved)
                    && reads(a).eq(reads(b).map(|p| names.get(&p).copied().unwrap_or(p)));
                names.extend(b.outs.iter().chain(&b.aux).copied().zip(a.outs.iter().chain(&a.aux).copied()));
                same
            });
        equal && outs.iter().copied().eq(body.outs.iter().map(|p| names.get(p).copied().unwrap_or(*p)))
    }
}

/// The parts of a call besides the values that it reads.
fn types(solved: &Solved) -> (Vec<&Item>, &[OutTy], &[OutTy]) {
    (solved.env.items.iter().map(|(_, item)| item).collect(), &solved.outs, &solved.aux)
}

fn reads(line: &BoundSymbol) -> impl Iterator<Item = ProxyId> {
    let mut all = Vec::new();
    line.for_each_arg(|p| all.push(p));
    all.into_iter()
}
