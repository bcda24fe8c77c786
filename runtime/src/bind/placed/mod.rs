//! Sharded operators: the rule `placed` of a class whose field is a list with one piece per rank, and whose metadata
//! `place`, `dim` and `shape` describe how the pieces form the whole.
//!
//! The pieces that an operator needs follow from its loops ([`fulgurite_core::sharding`]). Pieces with another placement
//! are moved by collective rows (`all_gather`, `all_reduce`, `reduce_scatter`, `all_to_all`), each a line of the body;
//! then the operator runs on the pieces of each rank. An operator with options `place` and `dim` chooses the placement
//! of its result itself.

mod moves;
mod pieces;

pub use moves::collectives;

use super::layouts::{place_of, unflatten};
use super::{Builder, body};
use crate::error::{Error, ErrorKind};
use crate::symbol::{Registered, SubclassRef};
use crate::trace::*;
use fulgurite_core::lang::ast::{Elem, Opt, OptType};
use fulgurite_core::loop_nest::Nest;
use fulgurite_core::lower::lower_with;
use fulgurite_core::sharding::{Held, Place, Way, best, moved, piece, ways};
use fulgurite_core::signature::OutTy;
use fulgurite_core::{Dim, Name, TensorTy, Value};
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

/// One value per result.
type Results = Vec<Value<ProxyId>>;

/// A tensor of a call.
struct Operand {
    /// The number of its parameter.
    param: usize,
    /// The type of the whole tensor; a key has none.
    ty: Option<TensorTy>,
    /// The placement and the pieces; `None` for a value that every rank has whole.
    held: Option<Pieces>,
}

impl Operand {
    fn bytes(&self) -> u64 {
        self.ty.as_ref().map_or(0, bytes)
    }

    fn place(&self) -> Option<Place> {
        self.held.as_ref().map(|(place, _)| *place)
    }
}

fn bytes(ty: &TensorTy) -> u64 {
    ty.numel() as u64 * ty.dtype.size() as u64
}

/// A call on tensors in pieces.
struct Placed<'a> {
    line: &'a BoundSymbol,
    class: SubclassRef,
    ranks: usize,
    /// The tensors, in the order of the row's loads.
    operands: Vec<Operand>,
}

/// The results of a line on tensors in pieces.
///
/// # Errors
/// E708 for tensors of several meshes, for plain tensors of rank above 0, or for a view that would have to move
/// elements; and errors of the calls on pieces.
pub(super) fn run(b: &mut Builder, line: &BoundSymbol, class: SubclassRef) -> Result<Results, Error> {
    let call = Placed::new(b, line, class)?;
    if let Some(to) = call.wanted() {
        return call.redistributed(b, to);
    }
    let row = line.symbol.row();
    if row.is_composite() {
        return call.composite(b);
    }
    let block = row.index_body();
    let nest = block.and_then(|block| lower_with(row, block, &line.solved, &Registered).ok());
    // if a class does not simply stand for its plain tensors, partial results need not sum to the whole: for instance,
    // a mean over the elements that a mask shows
    let whole = call.of_classes(b.arena()).iter().any(|class| class.rules().error.when.is_some());
    let found = nest.as_ref().and_then(|nest| call.way(nest, whole));
    let (way, sizes) = found.unwrap_or_else(|| (call.whole(), false));
    let costs = call.cost(&way);
    if costs > 0
        && let Some(way) = nest.and_then(|nest| pieces::reshaped(&call, &nest))
    {
        return call.pieces(b, &way, true);
    }
    // a user holds no elements of a view that a rule or a decomposition takes
    if costs > 0 && line.symbol.is_view() && line.origin.is_none() {
        return Err(call.stuck());
    }
    call.pieces(b, &way, sizes)
}

