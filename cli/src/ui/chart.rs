//! The loss curve as an image file, PNG or SVG.

use super::raster::{Image, Raster};
use crate::fault::{Fault, Outcome};
use plotters::prelude::*;
use std::path::Path;

/// A named curve.
#[derive(Clone, Debug)]
pub struct Series {
    /// As in the legend.
    pub name: &'static str,
    /// In order of x; points that aren't finite are left out.
    pub points: super::curve::Points,
}

/// Pixels of the image.
const SIZE: (u32, u32) = (960, 540);
/// One colour a curve: blue and orange, told apart by those who don't see red or green.
const COLOURS: [RGBColor; 3] = [RGBColor(31, 119, 180), RGBColor(255, 127, 14), RGBColor(127, 127, 127)];

/// The kinds of image that can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Pixels.
    Png,
    /// Lines.
    Svg,
}

/// The kind that a file name asks for.
///
/// # Errors
/// E915: another ending than `.png` and `.svg`.
pub fn format(path: &Path) -> Result<Format, Fault> {
    match path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase).as_deref() {
        Some("png") => Ok(Format::Png),
        Some("svg") => Ok(Format::Svg),
        _ => Err(Fault::usage("E915", format!("`{}` names no kind of image", path.display()))
            .help("end it with .png or .svg")),
    }
}

/// Writes the curves to a file.
///
/// # Errors
/// E915: the file's name ends in neither `.png` nor `.svg`. E913: the file can't be written.
pub fn write(path: &Path, title: &str, series: &[Series]) -> Outcome {
    let bug = |e: String| Fault { status: crate::fault::BUG, ..Fault::failed("E915", format!("drawing failed: {e}")) };
    let bytes = match format(path)? {
        Format::Svg => {
            let mut text = String::new();
            draw(SVGBackend::with_string(&mut text, SIZE), title, series, 15).map_err(bug)?;
            text.into_bytes()
        }
        Format::Png => {
            let mut image = Image::new(SIZE.0, SIZE.1);
            draw(Raster(&mut image), title, series, 26).map_err(bug)?;
            image.png().map_err(|e| bug(e.to_string()))?
        }
    };
    std::fs::write(path, bytes).map_err(|e| Fault::unwritable(path, &e))
}

fn draw<B: DrawingBackend>(canvas: B, title: &str, series: &[Series], size: u32) -> Result<(), String> {
    let finite = |p: &&(f64, f64)| p.0.is_finite() && p.1.is_finite();
    let all = || series.iter().flat_map(|s| &s.points).filter(finite);
    let (x1, y0, y1) = all().fold((1.0, f64::INFINITY, f64::NEG_INFINITY), |(x, low, high): (f64, f64, f64), p| {
        (x.max(p.0), low.min(p.1), high.max(p.1))
    });
    let (y0, y1) = if y0 < y1 { (y0, y1) } else { (0.0, 1.0) };
    let margin = (y1 - y0) * 0.05;
    let text = |e: DrawingAreaErrorKind<B::ErrorType>| e.to_string();
    let root = canvas.into_drawing_area();
    root.fill(&WHITE).map_err(text)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", size * 6 / 5))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..x1, y0 - margin..y1 + margin)
        .map_err(text)?;
    chart
        .configure_mesh()
        .x_desc("step")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .label_style(("sans-serif", size))
        .light_line_style(WHITE.mix(0.0))
        .draw()
        .map_err(text)?;
    for (s, colour) in series.iter().zip(COLOURS.iter().cycle()) {
        let points = s.points.iter().filter(finite).copied();
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))
            .map_err(text)?
            .label(s.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .label_font(("sans-serif", size))
        .draw()
        .map_err(text)?;
    root.present().map_err(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curves() -> [Series; 2] {
        let points = |k: f64| (1..100).map(|i| (i as f64, k / i as f64)).collect();
        [Series { name: "train", points: points(4.0) }, Series { name: "validation", points: points(5.0) }]
    }

    #[test]
    fn writes_both_kinds() {
        let dir = std::env::temp_dir().join(format!("fulgurite-chart-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("temp dir");
        for (name, head) in [("a.png", b"\x89PNG".as_slice()), ("a.SVG", b"<svg".as_slice())] {
            let path = dir.join(name);
            write(&path, "loss", &curves()).expect("writable");
            assert!(std::fs::read(&path).expect("written").starts_with(head), "{name}");
        }
        std::fs::remove_dir_all(&dir).expect("removable");
    }

    #[test]
    fn refuses_what_it_cannot_draw() {
        assert_eq!(write(Path::new("a.gif"), "", &curves()).expect_err("no gif").code, "E915");
        assert_eq!(write(Path::new("/nowhere/a.svg"), "", &curves()).expect_err("no folder").code, "E913");
        let empty = [Series { name: "train", points: vec![(0.0, f64::NAN)] }];
        draw(Raster(&mut Image::new(320, 200)), "nothing", &empty, 13).expect("an empty chart");
    }
}
