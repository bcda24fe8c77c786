//! The command `cargo ops`: its outputs, its files, its exit status.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use fulgurite_ops_verbs::cli::run_words;
use serde_json::Value;

const ROWS: &str = "\
ops:
- op: mul
  doc: Product
  sig: '(x: T, y: T) -> T'
  promote: default
  expr: x * y
  aten: [mul.Tensor]

- op: softplus
  doc: ln(1 + exp(x)), without overflow
  sig: '(x: T) -> T'
  promote: float
  expr: if x > 20 { x } else { log1p(exp(x)) }
  tests: {points: [{x: 0, out: 0.693147181}]}
";

/// A folder for one test, with a database in it.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn new(name: &str, database: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("fulgurite-cli-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        let folder = Folder { path };
        fs::write(folder.database(), database).expect("a database");
        folder
    }

    fn database(&self) -> PathBuf {
        self.path.join("ops.yaml")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.database()).expect("the database")
    }

    /// Status, standard output, standard error.
    fn run(&self, words: &[&str]) -> (i32, String, String) {
        let file = format!("--file={}", self.database().display());
        let words = ["ops"].iter().chain(words).copied().chain([file.as_str(), "--color=never"]);
        run(words)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn run<'a>(words: impl Iterator<Item = &'a str>) -> (i32, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = run_words(words.map(OsString::from), &mut out, &mut err);
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status, text(out), text(err))
}

/// The objects of an output, which has one of version 1 on every line.
fn objects(out: &str) -> Vec<Value> {
    let objects: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    assert!(objects.iter().all(|object| object["v"] == 1), "{out}");
    objects
}

#[test]
fn rows_without_a_kernel_family_are_named() {
    let row = "ops:\n- op: largest_sum\n  doc: Largest sum of a row\n  sig: '(x: T[M, N]) -> T[]'\n  promote: equal\n  \
               dtypes: float\n  expr: 'max[m](sum[n](x[m, n]))'\n";
    let folder = Folder::new("generic", row);
    let (status, out, err) = folder.run(&["check"]);
    assert_eq!(status, 0, "{out}");
    assert!(err.starts_with("warning[E115]: no kernel family serves `largest_sum`: it runs loop by loop\n"), "{err}");
    let (_, out, _) = folder.run(&["check", "--json"]);
    assert_eq!(objects(&out)[1]["generic"], serde_json::json!(["largest_sum"]));
}

#[test]
fn a_right_database_is_one_line() {
    let folder = Folder::new("right", ROWS);
    let (status, out, err) = folder.run(&["check"]);
    assert_eq!((status, err.as_str()), (0, ""), "{out}");
    assert!(out.starts_with("Checked 2 rows in ") && out.lines().count() == 1, "{out}");
    let (status, out, _) = folder.run(&["check", "--quiet"]);
    assert_eq!((status, out.as_str()), (0, ""));
    let (status, out, _) = folder.run(&["check", "--json"]);
    assert_eq!(status, 0);
    assert_eq!(objects(&out)[0]["rows"], 2);
}

/// A row that no point tells from others is named, and an option in which no two points differ.
#[test]
fn rows_that_nothing_tells_from_others_are_named() {
    let row = |op: &str, points: &str| {
        format!(
            "\n- op: {op}\n  doc: A line\n  sig: '(x: T; slope: f64 = 2, shift: f64 = 0) -> T'\n  promote: float\n  expr: x * slope + shift\n{points}"
        )
    };
    let point = "  tests: {points: [{x: 1, out: 2}, {x: 1, slope: 3, out: 3}]}\n";
    let all = "  tests: {points: [{x: 1, out: 2}, {x: 1, slope: 3, shift: 1, out: 4}]}\n";
    let folder = Folder::new("told", &(ROWS.to_owned() + &row("bare", "") + &row("line", point) + &row("all", all)));
    let (status, _, err) = folder.run(&["check"]);
    assert_eq!(status, 0, "{err}");
    let lines: Vec<&str> = err.lines().collect();
    assert_eq!(lines.len(), 2, "{err}");
    assert!(lines[0].contains("`bare`") && lines[0].contains("no `points`"), "{err}");
    assert!(lines[1].contains("`line`") && lines[1].contains("differ in shift"), "{err}");
    let (_, out, _) = folder.run(&["check", "--json"]);
    let untold = &objects(&out)[0]["untold"];
    assert_eq!(*untold, serde_json::json!([{"op": "bare", "options": []}, {"op": "line", "options": ["shift"]}]));
}

