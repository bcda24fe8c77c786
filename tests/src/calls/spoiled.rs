//! Calls in which a row may refuse an element at run time.

use super::Call;
use crate::oracle::Operand;
use crate::rng::Rng;
use fulgurite_core::eval::loop_nest::Array;
use fulgurite_core::{Scalar, Value};

/// The codes of refusals at run time: an index out of range, a division by zero, a condition on elements.
pub const AT_RUN_TIME: [&str; 3] = ["E804", "E805", "E705"];

/// The call with one element changed, for each tensor in turn: far outside of all sizes, negative, zero.
pub fn spoiled(call: &Call, rng: &mut Rng) -> Vec<Call> {
    let mut all = Vec::new();
    for i in 0..call.row.sig.params.len() {
        let Value::Tensor(Operand::Tensor(a)) = &call.args[i] else { continue };
        if a.is_empty() {
            continue;
        }
        for x in [1000i64, -1, 0] {
            let mut other = call.clone();
            let mut elements = a.scalars();
            let at = rng.below(elements.len());
            elements[at] = if a.dtype.is_float() { Scalar::Float(x as f64) } else { Scalar::Int(x) };
            other.args[i] = Value::Tensor(Operand::Tensor(Array::from_scalars(a.dtype, &a.shape, elements)));
            all.push(other);
        }
    }
    all
}
