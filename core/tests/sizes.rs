//! Sizes: one normal form for equal expressions, and a guard for everything that is asked.

#![allow(missing_docs)]

use fulgurite_core::Dim;
use fulgurite_core::dim::{Recording, estimating};

fn atoms() -> [Dim; 3] {
    [Dim::atom("n", 4), Dim::atom("m", 3), Dim::atom("k", 12)]
}

/// The guards of what `f` asks, as they print.
fn asked<T>(f: impl FnOnce([Dim; 3]) -> T) -> Vec<String> {
    let recording = Recording::start();
    let _ = f(atoms());
    recording.finish().iter().map(ToString::to_string).collect()
}

fn at(n: i64, m: i64, k: i64) -> impl Fn(&str) -> Option<i64> {
    move |name| [("n", n), ("m", m), ("k", k)].iter().find(|(a, _)| *a == name).map(|(_, v)| *v)
}

#[test]
fn equal_expressions_are_one() {
    let [n, m, k] = atoms();
    let same = [
        (n + n, 2 * n),
        ((n + 1) * (m - 1), n * m - n + m - 1),
        (n * m / m, n),
        ((n * m + m) / m, n + 1),
        ((6 * n + 3) / 2, 3 * n + 1),
        (n * k / (6 * k), n / 6),
        (n * m * k % (m * k), Dim::from(0)),
        ((n + 1) * (m + 2) / (m + 2), n + 1),
        (n - n, Dim::from(0)),
        (-(-n), n),
    ];
    for (a, b) in same {
        assert!(a.same(b), "{a} and {b}");
    }
    assert!(!n.same(Dim::from(4)) && !(n / 2).same(n));
    assert_eq!((n * 2 + m - 3).to_string(), "m + 2*n - 3");
    assert_eq!(((n * m - 1) / 5 * 2 + n % 3).to_string(), "2*((m*n - 1) / 5) + (n % 3)");
}

#[test]
fn every_question_is_a_guard() {
    assert_eq!(asked(|[n, ..]| n > Dim::from(3)), ["n > 3"]);
    assert_eq!(asked(|[n, ..]| n < Dim::from(3)), ["n > 2"]);
    assert_eq!(asked(|[n, ..]| n == Dim::from(3)), ["n != 3"]);
    assert_eq!(asked(|[n, m, _]| n == m + 1), ["m + 1 == n"]);
    assert_eq!(asked(|[n, ..]| n.value()), ["n == 4"]);
    assert_eq!(asked(|[n, ..]| usize::try_from(2 * n)), ["n == 4"]);
    assert_eq!(asked(|[n, ..]| n.len()), ["n == 4"]);
    assert_eq!(asked(|[n, m, _]| n / m), ["m > 0"]);
    assert_eq!(asked(|[n, m, _]| n.max(m)), ["m <= n"]);
}

#[test]
fn what_follows_or_is_always_so_is_no_guard() {
    let none: [&str; 0] = [];
    assert_eq!(asked(|[n, ..]| (n >= Dim::from(0), n == n, n + 1 > n, 2 * n == n + n, n.max(Dim::from(0)))), none);
    assert_eq!(asked(|[n, ..]| (n.is(0), n.is(1), n > Dim::from(-2))), ["n > 1"]);
    assert_eq!(asked(|[n, ..]| (n > Dim::from(1), n > Dim::from(3), n < Dim::from(9))), ["n > 3", "n < 9"]);
    assert_eq!(asked(|[n, ..]| (n > Dim::from(1), n.is(4), n.is(7))), ["n == 4"]);
    assert_eq!(asked(|[n, m, _]| (n == m, m == n)), ["m != n"]);
    assert_eq!(asked(|[n, m, k]| (n == m + 1, m.is(3), k > Dim::from(5), n.is(9))), ["m == 3", "k > 5", "n == 4"]);
    assert_eq!(asked(|[n, ..]| estimating(|| n.value())), none);
    assert_eq!(asked(|[n, ..]| n.hint()), none);
}

#[test]
fn what_is_equal_is_said_once() {
    let [a, b, c] = ["a", "b", "c"].map(|name| Dim::atom(name, 6));
    let ask = |_| (a == b, b == c, c == a, c > Dim::from(1), a > Dim::from(1), (b % 3).is(0), (a % 3).is(0));
    assert_eq!(asked(ask), ["a == b", "b == c", "a > 1", "a % 3 == 0"]);
}