/// Rows that the named rows call are checked too. Other rows are not, not even rows that can't be read.
#[test]
fn some_rows_can_be_checked_alone() {
    let rows = "ops:\n- op: twice\n  doc: Sum with itself\n  sig: '(x: T) -> T'\n  promote: default\n  decomp: half(x)\n\n\
                - op: half\n  doc: Half\n  sig: '(x: T) -> T'\n  promote: default\n  expr: x * y\n\n\
                - op: other\n  doc: Product\n  sig: '(x: T) -> T'\n  promote: default\n  expr: x * x\n  tests: {points: [{x: 3, out: 9}]}\n\n\
                - op: cut\n  doc: It ends too soon\n  promote: float\n  expr: exp(x\n\n\
                - po: unnamed\n  doc: A row without a name\n";
    let folder = Folder::new("only", rows);
    let (status, out, err) = folder.run(&["check", "--only", "other"]);
    assert_eq!((status, err.as_str()), (0, ""), "{out}");
    assert!(out.starts_with("Checked 1 row in "), "{out}");
    for names in ["twice", "half", "other,half"] {
        let (status, out, err) = folder.run(&["check", "--only", names]);
        assert_eq!((status, out.as_str()), (1, ""), "{err}");
        assert!(err.contains("error[E007]") && err.contains("known here: x"), "{err}");
    }
    let (status, _, err) = folder.run(&["check", "--only", "othre"]);
    let claim = format!("error[E903]: `{}` has no row `othre`\n", folder.database().display());
    assert_eq!((status, err), (1, claim + "  = help: did you mean `other`?\n"));
}

#[test]
fn declared_gradients_are_graded() {
    // the second rule multiplies by a number that proofs do not know
    let declared =
        |rule: &str| ROWS.replace("  promote: float\n", &format!("  promote: float\n  grad: {{x: '{rule}'}}\n"));
    let sigmoid =
        "- op: sigmoid\n  doc: 1 / (1 + exp(-x))\n  sig: '(x: T) -> T'\n  promote: float\n  expr: sigmoid(x)\n";
    let select = "- op: where\n  doc: Choice\n  sig: '(cond: bool, x: T, y: T) -> T'\n  promote: default\n  expr: if cond { x } else { y }\n";
    let compare = "- op: gt\n  doc: x > y\n  sig: '(x: T, y: T) -> bool'\n  promote: default\n  expr: x > y\n";
    let rows = [sigmoid, select, compare].concat();
    for (rule, line, reason) in [
        ("where(x > 20, g, g * sigmoid(x))", "proved", "written; proved: equal to the derived rule by normal form"),
        ("where(x > 20, g, g * sigmoid(x * len([1])))", "checked", "written; checked on "),
    ] {
        let folder = Folder::new(line, &(declared(rule) + &rows));
        let (status, out, err) = folder.run(&["check"]);
        assert!(status == 0 && out.ends_with(&format!(" s; 1 declared gradient {line}\n")), "{out}{err}");
        let (_, out, _) = folder.run(&["check", "--json"]);
        assert_eq!(objects(&out)[0]["gradients"][line], 1);
        let (_, out, _) = folder.run(&["explain", "softplus"]);
        assert!(out.contains(reason), "{out}");
        let (_, out, _) = folder.run(&["explain", "softplus", "--json"]);
        assert_eq!(objects(&out)[0]["gradients"][0]["grade"], line);
    }
}

#[test]
fn a_wrong_database_fails() {
    let folder = Folder::new("wrong", &ROWS.replace("log1p(exp(x))", "log1p(exq(x))"));
    let (status, out, err) = folder.run(&["check"]);
    assert_eq!((status, out.as_str()), (1, ""));
    assert!(err.contains("error[E007]") && err.contains("did you mean `exp`?"), "{err}");
    assert!(!err.contains('\u{1b}'));
    let (status, out, err) = folder.run(&["check", "--json"]);
    assert_eq!((status, err.as_str()), (1, ""));
    let objects = objects(&out);
    assert_eq!((&objects[0]["code"], &objects[0]["line"]), (&Value::from("E007"), &Value::from(13)));
    assert_eq!(objects[1]["errors"], 1);
}

