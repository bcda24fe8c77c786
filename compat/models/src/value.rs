//! The values of a running graph.

use fulgurite::core::{DType, Dim, Scalar, Value};
use fulgurite::foreign::Given;
use fulgurite::intrinsics::Intrinsic;
use fulgurite::{Tensor, TensorOps, api, ops};

/// A value of a running graph.
#[derive(Clone, Debug)]
pub enum GraphValue {
    /// Nothing.
    None,
    Tensor(Tensor),
    /// A tensor in memory that does not depend on the elements of inputs.
    Known(Tensor),
    /// A tensor of sizes, of which some are symbolic.
    Sizes(SizeTensor),
    List(Vec<GraphValue>),
    Number(Scalar),
    /// A size, which may be symbolic.
    Size(Dim),
    Text(String),
    DType(DType),
}

impl GraphValue {
    /// The kind of value, in words.
    pub fn kind(&self) -> &'static str {
        match self {
            GraphValue::None => "nothing",
            GraphValue::Tensor(_) | GraphValue::Known(_) | GraphValue::Sizes(_) => "a tensor",
            GraphValue::List(_) => "a list",
            GraphValue::Number(_) => "a number",
            GraphValue::Size(_) => "a size",
            GraphValue::Text(_) => "a text",
            GraphValue::DType(_) => "a dtype",
        }
    }

    /// The value as a whole number, if it is one that is known.
    pub fn whole(&self) -> Option<i64> {
        match self {
            GraphValue::Number(x) => Some(x.as_f64() as i64),
            GraphValue::Size(size) if size.is_const() => Some(size.value()),
            GraphValue::Tensor(x) | GraphValue::Known(x) => {
                let known = x.buffer().ok().filter(|b| b.len() == 1 && !b.dtype().is_float());
                known.and_then(|b| b.scalars().first().copied()).map(|x| x.as_f64() as i64)
            }
            _ => None,
        }
    }

    /// The value as a tensor: numbers become tensors of rank 0.
    pub fn tensor(&self) -> Option<Tensor> {
        match self {
            GraphValue::Tensor(x) | GraphValue::Known(x) => Some(x.clone()),
            GraphValue::Sizes(x) => Some(x.tensor()),
            GraphValue::Number(Scalar::Bool(b)) => Some(Tensor::scalar(*b)),
            GraphValue::Number(Scalar::Int(n)) => Some(Tensor::scalar(*n)),
            GraphValue::Number(Scalar::Float(x)) => Some(Tensor::scalar(*x)),
            GraphValue::Size(size) => Some(Tensor::scalar(size.value())),
            GraphValue::None | GraphValue::List(_) | GraphValue::Text(_) | GraphValue::DType(_) => None,
        }
    }
}

impl GraphValue {
    /// The value with tensors of sizes as tensors.
    pub fn with_tensors(&self) -> Given {
        match self {
            GraphValue::Sizes(x) => Given::Tensor(x.tensor()),
            GraphValue::List(items) => Given::List(items.iter().map(GraphValue::with_tensors).collect()),
            value => Given::from(value),
        }
    }

    /// Whether there is a tensor of sizes in the value.
    pub fn has_sizes(&self) -> bool {
        match self {
            GraphValue::Sizes(_) => true,
            GraphValue::List(items) => items.iter().any(GraphValue::has_sizes),
            _ => false,
        }
    }
}

impl From<&GraphValue> for Given {
    fn from(value: &GraphValue) -> Given {
        match value {
            GraphValue::None => Given::None,
            GraphValue::Tensor(x) | GraphValue::Known(x) => Given::Tensor(x.clone()),
            // as the sizes that they are; a row that takes a tensor here gets one by `with_tensors`
            GraphValue::Sizes(x) => match &x.sizes[..] {
                [size] if x.shape.is_empty() => Given::Size(*size),
                sizes => Given::List(sizes.iter().map(|size| Given::Size(*size)).collect()),
            },
            GraphValue::List(items) => Given::List(items.iter().map(Given::from).collect()),
            GraphValue::Number(x) => Given::from(*x),
            GraphValue::Size(size) if size.is_const() => Given::Int(size.value()),
            GraphValue::Size(size) => Given::Size(*size),
            GraphValue::Text(text) => Given::Str(text.clone()),
            GraphValue::DType(dtype) => Given::DType(*dtype),
        }
    }
}

/// A tensor of i64 whose elements are sizes, of which one at least is symbolic.
#[derive(Clone, Debug)]
pub struct SizeTensor {
    pub shape: Vec<usize>,
    pub sizes: Vec<Dim>,
}

impl SizeTensor {
    /// The tensor itself, as a value of the program.
    pub fn tensor(&self) -> Tensor {
        let element = |size: &Dim| {
            let dtype = Value::DType(DType::I64);
            api::intrinsic(Intrinsic::Full, vec![Value::List(Vec::new()), Value::size(*size), dtype])
        };
        let elements: Vec<Tensor> = self.sizes.iter().map(element).collect();
        match &elements[..] {
            [one] if self.shape.is_empty() => one.clone(),
            several => ops::stack(several).reshape(&self.shape[..]),
        }
    }
}
