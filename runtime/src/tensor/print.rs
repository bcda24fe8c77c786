//! Prints a tensor: its type, then its numbers in aligned columns, without the middle of long axes.

use super::{Tensor, View};
use crate::buffer::Buffer;
use crate::trace::ProxyTy;
use fulgurite_core::{DType, Scalar, storage};
use std::fmt;

/// Tensors with more elements are printed without the middle of their axes.
const FULL: usize = 1000;
/// The number of entries at each end of an axis that are printed then.
const EDGE: usize = 3;
/// The number of digits after the point, as in PyTorch.
const DIGITS: usize = 4;

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.view() {
            View::Poison(e) => write!(f, "poisoned: {e}"),
            View::Traced(traced) => write!(f, "traced {}", traced.ty()),
            View::Wrapped(wrapped) => {
                write!(f, "{} {{", ProxyTy::Tensor(wrapped.ty().clone()))?;
                for (name, field) in wrapped.named() {
                    write!(f, "\n  {name}: {field:?}")?;
                }
                f.write_str("\n}")
            }
            View::Cell(cell) => {
                let buffer = cell.buffer();
                write!(f, "{} ", cell.proxy_ty())?;
                numbers(f, &buffer)
            }
        }
    }
}

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

fn numbers(f: &mut fmt::Formatter<'_>, buffer: &Buffer) -> fmt::Result {
    let shape = buffer.shape();
    // an axis of size 0 has no elements, but the brackets of the axes before it are printed
    let brackets = shape.iter().filter(|n| **n > 0).fold(1usize, |all, n| all.saturating_mul(*n));
    let shown: Vec<Vec<usize>> = shape.iter().map(|&n| entries(n, brackets)).collect();
    let mut flat = Vec::new();
    if !buffer.is_empty() {
        positions(shape, &shown, 0, 0, &mut flat);
    }
    let texts = texts(&flat.iter().map(|&i| buffer.number_at(i)).collect::<Vec<_>>(), buffer.dtype());
    let mut items = texts.iter();
    // the second row is indented to the bracket of the first
    axis(f, &shown, shape, 0, &mut items)
}

/// The entries of an axis that are printed; a gap in them is printed as `…`.
fn entries(n: usize, total: usize) -> Vec<usize> {
    if total <= FULL || n <= 2 * EDGE { (0..n).collect() } else { (0..EDGE).chain(n - EDGE..n).collect() }
}

fn positions(shape: &[usize], shown: &[Vec<usize>], axis: usize, base: usize, out: &mut Vec<usize>) {
    match shown.get(axis) {
        None => out.push(base),
        Some(entries) => {
            for &i in entries {
                positions(shape, shown, axis + 1, base * shape[axis] + i, out);
            }
        }
    }
}

fn axis<'a>(
    f: &mut fmt::Formatter<'_>,
    shown: &[Vec<usize>],
    shape: &[usize],
    depth: usize,
    items: &mut impl Iterator<Item = &'a String>,
) -> fmt::Result {
    let Some(entries) = shown.get(depth) else {
        return f.write_str(items.next().map_or("", |s| s));
    };
    let inner = shape.len() - depth - 1;
    let new_line = || match inner {
        0 => " ".to_owned(),
        n => format!("{}{}", "\n".repeat(n), " ".repeat(depth + 1)),
    };
    f.write_str("[")?;
    for (k, &i) in entries.iter().enumerate() {
        if k > 0 {
            write!(f, ",{}", new_line())?;
            if entries[k - 1] + 1 < i {
                write!(f, "…,{}", new_line())?;
            }
        } else if depth == 0 && inner > 0 {
            write!(f, "\n ")?;
        }
        axis(f, shown, shape, depth + 1, items)?;
    }
    f.write_str("]")
}

/// The numbers in one notation, padded to one width.
fn texts(numbers: &[Scalar], dtype: DType) -> Vec<String> {
    let floats: Vec<f64> = numbers.iter().map(|x| x.as_f64()).filter(|x| x.is_finite()).collect();
    let whole = floats.iter().all(|x| x.fract() == 0.0);
    let magnitudes = floats.iter().map(|x| x.abs()).filter(|x| *x > 0.0);
    let (least, most) = magnitudes.fold((f64::INFINITY, 0.0f64), |(l, m), x| (l.min(x), m.max(x)));
    // like PyTorch: fixed notation is used if its digits show every number well
    let science = most >= 1e8 || most / least > 1e3 && !whole || (!whole && (most >= 1e5 || least < 1e-4));
    let text = |x: &Scalar| match x {
        Scalar::Float(x) if !x.is_finite() => Scalar::Float(*x).to_string(),
        Scalar::Float(x) if science => format!("{x:.DIGITS$e}"),
        Scalar::Float(x) if whole => format!("{x:.0}."),
        Scalar::Float(x) => format!("{x:.DIGITS$}"),
        other => storage::text(*other, dtype),
    };
    let texts: Vec<String> = numbers.iter().map(text).collect();
    let width = texts.iter().map(|t| t.chars().count()).max().unwrap_or(0);
    texts.into_iter().map(|t| format!("{t:>width$}")).collect()
}
