//! P12: a call gives equal bits in every run: repeated, on one thread and on three. Random numbers depend on key, shape
//! and options alone.

use super::cases::{self, Verdict};
use fulgurite::trace::ProxyId;
use fulgurite::{Builder, Tensor};
use fulgurite_core::loc::Loc;
use fulgurite_core::{DType, Value};
use fulgurite_tests::bridge;
use fulgurite_tests::calls::{Call, Values, Wish};
use fulgurite_tests::rows::TestRow;
use libtest_mimic::Failed;

pub fn check(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    let wish = |case| Wish {
        dtype: row.preferred(DType::F32),
        values: Values::of_case(case),
        numbers: false,
        empty: true,
        case,
    };
    cases::each(row, test, 6, wish, |call, _| {
        let program = bridge::record(call).map_err(|e| e.to_string())?;
        let mut first = None;
        for threads in [1, 1, 3] {
            let compiled = program.compile(&["cpu", "interp"], threads).map_err(|e| e.to_string())?;
            let outs = program.run(&compiled).map_err(|e| e.to_string())?;
            let bits: Vec<Vec<u8>> = outs.iter().map(|b| b.as_bytes().to_vec()).collect();
            if *first.get_or_insert_with(|| bits.clone()) != bits {
                return Err(format!("other bits on {threads} threads"));
            }
        }
        if row.row.takes_key() {
            drawn_twice(call)?;
        }
        Ok(Verdict::Held)
    })
}

/// Checks that two equal lines in one program draw equal numbers, since these depend on key, shape and options alone.
fn drawn_twice(call: &Call) -> Result<(), String> {
    let (first, again) = twice(call)?;
    let same = first.iter().zip(&again).all(|(a, b)| a.to_bits() == b.to_bits());
    if same { Ok(()) } else { Err("two lines with one key drew different numbers".into()) }
}

/// The results of two equal lines in one program.
fn twice(call: &Call) -> Result<(Vec<f64>, Vec<f64>), String> {
    let text = |e: fulgurite::Error| e.to_string();
    let symbol = bridge::symbol(call.row.op).map_err(|e| e.to_string())?;
    let handles: Vec<Value<Tensor>> = call.args.iter().map(|a| a.map(&mut |o| bridge::tensor(o))).collect();
    let mut builder = Builder::new("twice");
    let mut inputs = Vec::new();
    let args: Vec<Value<ProxyId>> = handles
        .iter()
        .map(|a| {
            a.map(&mut |t: &Tensor| {
                inputs.push(t.buffer());
                let ty = t.ty().unwrap_or(fulgurite::trace::ProxyTy::Key);
                builder.input("x", ty)
            })
        })
        .collect();
    let mut outs = Vec::new();
    for _ in 0..2 {
        outs.push(builder.bind(symbol, args.clone(), Loc::NOWHERE).map_err(text)?[0]);
    }
    let trace = builder.finish(&outs);
    let inputs = inputs.into_iter().collect::<Result<Vec<_>, _>>().map_err(text)?;
    let bodies = |line: &_| {
        fulgurite::bind::body_of(&trace.arena, line)
            .map_err(|e| fulgurite::executors::ExecError::new(e.code(), e.to_string()))
    };
    let options = fulgurite::executors::CompileOptions::new(&bodies);
    let compiled = fulgurite::executors::compile(&trace, &options).map_err(|e| e.to_string())?;
    let results = compiled.run(&inputs).map_err(|e| e.to_string())?;
    Ok((results[0].to_f64(), results[1].to_f64()))
}
