//! Files: one job each, nothing left open.

use super::modules::{CRATES, code, is_test_file};
use super::{files_with, none, read, root, shown};

/// Longer files are named in the test's output.
const WARN: usize = 700;
/// Longer files fail.
const FAIL: usize = 1000;

#[test]
fn files_are_short_enough_to_be_read() {
    let mut faults = Vec::new();
    for path in files_with("rs", &root()) {
        let lines = read(&path).lines().count();
        if lines > FAIL {
            faults.push(format!("{} has {lines} lines", shown(&path)));
        } else if lines > WARN {
            eprintln!("warning: {} has {lines} lines, more than {WARN}", shown(&path));
        }
    }
    none(faults, "a file has one job and at most 1000 lines");
}

#[test]
fn nothing_is_left_open() {
    // put together, so that this file does not hold them
    let marks = ["todo", "unimplemented", "dbg"].map(|m| format!("{m}!("));
    let mut faults = Vec::new();
    for path in files_with("rs", &root()) {
        for (i, line) in read(&path).lines().enumerate() {
            let code = line.split("//").next().unwrap_or(line);
            if marks.iter().any(|m| code.contains(m.as_str())) {
                faults.push(format!("{}:{}: {}", shown(&path), i + 1, line.trim()));
            }
        }
    }
    none(faults, "no placeholder stands in the code");
}

/// What is wrong is an error with a message, and what tests ask is asked in tests. Constants are asked while compiling.
/// What can't be reached is so by an invariant, which the line before names.
#[test]
fn what_runs_does_not_stop_the_program() {
    let marks =
        ["assert!(", "assert_eq!(", "assert_ne!(", "panic!(", ".unwrap()", ".unwrap_err()", ".expect(", ".expect_err("];
    let mut faults = Vec::new();
    for krate in CRATES.iter().filter(|krate| **krate != "tests") {
        for path in files_with("rs", &root().join(krate).join("src")).into_iter().filter(|path| !is_test_file(path)) {
            let whole = read(&path);
            let (text, remarks): (_, Vec<&str>) = (code(&whole), whole.lines().collect());
            let lines: Vec<&str> = text.lines().collect();
            for (i, line) in lines.iter().enumerate() {
                let near = i.saturating_sub(2)..=i;
                let in_const = lines[near.clone()].iter().any(|l| l.contains("const {") || l.contains("const _"));
                // a parser's `expect` gives an error
                let fine = in_const
                    || line.contains("debug_assert")
                    || line.contains("self.expect(")
                    || line.contains(" p.expect(");
                let stated = remarks[near].iter().any(|remark| remark.contains("// invariant: "));
                let stops = marks.iter().any(|mark| line.contains(mark)) && !fine;
                if stops || line.contains("unreachable!(") && !stated {
                    faults.push(format!("{}:{}: {}", shown(&path), i + 1, line.trim()));
                }
            }
        }
    }
    none(faults, "no assertion and no unwrap stands in what runs");
}
