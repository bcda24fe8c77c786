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

/// What f64 has no digits for is read as it is written.
#[test]
fn whole_numbers_are_exact() {
    let f = Folder::new("eval-whole");
    for (expression, result) in [
        ("[9007199254740993] as i64", "[9007199254740993]  i64[1]\n"),
        ("[9223372036854775807, -9223372036854775808] as i64", "[9223372036854775807, -9223372036854775808]  i64[2]\n"),
        ("([9007199254740992] as i64) + 9007199254740993", "[18014398509481985]  i64[1]\n"),
        ("onnx.Slice([1, 2, 3], [2], [-9223372036854775808], [0], [-9223372036854775808])", "[3]  f32[1]\n"),
        ("clamp([100] as u8, 0, 300)", "[100]  u8[1]\n"),
        ("lt([44, 100] as u8, 300)", "[true, true]  bool[2]\n"),
        ("hardtanh([1, 2], lo = nan)", "[nan, nan]  f32[2]\n"),
    ] {
        assert_eq!(fulgurite(&f.0, &["eval", expression]).fine().out, result, "{expression}");
    }
}

#[test]
fn gradients_are_shown() {
    let f = Folder::new("eval-grad");
    let ran = fulgurite(&f.0, &["eval", "square([1, 2, 3])", "--grad"]).fine();
    assert!(ran.out.contains('9') && ran.out.contains('6'), "the value and the gradient: {}", ran.out);
}

/// Rows of a file run before they are built, by their meaning and their gradient.
#[test]
fn rows_of_a_file_need_no_build() {
    let f = Folder::new("eval-own");
    let rows = "ops:\n\n- op: mine\n  doc: A square and one\n  promote: float\n  expr: x * x + 1\n\n\
                - op: both\n  doc: A sum of them\n  sig: '(x: T[..S]) -> T[]'\n  dtypes: float\n  decomp: sum(mine(x as acc(T))) as T\n\n\
                - op: bad\n  doc: A wrong gradient\n  promote: float\n  expr: x * x\n  grad: {x: 'unbroadcast(g * x, x)'}\n";
    std::fs::write(f.0.join("mine.yaml"), rows).expect("a database");
    let eval = |expression: &str, more: &[&str]| fulgurite(&f.0, &[&["eval", expression, "--grad"], more].concat());
    let ran = eval("both([1, 2, 3])", &["--file", "mine.yaml"]).fine();
    assert_eq!(ran.out, "            17  f32[]\nd/d both.x  [2, 4, 6]  f32[3]\n");
    // a row with a fault has no value, and others of its file have
    let ran = eval("bad([1])", &["--file", "mine.yaml"]).refused(1, "E903");
    assert!(ran.err.contains("cargo ops check --only bad"), "{}", ran.err);
    // the database of this folder is found where an operator is unknown
    std::fs::rename(f.0.join("mine.yaml"), f.0.join("ops.yaml")).expect("a database");
    assert!(eval("mine([2])", &[]).fine().out.contains("[5]"));
    eval("nothing([2])", &[]).refused(2, "E903");
    // a database that is there and can't be read is the fault, not the operator
    std::fs::write(f.0.join("ops.yaml"), [0xff, 0xfe, 0x00]).expect("a file");
    let ran = eval("mine([2])", &[]).refused(2, "E910");
    assert!(ran.err.contains("ops.yaml"), "{}", ran.err);
    std::fs::write(f.0.join("ops.yaml"), format!("points: missing\n{rows}")).expect("a file");
    eval("mine([2])", &[]).refused(2, "E910");
    // a row of the program that the file means otherwise is not computed in silence
    std::fs::write(f.0.join("ops.yaml"), rows.replace("op: mine", "op: square").replace("mine(x as", "square(x as"))
        .expect("a database");
    let ran = eval("square([2])", &["--file", "ops.yaml"]).refused(1, "E917");
    assert!(ran.err.contains("another row in this program"), "{}", ran.err);
}

