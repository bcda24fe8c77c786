//! The effect of exchanging the operands of a row, or of negating one, found by running the row on ties, fractions,
//! large and small numbers, infinities and NaN.

use std::sync::Arc;

use fulgurite_codegen::check::gradients::arrays::dense::V;
use fulgurite_codegen::check::points::run::Ran;
use fulgurite_codegen::check::rows::RowSet;
use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::row::Row;
use fulgurite_core::signature::ArgTy;
use fulgurite_core::{DType, Value};

/// The effect on the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The results are unchanged.
    Same,
    /// The results are negated; a zero may have either sign.
    Negative,
    /// The results are neither unchanged nor negated for all numbers.
    Other,
}

/// The numbers to try: both signs of each kind, and no number beside its negative.
const NUMBERS: [f64; 17] = [
    0.0,
    1.0,
    -1.0,
    0.5,
    -2.25,
    3.0,
    -0.0,
    7.75,
    -40.0,
    1e-3,
    -1e-7,
    1e3,
    2.0,
    -3.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

/// The number of times that the tensors of a call are filled, each time starting at another number: a tensor of one
/// element takes every number.
const FILLS: usize = NUMBERS.len();

/// The effect of exchanging the two tensors of a pointwise row, in every dtype in which it can be called; its gradients
/// must be exchanged with them.
pub(super) fn exchanged(row: &Arc<Row>, set: &RowSet) -> Turn {
    let scalars = row.sig.params.iter().all(|p| p.ty.dims.is_none() && p.ty.list.is_none() && !p.optional);
    if row.sig.params.len() != 2 || !row.sig.opts.is_empty() || !scalars {
        return Turn::Other;
    }
    let pairs = NUMBERS.len() * NUMBERS.len();
    let mut found = None;
    for dtype in [DType::F64, DType::I64, DType::Bool] {
        let tensor = |number: &dyn Fn(usize) -> usize| {
            Value::Tensor(V::Array(Arc::new(array(dtype, &[pairs], (0..pairs).map(|n| NUMBERS[number(n)]).collect()))))
        };
        let [x, y] = [tensor(&|n| n / NUMBERS.len()), tensor(&|n| n % NUMBERS.len())];
        let ran = [[x.clone(), y.clone()], [y, x]].map(|args| Ran::new(row, args.to_vec(), set));
        let [Ok(as_written), Ok(turned)] = &ran else { continue };
        let mut turn = compared(&as_written.results, &turned.results, row.sig.outs.len());
        if turn == Turn::Same && row.no_grad.is_none() && dtype.is_float() {
            let (own, other) = (as_written.slopes(set), turned.slopes(set));
            let equal = [(0, 1), (1, 0)].into_iter().all(|(a, b)| match (own.of(a), other.of(b)) {
                (Ok(a), Ok(b)) => a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| same(*a, *b)),
                (Err(_), Err(_)) => true,
                _ => false,
            });
            turn = if equal { turn } else { Turn::Other };
        }
        if *found.get_or_insert(turn) != turn {
            return Turn::Other;
        }
    }
    found.unwrap_or(Turn::Other)
}

/// The effect of negating argument `at`, for a call of these types.
pub(super) fn negated(row: &Arc<Row>, args: &[Value<ArgTy>], at: usize, set: &RowSet) -> Turn {
    let mut all = [true, true];
    let mut ran = false;
    for from in 0..FILLS {
        let call: Vec<Value<V<f64>>> = args.iter().enumerate().map(|(n, arg)| filled(arg, from + 5 * n)).collect();
        let mut other = call.clone();
        let Value::Tensor(V::Array(array)) = &mut other[at] else { return Turn::Other };
        let Data::Float(numbers) = &mut Arc::make_mut(array).data else { return Turn::Other };
        numbers.iter_mut().for_each(|x| *x = -*x);
        let (Ok(own), Ok(other)) = (Ran::new(row, call, set), Ran::new(row, other, set)) else { continue };
        let turn = |turn| compared_as(turn, &own.results, &other.results, row.sig.outs.len());
        all = [all[0] && turn(Turn::Same), all[1] && turn(Turn::Negative)];
        ran = true;
    }
    match all {
        _ if !ran => Turn::Other,
        [true, _] => Turn::Same,
        [_, true] => Turn::Negative,
        _ => Turn::Other,
    }
}

/// Data for an argument of this type, starting at number `from`.
fn filled(arg: &Value<ArgTy>, from: usize) -> Value<V<f64>> {
    let mut at = from;
    arg.map(&mut |ty| {
        let ArgTy::Tensor(t) = ty else { return V::Key([7, 11]) };
        let shape = t.sizes().to_vec();
        let numbers = (0..shape.iter().product()).map(|_| {
            at += 1;
            // Integers are small, so that an index stays in range.
            if t.dtype.is_float() { NUMBERS[at % NUMBERS.len()] } else { (at % 2) as f64 }
        });
        V::Array(Arc::new(array(t.dtype, &shape, numbers.collect())))
    })
}

fn array(dtype: DType, shape: &[usize], numbers: Vec<f64>) -> Array<f64> {
    match dtype {
        dtype if dtype.is_float() => Array::float(dtype, shape, numbers),
        DType::Bool => Array::int(dtype, shape, numbers.iter().map(|x| i64::from(*x != 0.0)).collect()),
        dtype => Array::int(dtype, shape, numbers.iter().map(|x| *x as i64).collect()),
    }
}

fn compared(own: &[Value<V<f64>>], other: &[Value<V<f64>>], outs: usize) -> Turn {
    let holds = [Turn::Same, Turn::Negative].into_iter().find(|turn| compared_as(*turn, own, other, outs));
    holds.unwrap_or(Turn::Other)
}

/// Whether the `other` results equal the `own` ones under `turn`.
fn compared_as(turn: Turn, own: &[Value<V<f64>>], other: &[Value<V<f64>>], outs: usize) -> bool {
    own.iter().zip(other).take(outs).all(|pair| {
        let (Value::Tensor(V::Array(a)), Value::Tensor(V::Array(b))) = pair else { return false };
        let negative = turn == Turn::Negative;
        // A dtype without negative numbers cannot be negated.
        if a.dtype != b.dtype || a.shape != b.shape || negative && matches!(a.dtype, DType::Bool | DType::U8) {
            return false;
        }
        match (&a.data, &b.data) {
            (Data::Float(a), Data::Float(b)) => a.iter().zip(b).all(|(a, b)| same(if negative { -*a } else { *a }, *b)),
            (Data::Int(a), Data::Int(b)) => {
                a.iter().zip(b).all(|(a, b)| *b == if negative { a.wrapping_neg() } else { *a })
            }
            _ => false,
        }
    })
}

fn same(a: f64, b: f64) -> bool {
    a == b || a.is_nan() && b.is_nan()
}