impl<'a> Placed<'a> {
    fn new(b: &mut Builder, line: &'a BoundSymbol, class: SubclassRef) -> Result<Placed<'a>, Error> {
        let mut leaves = Vec::new();
        for (param, arg) in line.args.iter().enumerate().take(line.symbol.row().sig.params.len()) {
            let items = if let Value::List(items) = arg { items.as_slice() } else { std::slice::from_ref(arg) };
            let loaded = items.iter().filter(|v| pieces::is_loaded(b.arena(), v));
            leaves.extend(loaded.map(|v| (param, v.clone())));
        }
        let mut call = Placed { line, class, ranks: 0, operands: Vec::new() };
        for (param, leaf) in &leaves {
            // two numbers that an operator returned are a key, which every rank has
            let is_key = line.symbol.row().sig.params[*param].ty.elem.contains(&Elem::Key);
            let (ty, held) = match leaf {
                Value::Tensor(_) if is_key => (None, None),
                Value::Tensor(p) => operand(b, &mut call, *p)?,
                Value::Type(ty) => (Some(ty.clone()), None),
                _ => (None, None),
            };
            call.operands.push(Operand { param: *param, ty, held });
        }
        // every rank makes the values that a rule makes without inputs
        for (operand, (_, leaf)) in call.operands.iter_mut().zip(&leaves) {
            let (Value::Tensor(p), None, Some(ty)) = (leaf, &operand.held, &operand.ty) else { continue };
            if ty.rank() == 0 {
                continue;
            }
            if line.origin.is_none() {
                let claim = format!("`{}` has tensors of `{}` and a plain {ty}", line.symbol.name(), class.name());
                let error = Error::new("E708", claim).help("say where it is first: `replicate` it, or `shard` it");
                return Err(error.kind_is(ErrorKind::NoDispatch { op: line.symbol.name().into(), class: class.name() }));
            }
            operand.held = Some((Place::Replicate, vec![*p; call.ranks]));
        }
        Ok(call)
    }

    /// The placement of the result, if the operator has options for it.
    fn wanted(&self) -> Option<Place> {
        let sig = &self.line.symbol.row().sig;
        let option = |name: &str| {
            let at = sig.opts.iter().position(|o| o.name.name == name)?;
            self.line.solved.env.item(sig.opts[at].name.name)
        };
        let word = option("place").and_then(fulgurite_core::eval::tensor::from_item::<ProxyId>);
        let dim = option("dim").and_then(fulgurite_core::eval::tensor::from_item::<ProxyId>);
        let Some(Value::Word(word)) = word else { return None };
        Place::new(word, dim.and_then(|d| d.as_dim()).map_or(0, Dim::len))
    }

    fn redistributed(&self, b: &mut Builder, to: Place) -> Result<Results, Error> {
        let Some((Operand { ty: Some(ty), .. }, (from, locals))) =
            self.operands.first().and_then(|o| Some((o, o.held.as_ref()?)))
        else {
            return Err(body::fault(self.line.symbol, "it has nothing to redistribute"));
        };
        let locals = moves::bring(b, locals, *from, to, ty)?;
        Ok(vec![self.made(b, locals, to, &ty.shape)?])
    }

    /// Runs the body, whose calls come here again, or the operator on whole tensors if that moves less.
    fn composite(&self, b: &mut Builder) -> Result<Results, Error> {
        let solved = &self.line.solved;
        if solved.outs.iter().chain(&solved.aux).any(|out| *out == OutTy::FromBody) {
            return self.through_body(b);
        }
        let whole = self.whole();
        let cost = self.cost(&whole);
        if self.of_classes(b.arena()).iter().any(|class| self.line.symbol.rule_on(class).is_some()) {
            // the class of the pieces is asked for a rule before the body is made
            let way = self.unmoved(b.arena()).unwrap_or(whole);
            return self.pieces(b, &way, false);
        }
        if self.line.symbol.is_view() {
            let (mut inner, values) = body::run(b.arena(), self.line)?.ok_or_else(|| self.stuck())?;
            inner.take_from(0).into_iter().for_each(|l| b.push(l));
            return Ok(values);
        }
        if cost > 0
            && let Ok(Some((mut inner, values))) = body::run(b.arena(), self.line)
        {
            let lines = inner.take_from(0);
            if moves::cost_of(b.arena(), &lines) <= cost {
                lines.into_iter().for_each(|l| b.push(l));
                return Ok(values);
            }
        }
        self.pieces(b, &whole, false)
    }

    /// Runs the body of a row whose result types only the body knows, such as a row that makes pieces of pieces on a
    /// mesh of two axes.
    fn through_body(&self, b: &mut Builder) -> Result<Results, Error> {
        let (mut inner, values) = body::run(b.arena(), self.line)?.ok_or_else(|| self.stuck())?;
        inner.take_from(0).into_iter().for_each(|l| b.push(l));
        Ok(values)
    }

    /// The classes of the pieces.
    fn of_classes(&self, arena: &Arena) -> Vec<SubclassRef> {
        let pieces = self.operands.iter().filter_map(|o| o.held.as_ref()).flat_map(|(_, pieces)| pieces);
        pieces.filter_map(|p| arena.with_ty(*p, |ty| ty.subclass().map(|layout| layout.class))).collect()
    }

    /// The way that moves no tensor, if there is one: on plain pieces, the body must move no piece, and compute with
    /// equal numbers on a piece and on the whole.
    fn unmoved(&self, arena: &Rc<Arena>) -> Option<Way> {
        let sized = |o: &Opt| matches!(o.ty, OptType::Shape { .. } | OptType::Size(_));
        if self.line.symbol.row().sig.opts.iter().any(sized) {
            return None;
        }
        let plain = |p: &ProxyId| match arena.ty(*p) {
            ProxyTy::Tensor(mut t) => {
                let layout = t.subclass.as_mut().filter(|layout| layout.class == self.class);
                if let Some(layout) = layout {
                    Arc::make_mut(layout).fields.iter_mut().for_each(|(_, field)| field.subclass = None);
                }
                arena.proxy(&arena.name(*p), ProxyTy::Tensor(t))
            }
            _ => *p,
        };
        let args = self.line.args.iter().map(|arg| arg.map(&mut |p| plain(p))).collect();
        let line = BoundSymbol { args, dispatch: None, body: OnceCell::new(), ..self.line.clone() };
        let (mut inner, values) = body::run(arena, &line).ok()??;
        let lines = inner.take_from(0);
        if moves::any(arena, &lines) {
            return None;
        }
        let mut outs = Vec::new();
        values
            .iter()
            .for_each(|v| v.for_each(&mut |p| outs.push(arena.ty(*p).subclass().and_then(|layout| place_of(layout)))));
        let ins = self.operands.iter().map(|o| o.place().unwrap_or(Place::Replicate)).collect();
        let way = Way { ins, outs: outs.into_iter().collect::<Option<_>>()?, cut: None };
        (!parts(&way) && pieces::same_numbers(self, arena, &way, &lines)).then_some(way)
    }

    /// The way in which every tensor is whole.
    fn whole(&self) -> Way {
        let outs = vec![Place::Replicate; self.outs().len()];
        Way { ins: vec![Place::Replicate; self.operands.len()], outs, cut: None }
    }

    fn held(&self) -> Vec<Held> {
        self.operands.iter().map(|o| Held { place: o.place(), bytes: o.bytes() }).collect()
    }

    fn cost(&self, way: &Way) -> u64 {
        moved(way, &self.held(), self.ranks as u64).map_or(u64::MAX, |costs| costs.iter().sum())
    }

    /// The best of the ways that the loops allow, and whether options that are sizes must be those of pieces. `whole`
    /// excludes partial results.
    fn way(&self, nest: &Nest, whole: bool) -> Option<(Way, bool)> {
        let shape = |o: &Operand| o.ty.iter().flat_map(|t| t.shape.iter().map(|d| d.value())).collect();
        let shapes: Vec<Vec<i64>> = self.operands.iter().map(shape).collect();
        let have: Vec<Option<Place>> = self.operands.iter().map(Operand::place).collect();
        let mut found = ways(nest, &shapes, &have);
        found.retain(|way| !(whole && parts(way)) && pieces::can(self, nest, way).is_some());
        let outs: Vec<u64> = self.outs().iter().map(bytes).collect();
        let way = best(found, &self.held(), &outs, self.ranks as u64)?;
        let sizes = pieces::can(self, nest, &way)?;
        Some((way, sizes))
    }

    /// The types of the whole results, then those of auxiliary results.
    fn outs(&self) -> Vec<TensorTy> {
        let solved = &self.line.solved;
        [pieces::types(&solved.outs), pieces::types(&solved.aux)].concat()
    }

    /// Runs the operator on the pieces of each rank, after moving them to the placements of the way; with options for
    /// pieces if `sizes`.
    fn pieces(&self, b: &mut Builder, way: &Way, sizes: bool) -> Result<Results, Error> {
        let mut locals: Vec<Option<Vec<ProxyId>>> = Vec::new();
        for (operand, to) in self.operands.iter().zip(&way.ins) {
            locals.push(match (&operand.held, &operand.ty) {
                (Some((from, pieces)), Some(ty)) => Some(moves::bring(b, pieces, *from, *to, ty)?),
                _ => None,
            });
        }
        let outs = self.outs();
        let mut found: Vec<Vec<ProxyId>> = vec![Vec::new(); outs.len()];
        for rank in 0..self.ranks {
            let made = match self.line.effects.random && rank > 0 {
                // every rank draws equal numbers
                true => found.iter().map(|of| of[0]).collect(),
                false => self.on_rank(b, (way, sizes), rank, &locals)?,
            };
            found.iter_mut().zip(made).for_each(|(of, p)| of.push(p));
        }
        let mut results = Vec::new();
        let mut at = 0;
        for out in self.line.solved.outs.iter().chain(&self.line.solved.aux) {
            let mut one = |b: &mut Builder| {
                let place = way.outs.get(at).copied().unwrap_or(Place::Replicate);
                let shape =
                    &outs.get(at).ok_or_else(|| body::fault(self.line.symbol, "it has too many results"))?.shape;
                at += 1;
                self.made(b, std::mem::take(&mut found[at - 1]), place, shape)
            };
            results.push(match out {
                OutTy::List(items) => Value::List(items.iter().map(|_| one(b)).collect::<Result<_, _>>()?),
                _ => one(b)?,
            });
        }
        Ok(results)
    }

    /// Makes a tensor of pieces.
    fn made(
        &self,
        b: &mut Builder,
        pieces: Vec<ProxyId>,
        place: Place,
        shape: &[Dim],
    ) -> Result<Value<ProxyId>, Error> {
        unflatten(b, self.class, pieces, place, shape).map(Value::Tensor)
    }

    /// The error of a view that would have to move elements.
    fn stuck(&self) -> Error {
        let places: Vec<String> = self.operands.iter().filter_map(|o| Some(o.place()?.to_string())).collect();
        let (op, class) = (Name::new(self.line.symbol.name()), self.class.name());
        let claim = format!("`{op}` of a `{class}` in place {} would move elements between ranks", places.join(", "));
        Error::new("E708", claim)
            .kind_is(ErrorKind::NoDispatch { op, class })
            .help("views stay where they are: `redistribute` it first, to `replicate` or along another axis")
    }
}

/// Whether a result or an argument is partial.
fn parts(way: &Way) -> bool {
    way.ins.iter().chain(&way.outs).any(|place| matches!(place, Place::Partial(_)))
}

/// The part of a tensor that a rank has; `None` if there is no such axis.
fn own(ty: &TensorTy, place: Place, ranks: usize, rank: usize) -> Option<TensorTy> {
    let mut ty = ty.clone();
    if let Place::Shard(axis) = place {
        let size = ty.shape.get_mut(axis)?;
        *size = Dim::from(piece(size.len(), ranks, rank));
    }
    Some(ty)
}

/// The placement of a tensor, and its pieces.
type Pieces = (Place, Vec<ProxyId>);

/// The type of an argument, and its pieces if it is of the class.
fn operand(b: &mut Builder, call: &mut Placed, p: ProxyId) -> Result<(Option<TensorTy>, Option<Pieces>), Error> {
    let arena: Rc<Arena> = b.arena().clone();
    let ty = arena.tensor_ty(p);
    let layout = match arena.ty(p).subclass() {
        Some(layout) if layout.class == call.class => layout.clone(),
        _ => return Ok((ty, None)),
    };
    let pieces = b.flatten(p)?;
    if call.ranks != 0 && call.ranks != pieces.len() {
        let claim =
            format!("`{}` meets pieces of {} and of {} ranks", call.line.symbol.name(), call.ranks, pieces.len());
        return Err(Error::new("E708", claim).help("tensors of one call belong to one mesh"));
    }
    call.ranks = pieces.len();
    let place = place_of(&layout)
        .ok_or_else(|| body::fault(call.line.symbol, "its class has no metadata `place` and `dim`"))?;
    if let Some(ty) = &ty
        && let Some(rank) = (0..pieces.len()).find(|&r| arena.tensor_ty(pieces[r]) != own(ty, place, pieces.len(), r))
    {
        let have = arena.tensor_ty(pieces[rank]).map_or_else(String::new, |t| t.to_string());
        let wanted = own(ty, place, pieces.len(), rank).map_or_else(|| "no axis to cut".to_owned(), |t| t.to_string());
        let claim = format!("the piece of rank {rank} is {have}, where {ty} in place {place} has {wanted}");
        return Err(Error::new("E708", claim).help("cut it by `shard`: all pieces but the last ones have one size"));
    }
    Ok((ty, Some((place, pieces))))
}
