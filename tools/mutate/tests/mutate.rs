//! Wrong rows: the faults that are made, what refutes them, and the share that is refuted of the project's own database.

use std::path::Path;

use fulgurite_codegen::check::recorded::of_name;
use fulgurite_codegen::check::{self, Checked};
use fulgurite_codegen::diag::Diagnostics;
use fulgurite_codegen::files::Files;
use fulgurite_codegen::pipeline::{Table, read_rows};
use fulgurite_codegen::schema::{Database, read_database};
use fulgurite_codegen::source::Sources;
use fulgurite_mutate::command::run_words;
use fulgurite_mutate::judge::{Bench, Verdict, judge_all};
use fulgurite_mutate::score::Score;
use fulgurite_mutate::{self as mutate, Mutant};

const DATABASE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ops.yaml");

const ROWS: &str = "\
ops:
- op: mul
  doc: Product
  sig: '(x: T, y: T) -> T'
  promote: default
  expr: x * y

- op: cos
  doc: Cosine
  promote: float
  expr: cos(x)

# with its gradient
- op: sin
  doc: Sine
  sig: '(x: T) -> T'
  promote: float
  expr: sin(x)
  grad: {x: g * cos(x)}

- op: softplus
  doc: ln(1 + exp(x)), without overflow
  sig: '(x: T; threshold: f64 = 20) -> T'
  promote: float
  expr: if x > threshold { x } else { log1p(exp(x)) }
  tests: {points: [{x: 0, out: 0.693147181}, {x: 30, out: 30}, {x: 3, threshold: 2, out: 3}]}
";

/// Read, but not checked.
fn parsed(text: &str) -> (Database, Sources, Diagnostics) {
    let mut sources = Sources::default();
    let mut diags = Diagnostics::new();
    let file = sources.add("ops.yaml", text);
    let database = read_database(file, &sources, &mut diags);
    (database, sources, diags)
}

fn read(text: &str) -> (Database, Checked, Sources) {
    let (database, sources, mut diags) = parsed(text);
    let checked = check::run(&database, &Table::default(), &mut diags);
    assert!(diags.is_empty(), "the database has faults of its own");
    (database, checked, sources)
}

fn own() -> String {
    std::fs::read_to_string(DATABASE).expect("the database")
}

/// Each is a row of the same name with another text; nothing but the edited key differs.
#[test]
fn a_mutant_is_its_row_with_one_fault() {
    let (database, sources, _) = parsed(&own());
    let all = mutate::mutants(&database, &sources);
    assert!(all.len() > 20_000, "{} mutants", all.len());
    for mutant in mutate::choose(all, 2000, 3) {
        let (read, ..) = parsed(&format!("ops:\n{}", mutant.text));
        let names = read.rows.iter().map(|row| row.name()).chain(read.broken.iter().copied());
        assert_eq!(names.collect::<Vec<_>>(), [mutant.row], "{}", mutant.text);
        let row = &database.rows[mutant.at];
        let key = mutant.key.split('.').next().unwrap_or_default();
        for text in row.keys.iter().filter(|text| text.as_str() != key && text.as_str() != "op") {
            let kept = mutant.text.lines().any(|line| line.trim_start().starts_with(&format!("{}:", text.as_str())));
            // `expr` becomes `view`, and back
            assert!(kept || mutant.edit.0 == text.as_str(), "{} lost {}:\n{}", mutant.row, text.as_str(), mutant.text);
        }
    }
}

#[test]
fn a_seed_chooses_the_same_each_time() {
    let (database, _, sources) = read(ROWS);
    let texts = |seed| -> Vec<String> {
        let all = mutate::mutants(&database, &sources);
        mutate::choose(all, 20, seed).into_iter().map(|mutant| mutant.text).collect()
    };
    assert_eq!(texts(1).len(), 20);
    assert_eq!(texts(1), texts(1));
    assert_ne!(texts(1), texts(2));
}

