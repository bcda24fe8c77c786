//! `eval`, `trace`, and what every command has in common.

use super::command::{Folder, fulgurite};

#[test]
fn expressions_are_evaluated() {
    let f = Folder::new("eval");
    let ran = fulgurite(&f.0, &["eval", "sum([[1, 2], [3, 4]], dims = [1])"]).fine();
    assert!(ran.out.contains('3') && ran.out.contains('7'), "{}", ran.out);
    let ran = fulgurite(&f.0, &["eval", "[1, 2] * 3 + exp([0, 0]).sum()"]).fine();
    assert!(ran.out.contains('5') && ran.out.contains('8'), "{}", ran.out);
}

#[test]
fn gradients_are_shown() {
    let f = Folder::new("eval-grad");
    let ran = fulgurite(&f.0, &["eval", "square([1, 2, 3])", "--grad"]).fine();
    assert!(ran.out.contains('9') && ran.out.contains('6'), "the value and the gradient: {}", ran.out);
}

#[test]
fn wrong_expressions_are_shown_with_their_place() {
    let f = Folder::new("eval-wrong");
    for expression in
        ["gleu([1])", "sum([1, 2]", "[1, 2] + [1, 2, 3]", "softmax([1], 5)", "", "'", "((((", "[[1], [1, 2]]"]
    {
        let ran = fulgurite(&f.0, &["eval", expression]);
        assert!(matches!(ran.status, Some(1 | 2)), "`{expression}`: {:?} {}", ran.status, ran.err);
        assert!(ran.err.contains("error[E"), "`{expression}`: {}", ran.err);
        assert_eq!(ran.out, "", "`{expression}`");
    }
    let ran = fulgurite(&f.0, &["eval", "gleu([1])"]);
    assert!(ran.err.contains("gelu"), "the nearest name: {}", ran.err);
}

#[test]
fn json_stays_json() {
    let f = Folder::new("eval-json");
    for args in
        [&["eval", "exp([0, 1])", "--json"][..], &["eval", "gleu([1])", "--json"], &["trace", "--stages", "--json"]]
    {
        let ran = fulgurite(&f.0, args);
        let lines: Vec<&str> = ran.out.lines().collect();
        assert!(!lines.is_empty(), "{args:?}: {}", ran.err);
        for line in lines {
            let parsed: Result<serde_json::Value, _> = serde_json::from_str(line);
            assert!(parsed.is_ok_and(|v| v["v"] == 1), "{args:?}: {line}");
        }
    }
}

#[test]
fn traces_are_shown() {
    let f = Folder::new("trace");
    let ran = fulgurite(&f.0, &["trace", "--stages"]).fine();
    assert!(ran.out.contains("acquired"), "{}", ran.out);
    let ran = fulgurite(&f.0, &["trace"]).fine();
    assert!(ran.out.contains("matmul"), "{}", ran.out);
    let ran = fulgurite(&f.0, &["trace", "--stage", "no such stage"]);
    assert_eq!(ran.status, Some(2), "{}", ran.err);
}

#[test]
fn wrong_use_is_status_2() {
    let f = Folder::new("usage");
    for args in [&["no-such-command"][..], &["train", "--no-such-option"], &["train", "--steps", "many"]] {
        assert_eq!(fulgurite(&f.0, args).status, Some(2), "{args:?}");
    }
    assert!(fulgurite(&f.0, &["--help"]).fine().out.contains("train"));
}
