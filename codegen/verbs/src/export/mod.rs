//! Packages for other frameworks, made from rows.
//!
//! | module | makes |
//! |---|---|
//! | [`operator`] | an operator from a row's signature |
//! | [`calls`] | calls with data, for the tests of a package |
//! | [`package`] | the files of a package that are the same for every framework |
//! | [`torch`] | the files of a package for PyTorch |
//! | [`jax`] | the files of a package for JAX |
//!
//! The half of a package that is the same for every row is the crate `fulgurite-torch` and the files `_library.py` and
//! `_runtime.py`.

pub mod calls;
pub mod jax;
pub mod operator;
pub mod package;
pub mod torch;

/// A file of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageFile {
    /// The path of the file below the folder of the package, with `/`.
    pub path: String,
    /// The text of the file.
    pub text: String,
}