/// What a row states twice is refuted by the check that compares the two; what it states once by its points.
#[test]
fn faults_are_found_by_their_checks() {
    let (database, checked, sources) = read(ROWS);
    let bench = Bench::new(&database, &sources, &checked, &Table::default());
    let all = mutate::mutants(&database, &sources);
    let verdicts = judge_all(&bench, &all);
    let verdict = |row: &str, key: &str, from: &str, to: &str| -> Vec<(&Mutant, &Verdict)> {
        let these = all.iter().zip(&verdicts);
        let these: Vec<_> = these
            .filter(|(m, _)| m.row == *row && m.key == key && m.edit == (from.to_owned(), to.to_owned()))
            .collect();
        assert!(!these.is_empty(), "no mutant of {row}.{key} has {to} for {from}");
        these
    };
    let is = |row, key, from, to, code| {
        let found = verdict(row, key, from, to);
        assert!(found.iter().all(|(_, v)| **v == Verdict::Check(code)), "{row}.{key} {from} -> {to}: {:?}", found[0].1);
    };
    is("sin", "grad.x", "cos(x)", "sin(x)", "E401");
    is("sin", "grad.x", "g * cos(x)", "g", "E401");
    is("sin", "expr", "sin(x)", "cos(x)", "E401");
    is("sin", "no_grad", "", "it is never asked for", "E502");
    // it overflows where it should be linear
    is("softplus", "expr", "x > threshold", "x <= threshold", "E304");
    // nothing says what a product is
    let found = verdict("mul", "expr", "x * y", "x + y");
    let Verdict::Survived(Some(point)) = found[0].1 else { panic!("{:?}", found[0].1) };
    assert!(found[0].0.meaning && point.starts_with("{x: "), "{point}");
    assert!(all.iter().zip(&verdicts).all(|(_, v)| *v != Verdict::Crashed));
}

/// What survives comes with a point that the right row meets and the wrong one does not.
#[test]
fn a_survivor_comes_with_the_point_that_refutes_it() {
    let (database, checked, sources) = read(ROWS);
    let bench = Bench::new(&database, &sources, &checked, &Table::default());
    let all: Vec<Mutant> =
        mutate::mutants(&database, &sources).into_iter().filter(|m| m.row == "mul" && m.meaning).collect();
    let verdicts = judge_all(&bench, &all);
    let survived = all.iter().zip(&verdicts).filter_map(|(mutant, verdict)| Some((mutant, verdict.point()?)));
    let mut refuted = 0;
    for (mutant, point) in survived.take(12) {
        let with = |text: &str| {
            let text = format!("ops:\n{}  tests:\n    points:\n    - {point}\n", text.trim_end().to_owned() + "\n");
            let (database, _, mut diags) = parsed(&text);
            check::run(&database, &Table::default(), &mut diags);
            diags.sorted().iter().map(|diag| diag.code).collect::<Vec<_>>()
        };
        let right = ROWS.lines().skip(1).take(5).map(|line| format!("{line}\n")).collect::<String>();
        assert!(with(&right).is_empty(), "{point}");
        assert_eq!(with(&mutant.text), ["E301"], "{point}\n{}", mutant.text);
        refuted += 1;
    }
    assert!(refuted > 5, "{refuted} of {} came with a point", all.len());
}

