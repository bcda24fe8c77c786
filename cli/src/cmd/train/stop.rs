//! Ctrl-C, or the system's request to end: the first asks the run to save and end, the second ends the program.

use crate::ui::Ui;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of times that ctrl-C was pressed in this process.
static PRESSED: AtomicU32 = AtomicU32::new(0);
/// Exit status that shells report for a program that ctrl-C ended: 128 + SIGINT.
pub const INTERRUPTED: u8 = 130;

/// Whether ctrl-C was pressed, or the system asked this process to end.
pub fn pressed() -> bool {
    PRESSED.load(Ordering::SeqCst) > 0
}

/// Begins to listen. Returns whether that is possible.
pub fn catch() -> bool {
    static CAUGHT: OnceLock<bool> = OnceLock::new();
    let handler = || match PRESSED.fetch_add(1, Ordering::SeqCst) {
        0 => {}
        _ => std::process::exit(i32::from(INTERRUPTED)),
    };
    *CAUGHT.get_or_init(|| ctrlc::set_handler(handler).is_ok())
}

/// Acts as if ctrl-C had been pressed once.
pub fn press() {
    PRESSED.fetch_add(1, Ordering::SeqCst);
}

/// Requests to end the run.
pub struct Stop<'a> {
    ui: &'a Ui,
}

impl<'a> Stop<'a> {
    /// Begins to listen. Warns where the system has no such signal.
    pub fn listen(ui: &'a Ui) -> Stop<'a> {
        if !catch() {
            ui.warn("ctrl-C can't be caught here: it will end the run without saving");
        }
        Stop { ui }
    }

    /// Whether ctrl-C was pressed, or the reader of the output has gone.
    pub fn asked(&self) -> bool {
        self.interrupted() || self.ui.closed()
    }

    /// Whether ctrl-C was pressed.
    pub fn interrupted(&self) -> bool {
        pressed()
    }
}
