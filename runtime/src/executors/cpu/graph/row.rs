//! Kernels that codegen compiled from whole expressions of pointwise rows.

use crate::executors::Line;
use crate::executors::cpu::kern::Isa;
use crate::executors::cpu::kernels;
use fulgurite_core::lang::ast::Elem;
use fulgurite_core::lower::variant::{numbers, variant};
use fulgurite_core::sig::Item;
use fulgurite_core::{DType, Name, Scalar};
use smallvec::SmallVec;

/// A row's kernel, and what a line passes to it.
#[derive(Clone, Debug)]
pub struct RowKernel {
    /// The row.
    pub symbol: Name,
    /// Its variant.
    pub variant: Name,
    /// Compute dtype.
    pub dtype: DType,
    /// What is passed.
    pub args: Vec<RowArg>,
    /// Run-time numbers as words.
    pub nums: SmallVec<[u64; 2]>,
}

/// An argument of a row's kernel.
#[derive(Clone, Copy, Debug)]
pub enum RowArg {
    /// An element of this tensor, as this dtype.
    Elem(usize, DType),
    /// A number, as this dtype.
    Number(Scalar, DType),
}

impl RowKernel {
    /// The kernel of a pointwise line, if there is one for its options and dtype, and all numbers are known.
    pub fn of(line: &Line) -> Option<RowKernel> {
        let row = line.symbol.symbol.row();
        if !row.is_pointwise() {
            return None;
        }
        let solved = &line.symbol.solved;
        let dtype = solved.compute;
        let variant = variant(row, &solved.env);
        kernels::find(line.name(), &variant, dtype, Isa::here())?;
        let mut args = Vec::new();
        for p in &row.sig.params {
            let d = match p.ty.elem.first() {
                Some(Elem::Class(c)) => DType::from_name(c.as_str()).unwrap_or(dtype),
                Some(Elem::Index) => DType::I64,
                _ => dtype,
            };
            match solved.env.item(p.name.name)? {
                Item::Absent => {}
                Item::Tensor(slot) => args.push(RowArg::Elem(line.place(*slot)?, d)),
                Item::Num(s) => args.push(RowArg::Number(*s, d)),
                _ => return None,
            }
        }
        let nums = numbers(row, &solved.env).into_iter().map(|n| Some(n?.as_f64().to_bits())).collect::<Option<_>>()?;
        Some(RowKernel { symbol: Name::new(line.name()), variant: Name::new(&variant), dtype, args, nums })
    }
}
