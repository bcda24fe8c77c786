//! P14: a batched call gives the results of the calls of its slices.

use super::cases::{self, Verdict};
use fulgurite_core::eval::loop_nest::Array;
use fulgurite_core::lang::ast::{Access, Elem};
use fulgurite_core::{DType, TensorTy, Value};
use fulgurite_tests::bound;
use fulgurite_tests::bridge;
use fulgurite_tests::calls::{self, Call, Values, Wish};
use fulgurite_tests::oracle::Operand;
use fulgurite_tests::rng::Rng;
use fulgurite_tests::rows::TestRow;
use libtest_mimic::Failed;

/// Whether the row has a tensor argument.
pub fn applies(row: &TestRow) -> bool {
    row.row.sig.params.iter().any(|p| !p.ty.elem.contains(&Elem::Key))
}

pub fn check(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    let dtype = |case: usize| if case == 3 { None } else { Some(DType::F32) };
    let wish = |case: usize| Wish {
        dtype: dtype(case),
        values: Values::of_case(case),
        numbers: case == 2,
        empty: case == 4,
        case,
    };
    cases::each(row, test, 6, wish, |call, rng| {
        // A batch has one to three slices.
        let Some(slices) = slices(row, call, &wish(0), 1 + rng.below(3), rng) else { return Ok(Verdict::Held) };
        let mut flags = flags(call, rng);
        written(call).into_iter().for_each(|i| flags[i] = true);
        let alone: Vec<Call> = slices.iter().map(|slice| merged(&slices[0], slice, &flags)).collect();
        let programs = alone.iter().map(bridge::record).collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
        let mut want = Vec::new();
        for slice in &alone {
            match bridge::meaning(slice) {
                Ok(meaning) => want.push(meaning),
                // The row may refuse shared elements of one call with elements of another.
                Err(_) => return Ok(Verdict::Held),
            }
        }
        let program = bridge::batched(&programs, &flags).map_err(|e| format!("no batch: {e}"))?;
        let trace = &program.trace;
        let compiled = program.compile(&["cpu", "interp"], 1).map_err(|e| format!("{e}\n{trace}"))?;
        let got = program.run(&compiled).map_err(|e| format!("{e}\n{trace}"))?;
        // After the results and the new versions, the program returns the values of its epilogue, which are these
        // versions again.
        for (i, got) in got.iter().map(bridge::array).enumerate().take(want[0].len()) {
            for (n, (got, want)) in bridge::unstacked(&got, want.len()).iter().zip(&want).enumerate() {
                bound::compare(got, &want[i]).map_err(|e| format!("slice {n}: result {i} {e}\n{trace}"))?;
            }
        }
        Ok(Verdict::Held)
    })
}

/// Checks that the gradient of a batch consists of those of its slices, summed for shared inputs, and that the tangents
/// of a batch are those of its slices.
pub fn derivatives(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    cases::each(row, test, 3, Wish::smooth, |call, rng| {
        let (floats, outs) = (bridge::floats(call), bridge::float_results(call).map_err(|e| e.to_string())?);
        if floats.is_empty() || outs.is_empty() {
            return Ok(Verdict::Held);
        }
        // A row may have further results in narrower dtypes, whose cotangents are rounded.
        let rounding = outs.iter().map(|t| 4.0 * t.dtype.epsilon()).fold(1e-9, f64::max);
        let Some(slices) = slices(row, call, &Wish::smooth(0), 2, rng) else { return Ok(Verdict::Held) };
        let chosen = rng.below(floats.len());
        let flags: Vec<bool> = (0..floats.len()).map(|i| i == chosen || rng.one_in(2)).collect();
        let shared = |own: Vec<Array<f64>>| -> Vec<Array<f64>> {
            own.into_iter()
                .zip(&floats)
                .zip(&flags)
                .map(|((own, first), f)| if *f { own } else { first.clone() })
                .collect()
        };
        let x: Vec<Vec<Array<f64>>> = slices.iter().map(|s| shared(bridge::floats(s))).collect();
        let mut draw = |t: &TensorTy| calls::values::array(t, (-1.0, 1.0), Values::Tame, rng);
        let g: Vec<Vec<Array<f64>>> = (0..2).map(|_| outs.iter().map(&mut draw).collect()).collect();
        let mut u: Vec<Vec<Array<f64>>> = (0..2).map(|_| floats.iter().map(|a| draw(&ty(a))).collect()).collect();
        (0..flags.len()).filter(|i| !flags[*i]).for_each(|i| u[1][i] = u[0][i].clone());
        let (mut grads, mut tangents) = (Vec::new(), Vec::new());
        for ((x, g), u) in x.iter().zip(&g).zip(&u) {
            // The row may refuse shared elements of one call with elements of another.
            let Ok((_, of_slice)) = bridge::vjp(call, x, g) else { return Ok(Verdict::Held) };
            grads.push(of_slice);
            tangents.push(bridge::jvp(call, x, u).map_err(|e| e.to_string())?);
        }
        let batch = bridge::Batch { call, slices: &x, flags: &flags };
        let pulled = batch.vjp(&g).map_err(|e| format!("no gradient: {e}"))?;
        for (i, got) in pulled.iter().enumerate() {
            let want = if flags[i] { side_by_side(&grads, i) } else { summed(&grads, i) };
            agree(bridge::values(got), &want, rounding).map_err(|e| format!("gradient {i} {e}; batched: {flags:?}"))?;
        }
        for (i, got) in batch.jvp(&u).map_err(|e| format!("no tangent: {e}"))?.iter().enumerate() {
            let want = side_by_side(&tangents, i);
            agree(bridge::values(got), &want, rounding).map_err(|e| format!("tangent {i} {e}; batched: {flags:?}"))?;
        }
        Ok(Verdict::Held)
    })
}

