//! P18: in f16 and bf16 a row means what it means, rounded once.
//!
//! A call is drawn in half precision, at magnitudes where products and exponentials of its elements leave the range of
//! f16, and held against the same call of the same numbers in f32 and f64. A result may be off by the error of an
//! evaluation in f32 and by one rounding; what the row computed on its way was not rounded to half precision.

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

/// By what elements are multiplied: squares of numbers around 256 leave the range of f16, those of numbers around 2^-13
/// fall below it; plain numbers reach what the others do not.
const SCALES: [f64; 3] = [1.0, 256.0, 0.0001220703125];

/// Gradients in f32 against those in f64: rounding that both evaluations may pile up in another order, relative to the
/// distance between the two and to the largest element.
const PILED: (f64, f64) = (64.0, 1e-5);

/// A rule that reads a result reads it rounded: its few terms move by that, up to the largest of them even where they
/// cancel. No rule of the project has more than four such terms; each may hold the result twice.
const SAVED: f64 = 8.0;

/// An argument that stands before such terms (a weight of a norm) is no larger than it is drawn.
const WEIGHT: f64 = 3.0;

/// It computes with floats that may be halves.
pub fn applies(row: &TestRow) -> bool {
    let halves = row.takes(DType::F16) || row.takes(DType::BF16);
    let plain = !row.row.takes_key() && !row.names_storage() && !asks_for_neighbours(&row.row);
    halves && plain && super::derivatives::has_floats(row)
}

/// What is next to a number is another one in each dtype.
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

/// Values and gradients.
pub fn check(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    let reads = reads_results(&row.row);
    // where the gradient is not the derivative on purpose, dtypes may have conventions of their own
    let gradients = row.row.deviates.is_none();
    cases::each(row, test, 18, wish, |drawn, rng| {
        let half = drawn.solved.joined.unwrap_or(DType::F16);
        // a dtype that a call names is rounded to where it asks for it
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

/// The call with its floats at another magnitude, if it is one then, and its results are numbers that `half` holds.
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

/// The same numbers in a wider dtype, if the row takes it.
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

/// One rounding, with what an evaluation in f32 adds to it, in half steps of the smallest numbers where these are met.
fn rounding(dtype: DType, x: f64) -> f64 {
    let smallest = if dtype == DType::F16 { 6.103515625e-5 } else { f64::from(f32::MIN_POSITIVE) };
    1.01 * unit(dtype) * x.abs().max(smallest)
}

fn value(got: &Array<f64>, want: &Array<Bounded>) -> Result<(), String> {
    let Data::Float(allowed) = &want.data else { return Ok(()) };
    for (k, (g, w)) in values(got).iter().zip(allowed).enumerate() {
        // what cannot be told in f32 is not asked in fewer digits
        if !w.error.is_finite() || !w.value.is_finite() {
            continue;
        }
        let may = w.error + rounding(got.dtype, w.value.abs() + w.error) + f64::from(f32::EPSILON) * w.value.abs();
        let off = (g - w.value).abs();
        // no more than half a step beyond the largest number is rounded to infinity
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
    // numbers that each dtype holds
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
    // a result below the normal numbers has fewer digits, and a rule that reads it has no more
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
        let apart = values(near).iter().zip(values(want)).fold(0.0f64, |most, (a, b)| most.max((a - b).abs()));
        if !most.is_finite() || !apart.is_finite() || most >= largest(got.dtype) {
            continue;
        }
        // a pointwise row rounds the gradient of each element, and what was broadcast sums those, as in PyTorch
        if pointwise && got.len() < elements {
            continue;
        }
        let piled = PILED.0 * apart + PILED.1 * most;
        // what comes from several results is rounded one by one, and then added
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

/// Whether all that a program computes is one pointwise row: its gradients are that row's.
fn calls_one_pointwise(row: &Row) -> bool {
    let called = closure::called(row);
    let computes = called.iter().filter_map(|op| rows().table.row(*op)).filter(|row| row.promote.is_some());
    let computes: Vec<_> = computes.filter(|row| !matches!(row.meaning, Meaning::View(_))).collect();
    row.is_composite() && computes.iter().filter(|row| row.is_pointwise()).count() == 1 && computes.len() <= 2
}

/// Whether a rule of the row, or of one that it comes to, reads a result.
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
