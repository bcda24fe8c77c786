//! Trace files: an input, a line `--- transform`, and what the transform gives.

use fulgurite_runtime::trace::{PrintOptions, Trace};
use std::path::{Path, PathBuf};

/// The text that a trace is compared by.
pub fn plain(trace: &Trace) -> String {
    trace.print(&PrintOptions::plain())
}

/// Runs `transform` on the input of every file in `tests/traces/<folder>` and compares what it prints with the rest of
/// the file. `UPDATE_EXPECT=1` writes what it prints instead.
pub fn check(folder: &str, transform: impl Fn(&Trace) -> Result<String, String>) {
    super::database();
    let folder_path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces").join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder_path)
        .unwrap_or_else(|e| panic!("{}: {e}", folder_path.display()))
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|p| p.extension().is_some_and(|e| e == "trace"))
        .collect();
    files.sort();
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut failures = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let marker = format!("--- {folder}\n");
        let (input, expected) = text.split_once(&marker).unwrap_or((&text, ""));
        let got = match Trace::parse(input) {
            Ok(trace) => transform(&trace).unwrap_or_else(|e| format!("{e}\n")),
            Err(e) => format!("input: {e}\n"),
        };
        if got == expected {
            continue;
        }
        if update {
            std::fs::write(&path, format!("{}\n{marker}{got}", input.trim_end())).expect("a writable file");
        } else {
            failures.push(format!("{}:\n{}", path.display(), diff(expected, &got)));
        }
    }
    assert!(failures.is_empty(), "{}\nUPDATE_EXPECT=1 rewrites", failures.join("\n"));
}

/// Lines of one side only, marked.
fn diff(expected: &str, got: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (expected.lines().collect(), got.lines().collect());
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - start;
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count().min(rest);
    let minus = old[start..old.len() - end].iter().map(|l| format!("-{l}"));
    let plus = new[start..new.len() - end].iter().map(|l| format!("+{l}"));
    minus.chain(plus).collect::<Vec<_>>().join("\n")
}
