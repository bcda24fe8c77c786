//! Plots of functions of one number as SVG, whose colours come from the page's style sheet.

use std::fmt::Write;

/// Width and height of a plot in its own units, and the margins for the labels of its axes.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 26.0;

/// Values far outside of the others are cut off: this share of them at each end may lie outside of the picture.
const CUT: f64 = 0.04;
/// A step between neighbours of more than this share of the height is a jump, unless the slope accounts for it.
const JUMP: f64 = 0.08;
/// About this many labels stand on an axis.
const LABELS: f64 = 5.0;

/// A curve: its name, and a value (and a slope, where it is known) for each of the numbers.
pub struct PlotCurve {
    /// The name in the legend.
    pub name: String,
    /// The values; those that are not finite are left out.
    pub values: Vec<f64>,
    /// The slopes, from which jumps are told.
    pub slopes: Vec<f64>,
}

/// The picture of curves over the numbers `x`, which grow evenly; `None` if no value is finite. `title` is what a screen
/// reader says.
pub fn svg(x: &[f64], curves: &[PlotCurve], title: &str) -> Option<String> {
    let (first, last) = (*x.first()?, *x.last()?);
    if first.partial_cmp(&last) != Some(std::cmp::Ordering::Less) {
        return None;
    }
    let (low, high) = range(curves)?;
    let across = |v: f64| LEFT + (v - first) / (last - first) * (WIDTH - LEFT - RIGHT);
    let down = |v: f64| TOP + (high - v) / (high - low) * (HEIGHT - TOP - BOTTOM);
    let mut out = format!(
        "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        crate::html::escape(title)
    );
    for v in ticks(first, last) {
        let at = across(v);
        let class = if v == 0.0 { "axis" } else { "grid" };
        let _ = write!(
            out,
            "<line class=\"{class}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - BOTTOM,
            HEIGHT - 8.0,
            label(v)
        );
    }
    for v in ticks(low, high) {
        let at = down(v);
        let class = if v == 0.0 { "axis" } else { "grid" };
        let _ = write!(
            out,
            "<line class=\"{class}\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 5.0,
            at + 4.0,
            label(v)
        );
    }
    for (n, curve) in curves.iter().enumerate() {
        let _ = write!(out, "<path class=\"curve c{n}\" d=\"{}\"/>", path(x, curve, (low, high), &across, &down));
    }
    for (n, curve) in curves.iter().enumerate() {
        let y = TOP + 14.0 + 16.0 * n as f64;
        let _ = write!(
            out,
            "<line class=\"curve c{n}\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/><text class=\"legend\" x=\"{}\" \
             y=\"{y}\">{}</text>",
            LEFT + 8.0,
            LEFT + 30.0,
            y - 4.0,
            y - 4.0,
            LEFT + 36.0,
            crate::html::escape(&curve.name)
        );
    }
    out += "</svg>";
    Some(out)
}

/// The range of the values without their extremes, with some room above and below.
fn range(curves: &[PlotCurve]) -> Option<(f64, f64)> {
    let mut all: Vec<f64> = curves.iter().flat_map(|c| c.values.iter().copied()).filter(|v| v.is_finite()).collect();
    all.sort_by(f64::total_cmp);
    let cut = (all.len() as f64 * CUT) as usize;
    let (least, most) = (*all.first()?, *all.last()?);
    let (inner_least, inner_most) = (*all.get(cut)?, *all.get(all.len() - 1 - cut)?);
    // extremes are cut off only where they would flatten the rest
    let inner = (inner_most - inner_least).max(1e-3);
    let low = if inner_least - least > inner { inner_least - 0.1 * inner } else { least };
    let high = if most - inner_most > inner { inner_most + 0.1 * inner } else { most };
    let room = 0.06 * (high - low).max(1e-9 * high.abs()).max(1e-3);
    let (low, high) = (low - room, high + room);
    (high - low).is_finite().then_some((low, high))
}

/// The path of a curve; it is broken where the function jumps, is not finite, or leaves the picture.
fn path(
    x: &[f64],
    curve: &PlotCurve,
    (low, high): (f64, f64),
    across: &dyn Fn(f64) -> f64,
    down: &dyn Fn(f64) -> f64,
) -> String {
    let mut out = String::new();
    let mut before: Option<(f64, f64, f64)> = None;
    for (n, (x, v)) in x.iter().zip(&curve.values).enumerate() {
        let slope = curve.slopes.get(n).copied().filter(|s| s.is_finite());
        if !v.is_finite() {
            before = None;
            continue;
        }
        // a point outside is drawn at the edge, once, so that the curve leaves the picture
        let room = 0.2 * (high - low);
        let shown = v.clamp(low - room, high + room);
        let jump = before.is_some_and(|(x0, v0, slope0)| {
            let steepest = slope0.abs().max(slope.map_or(f64::INFINITY, f64::abs));
            (v - v0).abs() > JUMP * (high - low) && (v - v0).abs() > 4.0 * steepest * (x - x0)
        });
        let pen = if before.is_none() || jump { 'M' } else { 'L' };
        let _ = write!(out, "{pen}{:.1} {:.1}", across(*x), down(shown));
        before = Some((*x, *v, slope.unwrap_or(f64::INFINITY)));
    }
    out
}

/// Round numbers between the bounds.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / LABELS;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= rough).unwrap_or(power);
    // beyond f64's digits there are no round numbers between the bounds
    if !(step.is_finite() && step > 0.0 && low.abs().max(high.abs()) / step < 1e12) {
        return Vec::new();
    }
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last).map(|n| n as f64 * step).collect()
}

fn label(v: f64) -> String {
    fulgurite_codegen::check::gradients::show::number(v).replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::{PlotCurve, svg};

    fn line(values: Vec<f64>) -> String {
        let x: Vec<f64> = (0..values.len()).map(|n| n as f64).collect();
        svg(&x, &[PlotCurve { name: "f".to_owned(), values, slopes: vec![0.0; x.len()] }], "f").unwrap_or_default()
    }

    #[test]
    fn a_curve_is_broken_where_it_jumps_and_where_it_has_no_value() {
        let moves = |text: &str| text.split("d=\"").nth(1).map_or(0, |path| path.matches('M').count());
        assert_eq!(moves(&line(vec![0.0, 0.0, 0.0, 0.0])), 1);
        assert_eq!(moves(&line(vec![0.0, 0.0, 1.0, 1.0])), 2);
        assert_eq!(moves(&line(vec![0.0, f64::NAN, 0.0, f64::INFINITY])), 2);
    }

    #[test]
    fn numbers_at_the_ends_of_the_range_are_drawn_without_labels() {
        for values in [vec![1e300, 1e300], vec![1e-300, 0.0], vec![0.0, 0.0]] {
            let made = line(values);
            assert!(made.contains("<path") && !made.contains("NaN"), "{made}");
        }
        assert_eq!(line(vec![1e308, -1e308]), "", "the distance is no f64");
        let one = PlotCurve { name: "f".to_owned(), values: vec![1.0, 1.0], slopes: vec![0.0; 2] };
        assert_eq!(svg(&[1.0, 1.0], &[one], "f"), None);
    }

    #[test]
    fn nothing_is_drawn_without_a_finite_value() {
        assert_eq!(line(vec![f64::NAN, f64::INFINITY]), "");
    }
}