#[test]
fn wrong_use_is_status_2() {
    let folder = Folder::new("use", ROWS);
    let missing = folder.path.join("none.yaml");
    let missing = missing.display().to_string();
    let (status, out, err) = run(["ops", "check", &missing].into_iter());
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(err.starts_with("error[E910]: ") && err.contains("can't be read"), "{err}");
    // one of the two databases would be ignored
    let (status, _, err) = folder.run(&["check", &missing]);
    assert!(status == 2 && err.starts_with("error[E910]: two databases are named: "), "{err}");
    assert_eq!(folder.run(&["chekc"]).0, 2);
    let (status, _, err) = folder.run(&["new", "mish"]);
    assert!(status == 2 && err.contains("<FORMULA>"), "{err}");
    let (status, out, _) = run(["ops", "--help"].into_iter());
    assert!(status == 0 && out.contains("cargo ops check"), "{out}");
    // as an installed subcommand of cargo
    assert_eq!(run(["cargo-ops", "ops", "--version"].into_iter()).0, 0);
}

#[test]
fn rows_are_explained() {
    let folder = Folder::new("explain", ROWS);
    let (status, out, _) = folder.run(&["explain", "mul"]);
    assert_eq!(status, 0);
    for part in [
        "cpu       the executor's own tiles and loops",
        "cuda      made with its neighbours",
        "vmap      derived (pointwise)   the row itself: its arguments broadcast",
        "mul(x: T, y: T) -> T",
        "pointwise",
        "ops.yaml:2:7",
        "x * y",
        "d/dx",
        "derived",
        "in x; in y",
        "aten.mul.Tensor",
    ] {
        assert!(out.contains(part), "no {part} in\n{out}");
    }
    assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
    let (status, out, _) = folder.run(&["explain", "mul", "--json"]);
    assert_eq!(status, 0);
    assert_eq!(objects(&out)[0]["kind"], "pointwise");
    assert_eq!(objects(&out)[0]["vmap"]["value"], "derived (pointwise)");
    let (status, out, _) = folder.run(&["explain", "mul", "--code"]);
    assert!(status == 0 && out.contains("mul"), "{out}");
    let (status, _, err) = folder.run(&["explain", "sofplus"]);
    assert_eq!(status, 1);
    assert!(err.contains("has no row `sofplus`") && err.contains("did you mean `softplus`?"), "{err}");
}

#[test]
fn near_names_are_proposed() {
    let folder = Folder::new("near", &ROWS.replace("op: softplus", "op: mul2"));
    let (status, out, err) = folder.run(&["explain", "mulx"]);
    assert_eq!((status, out.as_str()), (1, ""));
    assert!(err.contains("did you mean `mul` or `mul2`?"), "{err}");
    let (status, _, err) = folder.run(&["explain", "aten.mul.Tensor"]);
    assert!(status == 1 && err.contains("is a call of the row `mul`: `cargo ops explain mul`\n"), "{err}");
    let (status, out, err) = folder.run(&["explain", "mulx", "--json"]);
    assert_eq!((status, err.as_str()), (1, ""));
    assert_eq!(objects(&out)[0]["code"], "E903");
}

/// A row that can't be listed is named.
#[test]
fn broken_rows_are_named() {
    let folder = Folder::new("broken", &ROWS.replace("expr: x * y", "expr: x *"));
    let (status, out, err) = folder.run(&["list"]);
    assert_eq!((status, out.lines().count()), (0, 1), "{out}");
    assert!(err.contains("rows with faults are not listed: mul"), "{err}");
    let (status, _, err) = folder.run(&["explain", "mul"]);
    assert!(status == 1 && err.contains("the row `mul` of `") && err.contains("has a fault"), "{err}");
}

/// The help of every verb has examples.
#[test]
fn help_has_examples() {
    for verb in ["check", "explain", "new", "list"] {
        let (status, out, err) = run(["ops", verb, "--help"].into_iter());
        assert_eq!((status, err.as_str()), (0, ""));
        assert!(out.contains(&format!("Examples:\n  cargo ops {verb}")), "{out}");
    }
}

