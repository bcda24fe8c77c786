//! Refuses writes through views that show one element several times.

use crate::bind::{Builder, body_of};
use crate::error::Error;
use crate::symbol::Registered;
use crate::tensor::ViewCall;
use crate::trace::{Arena, BoundSymbol};
use fulgurite_core::Value;
use fulgurite_core::dim::estimating;
use fulgurite_core::eval::loop_nest::{Array, Data, run};
use fulgurite_core::lang::ast::{Block, Node, Place};
use fulgurite_core::lang::walk;
use fulgurite_core::lower::{lower_with, positions};
use fulgurite_core::row::Meaning;
use std::rc::Rc;

/// Refuses a write through a view, the line that was recorded last, if it shows an element of its base several times.
///
/// # Errors
/// E714, and errors of making a body.
pub(super) fn check(b: &Builder, alias: &ViewCall) -> Result<(), Error> {
    let Some(line) = b.lines().last() else { return Ok(()) };
    // the test must not bind sizes, because it decides nothing
    match estimating(|| repeats(b.arena(), line))? {
        true => Err(crate::tensor::shows_twice(alias.symbol.name())),
        false => Ok(()),
    }
}

fn repeats(arena: &Rc<Arena>, line: &BoundSymbol) -> Result<bool, Error> {
    match &line.symbol.row().meaning {
        Meaning::View(block) => Ok(may_repeat(block) && shows_twice(arena, line, block)),
        Meaning::Decomp(_) => match body_of(arena, line)? {
            Some(body) => body.lines.iter().try_fold(false, |any, inner| Ok(any || repeats(arena, inner)?)),
            None => Ok(false),
        },
        Meaning::Expr(_) | Meaning::Host(_) => Ok(false),
    }
}

/// Whether the text allows two indices of the result to be one place. That is so for a place computed from several
/// indices, unless it is the position of one element in another shape.
fn may_repeat(block: &Block) -> bool {
    let mut may = false;
    walk::block(block, &mut |e| {
        if let Node::Access(access) = &*e.node {
            may |= access.places.iter().any(|place| match place {
                Place::Unravel(e) => !matches!(&*e.node, Node::Call(f, _) if f.name == "ravel"),
                _ => false,
            });
        }
    });
    may
}

/// Searches for an element that a view shows twice.
fn shows_twice(arena: &Arena, line: &BoundSymbol, block: &Block) -> bool {
    let Some(Value::Tensor(base)) = line.args.iter().find(|arg| matches!(arg, Value::Tensor(_))) else { return false };
    let (Some(ty), Ok(nest)) =
        (arena.tensor_ty(*base), lower_with(line.symbol.row(), block, &line.solved, &Registered))
    else {
        return false;
    };
    let sizes: Vec<usize> = ty.shape.iter().map(|d| d.hint().max(0) as usize).collect();
    let shown = positions(&nest, &sizes).and_then(|nest| run::<f64>(&nest, &[], &[]).ok()?.pop());
    let Some(Array { data: Data::Int(shown), .. }) = shown else { return false };
    let mut seen = vec![false; sizes.iter().product()];
    shown.iter().any(|at| seen.get_mut(*at as usize).is_some_and(|known| std::mem::replace(known, true)))
}
