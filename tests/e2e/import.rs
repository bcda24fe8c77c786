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

/// `NAME=FILE` for the images of the committed values.
fn images() -> String {
    format!("images={}", model("digits.values.safetensors"))
}

#[test]
fn a_model_runs_on_files_and_expressions() {
    let f = Folder::new("model-run");
    let digits = model("digits.pt2");
    let ran = fulgurite(&f.0, &["run", &digits, "--input", &images(), "--json"]).fine();
    let json: Value = serde_json::from_str(&ran.out).expect("one object");
    assert_eq!(json["outputs"][0]["shape"], serde_json::json!([16, 10]));
    let ran = fulgurite(&f.0, &["run", &digits, "--input", "images=full([1, 1, 8, 8], 0.5)"]).fine();
    assert!(ran.out.ends_with("f32[1, 10]\n"), "{}", ran.out);
    fulgurite(&f.0, &["run", &digits, "--input", &images(), "--out", "out.safetensors"]).fine();
    let written = fulgurite::checkpoint::tensors(f.0.join("out.safetensors")).expect("written");
    assert_eq!(written["output0"].buffer().expect("in memory").shape(), [16, 10]);
    for wrong in [&["run", &digits][..], &["run", &digits, "--input", "x=1"], &["run", &digits, "--input", "images"]] {
        let ran = fulgurite(&f.0, wrong).refused(2, "E935");
        assert!(ran.err.contains("the model takes `images: f32["), "{}", ran.err);
    }
    // the gradient of the sum of the outputs by each parameter; that by the last bias is the number of images
    let ran = fulgurite(&f.0, &["run", &digits, "--input", &images(), "--grad", "--json"]).fine();
    let json: Value = serde_json::from_str(&ran.out).expect("one object");
    assert_eq!(json["gradients"].as_object().map(|all| all.len()), Some(10));
    assert_eq!(json["gradients"]["head.bias"]["data"][3], 16.0, "{}", json["gradients"]["head.bias"]);
    fulgurite(&f.0, &["run", &digits, "--input", &images(), "--grad", "--out", "out.safetensors"]).fine();
    let written = fulgurite::checkpoint::tensors(f.0.join("out.safetensors")).expect("written");
    assert_eq!((written.len(), written["gradient.head.bias"].buffer().expect("in memory").shape()), (11, &[10][..]));
    // a value that does not fit is refused by the model
    fulgurite(&f.0, &["run", &digits, "--input", "images=[1, 2]"]).refused(2, "E935");
}

#[test]
fn a_model_is_trained_and_its_weights_are_read_again() {
    let f = Folder::new("model-train");
    let (digits, data) = (model("digits.train.pt2"), model("digits.values.safetensors"));
    let train = ["train", "--model", &digits, "--data", &data, "--target", "labels", "--batch", "16", "--json"];
    let with = |more: &[&str]| fulgurite(&f.0, &[&train[..], more].concat());
    let ran = with(&["--loss", "cross_entropy", "--steps", "30", "--out", "out"]).fine();
    let losses: Vec<f64> = ran
        .out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("an object")["loss"].as_f64().expect("a number"))
        .collect();
    assert!(losses.len() == 10 && losses[9] < losses[0], "{losses:?}");
    let again = ["run", &digits, "--weights", "out/weights.safetensors", "--input", &images(), "--json"];
    let (before, after) =
        (fulgurite(&f.0, &["run", &digits, "--input", &images(), "--json"]).fine(), fulgurite(&f.0, &again).fine());
    assert_ne!(before.out, after.out);
    let ran = with(&["--loss", "cross_entropi"]).refused(2, "E903");
    assert!(ran.err.contains("did you mean `cross_entropy`?"), "{}", ran.err);
    // without data and a loss it is wrong use
    assert_eq!(fulgurite(&f.0, &["train", "--model", &digits]).status, Some(2));
}

#[test]
fn samples_in_order_give_the_same_losses_for_every_seed() {
    let f = Folder::new("model-order");
    let (digits, data) = (model("digits.pt2"), model("digits.values.safetensors"));
    let losses = |more: &[&str]| {
        let train = ["train", "--model", &digits, "--data", &data, "--target", "labels", "--loss", "cross_entropy"];
        let ran = fulgurite(
            &f.0,
            &[&train[..], &["--batch", "4", "--steps", "6", "--log-every", "1", "--json"], more].concat(),
        );
        ran.fine().out
    };
    assert_eq!(losses(&["--in-order", "--seed", "1"]), losses(&["--in-order", "--seed", "2"]));
    assert_ne!(losses(&["--seed", "1"]), losses(&["--seed", "2"]));
}

#[test]
fn a_model_that_computes_its_loss_needs_no_row() {
    let f = Folder::new("model-loss");
    let data = model("digits.values.safetensors");
    let train = |name: &str| {
        let (name, steps) = (model(name), ["--steps", "8", "--log-every", "1", "--json"]);
        fulgurite(&f.0, &[&["train", "--model", &name, "--data", &data][..], &["--batch", "16"], &steps].concat())
    };
    let ran = train("digits.joint.pt2").fine();
    assert_eq!(ran.out.lines().count(), 8);
    let ran = train("digits.pt2").refused(2, "E936");
    assert!(
        ran.err.contains("the first output of the model is f32[16, 10]") && ran.err.contains("--loss ROW"),
        "{}",
        ran.err
    );
}

