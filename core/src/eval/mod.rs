//! Evaluators: nests over any scalar domain, the tensor language over any machine.

pub mod frame;
pub mod loop_nest;
pub mod tensor;
