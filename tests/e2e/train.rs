//! `train`: runs, and what it refuses.

use super::command::{Folder, Ran, fulgurite};

/// A model small enough for a debug build.
const SMALL: &[&str] = &["--depth", "1", "--width", "16", "--heads", "2", "--context", "8", "--batch", "2"];
const TEXT: &str = "the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs.\n";

fn train(f: &Folder, more: &[&str]) -> Ran {
    fulgurite(&f.0, &[&["train", "--text", "text.txt"], SMALL, more].concat())
}

fn folder(name: &str) -> Folder {
    let f = Folder::new(name);
    f.write("text.txt", TEXT.repeat(20));
    f
}

#[test]
fn three_steps_leave_a_run() {
    let f = folder("steps");
    let ran = train(&f, &["--steps", "3", "--out", "run"]).fine();
    let all = format!("{}{}", ran.out, ran.err);
    assert!(all.contains("loss"), "{all}");
    let files: Vec<String> = (std::fs::read_dir(f.0.join("run")).expect("a run").flatten())
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    assert!(files.iter().any(|n| n.ends_with(".safetensors")), "{files:?}");
    let metrics = std::fs::read_to_string(f.0.join("run/metrics.jsonl")).expect("metrics");
    for line in metrics.lines() {
        let _: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
    }
    assert!(metrics.lines().count() >= 1, "{metrics}");
}

/// What a run prints of its losses does not depend on threads, and going on is the same as never having stopped.
#[test]
fn runs_are_reproducible() {
    let f = folder("same");
    let losses = |out: &str| -> Vec<String> {
        let text = std::fs::read_to_string(f.0.join(out).join("metrics.jsonl")).expect("metrics");
        let values = text.lines().filter_map(|l| serde_json::from_str::<serde_json::Value>(l).ok());
        values.map(|v| format!("{} {}", v["step"], v["loss"])).collect()
    };
    train(&f, &["--steps", "4", "--log-every", "1", "--threads", "1", "--out", "one"]).fine();
    train(&f, &["--steps", "4", "--log-every", "1", "--threads", "2", "--out", "two"]).fine();
    assert_eq!(losses("one"), losses("two"));
}

/// Runs in narrower numbers are near the run in f32, and no two are the same.
#[test]
fn precisions_differ_a_little() {
    let f = folder("precisions");
    let loss = |precision: &str| -> f64 {
        train(&f, &["--steps", "4", "--log-every", "1", "--precision", precision, "--out", precision]).fine();
        let text = std::fs::read_to_string(f.0.join(precision).join("metrics.jsonl")).expect("metrics");
        let last = text
            .lines()
            .filter_map(|l| serde_json::from_str::<serde_json::Value>(l).ok()?["loss"].as_f64())
            .next_back();
        last.expect("a loss")
    };
    let [full, half, eight] = ["f32", "bf16", "float8"].map(loss);
    assert!(full != half && full != eight && half != eight, "{full} {half} {eight}");
    assert!((half / full - 1.0).abs() < 0.01 && (eight / full - 1.0).abs() < 0.02, "{full} {half} {eight}");
}

