//! Compares pointwise rows on every number of a small format, which covers what a sample of calls may miss.
//!
//! An element of a result depends on one element of each argument. So one argument takes all numbers of sixteen bits,
//! two take all pairs of eight-bit numbers, and three take all triples of a few numbers, among them ties, infinities,
//! NaN and both zeros. Rows with more than three arguments are left to the witness search. Dtypes, presence, plain
//! numbers and options are those of the rows' families.

use std::sync::Arc;

use fulgurite_codegen::check::cases;
use fulgurite_codegen::check::gradients::arrays::dense::{Stop, V};
use fulgurite_codegen::check::points::run::Ran;
use fulgurite_codegen::check::rows::RowSet;
use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::lower::Rows;
use fulgurite_core::row::Row;
use fulgurite_core::signature::ArgTy;
use fulgurite_core::{DType, Scalar, Value};
use rustc_hash::FxHashSet;

use super::witness::point;

/// At most this many forms of a call are tried, because each runs on all numbers.
const MOST_FORMS: usize = 48;

/// Plain numbers in place of tensors, and values of number options.
const PLAIN: [f64; 7] = [0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 30.0];

/// The numbers for triples of arguments.
const FEW: [f64; 24] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    3.0,
    -3.0,
    0.25,
    1.5,
    7.0,
    30.0,
    -30.0,
    100.0,
    -100.0,
    1e-3,
    -1e-3,
    1e-7,
    1e4,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

/// The result of the comparison.
pub(super) enum Everywhere {
    /// The rows are equal on this number of elements.
    Same(usize),
    /// The rows differ on a call of one element, given as a point of the right row.
    Differs(Option<String>),
    /// The rows are not pointwise, or too large for the comparison.
    Unknown,
}

type Call = Vec<Value<V<f64>>>;

/// Compares the rows. Their arguments must have the same names.
pub(super) fn compare(right: &Arc<Row>, wrong: &Arc<Row>, rows: &(dyn Rows + Sync)) -> Everywhere {
    if !right.is_pointwise() || !wrong.is_pointwise() {
        return Everywhere::Unknown;
    }
    let (own, other) = (RowSet::new(rows, [], &[]), RowSet::new(rows, [wrong.clone()], &[]));
    let mut elements = 0;
    for (form, turned) in forms(right, wrong) {
        let Some(call) = filled(&form) else { return Everywhere::Unknown };
        let both = (Ran::new(right, call.clone(), &own), Ran::new(wrong, call.clone(), &other));
        let (a, b) = match both {
            (Err(Stop::TooLong(_)), _) | (_, Err(Stop::TooLong(_))) => return Everywhere::Unknown,
            // The number is not valid in any call.
            (Err(_), Err(_)) if turned => continue,
            // Some element is refused, and it is unknown which one.
            (Err(_), _) | (_, Err(_)) => return Everywhere::Unknown,
            (Ok(a), Ok(b)) => (a, b),
        };
        elements += a.results.iter().map(len).max().unwrap_or(0);
        let outs = right.sig.outs.len();
        for (x, y) in a.results.iter().zip(&b.results).take(outs) {
            match (arrays(x), arrays(y)) {
                (Some(x), Some(y)) if x.dtype == y.dtype && x.shape == y.shape => {
                    if let Some(at) = simplest(unequal(x, y), &call) {
                        return Everywhere::Differs(told(right, &call, at, None, &own));
                    }
                }
                _ => return Everywhere::Unknown,
            }
        }
        if right.no_grad.is_some() {
            continue;
        }
        let (slopes, others) = (a.slopes(&own), b.slopes(&other));
        for at in (0..right.sig.params.len()).filter(|at| slopes.has_rule(*at) && others.has_rule(*at)) {
            match (slopes.of(at), others.of(at)) {
                (Ok(x), Ok(y)) if x.len() == y.len() => {
                    let dtype = call.get(at).and_then(arrays).map_or(DType::F64, |a| a.dtype);
                    let apart = (0..x.len()).filter(|n| !near(x[*n], y[*n], dtype, SLOPE)).collect();
                    if let Some(n) = simplest(apart, &call) {
                        return Everywhere::Differs(told(right, &call, n, Some(at), &own));
                    }
                }
                (Err(_), Err(_)) => {}
                _ => return Everywhere::Unknown,
            }
        }
    }
    if elements > 0 { Everywhere::Same(elements) } else { Everywhere::Unknown }
}

