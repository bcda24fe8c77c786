//! P21: in f16 and bf16 a row gives the result of its meaning, rounded once.
//!
//! A call is drawn in half precision, at magnitudes at which products and exponentials of its elements leave the range
//! of f16. It is compared with the call on equal numbers in f32 and f64. A result may be off by the error of an
//! evaluation in f32 and by one rounding, because intermediate values must not be rounded to half precision.

use super::cases::{self, Verdict};
use fulgurite_codegen::check::closure;
use fulgurite_core::builtins::{Builtin, cast_f64};
use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::lang::ast::{Access, Block, Node};
use fulgurite_core::lang::walk;
use fulgurite_core::lower::Rows;
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::{DType, Value, signature};
use fulgurite_tests::bound::{self, Bounded, unit};
use fulgurite_tests::bridge::{self, values, with_values};
use fulgurite_tests::calls::{Call, Values, Wish};
use fulgurite_tests::oracle::{self, Operand};
use fulgurite_tests::rng::Rng;
use fulgurite_tests::rows::{TestRow, rows};
use libtest_mimic::Failed;

/// The factors of elements: squares of numbers around 256 exceed the range of f16, those of numbers around 2^-13 fall
/// below it, and unscaled numbers lie between.
const SCALES: [f64; 3] = [1.0, 256.0, 0.0001220703125];

/// The allowed difference between gradients in half precision and in f64: relative to the distance between those in f32
/// and f64, and relative to the largest element. The evaluations may accumulate rounding in different orders.
const PILED: (f64, f64) = (64.0, 1e-5);

/// The roundings that a rule carries over from the results that it reads, in units of its largest term, even where its
/// terms cancel. No rule of the project has more than four such terms, and each may read the result twice.
const SAVED: f64 = 8.0;

/// At most this magnitude is taken for an argument that multiplies such terms (a weight of a norm), because unscaled
/// elements are no larger.
const WEIGHT: f64 = 3.0;

/// Whether the row computes with floats that may be f16 or bf16.
pub fn applies(row: &TestRow) -> bool {
    let halves = row.takes(DType::F16) || row.takes(DType::BF16);
    let plain = !row.row.takes_key() && !row.names_storage() && !asks_for_neighbours(&row.row);
    halves && plain && super::derivatives::has_floats(row)
}

/// Whether the row asks for the neighbour of a number, which differs between dtypes.
fn asks_for_neighbours(row: &Row) -> bool {
    let mut found = false;
    let Some(body) = row.index_body() else { return false };
    walk::block(body, &mut |e| {
        found |=
            matches!(&*e.node, Node::Call(f, _) if Builtin::from_name(f.name.as_str()) == Some(Builtin::Nextafter));
    });
    found
}

fn wish(case: usize) -> Wish {
    let dtype = Some([DType::F16, DType::BF16][case % 2]);
    Wish { dtype, values: Values::Tame, numbers: false, empty: false, case: case / 2 }
}

/// Checks values and gradients.
pub fn check(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    let reads = reads_results(&row.row);
    // If the gradient deviates from the derivative on purpose, dtypes may have conventions of their own.
    let gradients = row.row.deviates.is_none();
    cases::each(row, test, 18, wish, |drawn, rng| {
        let half = drawn.solved.joined.unwrap_or(DType::F16);
        // If a call names a dtype, intermediate values are rounded to it.
        let names = drawn.args.iter().any(|arg| matches!(arg, Value::DType(_)));
        if names || !matches!(half, DType::F16 | DType::BF16) {
            return Ok(Verdict::Held);
        }
        let Some(call) = scaled(drawn, half, *rng.pick(&SCALES)) else { return Ok(Verdict::Held) };
        let (Some(single), Some(double)) = (widened(&call, DType::F32), widened(&call, DType::F64)) else {
            return Ok(Verdict::Held);
        };
        let got = bridge::execute(&call, &["cpu", "interp"], 1).map_err(|e| e.to_string())?;
        let want = oracle::run(&call.row, &bound::exact(&single.args)).map_err(|e| e.to_string())?;
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            value(got, want).map_err(|e| format!("result {i}: {e}"))?;
        }
        let writes = call.row.sig.params.iter().any(|p| p.access == Access::Mut);
        if gradients && !writes && !bridge::floats(&call).is_empty() {
            gradient(&call, &single, &double, reads, rng)?;
        }
        Ok(Verdict::Held)
    })
}

