//! `doctor`: what it says of any machine.

use super::command::{Folder, fulgurite};
use serde_json::Value;

#[test]
fn every_item_has_a_verdict() {
    let f = Folder::new("doctor");
    let ran = fulgurite(&f.0, &["doctor"]).fine();
    for item in [
        "processor",
        "instructions",
        "threads",
        "memory",
        "huge pages",
        "default run",
        "CUDA driver",
        "NVRTC",
        "cuBLASLt",
    ] {
        let line = ran.out.lines().find(|line| line.contains(&format!(" {item} "))).expect(item);
        assert!(["ok", "note"].contains(&line.split_whitespace().next().expect("a verdict")), "{line}");
    }
    assert!(ran.out.lines().all(|line| line.chars().count() <= 100), "{}", ran.out);
    let json = fulgurite(&f.0, &["doctor", "--json", "--threads", "1"]).fine().out;
    let value: Value = serde_json::from_str(&json).expect("one object");
    assert_eq!((&value["v"], &value["ok"]), (&1.into(), &true.into()));
    let items = value["items"].as_array().expect("items");
    let threads = items.iter().find(|i| i["item"] == "threads").expect("threads");
    assert_eq!(threads["value"]["threads"], 1);
    assert!(items.iter().all(|i| i["text"].as_str().is_some_and(|t| !t.is_empty())), "{json}");
    fulgurite(&f.0, &["doctor", "--threads", "0"]).refused(2, "E914");
}