fn ty(a: &Array<f64>) -> TensorTy {
    TensorTy::new(a.dtype, &a.shape)
}

fn side_by_side(slices: &[Vec<Array<f64>>], i: usize) -> Vec<f64> {
    slices.iter().flat_map(|s| bridge::values(&s[i])).copied().collect()
}

fn summed(slices: &[Vec<Array<f64>>], i: usize) -> Vec<f64> {
    bridge::values(&slices[0][i]).iter().zip(bridge::values(&slices[1][i])).map(|(a, b)| a + b).collect()
}

/// Compares derivatives, which may differ by the order of summation.
fn agree(got: &[f64], want: &[f64], rounding: f64) -> Result<(), String> {
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= rounding * (1.0 + b.abs()) || a == b || a.is_nan() && b.is_nan();
    match got.len() == want.len() && got.iter().zip(want).all(near) {
        true => Ok(()),
        false => Err(format!("is {got:?}, slice by slice {want:?}")),
    }
}

/// The call, and calls of equal types with other elements, `count` in all.
fn slices(row: &TestRow, call: &Call, wish: &Wish, count: usize, rng: &mut Rng) -> Option<Vec<Call>> {
    let sketch = calls::Sketch {
        args: call.args.iter().map(|a| a.map(&mut |o| slot(o))).collect(),
        solved: call.solved.clone(),
    };
    let mut all = vec![call.clone()];
    while all.len() < count {
        all.push(calls::values::fill(row, &sketch, wish, rng)?);
    }
    Some(all)
}

/// The positions of the tensors that a call writes. These must be batched, because a tensor that all slices share
/// cannot take a value from each (E728).
fn written(call: &Call) -> Vec<usize> {
    let (mut found, mut at) = (Vec::new(), 0);
    for (param, arg) in call.row.sig.params.iter().zip(&call.args) {
        arg.for_each(&mut |_| {
            if param.access == Access::Mut {
                found.push(at);
            }
            at += 1;
        });
    }
    found
}

fn slot(o: &Operand<f64>) -> calls::Slot {
    match o {
        Operand::Tensor(a) => calls::Slot::Tensor(ty(a)),
        Operand::Number(d, s) => calls::Slot::Number(*d, *s),
        Operand::Key(_) => calls::Slot::Key,
    }
}

/// Whether each tensor is batched: at least one is, if there are any.
fn flags(call: &Call, rng: &mut Rng) -> Vec<bool> {
    let mut tensors = Vec::new();
    for arg in &call.args {
        arg.for_each(&mut |o| tensors.push(matches!(o, Operand::Tensor(_))));
    }
    let all: Vec<usize> = (0..tensors.len()).filter(|i| tensors[*i]).collect();
    let chosen = if all.is_empty() { usize::MAX } else { *rng.pick(&all) };
    (0..tensors.len()).map(|i| tensors[i] && (i == chosen || rng.one_in(2))).collect()
}

/// The call `first`, with the flagged tensors of `other` in place of its own.
fn merged(first: &Call, other: &Call, flags: &[bool]) -> Call {
    let (mut at, mut others) = (0, Vec::new());
    other.args.iter().for_each(|a| a.for_each(&mut |o| others.push(o.clone())));
    let mut choose = |o: &Operand<f64>| {
        at += 1;
        if flags[at - 1] { others[at - 1].clone() } else { o.clone() }
    };
    let args: Vec<Value<Operand<f64>>> = first.args.iter().map(|a| a.map(&mut choose)).collect();
    Call { args, ..first.clone() }
}
