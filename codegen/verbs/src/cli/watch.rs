//! `cargo ops check --watch`: polls the file, and checks the rows that changed in it.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fulgurite_codegen::files::Files;
use fulgurite_codegen::known::Known;
use fulgurite_core::counted;

use super::check::Check;
use super::load;
use super::paint::Paint;
use super::{Common, Outcome};

/// The interval of polling: short enough that a change is reported before the user looks up from the editor.
const EVERY: Duration = Duration::from_millis(60);

/// Runs until the reader of the output closes it, or Ctrl-C ends the process.
pub(super) fn run(check: &Check, common: &Common, paint: &Paint, out: &mut dyn Write, err: &mut dyn Write) -> Outcome {
    let files = load::read(common, check.file.as_deref())?;
    let path = files.rows.path.clone();
    // The upstream database is found once, not in each round.
    let common = &Common { upstream: load::upstream_file(common, &path)?, ..common.clone() };
    // The files that must exist come first.
    let needed: Vec<PathBuf> = [path.clone()].into_iter().chain(common.upstream.clone()).collect();
    let watched = |files: &Files| [needed.clone(), files.paths()].concat();
    let mut files = watched(&files);
    let mut known = Known::read(check.kept(common));
    let mut stamps: Vec<Option<Stamp>> = Vec::new();
    let mut last: Vec<Option<Stamp>> = files.iter().map(|file| stamp(file)).collect();
    loop {
        let now: Vec<Option<Stamp>> = files.iter().map(|file| stamp(file)).collect();
        // An editor may remove a file before it writes the new one, and may write it in parts.
        if now == stamps || now != last || now.iter().take(needed.len()).any(Option::is_none) {
            last = now;
            std::thread::sleep(EVERY);
            continue;
        }
        let round = check.round(common, &mut known)?;
        // The folder may have other files than before.
        let read = watched(&round.loaded.files);
        stamps = if read == files { now } else { read.iter().map(|file| stamp(file)).collect() };
        files = read;
        if std::io::stdout().is_terminal() && !common.json {
            write!(out, "\x1b[2J\x1b[H")?;
        }
        check.report(&round, common, paint, out, err)?;
        let loaded = &round.loaded;
        // A later edit may add the requested row, so a missing one does not end the loop.
        let faults = check.only.iter().filter(|_| loaded.diags.errors() == 0).filter_map(|op| loaded.find(op).err());
        faults.for_each(|fault| _ = fault.report(common.json, paint, out, err));
        if !common.json && !common.quiet {
            let faults = match loaded.diags.errors() {
                0 => "no errors".to_owned(),
                n => counted(n, "error", "errors"),
            };
            let line = format!("{faults}; watching {} (Ctrl-C ends)", path.display());
            writeln!(out, "{}", paint.faint(&line))?;
        }
        out.flush()?;
        if let Some(kept) = check.kept(common) {
            known.write(kept);
        }
    }
}

/// The time of the last write, and the length of a file.
type Stamp = (SystemTime, u64);

fn stamp(path: &Path) -> Option<Stamp> {
    let about = std::fs::metadata(path).ok()?;
    Some((about.modified().ok()?, about.len()))
}
