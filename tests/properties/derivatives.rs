//! P04, P05, P08, P09: first derivatives, in f64.

use super::cases::{self, Verdict};
use fulgurite_core::eval::loop_nest::Array;
use fulgurite_core::lang::ast::{DimKind, Elem, Type};
use fulgurite_core::signature::OutTy;
use fulgurite_core::{DType, DTypeSet, Dim, Value};
use fulgurite_tests::bound::{self, Bounded};
use fulgurite_tests::bridge::{self, values, with_floats, with_values};
use fulgurite_tests::calls::{Call, Wish};
use fulgurite_tests::guard::{self, Guarded};
use fulgurite_tests::oracle::{self, Operand};
use fulgurite_tests::rng::Rng;
use fulgurite_tests::rows::TestRow;
use libtest_mimic::Failed;

/// The step of central differences, relative to max(1, |x|): the cube root of the precision of f64, at which the error
/// of the quotient (h²) equals that of the rounding (u / h).
pub const STEP: f64 = 6e-6;
/// The allowed error of a quotient, relative to the sum of the magnitudes of its terms: 8 builtins × 20,000 points had
/// a median of 2e-11, and none above this.
const QUOTIENT: f64 = 1e-6;
/// The allowed error of a quotient, as a multiple of its difference from the quotient with half the step: 4/3 if the
/// error grows with the square of the step, and some rounding.
const BENDS: f64 = 1.5;
/// The allowed relative difference of two summation orders of equal products in f64: some thousand units in the last
/// place.
const SAME: f64 = 1e-12;

/// Whether the row may have a float argument and a float result.
pub fn has_floats(row: &TestRow) -> bool {
    let may_be_float = |ty: &Type| {
        ty.elem.iter().any(|e| match e {
            Elem::Var(_) | Elem::Acc(_) => true,
            Elem::Class(c) => DType::from_name(c.as_str()).is_some_and(DType::is_float),
            _ => false,
        })
    };
    row.row.sig.params.iter().any(|p| may_be_float(&p.ty))
        && row.row.sig.outs.iter().any(|o| may_be_float(&o.ty))
        && row.row.no_grad.is_none()
        && row.takes(DType::F64)
}

/// Whether the row has floats, and some float result may be f64, in which derivatives of all orders are compared.
pub fn has_f64(row: &TestRow) -> bool {
    let may_be_f64 = |e: &Elem| match e {
        Elem::Class(c) => DTypeSet::from_class(c.as_str()).is_some_and(|set| set.contains(DType::F64)),
        Elem::Var(_) | Elem::Acc(_) => true,
        _ => false,
    };
    has_floats(row) && row.row.sig.outs.iter().any(|out| out.ty.elem.iter().any(may_be_f64))
}

/// Whether the row has floats, and its gradient is meant to be the derivative.
pub fn applies(row: &TestRow) -> bool {
    has_floats(row) && row.row.deviates.is_none()
}

/// Whether the row has floats, and some argument broadcasts.
pub fn broadcasts(row: &TestRow) -> bool {
    has_floats(row)
        && row.row.sig.params.len() > 1
        && row.row.sig.params.iter().any(|p| match &p.ty.dims {
            None => true,
            Some(dims) => dims.iter().any(|d| matches!(d.kind, DimKind::Broadcast(_) | DimKind::BroadcastList(_))),
        })
}

/// Random cotangents or tangents with the types of `arrays`. Some numbers are 0, like the cotangents of elements that a
/// loss does not read.
pub fn random_like(arrays: &[Array<f64>], rng: &mut Rng) -> Vec<Array<f64>> {
    let mut number = || if rng.one_in(8) { 0.0 } else { rng.float(-2.0, 2.0) };
    arrays.iter().map(|a| with_values(a, (0..a.len()).map(|_| number()).collect())).collect()
}

/// The float results of the call, computed by the runtime.
pub fn float_results(call: &Call) -> Result<Vec<Array<f64>>, String> {
    let outs = bridge::arrays(&bridge::apply(call, &bridge::handles(&bridge::floats(call))));
    outs.map_err(|e| format!("does not run: {e}"))
}

/// Whether all arrays are f64. A narrower result is rounded, while comparisons of derivatives take results to be exact.
pub fn in_f64(arrays: &[Array<f64>]) -> bool {
    arrays.iter().all(|a| a.dtype == DType::F64)
}

/// Σ aᵢ bᵢ over all elements, and Σ |aᵢ bᵢ|.
pub fn product(a: &[Array<f64>], b: &[Array<f64>]) -> (f64, f64) {
    let pairs = a.iter().zip(b).flat_map(|(a, b)| values(a).iter().zip(values(b)));
    pairs.fold((0.0, 0.0), |(sum, size), (x, y)| (sum + x * y, size + (x * y).abs()))
}

