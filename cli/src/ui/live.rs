//! Live output: a block at the bottom of the terminal that is redrawn in place, below the other lines.

use super::{Ink, Ui};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// A block of lines at the bottom of the terminal.
#[derive(Debug)]
pub struct Live<'a> {
    ui: &'a Ui,
    drawn: Cell<usize>,
    last: Cell<Option<Instant>>,
}

/// The least time between two drawings: faster ones only flicker.
const PAUSE: Duration = Duration::from_millis(100);

impl<'a> Live<'a> {
    /// An empty block.
    pub fn new(ui: &'a Ui) -> Live<'a> {
        Live { ui, drawn: Cell::new(0), last: Cell::new(None) }
    }

    /// Whether the last drawing is long enough ago.
    pub fn due(&self) -> bool {
        self.last.get().is_none_or(|last| last.elapsed() >= PAUSE)
    }

    /// Draws these lines in place of the previous ones.
    pub fn draw(&self, lines: &[String]) {
        let mut text = self.erase();
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        self.ui.raw_error(&text);
        self.drawn.set(lines.len());
        self.last.set(Some(Instant::now()));
    }

    /// Erases the block, so that other lines can be printed.
    pub fn clear(&self) {
        let text = self.erase();
        if !text.is_empty() {
            self.ui.raw_error(&text);
        }
        self.drawn.set(0);
        self.last.set(None);
    }

    fn erase(&self) -> String {
        match self.drawn.get() {
            0 => String::new(),
            n => format!("\x1b[{n}A\x1b[J"),
        }
    }
}

/// A bar of `width` columns, filled up to `part` of 1.
pub fn bar(ui: &Ui, part: f64, width: usize) -> String {
    let full = ((part.clamp(0.0, 1.0) * width as f64).round() as usize).min(width);
    let (filled, empty) = (ui.glyph("━", "="), ui.glyph("─", "-"));
    format!("{}{}", ui.paint(Ink::Line, &filled.repeat(full)), ui.paint(Ink::Faint, &empty.repeat(width - full)))
}

#[cfg(test)]
mod tests {
    use super::super::Wishes;
    use super::*;

    #[test]
    fn bars_keep_their_width() {
        let ui = Ui::new(Wishes { ascii: true, json: true, ..Wishes::default() });
        assert_eq!(bar(&ui, 0.5, 8), "====----");
        assert_eq!(bar(&ui, -1.0, 4), "----");
        assert_eq!(bar(&ui, 7.0, 4), "====");
        assert_eq!(bar(&ui, f64::NAN, 2), "--");
    }
}
