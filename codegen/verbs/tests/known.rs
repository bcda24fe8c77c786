//! Rows that passed and did not change are not checked again. A changed row is, with all rows that it may affect.

use std::fs;
use std::path::PathBuf;

use fulgurite_ops_verbs::cli::{Verb, kept, run_kept, run_words};

const ROWS: &str = "\
ops:
- op: mul
  doc: Product
  sig: '(x: T, y: T) -> T'
  promote: default
  expr: x * y
  tests: {points: [{x: 3, y: 4, out: 12}]}

- op: half
  doc: Half of it
  sig: '(x: T) -> T'
  promote: float
  expr: x * 0.5
  grad: {x: g * 0.5}
  tests: {points: [{x: 3, out: 1.5}]}

- op: quarter
  doc: A fourth
  sig: '(x: T) -> T'
  promote: float
  dtypes: f32 + f64
  decomp: half(half(x))
  tests: {points: [{x: 3, out: 0.75}]}

- op: other
  doc: One more
  sig: '(x: T) -> T'
  promote: float
  expr: x + 1
  tests: {points: [{x: 3, out: 4}]}

- op: other.two
  doc: The sum and one more
  sig: '(x: T, y: T) -> T'
  promote: float
  expr: x + y + 1
  tests: {points: [{x: 3, y: 4, out: 8}]}
";

const CLASS: &str = "\
subclasses:

- class: Negated
  doc: The negative of a tensor
  sig: '(a: T[..S]) -> T[..S]'
  plain: neg(a)
  ops: {neg: 'Negated(neg(a))'}
  default: plain

";

const NEG: &str = "
- op: neg
  doc: The negative
  sig: '(x: T) -> T'
  promote: default
  dtypes: all - bool
  expr: -x
  tests: {points: [{x: 3, out: -3}]}
";

