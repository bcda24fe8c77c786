//! P19: a gradient takes steps of no higher order in the sizes than the function that it differentiates.
//!
//! The rule of each argument is run on types alone, at sizes that are four times apart, and the steps of its loops are
//! counted, as are those of the row. A loop that an executor walks once counts once: a scan, and a reduction whose
//! filter states the place of each element.

use fulgurite::symbol::Registered;
use fulgurite_codegen::check::cases::Case;
use fulgurite_codegen::check::orders::steps;
use fulgurite_core::eval::frame;
use fulgurite_core::eval::tensor::{self, Machine};
use fulgurite_core::lower::lower_with;
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::signature::{ArgTy, OutTy, Refusal, Solved};
use fulgurite_core::{DType, Name, TensorTy, Value, derive};
use fulgurite_tests::calls::{self, Sketch, Slot, Values, Wish};
use fulgurite_tests::draws::{self, Property, Verdict};
use fulgurite_tests::oracle;
use fulgurite_tests::rng::Rng;
use fulgurite_tests::rows::TestRow;
use libtest_mimic::Failed;

/// The factors by which the sizes of a drawn call grow.
const SIZES: [i64; 2] = [16, 64];

/// The allowed difference of two orders, for sizes that do not grow (kernels, strides) and the logarithm of a sort.
const NEAR: f64 = 0.4;

/// Calls per row.
const CALLS: usize = 6;

/// Whether the row has rules, written or derived. Programs without rules are covered by the rules of the rows that they
/// call.
pub fn applies(row: &TestRow) -> bool {
    !row.row.vjp.is_empty() && row.takes(DType::F64) && !row.row.is_pointwise() && !row.names_storage()
}

/// Compares the order of each rule with that of the meaning.
pub fn check(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    let wish = |case| Wish { dtype: Some(DType::F64), values: Values::Small, numbers: false, empty: false, case };
    let property = Property { name: test, test: "--test properties", cases: CALLS, shrinks: true };
    // A row of which no call can grow passes without a comparison.
    let drawn = |case: usize, rng: &mut Rng| calls::sketch(row, &wish(case), rng);
    draws::hold(&property, drawn, |sketch, _| compare(row, sketch).map(|()| Verdict::Held))?;
    Ok(())
}

fn compare(row: &TestRow, sketch: &Sketch) -> Result<(), String> {
    let args: Vec<Value<ArgTy>> = sketch.args.iter().map(|arg| arg.map(&mut |slot: &Slot| slot.ty())).collect();
    let Some(drawn) = Case::of(&row.row, args) else { return Ok(()) };
    let grown = SIZES.map(|by| drawn.grown(&row.row, by, true));
    let [Some(small), Some(large)] = grown else { return Ok(()) };
    // A window as large as its image has one position, so the value takes one step there. Its gradient loops over all
    // positions with a condition, and counting does not see that the condition holds for one of them.
    if ends_in_one(&large) {
        return Ok(());
    }
    let order = |of: &dyn Fn(&Case) -> Result<f64, Refusal>| -> Result<f64, Refusal> {
        let (a, b) = (of(&small)?.max(1.0), of(&large)?.max(1.0));
        Ok((b / a).ln() / (SIZES[1] as f64 / SIZES[0] as f64).ln())
    };
    // Elements of arguments and results count as steps, because a gradient has one element for each that the call could
    // read.
    let of_value =
        |case: &Case| Ok(Counter::default().row(&row.row, &case.solved, &case.args)? + elements(case) + results(case));
    let Ok(own) = order(&of_value) else { return Ok(()) };
    for (arg, rule) in &row.row.vjp {
        let of_rule = |case: &Case| {
            let mut counter = Counter::default();
            tensor::run(&mut counter, &row.row, rule, &case.solved, &case.args, &names(&row.row, case))?;
            Ok(counter.walked + elements(case) + results(case))
        };
        let Ok(gradient) = order(&of_rule) else { continue };
        if gradient > own + NEAR {
            return Err(format!(
                "the gradient of `{arg}` takes n^{gradient:.1} steps, the value n^{own:.1}\n  rule: {rule}\n  at sizes of {:?}",
                small.args
            ));
        }
    }
    Ok(())
}

