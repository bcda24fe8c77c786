//! The budget of the search: how many calls, of how many elements, each claim about a gradient is tried on.
//!
//! `cargo ops check` looks at every row of a database at each edit, and has about a second for five hundred rows. The
//! generated tests cover the calls beyond this budget.
//!
//! Each number was halved on its own, and the wrong databases in `tests/err` were checked again. Where a comment names
//! no database, no message changed: the number is a margin, or it bounds the time.

/// A call has at most this many elements, because a wrong row is wrong for a call of a few elements too.
pub const MOST_ELEMENTS: usize = 400;

/// The usual calls of a row have at most this many elements together, because small calls determine a rule. A separate
/// search finds branches that only large calls take ([`super::claims::covered`]).
pub const MOST_TOGETHER: usize = 1000;

/// At most this many calls with several windows and steps above 1 are compared for each rule, because each call costs a
/// derivative. With half as many, `e401_windows` is refuted by a larger call.
pub const STEPPING: usize = 24;

/// At most this many refuting calls are collected, because several calls show the kind of a fault: a sign or a factor.
pub const MOST_REFUTED: usize = 12;

/// A family of at most this many calls is tried more than once, with other numbers each time. With half this number, a
/// fault of `e401_branches` shows at infinity alone.
pub const SMALL: usize = 8;

/// At most this many calls of several elements are tried for a claim about special data, because each such claim draws
/// data of its own. The smallest calls come first.
pub const FEW: usize = 6;

/// Each call gets data at ties and kinks this many times, if there are few calls. With half as many rounds, a wrong
/// rule of `e401_crossed` passes.
pub const KINK_ROUNDS: usize = 8;

/// At most this many calls at ties and kinks are tried, because each costs a draw and a derivative. If [`KINK_ROUNDS`]
/// rounds of all calls fit, every call is tried in each round.
pub const MOST_KINKS: usize = 72;

/// A call with numbers other than the defaults is drawn at ties and kinks until its rounds have about this many
/// elements together.
pub const BESIDE: usize = 24;

/// The least number of elements of a call at ties and kinks, and the greatest number of such calls, where the rules of
/// the rows that a program calls decide the convention. The calls are few, because each takes many of these rules. They
/// have three elements, because some of three are equal.
pub const TAPED: (usize, usize) = (3, 4);

/// At most this many calls are tried with all elements equal, and with most of them equal, because each costs two draws
/// and two derivatives.
pub const TIED: usize = 6;

/// At most this many calls with large options are tried, because each costs a derivative.
pub const LARGER: usize = 6;

/// The greatest number of calls tried off the kinks, and the greatest number of their elements. At most [`CLOSER`]
/// calls in which a rule differs from the derivative are examined, each in [`AROUND`] directions.
pub const OFF_KINKS: (usize, usize) = (8, 16);
pub const CLOSER: usize = 6;
pub const AROUND: usize = 12;

/// The greatest number of calls on which a second derivative is taken by differences, and the least number of their
/// elements. A call of one element may lie where nothing is detached. With half as many elements, `e410_lost` is
/// refuted by another call.
pub const TWICE: (usize, usize) = (2, 4);

/// The greatest number of calls at ties and kinks in which a lost second derivative is looked for, and the greatest
/// number of their elements. [`AGAIN_AROUND`] is the number of directions around a point in which the derivative must
/// be about the same.
pub const AGAIN: (usize, usize) = (4, 16);
pub const AGAIN_AROUND: u64 = 6;

/// A call on which a `detach` is tried has at most this many elements, because a leak shows with few elements too, and
/// a large call costs as much as all others together.
pub const DETACHED: usize = 64;

/// The greatest number of calls on which one `detach` of several is left out, and the greatest number of their
/// elements.
pub const EXCUSED: (usize, usize) = (16, 32);

/// At most [`TRIES`] calls are tried for the branches of the row's own texts. At most [`TRIES_WITHIN`] are tried for
/// the branches of the rows that its rules call, because most of those branches serve other callers.
pub const TRIES: usize = 400;
pub const TRIES_WITHIN: usize = 16;

/// A call on hard numbers has at most [`HARD`] elements. At most [`ARGUMENTS`] of its arguments are given hard numbers,
/// one after the other.
pub const HARD: usize = 32;
pub const ARGUMENTS: usize = 2;

/// The first number of a call that is tried besides [`Bench::calls`](super::search::Bench::calls). Those calls have
/// smaller numbers, so both kinds draw different data.
pub const BEHIND: usize = 20_000;