/// The call with its floats scaled by `by`, if the row accepts it and `half` holds its results.
fn scaled(call: &Call, half: DType, by: f64) -> Option<Call> {
    let args: Vec<Value<Operand<f64>>> = (call.args.iter())
        .map(|arg| {
            arg.map(&mut |o: &Operand<f64>| match o {
                Operand::Tensor(a) if a.dtype.is_float() => {
                    let moved = values(a).iter().map(|x| cast_f64(x * by, half).as_f64()).collect();
                    Operand::Tensor(with_values(a, moved))
                }
                other => other.clone(),
            })
        })
        .collect();
    let solved = signature::solve(&call.row, &args, &Operand::ty).ok()?;
    let moved = Call { args, solved, ..call.clone() };
    let wide = widened(&moved, DType::F64)?;
    let outs = oracle::run(&wide.row, &wide.args).ok()?;
    let held = |a: &Array<f64>| values(a).iter().all(|x| x.is_finite() && x.abs() < largest(half));
    outs.iter().all(held).then_some(moved)
}

fn largest(half: DType) -> f64 {
    if half == DType::F16 { 65504.0 } else { 3.3e38 }
}

/// The call on equal numbers in a wider dtype, if the row takes it.
fn widened(call: &Call, to: DType) -> Option<Call> {
    let narrow = |d: DType| matches!(d, DType::F16 | DType::BF16);
    let args: Vec<Value<Operand<f64>>> = (call.args.iter())
        .map(|arg| match arg {
            Value::DType(d) if narrow(*d) => Value::DType(to),
            arg => arg.map(&mut |o: &Operand<f64>| match o {
                Operand::Tensor(a) if a.dtype.is_float() => Operand::Tensor(Array { dtype: to, ..a.clone() }),
                other => other.clone(),
            }),
        })
        .collect();
    let solved = signature::solve(&call.row, &args, &Operand::ty).ok()?;
    Some(Call { args, solved, ..call.clone() })
}

/// One rounding, with a hundredth for the evaluation in f32; near 0, half a step between the smallest numbers.
fn rounding(dtype: DType, x: f64) -> f64 {
    let smallest = if dtype == DType::F16 { 6.103515625e-5 } else { f64::from(f32::MIN_POSITIVE) };
    1.01 * unit(dtype) * x.abs().max(smallest)
}

fn value(got: &Array<f64>, want: &Array<Bounded>) -> Result<(), String> {
    let Data::Float(allowed) = &want.data else { return Ok(()) };
    for (k, (g, w)) in values(got).iter().zip(allowed).enumerate() {
        // A result without a bound in f32 is not compared in fewer digits.
        if !w.error.is_finite() || !w.value.is_finite() {
            continue;
        }
        let may = w.error + rounding(got.dtype, w.value.abs() + w.error) + f64::from(f32::EPSILON) * w.value.abs();
        let off = (g - w.value).abs();
        // A number within the error of the largest one may be rounded to infinity.
        let over = w.value.abs() + may >= largest(got.dtype);
        if !(off <= may || over && g.abs() >= largest(got.dtype)) {
            return Err(format!(
                "element {k} is {g:e}, should be {:e}: off by {off:.2e}, {may:.2e} is allowed",
                w.value
            ));
        }
    }
    Ok(())
}

