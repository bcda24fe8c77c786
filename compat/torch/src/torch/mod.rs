//! Kernels of PyTorch's dispatcher, registered through its stable C interface: without C++, headers or a link to
//! libtorch.
//!
//! | module | is |
//! |---|---|
//! | [`shims`] | the functions of libtorch, found by name |
//! | [`schema`] | the arguments of an operator |
//! | [`operator`] | operators, and the kernel that runs them |
//! | `place` | the device of the tensors of a call |
//! | `cuda` | CUDA devices, on PyTorch's stream |
//! | `fork` | processes that are forked |

mod cuda;
mod fork;
pub mod operator;
mod place;
pub mod schema;
pub mod shims;
