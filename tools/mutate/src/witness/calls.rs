//! Calls of two rows, and random changes of them.

use fulgurite_codegen::check::cases;
use fulgurite_codegen::check::gradients::arrays::numbers::Numbers;
use fulgurite_core::lang::OptType;
use fulgurite_core::row::Row;
use fulgurite_core::signature::ArgTy;
use fulgurite_core::{DType, Dim, Scalar, TensorTy, Value};

/// Element types that a change may choose.
const DTYPES: [DType; 10] = [
    DType::F64,
    DType::F32,
    DType::I64,
    DType::Bool,
    DType::F16,
    DType::I32,
    DType::U8,
    DType::BF16,
    DType::I8,
    DType::I16,
];

/// The calls of both rows' families.
pub(super) fn bases(right: &Row, wrong: &Row) -> Vec<Vec<Value<ArgTy>>> {
    let dtypes = [DType::F64, DType::F32, DType::I64, DType::F16, DType::Bool];
    let families = dtypes.iter().flat_map(|d| [cases::family(right, *d), cases::family(wrong, *d)]);
    families.flat_map(|family| family.cases).map(|case| case.args).collect()
}

/// The number of elements of all tensors.
pub(super) fn numel(call: &[Value<ArgTy>]) -> usize {
    call.iter().flat_map(Value::tensors).fold(0, |sum: usize, t| sum.saturating_add(t.numel()))
}

/// A random number in 0..n.
pub(super) fn below(numbers: &mut Numbers, n: usize) -> usize {
    ((numbers.draw() * n as f64) as usize).min(n.saturating_sub(1))
}

/// Makes one random change.
pub(super) fn change(row: &Row, call: &mut [Value<ArgTy>], numbers: &mut Numbers) {
    let params = row.sig.params.len();
    if call.is_empty() {
        return;
    }
    let at = below(numbers, call.len());
    if at < params {
        match below(numbers, 12) {
            0 => every_tensor(call, &mut |t| t.dtype = DTYPES[at % DTYPES.len()]),
            1 => {
                let (from, to) = (below(numbers, 5), below(numbers, 4));
                resize(call, from as i64, to as i64);
            }
            2 if row.sig.params[at].optional => call[at] = Value::Absent,
            3 if row.sig.params[at].ty.dims.is_none() => {
                let several = [0.5, 2.0, 0.0, 1.0, -1.0, 3.0, -2.0];
                let x: f64 = several[below(numbers, several.len())];
                call[at] = Value::Num(match below(numbers, 3) {
                    0 => Scalar::Float(x),
                    1 => Scalar::Int(x as i64),
                    _ => Scalar::Bool(x > 0.0),
                });
            }
            4 => {
                let to = below(numbers, params);
                call[at] = call[to].clone();
            }
            other => one_tensor(&mut call[at], other, numbers),
        }
        return;
    }
    let opt = &row.sig.opts[at - params];
    if (opt.optional || opt.default.is_some()) && below(numbers, 6) == 0 {
        call[at] = Value::Absent;
        return;
    }
    let int = |numbers: &mut Numbers| Value::Num(Scalar::Int(below(numbers, 9) as i64 - 3));
    call[at] = match &opt.ty {
        OptType::Bool => Value::Num(Scalar::Bool(numbers.draw() < 0.5)),
        OptType::Enum(words) => Value::Word(words[below(numbers, words.len())]),
        OptType::Dtype(_) => Value::DType(DTYPES[below(numbers, DTYPES.len())]),
        OptType::Num | OptType::F64 => {
            let all = [0.5, 0.0, 1.0, 2.0, -1.0, 3.0, 0.7, -0.5, 100.0, 1.3];
            let x: f64 = all[below(numbers, all.len())];
            let whole = opt.ty == OptType::Num && x.fract() == 0.0 && numbers.draw() < 0.5;
            Value::Num(if whole { Scalar::Int(x as i64) } else { Scalar::Float(x) })
        }
        OptType::Str | OptType::Labels(_) => return,
        _ => match std::mem::replace(&mut call[at], Value::Absent) {
            Value::List(mut items) => {
                match below(numbers, 5) {
                    0 => drop(items.pop()),
                    1 => items.push(int(numbers)),
                    2 if items.len() > 1 => {
                        let (a, b) = (below(numbers, items.len()), below(numbers, items.len()));
                        items.swap(a, b);
                    }
                    _ if items.is_empty() => items.push(int(numbers)),
                    _ => {
                        let place = below(numbers, items.len());
                        items[place] = int(numbers);
                    }
                }
                Value::List(items)
            }
            _ if below(numbers, 4) == 0 => {
                let n = below(numbers, 4);
                Value::List((0..n).map(|_| int(numbers)).collect())
            }
            _ => int(numbers),
        },
    };
}

fn each_tensor(value: &mut Value<ArgTy>, f: &mut dyn FnMut(&mut TensorTy)) {
    match value {
        Value::Tensor(ArgTy::Tensor(t)) | Value::Type(t) => f(t),
        Value::List(items) => items.iter_mut().for_each(|item| each_tensor(item, f)),
        _ => {}
    }
}

fn every_tensor(call: &mut [Value<ArgTy>], f: &mut dyn FnMut(&mut TensorTy)) {
    call.iter_mut().for_each(|value| each_tensor(value, f));
}

/// Replaces every size `from` by `to`, in tensors and options alike, so that related sizes stay equal.
fn resize(call: &mut [Value<ArgTy>], from: i64, to: i64) {
    every_tensor(call, &mut |t| {
        t.shape.iter_mut().filter(|size| size.value() == from).for_each(|size| *size = Dim::from(to));
    });
}

/// Changes one tensor: its dtype, a size, or the number of its axes.
fn one_tensor(value: &mut Value<ArgTy>, how: usize, numbers: &mut Numbers) {
    if let (Value::List(items), true) = (&mut *value, how == 11) {
        if items.len() > 1 {
            items.pop();
        }
        return;
    }
    let mut count = 0;
    each_tensor(value, &mut |_| count += 1);
    let mut chosen = below(numbers, count.max(1));
    let (a, b, c) = (numbers.draw(), numbers.draw(), numbers.draw());
    let pick = |x: f64, n: usize| ((x * n as f64) as usize).min(n.saturating_sub(1));
    each_tensor(value, &mut |t| {
        if chosen != 0 {
            chosen = chosen.wrapping_sub(1);
            return;
        }
        chosen = usize::MAX;
        let rank = t.shape.len();
        match how {
            5 | 6 => t.dtype = DTYPES[pick(a, DTYPES.len())],
            7 if rank > 0 => drop(t.shape.remove(pick(b, rank))),
            8 if rank < 5 => t.shape.insert(pick(b, rank + 1), Dim::from(pick(c, 4))),
            _ if rank > 0 => t.shape[pick(b, rank)] = Dim::from(pick(c, 5)),
            _ => t.dtype = DTYPES[pick(a, DTYPES.len())],
        }
    });
}