#[test]
fn codes_are_explained() {
    let folder = Folder::new("codes", "not a database at all");
    let (status, out, _) = folder.run(&["explain", "e007"]);
    assert!(status == 0 && out.starts_with("# E007: "), "{out}");
    let (status, out, _) = folder.run(&["explain", "E2"]);
    assert!(status == 0 && out.lines().count() > 3 && out.lines().all(|line| line.starts_with("E2")), "{out}");
    for code in ["E666", "E99999"] {
        let (status, _, err) = folder.run(&["explain", code]);
        assert!(status == 1 && err.starts_with(&format!("error[E903]: there is no error code `{code}`")), "{err}");
    }
    let (status, out, _) = folder.run(&["explain", "keys"]);
    assert!(status == 0 && out.contains("promote"), "{out}");
}

#[test]
fn rows_are_listed() {
    let folder = Folder::new("list", ROWS);
    let (status, out, _) = folder.run(&["list"]);
    assert!(status == 0 && out.lines().count() == 2 && out.contains("softplus  pointwise"), "{out}");
    let (status, out, _) = folder.run(&["list", "--rules", "--json"]);
    assert_eq!(status, 0);
    assert_eq!(objects(&out)[0]["gradients"][1]["arg"], "y");
    let (status, out, _) = folder.run(&["list", "--sizes", "--json"]);
    assert_eq!(status, 0);
    let rows = objects(&out);
    assert!(rows.len() == 2 && rows[0]["op"] == "softplus" && rows[0]["kernels"].as_u64() > Some(0), "{out}");
    assert!(rows.iter().all(|row| row["symbols"].as_u64() > Some(0)), "{out}");
}

/// A class and its rows are explained and listed. A row has a rule for a class, and `fmt` formats it.
#[test]
fn classes_are_explained_and_listed() {
    let class = "subclasses:\n\n- class: Pair\n  doc: Two tensors\n  sig: '(a: T[..S], b: T[..S]) -> T[..S]'\n  plain: a\n  \
                 ops: {mul: each}\n  from:\n  - op: pair\n    doc: x twice\n    sig: '(x: T) -> T[_]'\n    decomp: Pair(x, x)\n\n";
    let rows = format!("{class}{}  subclass: {{Pair: 'Pair( f(x.a),f(x.b) )'}}\n", ROWS.trim_end().to_owned() + "\n");
    let folder = Folder::new("classes", &rows);
    let (status, out, err) = folder.run(&["check"]);
    assert_eq!(status, 0, "{out}{err}");
    let (status, out, _) = folder.run(&["explain", "Pair"]);
    assert!(status == 0 && out.contains("2 operators, by a rule that names it: mul softplus"), "{out}");
    let (_, out, _) = folder.run(&["explain", "Pair", "--json"]);
    assert_eq!((&objects(&out)[0]["class"], &objects(&out)[0]["operators"][0]["by"]), (&"Pair".into(), &"name".into()));
    let (status, out, _) = folder.run(&["explain", "pair"]);
    assert!(status == 0 && out.contains("makes     a Pair"), "{out}");
    let (status, out, _) = folder.run(&["list", "--classes"]);
    assert!(status == 0 && out.starts_with("Pair(a: T[..S], b: T[..S]) -> T[..S]") && out.contains("x twice"), "{out}");
    let (status, out, _) = folder.run(&["list", "--classes", "--json"]);
    assert!(status == 0 && objects(&out)[0]["from"][0]["doc"] == "x twice", "{out}");
    let (status, out, err) = folder.run(&["fmt"]);
    assert_eq!(status, 0, "{out}{err}");
    let made = fs::read_to_string(folder.database()).expect("the database");
    assert!(made.contains("  subclass: {Pair: 'Pair(f(x.a), f(x.b))'}"), "{made}");
}

