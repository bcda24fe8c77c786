//! The kernel variants of a pointwise row: its static options and presence, lowered at one dtype.

use super::Emitted;
use fulgurite_core::lang::ast::{Elem, OptType};
use fulgurite_core::loop_nest::{Nest, SOp};
use fulgurite_core::lower::variant::{runtime_numbers, variant};
use fulgurite_core::lower::{Rows, lower_with};
use fulgurite_core::signature::{ArgTy, solve};
use fulgurite_core::{DType, Dim, Scalar, TensorTy, Value};

/// A kernel to emit.
pub struct Variant {
    /// The static options and presence, in the executor's notation.
    pub name: String,
    /// The compute dtype.
    pub dtype: DType,
    /// The dtype of each tensor that the kernel reads, in the order of its slots.
    pub inputs: Vec<DType>,
    /// The computation.
    pub nest: Nest,
    /// The number of run-time numbers that it takes.
    pub numbers: usize,
}

/// At most this many variants per row and dtype, because each is compiled: a row with more uses builtin tiles.
const MAX_VARIANTS: usize = 64;

/// The variants of `row` at compute dtype `dtype`; none if the row is not pointwise, does not take the dtype, or is a
/// single builtin (which has a kernel already).
pub fn variants(emitted: &Emitted, rows: &dyn Rows, dtype: DType) -> Vec<Variant> {
    let row = &emitted.row;
    let Some(block) = row.index_body().filter(|_| row.is_pointwise()) else { return vec![] };
    let numbers = runtime_numbers(row);
    let mut calls: Vec<Vec<Value<DType>>> = vec![vec![]];
    let mut choose = |choices: Vec<Value<DType>>| {
        calls = calls
            .iter()
            .flat_map(|call| {
                choices.iter().map(move |c| {
                    let mut call = call.clone();
                    call.push(c.clone());
                    call
                })
            })
            .take(MAX_VARIANTS)
            .collect();
    };
    for p in &row.sig.params {
        let d = match p.ty.elem.first() {
            Some(Elem::Class(c)) => DType::from_name(c.as_str()).unwrap_or(dtype),
            Some(Elem::Index) => DType::I64,
            Some(Elem::Key) => return vec![],
            _ => dtype,
        };
        let mut choices = vec![Value::Tensor(d)];
        if p.optional {
            choices.push(Value::Absent);
        }
        choose(choices);
    }
    for o in &row.sig.opts {
        choose(match &o.ty {
            OptType::Enum(words) => {
                let mut choices: Vec<_> = words.iter().map(|w| Value::Word(*w)).collect();
                if o.optional {
                    choices.push(Value::Absent);
                }
                choices
            }
            OptType::Bool => vec![Value::Num(Scalar::Bool(false)), Value::Num(Scalar::Bool(true))],
            OptType::Num | OptType::F64 if numbers.contains(&o.name.name) => vec![Value::Tensor(DType::F64)],
            _ if o.default.is_some() || o.optional => vec![Value::Absent],
            _ => return vec![],
        });
    }
    let params = row.sig.params.len();
    let mut out: Vec<Variant> = Vec::new();
    for call in calls {
        let shape = [Dim::from(2usize)];
        // The position distinguishes arguments, which are tensors, from options, which are run-time numbers.
        let args: Vec<Value<(usize, DType)>> = call.iter().enumerate().map(|(i, v)| v.map(&mut |d| (i, *d))).collect();
        let ty = |&(i, d): &(usize, DType)| {
            if i < params { ArgTy::Tensor(TensorTy::new(d, &shape)) } else { ArgTy::Number(d) }
        };
        let Ok(solved) = solve(row, &args, &ty) else { continue };
        if solved.compute != dtype {
            continue;
        }
        let Ok(nest) = lower_with(row, block, &solved, rows) else { continue };
        let name = variant(row, &solved.env);
        if out.iter().any(|v| v.name == name) || nest.outs.iter().all(|o| is_single(o.expr.op())) {
            continue;
        }
        let inputs = solved.env.slots.iter().flatten().map(|t| t.dtype).collect();
        out.push(Variant { name, dtype, inputs, nest, numbers: numbers.len() });
    }
    out
}

/// Whether an operation is at most one builtin on elements, which has a kernel already.
fn is_single(op: &SOp) -> bool {
    match op {
        SOp::Call(_, args) => args.iter().all(|a| matches!(a.op(), SOp::Elem(_))),
        SOp::Select(a, b, c) => [a, b, c].iter().all(|e| matches!(e.op(), SOp::Elem(_))),
        SOp::Cast(a) | SOp::Detach(a) => matches!(a.op(), SOp::Elem(_)),
        SOp::Elem(_) | SOp::Const(_) => true,
        _ => false,
    }
}
