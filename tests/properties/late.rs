//! P24: a number that is known only when the program runs gives what the same number gives where it is known before.
//! A number that is known may be refused because the dtype beside it can't hold it (E704); P23 has those.

use super::cases::{self, Verdict};
use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::lang::ast::Elem;
use fulgurite_core::signature;
use fulgurite_core::{DType, Name, Scalar, Value};
use fulgurite_tests::bridge;
use fulgurite_tests::calls::{self, Call, Values, Wish};
use fulgurite_tests::oracle::Operand;
use fulgurite_tests::rng::Rng;
use fulgurite_tests::rows::TestRow;
use libtest_mimic::Failed;
use std::fmt;

const NUMBERS: [Scalar; 8] = [
    Scalar::Int(0),
    Scalar::Int(1),
    Scalar::Int(2),
    Scalar::Int(3),
    Scalar::Float(0.5),
    Scalar::Float(2.0),
    Scalar::Float(-1.5),
    Scalar::Bool(true),
];

/// A call with a number that is known, and the same call with one that is not.
struct Pair {
    known: Call,
    late: Call,
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {}", self.known, self.late)
    }
}

/// The arguments that a number can be.
fn places(row: &TestRow) -> Vec<usize> {
    let t = [Elem::Var(Name::new("T"))];
    let params = row.row.sig.params.iter().enumerate();
    params.filter(|(_, p)| p.ty.elem == t && p.ty.list.is_none() && p.ty.dims.is_none()).map(|(at, _)| at).collect()
}

/// Whether a number can stand beside a tensor.
pub fn applies(row: &TestRow) -> bool {
    row.row.sig.params.len() > 1 && !places(row).is_empty()
}

fn make(row: &TestRow, case: usize, rng: &mut Rng) -> Option<Pair> {
    let wish = Wish { dtype: None, values: Values::of_case(case), numbers: false, empty: false, case };
    let call = calls::generate(row, &wish, rng)?;
    let given: Vec<usize> = places(row).into_iter().filter(|&at| !call.args[at].is_absent()).collect();
    let at = *given.get(rng.below(given.len().max(1)))?;
    let number = *rng.pick(&NUMBERS);
    let dtype = match number {
        Scalar::Int(_) => DType::I64,
        // a number that is written has the default float where nothing beside it has another
        Scalar::Float(_) => DType::DEFAULT_FLOAT,
        Scalar::Bool(_) => DType::Bool,
    };
    let with = |arg: Value<Operand<f64>>| {
        let mut args = call.args.clone();
        args[at] = arg;
        let tensors = args.iter().any(|arg| matches!(arg, Value::Tensor(Operand::Tensor(_)) | Value::List(_)));
        let solved = signature::solve(&call.row, &args, &Operand::ty).ok().filter(|_| tensors)?;
        Some(Call { row: call.row.clone(), args, solved })
    };
    Some(Pair { known: with(Value::Num(number))?, late: with(Value::Tensor(Operand::Number(dtype, number)))? })
}

/// Whether two results are alike: those of floats up to the roundings of a computation that knows one operand.
fn alike(a: &Array<f64>, b: &Array<f64>) -> bool {
    let near = match a.dtype {
        DType::F64 => 1e-11,
        DType::F32 => 1e-5,
        _ => 1e-2,
    };
    let close = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= near * (1.0 + a.abs());
    let data = match (&a.data, &b.data) {
        (Data::Float(a), Data::Float(b)) => a.iter().zip(b).all(|(a, b)| close(*a, *b)),
        (a, b) => a == b,
    };
    (a.dtype, &a.shape) == (b.dtype, &b.shape) && data
}

/// The property.
pub fn check(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    cases::hold(
        test,
        24,
        |case, rng| make(row, case, rng),
        |Pair { known, late }, _| {
            for executor in ["cpu", "interp"] {
                let run = |call| bridge::execute(call, &[executor, "interp"], 1);
                match (run(known), run(late)) {
                    (Ok(known), Ok(late)) if known.iter().zip(&late).all(|(a, b)| alike(a, b)) => {}
                    (Err(_), Err(_)) => {}
                    (Err(e), Ok(_)) if e.code == "E704" => {}
                    (Err(e), _) => return Err(format!("{executor}: known, it is refused: {e}\n  in {known}")),
                    (_, Err(e)) => return Err(format!("{executor}: late, it is refused: {e}\n  in {late}")),
                    (Ok(a), Ok(b)) => return Err(format!("{executor}: {a:?} known, {b:?} late\n  in {known}")),
                }
            }
            Ok(Verdict::Held)
        },
    )?;
    Ok(())
}
