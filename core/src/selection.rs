//! Primitives that rows name with `host:`. Their results are positions, so they need no gradient. An algorithm and not
//! a formula defines the results, down to the order of equal elements. The executor `host` and the checks both run this
//! code.
//!
//! | name | gives |
//! |---|---|
//! | `argsort` | positions that sort an axis, stable |
//! | `introselect` | positions of the k first, where GNU libstdc++ has them (see `intro`) |
//! | `introsort` | positions that sort an axis as `std::sort` of GNU libstdc++ does, which compares a NaN with nothing |
//! | `quickselect` | the position of the k-th, where Hoare's selection has it (see `quick`) |
//!
//! NaN counts as the largest element, but for `introsort`.

mod intro;
mod item;
mod key;
mod quick;
mod radix;

use crate::kernel::{HOST, Special};
use crate::name::Name;
use crate::scalar::Scalar;
use crate::signature::{Env, Item as EnvItem};
use item::{Item, Loose, Narrow, Wide};
pub use key::SortKey;

/// A primitive with the options of a call.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    order: Order,
    descending: bool,
    dim: i64,
}

/// How the positions of a line are ordered; places are counted from 1.
#[derive(Clone, Copy, Debug)]
enum Order {
    Sort,
    Intro { k: usize, sorted: bool },
    Unstable,
    Quick { k: usize },
}

/// The lines of an argument along the axis of a selection.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// The number of lines.
    pub count: usize,
    /// The elements of a line.
    pub size: usize,
    /// The positions that a line results in.
    pub results: usize,
    /// The distance from element to element of a line.
    pub step: usize,
}

impl Lines {
    /// The number of a line's first element, if lines have `size` elements.
    pub fn first(&self, line: usize, size: usize) -> usize {
        line / self.step * self.step * size + line % self.step
    }
}

impl Selection {
    /// The primitive `name` with the options of a call.
    ///
    /// # Errors
    /// Refuses unknown names.
    pub fn of(name: Name, env: &Env) -> Result<Selection, &'static str> {
        let k = || usize::try_from(int(env, "k")).unwrap_or(0);
        let order = match Special::named(HOST, name.as_str()) {
            Some(Special::Argsort) => Order::Sort,
            Some(Special::Introselect) => Order::Intro { k: k(), sorted: flag(env, "sorted") },
            Some(Special::Introsort) => Order::Unstable,
            Some(Special::Quickselect) => Order::Quick { k: k() },
            _ => return Err("there is no such primitive"),
        };
        Ok(Selection { order, descending: flag(env, "descending"), dim: int(env, "dim") })
    }

    /// The lines of an argument of this shape.
    ///
    /// # Errors
    /// Refuses an axis that has fewer than k elements.
    pub fn lines(&self, shape: &[usize]) -> Result<Lines, &'static str> {
        let dim = if self.dim < 0 { self.dim + shape.len() as i64 } else { self.dim };
        let axis = usize::try_from(dim).unwrap_or(0);
        let size = shape.get(axis).copied().unwrap_or(1);
        let results = match self.order {
            Order::Sort | Order::Unstable => size,
            Order::Intro { k, .. } => k,
            Order::Quick { .. } => 1,
        };
        let least = if let Order::Quick { k } = self.order { k.max(1) } else { results };
        if least > size || matches!(self.order, Order::Quick { k: 0 }) {
            return Err("k must lie in 1 up to the size of dim");
        }
        let step = shape.iter().skip(axis + 1).product();
        let elements: usize = shape.iter().product();
        Ok(Lines { count: elements.checked_div(size).unwrap_or(0), size, results, step })
    }

    /// Gives the positions of a line in order to `put`; `key` returns the key of an element.
    pub fn line<E: Copy, K: SortKey>(&self, line: &[E], key: impl Fn(E) -> K, put: impl FnMut(usize)) {
        if matches!(self.order, Order::Unstable) && line.iter().any(|e| key(*e).is_lost()) {
            let key = |e: E| if key(e).is_lost() { Loose::LOST } else { key(e).key() };
            return self.arrange::<E, Loose>(line, key, put);
        }
        let largest = u64::MAX >> (u64::BITS - K::BITS);
        // the order of equal elements is one for both directions
        let key = |e: E| if self.descending { largest - key(e).key() } else { key(e).key() };
        if K::BITS <= Narrow::BITS && u32::try_from(line.len()).is_ok() {
            self.arrange::<E, Narrow>(line, key, put);
        } else {
            self.arrange::<E, Wide>(line, key, put);
        }
    }

    fn arrange<E: Copy, T: Item>(&self, line: &[E], key: impl Fn(E) -> u64, mut put: impl FnMut(usize)) {
        match self.order {
            Order::Sort => radix::sort(item::all::<E, T>(line, key)).iter().for_each(|i| put(i.at())),
            Order::Unstable => intro::all::<E, T>(line, key).iter().for_each(|i| put(i.at())),
            Order::Intro { k, sorted } => intro::first::<E, T>(k, sorted, line, key).iter().for_each(|i| put(i.at())),
            Order::Quick { k } => {
                let mut items = item::all::<E, T>(line, key);
                quick::select(&mut items, k - 1);
                put(items[k - 1].at());
            }
        }
    }

    /// The positions for an argument with these elements, in the order of the axes of the result.
    ///
    /// # Errors
    /// The errors of [`Selection::lines`].
    pub fn run(&self, shape: &[usize], elements: &[Scalar]) -> Result<Vec<i64>, &'static str> {
        let lines = self.lines(shape)?;
        let mut out = vec![0; lines.count * lines.results];
        for line in 0..lines.count {
            let (from, to) = (lines.first(line, lines.size), lines.first(line, lines.results));
            let mut place = to;
            let line: Vec<Scalar> = (0..lines.size).map(|at| elements[from + at * lines.step]).collect();
            self.line(
                &line,
                |e| e,
                |at| {
                    out[place] = at as i64;
                    place += lines.step;
                },
            );
        }
        Ok(out)
    }
}

fn int(env: &Env, option: &str) -> i64 {
    match env.item(Name::new(option)) {
        Some(EnvItem::Int(d)) => d.value(),
        Some(EnvItem::Num(s)) => s.as_i64(),
        Some(EnvItem::Ints(l)) => l.first().map_or(0, |d| d.value()),
        _ => -1,
    }
}

fn flag(env: &Env, option: &str) -> bool {
    matches!(env.item(Name::new(option)), Some(EnvItem::Num(s)) if s.as_bool())
}

#[cfg(test)]
mod tests;
