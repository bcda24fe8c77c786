//! Products of matrices for libraries that have them.

use fulgurite_core::DType;

/// `C = op(A) op(B)`, or `C += op(A) op(B)`, of matrices that lie column by column, for many matrices at equal distances.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gemm {
    /// Of `C`, and of what is summed: f32 or f64.
    pub dtype: DType,
    /// Of `A` and `B`: the same, or f16 or bf16 where that is f32.
    pub operands: DType,
    /// Rows of `C`.
    pub m: usize,
    /// Columns of `C`.
    pub n: usize,
    /// What is summed over.
    pub k: usize,
    /// `A`, `B` and `C`; the last is never transposed.
    pub matrices: [Matrix; 3],
    /// How many products of matrices.
    pub count: usize,
    /// Whether they are added to what is there.
    pub adds: bool,
}

/// How a matrix lies, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Matrix {
    /// From one column to the next.
    pub columns: usize,
    /// Whether what is multiplied is its transpose.
    pub transposed: bool,
    /// From one matrix to the next.
    pub matrices: i64,
}

/// A size and its steps in two tensors.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Side {
    pub size: usize,
    pub steps: [i64; 3],
}

impl Side {
    /// A dim that is not there.
    pub const NONE: Side = Side { size: 1, steps: [0; 3] };
}

/// The matrix of tensor `which`, whose rows and columns are these: column by column, or else as its transpose.
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
    /// The product over these dims: rows, columns, what is summed, and matrices; `true` if the operands changed places.
    /// `None` where a matrix lies neither by rows nor by columns.
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
        // the transpose of a product is the product of the transposes, the other way round
        let plain = made([m, n], [0, 1]).map(|gemm| (gemm, false));
        plain.or_else(|| made([n, m], [1, 0]).map(|gemm| (gemm, true)))
    }
}