/// Compares the types of gradients with those of the float arguments.
fn same_types(a: &[Array<f64>], b: &[Array<f64>]) -> Result<(), String> {
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        if a.dtype != b.dtype || a.shape != b.shape {
            return Err(format!(
                "the gradient of float argument {i} is {}{:?}, the argument {}{:?}",
                a.dtype, a.shape, b.dtype, b.shape
            ));
        }
    }
    Ok(())
}

/// P04: `<v, f(x + s) - f(x - s)> / 2 = <vjp(v), s>` along one random step.
pub fn vjp(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    cases::each(row, test, 8, Wish::smooth, |call, rng| {
        let x = bridge::floats(call);
        let outs = float_results(call)?;
        let v = random_like(&outs, rng);
        let (_, grads) = bridge::vjp(call, &x, &v).map_err(|e| e.to_string())?;
        if grads.len() != x.len() {
            return Err(format!("{} gradients for {} float arguments", grads.len(), x.len()));
        }
        same_types(&grads, &x)?;
        let steps: Vec<Array<f64>> = x.iter().map(|a| step(a, rng)).collect();
        let Some(moved) = quotient(call, &x, &steps, &v)? else { return Ok(Verdict::Discarded) };
        let (predicted, size) = product(&grads, &steps);
        let allowed = QUOTIENT * size + moved.noise;
        if (moved.value - predicted).abs() > allowed || predicted.is_nan() {
            // Near a pole the quotient changes with half the step.
            let half = quotient(call, &x, &scaled(&steps, 0.5), &v)?;
            let bends = half.map_or(f64::INFINITY, |half| (2.0 * half.value - moved.value).abs());
            if (moved.value - predicted).abs() <= BENDS * bends {
                return Ok(Verdict::Discarded);
            }
            return Err(format!(
                "the VJP says {predicted:e} along the step, the function moves by {:e}; {allowed:.1e} is allowed",
                moved.value
            ));
        }
        Ok(Verdict::Held)
    })
}

/// A step for each element: [`STEP`] times a number of magnitude 0.5 to 1, either sign.
pub fn step(a: &Array<f64>, rng: &mut Rng) -> Array<f64> {
    let steps = values(a).iter().map(|x| {
        let sign = if rng.one_in(2) { 1.0 } else { -1.0 };
        sign * rng.float(0.5, 1.0) * STEP * x.abs().max(1.0)
    });
    with_values(a, steps.collect())
}

/// `x + sign * s`
pub fn shifted(x: &[Array<f64>], s: &[Array<f64>], sign: f64) -> Vec<Array<f64>> {
    let both = x.iter().zip(s);
    both.map(|(x, s)| with_values(x, values(x).iter().zip(values(s)).map(|(x, s)| x + sign * s).collect())).collect()
}

struct Moved {
    value: f64,
    /// The bound of its rounding error.
    noise: f64,
}

/// Half the change of `<v, f>` from `x - s` to `x + s`; `None` if a branch flips in between.
fn quotient(call: &Call, x: &[Array<f64>], s: &[Array<f64>], v: &[Array<f64>]) -> Result<Option<Moved>, String> {
    let random = call.row.takes_key();
    let mut ends = [0.0; 2];
    let mut noise = 0.0;
    let mut hashes = Vec::new();
    for sign in [-1.0, 0.0, 1.0] {
        let args = with_floats(call, &shifted(x, s, sign));
        let (outs, hash) = decide(call, &args)?;
        hashes.push(hash);
        if sign == 0.0 {
            continue;
        }
        let outs = if random { float_results(&Call { args, ..call.clone() })? } else { outs };
        ends[(sign > 0.0) as usize] = product(&outs, v).0;
    }
    if hashes.iter().any(|h| *h != hashes[0]) || ends.iter().any(|e| !e.is_finite()) {
        return Ok(None);
    }
    if !random {
        let bounds = oracle::run(&call.row, &bound::exact(&call.args)).map_err(|e| e.to_string())?;
        let mut floats = bounds.iter().filter(|a| a.dtype.is_float());
        for v in v {
            let Some(fulgurite_core::eval::loop_nest::Data::Float(errors)) = floats.next().map(|a| &a.data) else {
                break;
            };
            noise += errors.iter().zip(values(v)).map(|(b, v): (&Bounded, &f64)| 2.0 * b.error * v.abs()).sum::<f64>();
        }
    }
    Ok(Some(Moved { value: (ends[1] - ends[0]) / 2.0, noise: noise + f64::MIN_POSITIVE }))
}

