//! The columns of a product, and the places of its tiles in the result.

use fulgurite_kernels::line_gemm::LANES;
use fulgurite_kernels::transpose::{Moved, move_to};
use smallvec::SmallVec;

/// A loop over columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    /// The number of columns.
    pub size: usize,
    /// The number of columns with those that belong to no result, which lie after the others.
    pub pitch: usize,
    /// The distance in the result.
    pub to: isize,
}

/// The columns, one number for each setting of the loops, slowest first.
#[derive(Clone, Debug)]
pub(super) struct Columns(pub SmallVec<[Column; 3]>);

/// A tile that was computed.
#[derive(Clone, Copy)]
pub(super) struct Done {
    /// The first row of the tile; its rows lie `width` apart.
    pub at: *const f32,
    /// The number of columns.
    pub width: usize,
    /// The first column.
    pub first: usize,
    /// The number of rows.
    pub rows: usize,
}

impl Columns {
    /// The number of columns up to the last that belongs to a result.
    pub fn count(&self) -> usize {
        self.0.iter().fold(0, |at, c| at * c.pitch + c.size - 1) + 1
    }

    /// The columns with another number of the slowest loop.
    pub fn with_first(&self, size: usize) -> Columns {
        let mut columns = self.clone();
        columns.0.first_mut().into_iter().for_each(|c| c.size = size);
        columns
    }

    /// Writes one row of all columns to the result.
    ///
    /// # Safety
    /// `from` has [`Columns::count`] elements; `to` is the element of the row at column 0; the result has the columns.
    pub unsafe fn write_row(&self, from: *const f32, to: *mut f32, kernel: move_to::Fn) {
        if let [rows, last] = self.0.as_slice() {
            let (from_steps, to_steps) = ((last.pitch as isize, 1), (rows.to, last.to));
            // SAFETY: the caller upholds the contract.
            unsafe { kernel(&Moved { from, from_steps, to, to_steps, rows: rows.size, cols: last.size }) };
            return;
        }
        let row = Done { at: from, width: self.count(), first: 0, rows: 1 };
        // SAFETY: the caller upholds the contract.
        unsafe { self.write(&row, to, 0, kernel) }
    }

    /// Writes a tile to the result, whose rows lie `row` apart.
    ///
    /// # Safety
    /// `to` is the element of the first row at column 0; the result has the tile's rows and columns.
    pub unsafe fn write(&self, tile: &Done, to: *mut f32, row: isize, kernel: move_to::Fn) {
        let [outer @ .., last] = self.0.as_slice() else { return };
        let end = tile.first + tile.width;
        let (mut within, mut line) = (tile.first % last.pitch, tile.first / last.pitch);
        let mut column = tile.first;
        while column < end {
            let cols = last.size.saturating_sub(within).min(end - column);
            if cols > 0
                && let Some(at) = line_place(outer, line)
            {
                let from = tile.at.wrapping_add(column - tile.first);
                let (from_steps, to_steps) = ((tile.width as isize, 1), (row, last.to));
                let to = to.wrapping_offset(at + within as isize * last.to);
                // SAFETY: the caller upholds the contract; these columns belong to results.
                unsafe { kernel(&Moved { from, from_steps, to, to_steps, rows: tile.rows, cols }) };
            }
            column += last.pitch - within;
            (within, line) = (0, line + 1);
        }
    }
}

/// The place in the result of a line, which is a number for each setting of these loops, if it belongs to results.
fn line_place(outer: &[Column], line: usize) -> Option<isize> {
    match outer {
        [] => (line == 0).then_some(0),
        [rows] => (line < rows.size).then_some(line as isize * rows.to),
        [sheets @ .., rows] => {
            let (sheet, row) = (line / rows.pitch, line % rows.pitch);
            Some(line_place(sheets, sheet)? + (row < rows.size).then_some(row as isize * rows.to)?)
        }
    }
}

/// Divides `count` columns into tiles of at most `most` times [`LANES`], of sizes that differ by one vector at most:
/// the number of tiles, and the vectors of each.
pub(in crate::executors::cpu) fn tiles(count: usize, most: usize) -> impl Iterator<Item = usize> {
    let vectors = count.div_ceil(LANES);
    let tiles = vectors.div_ceil(most);
    (0..tiles).map(move |t| (vectors * (t + 1)) / tiles - (vectors * t) / tiles)
}
