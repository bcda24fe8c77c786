//! P15: rows that write to arguments give equal bits in place and functionalised, and change nothing else.

use super::cases::{self, Verdict};
use fulgurite::prelude::*;
use fulgurite::{api, symbol::SymbolRef};
use fulgurite_core::Value;
use fulgurite_core::lang::ast::Access;
use fulgurite_core::loc::Loc;
use fulgurite_tests::bridge;
use fulgurite_tests::calls::{Call, Values, Wish};
use fulgurite_tests::rows::TestRow;
use libtest_mimic::Failed;

pub fn applies(row: &TestRow) -> bool {
    row.row.sig.params.iter().any(|p| p.access == Access::Mut)
}

fn bytes(tensors: &[Tensor]) -> Result<Vec<Vec<u8>>, String> {
    tensors.iter().map(|t| Ok(t.buffer().map_err(|e| e.to_string())?.as_bytes().to_vec())).collect()
}

/// The tensors of a call, in order, and the positions of those that it writes.
fn tensors(call: &Call, args: &[Value<Tensor>]) -> (Vec<Tensor>, Vec<usize>) {
    let (mut all, mut written) = (Vec::new(), Vec::new());
    for (i, arg) in args.iter().enumerate() {
        let writes = call.row.sig.params.get(i).is_some_and(|p| p.access == Access::Mut);
        arg.for_each(&mut |t| {
            if writes {
                written.push(all.len());
            }
            all.push(t.clone());
        });
    }
    (all, written)
}

pub fn check(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    let wish = |case| Wish { dtype: None, values: Values::of_case(case), numbers: false, empty: true, case };
    cases::each(row, test, 20, wish, |call, _| {
        let symbol = bridge::symbol(call.row.op).map_err(|e| e.to_string())?;
        let program = bridge::record(call).map_err(|e| e.to_string())?;
        let compiled = program.compile(&["cpu", "interp"], 1).map_err(|e| e.to_string())?;
        let functional: Vec<Vec<u8>> =
            program.run(&compiled).map_err(|e| e.to_string())?.iter().map(|b| b.as_bytes().to_vec()).collect();
        for in_program in [false, true] {
            let args: Vec<Value<Tensor>> = call.args.iter().map(|a| a.map(&mut |o| bridge::tensor(o))).collect();
            let (all, written) = tensors(call, &args);
            let before = bytes(&all)?;
            let results = run(symbol, args, in_program).map_err(|e| e.to_string())?;
            let (after, mut got) = (bytes(&all)?, bytes(&results)?);
            got.extend(written.iter().map(|i| after[*i].clone()));
            // After its results and new versions, the program returns the values of its epilogue, which are these
            // versions again.
            if got.is_empty() || !functional.starts_with(&got) {
                return Err(format!("in place gives other bits (compiled: {in_program})"));
            }
            if (0..all.len()).any(|i| !written.contains(&i) && before[i] != after[i]) {
                return Err(format!("an argument that is only read has changed (compiled: {in_program})"));
            }
        }
        Ok(Verdict::Held)
    })
}

/// Runs the call on tensors in memory: eagerly, or in a compiled function that captures them.
fn run(symbol: SymbolRef, args: Vec<Value<Tensor>>, in_program: bool) -> Result<Vec<Tensor>> {
    match in_program {
        false => api::call(symbol, args, Loc::NOWHERE),
        true => jit(move |_: Tensor| api::call(symbol, args.clone(), Loc::NOWHERE)).call(Tensor::scalar(0f32)),
    }
}