/// Rows in the signatures of other libraries have names with dots, and a name of theirs leads to the row.
#[test]
fn names_of_other_libraries_are_known() {
    let f = Folder::new("eval-foreign");
    let eval = |expression: &str| fulgurite(&f.0, &["eval", expression]);
    assert_eq!(eval("aten.add([1, 2], [3, 4], alpha = 2)").fine().out, "[7, 10]  f32[2]\n");
    let ran = eval("concat([[1]], [[2]])").refused(2, "E903");
    assert!(ran.err.contains("`cat` is the row of"), "{}", ran.err);
    let ran = eval("torch.relu([1])").refused(2, "E903");
    assert!(ran.err.contains("`relu` is the row of"), "{}", ran.err);
    eval("aten.nothing([1])").refused(2, "E903");
    eval("aten.add").refused(2, "E917");
}

/// A number that would be an element, and that the dtype can't hold, is refused.
#[test]
fn numbers_that_do_not_fit_are_refused() {
    let f = Folder::new("eval-numbers");
    for expression in [
        "full([1], 300, u8)",
        "where([true], [1] as u8, 300)",
        "clamp([1] as i8, lo = 128)",
        "full([1], inf, i64)",
        "full([1], 70000, f16)",
        "masked_fill([1] as bf16, [true], -1e39)",
    ] {
        let ran = fulgurite(&f.0, &["eval", expression]).refused(1, "E704");
        assert!(ran.err.contains("can't hold"), "{}", ran.err);
    }
    assert_eq!(fulgurite(&f.0, &["eval", "where([false], [1] as u8, -1)"]).fine().out, "[255]  u8[1]\n");
    assert_eq!(fulgurite(&f.0, &["eval", "full([1], inf, f16)"]).fine().out, "[inf]  f16[1]\n");
    assert_eq!(fulgurite(&f.0, &["eval", "full([1], 65504, f16)"]).fine().out, "[65504]  f16[1]\n");
    assert_eq!(fulgurite(&f.0, &["eval", "([1] as f16) * 70000"]).fine().out, "[inf]  f16[1]\n");
    assert_eq!(fulgurite(&f.0, &["eval", "hardtanh([3] as u8)"]).fine().out, "[1]  u8[1]\n");
    assert_eq!(fulgurite(&f.0, &["eval", "floor_divide([100] as u8, 300)"]).fine().out, "[0]  u8[1]\n");
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
    let ran = fulgurite(&f.0, &["eval", "softmx([1])"]);
    assert!(ran.err.contains("softmax"), "the nearest name: {}", ran.err);
}

/// Each with its code, the status, the marked part (`expression` from the byte of `^` on) and a word of the message.
#[test]
fn errors_show_the_place_and_what_stands_there() {
    let f = Folder::new("eval-place");
    for (expression, status, code, mark, says) in [
        ("1 + softmx([1])", 2, "E903", "softmx", "softmax"),
        ("[1].softmx()", 2, "E903", "softmx", "softmax"),
        ("sum([[1,2],[3", 2, "E917", "", "`,` or `]`"),
        ("1 $ 2", 2, "E917", "$", "means nothing"),
        ("[[1],[1,2]]", 2, "E917", "[1,2]", "2 entries"),
        ("exp([1]) as f99", 2, "E917", "exp([1]) as f99", "bf16"),
        ("sum([1], bogus=3)", 2, "E917", "3", "keepdim"),
        ("exp([1,2] + [1,2,3])", 1, "E701", "[1,2] + [1,2,3]", "f32[3]"),
        ("matmul([[1,2]], [[1,2]])", 1, "E701", "matmul([[1,2]], [[1,2]])", "k is 2"),
        ("gelu([1] as i64)", 1, "E703", "gelu([1] as i64)", "bf16"),
        ("softmax([1], 5)", 1, "E704", "softmax([1], 5)", "-1..=0"),
        ("amax([], [0])", 1, "E705", "amax([], [0])", "at least one element"),
        ("embedding([[1,2]], [5] as i64)", 1, "E804", "embedding([[1,2]], [5] as i64)", "index 5"),
        ("one_hot([3] as i64, 2)", 1, "E804", "one_hot([3] as i64, 2)", "out of range"),
    ] {
        let ran = fulgurite(&f.0, &["eval", expression]).refused(status, code);
        let at = if mark.is_empty() { expression.len() } else { expression.find(mark).expect("a part of it") };
        let carets = "^".repeat(mark.len().max(1));
        let excerpt = format!(" --> expression:1:{}\n  |\n1 | {expression}\n  | {}{carets}\n", at + 1, " ".repeat(at));
        assert!(ran.err.contains(&excerpt), "`{expression}`:\n{}\nshould hold\n{excerpt}", ran.err);
        assert!(ran.err.contains(says), "`{expression}` without `{says}`:\n{}", ran.err);
        assert!(ran.err.lines().all(|line| line.chars().count() <= 100), "`{expression}`:\n{}", ran.err);
    }
    // the line and the column of the part, also behind a line break
    let ran = fulgurite(&f.0, &["eval", "exp([1, 2]) +\n  gleu([1])"]).refused(2, "E903");
    assert!(ran.err.contains(" --> expression:2:3\n  |\n2 |   gleu([1])\n  |   ^^^^\n"), "{}", ran.err);
}

