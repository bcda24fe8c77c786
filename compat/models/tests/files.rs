//! Files that are no models, or broken ones, are refused with their reason; no file makes the reader panic.

mod common;

use common::{Draws, Temporary};
use fulgurite::Error;
use fulgurite_models::{import, inspect};
use std::path::Path;

/// The bytes of the small model.
fn archive() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/digits.pt2");
    std::fs::read(path).expect("the model is committed")
}

/// The archive with every `from` replaced by a text of the same length, so that all places stay right.
fn replaced(from: &str, to: &str) -> Vec<u8> {
    let (mut bytes, to) = (archive(), format!("{to:<width$}", width = from.len()));
    assert_eq!(from.len(), to.len());
    let mut count = 0;
    for at in 0..bytes.len() - from.len() {
        if bytes[at..].starts_with(from.as_bytes()) {
            bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
            count += 1;
        }
    }
    assert!(count > 0, "`{from}` does not occur");
    bytes
}

fn refused(name: &str, bytes: &[u8]) -> Error {
    let file = Temporary::new(name, bytes);
    import(&file.0).map(|_| ()).expect_err("the file is no whole model")
}

#[test]
fn other_files_are_refused_with_their_kind() {
    let reason = |name: &str, bytes: &[u8]| {
        let e = refused(name, bytes);
        (e.code(), e.claim().rsplit(": ").next().unwrap_or_default().to_owned())
    };
    assert_eq!(reason("empty", b""), ("E930", "it is empty".to_owned()));
    let pickle = "it is a pickle (`torch.save`), which can run any program when it is read".to_owned();
    assert_eq!(reason("pickle", b"\x80\x02}q\x00."), ("E930", pickle));
    assert_eq!(reason("text", b"import torch"), ("E930", "it is no zip archive".to_owned()));
    let tensors = "it is a safetensors file, which has weights and no program".to_owned();
    assert_eq!(reason("tensors", b"\x10\0\0\0\0\0\0\0{\"__metadata__\""), ("E930", tensors));
    let other = "it is a zip archive without the entry `archive_format`".to_owned();
    assert_eq!(reason("zip", &replaced("archive_format", "archive_fornat")), ("E930", other));
    assert_eq!(import("no such file").map(|_| ()).expect_err("there is none").code(), "E904");
}

#[test]
fn broken_archives_are_refused_with_the_part() {
    let whole = archive();
    assert_eq!(refused("short", &whole[..whole.len() / 2]).code(), "E931");
    let e = refused("schema", &replaced("\"major\": 8", "\"major\": 9"));
    assert!(e.code() == "E932" && e.claim().contains("schema 9.20; schema 8 can be read"), "{e}");
    let e = refused("twice", &replaced("weights/weight_12", "weights/weight_13"));
    assert!(e.code() == "E931" && e.claim().contains("there are two entries `data/weights/weight_13`"), "{e}");
    let e = refused(
        "absent",
        &replaced("\"arg\": {\"as_tensor\": {\"name\": \"relu\"", "\"arg\": {\"as_tensor\": {\"name\": \"reli\""),
    );
    assert!(e.code() == "E931" && e.claim().contains("models/model.json"), "{e}");
    let e = refused("large", &replaced("\"as_int\": 64", "\"as_int\": 99"));
    assert!(e.code() == "E931" && e.claim().contains("and the tensor needs"), "{e}");
    let e = refused("pickled", &replaced("\"use_pickle\": false", "\"use_pickle\": true"));
    assert!(e.code() == "E933" && e.claim().contains("is a pickle"), "{e}");
}

#[test]
fn everything_that_is_missing_is_listed_with_its_line() {
    let bytes = replaced("aten.convolution.default", "aten.confolution.default");
    let e = refused("missing", &bytes);
    assert_eq!(e.code(), "E934");
    assert!(e.claim().ends_with("makes 2 calls that no row implements"), "{e}");
    let [note] = e.notes() else { panic!("{e}") };
    assert!(note.starts_with("2 × aten.confolution.default (") && note.contains("conv.py:"), "{note}");
    // the model can be looked at, and a call fails at the line
    let file = Temporary::new("inspected", &bytes);
    let model = inspect(&file.0).expect("it is whole");
    let inputs = model.example_inputs().expect("sizes have a range");
    let e = model.call(&inputs).expect_err("a call has no row");
    assert!(e.code() == "E934" && e.loc().file.ends_with("conv.py"), "{e}");
}

#[test]
fn no_changed_file_makes_the_reader_panic() {
    let whole = archive();
    let mut draws = Draws(11);
    let mut accepted = 0;
    for _ in 0..1500 {
        let mut bytes = whole.clone();
        match draws.below(4) {
            0 => bytes.truncate(draws.below(whole.len())),
            1 => {
                // a part of the file at another place
                let (from, to) = (draws.below(whole.len()), draws.below(whole.len()));
                let length = draws.below(64).min(whole.len() - from).min(whole.len() - to);
                bytes[to..to + length].copy_from_slice(&whole[from..from + length]);
            }
            _ => {
                for _ in 0..=draws.below(8) {
                    // most of the file is padding: half of the changes are in the program and the directory
                    let last = whole.len() - 40_000 * draws.below(2);
                    let at = last - 1 - draws.below(last.min(45_000));
                    bytes[at] = draws.below(256) as u8;
                }
            }
        }
        let file = Temporary::new("changed", &bytes);
        if let Ok(model) = inspect(&file.0) {
            accepted += 1;
            if let Ok(inputs) = model.example_inputs() {
                let _ = model.call(&inputs);
            }
        }
    }
    assert!((50..1450).contains(&accepted), "{accepted} of 1500 files are accepted");
}
