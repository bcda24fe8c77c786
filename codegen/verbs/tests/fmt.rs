//! `cargo ops fmt`: one form, comments kept, nothing else changed.

use std::fs;

use fulgurite_ops_verbs::cli::run_words;
use fulgurite_ops_verbs::fmt::{format, format_further};

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

/// Texts that YAML or the printer might misread.
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

/// Rows in brackets get the form of the others, and their comments stay.
#[test]
fn rows_in_brackets_get_the_one_form() {
    let row = "{op: twice, doc: x added to x, promote: default, expr: x + x}";
    let one = formatted(&format!("ops: [{row}]\n"));
    assert!(one.starts_with("ops:\n- op: twice\n"), "{one}");
    assert_eq!(formatted(&one), one);
    assert_eq!(formatted(&format!("ops:\n  [ {row}\n  ]\n")), one);
    let remarked = formatted(&format!("ops:\n  [ # a remark\n  {row} ]\n"));
    assert!(remarked.contains("# a remark\n") && remarked.ends_with(one.trim_start_matches("ops:\n")), "{remarked}");
    assert_eq!(formatted(&remarked), remarked);
    for empty in ["ops: []\n", "ops:\n []", "ops:\n  [\n  ]\n", "ops: [\t]"] {
        assert_eq!(formatted(empty), "ops:\n", "{empty:?}");
    }
}

/// A file that can't be read is not written. `--check` reports rows that are not in form; without it they are fixed.
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
    assert!(err.contains("error[E922]") && err.contains(": 2 rows differ\n") && err.contains(":7:7: add\n"), "{err}");
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

/// Pseudo-random numbers, the same on every machine.
struct Drawn(u64);

impl Drawn {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % n.max(1) as u64) as usize
    }
}

/// Rows that are written in another way (comments after values, other quotes, blanks, line ends, longer and shorter
/// texts) are formatted to a text that can be read and that formats to itself.
#[test]
fn however_a_row_is_written_its_form_is_stable() {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../ops.yaml")).expect("the database");
    let rows: Vec<&str> = text.split("\n- op: ").skip(1).collect();
    let mut drawn = Drawn(29);
    let mut written = 0;
    for turn in 0..600 {
        let row = format!("- op: {}", rows[drawn.below(rows.len())].split("\n#").next().expect("a row").trim_end());
        let mut lines: Vec<String> = row.lines().map(str::to_owned).collect();
        for _ in 0..1 + drawn.below(3) {
            let at = drawn.below(lines.len());
            let line = lines[at].clone();
            lines[at] = match drawn.below(9) {
                0 => format!("{line} # why"),
                1 => format!("{line} # "),
                2 => format!("{line}   "),
                3 => format!("{line}\r"),
                4 => format!("  # above\n{line}"),
                5 => match line.split_once(": ") {
                    Some((key, value)) if value.starts_with('\'') && value.ends_with('\'') && value.len() > 1 => {
                        let bare = &value[1..value.len() - 1];
                        [format!("{key}: {bare}"), format!("{key}: \"{bare}\""), format!("{key}: |\n    {bare}")]
                            [drawn.below(3)]
                        .clone()
                    }
                    Some((key, value)) => {
                        [format!("{key}: '{value}'"), format!("{key}: |\n    {value}")][drawn.below(2)].clone()
                    }
                    None => line,
                },
                6 => line.replace(", ", ","),
                7 => line.replace(" + ", " + é + "),
                _ => format!("{line} # {}", "long ".repeat(20)),
            };
        }
        let text = format!("ops:\n{}\n", lines.join("\n"));
        match format("ops.yaml", &text) {
            Ok(made) => {
                written += 1;
                let again = format("ops.yaml", &made.text);
                let again =
                    again.unwrap_or_else(|_| panic!("{turn}: refused after it was written:\n{text}\n{}", made.text));
                assert_eq!(again.text, made.text, "{turn}: {text}");
            }
            Err((sources, diags)) => {
                for diag in diags.sorted() {
                    assert_ne!(diag.code, "E999", "{turn}: {text}");
                    let place = diag.primary.place;
                    let within = sources.file(place.file).text.get(place.range());
                    assert!(within.is_some(), "{turn}: {} points outside, or into a character: {text:?}", diag.code);
                }
            }
        }
    }
    assert!(written > 200, "{written}");
}

/// A carriage return alone ends no line, though it may look so.
#[test]
fn carriage_returns_alone_are_refused() {
    let rows =
        "ops:\r\n- op: twice\r\n  doc: Two times x\r\n  sig: '(x: T) -> T'\r\n  promote: default\r\n  expr: x + x\r\n";
    assert!(format("ops.yaml", rows).is_ok());
    let Err((_, diags)) = format("ops.yaml", &rows.replace("x\r\n  sig", "x\r  sig")) else { panic!("it was read") };
    assert_eq!(diags.sorted().first().map(|diag| diag.code), Some("E001"));
}

const FURTHER: &str = "\
# Further points
half:
  - {x: 2,   out: 1} # an even number
  # an odd one
  - x: 3
    out: 1.5

# of its overload


'half.each': [{x: [], out: []}, {x: \"f32 1\", refused: true}]
# the end
";

const FURTHER_FORM: &str = "\
# Further points
half:
- {x: 2, out: 1}
# an even number
# an odd one
- {x: 3, out: 1.5}

# of its overload

half.each:
- {x: [], out: []}
- {x: 'f32 1', refused: true}

# the end
";

/// A file of points has one line per point, below the name of the row.
#[test]
fn points_that_stand_apart_have_one_form() {
    let formatted = |text: &str| format_further("points.yaml", text).map(|made| made.text).unwrap_or_default();
    assert_eq!(formatted(FURTHER), FURTHER_FORM);
    assert_eq!(formatted(FURTHER_FORM), FURTHER_FORM);
    for wrong in ["- {x: 1}\n", "half: {x: 1}\n", "half: []\n", "half: [1]\n", "half:\n- {x: 1}\nhalf:\n- {x: 2}\n"] {
        assert!(format_further("points.yaml", wrong).is_err(), "{wrong}");
    }
}
