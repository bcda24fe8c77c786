//! The kernel family that serves a row, recognised in the loops of a typical call.

use fulgurite_core::builtins::Builtin;
use fulgurite_core::lang::Red;
use fulgurite_core::loop_nest::{LoopExpr, Nest, SOp, SOutside};
use fulgurite_core::row::Row;
use rustc_hash::FxHashSet;

use super::each;
use crate::check::walk;

fulgurite_core::words! {
    /// A kernel family.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub enum Family: name, from_name {
        Map = "map",
        Copy = "copy",
        Reduce = "reduce",
        Contraction = "contraction",
        Window = "window",
        Gather = "gather",
        Scatter = "scatter",
        Scan = "scan",
        Concat = "concat",
        Generic = "generic loop nest",
    }
}

/// The family of a row whose typical call lowers to `nest`, and the pattern by which it was recognised.
pub(super) fn of(row: &Row, nest: &Nest) -> (Family, String) {
    if nest.pointwise {
        return (Family::Map, "each element from the elements at its own position".to_owned());
    }
    let mut seen = Seen::default();
    each(nest, &mut |part| seen.look(part));
    let lists = row.sig.params.iter().any(|param| param.ty.list.is_some());
    let found = match seen {
        _ if lists && seen.reductions == 0 => (Family::Concat, "each element from one item of a list"),
        Seen { range_moves: true, .. } => (Family::Scan, "the range of a reduction grows with the position"),
        Seen { filtered_by_element: true, .. } => (Family::Scatter, "a reduction keeps what an index tensor points at"),
        Seen { element_index: true, .. } => (Family::Gather, "an index is read from a tensor"),
        Seen { product: true, window: true, .. } | Seen { reductions: 1.., window: true, .. } => {
            (Family::Window, "a reduction slides over its argument")
        }
        Seen { product: true, .. } => (Family::Contraction, "a sum of products of elements"),
        Seen { reductions: 1, .. } => (Family::Reduce, "one reduction"),
        Seen { reductions: 2.., nested: false, .. } => (Family::Reduce, "reductions side by side"),
        Seen { strided: true, .. } if moves(nest) => (Family::Copy, "one access with indices that grow evenly"),
        Seen { reductions: 0, .. } => (Family::Map, "no reduction"),
        _ => (Family::Generic, "none of the known patterns: correct, and slow"),
    };
    (found.0, found.1.to_owned())
}

/// Whether every result is a single access.
fn moves(nest: &Nest) -> bool {
    nest.outs.iter().all(|out| matches!(out.expr.op(), SOp::Load { .. }))
}

/// Patterns in a nest.
#[derive(Default)]
struct Seen {
    reductions: usize,
    loads: usize,
    /// A reduction stands inside another.
    nested: bool,
    /// Every access is strided.
    strided: bool,
    /// A sum over a product of two elements.
    product: bool,
    /// An index mixes an axis of the result with one of a reduction.
    window: bool,
    /// An index comes from an element.
    element_index: bool,
    /// A filter reads an element.
    filtered_by_element: bool,
    /// The end of a range depends on an index.
    range_moves: bool,
}

impl Seen {
    fn look(&mut self, e: &LoopExpr) {
        match e.op() {
            SOp::Load { idx, outside, .. } => {
                self.loads += 1;
                let strided = *outside == SOutside::Refuse && idx.iter().all(is_affine);
                self.strided = strided && (self.loads == 1 || self.strided);
                self.element_index |= idx.iter().any(has_element);
                self.window |= idx.iter().any(|i| variables(i).len() > 1 && is_affine(i));
            }
            SOp::Reduce { red, filter, body, vars, .. } => {
                self.reductions += 1;
                self.range_moves |= vars.iter().any(|range| range.hi.as_int().is_none());
                self.filtered_by_element |= filter.as_ref().is_some_and(has_element);
                let product = matches!(body.op(), SOp::Call(Builtin::Mul, args) if args.iter().all(has_element));
                self.product |= *red == Red::Sum && product;
                walk::each(body, &mut |part| self.nested |= matches!(part.op(), SOp::Reduce { .. }));
            }
            _ => {}
        }
    }
}

/// Whether `e` is a sum of constants and constant multiples of indices.
pub(crate) fn is_affine(e: &LoopExpr) -> bool {
    match e.op() {
        SOp::Const(_) | SOp::Var(_) => true,
        SOp::Call(Builtin::Add | Builtin::Sub, args) => args.iter().all(is_affine),
        SOp::Call(Builtin::Mul, args) => args.iter().all(is_affine) && args.iter().any(|a| a.as_int().is_some()),
        _ => false,
    }
}

fn has_element(e: &LoopExpr) -> bool {
    walk::any_part(e, &mut |part| matches!(part.op(), SOp::Load { .. } | SOp::Elem(_)))
}

fn variables(e: &LoopExpr) -> FxHashSet<usize> {
    let mut found = FxHashSet::default();
    walk::each(e, &mut |part| {
        if let SOp::Var(v) = part.op() {
            found.insert(*v);
        }
    });
    found
}
