//! The handler of XLA's calls to foreign functions: without C++, headers or a link to XLA.
//!
//! | module | is |
//! |---|---|
//! | [`abi`] | the structs of XLA's C interface |
//! | [`handler`] | the function that runs a program on the memory of a call |

pub mod abi;
pub mod handler;
