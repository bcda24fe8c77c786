//! `trace_html`: what the compiler made of a user's function, as a page.

use fulgurite::prelude::*;
use std::path::PathBuf;

/// A file that goes with the test.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> File {
        File(std::env::temp_dir().join(format!("fulgurite-{}-{name}.html", std::process::id())))
    }
    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).expect("written")
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_function_becomes_a_page() {
    let file = File::new("fine");
    let f = jit(|x: Tensor| value_and_grad(&x, |x| (x.tanh() * x).sum())).named("loss").keep_traces();
    assert_eq!(f.trace_html(&file.0).expect_err("nothing was compiled").code(), "E921");
    f.call(Tensor::from([0.5f32, -0.5])).expect("runs");
    f.trace_html(&file.0).expect("written");
    let html = file.text();
    for part in ["<title>loss</title>", "\"acquired\"", "\"simplified\"", "\"compiled\"", "pages.rs:"] {
        assert!(html.contains(part), "{part}");
    }
    assert_eq!(f.trace_html("no/such/folder/f.html").expect_err("no folder").code(), "E913");
}

#[test]
fn a_function_that_fails_becomes_a_page_of_what_was_traced() {
    let file = File::new("fails");
    let f = jit(|x: Tensor| x.exp().reshape(3)).named("bad").keep_traces();
    f.call(Tensor::from([0.5f32, -0.5])).expect_err("two elements are not three");
    f.trace_html(&file.0).expect("written");
    let html = file.text();
    assert!(html.contains("\"partial\"") && html.contains("\"error\":\"error["), "the stage and the error");
}

#[test]
fn texts_must_be_kept() {
    let f = jit(|x: Tensor| x.exp());
    f.call(Tensor::from([0.5f32])).expect("runs");
    let refused = f.trace_html(File::new("none").0.clone()).expect_err("no texts");
    assert!(refused.to_string().contains("keep_traces"), "{refused}");
}
