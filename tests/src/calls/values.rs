//! Draws elements inside the domains of the builtins that a row applies to its arguments, and indices within range.

use super::{Call, Sketch, Slot, Wish};
use crate::oracle::{self, Operand};
use crate::rng::Rng;
use crate::rows::TestRow;
use fulgurite_core::builtins::{Builtin, cast_f64, cast_int};
use fulgurite_core::derive::walk;
use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::lang::ast::*;
use fulgurite_core::row::Row;
use fulgurite_core::{DType, Name, Scalar, TensorTy, Value};

/// The distribution of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Small integers: ties, zeros.
    Small,
    /// Uniform inside the domain; the result is finite.
    Tame,
    /// Any magnitude, both signs, and the ends of integer types.
    Wide,
}

impl Values {
    /// Each distribution for a third of the cases.
    pub fn of_case(case: usize) -> Values {
        [Values::Tame, Values::Small, Values::Wide][case % 3]
    }
}

/// The default interval of a parameter: two-sided, with numbers that can be squared well.
const PLAIN: (f64, f64) = (-3.0, 3.0);
/// The interval for rows that refuse or lose negative values inside.
const POSITIVE: (f64, f64) = (0.3, 3.0);

/// The interval of each parameter: that of the row's hints, else the domain of the builtins that it is passed to.
pub fn domains(row: &TestRow) -> Vec<(f64, f64)> {
    let body = row.row.index_body();
    let params = row.row.sig.params.iter().map(|p| p.name.name);
    params
        .map(|name| {
            let hint = row.domain.iter().find(|(n, _)| *n == name).map(|(_, d)| *d);
            hint.or_else(|| body.and_then(|b| met(&row.row, b, name))).unwrap_or(PLAIN)
        })
        .collect()
}

/// The intersection of the sample intervals of the builtins that take parameter `name` itself.
fn met(row: &Row, body: &Block, name: Name) -> Option<(f64, f64)> {
    if !row.is_pointwise() {
        return None;
    }
    let mut found: Option<(f64, f64)> = None;
    let is_param = |e: &Expr| matches!(&*e.node, Node::Name(n) if *n == name);
    walk::map_block(body, &mut |e| {
        let (builtin, args) = match &*e.node {
            Node::Call(f, args) => {
                (Builtin::from_name(f.name.as_str())?, args.iter().map(|a| &a.value).collect::<Vec<_>>())
            }
            Node::Binary(BinOp::Div, a, b) => (Builtin::Div, vec![a, b]),
            Node::Binary(BinOp::Rem, a, b) => (Builtin::RemFloor, vec![a, b]),
            _ => return None,
        };
        for (arg, sample) in args.into_iter().zip(builtin.record().sample) {
            if is_param(arg) {
                found = Some(found.map_or(*sample, |(lo, hi)| (lo.max(sample.0), hi.min(sample.1))));
            }
        }
        None
    });
    found.filter(|(lo, hi)| lo < hi)
}

/// The sketch with elements, if the row's own text accepts them.
pub fn fill(row: &TestRow, sketch: &Sketch, wish: &Wish, rng: &mut Rng) -> Option<Call> {
    let plain = domains(row);
    let positive = vec![POSITIVE; plain.len()];
    let mut call = Call { row: row.row.clone(), args: Vec::new(), solved: sketch.solved.clone() };
    // The last choice: positive elements everywhere (second moments, norms).
    for domain in [&plain, &plain, &positive] {
        let params = sketch.args.iter().enumerate();
        call.args = params
            .map(|(i, arg)| arg.map(&mut |slot| operand(slot, domain.get(i).copied().unwrap_or(PLAIN), wish, rng)))
            .collect();
        for i in 0..row.row.sig.params.len() {
            if row.row.sig.params[i].ty.elem.contains(&Elem::Index) {
                aim(&mut call, i, rng);
            }
        }
        let Ok(outs) = oracle::run(&call.row, &call.args) else { continue };
        if wish.values != Values::Tame || outs.iter().all(finite) {
            return Some(call);
        }
    }
    // An infinite result that no choice of elements avoids (the mean of nothing) is a valid result.
    (wish.values == Values::Tame && wish.empty && oracle::run(&call.row, &call.args).is_ok()).then_some(call)
}

