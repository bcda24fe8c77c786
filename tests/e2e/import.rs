//! `import`: what a model of PyTorch takes and calls, its trace, and its values compared.

use super::command::{Folder, fulgurite};
use serde_json::Value;
use std::path::Path;

fn model(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../compat/models/data").join(name).display().to_string()
}

#[test]
fn a_model_is_described() {
    let f = Folder::new("import");
    let ran = fulgurite(&f.0, &["import", &model("digits.pt2")]).fine();
    let lines: Vec<&str> = ran.out.lines().map(|line| line.rsplit(": ").next().unwrap_or_default()).collect();
    let [calls, input, size, verdict] = lines[..] else { panic!("{}", ran.out) };
    assert_eq!(calls, "12 calls of 8 functions, 10 parameters (0.0 MB), 6 buffers");
    assert!(input.starts_with("f32[s") && input.ends_with(", 1, 8, 8]"), "{input}");
    assert_eq!((size, verdict), ("from 1 to 512", "every call has a row"));
    let json: Value = serde_json::from_str(&fulgurite(&f.0, &["import", "--json", &model("digits.pt2")]).fine().out)
        .expect("one object");
    assert_eq!((&json["v"], &json["parameters"]), (&1.into(), &10.into()));
    assert_eq!(json["missing"].as_array().map(Vec::len), Some(0));
    let trace = fulgurite(&f.0, &["import", &model("digits.pt2"), "--trace"]).fine().out;
    assert!(trace.contains("scope \"block1\"") && trace.contains("conv.py:"), "{trace}");
}

#[test]
fn values_are_compared() {
    let f = Folder::new("import-compare");
    let values = model("digits.values.safetensors");
    // the file has the inputs, and no result under the name of the program
    fulgurite(&f.0, &["import", &model("digits.pt2"), "--compare", &values]).refused(1, "E935");
}

#[test]
fn other_files_are_refused() {
    let f = Folder::new("import-wrong");
    std::fs::write(f.0.join("pickle.pt"), b"\x80\x02}q\x00.").expect("written");
    fulgurite(&f.0, &["import", "pickle.pt"]).refused(2, "E930");
    fulgurite(&f.0, &["import", "absent.pt2"]).refused(2, "E904");
}
