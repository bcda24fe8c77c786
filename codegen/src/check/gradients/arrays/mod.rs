//! The array machine: rows and gradient rules run on small arrays, over numbers, numbers with derivatives, or any other
//! scalar field.

pub mod declared;
pub mod dense;
pub mod dual;
pub mod instance;
pub mod numbers;
pub mod tape;
