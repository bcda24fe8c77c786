//! Evaluators: nests over any scalar domain, the tensor language over any machine.

pub mod nest;
pub mod tensor;
