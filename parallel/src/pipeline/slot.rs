//! The inputs, parameters and outputs of a stage.

use fulgurite_runtime::trace::ProxyTy;
use std::sync::Arc;

/// A tensor that a stage takes or returns.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The path of the tensor in its tree.
    pub path: Arc<str>,
    /// The type of the tensor.
    pub ty: ProxyTy,
    /// For parameters and inputs, whether a gradient is wanted; for outputs, whether a cotangent may come.
    pub needs_grad: bool,
    /// The number of a tied parameter: parameters of different stages with one number are one parameter of the model.
    pub tied: Option<usize>,
}

impl Slot {
    pub(super) fn new(path: &str, ty: ProxyTy) -> Slot {
        let needs_grad = matches!(ty.as_tensor(), Some(t) if t.dtype.is_float());
        Slot { path: path.into(), ty, needs_grad, tied: None }
    }
}