/// A guard holds exactly where the question has the same answer; `n` to `k` at small sizes.
#[test]
fn guards_mean_what_was_asked() {
    let questions: [fn([Dim; 3]) -> bool; 10] = [
        |[n, m, _]| n == m + 1,
        |[_, m, _]| m.is(3),
        |[n, m, _]| n * m > Dim::from(11),
        |[n, m, k]| n * m == k,
        |[n, _, k]| (k % n).is(0),
        |[n, m, k]| k / n <= m,
        |[n, m, _]| 2 * n - 3 * m >= Dim::from(-2),
        |[n, m, _]| 3 * n < 2 * m + 7,
        |[n, m, k]| (n - m) * k != Dim::from(12),
        |[n, _, k]| -n / 3 + k > Dim::from(9),
    ];
    // each alone, and together with another one
    for (number, one) in questions.into_iter().enumerate() {
        for other in questions {
            let ask = |sizes| (one(sizes), other(sizes));
            let recording = Recording::start();
            let here = ask(atoms());
            let guards = recording.finish();
            for (n, m, k) in (1..8).flat_map(|n| (0..6).flat_map(move |m| (0..14).map(move |k| (n, m, k)))) {
                let there = ask([Dim::from(n), Dim::from(m), Dim::from(k)]);
                let hold = guards.iter().all(|g| g.holds(&at(n, m, k)));
                assert!(!hold || here == there, "{number}: {guards:?} hold at {n} {m} {k}");
                assert!(hold || here != there, "{number}: {guards:?} ask too much at {n} {m} {k}");
            }
        }
    }
}

#[test]
fn expressions_have_the_value_of_their_arithmetic() {
    let sizes = |n, m, k| [Dim::from(n), Dim::from(m), Dim::from(k)];
    let made: [fn([Dim; 3]) -> Dim; 6] = [
        |[n, m, k]| (n + 2 * m) * (k - n) / 3,
        |[n, m, k]| (k - n * m) % (m + 1) + n,
        |[n, m, k]| (4 * n * k + 2 * m * n) / (2 * n),
        |[n, m, k]| (4 * n * k + 3 * n) % (2 * n) - m * m,
        |[n, _, k]| -(-k / n),
        |[n, m, _]| (n - 5 * m) / 2 * 2 + (n - 5 * m) % 2,
    ];
    for (number, f) in made.into_iter().enumerate() {
        let symbolic = f(atoms());
        for (n, m, k) in (1..7).flat_map(|n| (0..6).flat_map(move |m| (0..9).map(move |k| (n, m, k)))) {
            let there = symbolic.at(&at(n, m, k)).map(Dim::hint);
            assert_eq!(there, Some(f(sizes(n, m, k)).hint()), "{number}: {symbolic} at {n} {m} {k}");
        }
    }
}

#[test]
fn recordings_nest_and_poison_stays() {
    let outer = Recording::start();
    let [n, m, _] = atoms();
    assert!(n > m);
    assert_eq!(asked(|[n, ..]| n.is(9)), ["n != 9"]);
    assert_eq!(outer.finish().len(), 1, "the inner one kept its own");
    let poison = n / Dim::from(0);
    assert!(poison.is_poison() && (poison + n).is_poison() && poison == Dim::poison() && poison != n);
    assert!(n.at(&|_| None).is_none());
}

/// Too large for an expression: the sizes are what they are now, and guards say so.
#[test]
fn expressions_are_bounded() {
    let guards = asked(|_| {
        let all: Vec<Dim> = (0..100).map(|i| Dim::atom(&format!("s{i}"), 1)).collect();
        let sum = all.iter().fold(Dim::from(0), |a, b| a + *b);
        assert_eq!(sum.hint(), 100);
    });
    assert!(!guards.is_empty() && guards.iter().all(|g| g.contains("==")), "{guards:?}");
}

/// A size compares with plain numbers on either side, and records what it would record for a size of that value.
#[test]
fn sizes_compare_with_numbers() {
    let five = Dim::from(5);
    let equal = [five == 5, 5 == five, five != 4usize, 5i64 == five];
    assert_eq!(equal, [true; 4]);
    let orders = [five < 6, five <= 5i64, five > 4usize, five >= 5, 4 < five, 5usize <= five, 6 > five];
    assert_eq!(orders, [true; 7]);
    assert_eq!(vec![Dim::from(2), Dim::from(3)], [2, 3]);
    let numbers = asked(|[n, m, k]| (n == 4, m > 2, 12usize <= k, 5i64 == n, n >= 4));
    let sizes = asked(|[n, m, k]| {
        let d = |x: i64| Dim::from(x);
        (n == d(4), m > d(2), d(12) <= k, d(5) == n, n >= d(4))
    });
    assert_eq!(numbers, sizes);
    assert!(Dim::poison() != 0, "an error is no number");
    assert_eq!(Dim::poison().partial_cmp(&1), None);
}
