//! The loss curve as an image file, PNG or SVG, with optional small pictures below it.

use super::picture::Picture;
use super::raster::{Image, Raster};
use crate::fault::{Fault, Outcome};
use fulgurite::files;
use plotters::prelude::*;
use std::path::Path;

/// A named curve.
#[derive(Clone, Debug)]
pub struct Series {
    /// The name in the legend.
    pub name: &'static str,
    /// Points in order of x; points that are not finite are left out.
    pub points: super::curve::Points,
}

/// Pixels of the area of the curve.
const SIZE: (u32, u32) = (960, 540);
/// The scale of a picture's pixels, and the space around and below a picture.
const ZOOM: (i32, i32, i32) = (8, 16, 24);
/// One colour per curve: blue and orange differ also for readers who do not see red or green.
const COLOURS: [RGBColor; 3] = [RGBColor(31, 119, 180), RGBColor(255, 127, 14), RGBColor(127, 127, 127)];

/// The formats of images that can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Pixels.
    Png,
    /// Lines.
    Svg,
}

/// The format in a file name.
///
/// # Errors
/// E915: an ending other than `.png` and `.svg`.
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
/// E915: the file's name ends neither in `.png` nor in `.svg`. E913: the file cannot be written.
pub fn write(path: &Path, title: &str, series: &[Series], pictures: &[Picture]) -> Outcome {
    let bug = |e: String| Fault { status: crate::fault::BUG, ..Fault::failed("E915", format!("drawing failed: {e}")) };
    let size = (SIZE.0, SIZE.1 + Strip::of(pictures).height());
    let bytes = match format(path)? {
        Format::Svg => {
            let mut text = String::new();
            draw(SVGBackend::with_string(&mut text, size), title, series, pictures, 15).map_err(bug)?;
            text.into_bytes()
        }
        Format::Png => {
            let mut image = Image::new(size.0, size.1);
            draw(Raster(&mut image), title, series, pictures, 26).map_err(bug)?;
            image.png().map_err(|e| bug(e.to_string()))?
        }
    };
    files::refresh(path, bytes).map_err(|e| Fault::unwritable(path, &e))
}

/// The layout of pictures below the curve, all in cells of one size.
struct Strip {
    /// Pixels of a cell.
    cell: (i32, i32),
    /// Cells per row, and rows.
    cells: (usize, usize),
}

impl Strip {
    fn of(pictures: &[Picture]) -> Strip {
        let (zoom, gap, caption) = ZOOM;
        let widest = pictures.iter().map(|p| p.width).max().unwrap_or(0) as i32;
        let tallest = pictures.iter().map(|p| p.shades.len().div_ceil(p.width.max(1))).max().unwrap_or(0) as i32;
        let cell = ((widest * zoom + gap).max(4 * caption), tallest * zoom + gap + caption);
        let across = ((SIZE.0 as i32 - gap) / cell.0).max(1) as usize;
        Strip { cell, cells: (across, pictures.len().div_ceil(across)) }
    }

    fn height(&self) -> u32 {
        if self.cells.1 == 0 { 0 } else { (self.cells.1 as i32 * self.cell.1 + ZOOM.1) as u32 }
    }

    /// The top left corner of picture number `i`.
    fn place(&self, i: usize) -> (i32, i32) {
        let (row, column) = (i / self.cells.0, i % self.cells.0);
        (ZOOM.1 + column as i32 * self.cell.0, ZOOM.1 + row as i32 * self.cell.1)
    }
}

