//! Finds the loops over elements whose iterations lead to places of their own.

use super::stages::{out_dims, real};
use crate::executors::fusion::graph::piece::{Out, Place};
use crate::executors::fusion::graph::{Dim, DimSet, Graph, Index};

/// The loops over the elements of an output.
pub(super) struct Loops {
    /// The loops that lead to places of their own.
    pub outer: Vec<Dim>,
    /// The other loops, in their order.
    pub inner: Vec<Dim>,
}

impl Loops {
    pub(super) fn of(graph: &Graph, out: &Out) -> Loops {
        let Place::Scatter { idx, order, .. } = &out.place else {
            return Loops { outer: Vec::new(), inner: Vec::new() };
        };
        let all = out_dims(graph, out);
        let parallel = apart(graph, idx, all);
        let slower = all.minus(order.iter().copied().collect());
        let loops = slower.iter().chain(order.iter().copied().filter(|d| all.has(*d)));
        let (outer, inner) = loops.partition(|d| parallel.has(*d));
        Loops { outer, inner }
    }
}

/// The dims along which different indices always mean different places, whatever the elements are.
fn apart(graph: &Graph, idx: &[Index], all: DimSet) -> DimSet {
    let mut out = DimSet::EMPTY;
    let mut seen = DimSet::EMPTY;
    for index in idx {
        let Index::Affine(a) = index else { continue };
        let dims = real(graph, a.dims());
        // a single dim moves along this axis, and it moves along no other
        let mut own = dims.iter();
        if let (Some(d), None) = (own.next(), own.next())
            && !seen.has(d)
        {
            out = out.union(DimSet::one(d));
        }
        out = out.minus(seen.meet(dims));
        seen = seen.union(dims);
    }
    out.meet(all)
}
