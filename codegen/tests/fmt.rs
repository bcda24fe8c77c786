//! `cargo ops fmt`: one form, comments kept, nothing else changed.

use std::fs;

use fulgurite_codegen::cli::run_words;
use fulgurite_codegen::fmt::format;

fn formatted(text: &str) -> String {
    format("ops.yaml", text).map(|made| made.text).unwrap_or_else(|_| panic!("a fault in\n{text}"))
}

const WRITTEN: &str = "\
# head

ops:

# ---------------- first
# of add
- op: add   # the sum
  # above expr
  expr:   x+y
  doc: \"Sum: x and y\"
  promote: default
  aten: [ add.Tensor ,  'add.Scalar' ]
  sig:  (x:T,y:T)->T


# last
- {op: clamp_to, sig: '(x: T; lo: Num)->T', promote: default, doc: Larger of both, expr: 'max( x,lo )', require: {'(lo) > 0': \"a bound\"}}
- op: kept
  doc: A list with a remark
  sig: '(x: T) -> T'
  promote: default
  expr: x * x
  aten:
    - kept.Tensor
    # why
    - kept.Scalar
# tail
";

const FORM: &str = "\
# head

ops:

# ---------------- first
# of add
- op: add # the sum
  doc: 'Sum: x and y'
  sig: '(x: T, y: T) -> T'
  promote: default
  # above expr
  expr: x + y
  aten: [add.Tensor, add.Scalar]

# last
- op: clamp_to
  doc: Larger of both
  sig: '(x: T; lo: Num) -> T'
  promote: default
  require: {'lo > 0': 'a bound'}
  expr: max(x, lo)

- op: kept
  doc: A list with a remark
  sig: '(x: T) -> T'
  promote: default
  expr: x * x
  aten:
    - kept.Tensor
    # why
    - kept.Scalar

# tail
";

#[test]
fn rows_get_one_form_and_keep_their_comments() {
    assert_eq!(formatted(WRITTEN), FORM);
    assert_eq!(formatted(FORM), FORM);
}

/// Texts that YAML or the printer could take for something else.
#[test]
fn odd_texts_survive() {
    let rows = "ops:\n- op: odd\n  doc: |\n    It's said: of x # y\n  sig: '(x: T; mode: enum(a, b) = a) -> T'\n  promote: default\n  expr: |\n    \
                match mode { a => x, b => 2 * x, }\n  no_grad: \"'\"\n  tests: {domain: {x: 0..1}, points: [{x: '1', out: 1}]}\n";
    let made = formatted(rows);
    assert_eq!(formatted(&made), made);
    assert!(made.contains("tests: {domain: {x: '0..1'}, points: [{x: '1', out: 1}]}"), "{made}");
    assert!(made.contains("expr: 'match mode { a => x, b => 2 * x }'"), "{made}");
    assert!(made.contains("no_grad: ''''"), "{made}");
}

/// What can't be read is not written; what is not in form is told by `--check`, and mended without it.
#[test]
fn the_command_checks_and_writes() {
    let path = std::env::temp_dir().join(format!("fulgurite-fmt-{}.yaml", std::process::id()));
    let run = |words: &[&str]| {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let file = path.display().to_string();
        let head = ["ops", "fmt", "--color=never", file.as_str()];
        let status = run_words(head.iter().chain(words).map(Into::into), &mut out, &mut err);
        (status, String::from_utf8(out).expect("text"), String::from_utf8(err).expect("text"))
    };
    fs::write(&path, WRITTEN).expect("a file");
    let (status, out, err) = run(&["--check"]);
    assert_eq!((status, out.as_str()), (1, ""));
    assert!(err.contains("error[E922]") && err.contains(": 2 rows\n") && err.contains(":7:7: add\n"), "{err}");
    assert_eq!(fs::read_to_string(&path).expect("a file"), WRITTEN);
    let (status, out, err) = run(&[]);
    assert_eq!((status, err.as_str()), (0, ""), "{out}");
    assert_eq!(fs::read_to_string(&path).expect("a file"), FORM);
    assert_eq!(run(&["--check"]).0, 0);
    let (status, out, _) = run(&["--check", "--json"]);
    assert_eq!(status, 0);
    assert!(out.contains("\"in_form\":true") && out.lines().count() == 1, "{out}");
    let broken = FORM.replace("x + y", "x +");
    fs::write(&path, &broken).expect("a file");
    let (status, _, err) = run(&[]);
    assert_eq!(status, 1);
    assert!(err.contains("error[E006]"), "{err}");
    assert_eq!(fs::read_to_string(&path).expect("a file"), broken);
    fs::remove_file(&path).expect("it was there");
}

/// Wrong databases are refused or formatted, never broken further.
#[test]
fn what_can_be_read_is_stable() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/err");
    let mut read = 0;
    for entry in fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("a file").path()) {
        if entry.extension().is_some_and(|extension| extension == "yaml") {
            let text = fs::read_to_string(&entry).expect("a text");
            if let Ok(made) = format("ops.yaml", &text) {
                assert_eq!(formatted(&made.text), made.text, "{}", entry.display());
                read += 1;
            }
        }
    }
    assert!(read > 20, "{read}");
}
