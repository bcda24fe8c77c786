//! The budget of the search: how many calls, of how many elements, each claim about a gradient is tried on.
//!
//! `cargo ops check` looks at every row of a database at each edit, and has about a second for five hundred rows. The
//! generated tests cover the calls beyond this budget.
//!
//! Each number was halved alone, and the wrong databases in `tests/err` were checked again. Where a comment does not name
//! a database, every message stayed: the number is a margin, or it bounds the time.

/// A call has at most this many elements, because a wrong row is wrong for a call of a few elements too.
pub const MOST_ELEMENTS: usize = 400;

/// The usual calls of a row have at most this many elements together, because small calls determine a rule. A separate
/// search finds branches that only large calls take ([`super::claims::covered`]).
pub const MOST_TOGETHER: usize = 1000;

/// Calls with several windows and steps above 1 on which each rule is compared, at most. With half of them `e401_windows`
/// is refuted by a larger call.
pub const STEPPING: usize = 24;

/// At most this many refuting calls are collected, because several calls show the kind of a fault: a sign or a factor.
pub const MOST_REFUTED: usize = 12;

/// Families of fewer calls than this are tried more than once, with other numbers each time. With half of it a fault of
/// `e401_branches` shows at infinity alone.
pub const SMALL: usize = 8;

/// Calls with several elements on which a claim about special data is tried, the smallest first.
pub const FEW: usize = 6;

/// How often each call gets data at ties and kinks where there are few calls. With half of it a wrong rule of
/// `e401_crossed` passes.
pub const KINK_ROUNDS: usize = 8;

/// Calls at ties and kinks, at most; with fewer, all are tried in each of the rounds.
pub const MOST_KINKS: usize = 72;

/// Elements at ties and kinks, in all rounds, of a call with other numbers than the defaults.
pub const BESIDE: usize = 24;

/// Elements of a call at ties and kinks, at least, and such calls, at most, where the rules of the rows of a program say
/// what holds there: each call takes many of these rules, and of three elements some are equal.
pub const TAPED: (usize, usize) = (3, 4);

/// Calls in which all elements, or most of them, are equal.
pub const TIED: usize = 6;

/// Calls with large options.
pub const LARGER: usize = 6;

/// Calls off the kinks, their elements, at most, and how many of those in which a rule says something else are looked at
/// closer, in how many directions.
pub const OFF_KINKS: (usize, usize) = (8, 16);
pub const CLOSER: usize = 6;
pub const AROUND: usize = 12;

/// Calls on which a second derivative is taken by differences, and their elements, at least: a call of one element may lie
/// where nothing is detached. With half of these elements `e410_lost` is refuted by another call.
pub const TWICE: (usize, usize) = (2, 4);

/// Calls at ties and kinks in which a second derivative is looked for, their elements, at most, and the directions around
/// a point in which it must be much the same.
pub const AGAIN: (usize, usize) = (4, 16);
pub const AGAIN_AROUND: u64 = 6;

/// Elements of the calls on which a `detach` is tried, at most: what leaks, leaks for few elements too, and a large call
/// costs as much as all others together.
pub const DETACHED: usize = 64;

/// Calls on which one `detach` of several is left out, and their elements, at most.
pub const EXCUSED: (usize, usize) = (16, 32);

/// Calls that are tried for a branch of the row's own texts, and for those of the rows that these call: most of the latter
/// are there for other callers.
pub const TRIES: usize = 400;
pub const TRIES_WITHIN: usize = 16;

/// Elements of a call on hard numbers, at most, and the arguments that are given these in turn.
pub const HARD: usize = 32;
pub const ARGUMENTS: usize = 2;

/// Where the numbers of calls begin that are only compared: others have smaller ones.
pub const BEHIND: usize = 20_000;
