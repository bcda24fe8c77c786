//! Kernels of products: tiles of the result are in registers, tiles of the operands in shared memory.

use super::super::device::{Gemm, Side};
use super::lines::Linear;
use super::literals;
use super::printer::Argument;
use super::{Action, Env, Frame, Origin, Why};
use crate::executors::fusion::fuse::Form;
use crate::executors::fusion::graph::piece::Contract;
use crate::executors::fusion::graph::{DimSet, Load, ValueId};
use fulgurite_core::DType;
use fulgurite_core::builtins::cuda::register_type;
use serde_json::json;

const TEMPLATE: &str = include_str!("../templates/product.cu");

/// A dim of a product: its size, and its strides in the operands and the result.
#[derive(Clone, Copy)]
struct Axis {
    size: usize,
    step: [i64; 3],
}

/// The offset of a flat index over several axes (slowest first), such as `(m / 8) * 64 + m % 8 * 3`.
fn offset(axes: &[Axis], which: usize, flat: &str) -> String {
    let (mut terms, mut inner) = (Vec::new(), 1usize);
    for (at, axis) in axes.iter().enumerate().rev() {
        let slower = if inner == 1 { flat.to_owned() } else { format!("{flat} / {}", literals::size(inner)) };
        let digit = if at == 0 { slower } else { format!("{slower} % {}", literals::size(axis.size)) };
        inner *= axis.size;
        match axis.step[which] {
            0 => {}
            1 if !digit.contains(' ') => terms.insert(0, digit),
            step if !digit.contains(' ') => terms.insert(0, format!("{} * {digit}", literals::size(step))),
            step => terms.insert(0, format!("{} * ({digit})", literals::size(step))),
        }
    }
    if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") }
}

/// Merges adjacent axes that are contiguous in every tensor.
fn merged(axes: Vec<Axis>) -> Vec<Axis> {
    let mut out: Vec<Axis> = Vec::new();
    for axis in axes {
        if let Some(slow) = out.last_mut()
            && (0..3).all(|i| slow.step[i] == axis.step[i] * axis.size as i64)
        {
            *slow = Axis { size: slow.size * axis.size, step: axis.step };
        } else {
            out.push(axis);
        }
    }
    out
}

fn steps(load: &Load, form: &Form, dims: usize) -> Linear {
    Linear::load(load, form, dims)
}

/// At most this many matrix products for one contraction, because each is a launch.
const MOST_PRODUCTS: usize = 64;

/// The product as matrix products of the device's library. Returns `None` if its tensors are not matrices.
fn of_matrices(
    [m, n, k, batch]: [&[Axis]; 4],
    (dtypes, bases, values): ([DType; 2], [i64; 3], [ValueId; 3]),
    adds: bool,
) -> Option<Vec<Action>> {
    // the largest axis of each kind belongs to the matrices, the others are iterated over
    let largest = |axes: &[Axis]| {
        let at = (0..axes.len()).max_by_key(|i| axes[*i].size);
        let side = at.map_or(Side::NONE, |i| Side { size: axes[i].size, steps: axes[i].step });
        let others = axes.iter().enumerate().filter(|(i, _)| Some(*i) != at).map(|(_, axis)| *axis);
        (side, others.collect::<Vec<Axis>>())
    };
    let [(m, more_m), (n, more_n), (k, sums), (batch, more)] = [m, n, k, batch].map(largest);
    if !sums.is_empty() {
        return None;
    }
    let (gemm, swapped) = Gemm::of(dtypes, [m, n, k, batch], adds)?;
    let mut offsets = vec![bases];
    for axis in more_m.into_iter().chain(more_n).chain(more) {
        if offsets.len() * axis.size > MOST_PRODUCTS {
            return None;
        }
        let moved = |from: &[i64; 3], at: usize| std::array::from_fn(|i| from[i] + axis.step[i] * at as i64);
        offsets = offsets.iter().flat_map(|from| (0..axis.size).map(move |at| moved(from, at))).collect();
    }
    let order = if swapped { [1, 0, 2] } else { [0, 1, 2] };
    let [dtype, operands] = dtypes.map(|d| d.size() as i64);
    let sizes = [operands, operands, dtype];
    let one = |at: [i64; 3]| Action::Multiply {
        gemm: gemm.clone(),
        values: order.map(|i| values[i]),
        offsets: order.map(|i| at[i] * sizes[i]),
    };
    Some(offsets.into_iter().map(one).collect())
}