/// An element is all that these rows see: every number of a small format tells them, or none does.
#[test]
fn numbers_tell_pointwise_rows() {
    let text = "\
ops:
- op: half_turns
  doc: Whole half turns in x squared
  sig: '(x: T) -> T'
  promote: float
  expr: floor(x * x / 2)
- op: ramp
  doc: What of x is above zero
  sig: '(x: T) -> T'
  promote: float
  expr: if x > 0 { x } else { 0 }
";
    let (database, checked, sources) = read(text);
    let bench = Bench::new(&database, &sources, &checked, &Table::default());
    let all = mutate::mutants(&database, &sources);
    let of = |row: &str, from: &str, to: &str| {
        let edit = (from.to_owned(), to.to_owned());
        let mutant = all.iter().find(|m| m.row == *row && m.edit == edit);
        bench.judge(mutant.unwrap_or_else(|| panic!("no mutant of {row} has {to} for {from}")))
    };
    let same = of("half_turns", "floor(x * x / 2)", "trunc(x * x / 2)");
    assert!(matches!(&same, Verdict::Equivalent(why) if why.contains("tuples of numbers")), "{same:?}");
    // at zero and at NaN alone, which no finite selection of calls need hold
    let telling = |from: &str, to: &str, point: &str| {
        let verdict = of("ramp", from, to);
        assert_eq!(verdict, Verdict::Survived(Some(point.to_owned())), "{from} -> {to}");
    };
    telling("x > 0", "x >= 0", "{x: 0, out: 0, grad: {x: [0]}}");
    telling("if x > 0 { x } else { 0 }", "(x > 0) as T * x", "{x: nan, out: 0}");
    telling("if x > 0 { x } else { 0 }", "x", "{x: -1, out: 0}");
}

/// Points that stand apart refute what those of the row refute.
#[test]
fn points_apart_are_evidence() {
    let further = "softplus:\n- {x: 0, out: 0.693147181}\n- {x: 30, out: 30}\n- {x: 3, threshold: 2, out: 3}\n";
    let rows = ROWS.lines().filter(|line| !line.contains("tests:")).map(|line| format!("{line}\n"));
    let survive = |further: &str| {
        let mut sources = Sources::default();
        let file = sources.add("ops.yaml", rows.clone().collect::<String>());
        sources.add_points("points.yaml", further);
        let mut diags = Diagnostics::new();
        let database = read_database(file, &sources, &mut diags);
        let checked = check::run(&database, &Table::default(), &mut diags);
        assert!(diags.is_empty(), "the database has faults of its own");
        let mutants = mutate::mutants(&database, &sources).into_iter().filter(|mutant| mutant.row == *"softplus");
        let mutants: Vec<Mutant> = mutants.collect();
        let bench = Bench::new(&database, &sources, &checked, &Table::default());
        judge_all(&bench, &mutants).iter().filter(|verdict| matches!(verdict, Verdict::Survived(_))).count()
    };
    let (with, without) = (survive(further), survive(""));
    assert!(with < without, "{with} of {without} mutants survive");
}

/// A row whose own points say little is refuted by points, and by recorded calls, of rows downstream that call it.
#[test]
fn databases_downstream_are_evidence() {
    let below = "\
ops:
- op: squared
  doc: The product of a number and itself
  sig: '(x: T[..S]) -> T[..S]'
  decomp: mul(x, x)
- op: torch.of_itself
  doc: The product of a number and itself
  sig: '(input: T[..S]) -> T[..S]'
  decomp: squared(input)
";
    let points = "  tests: {points: [{input: 3, out: 9}]}\n";
    let call = r#"{"op": "torch.of_itself", "tensors": [{"dtype": "f64", "shape": [], "data": [3.0]}], "args": [{"t": 0}], "kwargs": {}}"#;
    let came = r#"{"status": "ok", "out": [{"dtype": "f64", "shape": [], "data": [9.0]}]}"#;
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    let (database, checked, sources) = read(ROWS);
    let all = mutate::mutants(&database, &sources);
    let sum = all.iter().find(|m| m.row == "mul" && m.edit.1 == "x + y").expect("a sum in the place of the product");
    let bench = || Bench::new(&database, &sources, &checked, &Table::default());
    let table = read_rows(ROWS, "ops.yaml").expect("rows");
    let downstream = |text: &str| {
        let (database, _, mut diags) = parsed(text);
        let upstream = table.completed_for(&database, &database.names().collect());
        let checked = check::run(&database, &upstream, &mut diags);
        assert!(diags.is_empty(), "{:?}", diags.sorted().iter().map(|diag| &diag.message).collect::<Vec<_>>());
        (database, checked)
    };
    let ((without, without_checked), (with, with_checked)) =
        (downstream(below), downstream(&format!("{below}{points}")));
    let silent = bench().with_downstream(&without, &without_checked);
    assert!(matches!(silent.judge(sum), Verdict::Survived(_)), "{:?}", silent.judge(sum));
    let told = bench().with_downstream(&with, &with_checked);
    assert_eq!(told.judge(sum), Verdict::Downstream("E301 of `torch.of_itself`".to_owned()));
    let case = of_name(&json(call), &json(came), "case.1").expect("a case");
    let recorded = silent.with_recorded(vec![case]);
    assert_eq!(recorded.recorded(), (1, 1));
    assert_eq!(recorded.judge(sum), Verdict::Recorded("case.1".to_owned()));
}

