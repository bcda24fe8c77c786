//! Ranks and sizes.

use fulgurite_core::lang::{BinOp, Expr, Node};
use fulgurite_core::row::Row;
use fulgurite_core::signature::const_eval::{self, At};
use fulgurite_core::signature::{Env, Size};
use fulgurite_core::{Dim, Name};

use super::Turn;
use super::names::Free;
use crate::check::{thresholds, walk};

/// Property of the sizes of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Variant {
    /// Pairwise distinct, each larger than the one before.
    #[default]
    Distinct,
    /// Pairwise distinct, each smaller than the one before, so that an index that runs over the wrong axis leaves it
    /// in one of the two orders. One or two sizes come from larger primes, because `4 * n / 3` stays within axes of 2
    /// and 3.
    Falling,
    /// One of them is 1.
    WithOne,
    /// One of them is 0.
    WithZero,
    /// All are 1.
    Ones,
    /// All are this size. A rule that tells axes apart by their sizes is wrong on them.
    Alike(i64),
    /// Pairwise distinct. Of the arguments without brackets, this one broadcasts along the first axis (`true`) or
    /// along the second.
    Narrow(usize, bool),
}

/// Binds the sizes that a condition of the row determines, `L == …` or `M % … == 0`, because chance would not hit
/// them.
pub(super) fn required(row: &Row, free: &Free, env: &mut Env) {
    let mut open: Vec<&Expr> = row.require.iter().map(|require| &require.cond).collect();
    while let Some(cond) = open.pop() {
        if let Node::Binary(BinOp::And, left, right) = &*cond.node {
            open.extend([left, right]);
        }
        let Node::Binary(BinOp::Eq, left, right) = &*cond.node else { continue };
        if let Some((name, of)) = multiple(left, right)
            && let Some(Size::One(size)) = env.size(name).filter(|_| free.singles.contains(&name))
            && let Ok(of) = const_eval::eval(env, of, At::default()).and_then(|of| of.int())
            && of.value() > 0
            && size.value() % of.value() != 0
        {
            let times = size.value().min(2);
            env.bind_size(name, Size::One(Dim::from(times * of.value())));
        }
        for (size, value) in [(left, right), (right, left)] {
            let Node::Name(name) = &*size.node else { continue };
            if free.singles.contains(name)
                && let Ok(n) = const_eval::eval(env, value, At::default()).and_then(|value| value.int())
                && n.value() >= 0
            {
                env.bind_size(*name, Size::One(n));
                break;
            }
        }
    }
}

/// `M` and `n` of `M % n == 0`.
fn multiple<'e>(left: &'e Expr, right: &Expr) -> Option<(Name, &'e Expr)> {
    let Node::Binary(BinOp::Rem, size, of) = &*left.node else { return None };
    match (&*size.node, &*right.node) {
        (Node::Name(name), Node::Int(0)) => Some((*name, of)),
        _ => None,
    }
}

/// Whether a condition of the row determines a free size.
pub(super) fn follow(row: &Row, free: &Free) -> bool {
    let is_free = |e: &Expr| matches!(&*e.node, Node::Name(name) if free.singles.contains(name));
    let determines =
        |e: &Expr| matches!(&*e.node, Node::Binary(BinOp::Eq, left, right) if is_free(left) || is_free(right));
    row.require.iter().any(|require| walk::any_expr(&require.cond, &mut |e| determines(e)))
}

/// Pairwise distinct sizes: primes, so that no product of some equals another.
const PRIMES: [i64; 10] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29];

/// At most this many sizes come from larger primes, because tensors with more axes must stay small.
const FEW: usize = 2;

/// Small sizes, with repetitions, for rows with conditions between sizes.
const SMALL: [i64; 8] = [2, 3, 1, 4, 5, 6, 7, 2];

/// The ranks and variants to try. Ranks are in the order of `free.lists`. `broadcasting` holds the arguments without
/// brackets.
pub(super) fn configurations(free: &Free, broadcasting: &[usize]) -> Vec<(Vec<usize>, Variant)> {
    let ranks: Vec<Vec<usize>> = match free.lists.len() {
        0 => vec![vec![]],
        1 => vec![vec![2], vec![1], vec![3], vec![0]],
        2 => vec![vec![1, 1], vec![2, 1], vec![1, 2], vec![2, 2], vec![0, 1], vec![1, 0], vec![0, 0]],
        n => {
            let rising = (0..n).map(|i| i % 3).collect();
            let falling = (0..n).map(|i| 2 - i % 3).collect();
            vec![vec![1; n], rising, falling, vec![0; n], vec![2; n]]
        }
    };
    let mut all = Vec::new();
    // distinct sizes come twice: options and broadcasting have other values the second time
    let variants = [Variant::Distinct, Variant::WithOne, Variant::Falling, Variant::WithZero, Variant::Ones];
    for (n, variant) in variants.into_iter().enumerate() {
        for ranks in &ranks {
            let sizes = ranks.iter().sum::<usize>() + free.singles.len() + free.each.len();
            if sizes > 0 || !broadcasting.is_empty() || n == 0 {
                all.push((ranks.clone(), variant));
            }
        }
    }
    // a rule that does not sum over a broadcast is wrong only where one argument is smaller than the others
    if broadcasting.len() > 1 {
        let narrow = broadcasting.iter().flat_map(|param| [true, false].map(|first| Variant::Narrow(*param, first)));
        all.extend(narrow.map(|variant| (ranks[0].clone(), variant)));
    }
    all
}

