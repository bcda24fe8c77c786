//! An RGB image that `plotters` draws on, and its PNG file.
//!
//! The image back end of plotters needs a system font; this one writes with [`super::font`].

use super::font;
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
    text_anchor::{HPos, VPos},
};
use std::convert::Infallible;

/// An image, three bytes per pixel, row by row from the top.
#[derive(Clone, Debug)]
pub struct Image {
    width: u32,
    height: u32,
    pixels: Vec<u8>,
}

/// The canvas of plotters.
#[derive(Debug)]
pub struct Raster<'a>(pub &'a mut Image);

impl Image {
    /// A white image.
    pub fn new(width: u32, height: u32) -> Image {
        Image { width, height, pixels: vec![255; width as usize * height as usize * 3] }
    }

    /// The image as a PNG file.
    ///
    /// # Errors
    /// The error of the encoder.
    pub fn png(&self) -> Result<Vec<u8>, png::EncodingError> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.width, self.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.pixels)?;
        writer.finish()?;
        Ok(file)
    }

    fn blend(&mut self, (x, y): BackendCoord, colour: BackendColor) {
        if x < 0 || y < 0 || x >= self.width as i32 || y >= self.height as i32 {
            return;
        }
        let at = (y as usize * self.width as usize + x as usize) * 3;
        let (r, g, b) = colour.rgb;
        for (pixel, new) in self.pixels[at..at + 3].iter_mut().zip([r, g, b]) {
            *pixel = (f64::from(*pixel) * (1.0 - colour.alpha) + f64::from(new) * colour.alpha).round() as u8;
        }
    }
}

/// The pixels per dot of the font at this text size. It is chosen so that plotters' estimate of a text's width, which
/// knows no font, is right.
fn dot(size: f64) -> i32 {
    ((size / 13.0).round() as i32).max(1)
}

/// The size of a text in pixels.
fn extent(text: &str, size: f64) -> (i32, i32) {
    let letters = text.chars().count() as i32;
    ((letters * (font::WIDTH as i32 + 1) - 1).max(0) * dot(size), font::HEIGHT as i32 * dot(size))
}

impl DrawingBackend for Raster<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        (self.0.width, self.0.height)
    }

    fn ensure_prepared(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }

    fn present(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }

    fn draw_pixel(&mut self, at: BackendCoord, colour: BackendColor) -> Result<(), DrawingErrorKind<Infallible>> {
        self.0.blend(at, colour);
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        at: BackendCoord,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        let (width, height) = extent(text, style.size());
        let dot = dot(style.size());
        let x0 = match style.anchor().h_pos {
            HPos::Left => at.0,
            HPos::Center => at.0 - width / 2,
            HPos::Right => at.0 - width,
        };
        let y0 = match style.anchor().v_pos {
            VPos::Top => at.1,
            VPos::Center => at.1 - height / 2,
            VPos::Bottom => at.1 - height,
        };
        let colour = style.color();
        for (i, c) in text.chars().enumerate() {
            let x1 = x0 + (i * (font::WIDTH + 1)) as i32 * dot;
            for (column, bits) in font::letter(c).into_iter().enumerate() {
                for row in (0..font::HEIGHT).filter(|row| bits >> row & 1 == 1) {
                    let (x, y) = (x1 + column as i32 * dot, y0 + row as i32 * dot);
                    (0..dot * dot).for_each(|k| self.0.blend((x + k % dot, y + k / dot), colour));
                }
            }
        }
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        let (width, height) = extent(text, style.size());
        Ok((width as u32, height as u32))
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        let clamp = |(x, y): BackendCoord| (x.clamp(0, i32::from(u16::MAX)), y.clamp(0, i32::from(u16::MAX)));
        let ((x0, y0), (x1, y1)) = (clamp(from), clamp(to));
        let thick = style.stroke_width().max(1) as i32;
        super::curve::line((x0 as usize, y0 as usize), (x1 as usize, y1 as usize), |x, y| {
            for k in 0..thick * thick {
                self.0.blend((x as i32 + k % thick - thick / 2, y as i32 + k / thick - thick / 2), style.color());
            }
        });
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        let points: Vec<BackendCoord> = path.into_iter().collect();
        points.windows(2).try_for_each(|pair| self.draw_line(pair[0], pair[1], style))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plotters::prelude::{BLACK, Color, IntoFont, RED};

    #[test]
    fn draws_text_inside_the_image_only() {
        let mut image = Image::new(12, 8);
        let style = ("sans", 10).into_font().color(&BLACK);
        Raster(&mut image).draw_text("I", &style, (0, 0)).expect("can't fail");
        Raster(&mut image).draw_text("far away", &style, (-500, 900)).expect("can't fail");
        assert!(image.pixels.chunks(3).filter(|p| *p == [0, 0, 0]).count() >= 9);
    }

    #[test]
    fn makes_a_png() {
        let mut image = Image::new(10, 10);
        Raster(&mut image).draw_line((0, 0), (9, 9), &RED.filled()).expect("can't fail");
        let file = image.png().expect("in memory");
        let decoder = png::Decoder::new(std::io::Cursor::new(file));
        let mut reader = decoder.read_info().expect("a png");
        let mut pixels = vec![0; 300];
        reader.next_frame(&mut pixels).expect("a frame");
        assert_eq!(pixels[..3], [255, 0, 0]);
        assert_eq!(pixels[3..6], [255, 255, 255]);
    }
}
