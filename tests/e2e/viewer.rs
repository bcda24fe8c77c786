//! `--html`: pages that stand by themselves, with everything that a browser's test needs to find in them.

use super::command::{Folder, fulgurite};
use serde_json::Value;
use std::path::Path;

/// The data of a page, which loads nothing.
fn document(path: &Path) -> Value {
    let html = page(path);
    let data = html.split_once("id=\"document\">").and_then(|(_, rest)| rest.split_once("</script>"));
    serde_json::from_str(data.expect("data").0).expect("JSON")
}

fn page(path: &Path) -> String {
    let html = std::fs::read_to_string(path).expect("written");
    // the namespace of drawings is a name, not an address that is loaded
    let rest = html.replace("http://www.w3.org/2000/svg", "");
    for load in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!rest.contains(load), "the page loads something: {load}");
    }
    html
}

#[test]
fn a_training_step_becomes_a_page() {
    let f = Folder::new("viewer");
    let ran = fulgurite(&f.0, &["--json", "trace", "--html", "step.html", "--profile"]).fine();
    let object: Value = serde_json::from_str(&ran.out).expect("an object");
    assert_eq!((&object["written"], &object["profiled"]), (&"step.html".into(), &true.into()), "{}", ran.out);
    let d = document(&f.0.join("step.html"));
    let stages = d["stages"].as_array().expect("stages");
    let named = |name: &str| stages.iter().find(|s| s["name"] == name).unwrap_or_else(|| panic!("no {name}"));
    let simplified = named("simplified");
    let count = simplified["count"].as_u64().expect("a number") as usize;
    for (name, column) in simplified["lines"].as_object().expect("columns") {
        assert_eq!(column.as_array().map(Vec::len), Some(count), "{name}");
    }
    let compiled = named("compiled");
    assert_eq!(
        (&compiled["same"], &compiled["profiled"]),
        (&true.into(), &true.into()),
        "the steps are those that run"
    );
    let steps = compiled["steps"].as_array().expect("steps");
    assert!(steps.iter().any(|s| s["runs"].as_u64() > Some(1) && s["seconds"].as_f64() > Some(0.0)));
    let lines = steps.iter().flat_map(|s| s["lines"].as_array().expect("lines")).filter_map(Value::as_u64);
    assert!(lines.max() < Some(count as u64));
}

#[test]
fn a_model_becomes_a_page() {
    let f = Folder::new("viewer-model");
    let model = format!("{}/../compat/models/data/digits.pt2", env!("CARGO_MANIFEST_DIR"));
    fulgurite(&f.0, &["trace", "--model", &model, "--html", "digits.html"]).fine();
    let d = document(&f.0.join("digits.html"));
    assert_eq!(d["title"], "digits.pt2");
    assert!(d["strings"].to_string().contains("conv.py:"), "lines have the places of the model's source");
    fulgurite(&f.0, &["trace", "--html", "no/such/folder/a.html"]).refused(2, "E913");
    for wrong in [&["trace", "--html", "a.html", "--stages"][..], &["trace", "--profile"]] {
        assert_eq!(fulgurite(&f.0, wrong).status, Some(2), "{wrong:?}");
    }
}

#[test]
fn schedules_become_a_page() {
    let f = Folder::new("viewer-schedule");
    fulgurite(&f.0, &["schedule", "--ranks", "2", "--micro-batches", "4", "--html", "all.html"]).fine();
    let html = page(&f.0.join("all.html"));
    assert!(html.contains("zbv (best)") && html.contains("backward for weights"), "a table and a legend");
    assert_eq!(html.matches("time in units of --times").count(), html.matches("</svg>").count(), "each has an axis");
    fulgurite(&f.0, &["schedule", "1f1b", "--ranks", "2", "--html", "one.html"]).fine();
    assert!(page(&f.0.join("one.html")).contains("F of micro-batch 0, stage 0, rank 0: 0.00 to 1.00"));
}
