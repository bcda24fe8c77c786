//! P17: a program over symbolic sizes gives equal bits to a program that was traced for the sizes of the call.

use super::cases::{self, Verdict};
use fulgurite::jit::Stats;
use fulgurite::prelude::*;
use fulgurite::{api, scope};
use fulgurite_core::lang::ast::OptType;
use fulgurite_core::loc::Loc;
use fulgurite_core::row::Meaning;
use fulgurite_core::signature;
use fulgurite_core::{DType, TensorTy, Value};
use fulgurite_tests::bridge;
use fulgurite_tests::calls::{Call, Sketch, Slot, Values, Wish, values};
use fulgurite_tests::oracle::Operand;
use fulgurite_tests::rng::Rng;
use fulgurite_tests::rows::TestRow;
use libtest_mimic::Failed;

/// At most this many elements of an argument at other sizes, because the call runs twice there.
const MOST: usize = 20_000;

/// Compiles the row and its gradient for the sizes of one call, and uses the program for others.
///
/// Every line of a plan is bound again at the new sizes and must have the types that the symbolic trace states there.
/// If it does not, the program records so in its statistics, and the property fails.
pub fn sizes(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    let wish = |case: usize| Wish {
        dtype: row.preferred(DType::F32),
        values: Values::Tame,
        numbers: case % 2 == 1,
        empty: case % 3 == 2,
        case,
    };
    cases::each(row, test, 2, wish, |call, rng| {
        let symbolic = program(call, Caching::Symbolic);
        if symbolic.call(leaves(call)).is_err() {
            return Ok(Verdict::Held);
        }
        for doubled in [true, false] {
            let Some(other) = resized(row, call, doubled, &wish(0), rng) else { continue };
            let before = symbolic.stats();
            let got = outcome(symbolic.call(leaves(&other)));
            let after = symbolic.stats();
            if got.is_ok() {
                used_again(row, &before, &after).map_err(|why| format!("{why}\nat the sizes of {other}"))?;
            }
            let stats = symbolic.stats().to_string();
            if stats.contains("can't be") {
                return Err(format!("{stats}\nat the sizes of {other}"));
            }
            let want = outcome(program(&other, Caching::Constant).call(leaves(&other)));
            if got != want {
                let prologue = symbolic.prologue().unwrap_or_default();
                return Err(format!("gives {got:?}, not {want:?}\nat the sizes of {other}\n{prologue}\n{stats}"));
            }
        }
        Ok(Verdict::Held)
    })
}

/// Checks that the program serves a call at other sizes by a plan of its own, unless a guard does not hold there. A
/// guard that fixes a size to a number is allowed only if the row may compute with that number.
fn used_again(row: &TestRow, before: &Stats, after: &Stats) -> std::result::Result<(), String> {
    let Some(miss) = after.misses.get(before.misses.len()) else {
        // Equal sizes need no new plan.
        return match after.hits > before.hits {
            true => Ok(()),
            false => Err(format!("was neither served nor compiled: {after}")),
        };
    };
    for reason in &miss.reasons {
        let guard = reason.strip_prefix('`').and_then(|r| r.split_once("` was so with"));
        let Some((guard, _)) = guard else {
            return Err(format!("was compiled again, and no guard says why: {reason}"));
        };
        // `… == 0` compares two sizes.
        let number = guard.rsplit_once(" == ").is_some_and(|(_, right)| right.parse::<i64>().is_ok_and(|n| n != 0));
        if number && !counts(row) {
            return Err(format!("`{guard}` makes a size a number, and nothing in the row counts with it"));
        }
    }
    Ok(())
}

/// Whether a row may use a size as a number. Programs and rules in the tensor language may, as may primitives of the
/// runtime; a list has as many results as its size says; and a position may count from the end.
fn counts(row: &TestRow) -> bool {
    let program = matches!(row.row.meaning, Meaning::Decomp(_) | Meaning::Host(_));
    let derived = format!("{}.vjp.", row.row.op);
    let written = row.row.vjp.iter().any(|(_, rule)| !rule.to_string().contains(&derived));
    let list = row.row.sig.outs.iter().any(|out| out.ty.list.is_some());
    // A position that an option names may equal the size that it is compared with.
    let bound = row.row.sig.opts.iter().any(|opt| matches!(opt.ty, OptType::Bound(_)));
    program || written || list || bound
}

