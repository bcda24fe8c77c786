//! The pieces of a line: maps, which are fused, and parts that are kernels of their own.

use super::{Affine, Axis, Dim, Graph, Index, Load, NodeId, ValueId};
use crate::buffer::Sizes;
use fulgurite_core::DType;
use fulgurite_core::kernel::Combine;
use fulgurite_core::lang::ast::Red;
use fulgurite_core::loop_nest::Nest;
use smallvec::SmallVec;
use std::rc::Rc;
use std::sync::Arc;

/// The type of a value.
#[derive(Clone, PartialEq, Debug)]
pub struct ValueTy {
    /// The element type.
    pub dtype: DType,
    pub shape: Sizes,
}

impl ValueTy {
    /// The number of elements.
    pub fn elements(&self) -> usize {
        // an axis beside an empty one may have any size
        if self.shape.contains(&0) { 0 } else { self.shape.iter().product() }
    }
    /// The number of bytes of all elements.
    pub fn bytes(&self) -> usize {
        self.elements() * self.dtype.size()
    }
    /// The strides of the axes in elements, row-major.
    pub fn strides(&self) -> SmallVec<[i64; 6]> {
        let mut strides: SmallVec<[i64; 6]> = SmallVec::from_elem(1, self.shape.len());
        for i in (1..self.shape.len()).rev() {
            // only a tensor without elements has strides beyond i64, and they are never used
            strides[i - 1] = strides[i].saturating_mul(self.shape[i] as i64);
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
    pub fn add(&mut self, dtype: DType, shape: &[usize]) -> ValueId {
        self.types.push(ValueTy { dtype, shape: Sizes::from_slice(shape) });
        (self.types.len() - 1) as ValueId
    }
    /// The type of a value.
    pub fn ty(&self, v: ValueId) -> &ValueTy {
        &self.types[v as usize]
    }
    /// The number of values.
    pub fn len(&self) -> usize {
        self.types.len()
    }
}

/// A part of a line. The parts of a line run in order.
#[derive(Debug)]
pub enum Piece {
    /// Scalar operations over dims.
    Map(Fragment),
    /// A copy of a value in another layout: an operand of a product, in memory of its own.
    Copy(Fragment),
    /// A sum of products of two loads.
    Contract(Box<Contract>),
    /// Reductions of all prefixes along an axis.
    Scan(Scan),
    /// The elements of the first value in row-major order, as the second value, which has one axis.
    Flat(ValueId, ValueId),
    /// The meaning as it stands, evaluated element by element.
    Slow(Slow),
}

/// A small graph of its own, with the values that it defines.
#[derive(Debug, Default)]
pub struct Fragment {
    /// The operations.
    pub graph: Graph,
    /// The values that the fragment defines.
    pub outs: Vec<Out>,
    /// Whether the fragment only gives another name to elements that are in memory already.
    pub view: bool,
}

/// A value that a graph defines.
#[derive(Clone, Debug)]
pub struct Out {
    pub value: ValueId,
    /// The node of its elements.
    pub node: NodeId,
    /// The place of its elements.
    pub place: Place,
}

/// Where the elements of a node go.
#[derive(Clone, Debug)]
// Each result has one place, and results are few: a box would save nothing and cost an allocation.
#[allow(clippy::large_enum_variant)]
pub enum Place {
    /// The dims that form each axis.
    Axes(Vec<Axis>),
    /// Each element is combined into the element that the indices name.
    Scatter {
        /// One index per axis.
        idx: SmallVec<[Index; 4]>,
        /// The condition under which an element is placed.
        mask: Option<NodeId>,
        /// The way to combine an element with the one in its place.
        how: Combine,
        /// Whether an index out of range is an error of the call; otherwise its element is dropped.
        strict: bool,
        /// The initial content; zeros if there is none.
        base: Option<ValueId>,
        /// The loops in the order in which elements replace each other, slowest first.
        order: SmallVec<[Dim; 4]>,
    },
}

/// A contraction `out[free] = Σ over reduced a[…] · b[…]`; both loads are affine and in range, unless one of them slides
/// ([`Load::slides`], [`Load::sums_windows`]).
#[derive(Clone, Debug)]
pub struct Contract {
    /// The extents of the dims.
    pub sizes: Vec<usize>,
    /// The left operand.
    pub a: Load,
    /// The right operand.
    pub b: Load,
    /// The dims of each axis of the result.
    pub axes: Vec<Axis>,
    /// The dims that are summed.
    pub reduced: SmallVec<[Dim; 4]>,
    /// The result, of f32 or f64.
    pub out: ValueId,
    /// The operand that is copied one part at a time, just before it is used, if there is one.
    pub chunk: Option<Chunk>,
    /// The exact sum, if the product has zeros for terms that the sum leaves out.
    pub exact: Option<Exact>,
    /// The elements of the result that no step uses.
    pub unused: Unused,
}

/// Elements of a product's result that no step uses.
#[derive(Clone, Debug, Default)]
pub struct Unused {
    /// Expressions of the product's dims: an element is unused where one of them is negative.
    pub negative: SmallVec<[Affine; 1]>,
    /// A dense value of the result's shape, written before the product runs: an element is unused where that of this
    /// value is zero.
    pub zeros_of: Option<ValueId>,
    /// Whether the elements are used after all where they are not finite, or so large that a sum with them may overflow.
    pub if_small: bool,
}

/// A contraction that leaves out terms whose operand is out of range. The product adds them as zeros times the other
/// operand, which is equal only while the other operand is finite.
#[derive(Clone, Debug)]
pub struct Exact {
    /// The values that must be finite.
    pub finite: SmallVec<[ValueId; 2]>,
    /// The sum itself, which runs if they are not finite.
    pub sum: Rc<Fragment>,
}

/// An operand that is not laid out as a matrix (windows of a convolution). It is copied for one index of a dim at a
/// time, so that the copy stays in the cache.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Whether this is the right operand.
    pub right: bool,
    /// The dim that is iterated over.
    pub dim: Dim,
    /// The value that is copied.
    pub source: ValueId,
    /// The copy at index 0 of the dim; it defines the value that the contraction loads.
    pub copy: Rc<Fragment>,
    /// The value that the copy defines, which exists only while it is used.
    pub packed: ValueId,
    /// For each axis of the source, the step of its index per step of the dim.
    pub steps: SmallVec<[i64; 4]>,
}

/// A scan `out[…, n] = red over j < n (or ≤, >, ≥) of x[…, j]`, along the last axis.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The reduction: sum, prod, max or min.
    pub red: Red,
    /// The value that is scanned.
    pub input: ValueId,
    /// The result, of the same shape.
    pub out: ValueId,
    /// Whether the scan starts from the end.
    pub reverse: bool,
    /// Whether the element itself is left out.
    pub exclusive: bool,
}

/// A nest that the interpreter's kernel runs.
#[derive(Clone, Debug)]
pub struct Slow {
    /// The meaning.
    pub nest: Arc<Nest>,
    pub tensors: Vec<ValueId>,
    /// The run-time numbers.
    pub nums: Vec<ValueId>,
    /// The results.
    pub outs: Vec<ValueId>,
    /// The reason why the nest has no graph.
    pub why: &'static str,
}
