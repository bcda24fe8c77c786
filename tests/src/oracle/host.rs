//! The meaning of host primitives: they have no text, so a plain reference is written here.

use super::Operand;
use fulgurite_core::eval::loop_nest::{Array, Data, Field};
use fulgurite_core::signature::{Item, Refusal, Solved};
use fulgurite_core::{DType, Name, Value};
use std::cmp::Ordering;
use std::ops::Range;

/// The result of a host primitive.
pub(super) fn run<F: Field>(primitive: Name, args: &[Value<Operand<F>>], solved: &Solved) -> Result<Array<F>, Refusal> {
    let tensors: Vec<&Array<F>> = args
        .iter()
        .filter_map(|a| match a {
            Value::Tensor(Operand::Tensor(x)) => Some(x),
            _ => None,
        })
        .collect();
    let flag = |name| matches!(solved.env.item(Name::new(name)), Some(Item::Num(s)) if s.as_bool());
    let k = number(solved, "k").and_then(|k| usize::try_from(k).ok()).unwrap_or(0);
    Ok(match (primitive.as_str(), tensors.as_slice()) {
        ("argsort", [x]) => lines(x, solved, 0..usize::MAX, &|order, is| places(order, flag("descending"), is)),
        ("introsort", [x]) => lines_by(x, solved, 0..usize::MAX, &comparison, &|order, is| {
            insert(order, &|a, b| is(a, b) == Ordering::Less);
        }),
        ("introselect", [x]) => lines(x, solved, 0..k, &|order, is| {
            let before = |a, b| is(a, b) == if flag("descending") { Ordering::Greater } else { Ordering::Less };
            if let Some(nth) = k.checked_sub(1).filter(|nth| *nth < order.len()) {
                nth_element(order, nth, &before);
                if flag("sorted") {
                    places(&mut order[..nth], flag("descending"), is);
                }
            }
        }),
        ("quickselect", [x]) => lines(x, solved, k.saturating_sub(1)..k, &|order, is| {
            if let Some(nth) = k.checked_sub(1).filter(|nth| *nth < order.len()) {
                hoare(order, nth, &|a, b| is(a, b) == Ordering::Greater);
            }
        }),
        _ => return Err(Refusal::new("E706", format!("the host primitive `{primitive}` has no reference"))),
    })
}

fn number(solved: &Solved, name: &str) -> Option<i64> {
    match solved.env.item(Name::new(name)) {
        Some(Item::Int(d)) => Some(d.value()),
        Some(Item::Num(s)) => Some(s.as_i64()),
        _ => None,
    }
}

/// Compares two positions of a line by their elements.
type Is<'a> = &'a dyn Fn(usize, usize) -> Ordering;

/// The positions of each line along `dim`, in the order that `arrange` produces, as far as they are at these places.
fn lines<F: Field>(x: &Array<F>, solved: &Solved, of: Range<usize>, arrange: &dyn Fn(&mut [usize], Is)) -> Array<F> {
    lines_by(x, solved, of, &ordering, arrange)
}

/// Positions as `lines` gives them, where elements are compared in another way.
fn lines_by<F: Field>(
    x: &Array<F>,
    solved: &Solved,
    of: Range<usize>,
    ordering: &dyn Fn(&Array<F>, usize, usize) -> Ordering,
    arrange: &dyn Fn(&mut [usize], Is),
) -> Array<F> {
    let dim = number(solved, "dim").unwrap_or(-1);
    let rank = x.shape.len() as i64;
    let axis = usize::try_from(dim.rem_euclid(rank.max(1))).unwrap_or(0);
    let n = x.shape.get(axis).copied().unwrap_or(1);
    let inner: usize = x.shape.iter().skip(axis + 1).product();
    let total: usize = x.shape.iter().product();
    let of = of.start.min(n)..of.end.min(n);
    let mut shape = x.shape.clone();
    if let Some(size) = shape.get_mut(axis) {
        *size = of.len();
    }
    let mut positions = vec![0; shape.iter().product()];
    for (line, first) in (0..total).filter(|element| (element / inner).is_multiple_of(n)).enumerate() {
        let mut order: Vec<usize> = (0..n).collect();
        arrange(&mut order, &|a, b| ordering(x, first + a * inner, first + b * inner));
        for (place, i) in order[of.clone()].iter().enumerate() {
            positions[(line / inner * of.len() + place) * inner + line % inner] = *i as i64;
        }
    }
    Array::int(DType::I64, &shape, positions)
}