/// The results by their types and bits, or the code of the error.
fn outcome(results: Result<Vec<Tensor>>) -> std::result::Result<Vec<(TensorTy, Vec<u8>)>, String> {
    let one = |t: &Tensor| t.buffer().map(|b| (TensorTy::new(b.dtype(), b.shape()), b.as_bytes().to_vec()));
    match results.and_then(|results| results.iter().map(one).collect()) {
        Ok(all) => Ok(all),
        Err(e) => Err(e.code().to_owned()),
    }
}

fn leaves(call: &Call) -> Vec<Tensor> {
    let mut all = Vec::new();
    call.args.iter().for_each(|a| a.for_each(&mut |o| all.push(bridge::tensor(o))));
    all
}

type Program = Box<dyn Fn(Vec<Tensor>) -> Result<Vec<Tensor>>>;

/// The call as a function of its tensors, keys and run-time numbers. It returns the results, followed by the gradients
/// of the sum of the float results if there are any.
fn program(call: &Call, caching: Caching) -> fulgurite::Jit<Program> {
    let call = call.clone();
    let floats: Vec<bool> = {
        let mut all = Vec::new();
        call.args.iter().for_each(|a| a.for_each(&mut |o| all.push(o.is_float_tensor())));
        all
    };
    let run: Program = Box::new(move |xs: Vec<Tensor>| {
        let apply = |xs: &[Tensor]| {
            let mut next = xs.iter();
            let mut take = |_: &Operand<f64>| next.next().cloned().unwrap_or_else(|| Tensor::from(0.0));
            let args: Vec<Value<Tensor>> = call.args.iter().map(|a| a.map(&mut take)).collect();
            let symbol = bridge::symbol(call.row.op).map_err(|e| Error::new(e.code, e.text))?;
            api::call(symbol, args, Loc::NOWHERE)
        };
        let plain = scope::no_grad(|| apply(&xs))?;
        let by: Vec<Tensor> = xs.iter().zip(&floats).filter(|(_, float)| **float).map(|(x, _)| x.clone()).collect();
        if by.is_empty() {
            return Ok(plain);
        }
        let differentiated = try_value_and_grad(&by, |by: &Vec<Tensor>| {
            let mut next = by.iter();
            let all: Vec<Tensor> = xs.iter().zip(&floats).map(|(x, f)| next.next_if(*f).unwrap_or(x).clone()).collect();
            let outs = apply(&all)?;
            let sums = outs.iter().filter(|t| t.dtype().is_float()).map(|t| t.sum());
            Ok::<_, Error>(sums.reduce(|a, b| a + b).unwrap_or_else(|| Tensor::from(0.0)))
        });
        // A call without a gradient, or one that refuses writes to the differentiated tensors, still has results.
        Ok(match differentiated {
            Ok((_, grads)) => plain.into_iter().chain(grads).collect(),
            Err(_) => plain,
        })
    });
    jit(run).caching(caching)
}

trait NextIf<'a> {
    fn next_if(&mut self, wanted: bool) -> Option<&'a Tensor>;
}
impl<'a, I: Iterator<Item = &'a Tensor>> NextIf<'a> for I {
    fn next_if(&mut self, wanted: bool) -> Option<&'a Tensor> {
        if wanted { self.next() } else { None }
    }
}

/// The call at other sizes, if the row accepts it: equal sizes stay equal, and sizes 0 and 1 stay unchanged.
fn resized(row: &TestRow, call: &Call, doubled: bool, wish: &Wish, rng: &mut Rng) -> Option<Call> {
    let offsets: Vec<usize> = (0..8).map(|_| rng.below(5)).collect();
    let other = |n: usize| match n {
        0 | 1 => n,
        // Doubled sizes are still divisible by their divisors.
        _ if doubled => n * 2,
        _ => n + offsets[n % offsets.len()],
    };
    let slot = |o: &Operand<f64>| match o {
        Operand::Tensor(a) => {
            let shape: Vec<usize> = a.shape.iter().map(|n| other(*n)).collect();
            Slot::Tensor(TensorTy::new(a.dtype, &shape))
        }
        Operand::Number(d, s) => Slot::Number(*d, *s),
        Operand::Key(_) => Slot::Key,
    };
    let args: Vec<Value<Slot>> = call.args.iter().map(|a| a.map(&mut |o| slot(o))).collect();
    let solved = signature::solve(&row.row, &args, &Slot::ty).ok()?;
    let small = solved.env.slots.iter().flatten().all(|t| t.numel() < MOST);
    if small { values::fill(row, &Sketch { args, solved }, wish, rng) } else { None }
}
