//! `sample`: text from a checkpoint, and what it refuses.

use super::command::{Folder, fulgurite};
use serde_json::Value;

const TEXT: &str = "the quick brown fox jumps over the lazy dog.\n";

/// A folder with a run of a few steps, its context shorter than what is written below.
fn trained(name: &str) -> Folder {
    let f = Folder::new(name);
    f.write("text.txt", TEXT.repeat(40));
    let small = ["--depth", "1", "--width", "16", "--heads", "2", "--context", "8", "--batch", "2", "--steps", "2"];
    fulgurite(&f.0, &[&["train", "--text", "text.txt", "--out", "run"], &small[..]].concat()).fine();
    f
}

#[test]
fn the_seed_decides_what_is_written() {
    let f = trained("sample");
    let with = |more: &[&str]| {
        fulgurite(&f.0, &[&["sample", "run", "--prompt", "the fox", "--tokens", "30"], more].concat()).fine().out
    };
    let text = with(&[]);
    assert!(text.starts_with("the fox") && text.chars().count() == "the fox".len() + 30 + 1, "{text:?}");
    assert!(text.chars().all(|c| TEXT.contains(c)), "{text:?}");
    assert_eq!(with(&[]), text);
    assert_eq!(with(&["--threads", "1"]), text);
    assert_ne!(with(&["--seed", "2"]), text);
    // the likeliest character alone leaves nothing to chance
    assert_eq!(with(&["--top-k", "1", "--seed", "1"]), with(&["--top-k", "1", "--seed", "2", "--temperature", "3"]));
    // a checkpoint is as good as its folder
    let file = fulgurite(&f.0, &["sample", "run/step-2.safetensors", "--prompt", "the fox", "--tokens", "30"]).fine();
    assert_eq!(file.out, text);
    let json = with(&["--json"]);
    let events: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let pieces: String = events.iter().filter(|e| e["event"] == "token").filter_map(|e| e["text"].as_str()).collect();
    assert_eq!((pieces.as_str(), events.len()), (text["the fox".len()..].trim_end_matches('\n'), 31));
}

#[test]
fn what_cannot_be_sampled_is_refused() {
    let f = trained("sample-refused");
    for (more, code, says) in [
        (&["--temperature", "0"][..], "E914", "--top-k 1"),
        (&["--temperature", "-1"], "E914", "above 0"),
        (&["--temperature", "nan"], "E914", "above 0"),
        (&["--tokens", "0"], "E914", "--tokens"),
        (&["--top-k", "0"], "E914", "--top-k"),
        (&["--threads", "0"], "E914", "--threads"),
        (&["--prompt", "caf\u{e9}"], "E914", "'\u{e9}'"),
    ] {
        let ran = fulgurite(&f.0, &[&["sample", "run"], more].concat()).refused(2, code);
        assert!(ran.err.contains(says) && ran.out.is_empty(), "{more:?}: {}{}", ran.out, ran.err);
    }
    let good = std::fs::read(f.0.join("run/step-2.safetensors")).expect("a checkpoint");
    f.write("cut.safetensors", &good[..good.len() / 2]);
    f.write("text.safetensors", TEXT);
    for (path, code) in [("cut.safetensors", "E901"), ("text.safetensors", "E90"), ("missing", "E904"), (".", "E910")] {
        let ran = fulgurite(&f.0, &["sample", path]);
        assert!(ran.status == Some(2) && ran.err.contains(&format!("error[{code}")), "{path}: {}", ran.err);
    }
    fulgurite(&f.0, &["train", "--task", "digits", "--steps", "1", "--batch", "2", "--out", "digits"]).fine();
    let ran = fulgurite(&f.0, &["sample", "digits"]).refused(2, "E919");
    assert!(ran.err.contains("task `digits`"), "{}", ran.err);
}

#[test]
fn matrices_in_groups_of_integers_write_too() {
    let f = trained("sample-int8");
    let with = |more: &[&str]| {
        fulgurite(&f.0, &[&["sample", "run", "--prompt", "the fox", "--tokens", "30"], more].concat()).fine()
    };
    for form in ["int8", "int4"] {
        let ran = with(&["--weights", form]);
        assert!(ran.out.starts_with("the fox") && ran.out.chars().all(|c| TEXT.contains(c)), "{:?}", ran.out);
        assert_eq!(with(&["--weights", form, "--threads", "1"]).out, ran.out);
        assert!(ran.err.contains("the matrices of the blocks"), "{}", ran.err);
    }
    assert_eq!(with(&["--weights", "f32"]).out, with(&[]).out);
}
