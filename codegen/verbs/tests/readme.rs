//! The row that README.md adds in two minutes: the statements about it are true.

use std::fs;
use std::path::{Path, PathBuf};

use fulgurite_ops_verbs::cli::run_words;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The row, as it is to be appended.
fn row(readme: &str) -> &str {
    let (_, rest) = readme.split_once("```yaml\n").expect("README.md has a row");
    rest.split_once("```").map_or(rest, |(row, _)| row)
}

/// The gradient that may be written down: the text between backquotes that starts with `grad:`.
fn gradient(readme: &str) -> &str {
    readme.split('`').find(|text| text.starts_with("grad: ")).expect("README.md has a gradient")
}

/// Runs `cargo ops` on our database with `appended` at its end.
fn ops(name: &str, appended: &str, words: &[&str]) -> (i32, String, String) {
    let path = std::env::temp_dir().join(format!("fulgurite-readme-{}-{name}.yaml", std::process::id()));
    // the folder of further points is not beside that file
    let rows = read("ops.yaml").replacen("\npoints: tests/points\n", "\n", 1);
    fs::write(&path, format!("{rows}\n{appended}")).expect("a database");
    let file = format!("--file={}", path.display());
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let words = ["ops"].iter().chain(words).copied().chain([file.as_str(), "--color=never"]);
    let status = run_words(words.map(Into::into), &mut out, &mut err);
    fs::remove_file(&path).expect("it was there");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status, text(out), text(err))
}

#[test]
fn the_row_is_right_and_gets_a_gradient() {
    let readme = read("README.md");
    let (status, out, err) = ops("check", row(&readme), &["check"]);
    assert_eq!(status, 0, "{out}{err}");
    let bare: String =
        row(&readme).lines().filter(|line| !line.contains("domain")).map(|line| format!("{line}\n")).collect();
    let (status, out, err) = ops("bare", &bare, &["check"]);
    assert!(status == 1 && err.contains("error[E304]"), "{out}{err}");
    let (status, out, err) = ops("explain", row(&readme), &["explain", "tanhshrink"]);
    assert_eq!(status, 0, "{out}{err}");
    assert!(readme.contains("`tanhshrink.vjp.x`") && out.contains("tanhshrink.vjp.x("), "{out}");
}

#[test]
fn its_gradient_may_be_written_down_and_is_compared() {
    let readme = read("README.md");
    let right = gradient(&readme);
    let (status, out, err) = ops("right", &format!("{}  {right}\n", row(&readme)), &["check"]);
    assert_eq!(status, 0, "{out}{err}");
    // the variation that is refused according to README.md
    let wrong = right.replacen(" * tanh(x)", "", 1);
    assert_ne!(wrong, right);
    let (status, out, err) = ops("wrong", &format!("{}  {wrong}\n", row(&readme)), &["check"]);
    assert_eq!(status, 1, "{out}{err}");
    assert!(readme.contains("(E401)") && format!("{out}{err}").contains("error[E401]"), "{out}{err}");
}
