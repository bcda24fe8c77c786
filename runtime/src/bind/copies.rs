//! Bodies of lines that share their solved signature: a body is made once, then copied over other values.

use super::hint;
use crate::trace::tag::TagSet;
use crate::trace::*;
use fulgurite_core::Value;
use rustc_hash::FxHashMap;
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

/// Keeps a body for later lines that differ from this one only in the values that they read, if they can share it.
/// Draws differ by key, and writes by the earlier writes, so such bodies are not kept.
pub(super) fn keep(arena: &Arena, line: &BoundSymbol, body: &Rc<Body>) {
    let plain = |l: &BoundSymbol| !l.symbol.row().takes_key() && l.effects == Effects::default();
    // a nested body was made for its own line, and would have to be copied too
    let shared = |l: &Rc<BoundSymbol>| plain(l) && l.body.get().is_none();
    if plain(line) && body.lines.iter().all(shared) {
        let known = KnownBody { _solved: line.solved.clone(), args: line.args.clone(), body: body.clone() };
        arena.known_bodies().insert(key(line), known);
    }
}

/// The body of a line, copied from that of an equal line. `tags` are those of its lines.
pub(super) fn copy(arena: &Arena, line: &BoundSymbol, tags: TagSet) -> Option<Body> {
    let (body, mut map) = {
        let known = arena.known_bodies();
        let known = known.get(&key(line))?;
        (known.body.clone(), arguments(arena, &known.args, &line.args)?)
    };
    let mut lines = Vec::with_capacity(body.lines.len());
    for of in &body.lines {
        let args = renamed(&of.args, &map)?;
        let sig = &of.symbol.row().sig;
        let declared = sig.outs.iter().zip(&of.solved.outs).chain(sig.aux.iter().zip(&of.solved.aux));
        let mut made = of.outs.iter().chain(&of.aux);
        for (out, types) in declared {
            for (_, old) in types.tensors().iter().zip(&mut made) {
                map.insert(*old, arena.proxy(hint(of.symbol, out.name.name), arena.ty(*old)));
            }
        }
        let of_these = |proxies: &[ProxyId]| proxies.iter().map(|p| map.get(p).copied()).collect::<Option<Vec<_>>>();
        lines.push(Rc::new(BoundSymbol {
            id: arena.next_line(of.symbol),
            symbol: of.symbol,
            args,
            outs: of_these(&of.outs)?,
            dead: of.dead,
            aux: of_these(&of.aux)?,
            solved: of.solved.clone(),
            region: line.region,
            own_tags: tags,
            place: line.place,
            merged: Vec::new(),
            origin: Some(line.id),
            claimed_by: None,
            ruled_by: None,
            effects: Effects::default(),
            dispatch: None,
            body: OnceCell::new(),
        }));
    }
    let outs = body.outs.iter().map(|p| map.get(p).copied()).collect::<Option<_>>()?;
    Some(Body { decomposed: true, lines, outs })
}

/// The key of a body; lines with one key differ in their tensors only.
fn key(line: &BoundSymbol) -> (usize, usize) {
    (std::ptr::from_ref(line.symbol) as usize, Arc::as_ptr(&line.solved) as usize)
}

/// The map from one list of arguments to another: it is one to one, and types are equal.
fn arguments(arena: &Arena, from: &[Value<ProxyId>], to: &[Value<ProxyId>]) -> Option<FxHashMap<ProxyId, ProxyId>> {
    let list = |args: &[Value<ProxyId>]| {
        let mut all = Vec::new();
        args.iter().for_each(|a| a.for_each(&mut |p| all.push(*p)));
        all
    };
    let (from, to) = (list(from), list(to));
    let (mut map, mut back) = (FxHashMap::default(), FxHashMap::default());
    let same = |(a, b): (&ProxyId, &ProxyId)| {
        *map.entry(*a).or_insert(*b) == *b && *back.entry(*b).or_insert(*a) == *a && arena.ty(*a) == arena.ty(*b)
    };
    (from.len() == to.len() && from.iter().zip(&to).all(same)).then_some(map)
}

/// The arguments over other values.
fn renamed(args: &[Value<ProxyId>], map: &FxHashMap<ProxyId, ProxyId>) -> Option<Vec<Value<ProxyId>>> {
    let mut known = true;
    let renamed = args.iter().map(|a| {
        a.map(&mut |p| {
            known &= map.contains_key(p);
            map.get(p).copied().unwrap_or(*p)
        })
    });
    let renamed = renamed.collect();
    known.then_some(renamed)
}
