//! The adjoint of a copy of windows: elements are added up at affine positions, where windows meet.
//!
//! The loops over the places of windows run inside those over the elements of a window, because they are longer.

use super::{Bound, Im2col, merged};
use crate::executors::cpu::tiles::{load_bytes, scatter_bytes};
use crate::executors::fusion::fuse::{Group, live};
use crate::executors::fusion::graph::piece::Place;
use crate::executors::fusion::graph::{Affine, Dim, DimSet, Index, Op};
use crate::executors::fusion::items::Env;
use fulgurite_core::DType;
use fulgurite_core::kernel::Combine;
use fulgurite_kernels::abi::Level;
use fulgurite_kernels::window;
use smallvec::SmallVec;

impl Im2col {
    /// The sum that a group performs, if it only adds elements of f32 where affine indices place them.
    pub fn added(group: &Group, env: &Env, isa: Level) -> Option<Im2col> {
        let [out] = group.outs.as_slice() else { return None };
        let (graph, ty) = (&group.graph, env.values.ty(out.value));
        let (Op::Load(load), Place::Scatter { idx, mask: None, how: Combine::Add, strict: false, base: None, order }) =
            (&graph.node(out.node).op, &out.place)
        else {
            return None;
        };
        let alone = live(group).iter().filter(|l| **l).count() == 1;
        let single = [ty.dtype, env.values.ty(load.value).dtype, graph.node(out.node).ty] == [DType::F32; 3];
        // the whole result is filled with zeros first
        let dense = (env.form)(out.value).root == out.value;
        let affine = |i: &Index| if let Index::Affine(a) = i { Some(a.clone()) } else { None };
        let (from, to): (Vec<Affine>, Vec<Affine>) =
            (load.idx.iter().map(affine).collect::<Option<_>>()?, idx.iter().map(affine).collect::<Option<_>>()?);
        if !alone || !single || !dense || load.outside.is_some() {
            return None;
        }
        let used = from.iter().chain(&to).fold(order.iter().copied().collect(), |s: DimSet, a| s.union(a.dims()));
        let longer = |d: Dim| graph.sizes[d as usize] > 1;
        // Elements of different positions along an axis of one dim never meet.
        let apart = |d: Dim| to.iter().any(|a| a.terms.len() == 1 && a.terms[0].0 == d);
        // Of the dims of one axis, the longest is that of the places.
        let place = |d: Dim| {
            let longest = |a: &Affine| a.terms.iter().max_by_key(|t| (graph.sizes[t.0 as usize], t.1)).map(|t| t.0);
            to.iter().any(|a| longest(a) == Some(d))
        };
        let dims = graph.sizes.len();
        let (from, into) = (load_bytes(load, env, dims), scatter_bytes(out.value, idx, env, dims));
        let kind = |d: &Dim| if apart(*d) { 0 } else { 1 + place(*d) as u8 };
        let mut sorted: Vec<Dim> = used.iter().filter(|d| longer(*d)).collect();
        sorted.sort_by_key(|d| (kind(d), -into.coefs[*d as usize].abs()));
        let disjoint = sorted.iter().filter(|d| kind(d) == 0).count();
        let mut bounds = Vec::new();
        for (a, &size) in to.iter().zip(&ty.shape) {
            let (lo, hi) = a.range(&graph.sizes);
            if lo < 0 || hi >= size as i64 {
                let mut coefs = SmallVec::from_elem(0, dims);
                a.terms.iter().for_each(|&(d, c)| coefs[d as usize] = c);
                bounds.push(Bound { base: a.base, size: size as i64, coefs });
            }
        }
        let order: Vec<usize> = sorted.iter().map(|d| *d as usize).collect();
        let loops = merged(&order, &graph.sizes, &from, &into, &mut bounds);
        // The first loop is divided among threads if all dims of which it was made keep elements apart.
        let mut product = 1;
        let whole = order[..disjoint].iter().any(|d| {
            product *= graph.sizes[*d];
            product == loops[0].size
        });
        let (places, elements) = (loops.len(), loops.iter().map(|l| l.size).product::<usize>());
        Some(Im2col {
            places: [((env.form)(load.value).root, from.base as isize), (out.value, into.base as isize)],
            cost: elements as f64 * 0.6 + ty.elements() as f64 * 0.1,
            loops,
            bounds,
            bytes: 4,
            value: [0; 8],
            kernel: window::add::pick(isa),
            sums: Some(super::Sums { bytes: ty.bytes(), divided: whole && places > 2 }),
        })
    }
}