/// A database, and the file that lists what has passed.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("fulgurite-known-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn kept(&self) -> PathBuf {
        self.0.join("kept")
    }

    /// Status, standard output and standard error of a check of `text`, without the time.
    fn check(&self, text: &str, words: &[&str]) -> (i32, String, String) {
        fs::write(self.0.join("ops.yaml"), text).expect("a database");
        let file = self.0.join("ops.yaml").into_os_string();
        let words = ["ops", "check", "--color=never"].iter().chain(words).map(Into::into).chain([file]);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let status = run_kept::<Verb>(words, Some(self.kept()), &mut out, &mut err);
        let out = String::from_utf8(out).expect("text");
        let timeless = match out.split_once(" in ").and_then(|(head, rest)| Some((head, rest.split_once(" s")?.1))) {
            Some((head, rest)) => format!("{head}{}", rest.trim_end()),
            None => out,
        };
        (status, timeless, String::from_utf8(err).expect("text"))
    }

    /// Standard output of a check that must pass.
    fn right(&self, text: &str, words: &[&str]) -> String {
        let (status, out, err) = self.check(text, words);
        assert_eq!((status, err.as_str()), (0, ""), "{out}");
        out
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_as_it_was_is_not_looked_at_again() {
    let folder = Folder::new("again");
    let gradients = "; 1 declared gradient proved";
    assert_eq!(folder.right(ROWS, &[]), format!("Checked 5 rows{gradients}"));
    assert_eq!(folder.right(ROWS, &[]), format!("Checked 5 rows, 5 of them as before{gradients}"));
    assert_eq!(folder.right(ROWS, &["--no-cache"]), format!("Checked 5 rows{gradients}"));
    assert_eq!(folder.right(ROWS, &["--only", "other"]), "Checked 2 rows, 2 of them as before");
    // the place of a row is no part of it
    let moved = ROWS.replacen("ops:\n", "# Rows\nops:\n\n", 1);
    assert_eq!(folder.right(&moved, &[]), format!("Checked 5 rows, 5 of them as before{gradients}"));
    // overloads are checked together
    let edited = ROWS.replace("expr: x + y + 1", "expr: 1 + x + y");
    assert_eq!(folder.right(&edited, &[]), format!("Checked 5 rows, 3 of them as before{gradients}"));
    // an earlier version is still known
    assert_eq!(folder.right(ROWS, &[]), format!("Checked 5 rows, 5 of them as before{gradients}"));
}

#[test]
fn what_a_row_calls_is_part_of_it() {
    let folder = Folder::new("calls");
    folder.right(ROWS, &[]);
    let wrong = ROWS
        .replace("expr: x * 0.5\n  grad: {x: g * 0.5}", "expr: x * 0.25\n  grad: {x: g * 0.25}")
        .replace("out: 1.5", "out: 0.75");
    for _ in 0..2 {
        let (status, _, err) = folder.check(&wrong, &[]);
        assert_eq!(status, 1);
        assert!(err.starts_with("error[E301]") && err.contains("quarter") && err.ends_with("1 error\n"), "{err}");
    }
    let (status, _, err) = folder.check(&wrong, &["--only", "quarter"]);
    assert!(status == 1 && err.starts_with("error[E301]"), "{err}");
}

/// Rows that were not checked, and rows that call one with a fault, are not known as right.
#[test]
fn only_what_was_looked_at_is_known() {
    let folder = Folder::new("only");
    assert_eq!(folder.right(ROWS, &["--only", "other.two"]), "Checked 2 rows");
    assert_eq!(folder.right(ROWS, &["--only", "quarter"]), "Checked 1 row");
    let gradients = "; 1 declared gradient proved";
    assert_eq!(folder.right(ROWS, &[]), format!("Checked 5 rows, 3 of them as before{gradients}"));
    let folder = Folder::new("fault");
    let wrong = ROWS.replace("grad: {x: g * 0.5}", "grad: {x: g * 0.4}");
    let (status, _, err) = folder.check(&wrong, &[]);
    assert!(status == 1 && err.starts_with("error[E401]"), "{err}");
    assert_eq!(folder.right(ROWS, &[]), format!("Checked 5 rows, 3 of them as before{gradients}"));
}

/// Points in other files are part of their row, and of no other one.
#[test]
fn points_apart_are_part_of_their_row() {
    let folder = Folder::new("points");
    let further = |text: &str| {
        fs::create_dir_all(folder.0.join("more")).expect("a folder");
        fs::write(folder.0.join("more/rows.yaml"), text).expect("a file of points");
    };
    let rows = ROWS.replacen("ops:\n", "points: more\nops:\n", 1);
    let gradients = "; 1 declared gradient proved";
    further("half:\n- {x: 1, out: 0.5}\n");
    assert_eq!(folder.right(&rows, &[]), format!("Checked 5 rows{gradients}"));
    assert_eq!(folder.right(&rows, &[]), format!("Checked 5 rows, 5 of them as before{gradients}"));
    further("half:\n- {x: 1, out: 0.5}\n- {x: 2, out: 1}\n");
    assert_eq!(folder.right(&rows, &[]), format!("Checked 5 rows, 3 of them as before{gradients}"));
    further("half:\n- {x: 1, out: 0.25}\n");
    for _ in 0..2 {
        let (status, _, err) = folder.check(&rows, &[]);
        assert!(status == 1 && err.starts_with("error[E301]") && err.contains("more/rows.yaml:2:15"), "{err}");
    }
    assert_eq!(folder.right(&rows, &["--only", "other"]), "Checked 2 rows, 2 of them as before");
    fs::remove_dir_all(folder.0.join("more")).expect("a folder");
    let (status, _, err) = folder.check(&rows, &[]);
    assert!(status == 2 && err.starts_with("error[E910]") && err.contains("names the folder"), "{err}");
}

#[test]
fn warnings_are_given_each_time() {
    let folder = Folder::new("warning");
    let row = "ops:\n- op: largest_sum\n  doc: Largest sum of a row\n  sig: '(x: T[M, N]) -> T[]'\n  promote: equal\n  \
               dtypes: float\n  expr: 'max[m](sum[n](x[m, n]))'\n";
    for _ in 0..2 {
        let (status, out, err) = folder.check(row, &[]);
        assert_eq!((status, out.as_str()), (0, "Checked 1 row"));
        assert!(err.starts_with("warning[E115]"), "{err}");
    }
}

#[test]
fn classes_are_part_of_every_row() {
    let folder = Folder::new("classes");
    let rows = format!("{CLASS}{ROWS}{NEG}");
    let gradients = "; 1 declared gradient proved";
    assert_eq!(folder.right(&rows, &[]), format!("Checked 6 rows{gradients}"));
    assert_eq!(folder.right(&rows, &[]), format!("Checked 6 rows, 6 of them as before{gradients}"));
    for (was, is) in [("Negated(neg(a))", "Negated(a)"), ("plain: neg(a)", "plain: a * a")] {
        let wrong = rows.replace(was, is);
        for _ in 0..2 {
            let (status, _, err) = folder.check(&wrong, &[]);
            assert!(status == 1 && err.starts_with("error[E605]"), "{is}: {err}");
        }
    }
}

#[test]
fn upstream_is_part_of_every_row() {
    let folder = Folder::new("upstream");
    let upstream = folder.0.join("upstream.yaml");
    let option = format!("--upstream={}", upstream.display());
    let third = "ops:\n- op: third\n  doc: A third\n  sig: '(x: T) -> T'\n  promote: float\n  expr: x / 3\n";
    let row = "ops:\n- op: ninth\n  doc: A ninth\n  sig: '(x: T) -> T'\n  promote: float\n  dtypes: f32 + f64\n  decomp: third(third(x))\n  \
               tests: {points: [{x: 18, out: 2}]}\n";
    fs::write(&upstream, third).expect("a database");
    assert_eq!(folder.right(row, &[&option]), "Checked 1 row");
    assert_eq!(folder.right(row, &[&option]), "Checked 1 row, 1 of them as before");
    fs::write(&upstream, third.replace("x / 3", "x / 4")).expect("a database");
    let (status, _, err) = folder.check(row, &[&option]);
    assert!(status == 1 && err.starts_with("error[E301]"), "{err}");
}

/// No content of the file makes a check fail or a row pass.
#[test]
fn a_file_that_is_none_of_ours_is_passed_over() {
    let folder = Folder::new("other");
    folder.right(ROWS, &[]);
    let ours = fs::read_to_string(folder.kept()).expect("a file");
    assert!(ours.lines().count() == 4 && ours.lines().all(|line| line.len() == 36), "{ours}");
    let cut: String = ours.lines().map(|line| format!("{}\n", &line[1..])).collect();
    let long = "0".repeat(3 << 20);
    for text in ["", "\n\n", "zz 1 2\n", "00 0 0\n", "ä".repeat(16).as_str(), &cut, &long] {
        fs::write(folder.kept(), text).expect("a file");
        assert_eq!(folder.right(ROWS, &[]), "Checked 5 rows; 1 declared gradient proved");
        let again = fs::read_to_string(folder.kept()).expect("a file");
        assert!(ours.lines().all(|line| again.contains(line)), "{again}");
    }
    fs::write(folder.kept(), b"\xff\xfe\n").expect("a file");
    assert_eq!(folder.right(ROWS, &[]), "Checked 5 rows; 1 declared gradient proved");
    // a folder can't be written
    fs::remove_file(folder.kept()).expect("it was there");
    fs::create_dir(folder.kept()).expect("a folder");
    assert_eq!(folder.right(ROWS, &[]), "Checked 5 rows; 1 declared gradient proved");
    // without a named file, nothing is kept
    let file = folder.0.join("ops.yaml").into_os_string();
    let mut out = Vec::new();
    for _ in 0..2 {
        run_words(["ops".into(), "check".into(), file.clone()], &mut out, &mut Vec::new());
    }
    assert!(!String::from_utf8(out).expect("text").contains("as before"));
}

/// A program that cargo built keeps its results in cargo's folder, even if that was there before cargo, which then
/// puts no tag into it.
#[test]
fn what_cargo_builds_keeps_what_it_knows_in_its_folder() {
    let program = std::env::current_exe().expect("this program");
    let kept = kept().expect("a place");
    let folder = kept.parent().expect("a folder");
    assert!(program.starts_with(folder), "{} is not in {}", program.display(), folder.display());
}
