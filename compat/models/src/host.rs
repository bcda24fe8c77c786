//! The functions of exported programs that compute sizes and numbers instead of tensors: Python's operators, some of
//! `math`, and the sizes of tensors. They run while the program is replayed.

use crate::known;
use crate::value::GraphValue;
use fulgurite::core::{Dim, Scalar};

/// A function of numbers, by the number of its arguments.
#[derive(Clone, Copy)]
enum Function {
    /// A function that is exact on whole numbers and sizes, and computes other numbers in f64.
    Both(fn(Dim, Dim) -> Option<Dim>, fn(f64, f64) -> f64),
    /// A comparison; sizes are compared symbolically.
    Compare(fn(Dim, Dim) -> bool, fn(f64, f64) -> bool),
    /// A function in f64.
    Float(fn(f64, f64) -> f64),
    /// A function from f64 to a whole number.
    Round(fn(f64) -> f64),
    /// A function from f64 to f64.
    Unary(fn(f64) -> f64),
    Truth(fn(bool, bool) -> bool),
    Not,
    Negate,
    /// The second argument if the first is true, otherwise the third.
    Choose,
    /// The number as a whole number.
    ToInt,
    /// The size of an axis of a tensor.
    SizeOf,
    /// The sizes of a tensor, as a tensor.
    SizesOf,
    /// The number of elements of a tensor.
    Count,
    /// The number of elements, as a tensor.
    CountOf,
    /// The element of a tensor of rank 0.
    Item,
    /// A check that the exporter left in the program. The ranges of inputs state the same condition
    /// on sizes.
    Nothing,
}

/// The functions by their names in the file.
#[rustfmt::skip]
const TABLE: &[(&str, Function)] = &[
    ("_operator.add", Function::Both(|a, b| Some(a + b), |a, b| a + b)),
    ("_operator.sub", Function::Both(|a, b| Some(a - b), |a, b| a - b)),
    ("_operator.mul", Function::Both(|a, b| Some(a * b), |a, b| a * b)),
    ("_operator.floordiv", Function::Both(|a, b| (!b.is(0)).then(|| a / b), |a, b| (a / b).floor())),
    ("_operator.mod", Function::Both(|a, b| (!b.is(0)).then(|| a % b), |a, b| a - (a / b).floor() * b)),
    ("_operator.truediv", Function::Float(|a, b| a / b)),
    ("_operator.pow", Function::Both(power, f64::powf)),
    ("pow", Function::Both(power, f64::powf)),
    ("_operator.eq", Function::Compare(|a, b| a == b, |a, b| a == b)),
    ("_operator.ne", Function::Compare(|a, b| a != b, |a, b| a != b)),
    ("_operator.lt", Function::Compare(|a, b| a < b, |a, b| a < b)),
    ("_operator.le", Function::Compare(|a, b| a <= b, |a, b| a <= b)),
    ("_operator.gt", Function::Compare(|a, b| a > b, |a, b| a > b)),
    ("_operator.ge", Function::Compare(|a, b| a >= b, |a, b| a >= b)),
    ("_operator.and_", Function::Truth(|a, b| a && b)),
    ("_operator.or_", Function::Truth(|a, b| a || b)),
    ("_operator.neg", Function::Negate),
    ("_operator.not_", Function::Not),
    ("torch.sym_not", Function::Not),
    ("torch.sym_max", Function::Both(|a, b| Some(a.max(b)), f64::max)),
    ("torch.sym_min", Function::Both(|a, b| Some(a.min(b)), f64::min)),
    ("torch.sym_ite", Function::Choose),
    ("torch.sym_int", Function::ToInt),
    ("torch.sym_float", Function::Unary(|x| x)),
    ("torch._sym_sqrt", Function::Unary(f64::sqrt)),
    ("math.sqrt", Function::Unary(f64::sqrt)),
    ("math.exp", Function::Unary(f64::exp)),
    ("math.log", Function::Unary(f64::ln)),
    ("math.ceil", Function::Round(f64::ceil)),
    ("math.floor", Function::Round(f64::floor)),
    ("math.trunc", Function::Round(f64::trunc)),
    ("round", Function::Round(f64::round_ties_even)),
    ("aten.sym_size.int", Function::SizeOf),
    ("aten.size.int", Function::SizeOf),
    ("aten.sym_numel.default", Function::Count),
    ("onnx.Shape", Function::SizesOf),
    ("onnx.Size", Function::CountOf),
    ("aten.item.default", Function::Item),
    ("aten._local_scalar_dense.default", Function::Item),
    ("aten._assert_tensor_metadata.default", Function::Nothing),
    ("aten._assert_scalar.default", Function::Nothing),
    ("aten._assert_async.msg", Function::Nothing),
    ("aten.sym_constrain_range.default", Function::Nothing),
    ("aten.sym_constrain_range_for_size.default", Function::Nothing),
];

/// A whole power; `None` if the exponent is negative or not a constant.
fn power(base: Dim, exponent: Dim) -> Option<Dim> {
    let exponent = exponent.is_const().then(|| exponent.value()).filter(|n| (0..64).contains(n))?;
    Some((0..exponent).fold(Dim::from(1), |product, _| product * base))
}

fn find(target: &str) -> Option<Function> {
    TABLE.iter().find(|(name, _)| *name == target).map(|(_, function)| *function)
}