/// Of two refused calls that the dtypes refuse one says nothing more than the other; what a condition refuses is kept.
#[test]
fn refused_points_that_say_nothing_are_named() {
    let row = "ops:\n- op: area\n  doc: The area of a square with this side\n  sig: '(x: T) -> T'\n  promote: default\n  \
               dtypes: float\n  require: {'x >= 0': 'a side is not negative'}\n  expr: x * x\n  tests:\n    points:\n    \
               - {x: 3, out: 9}\n    - {x: -1, refused: true}\n    - {x: 'i32 4', refused: true}\n    \
               - {x: 'i32 9', refused: true}\n";
    let (database, checked, sources) = read(row);
    let bench = Bench::new(&database, &sources, &checked, &Table::default());
    let idle = bench.idle(&mutate::mutants(&database, &sources));
    let idle: Vec<&str> = idle.iter().map(|(_, point)| sources.text(point.place)).collect();
    assert_eq!(idle, ["{x: 'i32 9', refused: true}"]);
}

/// A fixed selection of the whole; the shares of all are in docs/mutations.md.
#[test]
fn wrong_rows_of_the_database_are_refuted() {
    let files = Files::read(Path::new(DATABASE), "ops.yaml").expect("the database");
    let (sources, file) = files.sources();
    let mut diags = Diagnostics::new();
    let database = read_database(file, &sources, &mut diags);
    let checked = check::run(&database, &Table::default(), &mut diags);
    assert!(diags.is_empty(), "the database has faults of its own");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
    let cases = mutate::recorded::load(&folder).expect("the recorded values");
    let bench = Bench::new(&database, &sources, &checked, &Table::default()).with_recorded(cases);
    let (met, of) = bench.recorded();
    assert!(met * 100 >= of * 95, "the rows meet {met} of {of} recorded cases");
    let mutants = mutate::choose(mutate::mutants(&database, &sources), 500, 1);
    let verdicts = judge_all(&bench, &mutants);
    let crashed: Vec<&Mutant> =
        mutants.iter().zip(&verdicts).filter(|(_, v)| **v == Verdict::Crashed).map(|(m, _)| m).collect();
    assert!(crashed.is_empty(), "{crashed:?}");
    let score = Score::of(&mutants, &verdicts);
    let survivors = mutants.iter().zip(&verdicts).filter(|(_, verdict)| matches!(verdict, Verdict::Survived(_)));
    let survivors: Vec<String> = survivors.map(|(m, _)| format!("{}: {:?}", m.row, m.edit)).collect();
    assert!(score.stated.share() >= STATED, "stated twice {}: {survivors:#?}", score.stated);
    assert!(score.meaning.share() >= MEANING, "meaning {}: {survivors:#?}", score.meaning);
}

/// Rules of a class that lose metadata or dtypes are refused: of the class that the documentation shows all of them.
#[test]
fn wrong_rules_of_a_class_are_refuted() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/downstream/ops.yaml"));
    let (upstream, text) = (own(), text.expect("a database"));
    let (database, ..) = parsed(&text);
    let (_, rows, _) = read(&upstream);
    let mut table = Table::default();
    rows.rows.into_iter().for_each(|row| table.insert(row));
    let mutants = mutate::classes::mutants(&database, &text);
    assert!(mutants.len() >= 8, "{}", mutants.len());
    for mutant in mutants {
        let (database, _, mut diags) = parsed(&mutant.text);
        check::run(&database, &table, &mut diags);
        assert!(diags.errors() > 0, "{} has {} for {}", mutant.class, mutant.edit.1, mutant.edit.0);
    }
}