#[test]
fn unusable_texts_are_refused() {
    let f = folder("texts");
    let with = |name: &str| fulgurite(&f.0, &[&["train", "--steps", "1", "--text", name], SMALL].concat());
    f.write("empty.txt", "");
    f.write("latin1.txt", [b"caf\xe9 ".as_slice(), &[b'a'; 200]].concat());
    f.write("letter.txt", "a");
    f.write("same.txt", "a".repeat(400));
    for name in ["empty.txt", "latin1.txt", "missing.txt", "."] {
        let ran = with(name);
        assert_eq!(ran.status, Some(2), "{name}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains("error[E9") && ran.err.contains(name), "{name}: {}", ran.err);
    }
    // read, and nothing in it to learn
    for name in ["letter.txt", "same.txt"] {
        let ran = with(name);
        assert!(ran.err.contains(name), "{}", ran.err);
        ran.refused(2, "E911");
    }
}

#[test]
fn impossible_settings_are_refused() {
    let f = folder("settings");
    for more in [
        &["--threads", "0"][..],
        &["--threads", "1000000"],
        &["--steps", "0"],
        &["--heads", "3"],
        &["--width", "0"],
        &["--batch", "0"],
        &["--context", "100000"],
        &["--lr", "0"],
        &["--lr", "nan"],
        &["--clip", "-1"],
        &["--seconds", "-5"],
    ] {
        let ran = fulgurite(&f.0, &[&["train", "--text", "text.txt"], more].concat());
        assert_eq!(ran.status, Some(2), "{more:?}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains("error"), "{more:?}: {}", ran.err);
        assert!(!f.0.join("runs").exists(), "{more:?} left a run");
    }
    let ran = fulgurite(&f.0, &["train", "--text", "text.txt", "--threads", "0"]).refused(2, "E914");
    assert!(ran.err.contains("--threads"), "{}", ran.err);
}

#[test]
fn an_output_that_cannot_be_written_is_told_before_training() {
    let f = folder("output");
    f.write("file", "in the way");
    for out in ["file", "file/below", "/proc/fulgurite"] {
        let ran = train(&f, &["--steps", "1", "--out", out]);
        assert_eq!(ran.status, Some(2), "{out}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains("error[E9"), "{out}: {}", ran.err);
    }
    for (plot, code) in [("no-folder/plot.png", "E913"), ("plot.txt", "E915"), ("plot", "E915")] {
        train(&f, &["--steps", "1", "--out", "run", "--plot", plot]).refused(2, code);
        assert!(!f.0.join("run").exists(), "{plot}: a run was begun");
    }
}

/// A checkpoint is a file from anywhere: what it claims is not believed.
#[test]
fn hostile_checkpoints_are_refused() {
    let f = folder("hostile");
    train(&f, &["--steps", "2", "--out", "run"]).fine();
    let newest = std::fs::read_dir(f.0.join("run")).expect("a run").flatten().map(|e| e.path());
    let path = newest.filter(|p| p.extension().is_some_and(|e| e == "safetensors")).max().expect("a checkpoint");
    let good = std::fs::read(&path).expect("readable");
    let header = u64::from_le_bytes(good[..8].try_into().expect("eight bytes")) as usize;
    let text = String::from_utf8(good[8..8 + header].to_vec()).expect("a JSON header");
    let with_header =
        |text: String| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), &good[8 + header..]].concat();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("empty", Vec::new()),
        ("short", good[..4].to_vec()),
        ("cut", good[..good.len() - 1].to_vec()),
        ("longer", [&good[..], b"x"].concat()),
        ("huge header", [&u64::MAX.to_le_bytes()[..], &good[8..]].concat()),
        ("no JSON", [&8u64.to_le_bytes()[..], b"{{{{{{{{", &good[8 + header..]].concat()),
        ("deep JSON", with_header("[".repeat(100_000))),
        ("another dtype", with_header(text.replacen("\"F32\"", "\"F64\"", 1))),
        ("an unknown dtype", with_header(text.replacen("\"F32\"", "\"X99\"", 1))),
        ("a negative size", with_header(text.replacen("\"shape\":[", "\"shape\":[-", 1))),
        ("an enormous size", with_header(text.replacen("\"shape\":[", "\"shape\":[18446744073709551615,", 1))),
        ("offsets that overlap", with_header(text.replacen("\"data_offsets\":[", "\"data_offsets\":[1", 1))),
        ("terabytes", with_header(text.replacen("\"shape\":[", "\"shape\":[1099511627776,", 1))),
        (
            "offsets in terabytes",
            with_header(text.replacen("\"data_offsets\":[0,", "\"data_offsets\":[0,1099511627776", 1)),
        ),
        ("a header of terabytes", [&(1u64 << 41).to_le_bytes()[..], &good[8..]].concat()),
        ("another shape", with_header(text.replacen("\"shape\":[16,", "\"shape\":[4,4,", 1))),
        ("noise", (0..20_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()),
        ("no settings", with_header(text.replacen("\\\"width\\\"", "\\\"wides\\\"", 1))),
        ("another width", with_header(text.replacen("\\\"width\\\":16", "\\\"width\\\":32", 1))),
        ("no tensor", with_header("{}".to_owned())),
    ];
    for (what, bytes) in cases {
        // an edit that changed nothing would test nothing
        assert!(bytes != good, "{what}: the header has another form\n{text}");
        let name = f.write("hostile.safetensors", &bytes);
        let ran =
            fulgurite(&f.0, &["train", "--text", "text.txt", "--steps", "3", "--resume", &name, "--out", "again"]);
        assert!(matches!(ran.status, Some(1 | 2)), "{what}: {:?}\n{}{}", ran.status, ran.out, ran.err);
        assert!(ran.err.contains("error[E9"), "{what}: {}", ran.err);
    }
}
