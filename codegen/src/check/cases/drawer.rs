//! Draws of calls: every decision that a call takes is chosen or follows from its turn.

use fulgurite_core::lang::Param;
use fulgurite_core::row::Row;
use fulgurite_core::signature::{ArgTy, Env, Item, Size};
use fulgurite_core::{DType, Dim, Name, Value};

use super::names::Free;
use super::options::{self, Tried};
use super::params::{self, Choices};
use super::settled::Settled;
use super::sizes::{self, Sizes, Variant};
use super::{Case, Choice, Turn};

/// Draws calls of a row with `T` of one dtype.
pub(super) struct Drawer<'r> {
    pub(super) row: &'r Row,
    dtype: DType,
    /// Sizes that nothing determines.
    pub(super) free: Free,
    /// Per option: facts that hold in every call.
    pub(super) tried: Vec<Tried>,
    /// Combinations of static decisions.
    pub(super) statics: Vec<Choices>,
    /// Combinations that are refused for good.
    pub(super) settled: Settled,
}

/// The decisions of a draw. The default is the first alternative of everything.
#[derive(Clone, Copy, Default)]
pub(super) struct Draw<'a> {
    /// Seed of the rotation through candidates.
    pub(super) turn: Turn,
    /// The combination of static decisions, by number.
    pub(super) chosen: usize,
    /// The rank of each free list.
    pub(super) ranks: &'a [usize],
    /// A property of the sizes.
    pub(super) variant: Variant,
    /// The number of the attempt, which rotates the sizes.
    pub(super) attempt: u64,
    /// Sizes that have prescribed values.
    pub(super) pins: &'a [(Name, i64)],
    /// Options that have prescribed values.
    pub(super) given: &'a [(usize, Value<ArgTy>)],
    /// The length of lists that may have any; `None` varies it.
    pub(super) items: Option<usize>,
}

impl<'r> Drawer<'r> {
    /// Draws for `row` with about `most` combinations of static decisions.
    pub(super) fn new(row: &'r Row, dtype: DType, most: usize) -> Drawer<'r> {
        let free = Free::of(row);
        let (tried, statics, settled) = (Tried::of(row), params::product(row, most), Settled::new(row, &free));
        Drawer { row, dtype, free, tried, statics, settled }
    }

    /// Ranks of all free lists, and properties of sizes, in the order in which they are tried.
    pub(super) fn shapes(&self) -> Vec<(Vec<usize>, Variant)> {
        let broadcasts = |(_, param): &(usize, &Param)| param.ty.dims.is_none();
        let broadcasting: Vec<usize> =
            self.row.sig.params.iter().enumerate().filter(broadcasts).map(|(i, _)| i).collect();
        let mut shapes = sizes::configurations(&self.free, &broadcasting);
        shapes.extend(sizes::long(self.row, &self.free));
        shapes
    }

    /// The call, if the row accepts it. A refusal that decides about other draws is remembered.
    pub(super) fn case(&mut self, draw: &Draw) -> Option<Case> {
        if self.settled.refuses(draw.chosen, draw.ranks) {
            return None;
        }
        let args = self.args(draw)?;
        let solved = self.settled.accepted(self.row, &args, draw.chosen, draw.ranks)?;
        Some(Case { args, solved })
    }

    /// Builds the arguments of a call: sizes first, then the values that the signature derives from them. `None` where
    /// the parts do not fit together.
    pub(super) fn args(&self, draw: &Draw) -> Option<Vec<Value<ArgTy>>> {
        let (row, (params, opts)) = (self.row, self.statics.get(draw.chosen)?);
        let (turn, tried) = (draw.turn, &self.tried);
        let choice = &Choice { params, opts, dtype: self.dtype, turn, tried, given: draw.given, items: draw.items };
        let mut env = Env::of(&row.sig);
        let items = params::list_lengths(row, &self.free, draw.ranks, choice);
        Sizes::new(draw.variant, draw.attempt, turn).bind(&self.free, draw.ranks, &items, &mut env);
        for (name, size) in draw.pins {
            env.bind_size(*name, Size::One(Dim::from(*size)));
        }
        let mut values = vec![Value::Absent; row.sig.params.len() + row.sig.opts.len()];
        for (param, n) in row.sig.params.iter().zip(&items) {
            if let Some(n) = n {
                env.items.push((param.name.name, Item::Tensors(0, *n)));
            }
        }
        options::fill(row, &mut env, choice, &mut values)?;
        sizes::required(row, &self.free, &mut env);
        params::fill(row, &mut env, &items, choice, draw.variant, &mut values)?;
        Some(values)
    }
}