/// The calls of both families without their shapes, each form once; followed by these with other plain numbers, which
/// the row may refuse.
fn forms(right: &Row, wrong: &Row) -> Vec<(Vec<Value<ArgTy>>, bool)> {
    let mut seen = FxHashSet::default();
    let mut forms = Vec::new();
    let dtypes = [DType::F64, DType::F32, DType::F16, DType::I64, DType::Bool];
    let families = dtypes.iter().flat_map(|d| [cases::family(right, *d), cases::family(wrong, *d)]);
    for case in families.flat_map(|family| family.cases) {
        let form: Vec<_> = case.args.iter().map(|arg| arg.map(&mut |ty| flat(ty))).collect();
        if seen.insert(format!("{form:?}")) && forms.len() < MOST_FORMS {
            forms.push((form, false));
        }
    }
    let mut turned = Vec::new();
    for (form, _) in &forms {
        for at in (0..form.len()).filter(|at| matches!(form[*at], Value::Num(Scalar::Float(_)))) {
            for x in PLAIN {
                let mut other = form.clone();
                other[at] = Value::Num(Scalar::Float(x));
                if seen.insert(format!("{other:?}")) {
                    turned.push((other, true));
                }
            }
        }
    }
    // The choice is even, so that every form has some calls.
    let step = turned.len().div_ceil(MOST_FORMS).max(1);
    forms.extend(turned.into_iter().step_by(step));
    forms
}

fn flat(ty: &ArgTy) -> ArgTy {
    match ty {
        ArgTy::Tensor(t) => {
            let mut t = t.clone();
            t.shape.clear();
            ArgTy::Tensor(t)
        }
        other => other.clone(),
    }
}

/// Fills the tensors of a form with every tuple of their numbers, one element per tuple; plain numbers become part of
/// the tuples.
fn filled(form: &[Value<ArgTy>]) -> Option<Call> {
    let tensors = form.iter().filter(|value| matches!(value, Value::Tensor(ArgTy::Tensor(_)))).count();
    if tensors > 3 {
        return None;
    }
    let columns = |dtype: DType| numbers(dtype, tensors);
    let sizes: Vec<usize> = form
        .iter()
        .filter_map(|value| match value {
            Value::Tensor(ArgTy::Tensor(t)) => Some(columns(t.dtype).len()),
            _ => None,
        })
        .collect();
    let total: usize = sizes.iter().product();
    if total > 1 << 18 {
        return None;
    }
    let mut stride = total;
    let mut call = Call::new();
    for value in form {
        call.push(match value {
            Value::Tensor(ArgTy::Tensor(t)) => {
                let column = columns(t.dtype);
                stride /= column.len();
                let all = (0..total).map(|n| column[n / stride % column.len()]);
                Value::Tensor(V::Array(Arc::new(if t.dtype.is_float() {
                    Array::float(t.dtype, &[total], all.collect())
                } else {
                    Array::int(t.dtype, &[total], all.map(|x| x as i64).collect())
                })))
            }
            Value::Tensor(_) => return None,
            other => other.map(&mut |_| V::Key([7, 11])),
        });
    }
    Some(call)
}

/// The numbers for an argument of this dtype, one of `tensors` arguments.
fn numbers(dtype: DType, tensors: usize) -> Vec<f64> {
    let float = |exponent: u32, mantissa: u32| {
        let bits = 1 + exponent + mantissa;
        (0..1u32 << bits).map(move |word| decoded(word, exponent, mantissa))
    };
    match (dtype, tensors) {
        (DType::Bool, _) => vec![0.0, 1.0],
        (d, 1 | 2) if !d.is_float() => {
            let low = if d == DType::U8 { 0 } else { -128 };
            (low..128).map(f64::from).collect()
        }
        (d, _) if !d.is_float() => vec![0.0, 1.0, 2.0, 3.0, 7.0, 100.0],
        (DType::F64 | DType::F32 | DType::BF16, 1) => float(5, 10).chain(float(8, 7)).collect(),
        (_, 1) => float(5, 10).collect(),
        (_, 2) => float(5, 2).collect(),
        _ => FEW.to_vec(),
    }
}

