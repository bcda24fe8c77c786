//! Packages for other frameworks, made from rows.
//!
//! | module | makes |
//! |---|---|
//! | [`operator`] | an operator in PyTorch's terms from a row's signature |
//! | [`calls`] | calls with data, for the tests of a package |
//! | [`torch`] | the files of a package for PyTorch |
//!
//! The half of a package that is the same for every row is the crate `fulgurite-torch` and the file `_runtime.py`.

pub mod calls;
pub mod operator;
pub mod torch;

/// A file of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageFile {
    /// Its path below the folder of the package, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}
