//! Ctrl-C, or the system's request to end: the first asks the run to save and end, the second ends the program.

use crate::ui::Ui;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// How often ctrl-C was pressed in this process.
static PRESSED: AtomicU32 = AtomicU32::new(0);
/// What shells give for a program that ctrl-C ended: 128 + SIGINT.
pub const INTERRUPTED: u8 = 130;

/// Whether somebody pressed it, or the system asked this process to end.
pub fn pressed() -> bool {
    PRESSED.load(Ordering::SeqCst) > 0
}

/// Listens from now on, if that is possible.
pub fn catch() -> bool {
    static CAUGHT: OnceLock<bool> = OnceLock::new();
    let handler = || match PRESSED.fetch_add(1, Ordering::SeqCst) {
        0 => {}
        _ => std::process::exit(i32::from(INTERRUPTED)),
    };
    *CAUGHT.get_or_init(|| ctrlc::set_handler(handler).is_ok())
}

/// As if somebody had pressed it once.
pub fn press() {
    PRESSED.fetch_add(1, Ordering::SeqCst);
}

/// Whether the run should end.
pub struct Stop<'a> {
    ui: &'a Ui,
}

impl<'a> Stop<'a> {
    /// Listens from now on. Where the system has no such signal, nothing ever asks.
    pub fn listen(ui: &'a Ui) -> Stop<'a> {
        if !catch() {
            ui.warn("ctrl-C can't be caught here: it will end the run without saving");
        }
        Stop { ui }
    }

    /// Whether somebody pressed ctrl-C, or nobody reads the output any more.
    pub fn asked(&self) -> bool {
        self.interrupted() || self.ui.closed()
    }

    /// Whether somebody pressed ctrl-C.
    pub fn interrupted(&self) -> bool {
        pressed()
    }
}
