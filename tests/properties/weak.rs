//! P22: an argument that does not decide the dtype (a number, or a tensor of rank 0) has the value that the row's text
//! gives it, also where a 16-bit float has no such value.

use super::cases::{self, Verdict};
use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::lang::ast::Elem;
use fulgurite_core::signature;
use fulgurite_core::{DType, Name, Scalar, Value};
use fulgurite_tests::bound::{self, Bounded};
use fulgurite_tests::bridge;
use fulgurite_tests::calls::{self, Call, Values, Wish};
use fulgurite_tests::oracle::Operand;
use fulgurite_tests::rng::Rng;
use fulgurite_tests::rows::TestRow;
use libtest_mimic::Failed;

/// Numbers that a 16-bit float rounds to a neighbour, to 0, or beyond its range.
const BETWEEN: [f64; 8] = [1.0001, -1.0001, 0.9998, 1e-9, -1e-9, 65519.0, 1e6, 0.0];

/// The arguments that broadcast and join in the row's dtype.
fn joined(row: &TestRow) -> Vec<usize> {
    let joins = |at: &usize| {
        let ty = &row.row.sig.params[*at].ty;
        ty.dims.is_none() && ty.list.is_none() && ty.elem == [Elem::Var(Name::new("T"))]
    };
    (0..row.row.sig.params.len()).filter(joins).collect()
}

/// Whether two arguments can differ in dtype.
pub fn applies(row: &TestRow) -> bool {
    joined(row).len() > 1 && row.row.is_pointwise() && row.takes(DType::F16) && row.takes(DType::BF16)
}

fn wish(case: usize) -> Wish {
    let dtype = [DType::F16, DType::BF16][case % 2];
    Wish { dtype: Some(dtype), values: Values::Small, numbers: false, empty: false, case }
}

/// A call with one weaker argument: a tensor of rank 0, a number that is known, or one that is known when it runs.
fn weaker(row: &TestRow, case: usize, rng: &mut Rng) -> Option<Call> {
    let call = calls::generate(row, &wish(case), rng)?;
    let given: Vec<usize> = joined(row).into_iter().filter(|at| !call.args[*at].is_absent()).collect();
    let at = *given.get(rng.below(given.len().max(1)))?;
    let x = BETWEEN[rng.below(BETWEEN.len())];
    let mut args = call.args.clone();
    args[at] = match rng.below(3) {
        0 => Value::Tensor(Operand::Tensor(Array::float(DType::F64, &[], vec![x]))),
        1 => Value::Num(Scalar::Float(x)),
        _ => Value::Tensor(Operand::Number(DType::F64, Scalar::Float(x))),
    };
    let solved = signature::solve(&row.row, &args, &Operand::ty).ok()?;
    Some(Call { args, solved, ..call })
}

/// The call with every float multiplied by a factor.
fn scaled(call: &Call, factor: f64) -> Call {
    let scalar = |s: &Scalar| match s {
        Scalar::Float(x) => Scalar::Float(x * factor),
        other => *other,
    };
    let params = call.row.sig.params.len();
    let of = |(at, arg): (usize, &Value<Operand<f64>>)| match arg {
        Value::Num(s) if at < params => Value::Num(scalar(s)),
        arg => arg.map(&mut |operand| match operand {
            Operand::Number(dtype, s) => Operand::Number(*dtype, scalar(s)),
            Operand::Tensor(array) => {
                let mut array = array.clone();
                if let Data::Float(data) = &mut array.data {
                    data.iter_mut().for_each(|x| *x *= factor);
                }
                Operand::Tensor(array)
            }
            Operand::Key(key) => Operand::Key(*key),
        }),
    };
    Call { args: call.args.iter().enumerate().map(of).collect(), ..call.clone() }
}

/// Whether the results jump near the call: rounding then decides about them, and nothing follows from a difference.
fn jumps(call: &Call, want: &[Array<Bounded>]) -> bool {
    let near = |a: f64, b: f64| a == b || (a - b).abs() <= NEAR * (a.abs() + b.abs()) || (a.is_nan() && b.is_nan());
    [1.0 + STEP, 1.0 - STEP].into_iter().any(|factor| {
        let Ok(moved) = bridge::meaning(&scaled(call, factor)) else { return true };
        moved.iter().zip(want).any(|(moved, want)| match (&moved.data, &want.data) {
            (Data::Float(a), Data::Float(b)) => a.iter().zip(b).any(|(a, b)| !near(a.value, b.value)),
            (Data::Int(a), Data::Int(b)) => a != b,
            _ => true,
        })
    })
}

/// The step to a neighbouring call, which is about a rounding of f32, and the most by which results may move there.
const STEP: f64 = 1e-6;
const NEAR: f64 = 1e-3;

/// The property.
pub fn check(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    // a number may lie outside of what the row takes, or where it jumps
    let fits = |call: &Call| bridge::meaning(call).is_ok_and(|want| !jumps(call, &want));
    let make = |case: usize, rng: &mut Rng| (0..16).find_map(|_| weaker(row, case, rng).filter(fits));
    cases::of(test, 24, make, |call, _| {
        let want = bridge::meaning(call)?;
        for executor in ["cpu", "interp"] {
            let got =
                bridge::execute(call, &[executor, "interp"], 1).map_err(|e| format!("{executor}: {e}\n  in {call}"))?;
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                bound::compare(got, want).map_err(|e| format!("{executor}: result {i} {e}\n  in {call}"))?;
            }
        }
        Ok(Verdict::Held)
    })
}
