//! Reading and checking of databases: right ones pass, wrong ones give their messages, and no bytes cause a panic.

#[path = "../../tests/common/mod.rs"]
mod common;

use common::report;
use std::fs;
use std::path::{Path, PathBuf};

use fulgurite_codegen::diag::Diagnostics;
use fulgurite_codegen::diag::render::{self, Style};
use fulgurite_codegen::files::Files;
use fulgurite_codegen::pipeline::{self, Table};
use fulgurite_codegen::schema::{Body, Database, RowSource, read_database};
use fulgurite_codegen::source::Sources;
use fulgurite_codegen::yaml::Text;
use fulgurite_core::lang::{Ident, Span};
use fulgurite_ops_verbs::explain::pages::PAGES;

/// A database from a text, its diagnostics, and the file.
fn read(path: &str, text: &str) -> (Database, Diagnostics, Sources) {
    let mut sources = Sources::default();
    let mut diags = Diagnostics::new();
    let file = sources.add(path, text);
    let database = read_database(file, &sources, &mut diags);
    (database, diags, sources)
}

/// The rows on which the language was tried, as a database.
fn tried() -> String {
    format!("ops:\n{}", include_str!("../../../core/tests/data/rows-tried.yaml"))
}

fn cases() -> Vec<PathBuf> {
    databases("tests/err")
}