fn gradient(call: &Call, single: &Call, double: &Call, reads: bool, rng: &mut Rng) -> Result<(), String> {
    let results = bridge::float_results(call).map_err(|e| e.to_string())?;
    if results.is_empty() {
        return Ok(());
    }
    let wide = bridge::float_results(double).map_err(|e| e.to_string())?;
    // Every dtype holds these numbers.
    let drawn: Vec<Vec<f64>> =
        (wide.iter()).map(|t| (0..t.numel()).map(|_| rng.int(-8, 8) as f64 / 4.0).collect()).collect();
    let pulled = |call: &Call| -> Result<_, String> {
        let types = bridge::float_results(call).map_err(|e| e.to_string())?;
        let g: Vec<Array<f64>> =
            (types.iter().zip(&drawn)).map(|(t, g)| Array::float(t.dtype, &t.sizes(), g.clone())).collect();
        bridge::vjp(call, &bridge::floats(call), &g).map_err(|e| e.to_string())
    };
    let (_, got) = pulled(call)?;
    let (_, near) = pulled(single)?;
    let (outs, want) = pulled(double)?;
    // A result below the normal numbers has fewer digits, and so has a rule that reads it.
    let smallest = if results[0].dtype == DType::F16 { 6.103515625e-5 } else { 0.0 };
    if reads && outs.iter().flat_map(values).any(|x| *x != 0.0 && x.abs() < smallest) {
        return Ok(());
    }
    let elements = outs.iter().map(Array::len).max().unwrap_or(0);
    let pointwise = call.row.is_pointwise() || calls_one_pointwise(&call.row);
    let of_results = outs.iter().flat_map(values).fold(1.0f64, |most, x| most.max(x.abs()));
    let floats = bridge::floats(double);
    let weight = floats.iter().flat_map(values).fold(1.0f64, |most, x| most.max(x.abs())).min(WEIGHT);
    for (i, ((got, near), want)) in got.iter().zip(&near).zip(&want).enumerate() {
        let most = values(want).iter().fold(0.0f64, |most, x| most.max(x.abs()));
        // f32 may overflow where f64 does not.
        let off = |a: f64, b: f64| if a.is_nan() && !b.is_nan() { f64::INFINITY } else { (a - b).abs() };
        let apart = values(near).iter().zip(values(want)).fold(0.0f64, |most, (a, b)| most.max(off(*a, *b)));
        if !most.is_finite() || !apart.is_finite() || most >= largest(got.dtype) {
            continue;
        }
        // A pointwise row rounds the gradient of each element before those of a broadcast argument are summed, as in
        // PyTorch.
        if pointwise && got.len() < elements {
            continue;
        }
        let piled = PILED.0 * apart + PILED.1 * most;
        // Contributions of several results are rounded one by one before they are added.
        let saved = match reads || results.len() > 1 {
            true => SAVED * unit(got.dtype) * (most + 2.0 * weight * of_results.min(1.0)),
            false => 0.0,
        };
        for (k, (g, w)) in values(got).iter().zip(values(want)).enumerate() {
            let may = rounding(got.dtype, w.abs() + piled) + piled + saved;
            let off = (g - w).abs();
            if off.is_nan() || off > may {
                if off.is_nan() && g.is_nan() == w.is_nan() {
                    continue;
                }
                return Err(format!(
                    "gradient {i}, element {k} is {g:e}, should be {w:e}: off by {off:.2e}, {may:.2e} is allowed"
                ));
            }
        }
    }
    Ok(())
}

/// Whether a program calls one pointwise row, whose gradients it has, and at most one other row that computes.
fn calls_one_pointwise(row: &Row) -> bool {
    let called = closure::called(row);
    let computes = called.iter().filter_map(|op| rows().table.row(*op)).filter(|row| row.promote.is_some());
    let computes: Vec<_> = computes.filter(|row| !matches!(row.meaning, Meaning::View(_))).collect();
    row.is_composite() && computes.iter().filter(|row| row.is_pointwise()).count() == 1 && computes.len() <= 2
}

/// Whether a rule of the row, or of a row that it calls directly or indirectly, reads a result.
fn reads_results(row: &Row) -> bool {
    let mut open = vec![row.op];
    let mut seen = Vec::new();
    while let Some(op) = open.pop() {
        if seen.contains(&op) {
            continue;
        }
        seen.push(op);
        let Some(row) = rows().table.row(op) else { continue };
        let names: Vec<_> = row.sig.outs.iter().chain(&row.sig.aux).map(|out| out.name.name).collect();
        let reads = |block: &Block| {
            let mut found = false;
            walk::block(block, &mut |e| {
                found |= matches!(&*e.node, Node::Name(n) if names.contains(n) || *n == "out");
            });
            found
        };
        if row.vjp.iter().any(|(_, rule)| reads(rule)) {
            return true;
        }
        open.extend(closure::called(&row));
        open.extend(closure::text_calls(row.vjp.iter().map(|(_, rule)| rule)));
    }
    false
}
