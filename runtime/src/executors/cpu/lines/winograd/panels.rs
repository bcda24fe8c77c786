//! The panels of a convolution's patches.

use super::super::columns::{Column, tiles};
use super::STEP;
use fulgurite_kernels::line_gemm::LANES;
use fulgurite_kernels::winograd::PatchRun;

/// Patches that are transformed and multiplied together: a few vectors of columns, across the ends of rows of patches.
pub(super) struct Panel {
    /// The block of rows of patches in which they lie.
    pub block: usize,
    /// The columns divided by [`LANES`], rounded up.
    pub vectors: usize,
    /// The number of patches.
    pub columns: usize,
    /// The patches of each row, with the places of their results.
    pub runs: Vec<PatchRun>,
    /// The place of the first patch of each run in a plane of the block's copy.
    pub from: Vec<usize>,
}

/// How the patches of an image are divided.
pub(super) struct Plan {
    /// The rows of patches whose copy is made at once.
    pub block: usize,
    pub panels: Vec<Panel>,
    /// The vectors of the widest panel.
    pub widest: usize,
}

impl Plan {
    /// The division of the patches of results with these columns, if rows of patches lie `pitch` apart in a copy, panels
    /// have at most `most` vectors, and blocks have so few rows that their copy `fits`, or one.
    pub fn new(results: [&Column; 2], pitch: usize, most: usize, fits: impl Fn(usize) -> bool) -> Plan {
        let [rows, cols] = results.map(|c| c.size.div_ceil(STEP));
        let time = |block: usize| {
            let of = |rows: usize| work(rows, cols, most);
            (rows / block) as f64 * of(block) + if rows.is_multiple_of(block) { 0.0 } else { of(rows % block) }
        };
        let blocks = (1..=rows).take_while(|n| *n == 1 || fits(*n));
        let block = blocks.min_by(|a, b| time(*a).total_cmp(&time(*b))).unwrap_or(1);
        let mut panels = Vec::new();
        for (number, first) in (0..rows).step_by(block).enumerate() {
            let mut column = 0;
            let count = block.min(rows - first) * cols;
            for vectors in tiles(count, most) {
                let end = count.min(column + vectors * LANES);
                panels.push(panel((number, first), (column, end), vectors, results, pitch));
                column = end;
            }
        }
        let widest = panels.iter().map(|p| p.vectors).max().unwrap_or(1);
        Plan { block, panels, widest }
    }

    /// The columns of all panels, with those after the last patches.
    pub fn columns(&self) -> usize {
        self.panels.iter().map(|p| p.vectors * LANES).sum()
    }
}

/// The time of a block of this many rows of patches, in units of a vector of columns: each panel reads all weights, and
/// the copy of a block has a row more than the block.
fn work(rows: usize, cols: usize, most: usize) -> f64 {
    const PANEL: f64 = 0.25;
    const COPIED: f64 = 0.004;
    let vectors = (rows * cols).div_ceil(LANES);
    vectors as f64 + PANEL * vectors.div_ceil(most) as f64 + COPIED * ((rows + 1) * cols) as f64
}

/// The panel of the patches `column..end` of a block, counted row by row.
fn panel(
    (block, first): (usize, usize),
    (column, end): (usize, usize),
    vectors: usize,
    [down, across]: [&Column; 2],
    pitch: usize,
) -> Panel {
    let cols = across.size.div_ceil(STEP);
    let (mut runs, mut from) = (Vec::new(), Vec::new());
    let mut at = column;
    while at < end {
        let (row, col) = (at / cols, at % cols);
        let patches = (cols - col).min(end - at);
        let (line, place) = (STEP * (first + row), STEP * col);
        runs.push(PatchRun {
            at: at - column,
            columns: (STEP * patches).min(across.size - place),
            lines: STEP.min(down.size - line),
            to: line as isize * down.to + place as isize * across.to,
        });
        from.push(row * pitch + col);
        at += patches;
    }
    Panel { block, vectors, columns: end - column, runs, from }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every result belongs to one patch of one panel, and every patch has its place in the copy of its block.
    #[test]
    fn panels_have_every_result_once() {
        for (rows, cols, most) in [(1, 1, 3), (7, 7, 3), (14, 13, 1), (56, 56, 3), (31, 5, 2), (2, 200, 3)] {
            let column = |size, to| Column { size, pitch: size + 1, to };
            let (down, across) = (column(rows, 300), column(cols, 1));
            let pitch = cols.div_ceil(STEP) + 1;
            let plan = Plan::new([&down, &across], pitch, most, |rows| rows <= 9);
            let mut seen = vec![0; 300 * rows];
            for panel in &plan.panels {
                assert!(panel.vectors <= most.min(plan.widest) && panel.columns <= panel.vectors * LANES);
                for (run, from) in panel.runs.iter().zip(&panel.from) {
                    let row = STEP * (panel.block * plan.block + from / pitch);
                    assert_eq!(run.to as usize, 300 * row + STEP * (from % pitch));
                    assert!(from / pitch < plan.block && run.at < panel.columns);
                    for line in 0..run.lines {
                        let to = run.to as usize + 300 * line;
                        seen[to..to + run.columns].iter_mut().for_each(|n| *n += 1);
                    }
                }
            }
            for (at, n) in seen.into_iter().enumerate() {
                assert_eq!(n, usize::from(at % 300 < cols), "{rows} {cols} {at}");
            }
        }
    }
}