/// The number that a word of a small format encodes.
fn decoded(word: u32, exponent: u32, mantissa: u32) -> f64 {
    let sign = if word >> (exponent + mantissa) == 1 { -1.0 } else { 1.0 };
    let (top, bias) = ((1 << exponent) - 1, (1 << (exponent - 1)) - 1);
    let (e, m) = ((word >> mantissa & top) as i32, f64::from(word & ((1 << mantissa) - 1)));
    let unit = f64::from(1u32 << mantissa);
    sign * match e {
        0 => m / unit * 2f64.powi(1 - bias),
        e if e == top as i32 && m == 0.0 => f64::INFINITY,
        e if e == top as i32 => f64::NAN,
        e => (1.0 + m / unit) * 2f64.powi(e - bias),
    }
}

/// The tolerance of derivatives, as a multiple of that of values.
const SLOPE: f64 = 16.0;

/// Whether two numbers agree except in the last digits of the dtype, so that no stated value distinguishes them.
/// Intermediate rounding to fewer digits may lose the digits of small results.
fn near(a: f64, b: f64, dtype: DType, factor: f64) -> bool {
    let (relative, size) = match dtype {
        DType::F64 => (1e-12, b.abs()),
        DType::F32 => (5e-7, b.abs().max(1.0)),
        _ => (4e-3, b.abs().max(1.0)),
    };
    let tiny = |x: f64| x.abs() < 1e-290;
    let close = || b.is_finite() && (a - b).abs() <= factor * relative * size;
    a == b || a.is_nan() && b.is_nan() || close() || tiny(a) && tiny(b)
}

fn unequal(x: &Array<f64>, y: &Array<f64>) -> Vec<usize> {
    let all = 0..x.len();
    match (&x.data, &y.data) {
        (Data::Float(a), Data::Float(b)) => all.filter(|n| !near(a[*n], b[*n], x.dtype, 1.0)).collect(),
        (Data::Int(a), Data::Int(b)) => all.filter(|n| a[*n] != b[*n]).collect(),
        _ => all.collect(),
    }
}

/// The difference that is shortest to print.
fn simplest(apart: Vec<usize>, call: &Call) -> Option<usize> {
    let digits = |at: usize| -> usize {
        let of = |a: &Arc<Array<f64>>| match &a.data {
            Data::Float(x) => x.get(at).map_or(0, |x| format!("{x}").len()),
            Data::Int(x) => x.get(at).map_or(0, |x| format!("{x}").len()),
        };
        call.iter().filter_map(arrays).map(of).sum()
    };
    apart.into_iter().min_by_key(|at| digits(*at))
}

fn arrays(value: &Value<V<f64>>) -> Option<&Arc<Array<f64>>> {
    match value {
        Value::Tensor(V::Array(a)) => Some(a),
        _ => None,
    }
}

fn len(value: &Value<V<f64>>) -> usize {
    arrays(value).map_or(0, |a| a.len())
}

/// Element `at` of every tensor as a call, with the result of the right row and its derivative with respect to `arg`.
fn told(right: &Arc<Row>, call: &Call, at: usize, arg: Option<usize>, set: &RowSet) -> Option<String> {
    let one = |a: &Array<f64>| match &a.data {
        Data::Float(x) => Array::float(a.dtype, &[], vec![*x.get(at)?]).into(),
        Data::Int(x) => Some(Array::int(a.dtype, &[], vec![*x.get(at)?])),
    };
    let mut whole = true;
    let call: Call = call
        .iter()
        .map(|value| {
            value.map(&mut |v| match v {
                V::Array(a) => V::Array(one(a).map(Arc::new).unwrap_or_else(|| {
                    whole = false;
                    a.clone()
                })),
                V::Key(key) => V::Key(*key),
            })
        })
        .collect();
    let ran = Ran::new(right, call.clone(), set).ok().filter(|_| whole)?;
    let slopes = match arg {
        Some(arg) => vec![(right.sig.params[arg].name.name, ran.slopes(set).of(arg).ok()?)],
        None => Vec::new(),
    };
    point::accepted(right, &call, &ran.results, &slopes)
}
