//! PyTorch's recorded answers as evidence against wrong rows: all cases of `tests/data`, calls near them, and signatures.

pub mod load;
mod meets;
mod near;
mod signatures;

pub use load::load;
pub use meets::Comparer;
pub use near::{Near, near};
pub use signatures::facts;