/// The actions that compute a product over all dims except `apart`, which the caller iterates over, with the strides
/// (in elements) by which operands and result move along that dim. `adds` says whether the result is added to its
/// present content.
pub(in super::super) fn product(
    c: &Contract,
    env: &Env<'_>,
    origin: &Origin,
    apart: Option<(u8, ValueId)>,
) -> Result<(Vec<Action>, [i64; 3]), Why> {
    let dims = c.sizes.len();
    let own = |load: &Load| match apart {
        Some((_, packed)) if load.value == packed => Form::dense(packed, &env.ty(packed)),
        _ => (env.form)(load.value),
    };
    let (fa, fb, fc) = (own(&c.a), own(&c.b), (env.form)(c.out));
    let (a, b) = (steps(&c.a, &fa, dims), steps(&c.b, &fb, dims));
    let out = Linear::axes(&c.axes, &fc, &c.sizes);
    let summed: DimSet = c.reduced.iter().copied().collect();
    let (mut m, mut n, mut k, mut batch) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let in_dims = |load: &Load| -> DimSet {
        load.idx.iter().fold(DimSet::EMPTY, |s, i| match i {
            crate::executors::fusion::graph::Index::Affine(a) => s.union(a.dims()),
            crate::executors::fusion::graph::Index::Node(_) => s,
        })
    };
    let (da, db) = (in_dims(&c.a), in_dims(&c.b));
    for d in 0..dims {
        let dim = d as u8;
        if c.sizes[d] == 1 || apart.is_some_and(|(x, _)| x == dim) || !(da.has(dim) || db.has(dim)) {
            continue;
        }
        let axis = Axis { size: c.sizes[d], step: [a.coefs[d], b.coefs[d], out.coefs[d]] };
        match (summed.has(dim), da.has(dim), db.has(dim)) {
            (true, ..) => k.push(axis),
            (_, true, false) => m.push(axis),
            (_, false, true) => n.push(axis),
            _ => batch.push(axis),
        }
    }
    // slowest first, so that adjacent axes merge and adjacent threads read adjacent elements
    m.sort_by_key(|x| std::cmp::Reverse(x.step[0].abs()));
    n.sort_by_key(|x| std::cmp::Reverse(x.step[1].abs()));
    k.sort_by_key(|x| std::cmp::Reverse(x.step[0].abs()));
    batch.sort_by_key(|x| std::cmp::Reverse(x.step[2].abs()));
    let [m, n, k, batch] = [m, n, k, batch].map(merged);
    let value = |load: &Load, form: &Form| match apart {
        Some((_, packed)) if load.value == packed => packed,
        _ => form.root,
    };
    let dtype = env.ty(c.out).dtype;
    let values = [value(&c.a, &fa), value(&c.b, &fb), fc.root];
    let moves = apart.map_or([0; 3], |(d, _)| [a.coefs[d as usize], b.coefs[d as usize], out.coefs[d as usize]]);
    let adds = apart.is_some_and(|(d, _)| summed.has(d));
    if env.multiplies
        && let Some(made) = of_matrices(
            [&m, &n, &k, &batch],
            ([dtype, env.ty(values[0]).dtype], [a.base, b.base, out.base], values),
            adds,
        )
    {
        return Ok((made, moves));
    }
    let size = |axes: &[Axis]| axes.iter().map(|x| x.size).product::<usize>();
    let (tiles_m, tiles_n) = (size(&m).div_ceil(64), size(&n).div_ceil(64));
    let along = |axes: &[Axis], which: usize| axes.last().is_some_and(|x| x.step[which] == 1);
    let at = |axes: &[Axis], which: usize, base: i64| match (offset(axes, which, "batch"), base) {
        (text, 0) => text,
        (text, base) if text == "0" => literals::size(base),
        (text, base) => format!("{} + {text}", literals::size(base)),
    };
    let both = |outer: &[Axis], inner: &[Axis], names: [&str; 2], which: usize| {
        format!("{} + {}", offset(outer, which, names[0]), offset(inner, which, names[1]))
    };
    let argument = |v: ValueId, written: bool| Argument::new(v, written, &env.ty(v));
    let args = [argument(values[0], false), argument(values[1], false), argument(values[2], true)];
    let far = a.reach(&c.sizes).max(b.reach(&c.sizes)).max(out.reach(&c.sizes));
    // the numbers of blocks are unsigned, so the edge of a tile has the type in which its first row is computed
    let (ix, edge) = if far > i64::from(i32::MAX / 2) { ("long long", "64ll") } else { ("int", "64") };
    // neighbouring threads read along the axis that is contiguous
    let loaded = |along_k: bool| match along_k {
        true => ["thread / 16 + 16 * part", "thread % 16"],
        false => ["thread % 64", "thread / 64 + 4 * part"],
    };
    let ([a_row, a_term], [b_row, b_term]) = (loaded(along(&k, 0)), loaded(along(&k, 1)));
    let context = json!({
        "ix": ix, "edge": edge,
        "ty": register_type(dtype), "a": "p0", "b": "p1", "c": "p2",
        "m": literals::size(size(&m)), "n": literals::size(size(&n)), "k": literals::size(size(&k)),
        "tiles_n": literals::size(tiles_n), "assign": if adds { "+=" } else { "=" },
        "a_batch": at(&batch, 0, a.base), "b_batch": at(&batch, 1, b.base), "c_batch": at(&batch, 2, out.base),
        "a_offset": both(&m, &k, ["m", "k"], 0), "b_offset": both(&n, &k, ["n", "k"], 1),
        "c_offset": both(&m, &n, ["m", "n"], 2),
        "a_row": a_row, "a_term": a_term, "b_row": b_row, "b_term": b_term,
    });
    let grid = [tiles_m.saturating_mul(tiles_n), size(&batch).max(1), 1];
    let kernel = Frame { template: TEMPLATE, stem: "product", grid, block: [256, 1, 1] }
        .kernel(origin, &args, false, context)?;
    Ok((vec![Action::Launch(kernel)], moves))
}
