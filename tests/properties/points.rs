//! P10: values and gradients at special points: zeros of both signs, infinities, NaN, ties, kinks.
//!
//! The conventions are data: those of a builtin stand in its table. A row that applies one builtin to its arguments has
//! exactly these.

use fulgurite_core::builtins::{Builtin, Partial, eval_f64};
use fulgurite_core::eval::loop_nest::Array;
use fulgurite_core::lang::ast::{BinOp, Node};
use fulgurite_core::lang::{Dialect, parse_expr};
use fulgurite_core::signature::const_eval::{self, At};
use fulgurite_core::signature::{Env, Item};
use fulgurite_core::{DType, Name, Scalar, Value, signature};
use fulgurite_tests::bridge::{self, values};
use fulgurite_tests::calls::{Call, Slot};
use fulgurite_tests::oracle::Operand;
use fulgurite_tests::rows::TestRow;
use libtest_mimic::Failed;

const POINTS: &[f64] = &[0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.5, 3.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
/// The allowed relative difference: a derived rule may use another form of a partial, which in f64 differs only by
/// rounding.
const CLOSE: f64 = 1e-12;

/// Whether the row applies one differentiable builtin of floats to its arguments, in their order.
pub fn applies(row: &TestRow) -> bool {
    builtin(row).is_some_and(|b| b.record().domain.contains(DType::F64))
        && row.row.deviates.is_none()
        && row.row.no_grad.is_none()
}

fn builtin(row: &TestRow) -> Option<Builtin> {
    let body = row.row.index_body().filter(|b| b.stmts.is_empty() && row.row.is_pointwise())?;
    let (b, args) = match &*body.value.node {
        Node::Call(f, args) => {
            (Builtin::from_name(f.name.as_str())?, args.iter().map(|a| &a.value).collect::<Vec<_>>())
        }
        Node::Binary(op, x, y) => (binary(*op)?, vec![x, y]),
        Node::Unary(fulgurite_core::lang::ast::UnOp::Neg, x) => (Builtin::Neg, vec![x]),
        _ => return None,
    };
    let names = row.row.sig.params.iter().map(|p| p.name.name);
    let plain = args.len() == row.row.sig.params.len()
        && args.iter().zip(names).all(|(a, n)| matches!(&*a.node, Node::Name(m) if *m == n));
    let float = row.row.sig.outs.iter().all(|o| o.ty.elem == [fulgurite_core::lang::ast::Elem::Var(Name::new("T"))]);
    (plain && float && b != Builtin::Uniform).then_some(b)
}

fn binary(op: BinOp) -> Option<Builtin> {
    Some(match op {
        BinOp::Add => Builtin::Add,
        BinOp::Sub => Builtin::Sub,
        BinOp::Mul => Builtin::Mul,
        BinOp::Div => Builtin::Div,
        _ => return None,
    })
}

pub fn check(row: &'static TestRow, _: &str) -> Result<(), Failed> {
    let Some(b) = builtin(row) else { return Ok(()) };
    let arity = row.row.sig.params.len();
    let points: Vec<Vec<f64>> = match arity {
        1 => POINTS.iter().map(|x| vec![*x]).collect(),
        _ => POINTS.iter().flat_map(|x| POINTS.iter().map(move |y| vec![*x, *y])).collect(),
    };
    let n = points.len();
    let column = |i: usize| Array::float(DType::F64, &[n], points.iter().map(|p| p[i]).collect());
    let args: Vec<Value<Operand<f64>>> = (0..arity).map(|i| Value::Tensor(Operand::Tensor(column(i)))).collect();
    let types: Vec<Value<Slot>> = args
        .iter()
        .map(|a| {
            a.map(&mut |o| match o.ty() {
                signature::ArgTy::Tensor(t) => Slot::Tensor(t),
                _ => Slot::Key,
            })
        })
        .collect();
    let solved = signature::solve(&row.row, &types, &Slot::ty).map_err(|e| e.to_string())?;
    let call = Call { row: row.row.clone(), args, solved };
    let x = bridge::floats(&call);
    let ones = Array::float(DType::F64, &[n], vec![1.0; n]);
    let (outs, grads) = bridge::vjp(&call, &x, &[ones]).map_err(|e| e.to_string())?;
    let mut faults = Vec::new();
    for (k, point) in points.iter().enumerate() {
        let out = eval_f64(b, point);
        let got = values(&outs[0])[k];
        // The sign of a zero is part of the value.
        if !close(got, out) || (out == 0.0 && got == 0.0 && out.is_sign_negative() != got.is_sign_negative()) {
            faults.push(format!("{}{point:?} is {got:?}, the table says {out:?}", row.row.op));
        }
        for (i, partial) in b.record().partials.iter().enumerate() {
            let want = partial_at(b, partial, point, out)?;
            let got = values(&grads[i])[k];
            if !close(got, want) {
                faults.push(format!(
                    "the gradient of {} in argument {i} at {point:?} is {got:?}, the table says {want:?}",
                    row.row.op
                ));
            }
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    let more = faults.len().saturating_sub(8);
    faults.truncate(8);
    if more > 0 {
        faults.push(format!("and {more} more"));
    }
    Err(faults.join("\n").into())
}

fn close(got: f64, want: f64) -> bool {
    got == want || (got.is_nan() && want.is_nan()) || (got - want).abs() <= CLOSE * want.abs()
}

/// The value of a partial's text, read directly from the table and independent of derivation.
fn partial_at(b: Builtin, partial: &Partial, point: &[f64], out: f64) -> Result<f64, Failed> {
    let Partial::Text(text) = partial else { return Ok(0.0) };
    let mut env = Env::default();
    let names = b.record().args.iter().copied().zip(point.iter().copied()).chain([("out", out)]);
    env.items = names.map(|(n, x)| (Name::new(n), Item::Num(Scalar::Float(x)))).collect();
    let tree = parse_expr(text, Dialect::Index).map_err(|e| e.to_string())?;
    match const_eval::eval(&env, &tree, At::default()).and_then(|v| v.float()) {
        Ok(x) => Ok(x),
        Err(stop) => Err(format!("`{text}`: {stop:?}").into()),
    }
}
