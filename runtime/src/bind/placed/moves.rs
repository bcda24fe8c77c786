//! Moves pieces from one placement to another by collective rows.

use crate::bind::Builder;
use crate::error::Error;
use crate::intrinsics::Intrinsic;
use crate::trace::*;
use fulgurite_core::sharding::{Fold, Place, cost, traffic};
use fulgurite_core::{Name, Scalar, TensorTy, Value};
use std::rc::Rc;

fn int(i: usize) -> Value<ProxyId> {
    Value::Num(Scalar::Int(i as i64))
}

/// The pieces of a tensor of type `ty` in another placement.
pub(super) fn bring(
    b: &mut Builder,
    pieces: &[ProxyId],
    from: Place,
    to: Place,
    ty: &TensorTy,
) -> Result<Vec<ProxyId>, Error> {
    let ranks = pieces.len();
    let list = || Value::List(pieces.iter().map(|p| Value::Tensor(*p)).collect());
    let word = |fold: Fold| ("op", Value::Word(Name::new(fold.word())));
    let mut call = |op: Intrinsic, args: Vec<Value<ProxyId>>, named: &[(&str, Value<ProxyId>)]| {
        let named = named.iter().map(|(name, value)| (Name::new(name), value.clone())).collect();
        Ok::<_, Error>(b.call_row(Name::new(op.name()), args, named)?.outs.clone())
    };
    match (from, to) {
        (from, to) if from == to => Ok(pieces.to_vec()),
        (Place::Shard(dim), Place::Replicate) => call(Intrinsic::AllGather, vec![list()], &[("dim", int(dim))]),
        (Place::Shard(dim), Place::Shard(to)) => {
            call(Intrinsic::AllToAll, vec![list()], &[("gather", int(dim)), ("scatter", int(to))])
        }
        (Place::Partial(fold), Place::Replicate) => call(Intrinsic::AllReduce, vec![list()], &[word(fold)]),
        (Place::Partial(fold), Place::Shard(dim)) => {
            call(Intrinsic::ReduceScatter, vec![list()], &[word(fold), ("dim", int(dim))])
        }
        // the remaining moves need no message, because each rank has the elements that it needs
        (Place::Replicate, Place::Shard(dim)) => {
            let mut own = Vec::new();
            for (rank, p) in pieces.iter().enumerate() {
                let all = call(Intrinsic::Pieces, vec![Value::Tensor(*p), int(ranks)], &[("dim", int(dim))])?;
                own.push(all[rank]);
            }
            Ok(own)
        }
        (Place::Replicate, Place::Partial(Fold::Sum)) => {
            let nothing = b.full(ty, 0.0)?;
            Ok((0..ranks).map(|rank| if rank == 0 { pieces[0] } else { nothing }).collect())
        }
        (Place::Replicate, Place::Partial(_) | Place::Replicate) => Ok(pieces.to_vec()),
        (Place::Shard(_) | Place::Partial(_), Place::Partial(_)) => {
            let whole = bring(b, pieces, from, Place::Replicate, ty)?;
            bring(b, &whole, Place::Replicate, to, ty)
        }
    }
}

/// The move that a line makes: the placements before and after, the size of the whole tensor, and the number of ranks;
/// `None` for other lines.
fn moves(arena: &Arena, line: &BoundSymbol) -> Option<(Place, Place, u64, u64)> {
    let (shard, part) = (Place::Shard(0), Place::Partial(Fold::Sum));
    let (from, to) = match Intrinsic::of(line.symbol)? {
        Intrinsic::AllGather => (shard, Place::Replicate),
        Intrinsic::AllReduce => (part, Place::Replicate),
        Intrinsic::ReduceScatter => (part, shard),
        Intrinsic::AllToAll => (shard, Place::Shard(1)),
        Intrinsic::Pieces => (Place::Replicate, shard),
        _ => return None,
    };
    let mut pieces = Vec::new();
    line.for_each_arg(|p| pieces.extend(arena.tensor_ty(p)));
    let (ranks, all) = (pieces.len() as u64, pieces.iter().map(super::bytes).sum::<u64>());
    // partial pieces are as large as the whole
    Some((from, to, if from == part { all / ranks.max(1) } else { all }, ranks))
}

/// Whether one of these lines, or one in their bodies, moves a tensor.
pub(super) fn any(arena: &Arena, lines: &[Rc<BoundSymbol>]) -> bool {
    let body = |line: &BoundSymbol| line.dispatch.as_ref().is_some_and(|body| any(arena, &body.lines));
    lines.iter().any(|line| moves(arena, line).is_some() || body(line))
}

/// The cost of the collectives among these lines and in their bodies.
pub(super) fn cost_of(arena: &Arena, lines: &[Rc<BoundSymbol>]) -> u64 {
    let one = |line: &Rc<BoundSymbol>| match moves(arena, line) {
        Some((from, to, bytes, ranks)) => cost(from, to, bytes, ranks).unwrap_or(0),
        None => line.dispatch.as_ref().map_or(0, |body| cost_of(arena, &body.lines)),
    };
    lines.iter().map(one).sum()
}

/// The collective lines of a trace, with the bytes that each rank sends: `all_gather 192 B, all_reduce 24 B`.
pub fn collectives(trace: &Trace) -> Option<String> {
    let one = |line: &Rc<BoundSymbol>| {
        let (from, to, bytes, ranks) = moves(&trace.arena, line)?;
        let (_, sent) = traffic(from, to, bytes, ranks)?;
        (sent > 0).then(|| format!("{} {sent} B", line.symbol.name()))
    };
    let found: Vec<String> = trace.lines.iter().filter_map(one).collect();
    (!found.is_empty()).then(|| format!("each rank sends: {}", found.join(", ")))
}
