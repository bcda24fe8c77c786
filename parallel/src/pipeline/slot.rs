//! What a stage takes and gives.

use fulgurite_runtime::trace::ProxyTy;
use std::sync::Arc;

/// A tensor that a stage takes or gives.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Its path in its tree.
    pub path: Arc<str>,
    /// Its type.
    pub ty: ProxyTy,
    /// Of parameters and inputs: whether a gradient is wanted. Of outputs: whether a cotangent may come.
    pub needs_grad: bool,
    /// Of parameters: a number that those share which are one parameter of the model, in different stages.
    pub tied: Option<usize>,
}

impl Slot {
    pub(super) fn new(path: &str, ty: ProxyTy) -> Slot {
        let needs_grad = matches!(ty.as_tensor(), Some(t) if t.dtype.is_float());
        Slot { path: path.into(), ty, needs_grad, tied: None }
    }
}
