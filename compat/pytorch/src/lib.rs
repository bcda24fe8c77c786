//! PyTorch's calls: rows in PyTorch's own signatures, and PyTorch's names of the rows of fulgurite.
//!
//! The functions of [`torch`] and [`aten`] are rows for calls that no list of arguments turns into a call of a row of
//! fulgurite. Most of them are programs of such rows.
//!
//! ```
//! use fulgurite::{Error, Tensor};
//! use fulgurite_pytorch::torch;
//!
//! let x = Tensor::from([1.0f32, f32::NAN, 4.0]);
//! assert_eq!(torch::nanmean(&x).item::<f32>()?, 2.5);
//! # Ok::<(), Error>(())
//! ```
//!
//! A program that depends on this crate can also call rows by PyTorch's names, with the positional and named arguments of
//! a dynamic language: [`fulgurite::foreign`].
//!
//! ```
//! use fulgurite::foreign::{self, Given};
//! use fulgurite::core::loc::Loc;
//! use fulgurite::{Error, Tensor};
//! // links the database
//! use fulgurite_pytorch as _;
//!
//! let x = Given::Tensor(Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]));
//! let sums = foreign::call("torch.sum", &[x], &[("dim".to_owned(), Given::Int(0))], None, Loc::NOWHERE)?;
//! let sums = sums.outs[0].as_ref().expect("no mask leaves it out");
//! assert_eq!(sums.to_vec::<f32>()?, [4.0, 6.0]);
//! # Ok::<(), Error>(())
//! ```

fulgurite::database!();