/// Three deviations below the shares of all mutants, for a selection of this size: any edit of the database draws
/// another.
const STATED: f64 = 0.96;
const MEANING: f64 = 0.96;

#[test]
fn the_command_says_what_survives() {
    let folder = std::env::temp_dir().join(format!("fulgurite-mutate-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("ops.yaml");
    std::fs::write(&path, ROWS).expect("a database");
    let run = |words: &[&str]| {
        let file = path.display().to_string();
        let words = ["ops", "mutate", "--file", &file].into_iter().chain(words.iter().copied()).map(Into::into);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let status = run_words(words.collect::<Vec<_>>(), &mut out, &mut err);
        (status, String::from_utf8_lossy(&out).into_owned(), String::from_utf8_lossy(&err).into_owned())
    };
    let (status, out, _) = run(&["--row", "mul"]);
    assert!(status == 0 && out.contains("mul expr M34 (meaning) survived: `x * y` -> `x + y`"), "{out}");
    assert!(out.contains("\n  a point that tells: {x: "), "{out}");
    let (status, out, _) = run(&["--json", "--count", "5", "--seed", "4"]);
    let json: serde_json::Value = serde_json::from_str(&out).expect("one object");
    assert!(status == 0 && json["mutants"].as_array().is_some_and(|all| all.len() == 5), "{out}");
    assert!(json["score"].is_number() && json["meaning_score"].is_number());
    let (status, _, err) = run(&["--row", "mull"]);
    assert!(status == 1 && err.contains("E903") && err.contains("`mul`"), "{err}");
    let (status, _, err) = run(&["--recorded", "/nowhere/at/all"]);
    assert!(status == 2 && err.contains("E910"), "{err}");
    let (status, _, err) = run(&["--count", "0"]);
    assert!(status == 2 && err.contains("the number of mutants is at least 1"), "{err}");
    // the point of a row downstream says what a product is
    let below = folder.join("below");
    std::fs::create_dir_all(&below).expect("a folder");
    let squared = "ops:\n- op: squared\n  doc: The square\n  sig: '(x: T[..S]) -> T[..S]'\n  decomp: mul(x, x)\n  tests: {points: [{x: 3, out: 9}]}\n";
    std::fs::write(below.join("ops.yaml"), squared).expect("a database");
    let with = below.display().to_string();
    let (status, out, err) = run(&["--row", "mul", "--with", &with]);
    assert!(status == 0 && !out.contains("`x * y` -> `x + y`"), "{out}{err}");
    std::fs::write(below.join("ops.yaml"), squared.replace("out: 9", "out: 8")).expect("a database");
    let (status, out, err) = run(&["--with", &with]);
    assert!(status == 1 && out.is_empty() && err.contains("E301"), "{err}");
    // a wrong row stands for one of the database
    let wrong = folder.join("wrong.yaml");
    std::fs::write(&wrong, "ops:\n- op: mul\n  doc: d\n\n- op: sofplus\n  doc: d\n").expect("rows");
    let (status, _, err) = run(&["--wrong", &wrong.display().to_string()]);
    assert_eq!(status, 1);
    assert!(err.contains("wrong.yaml:5: there is no row `sofplus`\n  = help: did you mean `softplus`?"), "{err}");
    std::fs::write(&path, ROWS.replace("g * cos(x)", "g * sin(x)")).expect("a database");
    let (status, out, err) = run(&[]);
    assert!(status == 1 && out.is_empty() && err.contains("E401"), "{err}");
    std::fs::remove_dir_all(&folder).expect("removed");
}
