//! What the compiler says about wrong programs: `ui/*.rs`, each beside the text that rustc prints.
//!
//! The programs are compiled by rustc alone against the library that these tests were linked with, so a case costs a
//! second and nothing is built twice.

use expect_test::expect_file;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn messages_of_the_compiler() {
    let root = fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).expect("the repository");
    let library = library();
    let mut cases: Vec<PathBuf> = fs::read_dir(root.join("tests/ui"))
        .expect("a folder of programs")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .collect();
    cases.sort();
    assert!(!cases.is_empty());
    let half = cases.len().div_ceil(2);
    let mut said: Vec<String> = Vec::new();
    std::thread::scope(|s| {
        let workers: Vec<_> = (cases.chunks(half))
            .map(|part| s.spawn(|| part.iter().map(|case| messages(&root, &library, case)).collect::<Vec<_>>()))
            .collect();
        workers.into_iter().for_each(|w| said.extend(w.join().expect("rustc was run")));
    });
    for (case, said) in cases.iter().zip(said) {
        assert!(said.contains("error"), "{} compiles", case.display());
        expect_file![case.with_extension("stderr")].assert_eq(&said);
    }
}

/// The library that these tests were linked with: the newest that is not newer than they are. Where cargo keeps several,
/// they differ in features of dependencies only: had a source changed since, it would have built this one again.
fn library() -> PathBuf {
    let program = std::env::current_exe().expect("a program runs");
    let time = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).expect("a time");
    let linked = time(&program);
    fs::read_dir(program.parent().expect("a file is in a folder"))
        .expect("the folder of what cargo builds")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| {
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            name.starts_with("libfulgurite-") && name.ends_with(".rlib") && time(path) <= linked
        })
        .max_by_key(|path| time(path))
        .expect("a library that is linked is a file")
}

/// How many errors there were, where to read more, and where a long type is spelt out.
const NOT_ABOUT_THE_PROGRAM: [&str; 4] = [
    "error: aborting due to",
    "For more information about",
    "the full name for the type has been written to",
    "consider using `--verbose` to print the full type name",
];

/// What rustc says about a program.
fn messages(root: &Path, library: &Path, case: &Path) -> String {
    let dependencies = library.parent().expect("a file is in a folder");
    let said = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition=2024", "--crate-type=bin", "--emit=metadata=-", "--color=never", "--diagnostic-width=140"])
        .args(["--allow=unused", "--extern"])
        .arg(format!("fulgurite={}", library.display()))
        .arg(format!("-Ldependency={}", dependencies.display()))
        // where rustc spells out the types that are too long for a message
        .args(["--out-dir", env!("CARGO_TARGET_TMPDIR")])
        .arg(case.strip_prefix(root).expect("a program of this repository"))
        .current_dir(root)
        .output()
        .expect("rustc runs");
    settled(&String::from_utf8_lossy(&said.stderr), root)
}

/// The text without what changes when the library is edited: folders, lines of other files, how wide line numbers are.
fn settled(said: &str, root: &Path) -> String {
    let said = said.replace(&format!("{}/", root.display()), "");
    let mut text = String::new();
    let mut ours = true;
    for line in said.lines().filter(|l| !NOT_ABOUT_THE_PROGRAM.iter().any(|n| l.contains(n))) {
        let body = line.trim_start();
        let digits = body.len() - body.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let arrow = ["--> ", "::: "].into_iter().find_map(|a| body.strip_prefix(a).map(|path| (a, path)));
        if let Some((arrow, path)) = arrow {
            ours = path.starts_with("tests/ui/");
            let place = if ours { path } else { path.split(':').next().unwrap_or(path) };
            text += &format!("  {arrow}{place}\n");
        } else if digits > 0 && body[digits..].starts_with(' ') {
            text += &format!("{:>2}{}\n", if ours { &body[..digits] } else { "" }, &body[digits..]);
        } else if body.starts_with(['|', '=']) {
            text += &format!("   {body}\n");
        } else {
            text += line.trim_end();
            text.push('\n');
        }
    }
    while text.ends_with("\n\n") {
        text.pop();
    }
    text
}
