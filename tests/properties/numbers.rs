//! P23: a number that the dtype of the integers beside it can't hold is computed as it is, or refused. The call on the
//! same integers in i64 says what is right; where that result does not fit either, its low bits are.

use super::cases::{self, Verdict};
use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::lang::ast::{Elem, OptType};
use fulgurite_core::signature;
use fulgurite_core::{DType, Name, Scalar, Value};
use fulgurite_tests::bridge;
use fulgurite_tests::calls::{self, Call, Values, Wish};
use fulgurite_tests::oracle::Operand;
use fulgurite_tests::rng::Rng;
use fulgurite_tests::rows::TestRow;
use libtest_mimic::Failed;
use std::fmt;

const DTYPES: [DType; 4] = [DType::U8, DType::I8, DType::I16, DType::I32];

/// A call, and the argument that is a number.
struct Numbered {
    call: Call,
    at: usize,
    number: i64,
}

impl fmt::Display for Numbered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.call)
    }
}

/// The arguments that a number can be, of which tensors have no axes in the signature, and options.
fn places(row: &TestRow) -> Vec<usize> {
    let sig = &row.row.sig;
    let t = [Elem::Var(Name::new("T"))];
    let params = sig.params.iter().enumerate();
    let params = params.filter(|(_, p)| p.ty.elem == t && p.ty.list.is_none() && p.ty.dims.is_none());
    let options = sig.opts.iter().enumerate().filter(|(_, o)| matches!(o.ty, OptType::Num));
    params.map(|(at, _)| at).chain(options.map(|(at, _)| sig.params.len() + at)).collect()
}

/// Whether a call can have such a number.
pub fn applies(row: &TestRow) -> bool {
    let params = !row.row.sig.params.is_empty();
    params && DTYPES.iter().any(|d| row.takes(*d)) && !places(row).is_empty()
}

/// The argument as an integer that is none of -1, 0 and 1, so that a product or a sum is never one of its operands.
fn apart(arg: &Value<Operand<f64>>, dtype: DType) -> Value<Operand<f64>> {
    arg.map(&mut |operand| match operand {
        Operand::Tensor(Array { dtype: d, shape, data: Data::Int(data) }) if *d == dtype => {
            let data = data.iter().map(|&x| if (-1..=1).contains(&x) { x + 18 } else { x });
            Operand::Tensor(Array::int(dtype, shape, data.collect()))
        }
        other => other.clone(),
    })
}

fn make(row: &TestRow, case: usize, rng: &mut Rng) -> Option<Numbered> {
    let dtype = DTYPES[case % DTYPES.len()];
    let wish = Wish { dtype: Some(dtype), values: Values::Small, numbers: false, empty: false, case };
    let call = calls::generate(row, &wish, rng)?;
    let mut args: Vec<_> = call.args.iter().map(|arg| apart(arg, dtype)).collect();
    let params = call.row.sig.params.len();
    let given: Vec<usize> = places(row).into_iter().filter(|&at| at >= params || !args[at].is_absent()).collect();
    let at = *given.get(rng.below(given.len().max(1)))?;
    let (least, most) = dtype.integers();
    let number = *rng.pick(&[most + 1, 1 << 40, least - (most - least) - 1, -1 - (1 << 40), -1]);
    args[at] = match at < params && rng.one_in(3) {
        true => Value::Tensor(Operand::Number(DType::I64, Scalar::Int(number))),
        false => Value::Num(Scalar::Int(number)),
    };
    let tensors = args.iter().any(|arg| matches!(arg, Value::Tensor(Operand::Tensor(_)) | Value::List(_)));
    if params > 0 && !tensors {
        return None;
    }
    Some(Numbered { call: Call { args, ..call }, at, number })
}

/// The call with its tensors of integers as i64.
fn wide(call: &Call, dtype: DType) -> Option<Call> {
    let of = |arg: &Value<Operand<f64>>| match arg {
        Value::DType(d) if *d == dtype => Value::DType(DType::I64),
        arg => arg.map(&mut |operand| match operand {
            Operand::Tensor(Array { dtype: d, shape, data: Data::Int(data) }) if *d == dtype => {
                Operand::Tensor(Array::int(DType::I64, shape, data.clone()))
            }
            other => other.clone(),
        }),
    };
    let args: Vec<_> = call.args.iter().map(of).collect();
    let solved = signature::solve(&call.row, &args, &Operand::ty).ok()?;
    Some(Call { row: call.row.clone(), args, solved })
}

/// Whether an element of the result is the number itself, which the dtype can't hold.
fn chooses(want: &[Array<f64>], number: i64) -> bool {
    want.iter().any(|array| matches!(&array.data, Data::Int(data) if data.contains(&number)))
}

/// The property.
pub fn check(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    cases::hold(
        test,
        24,
        |case, rng| make(row, case, rng),
        |drawn, _| {
            let Numbered { call, at, number } = drawn;
            let Some(dtype) = call.solved.joined else { return Ok(Verdict::Discarded) };
            let solved = signature::solve(&call.row, &call.args, &Operand::ty);
            let (Some(other), Ok(solved)) = (wide(call, dtype), solved) else { return Ok(Verdict::Discarded) };
            if solved.joined != Some(dtype) {
                return Ok(Verdict::Discarded);
            }
            let call = Call { solved, ..call.clone() };
            // a negative number has the bits of an unsigned one
            let (least, most) = dtype.integers();
            let kept = (least..=most).contains(number) || least == 0 && (-most..0).contains(number);
            // the same call with the unsigned number
            let mut args = call.args.clone();
            args[*at] = Value::Num(Scalar::Int(dtype.wrapped(*number)));
            let unsigned = (kept && *number < 0).then(|| wide(&Call { args, ..call.clone() }, dtype)).flatten();
            let known = matches!(call.args[*at], Value::Num(_));
            for executor in ["cpu", "interp"] {
                // what is refused in i64 has no value, and what is refused here has no wrong one; a row that computes
                // in floats rounds them by the executor
                let run = |call: &Call| bridge::execute(call, &[executor, "interp"], 1).ok();
                let (Some(want), bits) = (run(&other), unsigned.as_ref().and_then(run)) else {
                    return Ok(Verdict::Discarded);
                };
                let got = match bridge::execute(&call, &[executor, "interp"], 1) {
                    Ok(got) => got,
                    Err(e) if e.code == "E704" => continue,
                    Err(e) => return Err(format!("{executor}: {e}\n  in {call}")),
                };
                // an argument may be one of its results by its low bits, as in `bitwise_and`; an option fills
                let fills = *at >= call.row.sig.params.len();
                if known && fills && !kept && chooses(&want, *number) {
                    return Err(format!(
                        "{executor}: {number} is an element of the result, which {dtype} can't hold\n  in {call}"
                    ));
                }
                for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                    let (Data::Int(g), Data::Int(w)) = (&got.data, &want.data) else { continue };
                    if bits.as_ref().is_some_and(|bits| bits[i].data == got.data) {
                        continue;
                    }
                    if g.iter().zip(w).any(|(g, w)| *g != got.dtype.wrapped(*w)) {
                        return Err(format!("{executor}: {g:?}, and {w:?} in i64\n  in {call}"));
                    }
                }
            }
            Ok(Verdict::Held)
        },
    )?;
    Ok(())
}