/// Sorts positions by counting the ones before each. NaN is the largest; equal elements keep their order, also in
/// descending order.
fn places(order: &mut [usize], descending: bool, is: Is) {
    let old = order.to_vec();
    for (i, &at) in old.iter().enumerate() {
        let before = |j: usize| match is(old[j], at) {
            Ordering::Equal => j < i,
            Ordering::Less => !descending,
            Ordering::Greater => descending,
        };
        order[(0..old.len()).filter(|&j| j != i && before(j)).count()] = at;
    }
}

/// `std::sort` of GNU's C++ library for lines of at most sixteen elements, and tests have no longer ones: an element before
/// the first one moves to the front, and another one behind the last element that it is not before.
fn insert(line: &mut [usize], before: &dyn Fn(usize, usize) -> bool) {
    for i in 1..line.len() {
        let at = line[i];
        let mut to = i;
        while to > 0 && (before(at, line[0]) || before(at, line[to - 1])) {
            to -= 1;
        }
        line[to..=i].rotate_right(1);
    }
}

/// `std::nth_element` of GNU's C++ library, without its fallback for bad pivots, and without the partial sort that takes
/// its place in long lines: the short lines of tests never need them.
fn nth_element(line: &mut [usize], k: usize, before: &dyn Fn(usize, usize) -> bool) {
    let n = line.len();
    if n <= 3 {
        for i in 1..n {
            for j in (0..i).rev() {
                if before(line[j + 1], line[j]) {
                    line.swap(j, j + 1);
                }
            }
        }
        return;
    }
    // The median of the second, the middle and the last element moves to the front.
    let mut three = [1, n / 2, n - 1];
    let less = |line: &[usize], i: usize, j: usize| before(line[i], line[j]);
    let [a, b, c] = three;
    if less(line, a, b) {
        three = if less(line, b, c) {
            [a, b, c]
        } else if less(line, a, c) {
            [a, c, b]
        } else {
            [c, a, b]
        };
    } else {
        three = if less(line, a, c) {
            [b, a, c]
        } else if less(line, b, c) {
            [b, c, a]
        } else {
            [c, b, a]
        };
    }
    line.swap(0, three[1]);
    let pivot = line[0];
    let (mut i, mut j) = (1, n);
    let cut = loop {
        i += line[i..].iter().position(|at| !before(*at, pivot)).unwrap_or(0);
        j = line[..j].iter().rposition(|at| !before(pivot, *at)).unwrap_or(0);
        if i >= j {
            break i;
        }
        line.swap(i, j);
        i += 1;
    };
    if cut <= k { nth_element(&mut line[cut..], k - cut, before) } else { nth_element(&mut line[..cut], k, before) }
}

/// The selection of PyTorch's `kthvalue`.
fn hoare(line: &mut [usize], k: usize, after: &dyn Fn(usize, usize) -> bool) {
    let n = line.len();
    if n < 2 {
        return;
    }
    let order = |line: &mut [usize], i: usize, j: usize| {
        if after(line[i], line[j]) {
            line.swap(i, j);
        }
    };
    if n == 2 {
        return order(line, 0, 1);
    }
    line.swap((n - 1) / 2, 1);
    order(line, 1, n - 1);
    order(line, 0, n - 1);
    order(line, 1, 0);
    let pivot = line[0];
    let (mut i, mut j) = (1, n - 1);
    loop {
        i += 1 + line[i + 1..].iter().position(|at| !after(pivot, *at)).unwrap_or(0);
        j = line[..j].iter().rposition(|at| !after(*at, pivot)).unwrap_or(0);
        if j < i {
            break;
        }
        line.swap(i, j);
    }
    line.swap(0, j);
    match k.cmp(&j) {
        Ordering::Less => hoare(&mut line[..j], k, after),
        // A position between the two holds an element equal to the pivot; the elements after it still move towards
        // their own first place.
        Ordering::Greater => hoare(&mut line[i..], k.saturating_sub(i), after),
        Ordering::Equal => {}
    }
}

fn ordering<F: Field>(x: &Array<F>, a: usize, b: usize) -> Ordering {
    match &x.data {
        Data::Int(v) => v[a].cmp(&v[b]),
        Data::Float(v) => {
            let (a, b) = (v[a].value(), v[b].value());
            a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
        }
    }
}

/// A comparison by `<`, to which a NaN is like everything.
fn comparison<F: Field>(x: &Array<F>, a: usize, b: usize) -> Ordering {
    match &x.data {
        Data::Int(v) => v[a].cmp(&v[b]),
        Data::Float(v) => v[a].value().partial_cmp(&v[b].value()).unwrap_or(Ordering::Equal),
    }
}
