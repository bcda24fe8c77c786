//! Finds the tile kernel of a pointwise line's row.

use super::registry;
use crate::executors::Line;
use crate::executors::fusion::graph::row::{RowArg, RowKernel};
use fulgurite_core::lang::ast::Elem;
use fulgurite_core::lower::rounded_to;
use fulgurite_core::lower::variant::{numbers, variant};
use fulgurite_core::signature::{Env, Item};
use fulgurite_core::{DType, Name};
use fulgurite_kernels::abi::Level;

/// The dtype of the tensor in a slot.
fn stored(env: &Env, slot: usize) -> Option<DType> {
    Some(env.slots.get(slot)?.as_ref()?.dtype)
}

/// The tile kernel of a pointwise line, if there is one for its options and dtype, and all its numbers are known.
pub(super) fn of(line: &Line) -> Option<RowKernel> {
    let row = line.symbol.symbol.row();
    if !row.is_pointwise() {
        return None;
    }
    let solved = &line.symbol.solved;
    let dtype = solved.compute;
    let variant = variant(row, &solved.env);
    registry::find(line.name(), &variant, dtype, Level::current())?;
    let mut args = Vec::new();
    for p in &row.sig.params {
        let d = match p.ty.elem.first() {
            Some(Elem::Class(c)) => DType::from_name(c.as_str()).unwrap_or(dtype),
            Some(Elem::Index) => DType::I64,
            _ => dtype,
        };
        match solved.env.item(p.name.name)? {
            Item::Absent => {}
            // The kernel computes with values that are not rounded; those of the builtins are.
            Item::Tensor(slot) if rounded_to(row, &solved.env, d, stored(&solved.env, *slot)).is_some() => return None,
            Item::Num(_) if rounded_to(row, &solved.env, d, None).is_some() => return None,
            Item::Tensor(slot) => args.push(RowArg::Elem(line.place(*slot)?, d)),
            Item::Num(s) => args.push(RowArg::Number(*s, d)),
            _ => return None,
        }
    }
    let nums = numbers(row, &solved.env).into_iter().map(|n| Some(n?.as_f64().to_bits())).collect::<Option<_>>()?;
    Some(RowKernel { symbol: Name::new(line.name()), variant: Name::new(&variant), dtype, args, nums })
}