fn finite(a: &Array<f64>) -> bool {
    match &a.data {
        Data::Float(v) => v.iter().all(|x| x.is_finite()),
        Data::Int(_) => true,
    }
}

fn operand(slot: &Slot, domain: (f64, f64), wish: &Wish, rng: &mut Rng) -> Operand<f64> {
    match slot {
        Slot::Number(d, s) => Operand::Number(*d, *s),
        Slot::Key => Operand::Key([rng.bits() >> 1, rng.bits() >> 1]),
        Slot::Tensor(t) => Operand::Tensor(array(t, domain, wish.values, rng)),
    }
}

/// A tensor of type `t`.
pub fn array(t: &TensorTy, domain: (f64, f64), values: Values, rng: &mut Rng) -> Array<f64> {
    let shape: Vec<usize> = t.sizes().to_vec();
    let scalars: Vec<Scalar> = (0..t.numel()).map(|_| element(t.dtype, domain, values, rng)).collect();
    Array::from_scalars(t.dtype, &shape, scalars)
}

fn element(dtype: DType, domain: (f64, f64), values: Values, rng: &mut Rng) -> Scalar {
    if dtype == DType::Bool {
        return Scalar::Bool(rng.one_in(2));
    }
    if dtype.is_int() {
        return integer(dtype, domain, values, rng);
    }
    let x = match values {
        Values::Tame => rng.float(domain.0, domain.1),
        Values::Small => rng.int(-3, 3) as f64,
        Values::Wide => {
            let sign = if domain.0 < 0.0 && rng.one_in(2) { -1.0 } else { 1.0 };
            sign * 10f64.powf(rng.float(-4.0, 4.0))
        }
    };
    cast_f64(x, dtype)
}

fn integer(dtype: DType, domain: (f64, f64), values: Values, rng: &mut Rng) -> Scalar {
    let ends = dtype.integers();
    let x = match values {
        // The integers of the domain, without 0, by which integers refuse to be divided.
        Values::Tame => {
            let (lo, hi) = (domain.0.ceil() as i64, (domain.1.floor() as i64).max(1));
            match rng.int(lo.max(ends.0), hi) {
                0 => 1,
                x => x,
            }
        }
        Values::Small => rng.int(-3, 3).max(ends.0),
        Values::Wide => *rng.pick(&[0, 1, -1, 7, 100, -77, ends.1, ends.0]),
    };
    cast_int(x, dtype)
}

/// Gives the index argument at position `at` elements in range: between the first constants that the row accepts.
fn aim(call: &mut Call, at: usize, rng: &mut Rng) {
    let Value::Tensor(Operand::Tensor(old)) = call.args[at].clone() else { return };
    let with = |elements: Vec<i64>| Value::Tensor(Operand::Tensor(Array::int(old.dtype, &old.shape, elements)));
    let n = old.len();
    let largest = call.solved.env.slots.iter().flatten().flat_map(|t| t.sizes().to_vec()).max().unwrap_or(1) as i64;
    let mut range: Option<(i64, i64)> = None;
    for candidate in 0..=largest.max(3) {
        call.args[at] = with(vec![candidate; n]);
        match (oracle::run(&call.row, &call.args).is_ok(), range) {
            (true, range_so_far) => range = Some((range_so_far.map_or(candidate, |(low, _)| low), candidate)),
            (false, Some(_)) => break,
            (false, None) => {}
        }
    }
    let (low, high) = range.unwrap_or((0, 0));
    call.args[at] = with((0..n).map(|_| rng.int(low, high)).collect());
}
