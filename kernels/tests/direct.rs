//! Sums over windows where they lie equal their definition, on every instruction set of this CPU.

use fulgurite_kernels::abi::Level;
use fulgurite_kernels::direct::{self, Plane, WindowTerm};

/// The sums by their definition, of windows that are `apart` columns from each other: terms outside of the plane are zeros.
fn by_definition(p: &Plane<'_>, apart: usize, plane: &[f32]) -> Vec<f32> {
    let element = |row: isize, column: isize| {
        let inside = (0..p.size.0 as isize).contains(&row) && (0..p.size.1 as isize).contains(&column);
        if inside { plane[(row * p.row + column) as usize] } else { 0.0 }
    };
    let sum = |row: usize, column: usize| {
        let at = |t: &WindowTerm| element(row as isize * p.step + t.row, (column * apart) as isize + t.column);
        p.terms.iter().fold(0.0f32, |sum, t| t.factor.mul_add(at(t), sum))
    };
    (0..p.windows.0).flat_map(|row| (0..p.windows.1).map(move |column| sum(row, column))).collect()
}

#[test]
fn sums_over_windows_equal_their_definition() {
    let levels = Level::ALL.into_iter().filter(|level| *level <= Level::detect());
    let forms = levels.flat_map(|level| [(level, 1), (level, 2)]);
    for (compute, apart) in forms.filter_map(|(level, apart)| Some((direct::pick(level, apart)?, apart))) {
        for (rows, columns, windows, step) in [
            (5, 7, (5, 7), 1),
            (9, 16, (9, 16), 1),
            (4, 33, (2, 31), 2),
            (1, 20, (1, 40), 1),
            (3, 1, (6, 3), 1),
            (28, 28, (14, 28), 2),
            (14, 70, (7, 37), 2),
        ] {
            for (height, width, first) in [(3, 3, -1), (1, 5, -2), (5, 1, 0), (7, 7, -9), (2, 2, 30), (8, 8, -4)] {
                let row = columns + 3;
                let plane: Vec<f32> = (0..rows * row).map(|i| (i * 37 % 101) as f32 / 8.0 - 6.0).collect();
                let term = |k: usize| WindowTerm {
                    row: first + (k / width) as isize,
                    column: first + 2 * (k % width) as isize,
                    factor: (k * 13 % 17) as f32 / 4.0 - 2.0,
                };
                let terms: Vec<WindowTerm> = (0..height * width).map(term).collect();
                let to_row = windows.1 + 2;
                let mut to = vec![f32::NAN; windows.0 * to_row];
                let p = Plane {
                    from: plane.as_ptr(),
                    size: (rows, columns),
                    row: row as isize,
                    step,
                    to: to.as_mut_ptr(),
                    windows,
                    to_row: to_row as isize,
                    terms: &terms,
                };
                let want = by_definition(&p, apart, &plane);
                // SAFETY: the plane and the sums have these sizes.
                unsafe { compute(&p) };
                for (i, line) in to.chunks(to_row).enumerate() {
                    let (sums, behind) = line.split_at(windows.1);
                    assert_eq!(
                        sums,
                        &want[i * windows.1..][..windows.1],
                        "{rows}x{columns}, {height}x{width} at {first}, {apart} apart"
                    );
                    assert!(behind.iter().all(|x| x.is_nan()), "written behind the sums");
                }
            }
        }
    }
}
