//! Matrix products in the form that libraries take.

use fulgurite_core::DType;

/// `C = op(A) op(B)`, or `C += op(A) op(B)`, of matrices stored by columns, for several matrices at equal distances.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gemm {
    /// The dtype of `C` and of the sums: f32 or f64.
    pub dtype: DType,
    /// The dtype of `A` and `B`: that of `C`, or f16 or bf16 if that is f32.
    pub operands: DType,
    /// The rows of `C`.
    pub m: usize,
    /// The columns of `C`.
    pub n: usize,
    /// The size of the summed dim.
    pub k: usize,
    /// The layouts of `A`, `B` and `C`; the last is never transposed.
    pub matrices: [Matrix; 3],
    /// The number of matrix products.
    pub count: usize,
    /// Whether the products are added to the present content of `C`.
    pub adds: bool,
}

/// The layout of a matrix, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Matrix {
    /// The distance from one column to the next.
    pub columns: usize,
    /// Whether the transpose of the stored matrix is multiplied.
    pub transposed: bool,
    /// The distance from one matrix to the next.
    pub matrices: i64,
}

/// A dim: its size, and its strides in the three tensors.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Side {
    pub size: usize,
    pub steps: [i64; 3],
}

impl Side {
    /// A dim that does not exist.
    pub const NONE: Side = Side { size: 1, steps: [0; 3] };
}

/// The matrix of tensor `which` with these rows and columns: stored by columns, or else as its transpose.
fn matrix(which: usize, rows: Side, columns: Side, batch: Side) -> Option<Matrix> {
    let by_columns = |rows: Side, columns: Side| {
        let (across, along) = (columns.steps[which], rows.steps[which]);
        let fits = rows.size == 1 || along == 1;
        match columns.size {
            1 => fits.then_some(rows.size.max(1)),
            _ => usize::try_from(across).ok().filter(|step| fits && *step >= rows.size),
        }
    };
    let lies = |columns, transposed| Matrix { columns, transposed, matrices: batch.steps[which] };
    by_columns(rows, columns)
        .map(|step| lies(step, false))
        .or_else(|| by_columns(columns, rows).map(|step| lies(step, true)))
}

impl Gemm {
    /// The product over these dims (rows, columns, the summed dim, and matrices), with `true` if the operands are
    /// swapped. Returns `None` if a matrix is stored neither by rows nor by columns.
    pub(in super::super) fn of(
        [dtype, operands]: [DType; 2],
        [m, n, k, batch]: [Side; 4],
        adds: bool,
    ) -> Option<(Gemm, bool)> {
        let made = |[m, n]: [Side; 2], [left, right]: [usize; 2]| {
            let c = matrix(2, m, n, batch).filter(|c| !c.transposed)?;
            let matrices = [matrix(left, m, k, batch)?, matrix(right, k, n, batch)?, c];
            Some(Gemm { dtype, operands, m: m.size, n: n.size, k: k.size, matrices, count: batch.size, adds })
        };
        // the transpose of a product is the product of the transposes in the other order
        let plain = made([m, n], [0, 1]).map(|gemm| (gemm, false));
        plain.or_else(|| made([n, m], [1, 0]).map(|gemm| (gemm, true)))
    }
}
