//! Models with parts exchanged, removed, repeated, or of other numbers are read or refused, in bounded time and memory,
//! and none of them makes the reader panic.
//!
//! `MUTATED_MODELS=100000 cargo test --release -p fulgurite-models --test mutated` reads more of them than a usual run.

mod common;
#[path = "mutated/json.rs"]
mod json;
#[path = "mutated/message.rs"]
mod message;

use common::{Draws, Temporary};
use fulgurite_models::inspect;
use rawzip::{Error, ZipArchive, ZipArchiveWriter};
use std::io::Write;
use std::time::Duration;

/// The number of files that a usual run reads of each format.
const FILES: usize = 600;

/// No file may take longer on the processor, in a debug build.
const LONGEST: Duration = Duration::from_secs(1);

/// The memory that a file may take: a multiple of its size, and what the program takes for any file.
const MEMORY: (usize, usize) = (16, 8 << 20);

/// Reads the file and drops what it says.
fn read(what: &str, name: &str, bytes: &[u8]) -> bool {
    let file = Temporary::new(name, bytes);
    // Linux counts the most memory that was in use since this was written.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let (before, started) = (memory("VmRSS:"), worked());
    let found = inspect(&file.0);
    let (took, most) = (worked().saturating_sub(started), memory("VmHWM:"));
    let allowed = MEMORY.0 * bytes.len() + MEMORY.1;
    let keep = || {
        let path = std::env::temp_dir().join(format!("mutated-{what}"));
        let _ = std::fs::copy(&file.0, &path);
        path.display().to_string()
    };
    assert!(took <= LONGEST, "{} takes {took:?}", keep());
    if let (Some(before), Some(most)) = (before, most) {
        let grown = most.saturating_sub(before);
        assert!(grown <= allowed, "{} of {} bytes takes {grown} bytes of memory", keep(), bytes.len());
    }
    found.is_ok()
}

/// The time that this thread has run, where the system says it: other programs take none of it.
fn worked() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|n| n.parse().ok());
    nanoseconds.map_or(Duration::ZERO, Duration::from_nanos)
}

/// A count of bytes in the process's status, where the system has one.
fn memory(key: &str) -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok().map(|kb| kb << 10)
}

/// Reads each model, so that what the reader keeps is there, and then mutants of them. Some of these must be accepted and some refused, or the mutations show nothing.
fn mutants(names: &[&str], ending: &str, mut mutant: impl FnMut(&[u8], &mut Draws) -> Vec<u8>) {
    let files = std::env::var("MUTATED_MODELS").ok().and_then(|n| n.parse().ok()).unwrap_or(FILES);
    names.iter().for_each(|name| assert!(inspect(common::file(name)).is_ok(), "{name} is a model"));
    let mut draws = Draws(13);
    let mut accepted = 0;
    for n in 0..files {
        let name = names[n % names.len()];
        let whole = std::fs::read(common::file(name)).expect("the model is committed");
        accepted +=
            usize::from(read(&format!("{n}{ending}"), &format!("mutated{ending}"), &mutant(&whole, &mut draws)));
    }
    assert!((files / 20..files - files / 20).contains(&accepted), "{accepted} of {files} files are accepted");
}

/// One test, because the memory of the whole process is measured.
#[test]
fn mutated_models_are_read_or_refused() {
    let names = ["digits.pt2", "control.pt2", "cache.pt2", "writes.train.pt2", "split.train.pt2", "digits.joint.pt2"];
    mutants(&names, ".pt2", |whole, draws| mutated_archive(whole, draws).expect("the archive is whole"));
    mutants(&["digits.onnx", "control.onnx"], ".onnx", message::mutant);
}

/// The archive with mutations in one of its texts.
fn mutated_archive(whole: &[u8], draws: &mut Draws) -> Result<Vec<u8>, Error> {
    let archive = ZipArchive::from_slice(whole)?;
    let mut writer = ZipArchiveWriter::new(Vec::new());
    let mut records = archive.entries();
    while let Some(record) = records.next_entry()? {
        let name = String::from_utf8_lossy(record.file_path().as_ref()).into_owned();
        let mut bytes = archive.get_entry(record.wayfinder())?.data().to_vec();
        // most of the mutants are of the program
        if name.ends_with(".json") && (name.ends_with("model.json") || draws.below(8) == 0) {
            bytes = json::mutant(&bytes, draws);
        }
        let (mut entry, config) = writer.new_file(&name).start()?;
        let mut data = config.wrap(&mut entry);
        data.write_all(&bytes).map_err(Error::from)?;
        let (_, descriptor) = data.finish()?;
        entry.finish(descriptor)?;
    }
    writer.finish()
}