/// What is empty, or no number, is a value as any other.
#[test]
fn empty_lists_and_nan_are_values() {
    let f = Folder::new("eval-values");
    for (expression, result) in [
        ("softmax([], 0)", "[]  f32[0]\n"),
        ("sum([])", "0  f32[]\n"),
        ("mean([])", "nan  f32[]\n"),
        ("[] + 1", "[]  f32[0]\n"),
        ("exp([nan, inf, -inf])", "[nan, inf, 0]  f32[3]\n"),
        ("matmul([[], []] as f64, reshape([], [0, 1]) as f64)", "[[0], [0]]  f64[2, 1]\n"),
    ] {
        assert_eq!(fulgurite(&f.0, &["eval", expression]).fine().out, result, "`{expression}`");
    }
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
    // the joint trace reads values of the one around it
    let ran = fulgurite(&f.0, &["trace", "--stage", "joint", "--depth", "1"]).fine();
    assert!(ran.out.contains("layer_norm") && ran.out.contains("rsqrt"), "{}", ran.out);
    let ran = fulgurite(&f.0, &["trace", "--diff", "acquired", "simplified"]).fine();
    assert!(ran.out.lines().any(|line| line.starts_with("- ")), "{}", ran.out);
    let ran = fulgurite(&f.0, &["trace", "--memory"]).fine();
    assert!(ran.out.starts_with("peak ") && ran.out.contains("####"), "{}", ran.out);
    let ran = fulgurite(&f.0, &["trace", "--stage", "joint", "--value", "ct.softmax"]).fine();
    assert!(ran.out.contains("made by   line") && ran.out.contains("lives     lines"), "{}", ran.out);
    let ran = fulgurite(&f.0, &["trace", "--why", "softmax"]).fine();
    for part in ["cotangents pass it, to `x`", "`softmax` kept for a gradient", "cpu fusion"] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    // a mask that reads a product
    let ran = fulgurite(&f.0, &["trace", "--why", "sdpa_scores"]).fine();
    assert!(ran.out.contains("apart     from"), "{}", ran.out);
    let ran = fulgurite(&f.0, &["--json", "trace", "--why", "2"]).fine();
    assert!(ran.out.contains("skipped: none of its results is a float tensor"), "{}", ran.out);
    let ran = fulgurite(&f.0, &["trace", "--value", "no.such.value"]);
    assert_eq!(ran.status, Some(2), "no such value: {}", ran.out);
    let ran = fulgurite(&f.0, &["trace", "--stage", "compiled", "--why", "3"]).refused(2, "E921");
    assert!(ran.err.contains("`compiled` has steps"), "{}", ran.err);
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
