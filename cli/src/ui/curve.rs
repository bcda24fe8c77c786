//! Curves in characters: two by four braille dots per cell, or one ASCII mark.

/// Points in order of x.
pub type Points = Vec<(f64, f64)>;

/// Cells of a drawn curve, with its axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Rows from the top: the label at the left, and the cells.
    pub rows: Vec<(String, String)>,
    /// The axis below them, as wide as the cells.
    pub axis: String,
}

/// Bits of a braille cell by row and column of the dot (Unicode block "Braille Patterns", dots 1 to 8).
const DOTS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

/// Draws all series into `width` by `height` cells. Points that are not finite are left out; `None` if there is no
/// point.
pub fn draw(series: &[Points], width: usize, height: usize, ascii: bool) -> Option<Curve> {
    let (width, height) = (width.max(1), height.max(2));
    let finite = |p: &&(f64, f64)| p.0.is_finite() && p.1.is_finite();
    let all: Vec<(f64, f64)> = series.iter().flatten().filter(finite).copied().collect();
    let (x0, x1) = bounds(all.iter().map(|p| p.0))?;
    let (y0, y1) = bounds(all.iter().map(|p| p.1))?;
    let (dots_x, dots_y) = if ascii { (width, height) } else { (2 * width, 4 * height) };
    let mut dots = vec![false; dots_x * dots_y];
    for points in series {
        let place = |p: &(f64, f64)| (scale(p.0, x0, x1, dots_x), dots_y - 1 - scale(p.1, y0, y1, dots_y));
        let places: Vec<(usize, usize)> = points.iter().filter(finite).map(place).collect();
        for (i, to) in places.iter().enumerate() {
            line(places[i.saturating_sub(1)], *to, |x, y| dots[y * dots_x + x] = true);
        }
    }
    let cell = |column: usize, row: usize| {
        if ascii {
            return if dots[row * dots_x + column] { '*' } else { ' ' };
        }
        let mut bits = 0;
        for (dy, pair) in DOTS.iter().enumerate() {
            for (dx, bit) in pair.iter().enumerate() {
                if dots[(4 * row + dy) * dots_x + 2 * column + dx] {
                    bits |= bit;
                }
            }
        }
        char::from_u32(0x2800 + u32::from(bits)).unwrap_or(' ')
    };
    let label = |row: usize| match row {
        0 => short(y1),
        r if r + 1 == height => short(y0),
        r if 2 * r + 1 == height => short((y0 + y1) / 2.0),
        _ => String::new(),
    };
    let rows = (0..height).map(|r| (label(r), (0..width).map(|c| cell(c, r)).collect())).collect();
    Some(Curve { rows, axis: axis(&format!("{x0:.0}"), &format!("{x1:.0}"), width) })
}

/// The smallest and the largest value; for a single value, a small interval around it.
fn bounds(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    match () {
        () if low > high => None,
        () if low == high => Some((low, low + low.abs().max(1.0) * 1e-3)),
        () => Some((low, high)),
    }
}

/// The index of the dot for a value, among `n`.
fn scale(value: f64, low: f64, high: f64, n: usize) -> usize {
    (((value - low) / (high - low) * (n - 1) as f64).round() as usize).min(n - 1)
}

/// A number in three digits.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// The labels of the x axis at both ends of a line.
fn axis(left: &str, right: &str, width: usize) -> String {
    let gap = width.saturating_sub(left.len() + right.len());
    format!("{left}{}{right}", " ".repeat(gap))
}

/// Every dot on the line between two dots, both included (Bresenham).
pub fn line(from: (usize, usize), to: (usize, usize), mut dot: impl FnMut(usize, usize)) {
    let (mut x, mut y) = (from.0 as i64, from.1 as i64);
    let (x1, y1) = (to.0 as i64, to.1 as i64);
    let (dx, dy) = ((x1 - x).abs(), -(y1 - y).abs());
    let (step_x, step_y) = ((x1 - x).signum(), (y1 - y).signum());
    let mut error = dx + dy;
    loop {
        dot(x as usize, y as usize);
        if (x, y) == (x1, y1) {
            return;
        }
        let twice = 2 * error;
        if twice >= dy {
            error += dy;
            x += step_x;
        }
        if twice <= dx {
            error += dx;
            y += step_y;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_falling_line_in_braille() {
        let points = (0..8).map(|i| (i as f64, 7.0 - i as f64)).collect();
        let curve = draw(&[points], 4, 2, false).expect("finite points");
        let cells: Vec<&str> = curve.rows.iter().map(|r| r.1.as_str()).collect();
        assert_eq!(cells, ["⠑⢄⠀⠀", "⠀⠀⠑⢄"]);
        assert_eq!(curve.rows[0].0, "7.00");
        assert_eq!(curve.rows[1].0, "0.00");
        assert_eq!(curve.axis, "0  7");
    }

    #[test]
    fn ascii_uses_ascii() {
        let curve = draw(&[vec![(0.0, 1.0), (3.0, 0.0)]], 4, 3, true).expect("finite points");
        assert!(curve.rows.iter().all(|r| r.1.is_ascii()));
        assert_eq!(curve.rows[0].1, "*   ");
        assert_eq!(curve.rows[2].1, "   *");
    }

    #[test]
    fn odd_input_draws_or_says_nothing() {
        assert_eq!(draw(&[vec![]], 10, 4, false), None);
        assert_eq!(draw(&[vec![(0.0, f64::NAN)]], 10, 4, false), None);
        assert!(draw(&[vec![(5.0, 2.0)]], 10, 4, false).is_some());
        assert!(draw(&[vec![(0.0, 2.0), (1.0, f64::NAN), (2.0, 2.0)]], 1, 1, false).is_some());
    }
}
