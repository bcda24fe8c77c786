//! Grades never fall, and nothing in our database is only claimed.

#[path = "../../tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fulgurite_codegen::check;
use fulgurite_codegen::diag::Diagnostics;
use fulgurite_codegen::grade::Grade;
use fulgurite_codegen::pipeline::Table;
use fulgurite_codegen::schema::read_database;
use fulgurite_codegen::source::{FileId, Sources};
use fulgurite_core::lower::NoRows;
use fulgurite_ops_verbs::explain::grades::{self, GradedRow};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn graded(text: &str) -> Vec<GradedRow> {
    let mut sources = Sources::default();
    let file = sources.add("ops.yaml", text);
    graded_sources(&sources, file)
}

fn graded_sources(sources: &Sources, file: FileId) -> Vec<GradedRow> {
    let mut diags = Diagnostics::new();
    let database = read_database(file, sources, &mut diags);
    let checked = check::run(&database, &NoRows, &mut diags);
    let mut table = Table::default();
    checked.rows.iter().for_each(|row| table.insert(row.clone()));
    grades::all(&database, &checked, &table)
}

/// Per row and claim: the index of its grade, which is larger for lower grades.
type Ladder = BTreeMap<String, BTreeMap<String, usize>>;

fn ladder(rows: &[GradedRow]) -> Ladder {
    let claims = |row: &GradedRow| row.claims.iter().map(|c| (c.what.replace(' ', "_"), c.grade.index())).collect();
    rows.iter().map(|row| (row.op.clone(), claims(row))).collect()
}

/// One line per row: `softmax shapes=checked values=tested`.
fn written(ladder: &Ladder) -> String {
    let mut text = "# How far each claim about each row holds: a test refuses what falls. `UPDATE_EXPECT=1 cargo test -p\n\
                    # fulgurite-ops-verbs --test grades` writes what rose, is new or is gone; a fall is written by hand.\n"
        .to_owned();
    for (op, claims) in ladder {
        let claims: Vec<String> = claims.iter().map(|(what, n)| format!("{what}={}", Grade::WORDS[*n])).collect();
        text += &format!("{op} {}\n", claims.join(" "));
    }
    text
}

fn read(text: &str) -> Ladder {
    let mut ladder = Ladder::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let op = words.next().expect("a row");
        let claim = |word: &str| {
            let (what, grade) = word.rsplit_once('=')?;
            Some((what.to_owned(), Grade::WORDS.iter().position(|known| *known == grade)?))
        };
        let claims = words.map(|word| claim(word).unwrap_or_else(|| panic!("`{word}` of `{op}` is no grade")));
        ladder.insert(op.to_owned(), claims.collect());
    }
    ladder
}

/// Claims whose grade is lower than before.
fn falls(before: &Ladder, now: &Ladder) -> Vec<String> {
    let mut falls = Vec::new();
    for (op, claims) in before {
        for (what, was) in claims {
            if let Some(is) = now.get(op).and_then(|claims| claims.get(what))
                && is > was
            {
                falls.push(format!("{op}: {what} was {}, is {}", Grade::WORDS[*was], Grade::WORDS[*is]));
            }
        }
    }
    falls
}

#[test]
fn no_grade_falls_and_nothing_is_only_claimed() {
    let (sources, file) = common::joined_sources();
    let rows = graded_sources(&sources, file);
    let claimed: Vec<&str> = rows
        .iter()
        .filter(|row| row.claims.iter().any(|claim| claim.grade == Grade::Claimed))
        .map(|row| row.op.as_str())
        .collect();
    assert!(claimed.is_empty(), "only claimed: {claimed:?}");
    let path = root().join("codegen/verbs/tests/grades.txt");
    let stands = fs::read_to_string(&path).unwrap_or_default();
    let (before, now) = (read(&stands), ladder(&rows));
    let falls = falls(&before, &now);
    assert!(
        falls.is_empty(),
        "grades fell; mend the rows, or write the fall into codegen/verbs/tests/grades.txt:\n{}",
        falls.join("\n")
    );
    let made = written(&now);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        return fs::write(path, made).expect("the grades are written");
    }
    assert!(
        stands == made,
        "rows or claims are new or gone, or grades rose: accept with UPDATE_EXPECT=1 cargo test -p fulgurite-ops-verbs \
         --test grades"
    );
}

/// A derived gradient is proved, a row without a gradient has no grade, and a gradient that could be compared with
/// nothing is only claimed. Falls are reported.
#[test]
fn grades_say_how_far_a_claim_holds() {
    let row = |keys: &str| {
        format!("ops:\n- op: twice\n  doc: x + x\n  sig: '(x: T) -> T'\n  promote: default\n  dtypes: float\n{keys}")
    };
    let gradient = |keys: &str| graded(&row(keys))[0].gradient().map(Grade::word);
    assert_eq!(gradient("  expr: x + x\n"), Some("proved"));
    assert_eq!(gradient("  expr: x + x\n  no_grad: nobody asks\n"), None);
    let nowhere = "  expr: x + x + nan\n  grad: {x: 'g as T'}\n";
    assert_eq!(gradient(nowhere), Some("claimed"));
    let (better, worse) = (ladder(&graded(&row("  expr: x + x\n"))), ladder(&graded(&row(nowhere))));
    assert_eq!(falls(&better, &worse), ["twice: d/dx was proved, is claimed"]);
    assert_eq!(falls(&worse, &better), [""; 0]);
    assert_eq!(read(&written(&worse)), worse);
}