#[test]
fn a_written_gradient_says_what_it_saves() {
    let twice = "\n- op: twice\n  doc: Two times x\n  sig: '(x: T) -> T'\n  promote: float\n  expr: x + x\n  grad: {x: '2 * g'}\n";
    let rows = ROWS.to_owned() + twice;
    let folder = Folder::new("written", &rows);
    let (status, out, err) = folder.run(&["list", "--rules"]);
    assert_eq!(status, 0, "{out}{err}");
    assert!(out.contains("written; proved") && out.contains("without it: "), "{out}");
    assert_eq!(err, "1 of 3 rows have a written gradient\n");
    // the written rule and the derived one are one multiplication each
    assert!(out.contains("for x: f32[64, 96]: 6144 flops, 49.2 k bytes in 1 line; without it 6144 flops"), "{out}");
    let (_, out, _) = folder.run(&["list", "--rules", "--json"]);
    let costs = &objects(&out)[2]["gradients"][0]["costs"];
    assert_eq!(
        (costs["written"]["flops"].as_u64(), costs["without"]["lines"].as_u64()),
        (Some(6144), Some(1)),
        "{costs}"
    );
}

#[test]
fn a_row_is_added() {
    let folder = Folder::new("new", ROWS);
    let (status, out, err) = folder.run(&["new", "mish", "x * tanh(softplus(x))", "--dry-run"]);
    assert_eq!(status, 0, "{err}");
    assert!(out.contains("  promote: float\n") && err.contains("Would write"), "{out}{err}");
    assert_eq!(folder.text(), ROWS);
    let (status, _, err) = folder.run(&["new", "mish", "x * tanh(softplus(x))"]);
    assert_eq!(status, 0, "{err}");
    assert!(err.contains("Derived grad x: "), "{err}");
    let text = folder.text();
    let row = "\n\n- op: mish\n  doc: x * tanh(softplus(x))\n  sig: '(x: T) -> T'\n  promote: float\n  expr: x * tanh(softplus(x))\n";
    assert_eq!(text, format!("{}{row}", ROWS.trim_end()));
    assert_eq!(folder.run(&["check"]).0, 0);
    // comparisons and arithmetic find their own kinds
    assert_eq!(folder.run(&["new", "above", "x > y"]).0, 0);
    assert_eq!(folder.run(&["new", "twice", "x + x"]).0, 0);
    assert!(folder.text().contains("(x: T, y: T) -> bool'\n  promote: bool"), "{}", folder.text());
    let (status, _, err) = folder.run(&["new", "times", "--like", "mul"]);
    assert_eq!(status, 0, "{err}");
    assert_eq!(folder.run(&["check"]).0, 0);
    assert_eq!(fs::read_dir(&folder.path).expect("the folder").count(), 1, "a file was left behind");
}

#[test]
fn a_row_may_be_like_one_of_another_database() {
    let (above, folder) = (Folder::new("like-above", ROWS), Folder::new("like", "ops: []\n"));
    let upstream = format!("--upstream={}", above.database().display());
    let (status, _, err) = folder.run(&["new", "times", "--like", "mul", &upstream]);
    assert_eq!(status, 0, "{err}");
    assert!(folder.text().starts_with("ops:\n- op: times\n"), "{}", folder.text());
    assert_eq!(folder.run(&["fmt", "--check"]).0, 0);
}

