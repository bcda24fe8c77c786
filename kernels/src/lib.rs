//! Kernels of the processor that are written by hand, and the parts from which the generator builds kernels of rows.
//!
//! | module | what it holds |
//! |---|---|
//! | [`math`] | the builtins as vectorisable scalar functions, `m::exp::<I, _>(x)` |
//! | [`tile`] | how a kernel goes over a tile, and its forms for three instruction sets |
//! | [`builtin`] | tile kernels of the builtins |
//! | [`chain`] | chains of pointwise operations as machine code |
//! | [`abi`] | the instruction set of this machine, and the choice of a form for it |
//! | [`cast`], [`narrow`] | conversions between dtypes; numbers that are stored in fewer bits than they compute in |
//! | [`fill`], [`copy`], [`transpose`], [`window`], [`gather`], [`select`] | tiles that are filled, moved, read and written at computed places, or chosen |
//! | [`prefetch`] | hints that memory is needed soon |
//! | [`peak`] | the speed of arithmetic that this processor can reach |
//! | [`reduce`] | sums, products and extrema of lines |
//! | [`direct`], [`channels`] | sums over windows of one plane where it lies, and of several channels side by side |
//! | [`line_gemm`], [`dot_tile`], [`dots`] | products with a table of lines, their last columns as dot products, sums along such lines |
//! | [`winograd`] | convolutions with windows of 3 × 3 as products of transformed patches |
//! | [`small_gemm`], [`tiny_gemm`], [`quantised_gemm`] | products with few rows, of a few numbers, and with weights in groups of integers |
//!
//! Nothing here knows a trace or a row: a kernel gets pointers, sizes and strides. No kernel contracts or reorders what
//! its definition does in order, so the forms for all instruction sets give the same bits; [`math`] names the functions
//! that may differ in the last place.

mod multi;

pub mod abi;
pub mod builtin;
pub mod cast;
pub mod chain;
pub mod channels;
pub mod copy;
pub mod direct;
pub mod dot_tile;
pub mod dots;
pub mod fill;
pub mod gather;
pub mod line_gemm;
pub mod math;
pub mod narrow;
pub mod peak;
pub mod prefetch;
pub mod quantised_gemm;
pub mod reduce;
pub mod select;
pub mod small_gemm;
pub mod tile;
pub mod tiny_gemm;
pub mod transpose;
pub mod window;
pub mod winograd;

/// The dtypes and the kernel interface, for generated kernels.
#[doc(hidden)]
pub use fulgurite_core as core;

#[cfg(test)]
mod tests;