/// Ranks above the usual ones that the row compares a rank with, or that follow such a rank.
pub(super) fn long(row: &Row, free: &Free) -> Vec<(Vec<usize>, Variant)> {
    /// The highest rank that is tried in any case, and the highest rank of all.
    const USUAL: usize = 3;
    const LONGEST: usize = 6;
    let of_list = |(at, list): (usize, &Name)| {
        let compared = thresholds::of_rank(row, *list).into_iter().filter_map(|n| usize::try_from(n).ok());
        let ranks = compared.flat_map(|n| [n, n + 1]).filter(|n| (USUAL + 1..=LONGEST).contains(n));
        let lists = free.lists.len();
        ranks.map(move |n| ((0..lists).map(|l| if l == at { n } else { 1 }).collect(), Variant::Distinct)).collect()
    };
    free.lists.iter().enumerate().flat_map(|list: (usize, &Name)| -> Vec<_> { of_list(list) }).collect()
}

/// Sizes that chance does not give: those with which the row compares or by which it divides, and those next to them.
pub(super) fn named(row: &Row, free: &Free) -> Vec<(Name, i64)> {
    /// Smaller sizes occur in any case.
    const LEAST: i64 = 4;
    const MOST: i64 = 4096;
    let of = |name: &Name| {
        let compared = thresholds::of(row, *name).into_iter().map(|threshold| threshold.number.as_i64());
        let beside = compared.filter(|n| (LEAST..=MOST).contains(n)).flat_map(|n| [n, n + 1, n - 1]);
        beside.map(|n| (*name, n)).collect::<Vec<_>>()
    };
    let mut all: Vec<(Name, i64)> = free.singles.iter().flat_map(of).collect();
    all.dedup();
    // `n + n / 5` leaves 0..N where N is 6, `7 * (n / 6)` where it is 42
    let divided = |name: &Name| {
        let by = thresholds::divisors(row, *name).into_iter();
        let sizes = by.flat_map(|d| [d, d.wrapping_add(1), d.wrapping_mul(2), d.wrapping_mul(d.wrapping_add(1))]);
        sizes.filter(|n| (LEAST..=MOST).contains(n)).map(|n| (*name, n)).collect::<Vec<_>>()
    };
    all.extend(free.singles.iter().flat_map(divided));
    all.extend(free.singles.iter().filter(|name| divides(row, **name)).map(|name| (*name, 0)));
    all
}

/// Whether a size occurs in a divisor of the body. Only such sizes need to be tried as 0.
fn divides(row: &Row, size: Name) -> bool {
    let divides =
        |e: &Expr| matches!(&*e.node, Node::Binary(BinOp::Div | BinOp::Rem, _, by) if walk::expr_mentions(by, size));
    walk::body(row).is_some_and(|body| walk::any(body, &mut |e| divides(e)))
}

/// At most this many sizes are larger than 1 in a call with more than [`MANY`], because a tensor that has all of them
/// as axes must stay small. The selection differs from call to call.
const LARGER: usize = 6;

/// At most this many sizes may all be larger than 1.
const MANY: usize = 8;

/// Hands out sizes.
pub(super) struct Sizes {
    pub(super) variant: Variant,
    attempt: u64,
    turn: Turn,
    given: usize,
}

impl Sizes {
    pub(super) fn new(variant: Variant, attempt: u64, turn: Turn) -> Sizes {
        Sizes { variant, attempt, turn, given: 0 }
    }

    /// Binds every free size; `items` are the lengths of list arguments.
    pub(super) fn bind(&mut self, free: &Free, ranks: &[usize], items: &[Option<usize>], env: &mut Env) {
        let each = items.iter().flatten().copied().max().unwrap_or(0);
        let total = ranks.iter().sum::<usize>() + free.singles.len() + free.each.len() * each;
        for (list, rank) in free.lists.iter().zip(ranks) {
            let sizes = (0..*rank).map(|_| self.next(total)).collect();
            env.bind_size(*list, Size::List(sizes));
        }
        for single in &free.singles {
            let size = self.next(total);
            env.bind_size(*single, Size::One(size));
        }
        for name in &free.each {
            let sizes = (0..each).map(|_| self.next(total)).collect();
            env.bind_size(*name, Size::Each(sizes));
        }
    }

    /// The next of `total` sizes.
    fn next(&mut self, total: usize) -> Dim {
        let n = self.given;
        self.given += 1;
        let special = self.turn.pick(total.max(1), 1000);
        if total > MANY && (n + total - self.turn.pick(total, 1001)) % total >= LARGER {
            let is_zero = self.variant == Variant::WithZero && n == special;
            return Dim::from(i64::from(!is_zero));
        }
        let larger = if total <= FEW { 2 } else { 0 };
        let falling = PRIMES[(total.max(n + 1) - 1 - n + larger) % PRIMES.len()];
        let size = match (self.variant, self.attempt) {
            (Variant::Ones, _) => 1,
            (Variant::Alike(size), _) => size,
            (Variant::WithOne, _) if n == special => 1,
            (Variant::WithZero, _) if n == special => 0,
            (Variant::Falling, 0) => falling,
            (Variant::Falling, 1) | (_, 0) => PRIMES[n % PRIMES.len()],
            // in descending order, so that kernels are smaller than the tensors over which they slide
            (_, 1) => falling,
            _ => SMALL[self.turn.pick(SMALL.len(), n as u64)],
        };
        Dim::from(size)
    }
}
