//! P13: a call on views (transposed, sliced) gives the results of the call on contiguous copies.

use super::cases::{self, Verdict};
use fulgurite::executors::{self, CompileOptions, ExecError};
use fulgurite::trace::{ProxyId, ProxyTy};
use fulgurite::{Builder, Error};
use fulgurite_core::eval::loop_nest::Array;
use fulgurite_core::loc::Loc;
use fulgurite_core::{DType, Name, Scalar, TensorTy, Value};
use fulgurite_tests::bound;
use fulgurite_tests::bridge;
use fulgurite_tests::calls::{Call, Values, Wish};
use fulgurite_tests::oracle::{self, Operand};
use fulgurite_tests::rows::TestRow;
use libtest_mimic::Failed;

/// Whether the row has a tensor argument, and takes no key.
pub fn applies(row: &TestRow) -> bool {
    let key = fulgurite_core::lang::ast::Elem::Key;
    row.row.sig.params.iter().any(|p| !p.ty.elem.contains(&key)) && !row.row.takes_key()
}

pub fn check(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    let wish = |case| Wish {
        dtype: row.preferred(DType::F32),
        values: Values::of_case(case),
        numbers: false,
        empty: true,
        case,
    };
    cases::each(row, test, 6, wish, |call, rng| {
        let copied = bridge::execute(call, &["cpu", "interp"], 1).map_err(|e| e.to_string())?;
        let transposed = rng.one_in(2);
        let viewed = through_views(call, transposed).map_err(|e| format!("through views: {e}"))?;
        let want = oracle::run(&call.row, &bound::exact(&call.args)).map_err(|e| e.to_string())?;
        for (i, ((viewed, copied), want)) in viewed.iter().zip(&copied).zip(&want).enumerate() {
            // NaN does not equal itself, so elements are compared by their bits.
            let same = viewed.dtype == copied.dtype
                && viewed.shape == copied.shape
                && viewed.scalars().iter().map(|s| s.key_bits()).eq(copied.scalars().iter().map(|s| s.key_bits()));
            if row.row.is_pointwise() && !same {
                return Err(format!("result {i} of views differs from that of copies"));
            }
            bound::compare(viewed, want).map_err(|e| format!("through views: result {i} {e}"))?;
        }
        Ok(Verdict::Held)
    })
}

/// The call on views of other memory. Each tensor is stored with its last two axes exchanged, or with one slice more at
/// both ends of its first axis, and a view undoes this.
fn through_views(call: &Call, transposed: bool) -> Result<Vec<Array<f64>>, bridge::Refused> {
    let symbol = bridge::symbol(call.row.op)?;
    let mut builder = Builder::new("views");
    let mut inputs = Vec::new();
    let mut failed: Option<Error> = None;
    let args: Vec<Value<ProxyId>> = (call.args.iter())
        .map(|arg| {
            arg.map(&mut |o| {
                let Operand::Tensor(a) = o else {
                    let Operand::Number(d, s) = o else { return ProxyId(0) };
                    inputs.push(fulgurite::buffer::Buffer::number(*s, *d).expect("a stored dtype"));
                    return builder.input("n", ProxyTy::Number(*d));
                };
                let rank = a.shape.len();
                let (memory, view): (Array<f64>, Option<(&str, Vec<i64>)>) = match rank {
                    0 => (a.clone(), None),
                    1 => (padded(a), Some(("slice", vec![0, 1, -1]))),
                    _ if transposed => (exchanged(a), Some(("transpose", vec![-1, -2]))),
                    _ => (padded(a), Some(("slice", vec![0, 1, -1]))),
                };
                inputs.push(bridge::buffer(&memory));
                let input = builder.input("x", ProxyTy::tensor(TensorTy::new(memory.dtype, &memory.shape)));
                let Some((op, options)) = view else { return input };
                let mut args = vec![Value::Tensor(input)];
                args.extend(options.into_iter().map(|i| Value::Num(Scalar::Int(i))));
                match builder.call_row(Name::new(op), args, Vec::new()) {
                    Ok(line) => line.outs[0],
                    Err(e) => {
                        failed.get_or_insert(e);
                        input
                    }
                }
            })
        })
        .collect();
    if let Some(e) = failed {
        return Err(e.into());
    }
    let outs = builder.bind(symbol, args, Loc::NOWHERE)?;
    let trace = builder.finish(&outs);
    let bodies =
        |line: &_| fulgurite::bind::body_of(&trace.arena, line).map_err(|e| ExecError::new(e.code(), e.to_string()));
    let compiled = executors::compile(&trace, &CompileOptions::new(&bodies))?;
    Ok(compiled.run(&inputs)?.iter().map(bridge::array).collect())
}

/// The array with its last two axes exchanged.
fn exchanged(a: &Array<f64>) -> Array<f64> {
    let rank = a.shape.len();
    let (rows, columns) = (a.shape[rank - 2], a.shape[rank - 1]);
    let all = a.scalars();
    let blocks = all.len() / (rows * columns).max(1);
    let mut out = Vec::with_capacity(all.len());
    for block in 0..blocks {
        for c in 0..columns {
            out.extend((0..rows).map(|r| all[(block * rows + r) * columns + c]));
        }
    }
    let mut shape = a.shape.clone();
    shape.swap(rank - 2, rank - 1);
    Array::from_scalars(a.dtype, &shape, out)
}

/// The array with one slice more at both ends of its first axis.
fn padded(a: &Array<f64>) -> Array<f64> {
    let mut shape = a.shape.clone();
    shape[0] += 2;
    let row: usize = a.shape[1..].iter().product();
    let edge = vec![Scalar::Int(1); row];
    let all = edge.iter().copied().chain(a.scalars()).chain(edge.iter().copied());
    Array::from_scalars(a.dtype, &shape, all.collect::<Vec<_>>())
}