fn draw<B: DrawingBackend>(
    canvas: B,
    title: &str,
    series: &[Series],
    pictures: &[Picture],
    size: u32,
) -> Result<(), String> {
    let text = |e: DrawingAreaErrorKind<B::ErrorType>| e.to_string();
    let root = canvas.into_drawing_area();
    root.fill(&WHITE).map_err(text)?;
    let (upper, lower) = root.split_vertically(SIZE.1);
    curves(&upper, title, series, size)?;
    let strip = Strip::of(pictures);
    for (i, p) in pictures.iter().enumerate() {
        let (left, top) = strip.place(i);
        let zoom = ZOOM.0;
        for (k, shade) in p.shades.iter().enumerate() {
            let (x, y) = (left + (k % p.width) as i32 * zoom, top + (k / p.width) as i32 * zoom);
            let grey = (255.0 * (1.0 - shade.clamp(0.0, 1.0))).round() as u8;
            // A filled rectangle includes its last row and column.
            let corners = [(x, y), (x + zoom - 1, y + zoom - 1)];
            lower.draw(&Rectangle::new(corners, RGBColor(grey, grey, grey).filled())).map_err(text)?;
        }
        let under = top + (p.shades.len().div_ceil(p.width.max(1)) as i32) * zoom + 4;
        let style = ("sans-serif", size).into_font().color(&BLACK);
        lower.draw(&Text::new(p.caption.as_str(), (left, under), style)).map_err(text)?;
    }
    root.present().map_err(text)
}

fn curves<B: DrawingBackend>(
    root: &DrawingArea<B, plotters::coord::Shift>,
    title: &str,
    series: &[Series],
    size: u32,
) -> Result<(), String> {
    let finite = |p: &&(f64, f64)| p.0.is_finite() && p.1.is_finite();
    let all = || series.iter().flat_map(|s| &s.points).filter(finite);
    let (x1, y0, y1) = all().fold((1.0, f64::INFINITY, f64::NEG_INFINITY), |(x, low, high): (f64, f64, f64), p| {
        (x.max(p.0), low.min(p.1), high.max(p.1))
    });
    let (y0, y1) = if y0 < y1 { (y0, y1) } else { (0.0, 1.0) };
    let margin = (y1 - y0) * 0.05;
    let text = |e: DrawingAreaErrorKind<B::ErrorType>| e.to_string();
    let mut chart = ChartBuilder::on(root)
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
        .map_err(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn falling() -> [Series; 2] {
        let points = |k: f64| (1..100).map(|i| (i as f64, k / i as f64)).collect();
        [Series { name: "train", points: points(4.0) }, Series { name: "validation", points: points(5.0) }]
    }

    fn pictures() -> Vec<Picture> {
        let shades = (0..64).map(|i| i as f32 / 63.0).collect();
        vec![Picture { width: 8, shades, caption: "3 not 8".to_owned() }; 12]
    }

    #[test]
    fn pictures_stand_under_the_curve() {
        let strip = Strip::of(&pictures());
        assert_eq!((strip.cells, strip.height()), ((9, 2), 2 * 104 + 16));
        assert_eq!((strip.place(0), strip.place(10)), ((16, 16), (112, 120)));
        assert_eq!(Strip::of(&[]).height(), 0);
        let mut text = String::new();
        draw(SVGBackend::with_string(&mut text, (960, 764)), "loss", &falling(), &pictures(), 15).expect("draws");
        assert_eq!(text.matches("3 not 8").count(), 12);
    }

    #[test]
    fn writes_both_kinds() {
        let dir = std::env::temp_dir().join(format!("fulgurite-chart-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("temp dir");
        for (name, head) in [("a.png", b"\x89PNG".as_slice()), ("a.SVG", b"<svg".as_slice())] {
            let path = dir.join(name);
            write(&path, "loss", &falling(), &pictures()).expect("writable");
            assert!(std::fs::read(&path).expect("written").starts_with(head), "{name}");
        }
        std::fs::remove_dir_all(&dir).expect("removable");
    }

    #[test]
    fn refuses_what_it_cannot_draw() {
        assert_eq!(write(Path::new("a.gif"), "", &falling(), &[]).expect_err("no gif").code, "E915");
        assert_eq!(write(Path::new("/nowhere/a.svg"), "", &falling(), &[]).expect_err("no folder").code, "E913");
        let empty = [Series { name: "train", points: vec![(0.0, f64::NAN)] }];
        draw(Raster(&mut Image::new(320, 200)), "nothing", &empty, &[], 13).expect("an empty chart");
    }
}