fn databases(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut cases: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder of cases")
        .map(|entry| entry.expect("a case").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    cases.sort();
    cases
}

/// Each `err/*.yaml` gives exactly the messages in the `.stderr` beside it. `UPDATE_EXPECT=1` rewrites these. The rows of
/// `err/downstream_*.yaml` may use those of fulgurite.
#[test]
fn wrong_databases_say_what_is_wrong() {
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let own = fs::read_to_string(&common::databases()[0]).expect("the database");
    let (own, alone) = (pipeline::read_rows(&own, "ops.yaml").expect("rows"), Table::default());
    let mut wrong = Vec::new();
    for case in cases() {
        let name = case.file_name().expect("a name").to_string_lossy().into_owned();
        let (sources, file) = Files::read(&case, name.as_str()).expect("a case in files").sources();
        let upstream = if name.starts_with("downstream_") { &own } else { &alone };
        let (_, diags, sources) = common::checked_below(sources, file, upstream);
        assert!(!diags.is_empty(), "{name} is right");
        let found = report(&diags, &sources);
        let expected = case.with_extension("stderr");
        if update {
            fs::write(&expected, &found).expect("the expectation is written");
        } else if fs::read_to_string(&expected).unwrap_or_default() != found {
            wrong.push(format!("--- {name} (UPDATE_EXPECT=1 accepts)\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each `ok/*.yaml` has rows similar to wrong ones of `err`, and passes without a message.
#[test]
fn right_databases_pass() {
    let cases = databases("tests/ok");
    assert!(!cases.is_empty(), "the folder of right databases");
    for case in cases {
        let name = case.file_name().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(&case).expect("a case is text");
        let (diags, sources) = common::check(&name, &text);
        assert!(diags.is_empty(), "{name}:\n{}", report(&diags, &sources));
    }
}

#[test]
fn every_code_has_a_case() {
    let mut codes: Vec<String> = Vec::new();
    for case in cases() {
        let text = fs::read_to_string(&case).expect("a case is text");
        let (diags, _) = common::check("case.yaml", &text);
        codes.extend(diags.sorted().iter().map(|diag| diag.code.to_owned()));
    }
    // pages with a trigger are those of codes that a row can give
    let given = PAGES.iter().filter(|page| page.text.contains("```yaml"));
    let missing: Vec<&str> = given.map(|page| page.code).filter(|code| !codes.iter().any(|met| met == code)).collect();
    assert!(missing.is_empty(), "no case in tests/err for {missing:?}");
}

#[test]
fn tried_rows_are_read() {
    let (database, diags, sources) = read("rows.yaml", &tried());
    assert!(diags.is_empty(), "{}", report(&diags, &sources));
    assert_eq!(database.rows.len(), 82);
    for row in &database.rows {
        let lowered = row.lower_to_row();
        assert_eq!(lowered.sig, row.sig.tree);
        assert_eq!(lowered.require.len(), row.require.len());
        assert_eq!(sources.text(row.op.place), row.op.as_str());
    }
}

/// The places of names in a signature point at these names in the file.
#[test]
fn places_point_into_the_file() {
    for text in [tried(), tried().replace('\n', "\r\n"), format!("\u{feff}# é\n{}", tried())] {
        let (database, _, sources) = read("rows.yaml", &text);
        assert_eq!(database.rows.len(), 82);
        for row in &database.rows {
            places_of(row, &sources);
        }
    }
}

fn places_of(row: &RowSource, sources: &Sources) {
    let shows = |text: &Text, ident: &Ident| {
        let place = text.at(ident.span);
        assert_eq!(sources.text(place), ident.name.as_str(), "{} at {}", row.op.as_str(), sources.show(place));
    };
    let sig = &row.sig.tree;
    sig.params.iter().for_each(|param| shows(&row.sig.text, &param.name));
    sig.opts.iter().for_each(|opt| shows(&row.sig.text, &opt.name));
    if sig.named_outs {
        sig.outs.iter().chain(&sig.aux).for_each(|out| shows(&row.sig.text, &out.name));
    }
    let (Body::Expr(rule) | Body::View(rule) | Body::Decomp(rule)) = &row.body else { return };
    let text = &rule.text;
    // Every byte of the text that is no line break stands in the file as it is.
    for (at, letter) in text.as_str().char_indices().filter(|(_, c)| !c.is_whitespace()) {
        let place = text.at(Span::new(at, at + letter.len_utf8()));
        assert_eq!(sources.text(place), letter.to_string(), "{} at {}", row.op.as_str(), sources.show(place));
    }
}

#[test]
fn a_pointwise_row_needs_no_signature() {
    let rows = "ops:\n- op: mish\n  doc: Self-regularised activation\n  promote: float\n  expr: |\n    let s = softplus(y);\n    x * tanh(s + PI) + y\n";
    let (database, diags, sources) = read("ops.yaml", rows);
    assert!(diags.is_empty(), "{}", report(&diags, &sources));
    assert_eq!(database.rows[0].sig.tree.to_string(), "(y: T, x: T) -> T");
}

#[test]
fn broken_rows_keep_their_names() {
    let rows =
        "ops:\n- op: one\n  doc: d\n  promote: float\n  expr: x +\n- op: two\n  doc: d\n  promote: float\n  expr: x\n";
    let (database, diags, _) = read("ops.yaml", rows);
    assert_eq!(diags.errors(), 1);
    assert_eq!(database.broken.iter().map(|name| name.as_str()).collect::<Vec<_>>(), ["one"]);
    assert_eq!(database.rows.len(), 1);
}

#[test]
fn json_has_one_object_per_line() {
    let (_, diags, sources) = read("ops.yaml", "ops:\n- op: é\n  doc: d\n  expr: x\n");
    let json = render::json(&diags, &sources);
    assert_eq!(json.lines().count(), 1);
    let object: serde_json::Value = serde_json::from_str(&json).expect("an object");
    assert_eq!(object["v"], 1);
    assert_eq!(object["code"], "E012");
    assert_eq!((object["line"].as_u64(), object["column"].as_u64()), (Some(2), Some(7)));
    assert_eq!((object["byte_start"].as_u64(), object["byte_end"].as_u64()), (Some(11), Some(13)));
}

#[test]
fn colour_only_on_request() {
    let (_, diags, sources) = read("ops.yaml", "ops:\n- op: E\n");
    assert!(!report(&diags, &sources).contains('\u{1b}'));
    let style = Style { color: true, ..Style::default() };
    assert!(render::text(&diags, &sources, style).contains('\u{1b}'));
}

/// Any file gets an answer, and its messages can be rendered.
#[test]
fn hostile_files_are_answered() {
    let rows = tried();
    let mut texts: Vec<String> = [
        "",
        "\u{feff}",
        "\0",
        "ops",
        "ops:",
        "ops: 1",
        "ops: [1, [2], {}]",
        "ops:\n- {[a]: b, {c: d}: e, ? f : g}",
        "ops:\n-\n- ~\n- []",
        "ops:\n- op: a\n  doc: |\n  expr: |\n\n\n",
        "ops:\n- op: a\n  doc: d\n  expr: |2\n      x\n     + 1\n",
        "? ? ?",
        "&a [*a]",
        "a: &a [*a, *a]",
        "!!binary x: !!set {a, b}",
        "%TAG ! tag:x,2000:\n---\na: !b c",
        "'",
        "\"\\u",
        "- - - - - -",
        "ops:\n- op: |\n    x\n  expr: >-\n    y",
        "ops:\n- op: a\r  doc: b\r",
        "1e999: .nan",
    ]
    .map(str::to_owned)
    .to_vec();
    for unit in ["[", "{", "{a: ", "- ", "a: [", "? ", "[[[[,", "&a ", "!a ", "'", "#\n", "\n", "a: |\n "] {
        texts.push(unit.repeat(20_000));
        texts.push(format!("ops:\n{}", unit.repeat(300)));
    }
    let bomb: String = (1..40).map(|i| format!("a{i}: &a{i} [*a{}, *a{}]\n", i - 1, i - 1)).collect();
    texts.push(format!("a0: &a0 x\n{bomb}"));
    texts.push("x".repeat(fulgurite_codegen::yaml::MAX_BYTES + 1));
    let mut state = 7u64;
    let mut random = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    for _ in 0..150 {
        let mut bytes = rows.as_bytes()[..2000 + random(3000)].to_vec();
        for _ in 0..1 + random(4) {
            let at = random(bytes.len());
            match random(3) {
                0 => drop(bytes.remove(at)),
                1 => bytes.insert(at, b"&*!|>'\"#:-?{}[],\n\t @%"[random(21)]),
                _ => bytes[at] = b"&*!|>'\"#:-?{}[],\n\t @%"[random(21)],
            }
        }
        texts.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    for text in texts {
        let (_, diags, sources) = read("ops.yaml", &text);
        for diag in diags.sorted() {
            let place = diag.primary.place;
            assert!(sources.file(place.file).text.get(place.range()).is_some(), "{diag:?}");
        }
        report(&diags, &sources);
        render::json(&diags, &sources);
    }
}

#[test]
fn a_name_of_a_database_that_is_used_is_taken() {
    let row = "ops:\n- op: twice\n  doc: Double\n  promote: float\n  expr: 2 * x\n";
    let upstream = pipeline::read_rows(row, "ops.yaml").expect("rows");
    let refused = pipeline::compile(row, "rows.yaml", &upstream).err().expect("the name is taken");
    let found: Vec<String> = refused.diagnostics.sorted().iter().map(|d| format!("{} {}", d.code, d.message)).collect();
    assert_eq!(found, ["E008 there are two rows `twice`"]);
    // an overload is another row, but accepts the calls of the row that is used
    let overload = row.replace("op: twice", "op: twice.mine");
    let refused = pipeline::compile(&overload, "rows.yaml", &upstream).err().expect("the call is taken");
    let found: Vec<String> = refused.diagnostics.sorted().iter().map(|d| format!("{} {}", d.code, d.message)).collect();
    assert_eq!(found, ["E113 `twice` and `twice.mine` both accept a call"]);
}
