//! The CUDA C of one call of a row, as the executor for NVIDIA's devices makes it.

use std::sync::Arc;

use fulgurite_codegen::check::cases::{self, Case};
use fulgurite_codegen::check::element;
use fulgurite_core::loc::Loc;
use fulgurite_core::row::{Row, RowText};
use fulgurite_core::signature::ArgTy;
use fulgurite_core::{TensorTy, Value};
use fulgurite_runtime::Builder;
use fulgurite_runtime::bind::body_of;
use fulgurite_runtime::executors::cuda::Cuda;
use fulgurite_runtime::executors::cuda::device::host::Host;
use fulgurite_runtime::executors::{self, CompileOptions, ExecError};
use fulgurite_runtime::symbol::Symbol;
use fulgurite_runtime::trace::{ProxyId, ProxyTy};

/// The factor of the sizes of a call that checks use: kernels of real sizes are to be seen.
const LARGER: i64 = 64;

/// At most this many calls are tried: a call may have more matrices than a grid has blocks.
const TRIED: usize = 6;

/// The kernels of a call of the row. `None` for a program of other rows, whose kernels are theirs, and for a row that runs
/// on the processor.
pub fn of(row: &Arc<Row>) -> Option<String> {
    row.index_body()?;
    let family = cases::family(row, element(row));
    let mut cases: Vec<&Case> = family.cases.iter().filter(|case| case.numel() > 1).collect();
    let ranks = |case: &Case| case.args.iter().flat_map(Value::tensors).map(TensorTy::rank).sum::<usize>();
    cases.sort_by_key(|case| std::cmp::Reverse(ranks(case)));
    cases.dedup_by_key(|case| ranks(case));
    cases.iter().take(TRIED).find_map(|case| {
        let case = case.grown(row, LARGER, true).unwrap_or_else(|| (*case).clone());
        Some(format!("// {}\n{}", case.show(row), kernels(row, &case)?))
    })
}

fn kernels(row: &Arc<Row>, case: &Case) -> Option<String> {
    let text = RowText { op: row.op.as_str(), ..RowText::BLANK };
    let symbol = Symbol::leak("site", text, Row::clone(row));
    let mut builder = Builder::new("site");
    let args: Vec<Value<ProxyId>> =
        case.args
            .iter()
            .map(|arg| {
                arg.map(&mut |ty| match ty {
                    ArgTy::Tensor(t) => builder.input("x", ProxyTy::tensor(t.clone())),
                    ArgTy::Number(dtype) => builder
                        .input("n", ProxyTy::tensor(TensorTy { dtype: *dtype, shape: std::iter::empty().collect() })),
                    ArgTy::Key => builder.input("k", ProxyTy::Key),
                })
            })
            .collect();
    let outs = builder.bind(symbol, args, Loc::NOWHERE).ok()?;
    let trace = builder.finish(&outs);
    let bodies = |line: &_| body_of(&trace.arena, line).map_err(|e| ExecError::new(e.code(), e.to_string()));
    let host = Arc::new(Host::default());
    let mut options = CompileOptions::new(&bodies);
    options.executors = vec![Arc::new(Cuda::on(host.clone()))];
    executors::compile(&trace, &options).ok()?;
    let texts = host.announced().texts().join("\n");
    (!texts.trim().is_empty()).then_some(texts)
}
