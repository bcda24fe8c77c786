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
            GraphValue::Number(x) => whole(*x),
            GraphValue::Size(size) if size.is_const() => Some(size.value()),
            GraphValue::Tensor(_) | GraphValue::Known(_) => match self.whole_elements(1)?.1[..] {
                [one] => Some(one),
                _ => None,
            },
            _ => None,
        }
    }

    /// The sizes of a tensor, and its elements as whole numbers, if it is known, is not of floats, and has at most `most`
    /// elements.
    pub fn whole_elements(&self, most: usize) -> Option<(Vec<usize>, Vec<i64>)> {
        let (GraphValue::Tensor(x) | GraphValue::Known(x)) = self else { return None };
        let buffer = x.buffer().ok().filter(|b| b.len() <= most && !b.dtype().is_float())?;
        let numbers: Vec<i64> = buffer.scalars().into_iter().map(whole).collect::<Option<_>>()?;
        // The numbers of u64 from 2^63 on are negative here, and there is no i64 for them.
        let in_range = buffer.dtype() != DType::U64 || numbers.iter().all(|n| *n >= 0);
        in_range.then(|| (buffer.shape().to_vec(), numbers))
    }

    /// The whole number that is given under a name, or `default` if none is.
    ///
    /// # Errors
    /// The value of that name is no whole number that is known, in words.
    pub fn whole_named(named: &[(&str, GraphValue)], name: &str, default: i64) -> Result<i64, String> {
        match named.iter().find(|(n, _)| *n == name) {
            None | Some((_, GraphValue::None)) => Ok(default),
            Some((_, value)) => {
                value.whole().ok_or_else(|| format!("`{name}` is {} and no whole number", value.kind()))
            }
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

/// A number as i64, if it is whole and in that range.
fn whole(x: Scalar) -> Option<i64> {
    // The largest i64 becomes 2^63 as a float, which is out of the range.
    let limit = i64::MAX as f64;
    match x {
        Scalar::Float(f) if f.fract() != 0.0 || !(-limit..limit).contains(&f) => None,
        number => Some(number.as_i64()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use fulgurite::buffer::Buffer;

    #[test]
    fn whole_numbers_are_exact_or_none() {
        let number = |x: Scalar| GraphValue::Number(x).whole();
        for exact in [0, -1, (1 << 53) + 1, i64::MAX, i64::MIN] {
            assert_eq!(number(Scalar::Int(exact)), Some(exact));
            assert_eq!(GraphValue::Known(Tensor::scalar(exact)).whole(), Some(exact));
        }
        assert_eq!(number(Scalar::Float(-3.0)), Some(-3));
        for none in [0.5, f64::NAN, f64::INFINITY, 9_223_372_036_854_775_808.0] {
            assert_eq!(number(Scalar::Float(none)), None);
        }
        let unsigned = |x: u64| GraphValue::Known(Tensor::from_buffer(Buffer::scalar(x).unwrap())).whole();
        assert_eq!((unsigned(7), unsigned(u64::MAX)), (Some(7), None));
        assert_eq!(GraphValue::Known(Tensor::scalar(1.0f32)).whole(), None, "a float is no place or axis");
    }

    #[test]
    fn a_named_number_that_is_not_whole_is_refused() {
        let named = [("axis", GraphValue::Number(Scalar::Float(0.5))), ("end", GraphValue::None)];
        assert_eq!(GraphValue::whole_named(&named, "start", 4), Ok(4));
        assert_eq!(GraphValue::whole_named(&named, "end", 4), Ok(4));
        assert!(GraphValue::whole_named(&named, "axis", 4).is_err_and(|e| e.contains("`axis` is a number")));
    }
}
