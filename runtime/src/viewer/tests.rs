//! Documents of small programs, and pages whose texts are hostile.

use super::page::escaped;
use super::{Viewer, size_text};
use crate::executors::tests::database::database;
use crate::jit::{CompileStage, LineMark};
use crate::trace::BoundSymbolId;
use serde_json::{Value, json};
use std::time::Duration;

const PROGRAM: &str = r#"fn f(x: f32[4], y: f32[4]) {
  scope "block[0]" {
    a: f32[4] = mul(x, y)                           // model.rs:3:5
    b: f32[4] = exp(a)                              // model.rs:4:5
  }
  c: f32[4] = add(b, a)                             // backward of model.rs:3:5
  return c
}
"#;

fn stage(name: &'static str, text: &str, lines: usize) -> CompileStage {
    let mark = |i: usize| LineMark { id: BoundSymbolId(10 + i as u32), origin: (i == 2).then_some(BoundSymbolId(10)) };
    CompileStage {
        name,
        lines,
        time: Duration::from_micros(1500),
        text: Some(text.to_owned()),
        remark: None,
        marks: (0..lines).map(mark).collect(),
    }
}

fn document(stages: &[CompileStage]) -> Value {
    database();
    Viewer::new("f", stages).document().unwrap_or_else(|e| panic!("{e}"))
}

/// The text of a number in a column of the document.
fn text<'d>(document: &'d Value, number: &Value) -> &'d str {
    let at = usize::try_from(number.as_i64().expect("a number")).expect("a text");
    document["strings"][at].as_str().expect("a text")
}

#[test]
fn a_stage_has_lines_values_and_memory() {
    let d = document(&[stage("acquired", PROGRAM, 3)]);
    let s = &d["stages"][0];
    assert_eq!((&s["name"], &s["ms"], &s["count"]), (&json!("acquired"), &json!(1.5), &json!(3)));
    let lines = &s["lines"];
    assert_eq!(lines["id"], json!([10, 11, 12]));
    assert_eq!(lines["origin"], json!([-1, -1, 10]));
    let ops: Vec<&str> = lines["op"].as_array().expect("ops").iter().map(|n| text(&d, n)).collect();
    assert_eq!(ops, ["mul", "exp", "add"]);
    assert_eq!(lines["role"], json!([0, 0, 1]));
    assert_eq!(text(&d, &lines["place"][1]), "model.rs:4:5");
    assert_eq!(lines["region"], json!([0, 0, -1]));
    assert_eq!(text(&d, &s["regions"][0][1]), "scope \"block[0]\"");
    // values are numbered as they appear: x, y, a, b, c; a text is -1 - its number
    assert_eq!(lines["outs"], json!([[2], [3], [4]]));
    let call = lines["args"][2].as_array().expect("pieces");
    assert_eq!((&call[0], &call[2]), (&json!(3), &json!(2)));
    assert_eq!(text(&d, &json!(-1 - call[1].as_i64().expect("a number"))), ", ");
    let values = &s["values"];
    assert_eq!(values["made"], json!([-1, -1, 0, 1, 2]));
    assert_eq!(values["last"], json!([0, 0, 2, 2, 3]), "the result lives to the end");
    assert_eq!(d["types"], json!([["f32[4]", 16]]));
    assert_eq!((&s["live"], &s["peak"]), (&json!([16, 32, 48]), &json!(2)));
    assert!(text(&d, &lines["gradient"][0]).starts_with("cotangents pass it"), "{d}");
    assert!(text(&d, &lines["again"][0]).contains("kept for a gradient, 16 B"), "{d}");
}

#[test]
fn a_program_has_the_lines_of_each_step() {
    let compiled = CompileStage { marks: Vec::new(), ..stage("compiled", "its steps", 3) };
    let d = document(&[stage("simplified", PROGRAM, 3), compiled]);
    let s = &d["stages"][1];
    assert_eq!(s["of"], json!(0));
    let mut lines: Vec<i64> = Vec::new();
    for step in s["steps"].as_array().expect("steps") {
        assert!(step["executor"].is_string() && step["bytes"].is_u64(), "{step}");
        lines.extend(step["lines"].as_array().expect("lines").iter().filter_map(Value::as_i64));
    }
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines, [0, 1, 2]);
    assert_eq!(s["same"], json!(false), "the text of the stage has other steps");
}

#[test]
fn a_text_that_is_no_trace_is_shown_as_it_is() {
    let d = document(&[stage("partial", "fn f( {\n  what", 1)]);
    assert_eq!(d["stages"][0]["text"], json!(["fn f( {", "  what"]));
}

#[test]
fn nothing_to_show_is_refused() {
    let refused = |stages: &[CompileStage]| Viewer::new("f", stages).document().expect_err("nothing to show");
    assert_eq!(refused(&[]).code(), "E921");
    let silent = CompileStage { text: None, ..stage("acquired", "", 0) };
    assert!(refused(&[silent]).to_string().contains("keep_traces"));
}

#[test]
fn hostile_names_stay_texts() {
    database();
    let program = PROGRAM.replace("block[0]", "</script><b>&é");
    let stages = [stage("acquired", &program, 3)];
    let html = Viewer::new("</title><script>\"'&", &stages).html().expect("a page");
    assert_eq!(html.matches("</script>").count(), 2, "the data and the script end once");
    assert!(html.contains("<title>&lt;/title&gt;&lt;script&gt;&quot;&#39;&amp;</title>"), "{}", &html[..300]);
    let data = html.split_once("id=\"document\">").and_then(|(_, rest)| rest.split_once("</script>"));
    let d: Value = serde_json::from_str(data.expect("data").0).expect("JSON");
    assert_eq!(d["title"], json!("</title><script>\"'&"));
    assert!(d["strings"].to_string().contains("</script><b>&"), "{}", d["strings"]);
    assert_eq!(html.matches("http").count(), html.matches("http://www.w3.org/2000/svg").count(), "it loads nothing");
    assert_eq!(escaped("<a href='x'>"), "&lt;a href=&#39;x&#39;&gt;");
}

#[test]
fn sizes_have_three_digits() {
    let texts = [0, 999, 1000, 12_345, 999_499, 999_500, 68_600_000].map(size_text);
    assert_eq!(texts, ["0 B", "999 B", "1.00 kB", "12.3 kB", "999 kB", "1.00 MB", "68.6 MB"]);
}
