//! The order in memory of values, as the file describes it.

use super::schema::{Length, TensorMeta};
use crate::size_text::{self, SizeExpression};
use fulgurite::core::Dim;
use std::collections::BTreeMap;

/// Decides whether values are dense. Symbols of sizes get numbers of their own, because two sizes that are equal by chance
/// would make another order of axes look like the usual one.
#[derive(Default)]
pub struct ValueLayouts {
    symbols: BTreeMap<String, Dim>,
}

impl ValueLayouts {
    /// Whether the elements lie in memory in the order of the axes, without gaps. A layout that can't be read counts as
    /// dense.
    pub fn is_dense(&mut self, meta: &TensorMeta) -> bool {
        let numbers = |list: &[Length], layout: &mut ValueLayouts| {
            list.iter().map(|length| layout.number(length)).collect::<Option<Vec<i64>>>()
        };
        let (Some(sizes), Some(strides)) = (numbers(&meta.sizes, self), numbers(&meta.strides, self)) else {
            return true;
        };
        let mut packed = 1i64;
        sizes.iter().zip(&strides).rev().all(|(size, stride)| {
            let fits = *size == 1 || *stride == packed;
            packed = packed.saturating_mul(*size);
            fits
        })
    }

    fn number(&mut self, length: &Length) -> Option<i64> {
        match length {
            Length::AsInt(n) => Some(*n),
            Length::AsExpr(e) => {
                let size = size_text::parse(&e.expr_str).ok()?;
                self.define(&size);
                size.value(&self.symbols).map(Dim::value)
            }
        }
    }

    fn define(&mut self, size: &SizeExpression) {
        match size {
            SizeExpression::Number(_) => {}
            SizeExpression::Symbol(name) => {
                let next = Dim::from(1009 + 2 * self.symbols.len());
                self.symbols.entry(name.clone()).or_insert(next);
            }
            SizeExpression::Power(base, _) => self.define(base),
            SizeExpression::Of(_, args) => args.iter().for_each(|arg| self.define(arg)),
        }
    }
}