/// The float results by the row's own text, with the hash of the branches taken.
pub fn decide(call: &Call, args: &[Value<Operand<f64>>]) -> Result<(Vec<Array<f64>>, u64), String> {
    let guarded: Vec<Value<Operand<Guarded>>> =
        args.iter().map(|a| a.map(&mut |o: &Operand<f64>| o.convert())).collect();
    let (outs, hash) = guard::decisions(|| oracle::run(&call.row, &guarded));
    let outs = outs.map_err(|e| format!("the oracle refuses: {e}"))?;
    let visible = call.solved.outs.iter().map(|o| if let OutTy::List(l) = o { l.len() } else { 1 }).sum::<usize>();
    let visible = if call.solved.outs.contains(&OutTy::FromBody) { outs.len() } else { visible };
    let floats = outs.iter().take(visible).filter(|a| a.dtype.is_float());
    Ok((floats.map(oracle::convert).collect(), hash))
}

/// P05: `<g, jvp(u)> = <vjp(g), u>`.
pub fn transpose(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    cases::each(row, test, 6, Wish::smooth, |call, rng| {
        let x = bridge::floats(call);
        let outs = float_results(call)?;
        if !in_f64(&outs) {
            return Ok(Verdict::Discarded);
        }
        let g = random_like(&outs, rng);
        let u = random_like(&x, rng);
        let tangents = bridge::jvp(call, &x, &u).map_err(|e| format!("jvp: {e}"))?;
        let (_, grads) = bridge::vjp(call, &x, &g).map_err(|e| format!("vjp: {e}"))?;
        let ((forward, size), (reverse, other)) = (product(&g, &tangents), product(&grads, &u));
        let n = x.iter().map(Array::len).sum::<usize>() + 1;
        // A derivative that is zero except for rounding (the norm of one element) has an error of the magnitude of the
        // result. Terms of order one may cancel inside.
        let total = |a: &[Array<f64>]| a.iter().flat_map(values).map(|x| x.abs()).sum::<f64>();
        let inside = 16.0 * f64::EPSILON * total(&g) * total(&u);
        let allowed = SAME * n as f64 * (size + other + product(&g, &outs).1) + inside;
        // If the row declares that one of the two deviates, the other must be the derivative.
        if call.row.deviates.is_some() && (!allowed.is_finite() || (forward - reverse).abs() > allowed) {
            let steps = scaled(&u, STEP);
            let Some(moved) = quotient(call, &x, &steps, &g)? else { return Ok(Verdict::Discarded) };
            let near =
                |slope: f64, size: f64| (moved.value - slope * STEP).abs() <= QUOTIENT * size * STEP + moved.noise;
            if near(forward, size) || near(reverse, other) {
                return Ok(Verdict::Held);
            }
        }
        if (forward - reverse).abs() > allowed || forward.is_nan() != reverse.is_nan() {
            return Err(format!("forward {forward:e}, reverse {reverse:e}; {allowed:.1e} is allowed"));
        }
        Ok(Verdict::Held)
    })
}

/// P08: `vjp(a g + b h) = a vjp(g) + b vjp(h)`, and `vjp(0) = 0`.
pub fn linear(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    cases::each(row, test, 4, Wish::smooth, |call, rng| {
        let x = bridge::floats(call);
        let outs = float_results(call)?;
        if !in_f64(&outs) {
            return Ok(Verdict::Discarded);
        }
        let (g, h) = (random_like(&outs, rng), random_like(&outs, rng));
        // The factors are powers of two, so that scaling does not round.
        let (a, b) = (2.0, -0.5);
        let both: Vec<Array<f64>> = shifted(&scaled(&g, a), &scaled(&h, b), 1.0);
        let run = |g: &[Array<f64>]| bridge::vjp(call, &x, g).map(|(_, grads)| grads).map_err(|e| e.to_string());
        let (at_g, at_h, at_both) = (run(&g)?, run(&h)?, run(&both)?);
        let largest = at_g.iter().chain(&at_h).flat_map(values).fold(0.0f64, |m, x| m.max(x.abs()));
        let mut all = at_g.iter().chain(&at_h).flat_map(values);
        // A slope that a row states to be infinite is not compared.
        if call.row.deviates.is_some() && !all.all(|x| x.is_finite()) {
            return Ok(Verdict::Discarded);
        }
        // Terms that cancel to a slope of 0 leave a rounding error of their own magnitude.
        let inside = 16.0 * f64::EPSILON * both.iter().flat_map(values).map(|x| x.abs()).sum::<f64>();
        for (i, want) in shifted(&scaled(&at_g, a), &scaled(&at_h, b), 1.0).iter().enumerate() {
            for (x, y) in values(want).iter().zip(values(&at_both[i])) {
                if (x - y).abs() > SAME * 100.0 * largest + inside || x.is_nan() != y.is_nan() {
                    return Err(format!("argument {i}: vjp of the sum is {y:e}, the sum of the vjps {x:e}"));
                }
            }
        }
        let zero = run(&scaled(&g, 0.0))?;
        match zero.iter().flat_map(values).find(|z| **z != 0.0) {
            Some(z) => Err(format!("vjp(0) holds {z:e}")),
            None => Ok(Verdict::Held),
        }
    })
}

