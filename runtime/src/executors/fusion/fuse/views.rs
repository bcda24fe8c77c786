//! The layout of values: each value is a strided window of a dense one.

use super::super::graph::piece::Fragment;
use super::super::graph::piece::{Out, Place, ValueTy, Values};
use super::super::graph::{Axis, Dim, Index, Op, ValueId};
use smallvec::SmallVec;

/// A window of a dense value, in elements.
#[derive(Clone, PartialEq, Debug)]
pub struct Form {
    /// The dense value.
    pub root: ValueId,
    /// The position of the window's first element in the dense value.
    pub offset: i64,
    /// The distance of neighbours along each axis.
    pub strides: SmallVec<[i64; 6]>,
}

impl Form {
    /// The layout of a dense value, row-major.
    pub fn dense(value: ValueId, ty: &ValueTy) -> Form {
        Form { root: value, offset: 0, strides: ty.strides() }
    }

    /// Whether the window covers all of its root, in order.
    pub fn is_dense(&self, ty: &ValueTy, root: &ValueTy) -> bool {
        let dense = ty.strides();
        let same = (self.strides.iter().zip(&dense).zip(&ty.shape)).all(|((a, b), n)| *n == 1 || a == b);
        self.offset == 0 && same && ty.elements() == root.elements()
    }
}

/// If an output of the fragment consists of elements of another value, returns that value and the layout of the output
/// in it.
pub fn as_view(
    fragment: &Fragment,
    out: &Out,
    values: &Values,
    form: &dyn Fn(ValueId) -> Option<Form>,
) -> Option<(ValueId, Form)> {
    let Op::Load(load) = &fragment.graph.node(out.node).op else { return None };
    let Place::Axes(axes) = &out.place else { return None };
    if load.outside.is_some() || values.ty(load.value).dtype != values.ty(out.value).dtype {
        return None;
    }
    let source = form(load.value)?;
    let mut offset = source.offset;
    let mut of_dim: SmallVec<[(Dim, i64); 6]> = SmallVec::new();
    for (index, stride) in load.idx.iter().zip(&source.strides) {
        let Index::Affine(a) = index else { return None };
        offset += a.base * stride;
        for &(d, c) in &a.terms {
            match of_dim.iter_mut().find(|t| t.0 == d) {
                Some(t) => t.1 += c * stride,
                None => of_dim.push((d, c * stride)),
            }
        }
    }
    let stride = |d: Dim| of_dim.iter().find(|t| t.0 == d).map_or(0, |t| t.1);
    let strides = axes.iter().map(|a| axis_stride(a, &fragment.graph.sizes, &stride)).collect::<Option<_>>()?;
    Some((load.value, Form { root: source.root, offset, strides }))
}

/// The stride of an axis made of several dims, if the dims are contiguous.
fn axis_stride(axis: &Axis, sizes: &[usize], stride: &dyn Fn(Dim) -> i64) -> Option<i64> {
    let Some((&last, slower)) = axis.split_last() else { return Some(0) };
    let step = stride(last);
    let mut expected = step * sizes[last as usize] as i64;
    for &d in slower.iter().rev() {
        if stride(d) != expected {
            return None;
        }
        expected *= sizes[d as usize] as i64;
    }
    Some(step)
}