/// Whether `target` is a function of this table.
pub fn is_known(target: &str) -> bool {
    find(target).is_some()
}

/// Calls the function `target`.
///
/// # Errors
/// The function is unknown, or does not take these arguments, in words.
pub fn call(target: &str, args: &[GraphValue], named: &[(&str, GraphValue)]) -> Result<GraphValue, String> {
    let function = find(target).ok_or_else(|| format!("`{target}` is no function of numbers"))?;
    function.call(args, named).ok_or_else(|| {
        let kinds: Vec<&str> = args.iter().map(GraphValue::kind).collect();
        format!("`{target}` is not defined for {}", kinds.join(" and "))
    })
}

impl Function {
    fn call(self, args: &[GraphValue], named: &[(&str, GraphValue)]) -> Option<GraphValue> {
        let number = |n: f64| Some(GraphValue::Number(Scalar::Float(n)));
        let truth = |b: bool| Some(GraphValue::Number(Scalar::Bool(b)));
        match (self, args) {
            (Function::Nothing, _) => Some(GraphValue::None),
            (Function::Both(exact, float), [a, b]) => match (size(a), size(b)) {
                (Some(a), Some(b)) => exact(a, b).map(GraphValue::Size),
                _ => number(float(float_of(a)?, float_of(b)?)),
            },
            (Function::Compare(exact, float), [a, b]) => match (size(a), size(b)) {
                (Some(a), Some(b)) => truth(exact(a, b)),
                _ => truth(float(float_of(a)?, float_of(b)?)),
            },
            (Function::Float(f), [a, b]) => number(f(float_of(a)?, float_of(b)?)),
            (Function::Unary(f), [x]) => number(f(float_of(x)?)),
            (Function::Round(f), [x]) => match size(x) {
                Some(size) => Some(GraphValue::Size(size)),
                None => whole(f(float_of(x)?)),
            },
            (Function::ToInt, [x]) => match size(x) {
                Some(size) => Some(GraphValue::Size(size)),
                None => whole(float_of(x)?.trunc()),
            },
            (Function::Truth(f), [a, b]) => truth(f(bool_of(a)?, bool_of(b)?)),
            (Function::Not, [x]) => truth(!bool_of(x)?),
            (Function::Negate, [x]) => match size(x) {
                Some(size) => Some(GraphValue::Size(-size)),
                None => number(-float_of(x)?),
            },
            (Function::Choose, [condition, yes, no]) => {
                Some(if bool_of(condition)? { yes.clone() } else { no.clone() })
            }
            (Function::SizeOf, [x, axis]) => {
                let (shape, axis) = (shape(x)?, size(axis)?.value());
                let axis = if axis < 0 { axis + shape.len() as i64 } else { axis };
                usize::try_from(axis).ok().and_then(|axis| shape.get(axis)).map(|size| GraphValue::Size(*size))
            }
            (Function::SizesOf, [x]) => {
                let shape = shape(x)?;
                let rank = shape.len() as i64;
                let bound = |name: &str, default: i64| {
                    let at = GraphValue::whole_named(named, name, default).ok()?;
                    Some((if at < 0 { at + rank } else { at }).clamp(0, rank) as usize)
                };
                let (start, end) = (bound("start", 0)?, bound("end", rank)?);
                let part = shape[start..end.max(start)].to_vec();
                known::of_sizes(vec![part.len()], part)
            }
            (Function::Count, [x]) => {
                Some(GraphValue::Size(shape(x)?.into_iter().fold(Dim::from(1), |n, size| n * size)))
            }
            (Function::CountOf, [x]) => {
                known::of_sizes(Vec::new(), vec![shape(x)?.into_iter().fold(Dim::from(1), |n, size| n * size)])
            }
            (Function::Item, [GraphValue::Tensor(x) | GraphValue::Known(x)]) => x
                .buffer()
                .ok()
                .filter(|b| b.len() == 1)
                .and_then(|b| b.scalars().first().copied())
                .map(GraphValue::Number),
            _ => None,
        }
    }
}

fn shape(x: &GraphValue) -> Option<Vec<Dim>> {
    match x {
        GraphValue::Tensor(x) | GraphValue::Known(x) => Some(x.shape().to_vec()),
        GraphValue::Sizes(x) => Some(x.shape.iter().map(|size| Dim::from(*size)).collect()),
        _ => None,
    }
}

fn whole(x: f64) -> Option<GraphValue> {
    (x.abs() < 9e15).then(|| GraphValue::Size(Dim::from(x as i64)))
}

fn size(x: &GraphValue) -> Option<Dim> {
    match x {
        GraphValue::Size(size) => Some(*size),
        GraphValue::Number(Scalar::Int(n)) => Some(Dim::from(*n)),
        GraphValue::Number(Scalar::Bool(b)) => Some(Dim::from(i64::from(*b))),
        _ => None,
    }
}

fn float_of(x: &GraphValue) -> Option<f64> {
    match x {
        GraphValue::Number(Scalar::Float(x)) => Some(*x),
        _ => size(x).map(|size| size.value() as f64),
    }
}

fn bool_of(x: &GraphValue) -> Option<bool> {
    match x {
        GraphValue::Number(Scalar::Bool(b)) => Some(*b),
        _ => float_of(x).map(|x| x != 0.0),
    }
}
