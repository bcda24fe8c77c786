//! The command `cargo ops`.

use std::io::{Write, stderr, stdout};

fn main() {
    std::panic::set_hook(Box::new(|panic| {
        eprintln!(
            "error[E999]: this is a bug in fulgurite: {panic}\n  = help: please report it with the row that it was about"
        );
    }));
    let (mut out, mut err) = (stdout().lock(), stderr());
    let status = fulgurite_codegen::cli::run_words(std::env::args_os(), &mut out, &mut err);
    // what could not be written now has no reader
    let _ = out.flush();
    std::process::exit(status);
}
