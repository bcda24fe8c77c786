//! The kinds of faults of mutants, by their numbers in docs/mutations.md.

use std::fmt;

/// A kind of fault: its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u8);

/// Every kind in words; its number is its position in the list, from 1.
pub const KINDS: [&str; 45] = [
    "sign flipped",
    "operands swapped, or another value in the place of one",
    "factor or term lost",
    "broadcast not undone",
    "axes swapped",
    "overwritten for accumulated",
    "zero or identity in the place of a rule",
    "another subgradient: ties, bounds, conventions at kinks",
    "a neighbour's function",
    "list or range shifted by one",
    "detached too much or too little",
    "wrong promotion kind",
    "cast or accumulation type dropped",
    "dtype option ignored",
    "accepted calls widened or narrowed: dtypes, conditions",
    "keepdim, rounding or order of a size lost",
    "negative index not wrapped",
    "correction lost",
    "identity of a reduction wrong",
    "NaN not treated",
    "rounded in another direction",
    "a residual taken for a constant",
    "a branch multiplied in place of taken",
    "cancellation: the exact form replaced by the plain one",
    "gradient skipped, or a result's cotangent dropped",
    "write not declared, or declared and not made",
    "random number drawn twice",
    "call form of an alias wrong",
    "condition turned round",
    "number changed",
    "filter or bound of a reduction lost",
    "default of an option changed",
    "argument's presence changed",
    "arithmetic replaced",
    "view for copy",
    "argument of a call dropped",
    "results in another order",
    "element type of an argument or a result changed",
    "what the row says of its gradient removed",
    "step, shift or width held at two, or its sign turned from there on",
    "wrong where two sizes are equal",
    "default of a call form's parameter changed, or what must be given left out",
    "number that f16 loses",
    "metadata or dtype of a class lost",
    "window left to its padding",
];

impl Kind {
    /// The fault in words.
    pub fn words(self) -> &'static str {
        KINDS.get(usize::from(self.0).wrapping_sub(1)).copied().unwrap_or("")
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "M{:02}", self.0)
    }
}
