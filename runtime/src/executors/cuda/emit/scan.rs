//! Kernels of scans, with one block per line.

use super::literals;
use super::printer::Argument;
use super::{Env, Frame, Kernel, Origin, Why};
use crate::executors::fusion::graph::piece::Scan;
use fulgurite_core::DType;
use fulgurite_core::builtins::cuda::{literal, register_type, stored_type};
use fulgurite_core::eval::loop_nest::neutral;
use fulgurite_core::lang::ast::Red;
use serde_json::json;
use std::fmt::Write;

const TEMPLATE: &str = include_str!("../templates/scan.cu");

/// The kernel of a scan, whose result is dense.
///
/// # Errors
/// Reports the reason why there is none.
pub(in super::super) fn scan(s: &Scan, env: &Env<'_>, origin: &Origin) -> Result<Kernel, Why> {
    let (ty, form) = (env.ty(s.input), (env.form)(s.input));
    let out = (env.form)(s.out);
    let acc = match (s.red, ty.dtype) {
        (Red::Sum | Red::Prod, DType::F64) => DType::F64,
        (Red::Sum | Red::Prod, d) if d.is_float() => DType::F32,
        (Red::Sum | Red::Prod, _) => DType::I64,
        // warps exchange words, so narrow integers are widened
        (_, d) if d.is_int() || d == DType::Bool => DType::I64,
        (_, d) => d.opmath(),
    };
    let Some((length, outer)) = ty.shape.split_last() else { return Err("a scan of one number".to_owned()) };
    let (mut decode, mut at, mut inner) = (String::new(), Vec::new(), 1);
    for (axis, size) in outer.iter().enumerate().rev() {
        if *size > 1 {
            let _ = writeln!(
                decode,
                "  const long long i{axis} = o / {} % {};",
                literals::size(inner),
                literals::size(*size)
            );
            at.push(format!("{} * i{axis}", literals::size(form.strides[axis])));
            inner *= size;
        }
    }
    let j = if s.reverse { format!("({} - 1 - j)", literals::size(*length)) } else { "j".to_owned() };
    at.push(format!("{} * {j}", literals::size(form.strides.last().copied().unwrap_or(1))));
    if form.offset != 0 {
        at.push(literals::size(form.offset));
    }
    let result = env.ty(s.out).dtype;
    let run = if register_type(result) == register_type(acc) {
        "run".to_owned()
    } else {
        format!("fg_cast<{}>(run)", stored_type(result))
    };
    let args = [Argument::new(form.root, false, &env.ty(form.root)), Argument::new(out.root, true, &env.ty(out.root))];
    let op = match s.red {
        Red::Prod => "fg_prod",
        Red::Max => "fg_largest",
        Red::Min => "fg_smallest",
        _ => "fg_sum",
    };
    let length = literals::size(*length);
    let mut steps = [format!("run = {op}()(run, x[k]);"), format!("if (j < {length}) p1[o * {length} + {j}] = {run};")];
    if s.exclusive {
        steps.reverse();
    }
    let context = json!({
        "ix": "long long", "acc": register_type(acc), "start": literal(start(s.red, ty.dtype), acc), "op": op,
        "length": length, "decode": decode.trim_end(), "element": format!("p0[{}]", at.join(" + ")),
        "steps": steps.join("\n      "),
    });
    let lines: usize = outer.iter().product();
    let grid = [lines.max(1), 1, 1];
    Frame { template: TEMPLATE, stem: "scan", grid, block: [256, 1, 1] }.kernel(origin, &args, false, context)
}

/// The neutral element in the scanned dtype, also if the accumulator is wider.
fn start(red: Red, dtype: DType) -> fulgurite_core::Scalar {
    neutral(red, dtype)
}