fn scaled(arrays: &[Array<f64>], by: f64) -> Vec<Array<f64>> {
    arrays.iter().map(|a| with_values(a, values(a).iter().map(|x| x * by).collect())).collect()
}

/// P09: the gradient of a broadcast argument is the sum of the gradients of its copies.
pub fn broadcast(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    cases::each(row, test, 8, Wish::smooth, |call, rng| {
        let x = bridge::floats(call);
        // The full shape that each argument broadcasts to.
        let mut wide = call.clone();
        let mut any = false;
        for part in &call.solved.env.broadcast {
            let Some(fulgurite_core::signature::Size::List(full)) = call.solved.env.size(part.list) else { continue };
            let full: Vec<usize> = full.iter().map(Dim::len_of).collect();
            let at = call.row.sig.params.iter().position(|p| p.name.name == part.param);
            let Some(at) = at else { continue };
            // Arguments with several broadcast parts, or with other axes in front, are left to other rows.
            let parts = call.solved.env.broadcast.iter().filter(|other| other.param == part.param).count();
            let dims = call.row.sig.params[at].ty.dims.as_deref().unwrap_or_default();
            let first =
                dims.first().is_none_or(|d| matches!(d.kind, DimKind::Broadcast(_) | DimKind::BroadcastList(_)));
            if parts > 1 || !first {
                continue;
            }
            if let Value::Tensor(Operand::Tensor(a)) = &call.args[at] {
                let rest = a.shape[part.own.len().min(a.shape.len())..].to_vec();
                let shape: Vec<usize> = full.into_iter().chain(rest).collect();
                any |= shape != a.shape;
                wide.args[at] = Value::Tensor(Operand::Tensor(expanded(a, &shape)));
            }
        }
        if !any {
            return Ok(Verdict::Held);
        }
        let g = random_like(&float_results(call)?, rng);
        let (_, narrow) = bridge::vjp(call, &x, &g).map_err(|e| e.to_string())?;
        same_types(&narrow, &x)?;
        let (_, copies) = bridge::vjp(&wide, &bridge::floats(&wide), &g).map_err(|e| e.to_string())?;
        for (i, (narrow, copies)) in narrow.iter().zip(&copies).enumerate() {
            let (want, size) = (summed(copies, &narrow.shape), summed(&magnitude(copies), &narrow.shape));
            for ((got, want), size) in values(narrow).iter().zip(values(&want)).zip(values(&size)) {
                if (got - want).abs() > SAME * size.max(f64::MIN_POSITIVE) {
                    return Err(format!("float argument {i}: {got:e}, the copies sum to {want:e}"));
                }
            }
        }
        Ok(Verdict::Held)
    })
}

/// A size as a length.
trait Length {
    fn len_of(&self) -> usize;
}
impl Length for Dim {
    fn len_of(&self) -> usize {
        self.value().max(0) as usize
    }
}

/// The array broadcast to `shape`: every element is copied along the axes that `a` lacks.
fn expanded(a: &Array<f64>, shape: &[usize]) -> Array<f64> {
    let all = a.scalars();
    let total: usize = shape.iter().product();
    let scalars = (0..total).map(|flat| all[source(flat, shape, &a.shape)]);
    Array::from_scalars(a.dtype, shape, scalars.collect::<Vec<_>>())
}

/// The array summed to `shape`: each element is the sum of its copies in `a`.
fn summed(a: &Array<f64>, shape: &[usize]) -> Array<f64> {
    let mut sums = vec![0.0; shape.iter().product()];
    for (flat, x) in values(a).iter().enumerate() {
        sums[source(flat, &a.shape, shape)] += x;
    }
    Array::float(a.dtype, shape, sums)
}

fn magnitude(a: &Array<f64>) -> Array<f64> {
    with_values(a, values(a).iter().map(|x| x.abs()).collect())
}

/// The flat position in `narrow` of the element at `flat` in `wide`.
fn source(mut flat: usize, wide: &[usize], narrow: &[usize]) -> usize {
    let lead = wide.len() - narrow.len();
    let (mut at, mut stride) = (0, 1);
    for axis in (0..wide.len()).rev() {
        let i = flat % wide[axis];
        flat /= wide[axis];
        if axis >= lead {
            let n = narrow[axis - lead];
            at += if n == 1 { 0 } else { i * stride };
            stride *= n;
        }
    }
    at
}