/// A crate's rows call those of a crate that it depends on, which cargo names. Rows outside of any crate need an
/// option.
#[test]
fn the_database_upstream_of_a_crate_is_found() {
    let (above, folder) = (Folder::new("crate-above", ROWS), Folder::new("crate", "ops: []\n"));
    let manifest = |name: &str, rest: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n{rest}\n[workspace]\n")
    };
    let database = "[package.metadata.fulgurite]\ndatabase = \"ops.yaml\"\n";
    let depends = format!("[dependencies]\nrows-of-fulgurite = {{ path = {:?} }}\n", above.path);
    for (folder, manifest) in
        [(&above, manifest("rows-of-fulgurite", database)), (&folder, manifest("crate-with-rows", &depends))]
    {
        fs::create_dir_all(folder.path.join("src")).expect("a folder");
        fs::write(folder.path.join("src/lib.rs"), "").expect("a source");
        fs::write(folder.path.join("Cargo.toml"), manifest).expect("a manifest");
    }
    let row = "ops:\n- op: twice\n  doc: Twice x\n  sig: '(x: T) -> T'\n  dtypes: f32\n  decomp: mul(x, 2)\n  \
               tests: {points: [{x: 1, out: 2}]}\n";
    fs::write(folder.database(), row).expect("a database");
    let (status, out, err) = folder.run(&["check"]);
    assert_eq!(status, 0, "{out}{err}");
    assert_eq!(folder.run(&["new", "times", "--like", "mul"]).0, 0);
    let (status, _, err) = folder.run(&["explain", "softplus"]);
    assert!(status == 1 && err.contains("upstream has it: `cargo ops explain softplus --file "), "{err}");
    fs::write(folder.path.join("Cargo.toml"), "[package]\n# fulgurite\n").expect("a manifest");
    let (status, _, err) = folder.run(&["check"]);
    assert!(status == 2 && err.contains("error[E910]") && err.contains("--upstream FILE"), "{err}");
    fs::remove_file(folder.path.join("Cargo.toml")).expect("it was there");
    let (status, _, err) = folder.run(&["check"]);
    assert!(
        status == 1 && err.contains("was checked alone; where it calls rows of another database, add `--upstream "),
        "{err}"
    );
}

#[test]
fn a_wrong_row_is_not_added() {
    let folder = Folder::new("not-new", ROWS);
    for words in [
        &["new", "mish", "x * tnah(x)"][..],
        &["new", "mul", "x * y"],
        &["new", "Mish", "x * x"],
        &["new", "mish\n  doc: d\n- op: mash", "x * x"],
        &["new", "mish", "x *"],
        &["new", "mish", "sum(x)", "--decomp", "--sig", "(x: T[..S]) -> T[]"],
        &["new", "mish", "--like", "nothing"],
    ] {
        let (status, _, err) = folder.run(words);
        assert_eq!(status, 1, "{words:?}: {err}");
        assert!(err.contains("error[E"), "{words:?}: {err}");
        assert_eq!(folder.text(), ROWS, "{words:?}");
    }
}

/// A new database gets its schema, and the output says so. A missing folder is not made.
#[test]
fn a_database_is_begun() {
    let folder = Folder::new("begun", ROWS);
    let file = |name: &str| format!("--file={}", folder.path.join(name).display());
    let (status, _, err) = run(["ops", "new", "twice", "x + x", &file("none/mine.yaml")].into_iter());
    assert!(status == 2 && err.contains("mine.yaml` can't be written: there is no folder `"), "{err}");
    let (status, _, err) = run(["ops", "new", "twice", "x + x", &file("mine.yaml")].into_iter());
    assert!(status == 0 && err.contains("ops.schema.json, with which editors read the database"), "{err}");
    assert!(folder.path.join("ops.schema.json").is_file());
    let (_, _, err) = run(["ops", "new", "thrice", "x + x + x", &file("mine.yaml")].into_iter());
    assert!(!err.contains("ops.schema.json"), "{err}");
}

/// The command writes to the target of a link, and the link stays.
#[cfg(unix)]
#[test]
fn a_link_stays_a_link() {
    let folder = Folder::new("link", ROWS);
    let link = folder.path.join("link.yaml");
    std::os::unix::fs::symlink(folder.database(), &link).expect("a link");
    let file = format!("--file={}", link.display());
    let (status, _, err) = run(["ops", "new", "twice", "x + x", &file].into_iter());
    assert_eq!(status, 0, "{err}");
    assert!(fs::symlink_metadata(&link).expect("the link").is_symlink());
    assert!(folder.text().contains("- op: twice"));
}

/// A reader that goes away is no failure.
#[test]
fn a_closed_pipe_is_fine() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let folder = Folder::new("pipe", ROWS);
    let file = format!("--file={}", folder.database().display());
    for verb in [&["list"][..], &["explain", "mul"], &["explain", "mul", "--code"], &["check"], &["list", "--json"]] {
        let words = || ["ops"].iter().chain(verb).copied().chain([file.as_str()]).map(OsString::from);
        assert_eq!(run_words(words(), &mut Closed, &mut Closed), 0, "{verb:?}");
        let mut err = Vec::new();
        assert_eq!((run_words(words(), &mut Closed, &mut err), err), (0, vec![]), "{verb:?}");
    }
}