fn elements(case: &Case) -> f64 {
    case.args.iter().flat_map(Value::tensors).map(count).sum()
}

fn results(case: &Case) -> f64 {
    case.solved.outs.iter().flat_map(OutTy::tensors).map(count).sum()
}

/// Whether a result has an axis of one element, while no argument has one.
fn ends_in_one(case: &Case) -> bool {
    let one = |t: &TensorTy| t.shape.iter().any(|d| d.is(1));
    let made = case.solved.outs.iter().flat_map(OutTy::tensors).any(one);
    made && !case.args.iter().flat_map(Value::tensors).any(one)
}

fn count(t: &TensorTy) -> f64 {
    t.shape.iter().map(|d| d.len() as f64).product()
}

/// The values that a rule reads besides the arguments: results and cotangents.
fn names(row: &Row, case: &Case) -> Vec<(Name, Value<ArgTy>)> {
    let outs = row.sig.outs.iter().zip(&case.solved.outs).map(|(out, ty)| (out, ty, true));
    let aux = row.sig.aux.iter().zip(&case.solved.aux).map(|(out, ty)| (out, ty, false));
    let mut names = Vec::new();
    for (out, ty, has_cotangent) in outs.chain(aux) {
        let value = value(ty);
        if has_cotangent {
            names.push((derive::cotangent(row, out.name.name), value.clone()));
        }
        names.push((out.name.name, value.clone()));
        if row.sig.outs.len() == 1 && has_cotangent {
            names.push((Name::new("out"), value));
        }
    }
    names
}

fn value(out: &OutTy) -> Value<ArgTy> {
    out.value(|t| ArgTy::Tensor(t.clone()))
}

/// A machine of the tensor language on types, which counts the steps of the rows that are called.
#[derive(Default)]
struct Counter {
    walked: f64,
    depth: usize,
}

impl Counter {
    /// The steps of one call.
    fn row(mut self, row: &Row, solved: &Solved, args: &[Value<ArgTy>]) -> Result<f64, Refusal> {
        self.enter(row, solved, args)?;
        Ok(self.walked)
    }

    fn enter(&mut self, row: &Row, solved: &Solved, args: &[Value<ArgTy>]) -> Result<Vec<Value<ArgTy>>, Refusal> {
        match &row.meaning {
            Meaning::Decomp(body) => {
                let run = |counter: &mut Self| tensor::run(counter, row, body, solved, args, &[]);
                let mut results = frame::one_deeper(self, |counter| &mut counter.depth, 24, row.op, run)?;
                results.truncate(row.sig.outs.len() + row.sig.aux.len());
                Ok(results)
            }
            Meaning::View(_) => Ok(solved.outs.iter().chain(&solved.aux).map(value).collect()),
            Meaning::Expr(body) => {
                self.walked += steps(&lower_with(row, body, solved, &Registered)?);
                Ok(solved.outs.iter().chain(&solved.aux).map(value).collect())
            }
            Meaning::Host(_) => {
                let results: Vec<Value<ArgTy>> = solved.outs.iter().chain(&solved.aux).map(value).collect();
                self.walked += results.iter().flat_map(Value::tensors).map(count).sum::<f64>();
                Ok(results)
            }
        }
    }
}

impl Machine for Counter {
    type V = ArgTy;
    type Error = Refusal;

    fn call(
        &mut self,
        op: Name,
        positional: Vec<Value<ArgTy>>,
        named: Vec<(Name, Value<ArgTy>)>,
    ) -> Result<Vec<Value<ArgTy>>, Refusal> {
        let (row, args, solved) = oracle::accepted(op, &positional, &named, &ArgTy::clone)?;
        self.enter(row, &solved, &args)
    }

    fn ty(&self, v: &ArgTy) -> ArgTy {
        v.clone()
    }

    fn write(&mut self, _: Name, _: Value<ArgTy>) -> Result<(), Refusal> {
        Ok(())
    }
}
