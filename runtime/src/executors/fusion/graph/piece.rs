//! What a line becomes: maps (to be fused), and the steps that are kernels of their own.

use super::{Axis, Dim, Graph, Index, Load, NodeId, ValueId};
use crate::buffer::Sizes;
use fulgurite_core::DType;
use fulgurite_core::kernel::Combine;
use fulgurite_core::lang::ast::Red;
use fulgurite_core::nest::Nest;
use smallvec::SmallVec;
use std::rc::Rc;
use std::sync::Arc;

/// The type of a value.
#[derive(Clone, PartialEq, Debug)]
pub struct ValueTy {
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub shape: Sizes,
}

impl ValueTy {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }
    /// Bytes of all elements.
    pub fn bytes(&self) -> usize {
        self.elements() * self.dtype.size()
    }
    /// Elements from index to index of each axis, row-major.
    pub fn strides(&self) -> SmallVec<[i64; 6]> {
        let mut strides: SmallVec<[i64; 6]> = SmallVec::from_elem(1, self.shape.len());
        for i in (1..self.shape.len()).rev() {
            strides[i - 1] = strides[i] * self.shape[i] as i64;
        }
        strides
    }
}

/// The values of a program.
#[derive(Default, Debug)]
pub struct Values {
    types: Vec<ValueTy>,
}

impl Values {
    /// A new value.
    pub fn add(&mut self, dtype: DType, shape: &[usize]) -> ValueId {
        self.types.push(ValueTy { dtype, shape: Sizes::from_slice(shape) });
        (self.types.len() - 1) as ValueId
    }
    /// The type of a value.
    pub fn ty(&self, v: ValueId) -> &ValueTy {
        &self.types[v as usize]
    }
    /// How many there are.
    pub fn len(&self) -> usize {
        self.types.len()
    }
}

/// A part of a line, in the order in which they run.
#[derive(Debug)]
pub enum Piece {
    /// Scalar operations over dims.
    Map(Fragment),
    /// Elements of one value as another lies: an operand of a product, in memory of its own.
    Copy(Fragment),
    /// A sum of products of two loads.
    Contract(Box<Contract>),
    /// Reductions of all elements up to each.
    Scan(Scan),
    /// The elements of a value in row-major order, as a value of one axis: (of what, the flat one).
    Flat(ValueId, ValueId),
    /// The meaning as it stands, element by element.
    Slow(Slow),
}

/// A small graph of its own, with the values that it defines.
#[derive(Debug, Default)]
pub struct Fragment {
    /// Its operations.
    pub graph: Graph,
    /// What it defines.
    pub outs: Vec<Out>,
    /// Whether it only gives another name to elements that lie in memory already.
    pub view: bool,
}

/// A value that a graph defines.
#[derive(Clone, Debug)]
pub struct Out {
    /// Which.
    pub value: ValueId,
    /// Its elements.
    pub node: NodeId,
    /// Where they go.
    pub place: Place,
}

/// Where the elements of a node go.
#[derive(Clone, Debug)]
// One a result, and few results: a box would save nothing and cost an allocation each.
#[allow(clippy::large_enum_variant)]
pub enum Place {
    /// The dims that make up each axis.
    Axes(Vec<Axis>),
    /// Each element is combined into the element that the indices name.
    Scatter {
        /// One index per axis.
        idx: SmallVec<[Index; 4]>,
        /// Only where this holds.
        mask: Option<NodeId>,
        /// What becomes of an element where there is one already.
        how: Combine,
        /// An index outside of its axis is an error of the call, else its element is dropped.
        strict: bool,
        /// What is there before; zeros if nothing.
        base: Option<ValueId>,
        /// The loops in the order in which elements replace each other, slowest first.
        order: SmallVec<[Dim; 4]>,
    },
}

/// `out[free] = Σ over reduced a[…] · b[…]`; both loads are affine and in range.
#[derive(Clone, Debug)]
pub struct Contract {
    /// Extents of the dims.
    pub sizes: Vec<usize>,
    /// Left operand.
    pub a: Load,
    /// Right operand.
    pub b: Load,
    /// The dims of each axis of the result.
    pub axes: Vec<Axis>,
    /// Dims that are summed.
    pub reduced: SmallVec<[Dim; 4]>,
    /// The result: f32 or f64.
    pub out: ValueId,
    /// An operand that is copied part by part, just before it is used.
    pub chunk: Option<Chunk>,
    /// Where terms are left out of the sum that the product has as zeros.
    pub exact: Option<Exact>,
}

/// A contraction whose terms are left out where one operand lies outside of its tensor. The product adds them as zeros
/// times the other operand: that is the same only while the other is finite.
#[derive(Clone, Debug)]
pub struct Exact {
    /// The values that must be finite.
    pub finite: SmallVec<[ValueId; 2]>,
    /// The sum itself, for where they are not.
    pub sum: Rc<Fragment>,
}

/// An operand that does not lie as a matrix (windows of a convolution): copied for one index of a dim at a time, so that
/// the copy stays in the cache.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Whether it is the right operand.
    pub right: bool,
    /// The dim that is run through outside.
    pub dim: Dim,
    /// Where the operand's elements come from.
    pub source: ValueId,
    /// The copy at index 0 of the dim; it defines the value that the contraction loads.
    pub copy: Rc<Fragment>,
    /// The value that it defines: it exists only while it is used.
    pub packed: ValueId,
    /// The index of each of the source's axes, as a multiple of the dim's.
    pub steps: SmallVec<[i64; 4]>,
}

/// `out[…, n] = red over j < n (or ≤, >, ≥) of x[…, j]`, along the last axis.
#[derive(Clone, Debug)]
pub struct Scan {
    /// Sum, prod, max, min.
    pub red: Red,
    /// What is scanned.
    pub input: ValueId,
    /// Same shape.
    pub out: ValueId,
    /// From the end.
    pub reverse: bool,
    /// Without the element itself.
    pub exclusive: bool,
}

/// A nest run by the oracle.
#[derive(Clone, Debug)]
pub struct Slow {
    /// The meaning.
    pub nest: Arc<Nest>,
    /// Its tensors.
    pub tensors: Vec<ValueId>,
    /// Its run-time numbers.
    pub nums: Vec<ValueId>,
    /// Its results.
    pub outs: Vec<ValueId>,
}
