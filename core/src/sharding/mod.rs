//! Tensors distributed over the ranks of a mesh: their placements, the cost of moving them, and the ways in which an
//! operator can run on parts. The ways are derived from the loops of a row's meaning; nothing is declared per operator.

mod fold;
mod ways;

pub use ways::{Cut, Way, ways};

use crate::lang::ast::Red;
use crate::{DType, Name, Scalar};
use std::fmt;

crate::words! {
    /// How the parts on the ranks make up the whole tensor.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Fold: word, from_word {
        /// The whole is the sum of the parts.
        Sum = "sum",
        /// The whole is the mean of the parts.
        Avg = "avg",
        /// The whole is the elementwise maximum of the parts.
        Max = "max",
        /// The whole is the elementwise minimum of the parts.
        Min = "min",
    }
}

/// The placement of a tensor on the ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Sharded along an axis: rank `r` has the elements from `r * ceil(n / ranks)` on.
    Shard(usize),
    /// Replicated: each rank has the whole tensor.
    Replicate,
    /// Partial: each rank has a partial result for every element.
    Partial(Fold),
}

impl Fold {
    /// The fold of a reduction, if partial results combine to the whole.
    pub fn of(red: Red) -> Option<Fold> {
        Some(match red {
            Red::Sum => Fold::Sum,
            Red::Mean => Fold::Avg,
            Red::Max => Fold::Max,
            Red::Min => Fold::Min,
            _ => return None,
        })
    }

    /// The neutral partial value, for a rank without elements.
    pub fn identity(self, dtype: DType) -> Scalar {
        match self {
            Fold::Sum | Fold::Avg => Scalar::Int(0),
            Fold::Max if dtype.is_float() => Scalar::Float(f64::NEG_INFINITY),
            Fold::Min if dtype.is_float() => Scalar::Float(f64::INFINITY),
            Fold::Max => Scalar::Int(dtype.integers().0),
            Fold::Min => Scalar::Int(dtype.integers().1),
        }
    }
}

impl Place {
    /// Reads a placement from metadata: `shard`, `replicate` or a fold's word, and the axis of a shard.
    pub fn new(word: Name, dim: usize) -> Option<Place> {
        match word.as_str() {
            "shard" => Some(Place::Shard(dim)),
            "replicate" => Some(Place::Replicate),
            word => Fold::from_word(word).map(Place::Partial),
        }
    }

    /// The word and the axis of the placement.
    pub fn words(self) -> (&'static str, usize) {
        match self {
            Place::Shard(dim) => ("shard", dim),
            Place::Replicate => ("replicate", 0),
            Place::Partial(fold) => (fold.word(), 0),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Shard(dim) => write!(f, "S{dim}"),
            Place::Replicate => f.write_str("R"),
            Place::Partial(fold) => write!(f, "P({})", fold.word()),
        }
    }
}

/// The length of the shard of rank `rank`, for `n` elements over `ranks` ranks.
pub fn piece(n: usize, ranks: usize, rank: usize) -> usize {
    let whole = n.div_ceil(ranks.max(1));
    whole.min(n.saturating_sub(rank * whole))
}

/// The latency of a round of messages, as the number of bytes that a network could send in that time.
const START: u64 = 64 * 1024;

/// The traffic of each rank that brings a tensor of this many bytes from one placement to another: rounds, and total
/// bytes. `None` where there is no such conversion. Dropping data and adding zeros are free.
pub fn traffic(from: Place, to: Place, bytes: u64, ranks: u64) -> Option<(u64, u64)> {
    let ranks = ranks.max(1);
    let share = |n: u64| n * (ranks - 1) / ranks;
    match (from, to) {
        (from, to) if from == to => Some((0, 0)),
        (Place::Replicate, _) => Some((0, 0)),
        (Place::Shard(_), Place::Replicate) | (Place::Partial(_), Place::Shard(_)) => Some((1, share(bytes))),
        (Place::Partial(_), Place::Replicate) => Some((2, 2 * share(bytes))),
        (Place::Shard(_), Place::Shard(_)) => Some((1, share(bytes / ranks))),
        (Place::Shard(_) | Place::Partial(_), Place::Partial(_)) => None,
    }
}

/// The cost of that traffic in bytes.
pub fn cost(from: Place, to: Place, bytes: u64, ranks: u64) -> Option<u64> {
    traffic(from, to, bytes, ranks).map(|(rounds, bytes)| rounds * START + bytes)
}

/// A tensor argument of a call.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// The placement of the tensor; `None`: it is not distributed, and cannot be.
    pub place: Option<Place>,
    /// The size of the whole tensor, in bytes.
    pub bytes: u64,
}

/// The cost of moving each tensor to the placement that a way needs.
pub fn moved(way: &Way, held: &[Held], ranks: u64) -> Option<Vec<u64>> {
    let one = |(to, h): (&Place, &Held)| h.place.map_or(Some(0), |from| cost(from, *to, h.bytes, ranks));
    way.ins.iter().zip(held).map(one).collect()
}

/// The best way: one that moves nothing, else the cheapest, including the cost of combining partial results later. Of
/// equal ones, the way that moves later arguments. `outs` are the sizes of the results.
pub fn best(ways: Vec<Way>, held: &[Held], outs: &[u64], ranks: u64) -> Option<Way> {
    let rate = |way: &Way| {
        let moved = moved(way, held, ranks)?;
        let now: u64 = moved.iter().sum();
        let parts = way.outs.iter().zip(outs).filter(|(p, _)| matches!(p, Place::Partial(_)));
        let later: u64 = parts.map(|(p, n)| cost(*p, Place::Shard(0), *n, ranks).unwrap_or(0)).sum();
        Some((now > 0, now + later, moved))
    };
    let rated = ways.into_iter().filter_map(|way| Some((rate(&way)?, way)));
    rated.min_by(|(a, _), (b, _)| a.cmp(b)).map(|(_, way)| way)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uneven_pieces_are_as_torch_cuts_them() {
        let pieces = |n| (0..4).map(|r| piece(n, 4, r)).collect::<Vec<_>>();
        assert_eq!(pieces(8), [2, 2, 2, 2]);
        assert_eq!(pieces(6), [2, 2, 2, 0]);
        assert_eq!(pieces(5), [2, 2, 1, 0]);
        assert_eq!(pieces(3), [1, 1, 1, 0]);
        assert_eq!(pieces(0), [0, 0, 0, 0]);
    }

    #[test]
    fn places_have_words() {
        for place in [Place::Shard(2), Place::Replicate].into_iter().chain(Fold::ALL.map(Place::Partial)) {
            let (word, dim) = place.words();
            assert_eq!(Place::new(Name::new(word), dim), Some(place));
        }
        assert_eq!(Place::Partial(Fold::Sum).to_string(), "P(sum)");
    }
}
