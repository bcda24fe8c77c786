//! The command `cargo ops`.

use std::io::{Write, stderr, stdout};

use fulgurite_ops_verbs::cli;
use fulgurite_site::command::SiteVerb;

/// A check makes millions of values that live for a moment: with the allocator of the system it takes a tenth longer.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    std::panic::set_hook(Box::new(|panic| {
        eprintln!(
            "error[E999]: this is a bug in fulgurite: {panic}\n  = help: please report it with the row that it was about"
        );
    }));
    let (mut out, mut err) = (stdout().lock(), stderr());
    let status = cli::run_kept::<SiteVerb>(std::env::args_os(), cli::kept(), &mut out, &mut err);
    // what could not be written now has no reader
    let _ = out.flush();
    std::process::exit(status);
}
