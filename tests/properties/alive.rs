//! P16: a call that is refused for its elements is refused in every way of running it: compiled, with unread results,
//! differentiated once and twice, forward, recomputed, apart, as a slice of a batch, on every executor.

use crate::cases::{Verdict, each};
use fulgurite::executors;
use fulgurite::prelude::*;
use fulgurite::transforms::Remat;
use fulgurite::{Error, api};
use fulgurite_core::loc::Loc;
use fulgurite_core::{DType, Value};
use fulgurite_tests::bridge;
use fulgurite_tests::calls::spoiled::{AT_RUN_TIME, spoiled};
use fulgurite_tests::calls::{Call, Wish};
use fulgurite_tests::oracle::Operand;
use fulgurite_tests::rows::TestRow;
use libtest_mimic::Failed;

/// Calls per row.
const CASES: usize = 6;

/// Whether some call of the row may be refused at run time.
pub fn applies(row: &TestRow) -> bool {
    row.may_refuse() && !row.names_storage()
}

/// Checks the property.
pub fn check(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    // Every third call may have results without elements: the lines that lead to them still read elements.
    let wish = |case| Wish { dtype: row.preferred(DType::F64), empty: case % 3 == 2, ..Wish::smooth(case) };
    each(row, test, CASES, wish, |call, rng| {
        for spoiled in spoiled(call, rng) {
            let handles: Vec<Value<Tensor>> = spoiled.args.iter().map(|a| a.map(&mut |o| bridge::tensor(o))).collect();
            let symbol = bridge::symbol(spoiled.row.op).map_err(|e| e.to_string())?;
            let Err(refused) = api::call(symbol, handles, Loc::NOWHERE) else { continue };
            if AT_RUN_TIME.contains(&refused.code()) {
                every_way(&spoiled, &refused).map_err(|what| format!("{what}\n  in {spoiled}"))?;
            }
        }
        Ok(Verdict::Held)
    })
}

/// The call as a function of its float tensors.
fn run(call: &Call, floats: &[Tensor]) -> Result<Vec<Tensor>, Error> {
    let symbol = bridge::symbol(call.row.op).map_err(|e| Error::new(e.code, e.text))?;
    let mut given = floats.iter();
    let handle = |o: &Operand<f64>| match o {
        o if o.is_float_tensor() => given.next().cloned().unwrap_or_else(|| bridge::tensor(o)),
        other => bridge::tensor(other),
    };
    let mut handle = handle;
    let args = call.args.iter().map(|a| a.map(&mut |o| handle(o))).collect();
    api::call(symbol, args, Loc::NOWHERE)
}

fn loss(call: &Call, floats: &[Tensor]) -> Tensor {
    match run(call, floats) {
        Ok(outs) => {
            let floats = outs.iter().filter(|t| t.dtype().is_float());
            floats.fold(Tensor::scalar(0.0f64), |sum, out| sum + out.cast(DType::F64).square().sum())
        }
        Err(e) => Tensor::poisoned(e),
    }
}

fn every_way(call: &Call, refused: &Error) -> Result<(), String> {
    let mut floats: Vec<Tensor> = Vec::new();
    for arg in &call.args {
        arg.for_each(&mut |o| {
            if o.is_float_tensor() {
                floats.push(bridge::tensor(o));
            }
        });
    }
    // A row without float tensors still needs a variable to differentiate.
    floats.push(Tensor::scalar(1.0f64));
    let of = |f: &dyn Fn() -> Result<(), Error>, what: &str| match f() {
        Err(e) if AT_RUN_TIME.contains(&e.code()) => Ok(()),
        // The derivative does not exist, or cannot be batched.
        Err(e) if matches!(e.code(), "E711" | "E712" | "E725" | "E726" | "E727" | "E708") => Ok(()),
        Err(e) => Err(format!("{what}: {e}\n  at once: {refused}")),
        Ok(()) => Err(format!("{what}: a value, at once: {refused}")),
    };
    type Floats = Vec<Tensor>;
    let own = || call.clone();
    of(
        &|| {
            let c = own();
            jit(move |x: Floats| loss(&c, &x)).call(floats.clone()).map(drop)
        },
        "compiled",
    )?;
    of(
        &|| {
            let c = own();
            let f = jit(move |x: Floats| {
                let unread = run(&c, &x);
                unread.map_or_else(Tensor::poisoned, |_| x[x.len() - 1].clone())
            });
            f.call(floats.clone()).map(drop)
        },
        "where nothing reads it",
    )?;
    of(
        &|| {
            let c = own();
            let f = jit(move |x: Floats| run(&c, &x).map_or_else(Tensor::poisoned, |_| x[x.len() - 1].clone()));
            let interp = executors::find("interp").into_iter().collect();
            f.on(interp).call(floats.clone()).map(drop)
        },
        "interpreted, where nothing reads it",
    )?;
    for (what, remat) in [("in a gradient", Remat::Marked), ("in a gradient that keeps nothing", Remat::Bytes(0))] {
        of(
            &|| {
                let c = own();
                let f = jit(move |x: Floats| grad(&x, |x| loss(&c, x) + x[x.len() - 1].sin()));
                f.rematerialise(remat).call(floats.clone()).map(drop)
            },
            what,
        )?;
    }
    of(
        &|| {
            let c = own();
            let f = jit(move |x: Floats| grad(&x, |x| checkpoint(|| loss(&c, x)) + x[x.len() - 1].sin()));
            f.call(floats.clone()).map(drop)
        },
        "in the gradient of a checkpoint",
    )?;
    of(
        &|| {
            let c = own();
            let f = jit(move |x: Floats| jvp(&x, &x, |x| loss(&c, x) + x[x.len() - 1].sin()).map(|(_, t)| t));
            f.call(floats.clone()).map(drop)
        },
        "in a tangent",
    )?;
    of(
        &|| {
            let c = own();
            let f = jit(move |x: Floats| hvp(&x, &x, |x| loss(&c, x) + x[x.len() - 1].sin()).map(|(_, h)| h));
            f.call(floats.clone()).map(drop)
        },
        "in a second derivative",
    )?;
    of(
        &|| {
            let c = own();
            jit(move |x: Floats| loss(&c, &x) + x[x.len() - 1].sin()).pullback(floats.clone()).map(drop)
        },
        "in a forward apart",
    )?;
    let batch: Vec<Tensor> = floats.iter().map(|x| x.unsqueeze(0)).collect();
    of(
        &|| {
            let c = own();
            let f = jit(move |x: Floats| {
                vmap(&x, |x: &Floats| run(&c, x).map_or_else(Tensor::poisoned, |_| x[x.len() - 1].clone()))
            });
            f.call(batch.clone()).map(drop)
        },
        "in a batch, where nothing reads it",
    )
}