#[test]
fn a_call_writes_its_buffers_for_the_next_one() {
    let f = Folder::new("model-state");
    let (cache, values) = (model("cache.pt2"), model("cache.values.safetensors"));
    let input = format!("x={values}");
    fulgurite(&f.0, &["run", &cache, "--input", &input, "--save", "state.safetensors", "--out", "y.safetensors"])
        .fine();
    let state = fulgurite::checkpoint::tensors(f.0.join("state.safetensors")).expect("written");
    assert_eq!(state["at"].item::<i64>().expect("a number"), 8);
    let again = ["run", &cache, "--input", &input, "--weights", "state.safetensors", "--save", "state.safetensors"];
    fulgurite(&f.0, &again).fine();
    let state = fulgurite::checkpoint::tensors(f.0.join("state.safetensors")).expect("written");
    assert_eq!(state["at"].item::<i64>().expect("a number"), 16);
}

#[test]
fn a_model_runs_with_weights_in_integers() {
    let f = Folder::new("model-integers");
    let logits = |form: &str| {
        let ran = fulgurite(&f.0, &["run", &model("digits.pt2"), "--input", &images(), "--quantise", form, "--json"]);
        let json: Value = serde_json::from_str(&ran.fine().out).expect("one object");
        let data = json["outputs"][0]["data"].as_array().expect("a list").clone();
        data.iter().map(|x| x.as_f64().expect("a number")).collect::<Vec<f64>>()
    };
    let (exact, near) = (logits("f32"), logits("int8"));
    let largest = exact.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    let off = exact.iter().zip(&near).fold(0.0, |m: f64, (a, b)| m.max((a - b).abs()));
    assert!(off > 0.0 && off < 0.02 * largest, "{off}");
    let ran = fulgurite(
        &f.0,
        &["run", &model("control.pt2"), "--input", "x=[[1.0]]", "--input", "xs=1", "--quantise", "int8"],
    );
    ran.refused(2, "E936");
}

#[test]
fn a_model_is_traced_and_timed() {
    let f = Folder::new("model-trace");
    let digits = model("digits.pt2");
    let ran = fulgurite(&f.0, &["trace", "--model", &digits, "--stages", "--json"]).fine();
    let json: Value = serde_json::from_str(&ran.out).expect("one object");
    assert_eq!((&json["stages"][0]["name"], &json["stages"][0]["lines"]), (&"acquired".into(), &11.into()));
    let acquired = fulgurite(&f.0, &["trace", "--model", &digits, "--stage", "acquired"]).fine().out;
    assert!(acquired.contains("scope \"block1\""), "{acquired}");
    fulgurite(&f.0, &["trace", "--model", &digits, "--stage", "joint"]).refused(2, "E921");

    let bench = ["bench", "--model", &digits, "--input", &images(), "--reps", "2", "--json"];
    let ran = fulgurite(&f.0, &bench).fine();
    let records: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let variants: Vec<&str> = records.iter().filter_map(|r| r["variant"].as_str()).collect();
    assert_eq!(variants, ["at_once", "compiled", "gradient"]);
    assert!(records.iter().all(|r| r["workload"] == "digits" && r["median_s"].as_f64() > Some(0.0) && r["n"] == 2));
    // the sum over a call is the same at once and compiled; the gradient begins with it
    let sum = |record: &Value| record["check"][0][0].as_f64().expect("a number");
    assert!((sum(&records[0]) - sum(&records[1])).abs() < 1e-4, "{}", ran.out);
    // a model without parameters has no gradient
    let ran = fulgurite(&f.0, &["bench", "--model", &model("control.pt2"), "--reps", "1", "--json"]).fine();
    assert!(ran.out.lines().count() == 2 && ran.err.contains("control.gradient"), "{}", ran.err);
    fulgurite(&f.0, &["bench", "--model", &digits, "--input", "x=1"]).refused(2, "E935");
}

#[test]
fn steps_are_profiled() {
    let f = Folder::new("model-profile");
    let digits = model("digits.pt2");
    let ran = fulgurite(&f.0, &["run", &digits, "--input", &images(), "--profile=steps.json", "--quiet"]).fine();
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].starts_with("run: ") && lines[1].ends_with("floor  step"), "{}", ran.out);
    assert!(ran.out.contains("product") && ran.out.contains("conv.py:"), "{}", ran.out);
    let events: Value =
        serde_json::from_str(&std::fs::read_to_string(f.0.join("steps.json")).expect("written")).unwrap();
    let events = events["traceEvents"].as_array().expect("a list");
    assert!(events.iter().skip(1).all(|e| e["ph"] == "X" && e["dur"].as_f64() > Some(0.0)), "{events:?}");
    // each variant of a benchmark has its steps, and each call runs every step
    let bench = ["bench", "--model", &digits, "--input", &images(), "--reps", "3", "--json", "--profile"];
    let records: Vec<Value> =
        fulgurite(&f.0, &bench).fine().out.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let of = |part: &str| records.iter().filter(|r| r["part"] == part).map(|r| r["runs"].clone()).collect::<Vec<_>>();
    let compiled = of("digits.compiled");
    assert!(compiled.len() > 3 && compiled.iter().all(|runs| *runs == compiled[0]), "{compiled:?}");
    assert!(of("digits.gradient").len() > compiled.len());
    let train = ["train", "--steps", "2", "--profile", "--out", "run", "--quiet"];
    assert!(fulgurite(&f.0, &train).fine().out.contains("train: "));
    fulgurite(&f.0, &["run", &digits, "--input", &images(), "--profile=no/folder"]).refused(2, "E913");
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
