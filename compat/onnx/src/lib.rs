//! ONNX's operators: rows for those that no list of arguments turns into a call of a row of fulgurite, and ONNX's names
//! of the rows of fulgurite.
//!
//! A program that depends on this crate can call rows by the names of ONNX, with inputs as positional and attributes as
//! named arguments: [`fulgurite::foreign`]. The number at the end of a name is the version of the operator.
//!
//! ```
//! use fulgurite::foreign::{self, Given};
//! use fulgurite::core::loc::Loc;
//! use fulgurite::{Error, Tensor};
//! // links the database
//! use fulgurite_onnx as _;
//!
//! let x = Given::Tensor(Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]));
//! let axis = [("axis".to_owned(), Given::Int(1))];
//! let softmax = foreign::call("onnx.Softmax.13", &[x], &axis, None, Loc::NOWHERE)?;
//! assert_eq!(softmax.outs.len(), 1);
//! # Ok::<(), Error>(())
//! ```

fulgurite::database!();
