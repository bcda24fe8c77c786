//! Small grey pictures in characters: half blocks with two pixels per cell, or one ASCII shade per pixel.

use super::Ui;

/// A picture with a caption.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Pixels per row.
    pub width: usize,
    /// 0 is paper, 1 is ink; row by row from the top.
    pub shades: Vec<f32>,
    /// The text below it.
    pub caption: String,
}

/// Shades from paper to ink.
const ASCII: &[u8] = b" .:-=+*#%@";
/// Columns between two pictures.
const GAP: usize = 3;
/// The greys of a terminal with 256 colours: 24 of them, darkest first.
const GREYS: (u8, f32) = (232, 23.0);

/// Pictures side by side in rows of `width` columns, each with its caption under it and an empty line between rows.
pub fn draw(ui: &Ui, pictures: &[Picture], width: usize) -> Vec<String> {
    let (ascii, colour) = (ui.wishes().ascii, ui.colour());
    let across = |p: &Picture| if ascii { 2 * p.width } else { p.width };
    let column = pictures.iter().map(|p| across(p).max(p.caption.chars().count())).max().unwrap_or(0).max(1);
    let fit = ((width + GAP) / (column + GAP)).max(1);
    let mut lines = Vec::new();
    for group in pictures.chunks(fit) {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let drawn: Vec<Vec<String>> = group.iter().map(|p| cells(p, ascii, colour)).collect();
        let height = drawn.iter().map(Vec::len).max().unwrap_or(0);
        for row in 0..height {
            let cells = group.iter().zip(&drawn).map(|(p, drawn)| match drawn.get(row) {
                Some(cells) => format!("{cells}{}", " ".repeat(column - across(p))),
                None => " ".repeat(column),
            });
            lines.push(cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned());
        }
        let captions = group.iter().map(|p| format!("{:column$}", p.caption));
        lines.push(captions.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned());
    }
    lines
}

/// The lines of one picture.
fn cells(p: &Picture, ascii: bool, colour: bool) -> Vec<String> {
    let rows: Vec<&[f32]> = p.shades.chunks(p.width.max(1)).collect();
    if ascii {
        let shade = |s: &f32| {
            let last = (ASCII.len() - 1) as f32;
            let letter = char::from(ASCII[(s.clamp(0.0, 1.0) * last).round() as usize]);
            [letter, letter]
        };
        return rows.iter().map(|row| row.iter().flat_map(shade).collect()).collect();
    }
    let below = |pair: &[&[f32]], i: usize| pair.get(1).and_then(|row| row.get(i)).copied().unwrap_or(0.0);
    let line = |pair: &[&[f32]]| {
        let cell = |(i, top): (usize, &f32)| match colour {
            true => grey(*top, below(pair, i)),
            false => half(*top, below(pair, i)).to_string(),
        };
        let cells: String = pair[0].iter().enumerate().map(cell).collect();
        if colour { cells + "\x1b[0m" } else { cells }
    };
    rows.chunks(2).map(line).collect()
}

/// Two pixels in colour: ink is light on a dark ground, as on most terminals.
fn grey(top: f32, bottom: f32) -> String {
    let code = |s: f32| GREYS.0 + (s.clamp(0.0, 1.0) * GREYS.1).round() as u8;
    format!("\x1b[38;5;{};48;5;{}m▀", code(top), code(bottom))
}

/// Two pixels without colour: ink or none.
fn half(top: f32, bottom: f32) -> char {
    match (top >= 0.5, bottom >= 0.5) {
        (true, true) => '█',
        (true, false) => '▀',
        (false, true) => '▄',
        (false, false) => ' ',
    }
}

#[cfg(test)]
mod tests {
    use super::super::Wishes;
    use super::*;

    fn pictures() -> [Picture; 3] {
        let shades = vec![0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.5, 0.0, 1.0];
        [1, 2, 3].map(|n| Picture { width: 3, shades: shades.clone(), caption: format!("{n} not 0") })
    }

    fn ui(ascii: bool, colour: bool) -> Ui {
        Ui::new(Wishes { ascii, colour: Some(colour), json: true, ..Wishes::default() })
    }

    #[test]
    fn half_blocks_hold_two_pixels() {
        let lines = draw(&ui(false, false), &pictures(), 20);
        assert_eq!(lines[..3], ["▄▀▄       ▄▀▄", "▀ ▀       ▀ ▀", "1 not 0   2 not 0"]);
        assert_eq!(lines[3..], ["", "▄▀▄", "▀ ▀", "3 not 0"]);
    }

    #[test]
    fn ascii_uses_ascii() {
        let lines = draw(&ui(true, false), &pictures()[..1], 80);
        assert_eq!(lines, ["  @@", "@@  @@", "++  @@", "1 not 0"]);
    }

    #[test]
    fn colours_end_with_each_picture() {
        let lines = draw(&ui(false, true), &pictures()[..1], 80);
        assert!(lines[0].starts_with("\x1b[38;5;232;48;5;255m▀") && lines[0].ends_with("\x1b[0m"), "{lines:?}");
        assert_eq!(draw(&ui(false, true), &[], 80), [""; 0]);
    }
}
